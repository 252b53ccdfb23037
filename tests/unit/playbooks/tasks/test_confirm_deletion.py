"""Tests of what the playbook destroy shows before it asks for confirmation."""

from __future__ import annotations

import json
import os
from pathlib import Path

import ansible_commands
import yaml

PLAYBOOKS = Path(__file__).resolve().parents[4] / "playbooks"


def test_what_will_be_deleted_has_a_line_for_each_resource(tmp_path):
    tasks = yaml.safe_load((PLAYBOOKS / "tasks" / "confirm_deletion.yml").read_text())
    (shown,) = [task for task in tasks if task["name"] == "Show what will be deleted and what will be kept"]
    deleted = [{"action": "delete", "kind": kind, "key": "main"} for kind in ("nat_gateway", "vpc")]
    variables = {
        "deeplearning_cluster": "demo",
        "deeplearning_region": "us-east-1",
        "deeplearning_confirm": False,
        "provision_result": {"changes": deleted, "kept": ["fs-1"]},
    }
    play = {"hosts": "localhost", "gather_facts": False, "vars_files": [str(PLAYBOOKS / "vars" / "common.yml")], "tasks": [shown]}
    (tmp_path / "play.yml").write_text(json.dumps([{**play, "vars": variables}]))
    command = ["ansible-playbook", "-i", "localhost,", "play.yml"]
    environment = {**os.environ, "ANSIBLE_STDOUT_CALLBACK": "deeplearning.cluster.concise"}
    done = ansible_commands.run(command, environment, tmp_path)
    assert done.stdout.splitlines()[1:7] == [
        "  Cluster demo in us-east-1:",
        "    running nodes  none",
        "    to delete",
        "      - NAT gateway main",
        "      - VPC main",
        "    to keep        fs-1, with all data (continues to cost money)",
    ]
