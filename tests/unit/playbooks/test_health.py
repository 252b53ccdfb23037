"""Tests of what the playbook `health` refuses before it connects to a node."""

from __future__ import annotations

import json
import os

import ansible_commands


def test_a_check_with_the_name_of_a_check_of_the_collection_is_refused_by_the_controller(tmp_path):
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "disks").touch(mode=0o755)
    hosts = {f"c-{number}": {"ansible_host": "192.0.2.1", "deeplearning_number": number} for number in (1, 2)}
    variables = {"ansible_user": "ubuntu", "deeplearning_cluster": "c", "deeplearning_region": "us-east-1"}
    groups = {"children": {"trainers": {"hosts": hosts}}, "vars": variables}
    (tmp_path / "inventory.json").write_text(json.dumps({"all": groups}))
    command = ["ansible-playbook", "-i", "inventory.json", "deeplearning.cluster.health", "-e", "node_health_checks=checks"]
    done = ansible_commands.run(command, {**os.environ, "ANSIBLE_INJECT_FACT_VARS": "false"}, tmp_path)
    message = "node_health_checks: 'disks' is the name of one of the collection's checks. Rename the file."
    assert (done.returncode, message in done.stdout, "c-1" in done.stdout) == (2, True, False), done.stdout + done.stderr
