# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Sentences about the ends of processes and attempts.

This code runs on hosts as part of the supervisor and depends only on the standard library.
"""

from __future__ import annotations

import signal
import time
from typing import Any, Mapping, Sequence

from . import error_messages, failure_causes, recovery, storage_problems
from .document_schemas import SENTENCE_LIMIT
from .documents import CauseRecord, Following, Outcome, ProcessRecord
from .job_states import CLOCK_LIMIT
from .naming import title
from .state_names import LOST

# The reason in the record of a process that ended because its host was terminated or restarted in an orderly way.
HOST_SHUT_DOWN = "was stopped because its host was shutting down"

# The beginning of the recorded reason if a program could not be run, and the end of the recorded reason if the kernel has killed one of
# the program's processes.
COULD_NOT_BE_STARTED = "could not be started"
OUT_OF_MEMORY = "after the kernel's OOM killer had killed one of its processes"


def explain(found: Following, attempt: int) -> str:
    """Return a sentence that explains the decision that followed the attempt.

    The sentence comes from the rule and not from the file, because the job can write anything into the file.
    """
    host = found["failure"]["host"] if "failure" in found else ""
    why = recovery_cause(found.get("cause") or {}, host)
    missing, replacements = found.get("missing", []), found.get("replacements", [])
    situation = recovery.Situation(
        [recovery.FailedAttempt(why, progress=False)] * attempt,
        [*missing, *replacements],
        replacements,
        recovery.RestartPolicy(found.get("restarts", 0), found.get("min_hosts", 0)),
        found["set_aside"]["name"] if "set_aside" in found else "",
        refusal=found.get("refusal", ""),
        spares=len(replacements),
        excluded=found.get("excluded", []),
        reboots=found.get("reboots", False),
    )
    damaged = [each["name"] for each in found.get("damaged", [])]
    return recovery.explain(found["action"], found["rule"], situation) + about_damage(damaged, found.get("without_checkpoint", False))


def about_damage(damaged: Sequence[str], without_checkpoint: bool) -> str:
    """Return the sentence about checkpoints that were set aside because their contents are damaged, or an empty string."""
    if not damaged:
        return ""
    names, are = ", ".join(damaged), "Checkpoint {} is" if len(damaged) == 1 else "Checkpoints {} are"
    rest = (
        "no complete checkpoint is left, and the script may start over." if without_checkpoint else "the job uses the checkpoint before it."
    )
    return f" {are.format(names)} damaged, so {rest}"


def recovery_cause(found: Mapping[str, Any], host: str) -> failure_causes.Cause:
    """Return a document's cause in the form that the decision about a restart uses.

    A connection that was closed for no known reason is evidence against neither the script nor the checkpoint, nor this host.
    """
    kind = str(found.get("kind") or failure_causes.KILLED)
    if kind in (failure_causes.SCRIPT_ERROR, failure_causes.SIGNAL) and error_messages.is_connection_closed(
        str(found.get("message") or "")
    ):
        kind, host = failure_causes.NETWORK, ""
    name, storage = str(found.get("name") or ""), storage_of(found)
    return failure_causes.Cause(kind, str(found.get("what") or ""), host, found.get("exit_code"), name, storage, bool(found.get("alone")))


def storage_of(found: Mapping[str, Any]) -> tuple[storage_problems.StorageProblem, ...]:
    """Return the problems of the storage in a document's cause. Unknown keys are ignored."""
    fields = storage_problems.StorageProblem._fields
    return tuple(storage_problems.StorageProblem(**{name: each[name] for name in fields}) for each in found.get("storage") or ())


def outcome(code: int) -> Outcome:
    """Return the outcome for a return code from subprocess. A negative code stands for the signal that killed the process."""
    if code >= 0:
        return {"exit_code": code}
    try:
        return {"signal": signal.Signals(-code).name}
    except ValueError:  # a real-time signal
        return {"signal": str(-code)}


def describe_end(process: ProcessRecord) -> str:
    """Return a description of how a process ended."""
    if process["state"] == LOST:
        heard = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(process["heartbeat"]))
        if process["heartbeat"] > time.time() + CLOCK_LIMIT:
            return f"has a heartbeat time in the future, {heard}"
        return f"has sent no heartbeat since {heard}"
    return describe_outcome(process)


def describe_outcome(found: Outcome) -> str:
    """Return a description of an outcome, such as `was killed by signal SIGKILL`."""
    if found.get("reason"):
        return found["reason"]
    if found.get("signal"):
        return "was killed by signal {}".format(found["signal"])
    return "ended with exit status {}".format(found.get("exit_code"))


def _describe_end_of_script(process: ProcessRecord, why: Mapping[str, Any]) -> str:
    """Return how a process ended.

    Launchers such as torchrun end with their own exit status. If it is known how the script ended, this information takes precedence.
    """
    end = describe_end(process)
    if why.get("kind") not in (failure_causes.SIGNAL, failure_causes.EXIT_STATUS) or not why.get("what") or why["what"] in end:
        return end
    if process.get("tagged"):  # the process has several ranks
        return f"{end} ({why['what']} of a rank)"
    return f"{'was killed by' if why['kind'] == failure_causes.SIGNAL else 'ended with'} {why['what']}"


def describe_failure(process: ProcessRecord, found: CauseRecord | None = None) -> str:
    """Return a sentence about the process that ended an attempt, such as `rank 1 on worker2 ended with exit status 1 (ValueError at ...)`.

    `found` is the cause. The default is the cause in the process's record.
    """
    why: Mapping[str, Any] = found or process.get("cause") or {}
    if why.get("kind") == failure_causes.HEALTH:
        return "health finding on {}: {}".format(process["host"], why["what"])[:SENTENCE_LIMIT]
    text = "{} on {} {}".format(title(process["name"]), process["host"], _describe_end_of_script(process, why))
    if why.get("kind") in failure_causes.EXCEPTIONS or (why.get("kind") == failure_causes.HANG and why.get("message")):
        what = f"{why['what']}: {why['message']}" if why.get("message") else why["what"]
        text += "" if text.endswith(what) else f" ({what})"
    elif why.get("message") == failure_causes.NOT_BY_OOM_KILLER:
        text += f" ({failure_causes.NOT_BY_OOM_KILLER})"
    if why.get("storage"):
        text += f" while {storage_problems.describe(storage_of(why))}"
    return text[:SENTENCE_LIMIT]
