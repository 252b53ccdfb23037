# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Describes what happened to a cluster, as text, CSV or JSON.

AWS's records are facts. What hosts report is data that a job may have forged: it is one line that begins with the name of the host, and it
has neither a caller nor a price.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..module_utils._aws.cluster_events.scaling import DETACHMENT, LAUNCH, LAUNCH_FAILED, STOP, TERMINATION
from ..module_utils._text import clean_line
from ._output import prices
from ._report.events import of_job
from .job_formatting import failure_cause, moment, plural

# The longest text of a host, and of AWS, in characters.
REPORTED, CAUSE = 300, 1000
# The most events of the hosts that are shown. The newest ones count.
MOST_REPORTED = 1000
WORDS = {
    DETACHMENT: "detached, so it no longer belongs to the cluster",
    LAUNCH: "launched",
    LAUNCH_FAILED: "could not be launched",
    STOP: "stopped",
    TERMINATION: "terminated",
}
# The beginnings of cells that a spreadsheet would evaluate as formulas, also in full width.
FORMULA = re.compile(r"[\s]*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")
COLUMNS = ("time", "source", "what", "by", "why", "price_per_hour", "currency")


class Line(NamedTuple):
    """An event in words. `source` is `AWS`, or says which host has reported the event."""

    time: float
    source: str
    what: str
    by: str = ""
    why: str = ""
    hourly: float | None = None


def cluster_events(facts: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]], host: str, problem: str, form: str) -> str:
    """Return what happened to a cluster, in the form `text`, `csv` or `json`.

    `facts` is the result of the module cluster_events_info, and `jobs` are the jobs that `host` has reported. `problem` says why it has
    reported none. Without a running node, `host` is empty.
    """
    # Events of AWS come first if the times are equal
    lines = sorted([*_of_aws(facts["events"]), *_reported(jobs, host, facts["since"], facts["read_at"])], key=lambda line: line.time)
    currency = (facts["price"] or {}).get("currency", "")
    if form == "csv":
        return _csv(lines, currency)
    notes = [*_remarks(facts["problems"]), *_silence(host, problem), _sum(facts)]
    if form == "json":
        told = [{**line._asdict(), "time": moment(line.time)} for line in lines]
        return json.dumps({"events": told, "nodes": facts["nodes"], "currency": currency, "remarks": notes}, indent=2) + "\n"
    return "\n".join([*(_text(line, currency) for line in lines), *notes])


def _reported(jobs: Sequence[Mapping[str, Any]], host: str, since: float, now: float) -> list[Line]:
    """Return what a host has reported about jobs since a time. Nothing that it reports has happened in the future."""
    lines: list[Line] = []
    for job in jobs:
        with contextlib.suppress(ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # of a job that lacks something
            lines += [line._replace(time=min(line.time, now)) for line in _of_job(job, host) if line.time >= since]
    return sorted(lines, key=lambda line: line.time)[-MOST_REPORTED:]


def _silence(host: str, problem: str) -> Iterator[str]:
    if not host:
        yield "Jobs are not shown, because the cluster has no running nodes."
    elif problem:
        yield _clean(f"Jobs are not shown, because {host} did not list them: {problem}")


def _of_aws(events: Iterable[Mapping[str, Any]]) -> Iterator[Line]:
    """Yield the lines for AWS's events. Failed launches with the same cause are one line, however often the group has tried."""
    failed: list[Mapping[str, Any]] = []
    for event in events:
        if failed and (event["action"] != LAUNCH_FAILED or _kind(event) != _kind(failed[0])):
            yield _failed(failed)
            failed = []
        if event["action"] == LAUNCH_FAILED:
            failed.append(event)
        else:
            yield _line(event)
    if failed:
        yield _failed(failed)


def _kind(event: Mapping[str, Any]) -> tuple[str, str]:
    return event["group"], event["cause"]


def _failed(events: Sequence[Mapping[str, Any]]) -> Line:
    first, last = _line(events[0]), events[-1]["time"]
    more = f", {len(events)} times until {moment(last)}" if len(events) > 1 else ""
    return first._replace(what=first.what + more)


def _line(event: Mapping[str, Any]) -> Line:
    names = _clean(", ".join(event["resources"]))
    if event["action"] in WORDS:
        node = f"node {names} of {event['group']}" if names else f"a node of {event['group']}"
        what = f"{node} {WORDS[event['action']]}"
    else:
        failure = f" failed ({event['error']})" if event["error"] else ""
        what = f"{event['action']} {names}{failure}"
    return Line(event["time"], "AWS", _clean(what), _clean(event["caller"]), _clean(event["cause"]), event["hourly"])


def _clean(text: str, limit: int = CAUSE) -> str:
    line = clean_line(str(text)).strip()
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def _of_job(job: Mapping[str, Any], host: str) -> Iterator[Line]:
    """Yield the lines for what a host has reported about a job."""
    over = job.get("over", False)
    told = [(event.time, event.text) for event in of_job(job, over, job["ended"])]
    if job["began"]:
        told.append((job["began"], f"started on {plural(job['hosts'], 'host', 'hosts')}"))
    for time, text in told:
        why = failure_cause(job) if over and text.startswith("job ") and job.get("failure") else ""  # type: ignore[arg-type]
        what = f"job {job['name']}: {text.removeprefix('job ')}"
        yield Line(time, f"reported by {host}", _clean(what, REPORTED), "", _clean(why, REPORTED))


def _text(line: Line, currency: str) -> str:
    parts = [line.what, f"by {line.by}" if line.by else "", prices.difference(line.hourly, currency)]
    head = "" if line.source == "AWS" else f"{line.source}: "
    return f"{moment(line.time)}  {head}{', '.join(filter(None, parts))}{f'. {line.why}' if line.why else ''}"


def _csv(lines: Iterable[Line], currency: str) -> str:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(COLUMNS)
    for line in lines:
        hourly, unit = ("", "") if line.hourly is None else (f"{line.hourly:.6g}", currency)
        writer.writerow([moment(line.time), *map(_cell, (line.source, line.what, line.by, line.why)), hourly, unit])
    return file.getvalue()


def _cell(text: str) -> str:
    """Return a text that no spreadsheet evaluates."""
    return f"'{text}" if FORMULA.match(text) else text


def _remarks(problems: Iterable[Mapping[str, str]]) -> list[str]:
    words = {
        "denied": "CloudTrail does not say who did what, because this is not allowed: {message}. Allow cloudtrail:LookupEvents.",
        "unavailable": "CloudTrail could not be asked who did what, so events may be missing: {message}.",
        "truncated": "CloudTrail has more events for {message}. Only those since {time} are shown. Choose a shorter time.",
        "foreign_group": "Auto Scaling group {message} does not have the tag of this cluster, so its events are not shown.",
    }
    return [_clean(words[each["kind"]].format(message=each["message"].rstrip("."), time=each.get("time", ""))) for each in problems]


def _sum(facts: Mapping[str, Any]) -> str:
    """Return a sentence about what the nodes have cost, from their launches, or the beginning of the time, to their ends, or now."""
    price, since = facts["price"], facts["since"]
    lives = [(node["launched_at"], facts["read_at"] if node["running"] else node["ended_at"], node["hourly"]) for node in facts["nodes"]]
    times = [(max(end - max(start, since), 0) / 3600, hourly) for start, end, hourly in lives if start is not None and end is not None]
    ran = [(hours, hourly) for hours, hourly in times if hours]
    total = sum(hours for hours, _hourly in ran)
    words = f"Since {moment(since)} UTC, {plural(len(ran), 'node', 'nodes')} ran for {total:,.1f} node-hours"
    missing = {"price": sum(hourly is None for _hours, hourly in ran), "time": len(lives) - len(times)}
    left = [f"{plural(count, 'node', 'nodes')} whose {what} is not known" for what, count in missing.items() if count and price]
    without = f", and without {' and '.join(left)}" if left else ""
    return f"{words}{_cost(price, ran)}{without}.{f' {prices.source(price)}' if price else ''}"


def _cost(price: prices.Price | None, ran: Iterable[tuple[float, float | None]]) -> str:
    """Return what nodes that ran for these hours, at these prices per hour, have cost."""
    if not price:
        return ""
    total = sum(hours * hourly for hours, hourly in ran if hourly is not None)
    return f" and cost {prices.amount(total, price['currency'])}, without volumes, at the prices of today"
