"""Tests that execution environments get what the collection needs on a controller."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import yaml
from ansible_collections.deeplearning.cluster.plugins.action import ssh_trust
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import LEAST_SDK
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
FILES = yaml.safe_load((ROOT / "meta" / "execution-environment.yml").read_text())["dependencies"]
REQUIREMENTS = [Requirement(line) for line in (ROOT / FILES["python"]).read_text().splitlines() if not line.startswith("#")]
LEAST = {each.name: str(each.specifier).removeprefix(">=") for each in REQUIREMENTS}


def test_the_versions_are_those_that_the_code_asks_for():
    assert (LEAST["boto3"], LEAST["botocore"]) == (LEAST_SDK, LEAST_SDK)
    assert f"cryptography {LEAST['cryptography']} or later" in ssh_trust.VERSION


def test_the_tests_run_with_versions_that_an_environment_can_have():
    assert [each.name for each in REQUIREMENTS if not each.specifier.contains(version(each.name))] == []


def test_an_environment_gets_the_programs_that_a_controller_runs():
    lines = [line for line in (ROOT / FILES["system"]).read_text().splitlines() if not line.startswith("#")]
    for platform, ssh in (("dpkg", "openssh-client"), ("rpm", "openssh-clients")):
        assert {line.split()[0] for line in lines if f"platform:{platform}" in line} == {"git", "rsync", ssh}
