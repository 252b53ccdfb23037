# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds out why a process failed."""

from __future__ import annotations

import re
import signal
from typing import Callable, Sequence

from ...._job import error_messages, failure_causes, tracebacks
from ...._job.directories import Paths
from ...._job.documents import CauseRecord, Outcome, ProcessRecord, ProcessSpec
from ...._job.failed_process import outcome
from ...._job.storage_problems import StorageProblem
from ...._launchers.registry import LAUNCHERS
from ..files import logs, status

# How torch describes a collective operation of NCCL, such as `WorkNCCL(SeqNum=57, OpType=ALLREDUCE, ...)`.
OPERATION, SEQUENCE_NUMBER = re.compile(r"\bOpType=([A-Z_]{1,40})\b"), re.compile(r"\bSeqNum=(\d{1,18})\b")

# The highest exit status of a process.
EXIT_STATUS_LIMIT = 255

# The signals in exit statuses of programs that end with the negative number of the signal that has ended another process, as subprocess
# returns it: 256 - 9 = 247 is SIGKILL. Scripts themselves use negative numbers such as -1.
NEGATIVE = {256 - signal.Signals[name]: name for name in (*failure_causes.OWN_SIGNALS, "SIGKILL", "SIGTERM")}


def find_cause(spec: ProcessSpec, record: ProcessRecord) -> CauseRecord:
    """Return why a process that has ended by itself failed."""
    if record.get("oom_kills"):
        return {"kind": failure_causes.OUT_OF_MEMORY, "what": "an out-of-memory error"}
    log = Paths(spec["directory"], spec["attempt"]).log(spec["name"])
    launcher = LAUNCHERS.get(spec["parameters"]["launcher"])
    culprit, lines = status.failing_lines(record, log, launcher, status.tag(record, launcher))
    found = outcome(culprit.status) if culprit else record
    code = found.get("exit_code")
    result = _cause_of_end(found, lines, spec["cwd"])
    if result["kind"] == failure_causes.HANG:
        result = raised(spec, record) or result
    if code is not None and 0 <= code <= EXIT_STATUS_LIMIT:  # a log can contain any number
        result["exit_code"] = code
    return result


def raised(spec: ProcessSpec, record: ProcessRecord) -> CauseRecord | None:
    """Return the cause of the exception with which the log of a rank ends, or None.

    A rank that has raised an exception can wait for the other ranks before it ends, and is then the rank for which they wait.
    """
    lines = logs.tail(Paths(spec["directory"], spec["attempt"]).log(spec["name"]), status.TAIL_SIZE)
    mark = status.tag(record, LAUNCHERS.get(spec["parameters"]["launcher"]))
    for own in [logs.lines_of(str(rank), mark, lines) for rank in record["ranks"]] if mark else [lines]:
        error = own_error(own, spec["cwd"])
        found = _error_cause(error) if error else None
        if found and found["kind"] in failure_causes.EXCEPTIONS:
            return found
    return None


def own_error(lines: Sequence[str], folder: str) -> tracebacks.ScriptError | None:
    """Return the exception with which the lines of a rank end, or None. An exception that is about another process does not count."""
    error = tracebacks.script_error(lines, folder)
    is_of_others = error and (error.kind in tracebacks.WRAPPERS or error_messages.is_about_another_process(error.message))
    return None if is_of_others else error


def blame_storage(found: CauseRecord, read_problems: Callable[[], Sequence[StorageProblem]]) -> CauseRecord:
    """Return the cause of a failure. If the job could not write to its storage, the storage is the cause, and not the script.

    The storage is only examined if it may be the cause. It causes neither errors in the code or its arguments, nor the signals of other
    processes, nor closed connections.
    """
    kind, name = found["kind"], found.get("name")
    is_own_end = (
        kind in (failure_causes.SCRIPT_ERROR, failure_causes.EXIT_STATUS, failure_causes.DISK_FULL) or name == error_messages.NCCL_ERROR
    )
    if name in failure_causes.CERTAIN_ERRORS or not (is_own_end or (kind == failure_causes.SIGNAL and name in failure_causes.OWN_SIGNALS)):
        return found
    if error_messages.is_connection_closed(found.get("message", "")):
        return found
    storage = read_problems()
    return {**found, "kind": failure_causes.DISK_FULL, "storage": [each._asdict() for each in storage]} if storage else found


def _cause_of_end(found: Outcome, lines: Sequence[str], folder: str) -> CauseRecord:
    """Return the cause of a process that has ended as `found` says. If it only reports the end of another process, that process counts."""
    child = tracebacks.failed_child(lines)
    end, own = (outcome(child.code), lines[: child.line]) if child else (found, lines)
    code = end.get("exit_code")
    name = end.get("signal") or (_signal(code) if code else "")
    if name == "SIGABRT":
        error = tracebacks.error_before_abort(own, folder)
        return _error_cause(error) if error else _abort_cause(_signal_cause(name, own, folder), own)
    if name:
        return _signal_cause(name, own, folder)
    usage = tracebacks.usage_error(own, code)
    if usage:
        return {"kind": failure_causes.SCRIPT_ERROR, "what": "wrong arguments", "name": failure_causes.USAGE, "message": usage}
    error = tracebacks.script_error(own, folder) or tracebacks.script_error(lines, folder)
    return _error_cause(error) if error else {"kind": failure_causes.EXIT_STATUS, "what": f"exit status {code}"}


def _signal_cause(name: str, lines: Sequence[str], folder: str) -> CauseRecord:
    where = tracebacks.crash_place(lines, folder) if name in failure_causes.OWN_SIGNALS else ""
    what = f"signal {name} at {where}" if where else f"signal {name}"
    return {"kind": failure_causes.SIGNAL, "what": what[: failure_causes.WHAT_LIMIT], "name": name}


def _abort_cause(found: CauseRecord, lines: Sequence[str]) -> CauseRecord:
    """Return the cause of an abort: what the message of the C++ runtime names, if it names a cause."""
    message = tracebacks.abort_message(lines)
    if error_messages.is_timeout(message):
        return _timeout_cause(message)
    kind = error_messages.kind(message)
    if error_messages.is_connection_closed(message):
        return {**found, "message": message}
    return {**found, "kind": kind, "message": message} if kind else found


def _timeout_cause(message: str) -> CauseRecord:
    """Return the cause of a process that has waited for other ranks too long. The process has no part in that, so the cause has no name."""
    operation, number = OPERATION.search(message), SEQUENCE_NUMBER.search(message)
    what = f"a time-out of {operation[1] if operation else 'a collective operation'}{f' with SeqNum {number[1]}' if number else ''}"
    return {"kind": failure_causes.HANG, "what": what, "message": message}


def _error_cause(error: tracebacks.ScriptError) -> CauseRecord:
    if error_messages.is_timeout(error.message):
        return _timeout_cause(error.message)
    is_certain = error_messages.is_certain(error.message)
    is_of_nccl = error.kind == error_messages.NCCL_ERROR and not (is_certain or error_messages.is_connection_closed(error.message))
    kind = error_messages.kind(error.message) or (failure_causes.HARDWARE if is_of_nccl else failure_causes.SCRIPT_ERROR)
    what = f"{error.kind} at {error.place}"[: failure_causes.WHAT_LIMIT]
    name = failure_causes.CERTAIN if is_certain else error.kind
    return {"kind": kind, "what": what, "name": name, "message": error.message}


def _signal(code: int) -> str:
    """Return the signal that a shell or another program reports with an exit status, or an empty string."""
    try:
        return signal.Signals(code - 128).name if code > 128 else ""
    except ValueError:
        return NEGATIVE.get(code, "")
