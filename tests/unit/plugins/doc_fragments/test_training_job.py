"""Tests of the documentation of a training job's options."""

from __future__ import annotations

import yaml
from ansible_collections.deeplearning.cluster.plugins.doc_fragments.training_job import ModuleDocFragment
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition.options import OPTIONS


def test_paragraphs_of_the_module_follow_those_that_it_shares_with_the_role():
    documented = yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"]
    option = next(option for option in OPTIONS if option.name == "stop_timeout")
    assert documented["stop_timeout"]["description"] == [*option.description, *option.of_module]
    assert option.of_module
    assert documented["secrets"]["type"] == "dict"
    assert "no_log" not in documented["secrets"]
