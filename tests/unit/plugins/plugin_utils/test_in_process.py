"""Tests of modules that run in the processes of their actions."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from ansible.template import trust_as_template
from ansible_collections.amazon.aws.plugins.module_utils import modules
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import AnsibleAWSModule
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import in_process

SPECIFICATION = {
    "cluster": {"type": "str", "required": True},
    "days": {"type": "int", "default": 3},
    "token": {"type": "str", "no_log": True},
}


@pytest.fixture
def result(monkeypatch):
    """Return a function that runs a module with the given body in this process, and returns its result."""
    monkeypatch.setattr(modules.AnsibleAWSModule, "default_settings", dict(modules.AnsibleAWSModule.default_settings))

    def run(body, **arguments):
        def main():
            body(AnsibleAWSModule(argument_spec=SPECIFICATION, supports_check_mode=True))

        monkeypatch.setattr(in_process, "import_module", lambda _name: SimpleNamespace(main=main))
        task = SimpleNamespace(action="deeplearning.cluster.some", check_mode=True, diff=False)
        return in_process.result_of(SimpleNamespace(_task=task), arguments)

    return run


def test_the_module_gets_valid_arguments_without_tags_and_returns_its_result(result):
    def body(module):
        module.warn("Careful.")
        kinds = [type(module.params["cluster"]) is str, module.check_mode]
        module.exit_json(changed=False, cluster=module.params["cluster"], days=module.params["days"], kinds=kinds, pair=(1, 2))

    found = result(body, cluster=trust_as_template("demo"), days="4")
    assert found == {"changed": False, "cluster": "demo", "days": 4, "kinds": [True, True], "pair": [1, 2], "warnings": ["Careful."]}


def test_a_failure_tells_no_secret(result):
    def body(module):
        try:
            raise ValueError("the token 12345678 has expired")
        except ValueError as error:
            module.fail_json_aws(error, valid=False)

    found = result(body, cluster="demo", token="12345678")
    assert (found["failed"], found["valid"], found["msg"]) == (True, False, "the token ******** has expired")


def test_ansible_reports_invalid_arguments(result):
    assert result(MagicMock(side_effect=AssertionError), days="many") is None


@pytest.mark.parametrize(
    ("task", "connection", "variables", "expected"),
    [
        ({}, {}, {}, True),
        ({"environment": [{"AWS_PROFILE": "other"}]}, {}, {}, False),
        ({"async_val": 10}, {}, {}, False),
        ({}, {"become": MagicMock()}, {}, False),
        ({}, {"transport": "ssh"}, {}, False),
        ({}, {}, {"ansible_python_interpreter": "/usr/bin/python2"}, False),
        ({"delegate_to": "node"}, {}, {"ansible_delegated_vars": {"node": {"ansible_python_interpreter": "/usr/bin/python2"}}}, False),
    ],
)
def test_only_a_module_that_would_run_in_the_same_way_runs_in_the_process(task, connection, variables, expected):
    action = SimpleNamespace(
        _task=SimpleNamespace(**{"delegate_to": None, "environment": [None], "async_val": 0, **task}),
        _connection=SimpleNamespace(**{"transport": "local", "become": None, **connection}),
        _templar=SimpleNamespace(template=lambda value: value),
    )
    assert in_process.is_possible(action, {"ansible_python_interpreter": sys.executable, **variables}) is expected
