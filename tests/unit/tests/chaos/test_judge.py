"""Tests that the judge of the chaos suite accepts a correct result and rejects each kind of wrong result."""

from __future__ import annotations

import pytest
from chaos import judge
from chaos.catalogue import HealthFault, JobFault
from chaos.judge import Curve, Evidence

LOSSES = {step: 10.0 / step for step in range(1, 41)}
UNDISTURBED = Curve(LOSSES, [1.5, 0.25])
KILLED = JobFault("killed", "rank", "", "", causes=(r"^rank {rank} on {host} was killed by signal SIGKILL",), noticed="process")
BUG = JobFault("bug", "script", "", "", survivable=False, causes=("ValueError at workload.py, line 7",) * 2, why="line 7 .*again")
SMALLER = JobFault("smaller", "host", "", "", causes=("no heartbeat",), noticed="host", ranks=3)
SPARE = JobFault("spare", "host", "", "", causes=("no heartbeat",), noticed="host", ranks=3, replaced=True, options={"spares": 1})

#: The addresses of the hosts on which a job with 4 ranks or with 3 ranks runs. The fault is aimed at the third host.
HOSTS = {4: ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"], 3: ["10.0.0.1", "10.0.0.2", "10.0.0.4"]}


def entries(attempt, begins, end, time, ranks=4, hosts=None):
    shared = {"attempt": attempt, "ranks": ranks, "time": time}
    steps = [{**shared, "hosts": hosts or HOSTS[ranks], "step": n, "loss": LOSSES[n]} for n in range(begins + 1, end + 1)]
    return [{**shared, "begins": begins}, *steps]


def said(*causes, state="succeeded", why=""):
    attempts = [{"state": "failed", "cause": cause, "why": why} for cause in causes]
    if state == "succeeded":
        attempts.append({"state": "succeeded"})
    return {"state": state, "attempts": attempts, "goodput": {"nodes": 4, "buckets": {"training": 70.0, "idle": 10.0}}}


def evidence(**changes):
    found = {
        "has_ended": True,
        "curve": entries(1, 0, 27, 100.0) + entries(2, 20, 40, 109.0),
        "result": [1.5, 0.25],
        "survivors": [],
        "verdicts": {1: 104.0, 2: 115.0},
        "said": said("rank 2 on worker3 was killed by signal SIGKILL"),
        "injected": 101.0,
        "rank": 2,
        "host": "worker3",
        "addresses": HOSTS[4],
        "wall": 20.0,
    }
    return Evidence(**{**found, **changes})


def stopped(**changes):
    found = {
        "curve": entries(1, 0, 27, 100.0) + entries(2, 20, 27, 109.0),
        "result": None,
        "injected": None,
        "said": said(*["rank 1 on worker2 (ValueError at workload.py, line 7)"] * 2, state="failed", why="line 7 occurred again"),
    }
    return evidence(**{**found, **changes})


def without_goodput():
    return {key: value for key, value in said("rank 2 on worker3 was killed by signal SIGKILL").items() if key != "goodput"}


def test_a_correct_result_is_accepted():
    assert judge.judge(KILLED, evidence(), UNDISTURBED) == []
    assert judge.judge(BUG, stopped(), UNDISTURBED) == []


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
            "the product says that the job failed, and not that",
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
        ({"verdicts": {1: 106.5}}, "the fault was noticed after 5.5 s, and not within 5 s"),
        ({"verdicts": {}}, "it is not known when the fault was noticed"),
        ({"curve": entries(1, 0, 27, 100.0) + entries(2, 20, 40, 114.5)}, "the job was restarted after 10.5 s, and not within 10 s"),
        ({"said": without_goodput()}, "there is no goodput"),
        ({"wall": 22.0}, "the goodput buckets add up to 80.0 node-seconds, and not to 88.0"),
        ({"wall": 18.0}, "the goodput buckets add up to 80.0 node-seconds, and not to 72.0"),
        (
            {"said": {**said("rank 2 on worker3 was killed by signal SIGKILL"), "goodput": {"nodes": 3, "buckets": {"idle": 80.0}}}},
            "the goodput has 3",
        ),
    ],
)
def test_a_wrong_result_is_refused(changes, complaint):
    complaints = judge.judge(KILLED, evidence(**changes), UNDISTURBED)
    assert any(found.startswith(complaint) for found in complaints), complaints


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"result": [1.5, 0.25]}, "the script has finished in spite of the fault"),
        ({"said": said(*["ValueError at workload.py, line 7"] * 2)}, "the product says that the job succeeded, and not that it failed"),
        (
            {"said": said(*["ValueError at workload.py, line 7"] * 2, state="failed", why="the budget")},
            "the product explains the end with 'the budget'",
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
    complaints = judge.judge(BUG, stopped(**changes), UNDISTURBED)
    assert any(found.startswith(complaint) for found in complaints), complaints


def test_a_change_of_the_number_of_ranks_permits_small_differences():
    curve = entries(1, 0, 27, 100.0) + entries(2, 20, 40, 118.0, ranks=3)
    rounded = [
        {**entry, "loss": entry["loss"] * (1 + 1e-12)} if entry.get("attempt") == 2 and "step" in entry else entry for entry in curve
    ]
    seen = {"curve": rounded, "result": [1.5 * (1 + 1e-12), 0.25], "said": said("rank 2 has sent no heartbeat")}
    assert judge.judge(SMALLER, evidence(**seen), UNDISTURBED) == []
    wrong = [{**entry, "loss": entry["loss"] * (1 + 1e-6)} if "step" in entry else entry for entry in rounded]
    assert "the loss at step 1 " in judge.judge(SMALLER, evidence(**{**seen, "curve": wrong}), UNDISTURBED)[0]
    early = [{**entry, "loss": entry["loss"] * (1 + 1e-12)} if "step" in entry else entry for entry in curve]
    assert "the loss at step 1 of attempt 1" in judge.judge(SMALLER, evidence(**{**seen, "curve": early}), UNDISTURBED)[0]


def test_a_spare_must_take_the_place_of_a_lost_host_with_equal_metrics():
    began = entries(1, 0, 27, 100.0, ranks=3, hosts=HOSTS[4][:3])
    lost = {"said": said("rank 2 has sent no heartbeat"), "verdicts": {1: 115.0}}
    assert judge.judge(SPARE, evidence(curve=began + entries(2, 20, 40, 134.0, ranks=3), **lost), UNDISTURBED) == []
    rounded = [{**entry, "loss": entry["loss"] * (1 + 1e-12)} if "step" in entry else entry for entry in entries(2, 20, 40, 134.0, ranks=3)]
    assert judge.judge(SPARE, evidence(curve=began + rounded, **lost), UNDISTURBED)[0].startswith("the loss at step 21 of attempt 2")
    same = entries(2, 20, 40, 136.0, ranks=3, hosts=HOSTS[4][:3])
    assert judge.judge(SPARE, evidence(curve=began + same, **lost), UNDISTURBED) == [
        "the job ended on ['10.0.0.1', '10.0.0.2', '10.0.0.3'], and not on ['10.0.0.1', '10.0.0.2', '10.0.0.4']",
        "the job was restarted after 21.0 s, and not within 20 s",
    ]


def test_a_job_must_end_without_the_lost_host():
    curve = entries(1, 0, 27, 100.0) + entries(2, 20, 40, 118.0, ranks=3, hosts=HOSTS[4][:3])
    complaints = judge.judge(SMALLER, evidence(curve=curve, said=said("rank 2 has sent no heartbeat")), UNDISTURBED)
    assert complaints == ["the job ended on ['10.0.0.1', '10.0.0.2', '10.0.0.3'], and not on ['10.0.0.1', '10.0.0.2', '10.0.0.4']"]


def test_a_suspended_rank_may_do_a_few_steps_of_its_attempt_when_it_wakes():
    began, after = entries(1, 0, 27, 100.0), entries(2, 20, 40, 109.0)
    late = entries(1, 27, 33, 110.0)[1:]
    assert judge.judge(KILLED, evidence(curve=began + after[:5] + late[:5] + after[5:]), UNDISTURBED) == []
    complaints = judge.judge(KILLED, evidence(curve=began + after[:5] + late + after[5:]), UNDISTURBED)
    assert complaints == ["6 steps of earlier attempts came after a later attempt had begun"]


def test_limits_on_time_are_multiplied_by_the_slack():
    late = evidence(verdicts={1: 110.5}, curve=entries(1, 0, 27, 100.0) + entries(2, 20, 40, 129.0))
    assert len(judge.judge(KILLED, late, UNDISTURBED)) == 2
    assert judge.judge(KILLED, late, UNDISTURBED, slack=2.0) == []


def test_a_fault_that_may_have_no_effect_permits_fewer_attempts_but_not_more():
    fault = JobFault("short", "storage", "", "", causes=(r"no progress",), at_most=True)
    calm = {"curve": entries(1, 0, 40, 100.0), "verdicts": {1: 115.0}}
    assert judge.judge(fault, evidence(said=said(), **calm), UNDISTURBED) == []
    assert judge.judge(fault, evidence(said=said("no progress", "no progress"), **calm), UNDISTURBED) == [
        "there were 3 attempts, and not 2"
    ]


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
