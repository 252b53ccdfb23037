"""A cluster whose lease ends while a job is running: the job saves, AWS terminates the nodes, and a later run waits for a new lease.

AWS also terminates the nodes if everything else has been killed.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import ansible_commands
import pytest
from killing import kill_at
from local_cloud.hosts.podman import as_root
from local_cloud.hosts.podman_hosts import INSTANCE_LABEL
from local_cloud.testing import wait_until

from .conftest import REPOSITORY

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
# A job that runs for some seconds after it has saved.
SAVES = """
import os, pathlib, sys, time
(pathlib.Path(os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"]) / f"saved{os.environ['DEEPLEARNING_RANK']}").write_text("weights")
time.sleep(float(sys.argv[1]))
"""
RUNNING = [{"Name": "tag:deeplearning:cluster", "Values": ["demo"]}, {"Name": "instance-state-name", "Values": ["pending", "running"]}]


# What AWS may take from the end of a lease to the call of a schedule, and from there to the end of the nodes, and when all of them must
# have ended. In seconds.
LATE, TERMINATES, MOST = 2 * 60, 5 * 60, 8 * 60
HOUR = 3600
# Kills all programs on a host. systemd would start sshd again, and programs at the times of timers.
END = "systemctl stop '*.timer' ssh.socket ssh.service; kill -KILL -1; while pgrep -f '[s]aves.py'; do sleep 0.1; done"


def running(cloud):
    return [each for found in cloud.client("ec2").describe_instances(Filters=RUNNING)["Reservations"] for each in found["Instances"]]


@pytest.fixture
def values(tmp_path):
    """The variables of the cluster and the job."""
    for name, script in (("train.py", SCRIPT), ("saves.py", SAVES)):
        (tmp_path / name).write_text(script)
    job = {"training_job_name": "leased", "training_job_source": str(tmp_path), "training_job_script": "train.py"}
    job |= {"training_job_launcher": "command", "training_job_arguments": []}
    return {**job, "training_job_report_directory": str(tmp_path), "deeplearning_worker_count": 1}


@pytest.fixture
def play(cloud, playbook, values):
    def run(name, status=0, **variables):
        finished = playbook(f"{name}.yml", "-e", json.dumps({**values, **variables}), policies="train+destroy", status=status)
        return " ".join(finished.output.split())

    yield run
    end_in_time(cloud)  # a run would not delete nodes that do not answer
    cloud.control.reset()
    run("destroy", deeplearning_delete_data=True)


@pytest.fixture
def train(play, command, operator, values):
    """Start a controller: a run of train.yml whose job saves, and that can be killed."""
    job = {**values, "training_job_script": "saves.py", "deeplearning_lease": "1h"}
    environment = operator("train+destroy", "demo")
    started = []

    def start(seconds, **variables):
        given = json.dumps({**job, "training_job_arguments": [str(seconds)], **variables})
        started.append(Controller(command("train.yml", "-e", given), environment))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


class Controller:
    """A command of Ansible that runs in the background."""

    def __init__(self, command, environment):
        pids = Queue()
        with_pid = {"merged": True, "started": pids.put}
        self._run = ThreadPoolExecutor(1).submit(ansible_commands.run, command, environment, REPOSITORY, **with_pid)
        self._pid = pids.get(timeout=120)

    def poll(self):
        return self._run.result().returncode if self._run.done() else None

    def kill(self):
        if not self._run.done():
            ansible_commands.kill(self._pid)

    def communicate(self):
        return self._run.result().stdout


def end_programs(instances):
    """Kill all programs on hosts, except systemd, whose end would be the end of the host."""
    for each in instances:
        named = ["podman", "ps", f"--filter=label={INSTANCE_LABEL}={each['InstanceId']}", "--format={{.Names}}"]
        for name in subprocess.run(as_root(*named), check=True, capture_output=True, text=True).stdout.split():
            subprocess.run(as_root("podman", "exec", name, "sh", "-c", END), check=True, capture_output=True, timeout=120)


def data(cloud):
    """Return the names and the digests of the files that the job has saved."""
    folder = str(Path(cloud.environment["LOCAL_CLOUD_HOME"], "file-systems"))
    find = ["find", folder, "-name", "saved*", "-exec", "sha256sum", "{}", "+"]
    return sorted(subprocess.run(as_root(*find), check=True, capture_output=True, text=True).stdout.splitlines())


def leases(cloud):
    """Return the schedules of the lease, by name."""
    client = cloud.client("scheduler")
    found = {each["Name"]: each["GroupName"] for each in client.list_schedules()["Schedules"] if each["GroupName"].endswith("-lease")}
    return {name: client.get_schedule(GroupName=group, Name=name) for name, group in found.items()}


def end_in_time(cloud):
    """Let the lease end, if there is one, and wait until no node runs. It is 8 minutes after the end then."""
    end = max((each["StartDate"].timestamp() for each in leases(cloud).values()), default=time.time())
    cloud.control.advance(max(0.0, end + MOST - cloud.control.advance(0)))
    wait_until(lambda: not running(cloud), 60)
    wait_until(lambda: not cloud.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"], 60)


def test_a_job_saves_before_its_lease_ends_and_aws_terminates_the_nodes(cloud, play):
    end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + ANNOUNCED + STARTS))
    told = play("train", status=2, deeplearning_lease=end, deeplearning_suppress_validators=["lease"])
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


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.exhaustive] if seed > 0 else []) for seed in range(50)])
def test_nodes_end_with_their_lease_if_everything_is_killed(cloud, play, train, seed):
    """The controller, the master and the programs on all other hosts are killed, in any order and at any time."""
    choose = random.Random(seed)
    cloud.control.set_delays(schedule_latency=choose.uniform(0, LATE), group_deletion=choose.uniform(0, TERMINATES))
    controller = train(HOUR, **({"deeplearning_idle_after": "15m"} if choose.random() < 0.1 else {}))
    has_job = choose.random() < 0.5
    wait_until(lambda: len(data(cloud)) == 2 if has_job else running(cloud))
    began = time.monotonic()
    at = {victim: choose.uniform(0, 5 if has_job else 30) for victim in ("controller", "master", "others")}
    is_lost = choose.random() < 0.5
    for victim in sorted(at, key=lambda each: at[each]):
        time.sleep(max(0.0, began + at[victim] - time.monotonic()))
        if victim == "controller":
            controller.kill()
            controller.communicate()
            continue
        nodes = {each["InstanceId"]: each for each in running(cloud)}
        groups = {name: {tag["Key"]: tag["Value"] for tag in each["Tags"]}["NodeType"] for name, each in nodes.items()}
        found = [nodes[name] for name, group in groups.items() if (group == "Master") is (victim == "master")]
        if victim == "master" and is_lost:
            for each in found:
                cloud.control.kill(each["InstanceId"])
        else:
            end_programs(found)
    saved = data(cloud)
    assert len(saved) == 2 or not has_job
    end_in_time(cloud)
    assert data(cloud) == saved
    assert [each["LifeCycleState"] for each in cloud.client("efs").describe_file_systems()["FileSystems"]] == ["available"]
    assert {name: each["State"] for name, each in leases(cloud).items()} == {"master": "ENABLED", "workers": "ENABLED"}
    assert "AWS terminated the nodes" in play("provision", status=2, deeplearning_lease="1h")


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(1, 11))
def test_nodes_end_with_their_lease_if_a_run_for_one_job_is_killed_at_any_call(cloud, play, train, first):
    """Each test kills at every tenth call, until a run ends by itself."""
    options, call = {"training_job_then": "destroy", "deeplearning_worker_count": 0}, first
    cloud.control.set_delays(schedule_latency=LATE)
    while kill_at(cloud, lambda: train(0, **options), "after" if call % 2 else "before", nth=call):
        saved = data(cloud)
        cloud.control.set_delays(group_deletion=TERMINATES)
        end_in_time(cloud)
        assert data(cloud) == saved, call
        cloud.control.reset()
        play("destroy", deeplearning_delete_data=True)
        cloud.control.set_delays(schedule_latency=LATE)
        call += 10
    assert running(cloud) == []
    assert len(data(cloud)) == 1
