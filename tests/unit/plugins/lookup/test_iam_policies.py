"""Tests of the policies that people get from the installed collection."""

from __future__ import annotations

import json
import os
from pathlib import Path

import ansible_commands
import pytest
import yaml
from ansible.errors import AnsibleError
from ansible_collections.deeplearning.cluster.plugins.lookup.iam_policies import DOCUMENTATION, LookupModule
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.iam_account import PARTITIONS

ROOT = Path(__file__).resolve().parents[4]


def look_up(*terms, **options):
    defaults = {"adopt": [], "permissions_boundary": "", "partition": "aws", "region": ""}
    module = LookupModule()
    module.set_options = lambda **_: None
    module.get_option = {**defaults, **options}.__getitem__
    return module.run(terms)


def test_the_policies_are_those_of_the_documentation():
    (found,) = look_up("example-*")
    assert found == {path.stem: json.loads(path.read_text()) for path in (ROOT / "docs/policies").glob("*.json")}


def test_the_options_limit_the_policies():
    boundary, bucket = "arn:aws-cn:iam::123456789012:policy/bound", "arn:aws-cn:s3:::data"
    (found,) = look_up("bert", partition="aws-cn", region="cn-north-1", permissions_boundary=boundary, adopt=[bucket])
    text = json.dumps(found)
    assert boundary in text
    assert bucket in text
    assert '"aws:RequestedRegion": "cn-north-1"' in text
    assert "arn:aws:" not in text


def test_all_partitions_can_be_chosen():
    assert yaml.safe_load(DOCUMENTATION)["options"]["partition"]["choices"] == list(PARTITIONS)


@pytest.mark.parametrize("term", ["", None, ["bert"]])
def test_a_cluster_must_be_named(term):
    with pytest.raises(AnsibleError, match="the name of the cluster is missing"):
        look_up(term)


def test_the_playbook_writes_the_same_files_to_the_working_directory(tmp_path):
    """A security team has the installed collection only: no checkout, no inventory and no credentials."""
    command = ["ansible-playbook", "deeplearning.cluster.policies", "-e", "policies_cluster='example-*'"]
    done = ansible_commands.run(command, os.environ, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    written = {path.name: path.read_text() for path in (tmp_path / "policies").iterdir()}
    assert written == {path.name: path.read_text() for path in (ROOT / "docs/policies").iterdir()}
    done = ansible_commands.run(command[:2], os.environ, tmp_path)
    assert "policies_cluster: missing." in done.stdout
