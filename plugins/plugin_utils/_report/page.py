# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The report on a job as a single HTML file without scripts or external resources."""

from __future__ import annotations

import functools
import html
import json
import os
import re
import shlex
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from ...module_utils._job import document_schemas, goodput, job_states, naming, recovery, report_limits, state_names, step_times
from ...module_utils._job.documents import JobDescription
from ...module_utils._job.job_status import JobStatus
from ...module_utils._words import plural
from .. import job_formatting
from .._output.prices import Price, hourly_of_nodes
from .._output.words import duration, moment, percent
from . import charts
from .events import events

# Longer lists of processes are collapsed.
MANY = 16

# Values that, like steps, indicate how far the script has progressed. The report shows these values as numbers, without a curve.
COUNTERS = {"epoch", "epochs"}

# Maximum number of points in a curve or in the throughput chart.
POINTS = 2 * report_limits.POINTS

# Background colors of states. Other states have the color of `.state`.
COLOURS = {state_names.SUCCEEDED: "#d7f0dc", state_names.FAILED: "#fbdcd9", state_names.LOST: "#fbdcd9"}

BUCKET_COLOURS = {
    goodput.TRAINING: "#4c9f70",
    goodput.RECOMPUTED: "#e8a33d",
    goodput.CHECKPOINT: "#4f81bd",
    goodput.START: "#8fb8de",
    goodput.END: "#7f8fa6",
    goodput.WAITING: "#c9d3dd",
    goodput.DETECTION: "#d9534f",
    goodput.RESTART: "#a569bd",
    goodput.IDLE: "#8d949c",
}

LISTINGS = ("code", "logs", "checkpoints")

# Where a page contains the price.
PRICE = re.compile(r'<meta name="price" content="([^"]*)">')

TEMPLATE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{% if price %}
<meta name="price" content="{{ price }}">
{% endif %}
<title>{{ job.name }} {{ job.state }}</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; color: #1c1e21; background: #fff; max-width: 1180px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.6em } h2 { font-size: 1.2em; margin-top: 2em; border-bottom: 1px solid #ddd } h3 { font-size: 1em; margin-bottom: 0 }
table { border-collapse: collapse }
th, td { text-align: left; vertical-align: top; padding: .2em 1.2em .2em 0; border-bottom: 1px solid #eee }
td.time { white-space: nowrap }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
code, pre { font: 13px/1.4 ui-monospace, monospace; overflow-wrap: anywhere }
pre { background: #f6f8fa; padding: .8em; white-space: pre-wrap }
.charts { display: flex; flex-wrap: wrap } .charts img { max-width: 100% }
.state { padding: .1em .5em; border-radius: .3em; background: #e7edf3 }
{% for state, colour in colours.items() %}
.{{ state }} { background: {{ colour }} }
{% endfor %}
.bad { background: #fbdcd9 } .muted { color: #65707c }
.bar { display: flex; height: 1.4em; max-width: 60em; margin: .8em 0; border-radius: .3em; overflow: hidden }
.key { display: inline-block; width: .8em; height: .8em; margin-right: .5em; border-radius: .2em }
</style>
</head>
<body>
<h1>{{ job.name }} <span class="state {{ job.state }}">{{ job.state }}</span></h1>
<table>
{% for label, value in overview %}
<tr><th scope="row">{{ label }}</th><td>{{ value }}</td></tr>
{% endfor %}
</table>
{% for problem in job.problems | default([]) %}
<p class="bad">{{ problem }}</p>
{% endfor %}
{% if failure %}
<h2>Why the job did not succeed</h2>
<p>{{ job | failure_sentence }}</p>
{% if failure.lines %}
<pre>{{ failure.lines | join('\\n') }}</pre>
{% endif %}
{% endif %}

<h2>Progress</h2>
{% if not progress.entries %}
<p>The script reported no progress. To report progress, append JSON lines such as <code>{"step": 20, "steps": 100, "loss": 0.31}</code>
to the file <code>$DEEPLEARNING_PROGRESS</code>.</p>
{% elif not can_draw %}
<p>There are no curves because matplotlib is not installed on the controller. Run <code>pip install matplotlib</code>, and create the report
again.</p>
{% endif %}
{% for chart in charts %}
<h3>{{ chart.name }}</h3>
<div class="charts">
{% for image, description in chart.images %}
<img src="{{ image }}" alt="{{ description }}">
{% endfor %}
</div>
{% endfor %}
{% if progress.left_out %}
<p>{{ progress.left_out | length }} more values without curves: {{ progress.left_out | join(', ') }}.</p>
{% endif %}
{% if progress.curves %}
<table>
<tr><th></th>
{% for head in ('first', 'last', 'lowest', 'highest') %}<th class="number">{{ head }}</th><th class="number">at step</th>{% endfor %}
<th class="number">NaN or infinite</th></tr>
{% for curve in progress.curves %}
<tr><th scope="row">{{ curve.name }}</th>
{% for head in ('first', 'last', 'lowest', 'highest') %}
<td class="number">{{ (curve[head].value if head in curve else none) | short }}</td>
<td class="number">{{ (curve[head].step if head in curve else none) | short }}</td>
{% endfor %}
<td class="number{{ ' bad' if curve.missing }}">{{ curve.missing or '' }}</td></tr>
{% endfor %}
</table>
{% endif %}

{% if goodput %}
<h2>Goodput</h2>
<p>{{ goodput.title }}</p>
<div class="bar">
{% for row in goodput.rows %}
<div style="width: {{ row.width }}%; background: {{ row.colour }}" title="{{ row.name }} {{ row.share }}"></div>
{% endfor %}
</div>
<table>
<tr><th></th><th class="number">node-seconds</th><th class="number">share</th></tr>
{% for row in goodput.rows %}
<tr><th scope="row"><span class="key" style="background: {{ row.colour }}"></span>{{ row.name }}</th>
<td class="number">{{ row.seconds }}</td><td class="number">{{ row.share }}</td></tr>
{% endfor %}
</table>
<details><summary>seconds of each host</summary>
<table>
<tr><th>host</th>{% for row in goodput.rows %}<th class="number">{{ row.name }}</th>{% endfor %}</tr>
{% for host, seconds in goodput.hosts %}
<tr><th scope="row">{{ host }}</th>{% for each in seconds %}<td class="number">{{ each }}</td>{% endfor %}</tr>
{% endfor %}
</table>
</details>
{% endif %}
{% if step_times %}
<h2>Step times</h2>
<details{{ ' open' if step_times | length <= many }}><summary>{{ step_times | length }}, slowest first</summary>
<table>
<tr><th></th><th class="number">seconds per step</th></tr>
{% for each in step_times %}
<tr><th scope="row">{{ each.name }}{{ ' (slow)' if each.slow }}</th>
<td class="number{{ ' bad' if each.slow }}">{{ each.seconds | short }}</td></tr>
{% endfor %}
</table>
</details>
{% endif %}

<h2>Events</h2>
<table>
{% for event in events %}
<tr><td class="time">{{ event.time | moment }}</td><td class="{{ 'bad' if event.bad }}">{{ event.text }}</td></tr>
{% endfor %}
</table>

<h2>Processes</h2>
{% if job.processes %}
<details{{ ' open' if job.processes | length <= many }}><summary>{{ started }} of {{ job.process_count }}</summary>
<table>
<tr><th>process</th><th>host</th><th>state</th><th>started</th><th>ended</th><th>duration</th><th>exit</th><th></th></tr>
{% for process in job.processes %}
<tr><td>{{ process.name | title_of }}{{ ' (' ~ process.part ~ ')' if process.part not in ('worker', 'standby') }}</td>
<td>{{ process.host }}</td>
<td><span class="state {{ process.state }}">{{ process.state }}</span></td>
<td class="time">{{ process.started | moment }}</td>
<td class="time">{{ process.finished | default(none) | moment }}</td>
<td class="time">{{ ((process.finished | default(process.heartbeat)) - process.started) | duration }}</td>
<td>{{ process.signal | default(process.exit_code | default('')) }}</td><td>{{ process.reason | default('') }}</td></tr>
{% endfor %}
</table>
</details>
{% else %}
<p>No process has started.</p>
{% endif %}

<h2>How the job was started</h2>
<table>
{% for label, value in setup %}
<tr><th scope="row">{{ label }}</th><td><code>{{ value }}</code></td></tr>
{% endfor %}
</table>

<h2>Files</h2>
<p>In <code>{{ job.directory }}</code> on the cluster.
{% if copy_command %}To copy the directory to the controller, run <code>{{ copy_command }}</code>{% endif %}</p>
{% if job.export is mapping %}
<p>The job is exported to <code>{{ job.export.destination }}</code>.</p>
{% endif %}
{% for label, listing in listings %}
<details><summary>{{ label }}: {{ listing.count | plural('file', 'files') }}, {{ listing.size | bytes }} in
<code>{{ listing.directory }}</code></summary>
<table>
{% for file in listing.files %}
<tr><td><code>{{ file.name }}</code></td>
<td class="number">{{ file.size | bytes }}</td><td class="time">{{ file.changed | moment }}</td></tr>
{% endfor %}
</table>
{% if listing.count > listing.files | length %}
<p>and {{ listing.count - listing.files | length }} more</p>
{% endif %}
</details>
{% endfor %}
<p class="muted">Times are in UTC.{% if not over %} The job had not ended when this report was written ({{ end | moment }}).{% endif %}</p>
</body>
</html>
"""


def short(number: float | None) -> str:
    """Return a number as text with four significant digits, or with all digits if the number is an integer."""
    if number is None:
        return ""
    return f"{number:.0f}" if number == int(number) and abs(number) < 1e15 else f"{number:.4g}"


def size(count: float) -> str:
    """Return a number of bytes as text, such as `1.5 MB`."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.4g} TB"


FILTERS = {
    "short": short,
    "bytes": size,
    "moment": moment,
    "duration": duration,
    "plural": plural,
    "title_of": naming.title,
    "failure_sentence": job_formatting.failure_sentence,
}


@functools.lru_cache(maxsize=None)
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(FILTERS)
    return environment.from_string(TEMPLATE)


def known(price: Price | None) -> Price | None:
    """Return a price if it contains that of the nodes, or else None."""
    return price if price and hourly_of_nodes(price) else None


def price_in(path: str) -> Price | None:
    """Return the price with which a page was rendered, or None. The job's texts in the page are escaped and follow the price."""
    try:
        with open(path, encoding="utf-8") as file:
            found = PRICE.search(file.read())
        return known(json.loads(html.unescape(found[1]))) if found else None
    except (OSError, ValueError, TypeError, LookupError):
        return None


def render(report: Mapping[str, Any], copy_command: str | None, cost: str = "", price: Price | None = None) -> str:
    """Return the page for the result of the `training_job_report` module. All text in the page is escaped.

    `cost` says what the job has cost, if that is known. The page keeps the `price` for later pages.

    Raises ValueError if the result exceeds the module's own limits.
    """
    check(report)
    job, description = report["job"], report["description"]
    return _template().render(
        job=job,
        price=json.dumps(price) if price else "",
        started=len(job_states.participants(job["processes"])),
        failure=job.get("failure"),
        over=report["over"],
        end=report["end"],
        progress=report["progress"],
        overview=[*overview(report), *([("cost", cost)] if cost else [])],
        setup=setup(description, job, report["code"]),
        events=events(report),
        charts=drawn(report["progress"]),
        can_draw=charts.can_draw(),
        colours=COLOURS,
        many=MANY,
        copy_command=copy_command,
        listings=[(name, report[name]) for name in LISTINGS],
        goodput=goodput_rows(job),
        step_times=job.get("step_times"),
    )


def check(report: Mapping[str, Any]) -> None:
    """Raise ValueError if a list exceeds the module's own limit or a curve contains anything but numbers.

    Drawing such a result could take too long.
    """
    progress = report["progress"]
    lists = [
        ("processes", report["job"]["processes"], document_schemas.RECORDS_LIMIT),
        ("attempts", report["job"].get("attempts", []), recovery.ATTEMPTS_LIMIT),
        ("goodput.hosts", report["job"].get("goodput", {"hosts": []})["hosts"], goodput.HOSTS_LIMIT),
        ("step_times", report["job"].get("step_times", []), step_times.RANKS_LIMIT),
        ("instances", report["instances"], goodput.HOSTS_LIMIT),
        ("curves", progress["curves"], report_limits.CURVES),
        ("left_out", progress["left_out"], report_limits.LEFT_OUT),
        ("restarts", progress["restarts"], report_limits.RESTARTS),
        *((f"{name}.files", report[name]["files"], report_limits.FILES) for name in LISTINGS),
    ]
    for name, found, limit in lists:
        _check_list(name, found, limit)
    drawn_lists = [(key, curve[key]) for curve in curves(progress) for key in ("steps", "times", "lows", "means", "highs")]
    if progress["throughput"]:
        drawn_lists += [(key, progress["throughput"][key]) for key in ("times", "rates")]
    for name, found in drawn_lists:
        _check_list(name, found, POINTS)
        if not all(isinstance(each, (int, float)) for each in found):
            raise ValueError(f"{name} contains values that are not numbers")


def goodput_rows(job: JobStatus) -> dict[str, Any] | None:
    """Return the goodput values for the template: the non-empty time buckets of a job, and the seconds of each host in each bucket."""
    found = job.get("goodput")
    if not found or not found["nodes"]:
        return None
    total = sum(found["buckets"].values())
    shown = [bucket for bucket in goodput.BUCKETS if found["buckets"][bucket] > 0]
    rows = [
        {
            "name": job_formatting.BUCKET_TITLES[bucket],
            "colour": BUCKET_COLOURS[bucket],
            "seconds": f"{found['buckets'][bucket]:.0f}",
            "share": percent(found["buckets"][bucket] / total),
            "width": f"{100 * found['buckets'][bucket] / total:.3f}",
        }
        for bucket in shown
    ]
    hosts = [(each["host"], [f"{each['buckets'][bucket]:.0f}" for bucket in shown]) for each in found["hosts"]]
    return {"title": job_formatting.goodput_line(found), "rows": rows, "hosts": hosts}


def _check_list(name: str, found: Any, limit: int) -> None:
    if not isinstance(found, list) or len(found) > limit:
        raise ValueError(f"{name} is not a list of at most {limit} elements")


def _listing(hosts: list[str]) -> str:
    """Return the number of hosts, and their names unless there are too many."""
    return f"{len(hosts)}: {', '.join(hosts)}" if len(hosts) <= MANY else str(len(hosts))


def overview(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    job, progress = report["job"], report["progress"]
    hosts = list(dict.fromkeys(process["host"] for process in job_states.participants(job["processes"])))
    spares = job_states.standby_hosts(job["processes"])
    rows = [
        ("began", moment(report["start"])),
        (
            "ended" if report["over"] else "so far",
            f"{moment(report['end'])}, after {duration(report['end'] - report['start'])}",
        ),
        ("hosts", _listing(hosts)),
        *([("spares", _listing(spares))] if spares else []),
    ]
    if progress["step"] is not None:
        rows.append(("step", short(progress["step"]) + (f" of {short(progress['steps'])}" if progress["steps"] else "")))
    if progress["throughput"]:
        rows.append(("throughput", f"{short(progress['throughput']['mean'])} steps per second"))
    rows += [(curve["name"], f"{short(curve['last']['value'])} at the end") for curve in curves(progress)[:3]]
    return rows


def setup(description: JobDescription, job: JobStatus, code: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the rows that show how the job was started."""
    command = description.get("command") or [description.get("python", "python"), os.path.basename(description.get("script") or "")]
    rows = [
        ("launcher", str(job["launcher"])),
        *((name, str(value)) for name, value in (description.get("launcher_options") or {}).items()),
        ("command", shlex.join([*command, *(description.get("arguments") or [])])),
        ("code", ", ".join(part for part in (job_formatting.code(job), f"digest {code['digest']}") if part)),
    ]
    if description.get("time_limit"):
        rows.append(("time limit", duration(description["time_limit"])))
    return rows


def curves(progress: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the curves to draw. Counters and curves without values are not drawn."""
    return [curve for curve in progress["curves"] if "last" in curve and curve["name"] not in COUNTERS]


def drawn(progress: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not charts.can_draw():
        return []
    result = []
    for curve in curves(progress):
        words = f"from {short(curve['first']['value'])} to {short(curve['last']['value'])}, lowest {short(curve['lowest']['value'])}"
        images = [(charts.curve(curve, axis), f"{curve['name']} over {axis}: {words}") for axis in ("steps", "times")]
        result.append({"name": curve["name"], "images": images})
    rates = progress["throughput"]
    if rates:
        result.append(
            {"name": "steps per second", "images": [(charts.rates(rates), f"{short(rates['mean'])} steps per second on average")]}
        )
    return result
