"""Tests of the sentences about the ends of nodes. The tests of the other messages have more."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import node_end_messages
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.node_end_messages import (
    LATE,
    ended_nodes,
    endless,
    ends_after_run,
    node_ends,
    removed_ends,
)

RUN = "ansible-playbook deeplearning.cluster."
CHARGES = [
    {"kind": "nat_gateway", "key": "main", "product": "nat_gateway", "variant": "", "quantity": 1, "hourly": 2.0},
    {"kind": "auto_scaling_group", "key": "workers", "product": "instance", "variant": "g5", "quantity": 2, "hourly": 20.0},
]
PRICE = {"hourly": 22.0, "currency": "USD", "charges": CHARGES, "read_at": 0, "published": "", "problem": ""}
UNKNOWN = {**PRICE, "charges": [{**CHARGES[0], "hourly": None}, CHARGES[1]]}
LEASE = {"end": "2026-12-01T18:00:00Z", "seconds": 7200.0, "fixed": False, "longer": False}
IDLE = {"seconds": 1800, "then": "terminate", "since": None, "warned": None, "holds": {}, "failure": None, "concurrency": None}
ENDED = {**IDLE, "since": "2026-12-01T15:00:00Z"}
NOTIFY = {**IDLE, "then": "notify"}


@pytest.fixture
def after(monkeypatch):
    """Return a function that moves the time to some seconds after the end of the lease."""
    end = datetime(2026, 12, 1, 18, tzinfo=UTC).timestamp()
    return lambda seconds: monkeypatch.setattr(node_end_messages.time, "time", lambda: end + seconds)


@pytest.mark.parametrize(
    ("lease", "idle", "option"), [(None, None, "deeplearning_idle_after"), (None, NOTIFY, "deeplearning_idle_then: terminate")]
)
def test_nodes_that_nothing_ends_are_told_with_what_ends_them(lease, idle, option):
    assert endless(lease, idle) == f"Nothing ends the nodes by itself. To let AWS terminate them, set deeplearning_lease or {option}."
    assert endless(LEASE, idle) == endless(lease, IDLE) == ""


def test_a_prediction_knows_no_nodes(after):
    after(-3600)
    told = "AWS terminates the nodes at 2026-12-01 18:00 UTC, in 1 h 0 min, unless a run prolongs the lease."
    assert ends_after_run(LEASE, None, None) == told
    told = "AWS terminates the nodes when all of them have been idle for 30 min 0 s."
    assert ends_after_run(None, None, {**IDLE, "concurrency": 0, "function": "f", "region": "r"}) == told


def test_nodes_run_until_10_minutes_after_the_warning(after):
    """A hold, whose name is not shown, has ended when the nodes had long been idle."""
    after(-2 * 3600)
    verdict = {"state": "idle", "node": "", "since": "2026-12-01T11:00:00Z", "age": 300.0}
    idle = {**IDLE, "warned": "2026-12-01T15:55:00Z", "holds": {"no name": "2026-12-01T15:50:00Z"}, "verdict": verdict}
    assert node_ends(None, None, idle, 2, is_current=True) == (
        "AWS terminates the nodes when all of them have been idle for 30 min 0 s, but not before 2026-12-01 15:50 UTC (1 other hold). All "
        "of them have been idle since 2026-12-01 11:00 UTC. The warning was sent at 2026-12-01 15:55 UTC, and AWS terminates them at about "
        "2026-12-01 16:05 UTC. "
    )


REST = " The rest of the cluster then costs 2.00 USD per hour (48.00 USD per day)."
LOOK = "Look for denied calls of DeleteAutoScalingGroup in CloudTrail, and run the playbook "


@pytest.mark.parametrize(
    ("read", "seconds", "count", "price", "told"),
    [
        (3600, -3600, 2, PRICE, f"AWS terminates the nodes at 2026-12-01 18:00 UTC, in 1 h 0 min, unless a run prolongs the lease.{REST} "),
        (3600, -3600, 2, UNKNOWN, "AWS terminates the nodes at 2026-12-01 18:00 UTC, in 1 h 0 min, unless a run prolongs the lease. "),
        # The lease has ended during the run
        (3600, 0, 2, PRICE, f"The lease ended at 2026-12-01 18:00 UTC, unless another run has prolonged it.{REST} "),
        (3600, 0, 0, PRICE, f"The lease ended at 2026-12-01 18:00 UTC, and AWS has terminated the nodes.{REST} "),
        (0, LATE, 2, PRICE, f"The lease ended at 2026-12-01 18:00 UTC, and AWS terminates the nodes.{REST} "),
        (0, LATE + 1, 2, PRICE, f"The lease ended at 2026-12-01 18:00 UTC, but AWS has not terminated the nodes. {LOOK}destroy. "),
        (0, LATE + 1, 0, None, "The lease ended at 2026-12-01 18:00 UTC, and AWS has terminated the nodes. "),
    ],
)
def test_the_end_of_a_lease(after, read, seconds, count, price, told):
    """The run has read that some seconds are left, and tells this some seconds after the end."""
    after(seconds)
    assert node_ends({**LEASE, "seconds": float(read)}, price, None, count) == told


@pytest.mark.parametrize(
    ("lease", "idle", "told"),
    [
        (None, None, ""),
        (LEASE, IDLE, ""),
        (None, {**ENDED, "then": "notify"}, ""),
        (
            {**LEASE, "seconds": 0.0},
            IDLE,
            f"The lease ended at 2026-12-01 18:00 UTC, and AWS has terminated the nodes. To start nodes again, run {RUN}provision "
            "-e deeplearning_start_again=true\n",
        ),
        (
            {**LEASE, "seconds": 0.0, "fixed": True, "longer": False},
            None,
            "The lease ended at 2026-12-01 18:00 UTC, and AWS has terminated the nodes. To start nodes again, change deeplearning_lease "
            f"to a later time, and run {RUN}provision\n",
        ),
        (
            {**LEASE, "seconds": 0.0, "fixed": True, "longer": False},
            ENDED,
            "AWS terminated the nodes, which had been idle since 2026-12-01 15:00 UTC. To start nodes again, "
            f"run {RUN}provision -e deeplearning_start_again=true\n",
        ),
    ],
)
@pytest.mark.parametrize(
    ("price", "costs"),
    [
        (PRICE, "costs 2.00 USD per hour (48.00 USD per day), without traffic and taxes"),
        (UNKNOWN, "continues to cost money"),
        (None, "continues to cost money"),
    ],
)
def test_what_to_do_after_the_end(after, lease, idle, told, price, costs):
    after(0)
    rest = f"To delete the rest of the cluster, which {costs}, run {RUN}destroy"
    assert ended_nodes(lease, idle, price) == (f"{told}{rest}" if told else "")


TOPIC = "arn:aws:sns:us-east-1:1:ops"


@pytest.mark.parametrize(
    ("removed", "what", "options"),
    [
        ({"lease": LEASE}, "the lease that ends at 2026-12-01 18:00 UTC", "deeplearning_lease"),
        ({"idle": IDLE}, "the end of nodes that have been idle for 30 min 0 s", "deeplearning_idle_after"),
        ({"idle": NOTIFY}, "the notification about nodes that have been idle for 30 min 0 s", "deeplearning_idle_after"),
        (
            {"lease": LEASE, "topic": TOPIC},
            f"the lease that ends at 2026-12-01 18:00 UTC and the messages to {TOPIC}",
            "deeplearning_lease and deeplearning_notify_topic",
        ),
    ],
)
@pytest.mark.parametrize("is_endless", [True, False])
def test_a_run_says_what_it_removes(removed, what, options, is_endless):
    removed = {"lease": None, "idle": None, "topic": None, "rests": [], **removed, "endless": is_endless}
    then = " The nodes then run, and cost money, until somebody terminates them." if is_endless else ""
    told = removed_ends({**removed, "done": False})
    assert told == f"With this definition, provision removes {what}, because it does not set {options}.{then}"
    then = then.replace("then", "now")
    for who, run in (("", "This run"), ("A run of root on x", "A run of root on x")):
        told = removed_ends({**removed, "done": True}, who)
        assert told == f"{run} has removed {what}, because the definition does not set {options}.{then}"


@pytest.mark.parametrize(
    ("rests", "what"),
    [(["lease"], "the lease"), (["idle_after"], "the end of idle nodes"), (["lease", "idle_after"], "the lease and the end of idle nodes")],
)
def test_a_run_says_what_no_longer_ended_the_nodes(rests, what):
    removed = {"lease": None, "idle": None, "topic": None, "rests": rests, "endless": True, "done": True}
    told = f"Parts of {what} were missing already, so AWS did not end the nodes with the rest. "
    assert removed_ends(removed) == f"{told}The nodes now run, and cost money, until somebody terminates them."


def test_a_lease_that_lasts_longer_for_a_job_is_told(after):
    after(-3600)
    told = "unless a run prolongs the lease. This is longer than deeplearning_lease, because the job may take so long."
    assert ends_after_run({**LEASE, "longer": True}, None, None).endswith(told)
