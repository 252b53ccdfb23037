"""A job on hosts in a hand-written inventory. The files are those that the role's README shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .cluster import job_cluster

README = Path(__file__).resolve().parents[2] / "roles" / "training_job" / "README.md"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("own"), [], count=2) as result:
        yield result


def test_a_job_runs_on_hosts_of_the_users_own_inventory(cluster):
    shown = dict(re.findall(r"`([a-z]+\.yml)`:\n\n```yaml\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL))
    for number, host in enumerate(cluster.hosts, 1):
        shown["hosts.yml"] = shown["hosts.yml"].replace(f"192.0.2.1{number}", host.private_ip)
    for name, text in shown.items():
        (cluster.folder / name).write_text(text)
    (cluster.folder / "train.py").write_text("import os\nprint('on', os.environ['DEEPLEARNING_RANK'], os.uname().nodename)\n")
    cluster.inventory = cluster.folder / "hosts.yml"
    login = {
        "ansible_ssh_private_key_file": str(cluster.hosts[0].key_file),
        "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
        "ansible_ssh_pipelining": False,  # the default of Ansible
    }
    job = {"training_job_name": "own", "training_job_launcher": "command", "training_job_python": "/usr/bin/python3"}
    done = cluster.play("lab.yml", "-e", json.dumps({**login, **job}))
    assert done.returncode == 0, done.stdout + done.stderr
    assert [cluster.read(f"/efs/jobs/own/logs/rank{rank}.log") for rank in (0, 1)] == ["on 0 lab-1\n", "on 1 lab-2\n"]
    status = cluster.play("deeplearning.cluster.status", "-e", json.dumps(login))
    assert "own succeeded after" in status.stdout, status.stdout + status.stderr
