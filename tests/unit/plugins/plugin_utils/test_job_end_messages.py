"""Tests of the messages about what follows a job."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import job_end_messages, node_end_messages
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._output import prices

RUN = "ansible-playbook deeplearning.cluster."
CHARGE = {"kind": "nat_gateway", "key": "main", "product": "nat_gateway", "variant": "", "quantity": 1, "hourly": 2.0}
PRICE = {"hourly": 2.0, "currency": "USD", "charges": [CHARGE], "data": [], "read_at": 0, "published": "", "problem": "", "endpoint": ""}
COSTS = {"master": 10.0, "workers": 30.0}
LEASE = {"end": "2026-12-01T18:00:00Z", "seconds": 7200.0, "former_end": None, "fixed": False, "longer": False}
IDLE = {"seconds": 1800, "then": "terminate", "since": None, "warned": None, "holds": {}, "concurrency": None, "failure": None}
IDLE |= {"function": "bert-nodes-idle", "region": "us-east-1"}
WHEN = "AWS terminates the nodes when all of them have been idle for 30 min 0 s"
VERDICT = {"state": "idle", "node": "", "instance_id": "", "since": "2026-12-01T15:50:00Z", "written": "2026-12-01T15:55:00Z", "age": 300.0}


@pytest.fixture
def now(monkeypatch):
    """Let the current time be two hours before the end of the lease."""
    moment = datetime(2026, 12, 1, 16, tzinfo=UTC).timestamp()
    monkeypatch.setattr(node_end_messages.time, "time", lambda: moment)


@pytest.mark.usefixtures("now")
@pytest.mark.parametrize(
    ("run", "then", "has_failed", "always", "told"),
    [
        ({"price": PRICE}, "keep", False, False, f"continues to cost {prices.per_hour(PRICE)}, until you run {RUN}destroy"),
        ({"price": PRICE, "lease": LEASE}, "keep", False, False, f"{prices.per_hour(PRICE)}. AWS terminates the nodes at 2026-12-01 18:00"),
        ({"price": None, "lease": LEASE}, "keep", True, False, "The nodes continue to cost money. AWS terminates the nodes at 2026-12-01"),
        ({"price": None}, "keep", False, False, f"The nodes continue to cost money, until you run {RUN}destroy"),
        ({"price": PRICE}, "destroy", False, False, "continues with training_job_then: destroy. The next command works until then"),
        ({"price": PRICE}, "scale_in", True, True, "The run continues with training_job_then: scale_in."),
        ({"price": PRICE}, "destroy", True, False, f"continues to cost {prices.per_hour(PRICE)}, until"),
        ({"price": PRICE}, "destroy", True, False, "The job failed, so training_job_then: destroy is not applied. The cluster continues"),
        ({}, "keep", False, False, ""),
        ({"skipped": True, "changed": False}, "keep", True, False, ""),
    ],
)
def test_what_goes_on_costing_after_a_job(run, then, has_failed, always, told):
    found = job_end_messages.costs_after_job(run, then, has_failed, always)
    assert (told in found, bool(found)) == (True, bool(told))


@pytest.mark.usefixtures("now")
@pytest.mark.parametrize(
    ("run", "then", "has_failed", "told"),
    [
        ({"price": {**PRICE, "hourly": None}}, "keep", True, f"The nodes continue to cost money, until you run {RUN}destroy"),
        ({"price": PRICE}, "scale_in", False, "The run continues with training_job_then: scale_in."),
        ({"price": None, "idle": {"then": "terminate"}}, "keep", True, f"The nodes continue to cost money. {WHEN}."),
        (
            {"price": PRICE, "lease": {"end": "2026-12-01T18:00:00Z", "seconds": 7200.0, "fixed": True, "longer": False}},
            "keep",
            False,
            f"The cluster continues to cost {prices.per_hour(PRICE)}. AWS terminates the nodes at 2026-12-01 18:00 UTC, in 2 h 0 min. The "
            f"rest of the cluster then costs {prices.sums(PRICE)}.",
        ),
    ],
)
def test_the_whole_text_about_costs_after_a_job(run, then, has_failed, told):
    idle = {**IDLE, "verdict": VERDICT, **run["idle"]} if "idle" in run else None
    assert job_end_messages.costs_after_job({**run, "idle": idle}, then, has_failed, False) == told


def test_nodes_that_are_gone_cost_nothing():
    groups = (
        {**CHARGE, "kind": "auto_scaling_group", "key": key, "product": "instance", "hourly": hourly} for key, hourly in COSTS.items()
    )
    price = {**PRICE, "hourly": 42.0, "charges": [CHARGE, *groups]}
    for running, hourly in (([], "2.00"), (["master"], "12.00"), (None, "42.00")):
        told = job_end_messages.costs_after_job({"price": price}, "keep", True, False, running)
        assert f"continues to cost {hourly} USD per hour" in told


@pytest.mark.usefixtures("now")
def test_a_lease_that_has_ended_the_nodes_before_the_end_of_the_job_is_over():
    lease = {**LEASE, "seconds": -60.0}
    told = [job_end_messages.costs_after_job({"lease": lease}, "keep", True, False, groups) for groups in ([], ["master"], None)]
    assert ["AWS has terminated the nodes" in each for each in told] == [True, False, False]


def test_a_job_out_of_reach_has_not_failed():
    told = job_end_messages.costs_after_job({"price": None}, "destroy", True, False, out_of_reach=True)
    assert told.startswith("This run no longer reaches the job, so training_job_then: destroy is not applied. The nodes continue to cost")


@pytest.mark.parametrize(("has_failed", "what"), [(True, "failed"), (False, "was not exported")])
def test_nodes_stay_after_a_job_without_success(has_failed, what):
    always = " To apply it even if a job fails, set training_job_then_always: true." if has_failed else ""
    told = job_end_messages.kept_nodes("destroy", has_failed, False, "2 nodes keep running.")
    assert told == f"The job {what}, as shown above, so training_job_then: destroy is not applied.{always} 2 nodes keep running."
    told = job_end_messages.kept_nodes("destroy", True, True, "2 nodes run.")
    assert told == "This run no longer reaches the job, as shown above, so training_job_then: destroy is not applied. 2 nodes run."


def test_nodes_stay_if_the_job_was_not_started():
    told = job_end_messages.kept_nodes("destroy", True, False, "2 nodes run.", True)
    assert told == "The job was not started, as shown above, so training_job_then: destroy is not applied. 2 nodes run."


@pytest.mark.parametrize(
    ("then", "advice"),
    [
        ("keep", "Choose another name, or remove this variable to get a name that contains the current time."),
        (
            "destroy",
            "Because it had ended before this run, training_job_then: destroy is not applied, and the nodes continue to cost money. To "
            f"delete the cluster and keep the file systems, run {RUN}destroy",
        ),
    ],
)
def test_the_name_of_a_job_that_has_succeeded_is_not_used_again(then, advice):
    told = f"training_job_name: job bert has already run and its results are in /j/bert. {advice}"
    assert job_end_messages.used_name("bert", "/j/bert", then) == told


@pytest.mark.parametrize(
    ("then", "continues", "told"),
    [
        ("keep", False, "2 nodes run."),
        ("destroy", True, "2 nodes run."),
        ("destroy", False, "The job was not started, as shown above, so training_job_then: destroy is not applied. 2 nodes run."),
    ],
)
def test_the_nodes_that_run_after_a_job_are_told_with_the_reason(then, continues, told):
    kept = {"then": then, "has_failed": True, "out_of_reach": False, "not_started": True, "running": "2 nodes run."}
    told += "\nTo log in to the master, run ssh demo-master"
    assert job_end_messages.running_after_job(kept, continues, "ssh demo-master") == told


def test_a_job_that_was_not_exported_delays_what_follows():
    told = job_end_messages.delayed_action("destroy", "/efs/jobs", 60)
    assert "Its files stay in /efs/jobs. The nodes keep running for 60 minutes" in told
    assert "After this time, training_job_then: destroy is applied. To keep the nodes, press Ctrl-C" in told


@pytest.mark.parametrize(("reason", "why"), [("a runs on w2.", "a runs on w2."), ("", "The running jobs could not be checked.")])
def test_nodes_that_are_in_use_stay(reason, why):
    assert job_end_messages.refused_action("scale_in", reason) == f"training_job_then: scale_in is not applied. {why}"


@pytest.mark.parametrize(("then", "done"), [("destroy", "The cluster was destroyed."), ("scale_in", "All workers were removed.")])
def test_what_followed_a_job_is_told(then, done):
    assert job_end_messages.applied_action(then) == done
    assert job_end_messages.failed_job_and_action(then) == f"The job failed or was not exported, as shown above. {done}"
