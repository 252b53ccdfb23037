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
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..module_utils._aws.cluster_events.scaling_activities import DETACHMENT, LAUNCH, LAUNCH_FAILED, STOP, TERMINATION
from ..module_utils._text import clean_line
from ..module_utils._words import plural
from ._output import prices
from ._output.words import moment, node_time
from ._report.events import of_job
from .job_formatting import failure_cause
from .suggested_commands import playbook_command

# The longest text of a host, and of AWS, in characters.
REPORTED, CAUSE = 300, 1000
# The most events of the hosts that are shown. The newest ones count.
MOST_REPORTED = 1000
# The most refused calls of a caller that are shown.
MOST_REFUSED = 20
WORDS = {
    DETACHMENT: "detached, so it no longer belongs to the cluster",
    LAUNCH: "launched",
    LAUNCH_FAILED: "could not be launched",
    STOP: "stopped",
    TERMINATION: "terminated",
}
# Why AWS has ended nodes, and the words for the schedules with which it does so, and for the calls that change them.
ENDED_BY = {"lease": "their lease had ended", "idle": "they had been idle"}
SCHEDULES = {"lease": "The lease of the nodes", "idle": "The end of idle nodes"}
CHANGES = {"CreateSchedule": "set", "UpdateSchedule": "changed", "DeleteSchedule": "removed"}
# The ARN of a role that was assumed, and the name of the session, which the caller chooses.
SESSION = re.compile(r"(arn:[^:]+:sts::\d+:assumed-role/[^/]+)/.*")
# The beginnings of cells that a spreadsheet would evaluate as formulas, also in full width.
FORMULA = re.compile(r"[\s]*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")
COLUMNS = ("time", "source", "what", "by", "why", "price_per_hour", "cost", "currency")
# A node, as the module cluster_events_info returns it, with its cost.
Node = Mapping[str, Any]


class Line(NamedTuple):
    """An event in words. `source` is `AWS`, or says which host has reported the event.

    `hourly` is by how much it changes the price per hour, and `cost` what the nodes that it ends have cost.
    """

    time: float
    source: str
    what: str
    by: str = ""
    why: str = ""
    hourly: float | None = None
    cost: float | None = None


def cluster_events(
    facts: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]], host: str, problem: str, form: str, place: str = "", service: str = ""
) -> str:
    """Return what happened to a cluster, in the form `text`, `csv` or `json`.

    `facts` is the result of the module cluster_events_info, and `jobs` are the jobs that `host` has reported. `problem` says why it has
    reported none. Without a running node, `host` is empty. `place` is the cluster with its region, and `service` what launches its nodes.
    """
    # Events of AWS come first if the times are equal
    nodes = {node["instance_id"]: {**node, "cost": _cost_of(node, facts)} for node in facts["nodes"]}
    lines = sorted([*_of_aws(facts["events"], nodes), *_reported(jobs, host, facts["since"], facts["read_at"])], key=lambda line: line.time)
    lines += _lost(nodes.values(), facts["read_at"])
    currency = (facts["price"] or {}).get("currency", "")
    if form == "csv":
        return _csv([*lines, *_running(nodes.values(), facts["read_at"])], currency)
    notes = [*_remarks(facts["problems"]), *_silence(host, problem), _end(facts, place, service)]
    if form == "json":
        told = [{**line._asdict(), "time": moment(line.time)} for line in lines]
        return json.dumps({"events": told, "nodes": [*nodes.values()], "currency": currency, "remarks": notes}, indent=2) + "\n"
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


def _lost(nodes: Iterable[Node], now: float) -> Iterator[Line]:
    """Yield a line for each node that has ended at an unknown time before now, such as one whose hardware has failed."""
    for node in nodes:
        if not node["running"] and node["ended_at"] is None:
            yield Line(now, "AWS", f"node {_name(node['instance_id'], node)} has ended, AWS does not tell when", why=_clean(node["cause"]))


def _running(nodes: Iterable[Node], now: float) -> Iterator[Line]:
    """Yield a line for each running node, so that the costs in the lines add up to those of all nodes."""
    for node in nodes:
        if node["running"]:
            yield Line(now, "AWS", f"node {_name(node['instance_id'], node)} is running", cost=node["cost"])


def _name(text: str, node: Node | None) -> str:
    """Return a resource as people know it: the name of a node with its instance ID."""
    return f"{node['name']} ({text})" if node and node.get("name") else text


def _of_aws(events: Iterable[Mapping[str, Any]], nodes: Mapping[str, Node]) -> Iterator[Line]:
    """Yield the lines for AWS's events. Failed launches with the same cause are one line, however often the group has tried."""
    failed: list[Mapping[str, Any]] = []
    for event in _without_floods(events):
        if failed and (event["action"] != LAUNCH_FAILED or _kind(event) != _kind(failed[0])):
            yield _failed(failed)
            failed = []
        if event["action"] == LAUNCH_FAILED:
            failed.append(event)
        else:
            yield _line(event, nodes)
    if failed:
        yield _failed(failed)


def _without_floods(events: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the events with at most MOST_REFUSED refused calls of each caller. The last of these says how many more there were."""
    shown = list(events)
    refused = defaultdict[str, list[int]](list)
    for index, event in enumerate(shown):
        if event["error"]:
            refused[SESSION.sub(r"\1", event["caller"])].append(index)
    left_out = {index for each in refused.values() for index in each[MOST_REFUSED:]}
    last = {each[MOST_REFUSED - 1]: each[MOST_REFUSED:] for each in refused.values() if len(each) > MOST_REFUSED}
    for index, event in enumerate(shown):
        if index in last:
            more = plural(len(last[index]), "more refused call", "more refused calls")
            cause = f"{event['cause']} This caller made {more} until {moment(shown[last[index][-1]]['time'])}."
            yield {**event, "cause": cause.strip()}
        elif index not in left_out:
            yield event


def _kind(event: Mapping[str, Any]) -> tuple[str, str]:
    return event["group"], event["cause"]


def _failed(events: Sequence[Mapping[str, Any]]) -> Line:
    first, last = _line(events[0], {}), events[-1]["time"]
    more = f", {len(events)} times until {moment(last)}" if len(events) > 1 else ""
    return first._replace(what=first.what + more)


def _line(event: Mapping[str, Any], nodes: Mapping[str, Node]) -> Line:
    names = _clean(", ".join(_name(each, nodes.get(each)) for each in event["resources"]))
    if event["action"] in WORDS:
        of = "" if names.endswith(")") else f" of {event['group']}"
        what = f"{f'node {names}' if names else 'a node'}{of} {WORDS[event['action']]}"
    else:
        failure = f" failed ({event['error']})" if event["error"] else ""
        what = f"{event['action']} {names}{failure}"
    return Line(event["time"], "AWS", _clean(what), _clean(event["caller"]), _clean(_why(event)), event["hourly"], _cost(event, nodes))


def _why(event: Mapping[str, Any]) -> str:
    ended_by = event["ended_by"]
    if event["action"] in CHANGES:
        until = f" and ends at {moment(event['until'])} UTC" if event["until"] is not None else ""
        return event["cause"] if event["error"] else f"{SCHEDULES[ended_by]} was {CHANGES[event['action']]}{until}"
    return f"AWS ended the nodes: {ENDED_BY[ended_by]}. {event['cause']}".strip() if ended_by else event["cause"]


def _cost(event: Mapping[str, Any], nodes: Mapping[str, Node]) -> float | None:
    """Return what the nodes have cost that an event has ended, or None if it has ended none, or their cost is not known."""
    found = [nodes[each] for each in event["resources"] if each in nodes]
    known = [node["cost"] for node in found if node["ended_at"] == event["time"] and not node["running"] and node["cost"] is not None]
    return sum(known) if known and (event["hourly"] or 0) < 0 else None


def _clean(text: str, limit: int = CAUSE) -> str:
    line = clean_line(str(text)).strip()
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def _of_job(job: Mapping[str, Any], host: str) -> Iterator[Line]:
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
        amounts = ["" if each is None else f"{each:.6g}" for each in (line.hourly, line.cost)]
        texts = map(_cell, (line.source, line.what, line.by, line.why))
        writer.writerow([moment(line.time), *texts, *amounts, currency if any(amounts) else ""])
    return file.getvalue()


def _cell(text: str) -> str:
    """Return a text that no spreadsheet evaluates."""
    return f"'{text}" if FORMULA.match(text) else text


def _remarks(problems: Iterable[Mapping[str, str]]) -> list[str]:
    words = {
        "denied": "CloudTrail does not say who did what, because this is not allowed: {message}. Allow cloudtrail:LookupEvents.",
        "unavailable": "CloudTrail could not be asked who did what, so events may be missing: {message}.",
        "truncated": "CloudTrail has more events for {message} than are read. Before {time}, only those near the ends of nodes are shown. "
        "To see the others, run aws cloudtrail lookup-events",
        "omitted": "CloudTrail has left out which instances some calls have launched, so prices of nodes can be missing: {message}.",
        "foreign_group": "Auto Scaling group {message} does not have the tag of this cluster, so its events are not shown.",
    }
    return [_clean(words[each["kind"]].format(message=each["message"].rstrip("."), time=each.get("time", ""))) for each in problems]


def _end(facts: Mapping[str, Any], place: str, service: str) -> str:
    """Return the last line: what the nodes have cost, or why that is not known. `place` and `service` are as for `cluster_events`."""
    if service == "emr":
        return f"Nodes of EMR clusters are not listed, and neither is what they cost. To see them, run {playbook_command('info')}"
    if not facts["events"] and not facts["nodes"]:
        source = "Auto Scaling" if any(each["kind"] in ("denied", "unavailable") for each in facts["problems"]) else "AWS"
        return (
            f"{source} has recorded nothing about cluster {place} since {moment(facts['since'])} UTC. Check the cluster and the region in "
            "the inventory, or look further back with deeplearning_events_since."
        )
    return _sum(facts)


def _sum(facts: Mapping[str, Any]) -> str:
    """Return a sentence about what the nodes have cost, from their launches, or the beginning of the time, to their ends, or now."""
    price, since = facts["price"], facts["since"]
    times = [(hours, node["hourly"]) for node in facts["nodes"] if (hours := _hours(node, facts)) is not None]
    ran = [(hours, hourly) for hours, hourly in times if hours]
    total = sum(hours for hours, _hourly in ran)
    words = f"Since {moment(since)} UTC, {plural(len(ran), 'node', 'nodes')} ran for {node_time(total)}"
    missing = {"price": sum(hourly is None for _hours, hourly in ran), "time": len(facts["nodes"]) - len(times)}
    left = [f"{plural(count, 'node', 'nodes')} whose {what} is not known" for what, count in missing.items() if count and price]
    without = f", and without {' and '.join(left)}" if left else ""
    return f"{words}{_total(price, ran)}{without}.{f' {prices.source(price)}' if price else ''}"


def _total(price: prices.Price | None, ran: Iterable[tuple[float, float | None]]) -> str:
    """Return what nodes that ran for these hours, at these prices per hour, have cost."""
    if not price:
        return ""
    total = sum(hours * hourly for hours, hourly in ran if hourly is not None)
    return f" and cost {prices.amount(total, price['currency'])}, without volumes, at the prices of today"


def _hours(node: Node, facts: Mapping[str, Any]) -> float | None:
    """Return for how long a node ran since the beginning of the time, or None if that is not known."""
    end = facts["read_at"] if node["running"] else node["ended_at"]
    return None if node["launched_at"] is None or end is None else max(end - max(node["launched_at"], facts["since"]), 0) / 3600


def _cost_of(node: Node, facts: Mapping[str, Any]) -> float | None:
    hours = _hours(node, facts)
    return None if hours is None or node["hourly"] is None else hours * node["hourly"]
