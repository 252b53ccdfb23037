"""A cluster whose lease ends while a job is running: the job saves, AWS terminates the nodes, and a later run waits for a new lease."""

from __future__ import annotations

import json
import time

import pytest

# From the end of the lease to SIGTERM, and from the beginning of the run to the beginning of the job, in seconds.
ANNOUNCED, STARTS = 600, 150
SCRIPT = """
import pathlib, os, signal, sys, time
def save(*_signal):
    (pathlib.Path(os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"]) / f"rank{os.environ['DEEPLEARNING_RANK']}").write_text("saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("running until", pathlib.Path("/var/lib/deeplearning-lease").read_text(), flush=True)
while True:
    time.sleep(0.5)
"""
RUNNING = [{"Name": "tag:deeplearning:cluster", "Values": ["demo"]}, {"Name": "instance-state-name", "Values": ["pending", "running"]}]


def running(cloud):
    return [each for found in cloud.client("ec2").describe_instances(Filters=RUNNING)["Reservations"] for each in found["Instances"]]


@pytest.fixture
def play(playbook, tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    job = {"training_job_name": "leased", "training_job_source": str(tmp_path), "training_job_script": "train.py"}
    job |= {"training_job_launcher": "command", "training_job_arguments": []}
    values = {**job, "training_job_report_directory": str(tmp_path), "deeplearning_worker_count": 1}

    def run(name, status=0, **variables):
        finished = playbook(f"{name}.yml", "-e", json.dumps({**values, **variables}), policies="train+destroy", status=status)
        return " ".join(finished.output.split())

    yield run
    run("destroy", deeplearning_delete_data=True)


def test_a_job_saves_before_its_lease_ends_and_aws_terminates_the_nodes(cloud, play):
    end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + ANNOUNCED + STARTS))
    told = play("train", status=2, deeplearning_lease=end)
    assert "and the job has no time limit. 10 minutes earlier, the job gets SIGTERM" in told
    assert f"running until {end}" in told
    assert "was stopped because of the end of the lease of the nodes, which AWS terminates at" in told
    assert "AWS terminates the nodes at the end of their lease. Start nodes with a new lease, and then continue the job." in told
    assert len(running(cloud)) == 2
    cloud.control.advance(ANNOUNCED + STARTS)
    deadline = time.monotonic() + 60
    while running(cloud) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert running(cloud) == []
    assert "The lease ended at" in play("info", deeplearning_lease=end)
    refused = play("provision", status=2, deeplearning_lease=end)
    assert "AWS terminated the nodes. To start nodes with a new lease, change deeplearning_lease to a later time." in refused
