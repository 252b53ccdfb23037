# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Sentences about the ends of processes and attempts of jobs, and about what followed. Hosts return the facts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..module_utils._job import failure_causes, recovery
from ..module_utils._job.document_schemas import SENTENCE_LIMIT
from ..module_utils._job.documents import Hang, Outcome, ProcessRecord, Stuck
from ..module_utils._job.failed_process import ended_by_itself, recorded_cause, recovery_cause
from ..module_utils._job.failure_causes import Cause
from ..module_utils._job.job_states import CLOCK_LIMIT
from ..module_utils._job.job_status import AttemptStatus, Failure, ProcessStatus
from ..module_utils._job.naming import title
from ..module_utils._job.state_names import FAILED, LOST, RUNNING, STOPPED, SUCCEEDED
from ..module_utils._job.storage_problems import INODES, QUOTA, READ_ONLY, SPACE, StorageProblem
from ..module_utils._words import form, plural
from ._output.hosts import host_names
from ._output.words import moment

# Maximum number of characters in a part of a sentence that comes from the job, and in a path.
DETAIL_LIMIT, PATH_LIMIT = 300, 200

# The end of a cause such as `SyntaxError at train.py, line 3`.
PLACE = re.compile(r" at (?P<file>.+), line (?P<line>\d+)\Z")

# How processes ended that did not end by themselves. AWS terminates their hosts at `when`.
ENDS = {
    failure_causes.HOST_SHUT_DOWN: "was stopped because its host was shutting down",
    failure_causes.NOT_STARTED: "could not be started: {what}",
    failure_causes.KILLED: "was killed by the system: {what}",
    failure_causes.HEALTH: "was stopped because of a health finding on its host: {what}",
    failure_causes.NETWORK: "received no data (its connections to {peer} were open after all processes there had ended)",
    failure_causes.CAPACITY_BLOCK_END: (
        "was stopped because of the end of the host's Capacity Block, whose instances AWS terminates from {when}"
    ),
    failure_causes.LEASE_END: "was stopped because of the end of the lease of the nodes, which AWS terminates at {when}",
    failure_causes.SPOT_INTERRUPTION: "was stopped because of the spot interruption of the host, which AWS announced for {when}",
}

NOBODY: Mapping[str, str] = {}

WHAT_IS_WRONG = {
    SPACE: "was full ({free} of {size} free)",
    INODES: "had no free inodes",
    QUOTA: "had no space left within the user's disk quota",
    READ_ONLY: "was mounted read-only",
}
WHAT_TO_DO = {
    SPACE: "Free space in {place}",
    INODES: "Delete files in {place}",
    QUOTA: "Delete the user's files in {place}, or increase the quota",
    READ_ONLY: "Find out why {place} is mounted read-only",
}


def describe_end(process: ProcessRecord, others: Mapping[str, str] = NOBODY) -> str:
    """Return a description of how a process ended. `others` are the ends of the processes for which others were stopped (see ends())."""
    if process["state"] == LOST:
        heard = f"{moment(process['heartbeat'])} UTC"
        if process["heartbeat"] > time.time() + CLOCK_LIMIT:
            return f"has a heartbeat time in the future, {heard}"
        return f"has sent no heartbeat since {heard}"
    return reason(process, others) or describe_outcome(process)


def ends(processes: Sequence[ProcessRecord]) -> Mapping[str, str]:
    """Return how the processes ended for which other processes of a job were stopped, by name.

    Such a process can still be running: it saves a checkpoint if the host has returned the cause of its end. Otherwise, its host is lost.
    The supervisor of a lost host that responds again stops the process for itself.
    """
    named = {process.get("stopped_for") for process in processes}
    found: dict[str, str] = {}
    for process in processes:
        if process["name"] in named:
            state = process["state"]
            if process.get("stopped_for") == process["name"] or (state == RUNNING and not recorded_cause(process)):
                state = LOST
            end = describe_end({**process, "state": FAILED if state == RUNNING else state})
            found[process["name"]] = f"on {process['host']} {end}"
    return found


def reason(process: ProcessRecord, others: Mapping[str, str] = NOBODY) -> str:
    """Return why a process ended, or an empty string if its exit status says so. `others` are as for describe_end()."""
    return _reason(process, others)[:SENTENCE_LIMIT]


def _reason(process: ProcessRecord, others: Mapping[str, str]) -> str:
    state = process["state"]
    if state == SUCCEEDED and (process.get("signal") or process.get("exit_code")):
        return "ended with the job"
    if state == STOPPED:
        return _stop(process, others)
    if state == FAILED and not ended_by_itself(process):
        return _end_from_outside(process)
    return describe_oom_kill(process) if state in (FAILED, SUCCEEDED) and process.get("oom_kills") else ""


def _stop(process: ProcessRecord, others: Mapping[str, str]) -> str:
    name = process.get("stopped_for")
    if not name:
        return "was stopped by an operator (for example with stop.yml)"
    return f"was stopped because {title(name)} {others.get(name, 'has sent no heartbeat')}"


def _end_from_outside(process: ProcessRecord) -> str:
    if process.get("raised"):
        return "raised an exception and did not end, so that the other ranks waited for it"
    cause = recorded_cause(process)
    if cause["kind"] == failure_causes.TIME_LIMIT:
        return "reached training_job_max_cost" if cause.get("cost") else f"reached its time limit of {cause.get('limit') or 0:.0f} s"
    if cause.get("hang"):
        return _hang(process, cause["hang"], is_odd=bool(cause.get("name")))
    when = f"{moment(cause.get('deadline') or 0.0)} UTC"
    return ENDS[cause["kind"]].format(what=cause.get("what") or "unknown", peer=process.get("still_connected"), when=when)


def _hang(process: ProcessRecord, hang: Hang, is_odd: bool) -> str:
    """Return for how long a job has made no progress, and where its ranks are."""
    median, lock = hang.get("median"), hang.get("lock")
    sign = f"a median step of {median:.3g} s" if median else "no output, reported step or checkpoint"
    held = f", while no process has the lock file {lock!r} open" if lock and len(lock) <= PATH_LIMIT else ""
    details = _places(process, hang, is_odd)
    rank = hang.get("stuck")
    error = rank.get("error") if rank else None
    return (
        f"made no progress for {hang['seconds']:.0f} s, with {sign}{held}{f' ({details})' if details else ''}"
        f"{f', and its log ends with {error}' if error else ''}"
    )


def _places(process: ProcessRecord, hang: Hang, is_odd: bool) -> str:
    """Return a phrase that says where the ranks are, or an empty string if this is unknown."""
    rank, most = hang.get("stuck"), hang.get("most")
    if not rank or not (rank["where"] or rank["suspended"]):
        return ""
    here = _position(process, rank, is_odd)
    if not most:
        return here
    there, others = hang.get("there") or 0, hang.get("others") or 0
    if not is_odd:
        return f"all ranks are at {most}" if most == rank["where"] and there == others else here
    if there == others:
        which = form(others, "the other rank is", "all other ranks are")
    else:
        which = plural(there, "other rank is", "other ranks are")
    return f"{here}; {which} at {most}"


def _position(process: ProcessRecord, rank: Stuck, is_odd: bool) -> str:
    who = "it is" if process.get("ranks") == [rank["rank"]] else f"rank {rank['rank']} is"
    if rank["suspended"]:
        return f"{who} suspended"
    silent = (rank.get("silent_peers") or 0) if is_odd else 0
    return f"{f'{silent} % of the connected hosts do not acknowledge its data; ' if silent else ''}{who} at {rank['where']}"


def describe_oom_kill(found: Outcome) -> str:
    """Return a description of the outcome of a process of which the kernel's OOM killer has killed a process."""
    return f"{describe_outcome(found)} after the kernel's OOM killer had killed one of its processes"


def describe_outcome(found: Outcome) -> str:
    """Return a description of an outcome, such as `was killed by signal SIGKILL`."""
    if found.get("signal"):
        return f"was killed by signal {found['signal']}"
    return f"ended with exit status {found.get('exit_code')}"


def outcomes(failure: Failure) -> list[Outcome]:
    """Return the outcomes that describe_failure() names: that of the process, or of its rank that failed first, or both."""
    state, culprit = failure.get("state", FAILED), failure.get("culprit")
    if state not in (FAILED, LOST) or not ended_by_itself(failure):
        return []
    # Without tags, the process has one rank, and the launcher's own exit status says less. A lost process has none.
    own = state == FAILED and (failure.get("tag") or not culprit)
    return [*([failure] if own else []), *([culprit] if culprit else [])]


def describe_failure(failure: Failure, others: Mapping[str, str] = NOBODY) -> str:
    """Return how the process ended that made a job fail. `others` are as for describe_end()."""
    text = describe_end(failure, others)
    culprit = failure.get("culprit") if outcomes(failure) else None
    if culprit and failure.get("tag"):
        text += f", because rank {culprit['rank']} {describe_outcome(culprit)}"
    elif culprit:
        text = describe_oom_kill(culprit) if failure.get("oom_kills") else describe_outcome(culprit)
    return text + _not_out_of_memory(failure, recorded_cause(failure))


def _not_out_of_memory(process: ProcessRecord, cause: Mapping[str, Any]) -> str:
    """Return the addition about a process that was killed by SIGKILL, if the kernel's own count rules out the OOM killer."""
    is_ruled_out = process.get("oom_kills") == 0 and cause.get("name") == "SIGKILL"
    return " (not by the kernel's OOM killer)" if is_ruled_out else ""


def attempt_cause(found: AttemptStatus) -> str:
    """Return a sentence about the process that ended an attempt, such as `rank 1 on worker2 ended with exit status 1 (ValueError at ...)`.

    The result is an empty string if the attempt has not failed.
    """
    process = found.get("failure")
    if not process:
        return ""
    cause: Mapping[str, Any] = found.get("cause") or recorded_cause(process)
    kind, what, message = cause.get("kind"), cause.get("what") or "", cause.get("message")
    if kind == failure_causes.HEALTH:
        return f"health finding on {process['host']}: {what}"[:SENTENCE_LIMIT]
    text = f"{title(process['name'])} on {process['host']} {_end_of_script(process, kind, what)}"
    if kind in failure_causes.EXCEPTIONS or (kind == failure_causes.HANG and message):
        listens = f" ({cause['listener']} listens on port {cause.get('port')})" if cause.get("listener") else ""
        error = f"{what}: {message}{listens}" if message else what
        text += "" if text.endswith(error) else f" ({error})"
    text += _not_out_of_memory(process, cause)
    storage = recovery_cause(cause, "").storage
    return f"{text} while {_describe_storage(storage)}"[:SENTENCE_LIMIT] if storage else text[:SENTENCE_LIMIT]


def _end_of_script(process: ProcessStatus, kind: str | None, what: str) -> str:
    """Return how a process ended.

    Launchers such as torchrun end with their own exit status. If it is known how the script ended, this information takes precedence.
    """
    end = describe_end(process)
    if kind not in (failure_causes.SIGNAL, failure_causes.EXIT_STATUS) or not what or what in end:
        return end
    if process.get("tag"):  # the process has several ranks
        return f"{end} ({what} of a rank)"
    return f"{'was killed by' if kind == failure_causes.SIGNAL else 'ended with'} {what}"


def _describe_storage(problems: Sequence[StorageProblem]) -> str:
    """Return clauses such as `/checkpoints was full (0 bytes of 100 GiB free)`, joined with `and`."""
    words = (WHAT_IS_WRONG[each.problem].format(free=_amount(each.free), size=_amount(each.size)) for each in problems)
    return " and ".join(f"{each.path[:PATH_LIMIT]} {what}" for each, what in zip(problems, words))


def _amount(size: int) -> str:
    shift, unit = next(((shift, unit) for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")) if size >> shift), (0, "bytes"))
    return f"{size >> shift} {unit}"


def explain(found: AttemptStatus) -> str:
    """Return a sentence that explains the decision that followed an attempt, or an empty string if there is none.

    The sentence comes from the rule and not from the file, because the job can write anything into the file.
    """
    if not found.get("rule"):
        return ""
    decision = Decision(found)
    if (found["rule"], found["action"]) not in ACTIONS:
        return f"The recorded decision names an unknown rule ({found['rule'][:40]})."
    return WORDS[found["rule"]](decision) + decision.damage()


class Decision:
    """A decision with the facts that its explanation needs."""

    def __init__(self, found: AttemptStatus) -> None:
        self.found, self.attempt = found, found["attempt"]
        self.host = found["failure"]["host"] if found.get("failure") else ""
        self.cause: Cause = recovery_cause(found.get("cause") or {}, self.host)
        self.missing, self.replacements = found.get("missing") or [], found.get("replacements") or []
        self.checkpoint = found.get("set_aside") or ""
        self.numbers = f"{self.attempt - 1} and {self.attempt}"
        # The name of the error, capitalized for the beginning of a sentence.
        self.what = self.cause.what[:1].upper() + self.cause.what[1:DETAIL_LIMIT]

    def lacks(self) -> str:
        return host_names(self.missing, ())

    def without_hosts(self, joint: str, consequence: str) -> str:
        """Return a sentence about the hosts that cannot be used, if there are any, and the consequence."""
        return f"{self.lacks()} cannot be used, {joint} {consequence}" if self.missing else consequence[:1].upper() + consequence[1:]

    def spares(self) -> str:
        return host_names(self.replacements, ())

    def damage(self) -> str:
        """Return the sentence about checkpoints that were set aside because their contents are damaged, or an empty string."""
        names = self.found.get("damaged") or []
        if not names:
            return ""
        rest = f"the job uses the checkpoint before {form(len(names), 'it', 'them')}."
        if self.found.get("without_checkpoint"):
            rest = "no complete checkpoint is left, and the script may start over."
        return f" {form(len(names), 'Checkpoint', 'Checkpoints')} {', '.join(names)} {form(len(names), 'is', 'are')} damaged, so {rest}"

    def limit(self) -> str:
        if self.cause.kind == failure_causes.LEASE_END:
            return "AWS terminates the nodes at the end of their lease. Start nodes with a new lease, and then continue the job."
        return "The job reached training_job_time_limit or training_job_max_cost."

    def used_up(self) -> str:
        restarts = self.found.get("restarts") or 0
        if not restarts:
            return "training_job_restarts is 0, so a job is not restarted."
        last = form(restarts, "the last restart", f"each of the last {restarts} restarts")
        return (
            f"training_job_restarts is {restarts}, and {last} ended without a new checkpoint. Correct the cause, save checkpoints more "
            "often, or increase training_job_restarts."
        )

    def continuation(self) -> str:
        """Return sentences about the hosts of a restart after a health finding."""
        if not self.missing:
            is_new = (
                f"{self.host} has been rebooted" if self.found.get("reboots") else "The checks after the failure did not find this again"
            )
            return f"{is_new}, and the job continues on the same hosts.{self.repair()}"
        if self.replacements:
            return f"The job continues with spare {self.spares()} in place of {self.lacks()}.{self.repair()}"
        return f"The job continues without {self.lacks()}.{self.repair()}"

    def repair(self) -> str:
        """Return what to do about unhealthy and excluded hosts, or an empty string if there are none."""
        needs = {
            failure_causes.REBOOT: "reboots itself" if self.found.get("reboots") else "must be rebooted",
            failure_causes.REPLACE: "should be replaced",
        }
        need = needs.get(self.cause.name) if self.host in self.missing and self.cause.kind == failure_causes.HEALTH else None
        found = [f"{self.host} {need}"] if need else []
        others = [each for each in self.found.get("excluded") or [] if not (need and each == self.host)]
        if others:
            found.append(f"{host_names(others, ())} {form(len(others), 'is', 'are')} excluded from jobs")
        return f" {', and '.join(found)}. To see the commands, run deeplearning.cluster.health." if found else ""

    def suspicion(self) -> str:
        if failure_causes.is_certain(self.cause):
            return f"Only {self.host} had this error, so the job continues without this host."
        return f"Attempts {self.numbers} failed on {self.host}, so the job continues without this host."

    def correction(self) -> str:
        """Return what to do about an error that recurs, or an empty string if the description of the error already says so."""
        if self.cause.kind == failure_causes.GPU_MEMORY:
            return " Reduce the batch size, or use GPUs with more memory."
        is_said = self.cause.kind in (failure_causes.NOT_STARTED, failure_causes.OUT_OF_MEMORY)
        return "" if is_said else f" Correct {self._place()} or its data."

    def correction_of_certain(self) -> str:
        """Return what to do about an error that does not depend on the data or the checkpoint.

        For a missing module, the result is an empty string, because the failure message explains the possible causes.
        """
        corrections = {
            failure_causes.MISSING_MODULE: "",
            failure_causes.CERTAIN: " Its message says what to change.",
            failure_causes.USAGE: " Correct training_job_arguments.",
        }
        return corrections.get(self.cause.name, f" Correct {self._place()}.")

    def _place(self) -> str:
        """Return the place of an error in the script, such as `line 3 of train.py`."""
        found = PLACE.search(self.cause.what[:DETAIL_LIMIT])
        return f"line {found['line']} of {found['file']}" if found else "the script"

    def storage_repair(self) -> str:
        """Return what to do, such as `Free space in /checkpoints on worker2.`."""
        if not self.cause.storage:
            return "Free space on the storage to which the script writes."
        first = self.cause.storage[0]
        return WHAT_TO_DO[first.problem].format(place=first.path[:PATH_LIMIT] + ("" if first.shared else f" on {self.host}")) + "."


# The actions of the rules.
ACTIONS = {(recovery.CONTINUED, recovery.RESTART), *((rule.name, rule.action) for rule in recovery.TABLE)}
# The explanations of the rules.
WORDS: Mapping[str, Callable[[Decision], str]] = {
    recovery.CONTINUED: lambda _: "The job was started again with the same name.",
    "operator": lambda _: "An operator stopped the job.",
    "time_limit": Decision.limit,
    "stop_exit_code": lambda found: f"Exit status {found.cause.exit_code} is in training_job_stop_exit_codes.",
    recovery.TOO_FEW_HOSTS: lambda found: (
        found.without_hosts("and", f"the job needs {plural(found.found.get('min_hosts') or 0, 'host', 'hosts')} (training_job_min_hosts).")
        + found.repair()
    ),
    "launcher": lambda found: (
        f"The launcher cannot run the job on the remaining hosts: {(found.found.get('refusal') or '')[:DETAIL_LIMIT]}"
    ),
    "no_restarts_left": Decision.used_up,
    "too_many_attempts": lambda _: (
        f"A job has at most {recovery.ATTEMPTS_LIMIT} attempts. To continue, start a new job with training_job_resume."
    ),
    "after_reboot": Decision.continuation,
    "ask_for_replacement": Decision.continuation,
    "restart_exit_code": lambda found: f"Exit status {found.cause.exit_code} is in training_job_restart_exit_codes.",
    "certain_error": lambda found: f"The same error would end each attempt.{found.correction_of_certain()}",
    "error_came_back": lambda found: (
        f"{found.what} occurred again after a restart from an older checkpoint. Correct the script or its data."
    ),
    "suspect_host_and_checkpoint": lambda found: (
        f"Attempts {found.numbers} failed on {found.host} after checkpoint {found.checkpoint}, so the job continues without this host, and "
        "uses the checkpoint before it."
    ),
    "suspect_host": Decision.suspicion,
    "full_storage": lambda found: (
        f"The storage ended attempts {found.numbers}, with no new checkpoint in between. {found.storage_repair()} Then run the "
        "same command again."
    ),
    "suspect_checkpoint": lambda found: (
        f"Attempts {found.numbers} failed after checkpoint {found.checkpoint}, so the job uses the checkpoint before it."
    ),
    "same_error": lambda found: f"The same error ended attempts {found.numbers}, with no new checkpoint in between.{found.correction()}",
    "same_hang": lambda found: (
        f"{found.what} ended {recovery.HANGS} attempts in a row, with no new checkpoint in between. Correct the script or its data."
    ),
    "spare_host": lambda found: found.without_hosts("so", f"the job continues with spare {found.spares()}.") + found.repair(),
    "fewer_hosts": lambda found: f"The job continues without {found.lacks()}.{found.repair()}",
    "same_hosts": lambda _: "The job continues on the same hosts.",
}
