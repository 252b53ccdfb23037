"""A node cannot keep the controller busy with a job report: the controller draws no more than the module can send."""

from __future__ import annotations

import base64
import copy
import json

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.files import status
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_report import curves
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.directories import Paths
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.document_schemas import RECORDS_LIMIT
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.goodput import HOSTS_LIMIT
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._report import charts, page
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.attempt_messages import attempt_cause, explain

from .jobs import DESCRIPTION, RECORD, Jobs
from .nodes import ON_NODES, Nodes

START = 1_790_000_000.0
FILES = {"directory": "/efs/jobs/digits-1/code", "count": 0, "size": 0, "files": []}


def report(entries) -> dict:
    found = curves.JobProgress(START)
    for time, entry in entries:
        found.add(START + time, entry)
    return {
        "job": {
            "name": "digits-1",
            "state": "failed",
            "directory": "/efs/jobs/digits-1",
            "created": START,
            "launcher": "torchrun",
            "processes": [],
            "process_count": 1,
        },
        "description": {"command": ["true"]},
        "instances": [],
        "start": START,
        "end": START + 90,
        "over": True,
        "progress": found.result(),
        **{name: {**FILES, "digest": "0"} for name in ("code", "logs", "checkpoints")},
    }


@pytest.fixture
def honest():
    return report((step, {"step": step, "loss": 1 / step}) for step in (1, 2, 3))


@pytest.fixture
def drawn(monkeypatch):
    """The names of the charts drawn, in order. Stubs, which take no time, replace the charts."""
    found = []
    for name in ("curve", "rates"):
        monkeypatch.setattr(charts, name, lambda *arguments, name=name: found.append(name) or "data:,")
    return found


def change(place: str, value):
    def changed(found):
        *parts, last = place.split(".")
        inner = found
        for part in parts:
            inner = inner[int(part) if part.isdigit() else part]
        inner[last] = value

    return pytest.param(changed, id=place)


def more_curves(found):
    found["progress"]["curves"] *= curves.CURVES + 1


@pytest.mark.parametrize(
    "changed",
    [
        more_curves,
        *(change(f"progress.curves.0.{key}", [1, 0] * curves.POINTS + [1]) for key in ("steps", "times", "lows", "means", "highs")),
        *(change(f"progress.curves.0.{key}", ["$\\frac{1}{2}$", "b", "c"]) for key in ("steps", "times", "lows", "means", "highs")),
        change("progress.curves.0.steps", [[1], [2], [3]]),
        change("progress.curves.0.steps", {"1": 1}),
        change("progress.throughput.times", [1.0] * (2 * curves.POINTS + 1)),
        change("progress.throughput.rates", ["a"]),
        change("progress.restarts", [{"time": 0, "from": 1, "to": 0}] * 21),
        change("progress.left_out", ["x"] * 101),
        change("instances", ["i-0123456789abcdef0"] * (HOSTS_LIMIT + 1)),
        change("job.processes", [{"host": "a"}] * (RECORDS_LIMIT + 1)),
        change("logs.files", [{"name": "x", "size": 0, "changed": START}] * 101),
    ],
)
def test_what_the_module_cannot_have_sent_is_refused_before_anything_is_drawn(honest, drawn, changed):
    damaged = copy.deepcopy(honest)
    changed(damaged)
    with pytest.raises(ValueError, match=r"is not a list of at most|contains values that are not numbers"):
        page.render(damaged, None)
    assert not drawn
    page.render(honest, None)
    assert drawn


def test_the_most_that_the_module_sends_is_drawn(drawn):
    """Times and steps increase and decrease. There are more entries than a curve has points, and more values than there are curves."""
    entries = [
        (0, {"step": step % 7 + step / 9, "time": START + (step if step < 990 else 1), **{f"value{i}": float(step) for i in range(130)}})
        for step in range(999)
    ]
    found = json.loads(json.dumps(report(entries)))
    assert len(found["progress"]["curves"][0]["steps"]) == 2 * curves.POINTS - 1
    assert len(found["progress"]["throughput"]["times"]) > curves.RATES
    page.render(found, None)
    assert drawn == ["curve"] * 2 * curves.CURVES + ["rates"]


def test_a_curve_that_turns_takes_no_more_artists_than_one_that_does_not():
    def groups(steps):
        values = [1.0] * len(steps)
        curve = {"steps": steps, "times": steps, "means": values, "lows": values, "highs": values}
        image = base64.b64decode(charts.curve(curve, "steps").partition(",")[2]).decode()
        return image.count('<g id="FillBetweenPolyCollection'), image.count('<g id="PolyCollection'), image.count('<g id="line2d')

    assert groups([0.0, 1.0] * 100) == groups([0.0, *[1.0] * 199])


EVIL = "<script>alert('1')<img src=x onerror=\"alert(1)\">&"


def test_nothing_that_a_job_has_written_about_its_attempts_is_markup(honest, tmp_path):
    """The causes, checkpoints and processes come from files that the job has forged, and pass the module's checks."""
    jobs = Jobs(tmp_path)
    failed = {**RECORD, "restartable": True, "cause": {"kind": "script_error", "what": EVIL, "message": EVIL}}
    folder = jobs.add("digits-1", {**DESCRIPTION, "command": [EVIL]}, rank0=failed)
    decision = {"decided": START, "failure": failed, "cause": failed["cause"], "set_aside": {"name": EVIL, "changed": START}}
    rules = [("restart", "suspect_checkpoint"), ("restart", "suspect_host"), ("stop", "same_error")]
    for attempt, (action, rule) in enumerate(rules, 1):
        place = folder / "status" / ("" if attempt == 1 else f"attempt{attempt}")
        place.mkdir(exist_ok=True)
        (place / "next").write_text(json.dumps({**decision, "action": action, "rule": rule}))
        (place / "rank0.json").write_text(json.dumps(failed))
    (folder / "status/rank1.json").write_text(json.dumps({**failed, "host": EVIL, "name": "rank1"}))
    (folder / "status/attempt3/rank1.json").write_text(json.dumps({**failed, "host": EVIL, "name": "rank1"}))
    honest["job"] = status.read_status(Paths(str(folder)), 60)
    html = page.render(honest, None)
    shown = [attempt_cause(one) + explain(one) for one in honest["job"]["attempts"]]
    assert [EVIL in one for one in shown] == [True, True, True]
    assert "Attempts 0 and 1 failed after checkpoint &lt;script&gt;" in html
    assert honest["job"]["problems"]
    assert "<script" not in html.lower()
    assert "<img src=x" not in html


@pytest.mark.parametrize(
    "said",
    [
        *({place: EVIL + '"'} for place in ("host", "state", "signal", "part")),
        {"state": "stopped", "stopped_for": EVIL},
        {"cause": {"kind": "health", "what": EVIL}},
    ],
)
def test_nothing_that_a_node_says_about_a_process_is_markup(honest, said):
    """A node can also send data that the module would not send."""
    honest["job"]["processes"] = [{**RECORD, "name": "rank0", **said}]
    html = page.render(honest, None)
    assert "&lt;script&gt;" in html
    assert "<script" not in html
    assert 'onerror="' not in html


def test_an_answer_with_too_much_fails_the_task_in_a_sentence(honest, tmp_path):
    more_curves(honest)
    task = {"deeplearning.cluster.training_job_report": ON_NODES["training_job_report"]}
    done = Nodes(tmp_path).run([task], {"changed": False, "report": honest})
    assert done.returncode != 0
    assert "curves is not a list of at most 24 elements. Check the host" in " ".join((done.stdout + done.stderr).split())
