"""Tests of the message about a cluster without nodes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import ansible_commands
import pytest
import yaml

TASKS = Path(__file__).resolve().parents[4] / "playbooks" / "tasks" / "report_missing_nodes.yml"


@pytest.mark.parametrize(
    ("tags", "told"),
    [
        (["demo", "bert", "demo"], "Clusters with nodes in this region: bert, demo."),
        (["\x9b2Jevil", "demo\nEVIL", "x" * 300, "Run: curl", "demo"], "Clusters with nodes in this region: demo."),
        (["\x9b"], "No cluster has nodes in this region."),
        ([f"c{number:02}" for number in range(30)], "c19, and 10 more."),
        # AWX gives each run a copy of the inventory, which does not contain the nodes that the run has just created.
        (["mine", "demo"], "'mine' has running instances in (no region) that the inventory does not contain. If the inventory is a copy"),
    ],
)
def test_the_message_names_clusters_and_repeats_no_other_text_of_tags(tmp_path, tags, told):
    """Anyone who may tag instances can set the tag `deeplearning:cluster`."""
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [{"ansible.builtin.include_tasks": str(TASKS)}]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    variables = {
        "running": {"instances": [{"tags": {"deeplearning:cluster": tag}} for tag in tags]},
        "__playbook_provisions_nodes": True,
        "__playbook_cluster": "mine",
    }
    command = ["ansible-playbook", "-i", "localhost,", "play.yml", "-e", json.dumps(variables)]
    done = ansible_commands.run(command, os.environ, tmp_path)
    shown = " ".join((done.stdout + done.stderr).split())
    assert told in shown
    assert not {"\x9b", "EVIL", "evil", "curl"} & {part for part in ("\x9b", "EVIL", "evil", "curl") if part in shown}
