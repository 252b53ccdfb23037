"""Tests that modules which use AWS show warnings without a deprecation, and share the SDK's descriptions of services."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import AnsibleAWSModule, AwsClient
from botocore.loaders import JSONFileLoader

# The module runs in a separate process, because Ansible stores warnings elsewhere in a process that has imported the controller's modules.
MODULE = f"""
from ansible.module_utils.testing import patch_module_args
from {AnsibleAWSModule.__module__} import AnsibleAWSModule

with patch_module_args():
    module = AnsibleAWSModule(argument_spec=dict())
    module.warn("the master has no public address")
    module.{{end}}
"""


@pytest.mark.parametrize("end", ["exit_json()", "fail_json(msg='no')"])
def test_a_warning_is_returned_once_and_without_a_deprecation(end):
    result = json.loads(subprocess.run([sys.executable, "-c", MODULE.format(end=end)], capture_output=True, text=True, check=False).stdout)
    assert len(result["warnings"]) == 1
    assert "the master has no public address" in str(result["warnings"])
    assert "deprecations" not in result


def test_tasks_do_not_load_a_service_that_the_inventory_has_loaded(monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    module = SimpleNamespace(params={"region": "us-east-1", "access_key": "a", "secret_key": "b"}, fail_json=None)
    AwsClient(module, "bert").client("ec2")
    monkeypatch.setattr(JSONFileLoader, "load_file", None)
    AwsClient(module, "bert").client("ec2")


def test_the_profile_of_the_definition_takes_precedence_over_an_unknown_one_in_the_environment(tmp_path, monkeypatch):
    config = tmp_path / "config"
    config.write_text("[profile prod]\nregion = us-east-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "unknown")
    module = SimpleNamespace(params={"region": "us-east-1", "profile": "prod"}, fail_json=None)
    assert AwsClient(module, "bert").client("ec2")
