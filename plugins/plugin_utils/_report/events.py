# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Lists the events of a job in chronological order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._job import failed_process, job_states, naming, recovery, state_names
from ...module_utils._job.job_status import ProcessStatus
from ...module_utils._words import plural
from ..attempt_messages import attempt_cause, describe_end, ends, explain


class TimelineEvent(NamedTuple):
    """An event at `time` (seconds since 1970). `bad` marks a problem."""

    time: float
    text: str
    bad: bool = False


def events(report: Mapping[str, Any]) -> list[TimelineEvent]:
    of_all = of_job(report["job"], report["over"], report["end"])
    return sorted([*_processes(report["job"]["processes"]), *_progress(report), *of_all], key=lambda event: event.time)


def of_job(job: Mapping[str, Any], over: bool, end: float) -> Iterator[TimelineEvent]:
    """Yield the creation of a job, the ends of its attempts and, if the job is `over`, its end."""
    yield TimelineEvent(job["created"], "code copied")
    for one in job.get("attempts") or []:
        cause, why = attempt_cause(one), explain(one)
        if cause and one["attempt"] < job["attempt"]:
            yield TimelineEvent(one["ended"], f"attempt {one['attempt']} failed: {cause}", True)
        if why:
            yield TimelineEvent(one["ended"], f"{one['action']}: {why}", one["action"] == recovery.STOP)
    if over:
        yield TimelineEvent(end, f"job {job['state']}", job["state"] != state_names.SUCCEEDED)


def _processes(processes: Sequence[ProcessStatus]) -> Iterator[TimelineEvent]:
    started = job_states.participants(processes)
    if started:
        last = max(process["started"] for process in started)
        hosts = len({process["host"] for process in started})
        where = plural(hosts, "host", "hosts")
        yield TimelineEvent(last, f"{len(started)} of {started[0]['processes']} processes started on {where}")
    ended: dict[str, list[float]] = {}
    others = ends(processes)
    for process in processes:
        how = describe_end(process, others)
        if process["state"] == state_names.STOPPED:
            ended.setdefault(how, []).append(process["finished"])
        elif process["state"] in (state_names.FAILED, state_names.LOST):
            yield TimelineEvent(failed_process.last_moment(process), f"{naming.title(process['name'])} on {process['host']} {how}", True)
    for how, times in ended.items():
        yield TimelineEvent(max(times), f"{plural(len(times), 'process', 'processes')} {how.replace('was ', '', 1)}")


def _progress(report: Mapping[str, Any]) -> Iterator[TimelineEvent]:
    start, progress = report["start"], report["progress"]
    for restart in progress["restarts"]:
        yield TimelineEvent(start + restart["time"], f"went back from step {restart['from']:g} to {restart['to']:g}")
    for curve in progress["curves"]:
        first = curve.get("first_missing")
        if first:
            text = f"{curve['name']} was NaN or infinite at step {first['step']:g}"
            more = f" (the first of {curve['missing']} times)" if curve["missing"] > 1 else ""
            yield TimelineEvent(start + first["time"], text + more, True)
