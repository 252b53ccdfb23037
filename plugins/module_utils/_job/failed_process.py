# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds the process that ended a job without success."""

from __future__ import annotations

import itertools
import signal
from typing import Any, Mapping, Sequence

from . import error_messages, failure_causes
from .documents import Following, Outcome, ProcessRecord, Verdict
from .naming import MAY_BE_LOST, SERVICE
from .state_names import FAILED, LOST, STOPPED
from .storage_problems import StorageProblem


def outcome(code: int) -> Outcome:
    """Return the outcome for a return code from subprocess. A negative code stands for the signal that killed the process."""
    if code >= 0:
        return {"exit_code": code}
    try:
        return {"signal": signal.Signals(-code).name}
    except ValueError:  # a real-time signal
        return {"signal": str(-code)}


def recovery_cause(found: Mapping[str, Any], host: str) -> failure_causes.Cause:
    """Return a document's cause in the form that the decision about a restart uses. Unknown keys of its storage problems are ignored.

    A connection that was closed for no known reason is evidence against neither the script nor the checkpoint, nor this host.
    """
    kind = str(found.get("kind") or failure_causes.KILLED)
    if kind in (failure_causes.SCRIPT_ERROR, failure_causes.SIGNAL) and error_messages.is_connection_closed(
        str(found.get("message") or "")
    ):
        kind, host = failure_causes.NETWORK, ""
    storage = tuple(StorageProblem(**{name: each[name] for name in StorageProblem._fields}) for each in found.get("storage") or ())
    what, name = str(found.get("what") or ""), str(found.get("name") or "")
    return failure_causes.Cause(kind, what, host, found.get("exit_code"), name, storage, bool(found.get("alone")))


def recorded_cause(process: ProcessRecord) -> Mapping[str, Any]:
    """Return the cause that a process has recorded. It may be null in the result of a module."""
    return process.get("cause") or {}


def ended_by_itself(process: ProcessRecord) -> bool:
    """Return whether the exit status and the log of a failed process say why it failed: the supervisor has not stopped it."""
    cause = recorded_cause(process)
    return not (cause.get("kind") in failure_causes.NOT_BY_ITSELF or cause.get("hang") or process.get("raised"))


def first_failure(processes: Sequence[ProcessRecord]) -> ProcessRecord | None:
    """Return the process that caused a job to end without success.

    The first process that failed or was lost is the cause, because the other processes then lose their connection to it and fail. If no
    process failed or was lost, the first process that was stopped is the cause.

    The other processes may fail within milliseconds, and each host detects the end of its processes at a slightly different time. A process
    that failed because its connection was closed is therefore the cause only if all failed processes failed for this reason. Gloo and NCCL
    abort a process that loses its connection or waits too long, so such a process is the cause only if no script raised an exception.
    """
    ended = [process for process in processes if process["state"] in (FAILED, LOST) and process["part"] not in MAY_BE_LOST]
    stopped = [process for process in processes if process["state"] == STOPPED]
    first = list(itertools.filterfalse(has_lost_connection, ended))
    if any(recorded_cause(process).get("kind") in failure_causes.EXCEPTIONS for process in first):
        first = list(itertools.filterfalse(is_aborted, first))
    return min(first or ended or stopped, key=lambda process: (last_moment(process), process["rank"]), default=None)


def has_lost_connection(process: ProcessRecord) -> bool:
    """Return whether a process failed because its connection to another process was closed."""
    why = recorded_cause(process)
    return error_messages.is_connection_closed(why.get("message") or "") or why.get("name") in error_messages.AGENT_ENDED


def is_aborted(process: ProcessRecord) -> bool:
    """Return whether a process was aborted for no known reason, for example by Gloo or NCCL, or has waited for other ranks too long."""
    why = recorded_cause(process)
    return why.get("kind") == failure_causes.HANG or (why.get("kind") == failure_causes.SIGNAL and why.get("name") == "SIGABRT")


def is_alone(failure: ProcessRecord, processes: Sequence[ProcessRecord]) -> bool:
    """Return whether the processes on the other hosts have passed the place at which a process failed.

    None of them has ended with the same error, and each of them has run for at least as long as the process that failed. Services such as
    the daemons of MPI do not run the script.
    """
    others = [process for process in processes if process["host"] != failure["host"] and process["part"] != SERVICE]
    age, what = last_moment(failure) - failure["started"], recorded_cause(failure).get("what")
    return bool(others) and all(
        recorded_cause(process).get("what") != what and (process.get("finished") or process["heartbeat"]) - process["started"] >= age
        for process in others
    )


def cause(processes: Sequence[ProcessRecord], judged: ProcessRecord | None) -> ProcessRecord | None:
    """Return the process that caused a job to end without success. `judged` is the process that the verdict names.

    If a host disappears, processes that lose their connection to it fail before the processes on the host count as lost. The verdict may
    therefore name the wrong process. A lost process takes precedence if its last heartbeat came before the process in the verdict
    ended.

    If the process in the verdict lost a connection or was aborted, the process at the other end may have recorded its own failure later.
    A process that was stopped because of the verdict has not failed. However, if connections were closed for no known reason, the cause
    is a process whose connections stayed open, and if processes have waited too long, the cause is a process that had raised an exception.
    """
    if judged is None or judged["state"] != FAILED:
        return judged
    states = (FAILED, LOST) if has_lost_connection(judged) or is_aborted(judged) else (LOST,)
    found = first_failure([judged, *(process for process in processes if process["state"] in states)])
    return (found and (without_data(found, processes) or without_end(found, processes))) or found


def last_failure(processes: Sequence[ProcessRecord], verdict: Verdict | None, following: Following | None = None) -> ProcessRecord | None:
    """Return the process that ended an attempt without success, according to what follows the attempt, its verdict or its records."""
    judged = (following and following.get("failure")) or (verdict and verdict["failure"])
    return cause(processes, judged) or first_failure(processes)


def without_data(failure: ProcessRecord, processes: Sequence[ProcessRecord]) -> ProcessRecord | None:
    """Return the record of the process that receives no data from other hosts, changed to the record of a failed process, or None.

    A process whose host receives data notices within milliseconds that the process at the other end of a connection has ended. If processes
    on several hosts do not notice this, the network of the other end is the more likely cause.
    """
    found = [process for process in processes if process["state"] == STOPPED and process.get("still_connected")]
    if not has_lost_connection(failure) or len({process["host"] for process in found}) != 1:
        return None
    return {**found[0], "state": FAILED, "finished": last_moment(failure), "cause": {"kind": failure_causes.NETWORK}}


def has_waited(failure: ProcessRecord | None) -> bool:
    """Return whether a process has ended because it has waited for other ranks too long."""
    return bool(failure and recorded_cause(failure).get("kind") == failure_causes.HANG and ended_by_itself(failure))


def without_end(failure: ProcessRecord, processes: Sequence[ProcessRecord]) -> ProcessRecord | None:
    """Return the record of the process that others have waited for, because it had raised an exception and did not end, changed to the
    record of a failed process, or None.
    """
    found = [process for process in processes if process["state"] == STOPPED and process.get("raised")]
    if not found or not has_waited(failure):
        return None
    first = min(found, key=lambda process: process["rank"])
    return {**first, "state": FAILED, "finished": last_moment(failure), "cause": first["raised"]}


def last_moment(process: ProcessRecord) -> float:
    """Return the time at which a process ended, or the time of its last heartbeat if it is lost."""
    return process["heartbeat"] if process["state"] == LOST else process["finished"]
