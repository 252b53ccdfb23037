"""Tests of the cause of a job's failure: a host that disappeared, or the process that lost its connection to that host."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.gone_nodes import gone_hosts, with_gone_hosts
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.job_messages import failed_job

OLD, NEW = "i-0000000000000000a", "i-0000000000000000b"
NODES = {"bert-worker3": {"hostname": "w3", "instance_id": OLD}, "bert-worker4": {"hostname": "w4", "instance_id": "i-0000000000000000d"}}
LEFT = {"instance_id": OLD, "cause": "At 06:16 an instance was taken out of service.", "replacement": NEW}


def process(rank, host, state, moment, **more):
    name = f"rank{rank}"
    ended = {} if state in ("running", "lost") else {"finished": moment}
    return {
        "rank": rank, "name": name, "host": host, "state": state, "heartbeat": moment, **ended,
        "part": "worker", "ranks": [rank], "tag": "", "log": f"/efs/jobs/hk/logs/{name}.log", **more,
    }  # fmt: skip


def blamed(process, lines=()):
    """Return the failure as the module returns it."""
    return {**process, "lines": list(lines)}


def job(heartbeat=97.0, state="running", **more):
    victim = process(3, "w4", "failed", 100.0, exit_code=1, instance="i-0000000000000000d")
    failure = blamed(victim, ["Connection reset by peer"])
    processes = [process(2, "w3", state, heartbeat, **{"instance": OLD, **more}), victim]
    return {"name": "hk", "state": "failed", "directory": "/efs/jobs/hk", "processes": processes, "failure": failure}


@pytest.mark.parametrize(
    ("found", "nodes", "former", "unreachable", "said"),
    [
        (job(), NODES, [LEFT], ["w3"], {"w3": f"w3 is gone: {OLD} was terminated by its Auto Scaling group, and {NEW} was launched."}),
        (
            job(),
            NODES,
            [{**LEFT, "cause": "", "replacement": ""}],
            [],
            {"w3": f"w3 is gone: {OLD} is no longer running, and no instance has been launched to replace it yet."},
        ),
        (
            job(state="lost"),
            {"bert-worker3": {"hostname": "w3", "instance_id": NEW}},
            [],
            [],
            {"w3": f"w3 is gone: {OLD} is no longer a node of the cluster, and {NEW} has replaced it."},
        ),
        (
            job(),
            {"bert-master": {"hostname": "w1", "instance_id": NEW}},
            [],
            [],
            {"w3": f"w3 is gone: {OLD} is no longer a node of the cluster."},
        ),
        (job(), NODES, [], ["w3", "w4"], {"w3": f"w3 does not answer: {OLD} cannot be reached over SSH."}),
        (job(instance=""), NODES, [LEFT], ["w3"], {"w3": "w3 does not answer."}),
        (job(), NODES, [], [], {}),
        (job(), {}, [], [], {}),
        (job(state="stopped"), NODES, [LEFT], ["w3"], {}),
    ],
)
def test_hosts_that_are_gone(found, nodes, former, unreachable, said):
    gone = gone_hosts(found, nodes, former, unreachable)
    assert {host: text for host, text in gone.items() if host == "w3"} == said


def failure_of(found, former):
    return failed_job("", found, {"nodes": NODES, "former": former})


def test_a_host_that_went_before_is_the_cause():
    told = failure_of(job(), [LEFT])
    assert told == (
        f"job hk failed: w3 is gone: {OLD} was terminated by its Auto Scaling group, and {NEW} was launched."
        " The logs are in /efs/jobs/hk/logs\n"
        "To read all logs, run: ansible-playbook deeplearning.cluster.logs -e training_job_name=hk\n"
        "To continue the job, run the same command again with -e training_job_name=hk"
    )


def test_a_host_that_shut_down_in_an_orderly_way_is_the_cause():
    found = job(state="failed", cause={"kind": "host_shut_down"}, signal="SIGTERM")
    found["failure"] = blamed(found["processes"][0])
    assert f"job hk failed: w3 is gone: {OLD} was terminated by its Auto Scaling group" in failure_of(found, [LEFT])
    assert "rank 2 on w3 was stopped because its host was shutting down" in failure_of(found, [])


@pytest.mark.parametrize("found", [job(heartbeat=101.0), job(state="succeeded")])
def test_a_host_that_went_afterwards_is_not(found):
    assert "rank 3 on w4 ended with exit status 1. The end of" in failure_of(found, [LEFT])


def test_the_first_of_several_hosts_is_the_cause():
    found = job()
    found["processes"].insert(0, process(0, "w1", "lost", 90.0, instance="i-0000000000000000c"))
    assert "w1 is gone" in failure_of(found, [LEFT, {**LEFT, "instance_id": "i-0000000000000000c"}])


def test_a_job_that_an_operator_stopped_stays_stopped():
    found = job()
    found["processes"][1].update(state="stopped")
    found["failure"] = blamed(found["processes"][1])
    assert "was stopped by an operator" in failure_of(found, [LEFT])


def test_a_job_without_failure_is_left_alone():
    found = {key: value for key, value in job().items() if key != "failure"}
    assert with_gone_hosts(found, {"w3": "w3 is gone."}) is found
