"""Auto-termination policies end idle clusters."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ..conftest import Account, Hosts, refused
from .conftest import PROFILE, SERVICE_ROLE, Emr, step

RELEASE = {"ReleaseLabel": "emr-6.15.0"}
BUSY = "/emr/metricscollector/isbusy"


def policy(seconds: int | None = 600) -> dict[str, Any]:
    return {"AutoTerminationPolicy": {} if seconds is None else {"IdleTimeout": seconds}}


def waiting(emr: Emr, **more: Any) -> str:
    """Create a cluster with an instance type that newer releases support, and wait until it is idle."""
    groups = [{"InstanceRole": "MASTER", "InstanceType": "m5.xlarge", "InstanceCount": 1}]
    return emr.waiting(0, instances={"InstanceGroups": groups}, **RELEASE, **more)


def test_an_idle_cluster_ends(account: Account, emr: Emr) -> None:
    cluster = waiting(emr, **policy())
    assert emr.client.get_auto_termination_policy(ClusterId=cluster)["AutoTerminationPolicy"] == {"IdleTimeout": 600}
    account.control.advance(590)
    assert emr.state(cluster) == "WAITING"
    account.control.advance(11)
    assert "auto-termination" in emr.reached(cluster, "TERMINATED")["Message"]
    timeline = emr.describe(cluster)["Status"]["Timeline"]
    assert (timeline["EndDateTime"] - timeline["CreationDateTime"]).total_seconds() == pytest.approx(601, abs=60)
    change = {"ClusterId": cluster, **policy()}
    refused(lambda: emr.client.put_auto_termination_policy(**change), "ValidationException", "may not be modified")


def test_steps_and_the_file_are_activity(account: Account, emr: Emr, hosts: Hosts) -> None:
    cluster = waiting(emr, **policy())
    account.control.advance(500)
    emr.client.add_job_flow_steps(JobFlowId=cluster, Steps=[step("work")])
    emr.reached(cluster, "RUNNING")
    emr.reached(cluster, "WAITING")
    (master,) = emr.nodes(cluster, "MASTER")
    account.control.advance(500)
    hosts.files[master, BUSY] = time.time()
    account.control.advance(7200)
    assert emr.state(cluster) == "WAITING"
    hosts.files[master, BUSY] = time.time() - 130
    account.control.advance(700)
    emr.reached(cluster, "TERMINATED")


def test_policies_are_attached_and_removed(account: Account, emr: Emr) -> None:
    cluster = waiting(emr)
    assert "AutoTerminationPolicy" not in emr.client.get_auto_termination_policy(ClusterId=cluster)
    account.control.advance(7200)
    emr.client.put_auto_termination_policy(ClusterId=cluster, **policy(None))
    assert emr.client.get_auto_termination_policy(ClusterId=cluster)["AutoTerminationPolicy"] == {"IdleTimeout": 3600}
    account.control.advance(3000)
    assert emr.state(cluster) == "WAITING"
    emr.client.remove_auto_termination_policy(ClusterId=cluster)
    account.control.advance(7200)
    assert emr.state(cluster) == "WAITING"
    emr.client.put_auto_termination_policy(ClusterId=cluster, **policy(60))
    emr.client.set_termination_protection(JobFlowIds=[cluster], TerminationProtected=True)
    account.control.advance(120)
    assert emr.state(cluster) == "WAITING"
    emr.client.set_termination_protection(JobFlowIds=[cluster], TerminationProtected=False)
    emr.reached(cluster, "TERMINATED")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (policy(59), "IdleTimeout must be at least 60 and at most 604800 seconds."),
        (policy(604801), "IdleTimeout must be at least 60 and at most 604800 seconds."),
        ({"ReleaseLabel": "emr-5.29.0"}, "Auto-termination is not available"),
        ({"ReleaseLabel": "emr-6.0.0"}, "Auto-termination is not available"),
    ],
)
def test_policies_that_are_refused(emr: Emr, change: dict[str, Any], words: str) -> None:
    refused(lambda: emr.run(**{**RELEASE, **policy(), **change}), "ValidationException", words)


def test_permissions(account: Account, emr: Emr) -> None:
    cluster = waiting(emr)
    client = account.user({"Effect": "Allow", "Action": "elasticmapreduce:GetAutoTerminationPolicy", "Resource": "*"}).client("emr")
    assert client.get_auto_termination_policy(ClusterId=cluster)
    for call, action in ((client.put_auto_termination_policy, "Put"), (client.remove_auto_termination_policy, "Remove")):
        change = {"ClusterId": cluster, **(policy() if action == "Put" else {})}
        refused(lambda call=call, change=change: call(**change), "AccessDeniedException", f"{action}AutoTerminationPolicy")
    allowed = {"Effect": "Allow", "Action": ["elasticmapreduce:RunJobFlow", "iam:*"], "Resource": "*"}
    groups = [{"InstanceRole": "MASTER", "InstanceType": "m5.xlarge", "InstanceCount": 1}]
    request = {
        "Name": "x",
        "JobFlowRole": PROFILE,
        "ServiceRole": SERVICE_ROLE,
        "Instances": {"InstanceGroups": groups},
        **RELEASE,
        **policy(),
    }
    refused(lambda: account.user(allowed).client("emr").run_job_flow(**request), "AccessDeniedException", "PutAutoTerminationPolicy")
    emr.client.terminate_job_flows(JobFlowIds=[cluster])
