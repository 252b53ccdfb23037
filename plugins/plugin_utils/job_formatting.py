# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Formats a job for display: lines of progress and status, the table of processes, the summary, and the failure message."""

from __future__ import annotations

import os
import re
import shlex
import statistics
from typing import Any, Callable, Iterable, Iterator, Sequence

from ..module_utils._job import failure_causes, goodput, recovery
from ..module_utils._job.directories import Paths
from ..module_utils._job.documents import Export, ProcessRecord, Queued
from ..module_utils._job.failed_process import recorded_cause
from ..module_utils._job.job_states import START_TIMEOUT, participants, standby_hosts
from ..module_utils._job.job_status import AttemptStatus, Failure, Goodput, JobStatus, Log
from ..module_utils._job.naming import title
from ..module_utils._job.schema import Document
from ..module_utils._job.state_names import LOST, PENDING, QUEUED, RUNNING, STOPPED, SUCCEEDED
from ..module_utils._queues.registry import QUEUES
from ..module_utils._text import clean_line, log_line
from ..module_utils._words import plural
from ._output.prices import amount
from ._output.words import duration, moment, percent
from .attempt_messages import attempt_cause, describe_failure, describe_oom_kill, ends, explain, outcomes, reason

# The maximum number of values to show from one progress entry, and the maximum number of characters in the line.
VALUES_LIMIT, LINE_LIMIT = 24, 1000

# Maximum number of characters of an exit status or signal in the table of processes, whose columns are as wide as their widest cells.
EXIT_LIMIT = 20

# Causes after which the same command continues a job.
CONTINUABLE = (
    failure_causes.HOST_SHUT_DOWN,
    failure_causes.DISK_FULL,
    failure_causes.HARDWARE,
    failure_causes.TIME_LIMIT,
    *failure_causes.ANNOUNCED,
)

BUCKET_TITLES = {**{bucket: bucket for bucket in goodput.BUCKETS}, goodput.WAITING: "waiting for nodes"}

# Maximum number of slow hosts to name in the output.
SLOW_SHOWN = 5
# The number of entries to name that an export leaves out.
OMITTED_SHOWN = 3

# The exception of a script that cannot import a module. The exit statuses with which a shell (128 + 9) and a Python launcher (256 - 9)
# report SIGKILL.
MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
KILLED = (137, 247)
LESS_MEMORY = (
    "reduce the batch size or the number of data loader workers, or use an instance type with more memory (deeplearning_instance_type)."
)


def progress_line(entry: Document) -> str:
    """Return a progress entry as text, such as `step 20/100, loss 0.31`."""
    rest = dict(entry)
    rest.pop("time", None)  # progress lines are shown immediately, so only reports need the time
    parts = []
    if "step" in rest:
        step, steps = rest.pop("step"), rest.pop("steps", None)
        parts.append(f"step {step}" if steps is None else f"step {step}/{steps}")
    values = [(key, value) for key, value in rest.items() if not isinstance(value, (dict, list))]
    parts += [f"{key} {_number(value)}" for key, value in values[:VALUES_LIMIT]]
    if len(values) > VALUES_LIMIT:
        parts.append(f"{len(values) - VALUES_LIMIT} more values")
    return clean_line(", ".join(parts)[:LINE_LIMIT])


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def silence(seconds: float) -> str:
    """Return a phrase about a running job that has shown no activity for a while."""
    return f"no output, step or checkpoint for {duration(seconds)}"


def code(found: JobStatus) -> str:
    """Return a description of a job's code, such as `commit 3f2a1bc4d5e6 with changes`, or an empty string if no commit is known."""
    origin = found.get("code") or {}
    if not origin.get("commit"):
        return ""
    parts = ["commit " + origin["commit"][:12]]
    if origin.get("repository"):
        parts.append("of " + origin["repository"])
    if origin.get("changed"):
        parts.append("with changes")
    return clean_line(" ".join(parts))


def job_line(found: JobStatus) -> str:
    for attempt in found.get("attempts", [])[:-1]:
        if attempt["attempt"] == found["attempt"]:  # an earlier attempt was specified, so `processes` belongs to that attempt
            return clean_line("{}, {}".format(found["name"], attempt_line(attempt)))
    head = "{} {}{}".format(found["name"], found["state"], _when(found))
    if found.get("attempt", 1) > 1:
        head += ", attempt {}".format(found["attempt"])
    if found.get("quiet"):
        head += f", {silence(found['quiet'])}"
    hosts, spares = found["hosts"], found["spares"]
    size = "{} on {}".format(plural(found["process_count"], "process", "processes"), plural(hosts, "host", "hosts")) if hosts else ""
    if size and spares:
        size += f" and {plural(spares, 'spare', 'spares')}"
    program = "{} {}".format(found["launcher"], os.path.basename(found["script"] or "".join(found["command"][:1])))
    return clean_line(", ".join(part for part in (head, size, program, code(found), progress_line(found.get("metrics", {}))) if part))


def _when(found: JobStatus) -> str:
    """Return a phrase about the times of a job, with a leading space, or an empty string."""
    begun, ended = found["began"], found["ended"]
    if found["process_count"]:
        if found["state"] == RUNNING:
            return f" for {duration(found['read'] - begun)} (since {moment(begun)} UTC)"
        return f" after {duration(ended - begun)} ({moment(begun)} to {moment(ended)} UTC)"
    if found["state"] == QUEUED:
        return " since " + moment(found["queue"]["submitted"]) + " UTC, " + waiting(found["queue"])
    if found["state"] == PENDING:
        never = ", but no run has started it" if found["read"] - found["created"] > START_TIMEOUT else ""
        return f" since {moment(found['created'])} UTC{never}"
    return " before it started" if "queue" in found else ""


def waiting(queued: Queued) -> str:
    """Return the queue's information about a waiting job, such as `in Slurm as job 7: Resources, after 2 other jobs`."""
    title = QUEUES[queued["queue"]].title if queued["queue"] in QUEUES else queued["queue"]
    where = f"in {title} as job {queued['id']}"
    if "problem" in queued:
        return clean_line(f"{where}: {queued['problem']}")
    before = queued.get("before", 0)
    parts = [queued.get("reason", ""), "after {}".format(plural(before, "other job", "other jobs")) if before else ""]
    details = ", ".join(part for part in parts if part)
    return clean_line(f"{where}: {details}" if details else where)


def attempt_line(found: AttemptStatus) -> str:
    ended = f" to {moment(found['ended'])} UTC" if found.get("ended") else " UTC until now" if found["state"] == RUNNING else " UTC"
    head = "attempt {} {} on {}, {}{}".format(
        found["attempt"], found["state"], plural(found["hosts"], "host", "hosts"), moment(found["started"]), ended
    )
    cause = attempt_cause(found)
    return clean_line(f"{head}: {cause}" if cause else head)


def attempt_table(found: JobStatus) -> list[str]:
    """Return the attempts of a job as lines of a table, or no lines if there is only one.

    The line below an attempt shows what followed the attempt.
    """
    attempts = found.get("attempts") or []
    if len(attempts) < 2:
        return []
    lines, before = [], 0
    for one in attempts:
        if one["attempt"] > before + 1:
            lines.append(f"attempts {before + 1} to {one['attempt'] - 1} are not shown")
        before = one["attempt"]
        lines.append(attempt_line(one))
        why = explain(one)
        if why:
            lines.append(clean_line(f"  {one['action']}: {why}"))
    return lines


def tables(found: JobStatus) -> list[str]:
    """Return the lines below the line that describes a job: its attempts, its processes, what it spent its time on, and its export."""
    lines = [*attempt_table(found), *process_table(found["processes"]), *goodput_table(found), *step_time_lines(found)]
    return [*lines, clean_line("exported to " + export(found["export"]))] if "export" in found else lines


def goodput_line(found: Goodput) -> str:
    """Return the goodput of a job as text, such as `93.1 % of the time (3 nodes for 2 h 4 min) was spent on training`."""
    nodes = plural(found["nodes"], "node", "nodes")
    return "{} of the time ({} for {}) was spent on training".format(percent(found["ratio"]), nodes, duration(found["seconds"]))


def goodput_table(found: JobStatus) -> list[str]:
    """Return the lines of a table that shows what the hosts of a job spent their time on. Return no lines if the goodput is unknown.

    Empty buckets are left out.
    """
    measured = found.get("goodput")
    if not measured or not measured["nodes"]:
        return []
    total = sum(measured["buckets"].values())
    lines = [
        f"  {BUCKET_TITLES[bucket]:<17} {seconds:>10.0f} node-seconds {percent(seconds / total):>8}"
        for bucket, seconds in measured["buckets"].items()
        if seconds > 0
    ]
    return ["goodput " + goodput_line(measured), *lines]


def step_time_lines(found: JobStatus) -> list[str]:
    """Return lines about the time that hosts need for a step, or no lines if the script does not report this time."""
    times = found.get("step_times")
    if not times:
        return []
    median = statistics.median_low(each["seconds"] for each in times)
    slow = [each for each in times if each["slow"]]
    lines = [
        "  {} is slow: {:.3g} s per step, {:.1f} times the median".format(each["name"], each["seconds"], each["seconds"] / median)
        for each in slow[:SLOW_SHOWN]
    ]
    if len(slow) > SLOW_SHOWN:
        lines.append(f"  and {len(slow) - SLOW_SHOWN} more")
    return [clean_line(line) for line in [f"step time {median:.3g} s (median)", *lines]]


def log_lines(parts: Iterable[Log], processes: Sequence[ProcessRecord]) -> list[str]:
    """Return the log lines from a result of training_job_info, each with the name of its process, such as `rank 3 | loss 0.2`."""
    width = max((len(title(process["name"])) for process in processes), default=0)
    shown = []
    for log in parts:
        head = f"{title(clean_line(log['name'])):<{width}} | "
        if log["left_out"]:
            shown.append(clean_line(f"{head}... {log['left_out']} bytes omitted; the full log is in {shlex.quote(log['path'])}"))
        shown += [head + log_line(line) for line in log["lines"]]
    return shown


def process_table(processes: Sequence[ProcessRecord]) -> list[str]:
    """Return the processes of a job as lines of a table, with the host, the state and the times (UTC) of each process."""
    rows: list[tuple[str, ...]] = [("process", "host", "state", "exit", "started", "ended", "")]
    others = ends(processes)
    for process in processes:
        status = process.get("signal") or process.get("exit_code")
        times = moment(process["started"]), moment(process.get("finished"))
        end = "-" if status is None else str(status)[:EXIT_LIMIT]
        row = (title(process["name"]), process["host"], process["state"], end, *times, reason(process, others))
        rows.append(tuple(map(clean_line, row)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths)).rstrip() for row in rows]


def summary(found: JobStatus, metrics: Document) -> list[str]:
    """Return the lines that summarize a job, from the result of training_job_info and the last values that the job reported."""
    if not found["processes"]:
        return [clean_line("job {} {} before it started".format(found["name"], found["state"]))]
    head = "job {} {} after {}".format(found["name"], found["state"], duration(found["ended"] - found["began"]))
    return [clean_line(line) for line in [head, *(f"  {label:<12} {text}" for label, text in _rows(found, metrics) if text)]]


def _rows(found: JobStatus, metrics: Document) -> Iterator[tuple[str, str]]:
    processes, paths = found["processes"], Paths(found["directory"])
    hosts, spares = list(dict.fromkeys(process["host"] for process in participants(processes))), standby_hosts(processes)
    folders = (paths.code, paths.logs, paths.checkpoints, paths.tensorboard)
    yield "hosts", "{} ({})".format(len(hosts), ", ".join(hosts))
    yield "attempts", str(found["attempt"]) if found.get("attempt", 1) > 1 else ""
    yield "spares", "{} ({})".format(len(spares), ", ".join(spares)) if spares else ""
    yield "last values", progress_line(metrics)
    yield "code", code(found)
    yield "results", "{} ({})".format(paths.directory, ", ".join(map(os.path.basename, folders)))
    yield "checkpoints", checkpoints(found) if checkpoints(found) != paths.checkpoints else ""
    for text in _warnings(processes):
        yield "warning", text
    # Without progress entries, the time that a failed job took cannot be divided into training time and other time.
    if found.get("goodput") and (metrics or found["state"] == SUCCEEDED):
        yield "goodput", goodput_line(found["goodput"])
    yield "export", export(found["export"]) if found.get("export") else ""


def _warnings(processes: Sequence[ProcessRecord]) -> Iterator[str]:
    """Yield a sentence about each process that has succeeded although the kernel's OOM killer has killed one of its processes."""
    for process in processes:
        if process["state"] == SUCCEEDED and process.get("oom_kills"):
            yield f"{title(process['name'])} on {process['host']} {describe_oom_kill(process)}"


def checkpoints(found: JobStatus) -> str:
    """Return the location of a job's checkpoints and, if the job continues an earlier job, the name of that job."""
    place = found.get("checkpoint_directory") or Paths(found["directory"]).checkpoints
    earlier = found.get("resume")
    return f"{place} (continued from job {earlier})" if earlier else place


def export(found: Export) -> str:
    """Return the destination of a job's export to S3, and the state of the export."""
    parts = [found["state"], *(["{} files".format(found["files"])] if "files" in found else [])]
    omitted = found.get("omitted", [])[:OMITTED_SHOWN]
    if omitted:
        parts.append("without {}{}".format(", ".join(omitted), " and others" if found.get("omitted_count", 0) > len(omitted) else ""))
    text = "{} ({})".format(found["destination"], ", ".join(parts))
    return f"{text}: {found['error']}" if found.get("error") else text


def failure_message(found: JobStatus, command: Callable[[str], str], again: str = "") -> str:
    """Return why a job did not succeed, the last log lines of the process that failed first, and what to do next.

    `command` returns the command that runs a playbook of this collection, such as `logs`. `again` is the command that continues the job.
    Without `again`, the message contains a command that lacks the job's variables.
    """
    if "failure" not in found or "failure" in found.get("queue", {}):
        return not_started(found)
    lines = [
        failure_sentence(found),
        *map(log_line, found["failure"]["lines"]),
        *not_restarted(found),
        *_next_steps(found, command, again),
    ]
    return "\n".join(lines)


def not_started(found: JobStatus) -> str:
    """Return why a job that was submitted to a queue has not started, or has not started on all of its hosts."""
    failure = found.get("queue", {}).get("failure")
    if failure:
        return clean_line(f"job {found['name']} was not started: {failure}")
    return clean_line(f"job {found['name']} was removed from the queue before it started. To submit the job again, choose another name.")


def not_restarted(found: JobStatus) -> list[str]:
    """Return a line that says why a failed job was not restarted, or no line if the hosts made no decision about a restart."""
    attempts = found.get("attempts")
    if not attempts or attempts[-1].get("action") != recovery.STOP:
        return []
    last, failure = attempts[-1], found["failure"]
    cause = attempt_cause(last)
    # Usually, the first sentence of the failure message already says which process this was and how it ended.
    because = f", because {cause}" if not cause.startswith("{} on {} ".format(title(failure["name"]), failure["host"])) and cause else ""
    again = " again" if last["attempt"] > 1 else ""
    after = f"After {plural(last['attempt'], 'attempt', 'attempts')}, the job was not restarted{again}{because}."
    return [clean_line(f"{after} {explain(last)}")]


def _next_steps(found: JobStatus, command: Callable[[str], str], again: str) -> Iterator[str]:
    """Yield sentences about what to do after a job has ended without success. The sentences contain complete commands."""
    failure, name = found["failure"], found["name"]
    why = recorded_cause(failure)
    if why.get("kind") == failure_causes.NOT_STARTED:
        own = [word[: failure_causes.NAME_LIMIT] for word in found["command"][:1]] == [why.get("name")]
        option = "training_job_command" if own else "training_job_launcher_options"
        yield f"{option}: specify a program that is installed on all hosts and that the job's user can run."
        return
    if why.get("hang"):
        yield f"The stacks of all processes are in {_stacks(found)} on the cluster."
    # If a launcher has written the last line, the cause names the module.
    texts = [f"{why.get('name')}: {why.get('message')}", *failure["lines"][-1:]]
    missing = next(filter(None, map(MISSING_MODULE.search, texts)), None)
    advice = _advice(found, missing)
    if advice:
        yield advice
    if advice != _silence_advice(found):  # _silence_advice() applies only if the logs are empty
        yield f"To read all logs, run: {command('logs')} -e training_job_name={name}"
    if not missing:
        yield _continuation(found, command, again)
        if why.get("cost"):
            yield "What the job has cost counts, so set a higher training_job_max_cost."


def after_maximum_cost(found: JobStatus) -> list[str]:
    """Return a sentence about how to continue a job that its maximum cost has ended, or an empty list."""
    if not recorded_cause(found["failure"]).get("cost"):
        return []
    how = f"run the same command again with -e training_job_name={found['name']} and set" if _keeps_name(found) else "set"
    return [f"To continue the job, {how} a higher training_job_max_cost, because what the job has cost counts."]


def _advice(found: JobStatus, missing: re.Match[str] | None) -> str:
    """Return a sentence about how to correct the cause of a failure, or an empty string. `missing` is the name of a missing module."""
    failure = found["failure"]
    found_ends, host = outcomes(failure), clean_line(failure["host"])
    if missing:
        return (
            f"Correct the name {missing.group(1)!r} if it is misspelled. If it is a package, add it to a requirements file, and set "
            "python_environment_requirements to the path of the file and python_environment_name to a name. If it is your own module, add "
            "its file to the job's code (training_job_source or training_job_repository)."
        )
    if failure.get("oom_kills"):
        return f"To use less memory, {LESS_MEMORY}"
    if any(end.get("signal") == "SIGKILL" or end.get("exit_code") in KILLED for end in found_ends):
        return _kill_advice(failure, host)
    if recorded_cause(failure).get("kind") == failure_causes.HANG and not recorded_cause(failure).get("hang"):
        return (
            "A rank did not take part in a collective operation in time, or its network failed. If PyTorch has written how "
            f"far each rank has come, the files are in {_stacks(found)} on the cluster."
        )
    name = next((signal for end in found_ends if (signal := end.get("signal"))), "")
    if name:
        return _signal_advice(name, host)
    if _is_silent(found):
        return _silence_advice(found)
    return ""


def _stacks(found: JobStatus) -> str:
    return clean_line(Paths(found["directory"], found.get("attempt", 1)).stacks)


def _kill_advice(failure: Failure, host: str) -> str:
    """Return a sentence about who has sent SIGKILL to a process."""
    if failure.get("oom_kills") == 0:
        return (
            f"The script itself, a user, or a program such as earlyoom or systemd-oomd has sent SIGKILL on {host}. Search the script for "
            f"calls such as os.kill. To see what such programs have killed, run sudo journalctl --since '-1 hour' on {host}."
        )
    # Without capital letters, journalctl ignores the case of the pattern.
    check = f"sudo journalctl --dmesg --grep 'out of memory' on {host}"
    return f"Usually, the kernel sends SIGKILL because the host has run out of memory. To check, run {check}. If so, {LESS_MEMORY}"


def _signal_advice(name: str, host: str) -> str:
    if name in failure_causes.OWN_SIGNALS:
        return (
            f"{name} comes from an error in compiled code, such as a library or a CUDA extension. To see the line of the script in the "
            'log, set training_job_environment: {"PYTHONFAULTHANDLER": "1"}.'
        )
    find = f"To find it, run sudo journalctl --since '-1 hour' on {host}."
    return f"The script itself, a user or another program on {host} has sent {name}. {find}"


def _silence_advice(found: JobStatus) -> str:
    script = clean_line(os.path.basename(found.get("script") or "")) or "the script"
    return f"Search {script} for calls such as sys.exit, and print the reason there."


def _continuation(found: JobStatus, command: Callable[[str], str], again: str) -> str:
    """Return a sentence about how to continue a job that has ended without success."""
    if _keeps_name(found):
        return f"To continue the job, run the same command again with -e training_job_name={found['name']}"
    if found.get("has_checkpoint") is False:
        again = "To start a new job, run the same command again, with a new name if you set training_job_name."
        return f"The job has completed no checkpoint, so it cannot be continued. {again}"
    start = "To continue from the newest checkpoint," + ("" if "has_checkpoint" in found else " if there is one,")
    if again:
        return f"{start} run: {again}"
    name = found["name"]
    again = f"{command('train')} -e training_job_name={next_name(name)} -e training_job_resume={name}"
    return f"{start} add the job's other variables to this command: {again}"


def _keeps_name(found: JobStatus) -> bool:
    """Return whether the job can continue under its own name, because the cause is gone or does not concern its definition.

    continuation.py on the hosts allows this after other causes, too.
    """
    failure = found["failure"]
    cause = recorded_cause(failure)
    is_over = failure.get("state") in (LOST, STOPPED) or cause.get("kind") in CONTINUABLE or bool(cause.get("storage"))
    return is_over and "queue" not in found


def next_name(job: str) -> str:
    """Return a name for the job that continues the job `name`: the same name with the next number."""
    numbered = re.fullmatch(r"(.+)-(\d{1,3})", job)
    return f"{numbered[1]}-{int(numbered[2]) + 1}" if numbered else job[:60].rstrip("-") + "-2"


def failure_cause(found: JobStatus) -> str:
    """Return a sentence about the process that made a job fail, without its log. If the host is gone, the sentence is about the host
    instead.
    """
    failure = found["failure"]
    cost = recorded_cause(failure).get("cost")
    if "gone" in failure:
        what = failure["gone"]
    elif cost:
        limit, spent = (amount(cost[key], cost["currency"]) for key in ("limit", "spent"))
        before = f", {amount(cost['earlier'], cost['currency'])} of it before it was continued" if cost.get("earlier") else ""
        what = f"it reached training_job_max_cost ({limit}): it had run for {duration(cost['seconds'])} and cost about {spent}{before}."
    else:
        what = "{} on {} {}.".format(title(failure["name"]), failure["host"], describe_failure(failure, ends(found["processes"])))
    return clean_line("job {} {}: {}".format(found["name"], found["state"], what))


def failure_sentence(found: JobStatus) -> str:
    """Return a sentence about the process that made a job fail: its host, how it ended, and the location of its log."""
    failure = found["failure"]
    if failure["lines"] and "gone" not in failure:
        rest = "The end of {}:".format(shlex.quote(failure["log"]))
    elif recorded_cause(failure).get("kind") == failure_causes.NOT_STARTED:
        rest = ""
    elif _is_silent(found):
        rest = "It has printed nothing to {}.".format(shlex.quote(failure["log"]))
    else:
        rest = "The logs are in {}".format(Paths(found["directory"]).logs)
    return clean_line(f"{failure_cause(found)} {rest}".rstrip())


def _is_silent(found: JobStatus) -> bool:
    """Return whether the process that made a job fail has ended by itself and has printed nothing."""
    failure = found["failure"]
    return failure.get("state") != LOST and bool(outcomes(failure)) and not failure["lines"] and "gone" not in failure
