"""A cluster that nobody uses after its job: the nodes report that they are idle, AWS terminates them, and no run launches nodes again."""

from __future__ import annotations

import json
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.idle import function

SCRIPT = "import time\nprint('working', flush=True)\ntime.sleep(5)\n"
FUNCTION = "demo-nodes-idle"
RUNNING = [{"Name": "tag:deeplearning:cluster", "Values": ["demo"]}, {"Name": "instance-state-name", "Values": ["pending", "running"]}]
# Two looks of a node at itself are a minute apart, and a login before them counts as a use.
PATIENCE = 300


def running(cloud):
    found = cloud.client("ec2").describe_instances(Filters=RUNNING)["Reservations"]
    return [each["InstanceId"] for reservation in found for each in reservation["Instances"]]


def are_idle(cloud):
    consoles = [function.console_output(cloud.client("ec2"), each) for each in running(cloud)]
    return all((function.REPORT.findall(function.without_kernel(each)) or [("", "")])[-1][0] for each in consoles)


@pytest.fixture
def play(playbook, tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    job = {"training_job_name": "short", "training_job_source": str(tmp_path), "training_job_script": "train.py"}
    job |= {"training_job_launcher": "command", "training_job_arguments": [], "training_job_report_directory": str(tmp_path)}
    values = {**job, "deeplearning_worker_count": 1, "deeplearning_idle_after": "15m"}

    def run(name, status=0, **variables):
        finished = playbook(f"{name}.yml", "-e", json.dumps({**values, **variables}), policies="train+destroy", status=status)
        return " ".join(finished.output.split())

    yield run
    run("destroy", deeplearning_delete_data=True)


def test_aws_terminates_nodes_that_nobody_uses_after_the_job(cloud, play):
    told = play("train")
    assert "AWS terminates the nodes when all of them have been idle for 15 min" in told
    client = cloud.client("lambda")
    assert function.HOLD not in str(client.get_function(FunctionName=FUNCTION)["Tags"]), "the job no longer keeps the nodes"
    deadline = time.monotonic() + PATIENCE
    while not are_idle(cloud):
        assert time.monotonic() < deadline, "the nodes do not report that they are idle"
        time.sleep(2)
    client.invoke(FunctionName=FUNCTION)
    assert "All of them have been idle since" in play("info")
    for minutes in (16, 10):  # the schedule calls the function, which warns people first
        cloud.control.advance(minutes * 60)
    while running(cloud):
        assert time.monotonic() < deadline, "AWS does not terminate the nodes"
        time.sleep(0.5)
    assert "AWS terminated the nodes, which had been idle since" in play("info")
    assert "To start nodes again, add -e deeplearning_start_again=true" in play("provision", status=2)
