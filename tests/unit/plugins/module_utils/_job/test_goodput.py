"""Tests that check how the time of a job's hosts is accounted for. Each moment of each host must be assigned to exactly one bucket."""

from __future__ import annotations

import math
import random

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import goodput
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.goodput import BUCKETS, Attempt, Meter

BOTH = {"a": None, "b": None}


def measure(attempts, entries=(), created=0.0, end=100.0, hosts=(), has_succeeded=False, is_running=False):
    """Return the result for progress entries. Each entry is a pair of a time and a step, or of a time and a dictionary."""
    meter = Meter(created, end, attempts, hosts, has_succeeded, is_running)
    for time, entry in entries:
        meter.add(time, entry if isinstance(entry, dict) else {"step": entry})
    return meter.result()


def spent(found):
    """Return the buckets that are not empty."""
    return {bucket: seconds for bucket, seconds in found.items() if seconds}


def of_host(found, name):
    (buckets,) = [each["buckets"] for each in found["hosts"] if each["host"] == name]
    return spent(buckets)


def steps(first, *numbers, every=1.0):
    return [(first + every * index, number) for index, number in enumerate(numbers)]


@pytest.mark.parametrize(("is_running", "bucket"), [(True, "start"), (False, "training")])
def test_a_running_job_that_has_reported_nothing_may_still_be_starting(is_running, bucket):
    found = measure([Attempt(0, BOTH, 10)], is_running=is_running)
    assert spent(found["buckets"])[bucket] >= 180
    assert ("training" in spent(found["buckets"])) != is_running


def test_an_undisturbed_job_waits_starts_and_trains():
    found = measure([Attempt(10, BOTH, 12)], [(15, 1), (20, 2), (90, 3)])
    assert found["nodes"] == 2
    assert found["seconds"] == 100
    assert spent(found["buckets"]) == {"waiting": 20, "start": 10, "training": 170}
    assert found["ratio"] == 0.85
    assert list(found["buckets"]) == list(BUCKETS)
    assert found["hosts"] == [
        {"host": host, "buckets": {**dict.fromkeys(BUCKETS, 0), "waiting": 10, "start": 5, "training": 85}} for host in ("a", "b")
    ]


LAST = {"step": 3, "steps": 3}


@pytest.mark.parametrize(
    ("entries", "has_succeeded", "expected"),
    [
        ([(15, 1), (90, 3)], True, {"waiting": 10, "start": 5, "training": 75, "end": 10}),
        ([(15, 1), (90, 3)], False, {"waiting": 10, "start": 5, "training": 85}),
        ([(15, 1), (90, LAST)], False, {"waiting": 10, "start": 5, "training": 75, "end": 10}),
        ([(15, 1), (60, LAST), (90, {"phase": "evaluation"})], True, {"waiting": 10, "start": 5, "training": 45, "end": 40}),
        ([(15, 1), (60, LAST), (90, {"step": 4, "steps": 6})], False, {"waiting": 10, "start": 5, "training": 85}),
        ([(60, LAST)], True, {"waiting": 10, "start": 50, "end": 40}),
        ([], True, {"waiting": 10, "start": 2, "training": 88}),
    ],
)
def test_what_follows_the_last_step_is_no_training(entries, has_succeeded, expected):
    found = measure([Attempt(10, BOTH, 12)], entries, has_succeeded=has_succeeded)
    assert of_host(found, "a") == expected


def test_a_restart_after_the_last_step_begins_anew():
    attempts = [Attempt(10, BOTH, 12, failed=40, decided=45), Attempt(50, BOTH, 52)]
    found = measure(attempts, [(15, 1), (20, LAST), (60, 2), (70, LAST)], has_succeeded=True)
    expected = {"waiting": 10, "start": 15, "training": 5, "end": 20 + 30, "detection": 5, "restart": 5, "recomputed": 10}
    assert of_host(found, "a") == expected


def test_a_restarted_job_computes_again_what_it_had_reported():
    attempts = [Attempt(10, BOTH, 12, failed=40, decided=45), Attempt(50, BOTH, 52)]
    found = measure(attempts, [(15, 1), (20, 2), (30, 3), (55, 2), (60, 3), (70, 4)])
    assert of_host(found, "a") == {
        "waiting": 10,
        "start": 5 + 5,
        "training": 25 + 40,
        "detection": 5,
        "restart": 5,
        "recomputed": 5,
    }
    assert of_host(found, "b") == of_host(found, "a")


def test_the_highest_step_of_all_earlier_attempts_counts():
    attempts = [Attempt(0, BOTH, failed=20, decided=20), Attempt(20, BOTH, failed=40, decided=40), Attempt(40, BOTH)]
    found = measure(attempts, [*steps(1, 1, 2, 3, 4, 5), *steps(21, 1, 2, 3), *steps(41, 3, 4, 5, 6, 7)])
    assert spent(found["buckets"]) == {"start": 2 * 3, "training": 2 * (19 + 57), "recomputed": 2 * (19 + 2)}


def test_after_its_last_entry_an_attempt_recomputes_until_it_is_past_the_highest_step():
    def last(step):
        attempts = [Attempt(0, {"a": None}, failed=10, decided=10), Attempt(10, {"a": None})]
        return spent(measure(attempts, [(1, 1), (2, 8), (11, step)])["buckets"])

    assert last(7) == {"start": 2, "training": 9, "recomputed": 89}
    assert last(8) == {"start": 2, "training": 98}
    assert last(9) == {"start": 2, "training": 98}


def test_a_step_that_is_lower_within_an_attempt_is_training():
    found = measure([Attempt(0, {"a": None})], [(1, 5), (2, 1), (3, 2)])
    assert spent(found["buckets"]) == {"start": 1, "training": 99}


def saved(seconds, **more):
    return {"checkpoint_seconds": seconds, **more}


def test_a_checkpoint_was_written_at_the_beginning_of_the_time_before_an_entry():
    entries = [(1, 1), (2, 2), (10, saved(3, step=3)), (20, {"phase": "evaluation"}), (30, saved(4)), (40, saved(80, step=4))]
    found = measure([Attempt(0, {"a": None}, failed=23)], entries)
    assert spent(found["buckets"]) == {"start": 1, "training": 1 + 5 + 10, "checkpoint": 3 + 3, "detection": 77}
    found = measure([Attempt(0, {"a": None})], entries)
    assert spent(found["buckets"]) == {"start": 1, "training": 1 + 5 + 10 + 6 + 60, "checkpoint": 3 + 4 + 10}


def test_a_checkpoint_is_not_computed_again():
    attempts = [Attempt(0, {"a": None}, failed=10, decided=10), Attempt(10, {"a": None})]
    found = measure(attempts, [(1, 1), (9, 2), (15, saved(2, step=1)), (20, saved(2, step=2)), (30, 3)])
    assert spent(found["buckets"]) == {"start": 1 + 5, "training": 9 + 80, "checkpoint": 2, "recomputed": 3}


@pytest.mark.parametrize("seconds", [0, -5, math.nan, math.inf, True, "1", None])
def test_what_is_no_duration_of_a_checkpoint_does_not_count(seconds):
    found = measure([Attempt(0, {"a": None})], [(1, 1), (10, saved(seconds, step=2))])
    assert spent(found["buckets"]) == {"start": 1, "training": 99}


def test_entries_without_a_step_are_spent_on_the_next_step():
    attempts = [Attempt(0, {"a": None}, failed=10, decided=10), Attempt(10, {"a": None})]
    found = measure(attempts, [(1, 1), (2, 3), (11, 1), (12, {}), (13, 3), (14, {"loss": 1})])
    assert spent(found["buckets"]) == {"start": 2, "training": 9 + 87, "recomputed": 2}


def test_the_time_after_an_entry_without_a_step_is_recomputed_if_the_first_step_is_an_old_one():
    attempts = [Attempt(0, {"a": None}, failed=10, decided=10), Attempt(10, {"a": None})]
    found = measure(attempts, [(1, 1), (2, 3), (11, {"phase": "training"}), (15, 3), (20, saved(1, step=4))])
    assert spent(found["buckets"]) == {"start": 2, "training": 9 + 84, "recomputed": 4, "checkpoint": 1}


@pytest.mark.parametrize("step", [True, math.inf, math.nan, "1", None, [1]])
def test_a_step_that_is_no_finite_number_does_not_count(step):
    attempts = [Attempt(0, {"a": None}, failed=10, decided=10), Attempt(10, {"a": None})]
    found = measure(attempts, [(1, {"step": step}), (2, {"step": step}), (11, 0), (12, 1)])
    assert spent(found["buckets"]) == {"start": 2, "training": 98}


def test_without_progress_training_begins_when_all_processes_have_started():
    attempts = [Attempt(10, BOTH, 13, failed=40, decided=45), Attempt(50, BOTH, 52)]
    assert of_host(measure(attempts), "a") == {"waiting": 10, "start": 3 + 2, "training": 27 + 48, "detection": 5, "restart": 5}


def test_an_attempt_without_progress_of_a_job_with_progress_was_starting():
    attempts = [Attempt(0, {"a": None}, 1, failed=10, decided=10), Attempt(20, {"a": None}, 21)]
    assert spent(measure(attempts, [(30, 1)])["buckets"]) == {"start": 20, "restart": 10, "training": 70}
    assert spent(measure(attempts, [(5, 1)])["buckets"]) == {"start": 5 + 80, "restart": 10, "training": 5}


def test_entries_before_the_first_attempt_do_not_count():
    found = measure([Attempt(10, {"a": None}, 12)], [(5, {"step": 9})])
    assert spent(found["buckets"]) == {"waiting": 10, "start": 2, "training": 88}


def test_an_entry_belongs_to_the_attempt_that_begins_at_its_time():
    attempts = [Attempt(0, {"a": None}, failed=10, decided=10), Attempt(10, {"a": None})]
    assert spent(measure(attempts, [(10, 1)])["buckets"]) == {"start": 10, "training": 90}


def test_a_job_that_has_not_started_waits():
    assert spent(measure([], hosts=["a", "b"])["buckets"]) == {"waiting": 200}
    nothing = measure([])
    assert (nothing["nodes"], nothing["seconds"], nothing["ratio"]) == (0, 100, 0)
    assert nothing["buckets"] == dict.fromkeys(BUCKETS, 0)


def test_a_host_that_takes_no_part_is_idle():
    attempts = [Attempt(10, BOTH, failed=40, decided=45), Attempt(50, {"a": None}, failed=60, decided=70)]
    found = measure(attempts, [(20, 1), (55, 2)], hosts=["a", "c"])
    assert [each["host"] for each in found["hosts"]] == ["a", "b", "c"]
    assert of_host(found, "b") == {"waiting": 10, "start": 10, "training": 20, "detection": 5, "idle": 55}
    assert of_host(found, "c") == {"waiting": 10, "idle": 90}
    assert of_host(found, "a")["detection"] == 5 + 40


def test_a_host_whose_processes_have_ended_is_idle_until_the_attempt_fails():
    attempts = [Attempt(10, {"a": None, "b": 30, "c": 15, "d": 5, "e": 70}, failed=60, decided=80), Attempt(80, BOTH)]
    found = measure(attempts, [(20, 1), (25, 2), (60, saved(35)), (90, 3)])
    start = {"waiting": 10, "start": 10}
    first = {"detection": 20, "idle": 20}
    assert of_host(found, "b") == {**start, "training": 5 + 10, "checkpoint": 5, "idle": 30, "detection": 20} | {"start": 20}
    assert of_host(found, "c") == {**start, "start": 5, "detection": 20, "idle": 45 + 20}
    assert of_host(found, "d") == {"waiting": 10, "idle": 50 + 20, "detection": 20}
    assert of_host(found, "e") == {**start, "training": 5, "checkpoint": 35, **first}


def test_an_attempt_that_hung_failed_with_its_last_entry_or_later():
    def hung(failed, **more):
        attempts = [Attempt(0, {"a": None}, failed=failed, decided=50, unnoticed=True), Attempt(50, {"a": None})]
        return spent(measure(attempts, [(1, 1), (30, 2), (60, 3)], **more)["buckets"])

    assert hung(0) == {"start": 11, "training": 29 + 40, "detection": 20}
    assert hung(35) == {"start": 11, "training": 34 + 40, "detection": 15}
    assert hung(99) == {"start": 11, "training": 49 + 40}
    alone = measure([Attempt(0, {"a": None}, 5, failed=20, decided=50, unnoticed=True)])
    assert spent(alone["buckets"]) == {"start": 5, "training": 15, "detection": 80}
    last = measure([Attempt(0, {"a": None}, failed=0, unnoticed=True)], [(1, 1), (30, 2)])
    assert spent(last["buckets"]) == {"start": 1, "training": 29, "detection": 70}
    late = [Attempt(0, {"a": None}, failed=10, decided=50, unnoticed=True), Attempt(60, {"a": None})]
    assert spent(measure(late, [(1, 1), (55, 2), (60, 3)])["buckets"]) == {"start": 1, "training": 49 + 40, "restart": 10}


def test_entries_after_a_failure_count_for_the_steps_only():
    attempts = [Attempt(0, {"a": None}, failed=10, decided=20), Attempt(20, {"a": None})]
    found = measure(attempts, [(1, 1), (15, 5), (21, 4), (22, 5), (23, 6)])
    assert spent(found["buckets"]) == {"start": 2, "training": 9 + 78, "detection": 10, "recomputed": 1}


def test_the_last_attempt_lasts_until_the_job_ends_and_one_without_a_decision_until_the_next():
    attempts = [Attempt(0, {"a": None}, failed=10), Attempt(30, {"a": None}, failed=50, decided=60)]
    assert spent(measure(attempts, [(1, 1), (31, 2)])["buckets"]) == {"start": 2, "training": 9 + 19, "detection": 20 + 50}
    assert spent(measure([Attempt(0, {"a": None}, 0, decided=60)])["buckets"]) == {"training": 100}


def test_a_restart_that_has_not_begun_lasts_until_now():
    attempts = [Attempt(0, BOTH, failed=10, decided=30), Attempt(math.inf, {"a": None})]
    found = measure(attempts, [(1, 1)])
    assert of_host(found, "a") == {"start": 1, "training": 9, "detection": 20, "restart": 70}
    assert of_host(found, "b") == {"start": 1, "training": 9, "detection": 20, "idle": 70}


def test_times_in_the_wrong_order_are_moved():
    attempts = [Attempt(-5, {"a": 2}, 400, failed=90, decided=50), Attempt(20, {"a": None}, -1, failed=-3, decided=700)]
    found = measure(attempts, [(70, 1), (60, 2), (900, 3)])
    assert of_host(found, "a") == {"start": 2, "idle": 48, "detection": 50}
    assert measure([Attempt(5, {"a": None})], created=50, end=10)["seconds"] == 0
    assert spent(measure([Attempt(5, {"a": None}, 60)], created=10)["buckets"]) == {"start": 50, "training": 40}


def test_an_entry_is_not_earlier_than_the_one_before_it_nor_later_than_the_end():
    entries = [(10, 1), (30, 2), (20, saved(5)), (800, saved(90))]
    found = measure([Attempt(0, {"a": None})], entries)
    assert spent(found["buckets"]) == {"start": 10, "training": 20, "checkpoint": 70}


def test_the_number_of_hosts_is_limited(monkeypatch):
    monkeypatch.setattr(goodput, "HOSTS_LIMIT", 3)
    found = measure([Attempt(0, BOTH), Attempt(50, {"c": None, "d": None})], hosts=["e"])
    assert [each["host"] for each in found["hosts"]] == ["a", "b", "c"]
    assert sum(found["buckets"].values()) == 300


def random_time(noise):
    return noise.choice([noise.uniform(-50, 250), noise.uniform(0, 100), float(noise.randrange(0, 100, 10)), math.inf, 1e18, 0.0])


def random_attempt(noise, names):
    hosts = {name: noise.choice([None, random_time(noise)]) for name in noise.sample(names, noise.randint(0, len(names)))}
    optional = [noise.choice([None, random_time(noise)]) for _unused in range(2)]
    return Attempt(random_time(noise), hosts, random_time(noise), *optional, unnoticed=noise.random() < 0.3)


def random_entry(noise):
    entry = {"step": noise.choice([noise.randrange(20), noise.uniform(-5, 5), "x", True, None, math.nan, 10**30])}
    return saved(noise.choice([noise.uniform(-5, 60), math.inf, None, 10**17, []]), **entry) if noise.random() < 0.4 else entry


@pytest.mark.parametrize("seed", range(300))
def test_whatever_the_files_say_the_buckets_add_up_to_nodes_times_wall_clock(seed):
    noise = random.Random(seed)
    names = [f"worker{number}" for number in range(noise.randint(1, 5))]
    attempts = [random_attempt(noise, names) for _unused in range(noise.randint(0, 6))]
    if noise.random() < 0.5:  # the order in which real attempts begin
        attempts.sort(key=lambda attempt: attempt.began)
    entries = [(random_time(noise), random_entry(noise)) for _unused in range(noise.randint(0, 40))]
    if noise.random() < 0.5:
        entries.sort(key=lambda entry: entry[0])
    created, end = noise.uniform(-20, 40), noise.uniform(0, 200)
    found = measure(attempts, entries, created, end, noise.sample(names, noise.randint(0, len(names))))
    wall = max(0.0, end - created)
    assert math.isclose(found["seconds"], wall, abs_tol=0.001)
    assert found["nodes"] == len(found["hosts"])
    assert math.isclose(sum(found["buckets"].values()), found["nodes"] * wall, abs_tol=0.05)
    for each in found["hosts"]:
        assert math.isclose(sum(each["buckets"].values()), wall, abs_tol=0.01)
        assert min(each["buckets"].values()) >= 0
    for bucket in BUCKETS:
        assert math.isclose(found["buckets"][bucket], sum(each["buckets"][bucket] for each in found["hosts"]), abs_tol=0.05)
    assert 0 <= found["ratio"] <= 1


def test_many_hosts_that_end_one_after_the_other_and_many_changes_take_no_time():
    hosts = {f"worker{number}": 10.0 + number / 100 for number in range(1 << 14)}
    meter = Meter(0, 1e6, [Attempt(5, hosts, failed=1e5)])
    for number in range(1 << 16):
        meter.add(6 + number / 400, saved(0.001, step=number))
    found = meter.result()
    assert math.isclose(sum(found["buckets"].values()), 1e6 * (1 << 14), rel_tol=1e-6)
