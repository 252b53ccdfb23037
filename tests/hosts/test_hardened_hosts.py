"""Hosts whose image sets the umask 077, so that new files are private to their owners."""

from __future__ import annotations

import re

import pytest
import yaml
from local_cloud.testing import bare_hosts

from .cluster import FILE_SYSTEM, Cluster

REGION = "us-east-1"

# This umask is stricter than the umask that hardening guides recommend. Ubuntu enables pam_umask by default.
HARDEN = (
    "sudo sed -i 's/^UMASK.*/UMASK 077/' /etc/login.defs && "
    "echo 'session optional pam_umask.so' | sudo tee -a /etc/pam.d/common-session >/dev/null"
)

# Prints what the job's user can read of a file that root created.
SCRIPT = """
    import json, os, pathlib
    pathlib.Path("/dev/shm/left").touch()
    print(len(json.load(open("/opt/deeplearning/metadata.json"))["workers"]), "workers in", os.environ["DEEPLEARNING_WORKERS_PATH"])
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hardened")
    with bare_hosts(folder, count=2) as (runtime, hosts):
        for host in hosts:
            host.ssh(HARDEN)
            assert host.ssh("umask; sudo sh -c umask").stdout.split() == ["0077", "0077"]
        cluster = Cluster(folder, runtime, hosts)
        runtime.export(FILE_SYSTEM, [f"{FILE_SYSTEM}.efs.{REGION}.amazonaws.com"])
        cluster.trust()
        yield cluster


@pytest.mark.exhaustive
def test_the_roles_make_what_users_can_read(cluster):
    settings = {"deeplearning_file_system_id": FILE_SYSTEM, "deeplearning_region": REGION}
    roles = [f"deeplearning.cluster.{name}" for name in ("shared_storage", "worker_metadata")]
    playbook = cluster.folder / "configure.yml"
    playbook.write_text(yaml.safe_dump([{"hosts": "trainers", "gather_facts": False, "vars": settings, "roles": roles}]))
    result = cluster.play(str(playbook))
    assert result.returncode == 0, result.stdout + result.stderr
    for host in cluster.hosts:
        assert host.ssh("bash -lc 'wc -l < $DEEPLEARNING_WORKERS_PATH'").stdout.strip() == "2"
        assert host.ssh("ssh -o BatchMode=yes -o StrictHostKeyChecking=yes deeplearning-worker2 echo trusted").stdout.strip() == "trusted"
    assert len(re.findall("changed=0 ", cluster.play(str(playbook)).stdout)) == 2


@pytest.mark.exhaustive
def test_a_job_runs_and_cleans_up(cluster):
    result = cluster.train("private", SCRIPT, launcher="command", command=["python3", "private.py"], python="/usr/bin/python3")
    assert result.returncode == 0, result.stdout + result.stderr
    for rank, host in enumerate(cluster.hosts):
        assert cluster.read(f"/efs/jobs/private/logs/rank{rank}.log") == "2 workers in /opt/deeplearning/workers\n"
        assert host.ssh("sudo ls /run/deeplearning/shm/private").stdout == ""
