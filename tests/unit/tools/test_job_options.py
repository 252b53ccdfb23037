"""Tests that the files that are generated from the options of a job match their declarations."""

from __future__ import annotations

import job_options
import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition.options import OPTIONS, Option

DEFAULTS = yaml.safe_load((job_options.ROLE / "defaults" / "main.yml").read_text())
SPECS = yaml.safe_load((job_options.ROLE / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]["options"]


@pytest.mark.parametrize("path", job_options.files(), ids=lambda path: str(path.relative_to(job_options.ROOT)))
def test_a_file_is_what_the_declarations_give(path):
    assert path.read_text() == job_options.files()[path], "run python tools/job_options.py"


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_the_role_has_each_option_of_the_job(option):
    name = job_options.variable(option)
    assert DEFAULTS[name] == (option.default or option.spec.get("default", [] if option.spec["type"] == "list" else ""))
    assert SPECS[name]["type"] == option.spec["type"]
    assert SPECS[name].get("default", DEFAULTS[name]) == DEFAULTS[name]


def test_the_documentation_of_the_role_names_variables(monkeypatch):
    option = Option("rate", {"type": "int", "default": 1}, ["See O(queue=slurm)."], ["M"], ["R"])
    monkeypatch.setattr(job_options, "OPTIONS", (option,))
    assert yaml.safe_load(job_options.argument_specs())["training_job_rate"]["description"] == ["See O(training_job_queue=slurm).", "R"]
