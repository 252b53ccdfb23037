"""Tests that check what a report derives from the progress of a job: curves, times and throughput."""

from __future__ import annotations

import json
import math

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.files import progress_times
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import process_watch
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_report import curves
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.directories import Paths

from unit.plugins.module_utils._job.definition.parameters import DEFAULTS

START = 1_790_000_000.0


@pytest.fixture
def read(tmp_path):
    """Return a function that writes a job's progress file and returns what the report derives from this file."""

    def read_it(*lines, notes=(), seconds=100.0):
        path = tmp_path / "progress.jsonl"
        path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
        return curves.read(str(path), notes, START, START + seconds)

    return read_it


def test_numbers_become_curves_over_steps_and_the_times_that_the_script_tells(read):
    found = read(
        {"step": 10, "steps": 30, "time": START + 2, "loss": 4.0, "phase": "warm up", "best": True},
        {"step": 20, "steps": 30, "time": START + 4, "loss": 1.5, "rate": 0.1},
        {"step": 30, "steps": 30, "time": START + 8, "loss": 2.0},
    )
    loss, rate = found["curves"]
    assert (loss["name"], loss["steps"], loss["times"], loss["means"]) == ("loss", [10, 20, 30], [2, 4, 8], [4.0, 1.5, 2.0])
    assert [loss[key]["value"] for key in ("first", "last", "lowest", "highest")] == [4.0, 2.0, 1.5, 4.0]
    assert loss["lowest"] == {"value": 1.5, "step": 20, "time": 4}
    assert (rate["name"], rate["steps"]) == ("rate", [20])
    assert (found["entries"], found["step"], found["steps"]) == (3, 30, 30)
    assert found["throughput"] == {"mean": 20 / 6, "times": [4, 8], "rates": [5.0, 2.5]}


def test_without_times_of_its_own_a_line_was_written_when_the_file_was_that_long(read):
    line = json.dumps({"step": 100}) + "\n"
    size = len(line)
    lines = [{"step": 100 + step, "loss": 1.0} for step in range(4)]
    longer = len(json.dumps(lines[0])) + 1
    found = read(*lines, notes=[(START + 10, longer), (START + 30, 3 * longer)])
    assert found["curves"][0]["times"] == [10, 20, 30, 100]
    clock = progress_times.Clock(START, START - 5, [])
    assert clock.time(size) == START


def test_what_is_not_a_line_of_json_is_left_out(read):
    found = read("no json\n", "[1]\n", {"loss": 3.0}, "\n", {"loss": 2}, '{"loss": 1')
    assert found["curves"][0]["means"] == [3.0, 2.0]
    assert found["curves"][0]["steps"] == [1, 2]
    assert found["step"] is None


def test_a_job_without_progress(read, tmp_path):
    empty = {"entries": 0, "step": None, "steps": None, "curves": [], "left_out": [], "restarts": [], "throughput": None}
    assert read() == empty
    assert curves.read(str(tmp_path / "none"), progress_times.read_notes(str(tmp_path / "none")), START, START) == empty


def test_values_that_are_not_finite_are_counted_and_not_drawn(read):
    values = [1.0, math.nan, math.inf, 10**400, 2.0]
    (loss,) = read(*({"step": step, "loss": value} for step, value in enumerate(values)))["curves"]
    assert loss["means"] == [1.0, 2.0]
    assert loss["missing"] == 3
    assert loss["first_missing"]["step"] == 1
    (loss,) = read({"step": 7, "loss": math.nan})["curves"]
    assert (loss["means"], "last" in loss) == ([], False)
    json.dumps(read({"step": math.nan, "steps": math.inf, "time": math.inf, "loss": 1}), allow_nan=False)


def test_a_hundred_thousand_points_are_thinned_and_no_extreme_is_lost(read):
    count = 100_000
    found = read(*({"step": step, "time": START + step / 1000, "loss": 9.0 if step == 54_321 else 1.0} for step in range(count)))
    (loss,) = found["curves"]
    assert curves.POINTS <= len(loss["means"]) < 2 * curves.POINTS
    assert max(loss["highs"]) == 9.0
    assert loss["highest"]["step"] == 54_321
    assert loss["steps"] == sorted(loss["steps"])
    assert loss["steps"][-1] == count - 1
    assert found["throughput"]["mean"] == pytest.approx(1000)
    assert found["throughput"]["rates"] == pytest.approx([1000] * len(found["throughput"]["rates"]), rel=0.01)
    assert len(found["throughput"]["rates"]) <= curves.RATES


def test_a_script_that_resumes_goes_back_and_what_it_does_again_counts_as_work(read):
    steps = [10, 20, 30, 20, 30, 40]
    found = read(*({"step": step, "time": START + 10 * index} for index, step in enumerate(steps)))
    assert found["restarts"] == [{"time": 30, "from": 30, "to": 20}]
    assert found["throughput"]["mean"] == pytest.approx(40 / 50)
    assert found["throughput"]["rates"] == [1, 1, 0, 1, 1]


@pytest.mark.parametrize("done", [[], [(0, 0)], [(5, 0), (5, 10)], [(0, 10), (9, 10)]])
def test_throughput_needs_time_and_steps(done):
    assert curves.throughput(done) is None


def test_too_many_names_are_named_and_not_drawn(read):
    found = read({f"layer{index}": index for index in range(curves.CURVES + 2)}, {"layer0": 1, "other": 2})
    assert len(found["curves"]) == curves.CURVES
    assert found["left_out"] == [f"layer{curves.CURVES}", f"layer{curves.CURVES + 1}", "other"]


def test_the_lead_notes_how_the_progress_grows(tmp_path):
    paths = Paths(str(tmp_path))
    (tmp_path / "status").mkdir()
    spec = {"directory": str(tmp_path), "lead": "rank0", "attempt": 1, "part": "worker", "parameters": {**DEFAULTS, "health_check": False}}
    for name in ("rank0", "rank1"):
        record = {"name": name, "rank": 0, "state": "running"}
        watch = process_watch.Watch(spec, record)
        watch.write()
        (tmp_path / "progress.jsonl").write_text('{"step": 1}\n')
        watch.write()
        watch.write()
    ((time, size),) = progress_times.read_notes(paths.progress_times)
    assert size == 12
    assert time == pytest.approx(watch.record["heartbeat"], abs=60)
    with open(paths.progress_times, "a", encoding="utf-8") as file:
        file.write("17")
    assert len(progress_times.read_notes(paths.progress_times)) == 1
