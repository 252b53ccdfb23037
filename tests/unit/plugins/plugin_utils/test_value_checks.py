"""Tests of the argument specs with which values are checked."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.plugin_utils.value_checks import argument_spec


def test_no_variable_of_a_role_is_required_for_its_check():
    assert not any("required" in option for role in ("dataset", "training_job") for option in argument_spec(role).values())
