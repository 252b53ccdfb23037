"""Tests that the judge of the chaos suite accepts a correct result and rejects each kind of wrong result."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chaos import judge
from chaos.catalogue import HealthFault, JobFault
from chaos.judge import Curve, Evidence, Strike

LOSSES = {step: 10.0 / step for step in range(1, 41)}
UNDISTURBED = Curve(LOSSES, [1.5, 0.25])
KILLED = JobFault("killed", "rank", "", "", causes=(r"^rank {rank} on {host} was killed by signal SIGKILL",), noticed="process")
BUG = JobFault(
    "bug", "script", "", "", survivable=False, causes=("ValueError at workload.py, line 7",) * 2, why="line 7 .*again", noticed="process"
)
SMALLER = JobFault("smaller", "host", "", "", causes=("no heartbeat",), noticed="host", ranks=3)
SPARE = JobFault("spare", "host", "", "", causes=("no heartbeat",), noticed="host", ranks=3, replaced=True, options={"spares": 1})

# The addresses of the hosts on which a job with 4 ranks or with 3 ranks runs. The fault is aimed at the third host.
HOSTS = {4: ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"], 3: ["10.0.0.1", "10.0.0.2", "10.0.0.4"]}


def entries(attempt, begins, end, time, ranks=4, hosts=None):
    shared = {"attempt": attempt, "ranks": ranks, "time": time}
    steps = [{**shared, "hosts": hosts or HOSTS[ranks], "step": n, "loss": LOSSES[n]} for n in range(begins + 1, end + 1)]
    return [{**shared, "begins": begins}, *steps]


def said(*causes, state="succeeded", why=""):
    attempts = [{"state": "failed", "cause": cause, "why": why} for cause in causes]
    if state == "succeeded":
        attempts.append({"state": "succeeded"})
    return {"state": state, "attempts": attempts}


def with_goodput(seen, fault=KILLED):
    """Return the evidence with goodput buckets in the middle of the ranges that are expected."""
    if "goodput" in seen.said:
        return seen
    buckets = {name: (each.low + each.high) / 2 for name, each in judge.expected_buckets(fault, seen).items()}
    buckets["start"] = buckets.pop("startup")
    buckets["idle"] = 4 * seen.wall - sum(buckets.values())
    return replace(seen, said={**seen.said, "goodput": {"nodes": 4, "buckets": buckets}})


def evidence(**changes):
    found = {
        "has_ended": True,
        "curve": entries(1, 0, 27, 100.0) + entries(2, 20, 40, 109.0),
        "result": [1.5, 0.25],
        "survivors": [],
        "verdicts": {1: 104.0, 2: 115.0},
        "decisions": {1: 105.0},
        "said": said("rank 2 on worker3 was killed by signal SIGKILL"),
        "rank": 2,
        "strikes": [Strike(1, 2, 101.0)],
        "names": ["worker1", "worker2", "worker3", "worker4"],
        "addresses": HOSTS[4],
        "created": 98.0,
        "wall": 20.0,
    }
    return with_goodput(Evidence(**{**found, **changes}))


def complaints(fault=KILLED, **changes):
    return judge.judge(fault, evidence(**changes), UNDISTURBED)


def stopped(**changes):
    found = {
        "curve": entries(1, 0, 27, 100.0) + entries(2, 20, 27, 111.0),
        "result": None,
        "strikes": [],
        "decisions": {1: 105.0, 2: 116.0},
        "said": said(*["rank 1 on worker2 (ValueError at workload.py, line 7)"] * 2, state="failed", why="line 7 occurred again"),
    }
    return evidence(**{**found, **changes})


def measured(nodes=4, **buckets):
    return {**said("rank 2 on worker3 was killed by signal SIGKILL"), "goodput": {"nodes": nodes, "buckets": buckets}}


def test_a_correct_result_is_accepted():
    assert complaints() == []
    assert complaints(said=measured(**TIMES)) == []
    assert judge.judge(BUG, stopped(), UNDISTURBED) == []


# Goodput buckets of the job: the first step after 2 s, the fault at second 101, the decision at 105, and the next step at 109.
TIMES = {"start": 12.0, "restart": 12.0, "training": 4.0, "end": 36.0, "detection": 16.0}

WRONG_LOSS = [{**entry, "loss": 0.27} if entry.get("step") == 37 else entry for entry in evidence().curve]
LEFT_OUT = [entry for entry in evidence().curve if entry.get("step") != 33]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"has_ended": False}, "the job has not ended"),
        ({"survivors": ["worker1: 12 python"]}, "a process is left: worker1: 12 python"),
        ({"problems": ["the injector failed"]}, "the injector failed"),
        (
            {"said": said("rank 2 on worker3 was killed by signal SIGKILL", state="failed")},
            "the collection reports that the job failed, and not that",
        ),
        ({"said": said(*["rank 2 on worker3 was killed by signal SIGKILL"] * 2)}, "there were 3 attempts, and not 2"),
        ({"said": said()}, "there were 1 attempts, and not 2"),
        ({"result": None}, "the script has not finished"),
        ({"result": [1.5, 0.2500001]}, "the result is [1.5, 0.2500001], and not [1.5, 0.25]"),
        ({"curve": WRONG_LOSS}, "the loss at step 37 of attempt 2 is 0.27"),
        ({"curve": LEFT_OUT}, "step 34 of attempt 2 follows step 32"),
        ({"curve": entries(1, 0, 31, 100.0) + entries(2, 20, 40, 109.0)}, "attempt 2 begins after step 20, but step 31 was reached"),
        ({"curve": entries(1, 0, 27, 100.0) + entries(2, 20, 40, 109.0, ranks=3)}, "the job ended with 3 ranks, and not with 4"),
        ({"said": said("rank 1 on worker2 was killed by signal SIGKILL")}, "attempt 1: the cause is 'rank 1 on worker2 was killed"),
        ({"said": said("rank 2 on worker3 ended with exit status 1")}, "attempt 1: the cause is 'rank 2 on worker3 ended"),
        ({"verdicts": {1: 106.5}}, "attempt 1: the fault was detected after 5.5 s, and not within 5 s"),
        ({"verdicts": {}}, "attempt 1: it is not known when the fault was detected"),
        ({"curve": entries(1, 0, 27, 100.0) + entries(2, 20, 40, 114.5)}, "the job was restarted after 10.5 s, and not within 10 s"),
        ({"said": {**said("rank 2 on worker3 was killed by signal SIGKILL"), "goodput": None}}, "there is no goodput"),
        ({"said": measured(**TIMES, idle=2.0)}, "the goodput buckets add up to 82.0 node-seconds, and not to 44.0 to 80.0"),
        (
            {"said": measured(**{**TIMES, "training": 2.0, "end": 0.0})},
            "the goodput buckets add up to 42.0 node-seconds, and not to 44.0 to 80.0",
        ),
        ({"said": measured(3, **TIMES)}, "the goodput has 3"),
        ({"said": measured(**{**TIMES, "restart": 9.0, "idle": 3.0})}, "goodput: startup has 21.0 node-seconds, and not 24.0 to 24.0"),
        ({"said": measured(**{**TIMES, "recomputed": 3.0})}, "goodput: recomputed has 3.0 node-seconds, and not 0.0 to 0.0"),
        (
            {"said": measured(**{**TIMES, "detection": 1.0, "training": 55.0, "end": 0.0})},
            "goodput: detection has 1.0 node-seconds, and not 4.0",
        ),
        ({"said": measured(**{**TIMES, "detection": 23.0, "training": 33.0})}, "goodput: detection has 23.0 node-seconds"),
        ({"said": measured(**{**TIMES, "training": 55.0})}, "goodput: training has 55.0 node-seconds, and not 0.0 to 16.0"),
    ],
)
def test_a_wrong_result_is_refused(changes, complaint):
    found = complaints(**changes)
    assert any(each.startswith(complaint) for each in found), found


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"result": [1.5, 0.25]}, "the script has finished in spite of the fault"),
        ({"said": said(*["ValueError at workload.py, line 7"] * 2)}, "the collection reports that the job succeeded, and not that it"),
        (
            {"said": said(*["ValueError at workload.py, line 7"] * 2, state="failed", why="the budget")},
            "the collection explains the end with 'the budget'",
        ),
        (
            {"said": said(*["ValueError at workload.py, line 7"] * 3, state="failed", why="line 7 occurred again")},
            "there were 3 attempts, and not 2",
        ),
        (
            {"said": said("KeyError at workload.py, line 8", state="failed", why="line 7 occurred again")},
            "there were 1 attempts, and not 2",
        ),
        (
            {"said": said(*["ValueError at workload.py, line 8"] * 2, state="failed", why="line 7 occurred again")},
            "attempt 1: the cause is",
        ),
    ],
)
def test_a_wrong_result_of_a_job_that_must_stop_is_refused(changes, complaint):
    found = judge.judge(BUG, stopped(**changes), UNDISTURBED)
    assert any(each.startswith(complaint) for each in found), found


def test_a_change_of_the_number_of_ranks_permits_small_differences():
    curve = entries(1, 0, 27, 100.0) + entries(2, 20, 40, 118.0, ranks=3)
    rounded = [
        {**entry, "loss": entry["loss"] * (1 + 1e-12)} if entry.get("attempt") == 2 and "step" in entry else entry for entry in curve
    ]
    seen = {"curve": rounded, "result": [1.5 * (1 + 1e-12), 0.25], "said": said("rank 2 has sent no heartbeat")}
    assert complaints(SMALLER, **seen) == []
    wrong = [{**entry, "loss": entry["loss"] * (1 + 1e-6)} if "step" in entry else entry for entry in rounded]
    assert "the loss at step 1 " in complaints(SMALLER, **{**seen, "curve": wrong})[0]
    early = [{**entry, "loss": entry["loss"] * (1 + 1e-12)} if "step" in entry else entry for entry in curve]
    assert "the loss at step 1 of attempt 1" in complaints(SMALLER, **{**seen, "curve": early})[0]


def test_a_spare_must_take_the_place_of_a_lost_host_with_equal_metrics():
    began = entries(1, 0, 27, 100.0, ranks=3, hosts=HOSTS[4][:3])
    lost = {"said": said("rank 2 has sent no heartbeat"), "verdicts": {1: 115.0}, "wall": 40.0}
    assert complaints(SPARE, curve=began + entries(2, 20, 40, 134.0, ranks=3), **lost) == []
    rounded = [{**entry, "loss": entry["loss"] * (1 + 1e-12)} if "step" in entry else entry for entry in entries(2, 20, 40, 134.0, ranks=3)]
    assert complaints(SPARE, curve=began + rounded, **lost)[0].startswith("the loss at step 21 of attempt 2")
    same = entries(2, 20, 40, 136.0, ranks=3, hosts=HOSTS[4][:3])
    assert complaints(SPARE, curve=began + same, **lost) == [
        "the job ended on ['10.0.0.1', '10.0.0.2', '10.0.0.3'], and not on ['10.0.0.1', '10.0.0.2', '10.0.0.4']",
        "the job was restarted after 21.0 s, and not within 20 s",
    ]


def test_a_job_must_end_without_the_lost_host():
    curve = entries(1, 0, 27, 100.0) + entries(2, 20, 40, 118.0, ranks=3, hosts=HOSTS[4][:3])
    assert complaints(SMALLER, curve=curve, said=said("rank 2 has sent no heartbeat")) == [
        "the job ended on ['10.0.0.1', '10.0.0.2', '10.0.0.3'], and not on ['10.0.0.1', '10.0.0.2', '10.0.0.4']"
    ]


def test_the_hosts_of_an_attempt_that_began_after_the_last_step_are_unknown():
    curve = entries(1, 0, 40, 100.0) + entries(2, 40, 40, 118.0, ranks=3)
    assert "begins" in curve[-1]
    assert list(judge.judge_hosts(SMALLER, evidence(curve=curve))) == []


def test_a_suspended_rank_may_do_a_few_steps_of_its_attempt_when_it_wakes():
    began, after = entries(1, 0, 27, 100.0), entries(2, 20, 40, 109.0)
    late = entries(1, 27, 33, 110.0)[1:]
    assert complaints(curve=began + after[:5] + late[:5] + after[5:]) == []
    assert complaints(curve=began + after[:5] + late + after[5:]) == ["6 steps of earlier attempts came after a later attempt had begun"]


def test_limits_on_time_are_multiplied_by_the_slack():
    late = evidence(verdicts={1: 110.5}, curve=entries(1, 0, 27, 100.0) + entries(2, 20, 40, 129.0), wall=40.0)
    assert len(judge.judge(KILLED, late, UNDISTURBED)) == 2
    assert judge.judge(KILLED, late, UNDISTURBED, slack=2.0) == []


def test_a_fault_that_may_have_no_effect_permits_fewer_attempts_but_not_more():
    fault = JobFault("short", "storage", "", "", causes=(r"no progress",), at_most=True, noticed="stall")
    calm = {"curve": entries(1, 0, 40, 100.0), "verdicts": {1: 115.0, 2: 117.0}, "decisions": {1: 116.0}}
    assert complaints(fault, said=said(), **calm) == []
    assert complaints(fault, said=said("no progress", "no progress"), **calm) == ["there were 3 attempts, and not 2"]


MISSING = HealthFault("missing", "GPU", "", "", expected={"gpu_count": ("replace", "lists 7")})
FOUND = {"check": "gpu_count", "severity": "replace", "message": "GPUs: nvidia-smi lists 7, but instance type p5.48xlarge has 8."}


@pytest.mark.parametrize(
    ("findings", "complaints"),
    [
        ([FOUND], []),
        ([], ["did not find gpu_count: replace lists 7"]),
        ([{**FOUND, "severity": "reboot"}], [f"found reboot gpu_count: {FOUND['message']}"]),
        ([{**FOUND, "message": "lists 6"}], ["found replace gpu_count: lists 6"]),
        ([FOUND, {**FOUND, "check": "xid"}], [f"found replace xid: {FOUND['message']}"]),
        ([FOUND, FOUND], [f"found replace gpu_count: {FOUND['message']}"]),
    ],
)
def test_findings_must_be_exactly_those_of_the_fault(findings, complaints):
    assert judge.judge_health(MISSING, findings) == complaints


def test_the_goodput_of_a_job_that_stops_covers_all_of_its_time():
    seen = stopped()
    short = {**seen.said["goodput"], "buckets": {**seen.said["goodput"]["buckets"], "idle": seen.said["goodput"]["buckets"]["idle"] - 4.0}}
    assert judge.judge(BUG, replace(seen, said={**seen.said, "goodput": short}), UNDISTURBED) == [
        "the goodput buckets add up to 76.0 node-seconds, and not to 80.0 to 80.0"
    ]


def test_each_attempt_is_judged_by_its_own_fault():
    """The second fault is aimed at a different rank, and begins after the last step of the attempt."""
    fault = JobFault("twice", "rank", "", "", causes=(r"^rank {rank} on {host} was killed",) * 2, noticed="process")
    curve = entries(1, 0, 27, 100.0) + entries(2, 20, 27, 109.0) + entries(3, 20, 40, 116.0)
    seen = {"curve": curve, "decisions": {1: 105.0, 2: 115.0}, "verdicts": {1: 104.0, 2: 114.5}, "wall": 30.0}
    seen["strikes"] = [Strike(1, 2, 101.0), Strike(2, 3, 110.0)]
    first, second = "rank 2 on worker3 was killed", "rank 3 on worker4 was killed"
    assert complaints(fault, said=said(first, second), **seen) == []
    (complaint,) = complaints(fault, said=said(first, first), **seen)
    assert complaint.startswith("attempt 2: the cause is 'rank 2 on worker3 was killed', which does not match '^rank 3 on worker4")
    (complaint,) = complaints(fault, said=said(first, second), **{**seen, "verdicts": {1: 104.0, 2: 115.5}})
    assert complaint == "attempt 2: the fault was detected after 5.5 s, and not within 5 s"


def test_two_ranks_that_are_struck_together_are_both_the_cause():
    strikes = [Strike(1, 2, 101.0), Strike(1, 3, 101.0)]
    for cause in ("rank 2 on worker3 was killed by signal SIGKILL", "rank 3 on worker4 was killed by signal SIGKILL"):
        assert complaints(strikes=strikes, said=said(cause)) == []
    (complaint,) = complaints(strikes=strikes, said=said("rank 1 on worker2 was killed by signal SIGKILL"))
    assert "does not match '^rank 2 on worker3 was killed by signal SIGKILL' or '^rank 3 on worker4 was" in complaint


def test_a_rank_must_be_named_with_its_host():
    fault = replace(KILLED, causes=(r"^rank \d on \S+ was killed",))
    (complaint,) = complaints(fault, said=said("rank 1 on worker3 was killed"))
    assert complaint == "attempt 1: the cause is 'rank 1 on worker3 was killed', but rank 1 ran on worker2"


def test_an_attempt_without_steps_is_timed_from_the_decision_to_start_it():
    """The checkpoint cannot be read, so the second attempt has no entries. Its restart may take 10 s, and its detection 5 s."""
    fault = replace(KILLED, causes=(r"SIGKILL", "JSONDecodeError"), lost=2)
    seen = {"curve": entries(1, 0, 27, 100.0) + entries(3, 10, 40, 122.0), "wall": 30.0, "decisions": {1: 105.0, 2: 121.0}}
    told = {"said": said("rank 2 on worker3 SIGKILL", "rank 0 on worker1 ended (JSONDecodeError)"), **seen}
    assert complaints(fault, verdicts={1: 104.0, 2: 119.5}, **told) == []
    assert complaints(fault, verdicts={1: 104.0, 2: 120.5}, **told) == ["attempt 2: the fault was detected after 5.5 s, and not within 5 s"]


def test_ranks_may_compute_steps_after_their_launcher_has_failed():
    """These steps count as detection, because the attempt has failed."""
    curve = entries(1, 0, 10, 100.5) + entries(1, 11, 27, 103.5) + entries(2, 20, 40, 109.0)
    times = {"start": 10.0, "restart": 16.0, "training": 2.0, "end": 36.0, "detection": 16.0}
    assert complaints(curve=curve, said=measured(**times)) == []
    (complaint,) = judge.judge(
        KILLED, evidence(curve=curve, said=measured(**{**times, "detection": 20.0, "training": 0.0, "end": 34.0})), UNDISTURBED
    )
    assert complaint.startswith("goodput: detection has 20.0 node-seconds, and not ")


def test_a_delayed_fault_begins_at_the_last_step():
    late = evidence(curve=entries(1, 0, 27, 103.0) + entries(2, 20, 40, 114.0), verdicts={1: 107.0}, decisions={1: 107.5})
    assert judge.noticed_after(KILLED, late, 1) == 6.0
    assert judge.noticed_after(replace(KILLED, delayed=True), late, 1) == 4.0
    assert judge.noticed_after(KILLED, replace(late, strikes=[]), 1) == 4.0
