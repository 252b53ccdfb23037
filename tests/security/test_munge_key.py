"""Tests that check which node's MUNGE key a cluster uses if nodes lie about their keys."""

from __future__ import annotations

import base64
import json
import os
import stat
import sys
from pathlib import Path

import ansible_commands
import pytest
import yaml

MASTER, SECOND, THIRD = "bert-master", "bert-worker2", "bert-worker3"
OLD, NEW = (base64.b64encode(bytes([number]) * 128).decode() for number in (1, 2))
HARDWARE = {"cpus": 8, "sockets": 1, "cores": 4, "threads": 2, "memory": 30000, "gpus": 0, "gpu_type": "", "disk": 1000}

# A node's Python, which prints results in the format of the role's modules, with the key from a file or with lies about the key.
PYTHON = """\
#!{python}
import json, os, re, sys
folder, payload = {folder!r}, sys.stdin.read()
path = os.path.join(folder, "key")
own = open(path).read() if os.path.exists(path) else ""
module = re.search(r"modules\\.(slurm\\w*|munge_key)", payload)[1]
answer = {{"changed": False}}
if module == "slurm_info":
    answer.update(hardware={hardware!r}, missing_packages=[], cgroups=True, key_digest="0123456789ab" if own or {lie!r} is not None else "")
elif module == "munge_key":
    given = re.search(r'"key": *"([^"]+)"', payload)
    replaced = re.search(r'"replace": *true', payload)
    if {lie!r} is None:
        key = given[1] if given else own if own and not replaced else {new!r}
        open(path, "w").write(key)
        answer.update({{}} if given else {{"key": key}})
    else:
        answer.update({lie!r})
else:
    answer.update(failed=True, msg="the end")
print(json.dumps(answer))
"""


class Cluster:
    """Three nodes with the keys that a test gives them. `lies` contains the results from nodes that lie about their keys."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, keys: dict[str, str], lies: dict[str, dict] | None = None, definition: dict | None = None, **variables: object) -> str:
        hosts = {}
        for number, name in enumerate((MASTER, SECOND, THIRD), 1):
            place = self.folder / name
            place.mkdir()
            if keys.get(name):
                (place / "key").write_text(keys[name])
            python = place / "python"
            lie = (lies or {}).get(name)
            python.write_text(PYTHON.format(python=sys.executable, folder=str(place), hardware=HARDWARE, lie=lie, new=NEW))
            python.chmod(python.stat().st_mode | stat.S_IEXEC)
            hosts[name] = {
                "ansible_connection": "local",
                "ansible_become": False,
                "ansible_user": "ubuntu",
                "ansible_python_interpreter": str(python),
                "deeplearning_cluster": "bert",
                "deeplearning_number": number,
                "deeplearning_hostname": name,
                "deeplearning_private_ip": f"10.0.0.{number}",
            }
        inventory, book = self.folder / "inventory.yml", self.folder / "play.yml"
        inventory.write_text(yaml.safe_dump({"all": {"vars": definition or {}}, "trainers": {"hosts": hosts}}))
        play = {"hosts": "trainers", "gather_facts": False, "roles": ["deeplearning.cluster.slurm"], "vars": variables}
        book.write_text(yaml.safe_dump([play]))
        (self.folder / "ansible.cfg").write_text("[defaults]\ninject_facts_as_vars = false\n")
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "true",
        }
        done = ansible_commands.run(["ansible-playbook", "-i", str(inventory), str(book)], environment, self.folder)
        assert OLD not in done.stdout + done.stderr
        assert NEW not in done.stdout + done.stderr
        return done.stdout + done.stderr

    def keys(self) -> list[str]:
        paths = [self.folder / name / "key" for name in (MASTER, SECOND, THIRD)]
        return [path.read_text() if path.exists() else "" for path in paths]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_a_new_master_gets_the_key_of_another_node(cluster):
    said = cluster.run({SECOND: OLD, THIRD: OLD})
    assert cluster.keys() == [OLD] * 3
    assert "is on a file system that the cluster does not own" not in said


@pytest.mark.parametrize("lie", [{}, {"key": "x"}], ids=json.dumps)
def test_a_node_that_claims_a_key_and_gives_none_stops_nobody(cluster, lie):
    said = cluster.run({}, {SECOND: lie})
    assert cluster.keys() == [NEW, "", NEW], said


def test_an_honest_node_has_the_key_although_another_one_lies(cluster):
    cluster.run({THIRD: OLD}, {SECOND: {}})
    assert cluster.keys() == [OLD, "", OLD]


def test_a_replaced_key_does_not_come_back(cluster):
    cluster.run({MASTER: OLD, SECOND: OLD, THIRD: OLD}, slurm_replace_key=True)
    assert cluster.keys() == [NEW] * 3


def test_not_even_from_a_node_that_kept_it(cluster):
    said = cluster.run({THIRD: OLD}, definition={"deeplearning_file_system_id": "fs-0123456789abcdef0"}, slurm_replace_key=True)
    assert cluster.keys() == [NEW] * 3
    assert "/efs/slurm-bert is on a file system that the cluster does not own. Anyone who can write there" in " ".join(said.split())
