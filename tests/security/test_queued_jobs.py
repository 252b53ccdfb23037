"""Tests that check which parameters of waiting jobs a new node gets if other nodes lie.

The new node itself checks the parameters: tests/unit/plugins/module_utils/_hosts/training_job/test_waiting.py.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import ansible_commands
import pytest
import yaml

MASTER, LIAR, NEW = "bert-master", "bert-worker2", "bert-worker3"
SECRET = "aG9yc2U="
JOB = {"name": "digits", "hosts": [MASTER, LIAR, NEW]}

# A node's Python, which prints the node's result for the state of the module, and records the module's arguments.
PYTHON = """\
#!{python}
import json, re, sys
payload = sys.stdin.read()
state = re.search(r'"state": *"(listed|examined|read)"', payload)
state = state[1] if state else "present"
if state == "present":
    open({record!r}, "w").write(payload)
print(json.dumps({{"changed": False, **{answers!r}.get(state, {{}})}}))
"""


def described(name: str, number: int, **jobs: object) -> dict:
    host = {"name": name, "address": f"10.0.0.{number}", "number": number, "gpus": [], "interface": "ens5", "efa": False}
    return {"host": host, "jobs": [], **jobs}


class Cluster:
    """Three nodes: a master and worker 2 that have the parameters of a job, and a new worker 3."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, **lies: dict) -> str:
        """Run the tasks of the role. `lies` contains results of worker 2 by state. Return the output."""
        answers: dict[str, dict] = {
            MASTER: {
                "listed": {"waiting": ["digits"]},
                "examined": described(MASTER, 1, jobs=[JOB]),
                "read": {"parameters": [{"name": "digits", "document": SECRET}]},
            },
            LIAR: {"examined": described(LIAR, 2, jobs=[JOB]), **lies},
            NEW: {"examined": described(NEW, 3)},
        }
        hosts = {}
        for number, (name, answer) in enumerate(answers.items(), 1):
            python = self.folder / f"{name}-python"
            python.write_text(PYTHON.format(python=sys.executable, record=str(self.folder / name), answers=answer))
            python.chmod(python.stat().st_mode | stat.S_IEXEC)
            hosts[name] = {
                "ansible_connection": "local",
                "ansible_become": False,
                "ansible_python_interpreter": str(python),
                "deeplearning_cluster": "bert",
                "deeplearning_number": number,
                "deeplearning_hostname": name,
                "deeplearning_private_ip": f"10.0.0.{number}",
            }
        (self.folder / "inventory.yml").write_text(yaml.safe_dump({"trainers": {"hosts": hosts}}))
        given = {"__queue_name": "slurm", "__queue_hosts": list(hosts), "__queue_master": MASTER}
        task = {"ansible.builtin.include_role": {"name": "deeplearning.cluster.queue", "tasks_from": "jobs.yml"}, "vars": given}
        (self.folder / "play.yml").write_text(yaml.safe_dump([{"hosts": "trainers", "gather_facts": False, "tasks": [task]}]))
        (self.folder / "ansible.cfg").write_text("[defaults]\ninject_facts_as_vars = false\n")
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "true",
        }
        command = ["ansible-playbook", "-i", "inventory.yml", "play.yml", "-vvv", "--diff"]
        done = ansible_commands.run(command, environment, self.folder)
        assert SECRET not in done.stdout + done.stderr
        return done.stdout + done.stderr

    def given(self, name: str) -> str:
        """Return what the node was given to write."""
        path = self.folder / name
        return path.read_text() if path.exists() else ""


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.mark.parametrize(
    "lie",
    [{"parameters": [{"name": "digits"}]}, {"parameters": [{"name": "other", "document": "b3RoZXI="}]}],
    ids=json.dumps,
)
def test_the_new_node_gets_the_parameters_although_another_node_lies(cluster: Cluster, lie: dict) -> None:
    said = cluster.run(read=lie)
    assert SECRET in cluster.given(NEW), said
    assert "b3RoZXI=" not in cluster.given(NEW), "worker 3 does not lack that job"
    assert cluster.given(MASTER)
    assert SECRET not in cluster.given(MASTER), "it has the parameters"


def test_a_node_cannot_claim_to_be_another_host_of_the_job(cluster: Cluster) -> None:
    said = cluster.run(examined=described(NEW, 3))
    assert f"{LIAR}: the result of queued_jobs is not valid: the host's number is 2 in the inventory, but 3 in the module result" in said
    assert SECRET in cluster.given(NEW)
    assert not cluster.given(LIAR)
