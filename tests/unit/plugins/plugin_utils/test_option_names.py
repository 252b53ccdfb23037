"""Tests of the names by which the users of a task know its options."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.message_parts import ARGUMENT_SPEC
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.options.registry import OPTIONS
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import option_names
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.variable_names import known_variables

ROLES = ["deeplearning.cluster.provision", "deeplearning.cluster.emr_cluster"]


def task(role, **args):
    return SimpleNamespace(_role=role and SimpleNamespace(get_name=lambda: role), args=args)


@pytest.mark.parametrize(
    ("role", "text", "expected"),
    [
        ("deeplearning.cluster.training_job", "gpus: 9 does not exist: x", "training_job_gpus: 9 does not exist: x"),
        ("deeplearning.cluster.training_job", "key: is missing.", "key: is missing."),
        ("deeplearning.cluster.training_job", "name of nothing", "name of nothing"),
        ("deeplearning.cluster.training_job", "resume: a value says so", "resume: a value says so"),
        ("deeplearning.cluster.slurm", "gpus: 9", "gpus: 9"),
        ("team.training.training_job", "gpus: 9", "gpus: 9"),
        (None, "gpus: 9", "gpus: 9"),
    ],
)
def test_a_message_of_a_host_begins_with_the_variable_of_the_role(role, text, expected):
    assert option_names.of_host_role(task(role, name="x", gpus=[9], key="x"), text) == expected


@pytest.mark.parametrize("role", ROLES)
def test_each_option_of_a_provisioning_role_has_the_name_of_a_variable(role):
    names = [option.name for option in OPTIONS if option.has_variable]
    assert {option_names.name_of(task(role, **dict.fromkeys(names)), name) for name in names} <= {*known_variables()}


@pytest.mark.parametrize(("role", "prefix"), [*((role, "deeplearning_") for role in ROLES), ("team.training.provision", ""), (None, "")])
def test_a_provisioning_module_gets_what_its_messages_need(monkeypatch, role, prefix):
    monkeypatch.setattr(option_names, "run_options", lambda: "-i x ")
    arguments = option_names.message_arguments(task(role))
    assert arguments == {"option_prefix": prefix, "run_options": "-i x "}
    assert arguments.keys() == ARGUMENT_SPEC.keys()
