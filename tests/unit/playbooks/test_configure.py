from __future__ import annotations

import json
import os
from pathlib import Path

import ansible_commands
import pytest

from unit.ansible_templates import evaluated, loaded

PLAYBOOKS = Path(__file__).resolve().parents[3] / "playbooks"
RIGHT, WRONG = ({"__node_configuration": {"results": [{"configured": True}, {"configured": right}]}} for right in (True, False))
NOT_CHECKED = {"__node_configuration": {"results": [{"skipped": True}]}}
WITHOUT_STORAGE = {"__node_configuration": {"results": [], "skipped": True}}


@pytest.mark.parametrize(
    ("variable", "value", "kind"),
    [
        ("ssh_trust_validity_days", "soon", "an integer"),
        ("shared_storage_mounts", 7, "a list"),
        ("node_setup_steps", [7], "a list of dictionaries"),
    ],
)
def test_values_of_the_wrong_type_are_refused_before_a_host_is_configured(tmp_path, variable, value, kind):
    """The roles do not check their variables on each host."""
    inventory = {"trainers": {"hosts": {"a": {"ansible_host": "127.0.0.1", "ansible_port": 1}}, "vars": {variable: value}}}
    (tmp_path / "inventory.json").write_text(json.dumps({**inventory, "all": {"vars": {"deeplearning_cluster": "c"}}}))
    command = ["ansible-playbook", "-i", "inventory.json", "deeplearning.cluster.configure"]
    done = ansible_commands.run(command, os.environ, tmp_path)
    assert done.returncode != 0
    message = " ".join(done.stdout.split()).partition(f"{variable}: ")[2]
    assert f"has the wrong type. Specify {kind}" in message, done.stdout + done.stderr
    assert "PLAY [Configure" not in done.stdout


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ([RIGHT, RIGHT], "trainers:!trainers"),
        ([RIGHT, WRONG], "trainers"),
        ([RIGHT, NOT_CHECKED], "trainers"),
        ([RIGHT, WITHOUT_STORAGE], "trainers"),
        ([RIGHT, {}], "trainers"),
        ([{}, {}], "trainers"),
    ],
)
def test_nodes_are_configured_unless_each_of_them_was_found_to_be_configured(hosts, expected):
    """In a run that configures the nodes without a job, the play that checks the nodes has no hosts."""
    *_others, checks, configures, _lease, _idle = loaded(PLAYBOOKS / "configure.yml")
    hostvars = {f"node{number}": variables for number, variables in enumerate(hosts)}
    given = {"hostvars": hostvars, "groups": {"trainers": [*hostvars]}}
    assert evaluated(configures["hosts"], configures["vars"], **given) == expected
    assert evaluated(checks["hosts"], job_follows=True) == "trainers"
    assert evaluated(checks["hosts"]) == "trainers:!trainers"
