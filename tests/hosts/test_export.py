"""Exports of jobs from a real host to S3, with only the credentials of the host's role."""

from __future__ import annotations

import json
import re

import pytest
from local_cloud.testing import wait_until

from .exports import BUCKET, DESTINATION, export_cluster

# Creates results, creates links to files outside the job, and fails.
HOSTILE = """
    import os, pathlib, sys
    directory = pathlib.Path(os.environ["DEEPLEARNING_JOB_DIRECTORY"])
    (directory / "checkpoints/step-10.pt").write_bytes(b"0" * 9_000_000)
    (directory / "checkpoints/step-20.pt.tmp").write_text("half")
    (directory / "logs/shadow").symlink_to("/etc/shadow")
    (directory / "logs/passwd").symlink_to("/etc/passwd")
    (directory / "everything").symlink_to("/")
    os.mkfifo(directory / "logs/fifo")
    print("the end")
    sys.exit(3)
"""
SURVIVES = """
    import os, pathlib, time
    attempt, folder = os.environ["DEEPLEARNING_ATTEMPT"], pathlib.Path(os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"])
    if os.environ["DEEPLEARNING_RANK"] == "0":
        (folder / f"step-{attempt}.pt").write_text(attempt)
    while attempt == "1" or not (folder.parent / "go").exists():
        time.sleep(0.1)
    (folder / "step-3.pt").write_text("3")
"""
PATIENT = """
    import os, pathlib, time
    directory = pathlib.Path(os.environ["DEEPLEARNING_JOB_DIRECTORY"])
    print("step 1", flush=True)
    while not (directory / "go").exists():
        time.sleep(0.1)
    print("step 2", flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with export_cluster(tmp_path_factory.mktemp("export"), 1) as result:
        yield result


def test_a_failed_job_is_exported_without_what_it_links_to(cluster):
    trained = cluster.train("fails", HOSTILE)
    assert trained.returncode != 0
    assert "job fails failed: rank 0 on deeplearning-worker1 ended with exit status 3" in trained.stdout
    assert "was not exported" not in trained.stdout
    assert f"uploaded to {DESTINATION}/fails/" in trained.stdout
    exported = cluster.objects("fails")
    paths = {"checkpoints/step-10.pt", "code/fails.py", "job.json", "logs/rank0.log", "status/over", "status/rank0.json"}
    assert set(exported) == paths, "neither links nor incomplete checkpoints"
    assert exported["checkpoints/step-10.pt"] == 9_000_000, "it was uploaded in several parts"
    assert cluster.content("fails", "logs/rank0.log") == b"the end\n"
    assert cluster.info("fails")["export"]["destination"] == f"{DESTINATION}/fails/"

    status, shown = cluster.export("fails", "--check")
    assert (status, "fails: 0 (0 bytes) of 6 files" in shown) == (0, True), shown
    cluster.hosts[0].ssh("echo more | sudo tee -a /efs/jobs/fails/logs/rank0.log")
    status, shown = cluster.export("fails", "--check", "--diff")
    assert f"+{DESTINATION}/fails/logs/rank0.log" in shown
    assert cluster.content("fails", "logs/rank0.log") == b"the end\n"
    status, shown = cluster.export("fails")
    assert (status, "fails: 1 (13 bytes) of 6 files" in shown) == (0, True), shown
    assert cluster.content("fails", "logs/rank0.log") == b"the end\nmore\n"


@pytest.mark.exhaustive
def test_what_s3_denies_is_found_before_the_job_starts(cluster):
    trained = cluster.train("denied", PATIENT, export=f"s3://{BUCKET}/teams")
    assert trained.returncode != 0
    message = "Add the destination to deeplearning_export_destinations, and run deeplearning.cluster.provision"
    assert message in " ".join(trained.stdout.split())
    assert "Start the job" not in trained.stdout
    assert cluster.info("denied")["state"] == "pending"
    assert cluster.hosts[0].ssh("systemctl is-active deeplearning_export-denied.service", check=False).stdout.strip() == "inactive"


@pytest.mark.exhaustive
def test_a_running_job_is_exported_until_it_is_stopped(cluster):
    started = cluster.train("runs", PATIENT, wait=False, export_interval=1)
    assert started.returncode == 0, started.stdout + started.stderr
    wait_until(lambda: "logs/rank0.log" in cluster.objects("runs") and cluster.content("runs", "logs/rank0.log") == b"step 1\n")
    cluster.hosts[0].ssh("sudo touch /efs/jobs/runs/go")
    wait_until(lambda: cluster.content("runs", "logs/rank0.log") == b"step 1\nstep 2\n")
    properties = cluster.hosts[0].ssh("systemctl show -p User,NoNewPrivileges,ProtectHome deeplearning_export-runs.service").stdout
    assert set(properties.split()) == {"User=deeplearning", "NoNewPrivileges=yes", "ProtectHome=tmpfs"}
    cluster.stop("runs")
    wait_until(lambda: cluster.info("runs")["export"]["state"] == "succeeded")
    assert json.loads(cluster.content("runs", "status/rank0.json"))["state"] == "stopped"
    shown = cluster.play("deeplearning.cluster.status", "-e", "training_job_name=runs").stdout
    assert f"exported to {DESTINATION}/runs/ (succeeded, " in shown


def test_it_reads_what_the_jobs_user_can_read_and_no_more(cluster):
    cluster.hosts[0].ssh("sudo install -m 600 /etc/shadow /efs/jobs/fails/logs/shadow.txt")
    status, shown = cluster.export("fails")
    assert status != 0
    assert "These files cannot be exported: '/efs/jobs/fails/logs/shadow.txt' cannot be read: Permission denied" in shown
    assert "logs/shadow.txt" not in cluster.objects("fails")
    cluster.hosts[0].ssh("sudo rm /efs/jobs/fails/logs/shadow.txt")


@pytest.mark.exhaustive
def test_the_logs_of_nodes_are_uploaded(cluster):
    (host,) = cluster.hosts
    host.ssh("sudo install -d -m 700 /var/log/deeplearning-node-setup && echo installed | sudo tee /var/log/deeplearning-node-setup/a.log")

    def upload(*arguments, status=0, destination=DESTINATION):
        done = cluster.play("deeplearning.cluster.node_logs", "-e", f"node_logs_destination={destination}", *arguments)
        assert done.returncode == status, done.stdout
        return " ".join(done.stdout.split())

    assert "node_logs_destination: no destination is specified." in upload(status=2, destination="")
    assert "S3 denies this host access" in upload(status=2, destination=f"s3://{BUCKET}/other")
    upload("--check")
    assert cluster.objects("nodes") == {}
    prefix = re.search(rf"logs uploaded to {DESTINATION}/(nodes/[\w-]+worker1[\w-]*)/", upload()).group(1)
    assert {"cloud-init.log", "cloud-init-output.log", "setup/a.log"} <= cluster.objects(prefix).keys()
    assert cluster.content(prefix, "setup/a.log") == b"installed\n"

    host.ssh("sudo ln -sfn /etc/shadow /var/log/deeplearning-node-setup/a.log")
    assert "/var/log/deeplearning-node-setup/a.log" in upload(status=2)
    host.ssh("sudo rm /var/log/deeplearning-node-setup/a.log")


@pytest.mark.exhaustive
def test_another_host_continues_the_export_when_the_first_host_is_lost(tmp_path):
    """The controller takes no part: nothing runs on it after the start of the job."""
    with export_cluster(tmp_path, 2) as cluster:
        options = {"export_interval": 60, "restarts": 3, "min_hosts": 1, "heartbeat_timeout": 15}
        started = cluster.train("survives", SURVIVES, wait=False, **options)
        assert started.returncode == 0, started.stdout + started.stderr
        unit = "systemctl is-active deeplearning_export-survives.service"
        assert [host.ssh(unit).stdout.strip() for host in cluster.hosts] == ["active", "active"]
        first, second = cluster.hosts
        wait_until(lambda: second.ssh("sudo ls /efs/jobs/survives/checkpoints/step-1.pt", check=False).returncode == 0)
        cluster.cloud.client("ec2").terminate_instances(InstanceIds=[first.name])
        wait_until(lambda: "checkpoints/step-2.pt" in cluster.objects("survives"))
        assert cluster.info("survives", worker=2)["state"] == "running"
        second.ssh("sudo touch /efs/jobs/survives/go")
        wait_until(lambda: cluster.info("survives", worker=2)["export"]["state"] == "succeeded")
        assert "checkpoints/step-3.pt" in cluster.objects("survives")
        assert second.ssh(unit, check=False).stdout.strip() == "inactive"
