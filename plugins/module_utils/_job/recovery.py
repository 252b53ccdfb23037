# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Decides what follows a failed attempt of a job, according to the decision table in docs/recovery.md.

The functions are pure, and also run on hosts without Ansible.
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

from . import storage_problems
from .failure_causes import (
    ANNOUNCED,
    DETAIL_LIMIT,
    DISK_FULL,
    GPU_MEMORY,
    HANG,
    HEALTH,
    LEASE_END,
    NOT_STARTED,
    OPERATOR,
    REBOOT,
    REPLACE,
    SCRIPT_ERROR,
    SIGNAL,
    TIME_LIMIT,
    USAGE,
    Cause,
    correction,
    correction_of_certain,
    full_directories,
    is_certain,
    is_own_fault,
    is_same,
    points_to_host,
)

# Causes after which no host has time for another attempt.
TIME_UP = {
    TIME_LIMIT: "The job reached training_job_time_limit or training_job_max_cost.",
    LEASE_END: "AWS terminates the nodes at the end of their lease. Start nodes with a new lease, and then continue the job.",
}

# Seconds for which a job waits for a host that reboots, if it cannot continue without the host.
REBOOT_PATIENCE = 600.0

# What can follow an attempt.
STOP, RESTART = "stop", "restart"

# The rule in the decision about an attempt after which an operator has started the job again under the same name.
CONTINUED = "continued"

# The name of the rule that ends a job without enough hosts.
TOO_FEW_HOSTS = "too_few_hosts"

# The maximum number of attempts of a job.
ATTEMPTS_LIMIT = 1 << 10

# Number of consecutive attempts that must hang at the same place to prove that the next one would hang too. Two such attempts prove little,
# because ranks that wait for a lost message are at the same place each time.
HANGS = 3


class FailedAttempt(NamedTuple):
    """An attempt that has failed. `progress` is true if the attempt completed a checkpoint.

    `set_aside` is the name of the checkpoint that was set aside after the attempt, or an empty string.
    """

    cause: Cause
    progress: bool
    set_aside: str = ""


class RestartPolicy(NamedTuple):
    """The job options that the decision depends on.

    `restarts` is the maximum number of consecutive restarts without a new checkpoint.
    """

    restarts: int
    min_hosts: int
    stop_exit_codes: Sequence[int] = ()
    restart_exit_codes: Sequence[int] = ()


class Situation(NamedTuple):
    """The facts on which a decision depends: all attempts, oldest first, and the hosts of the last attempt.

    `available` contains the hosts that respond and on which no process of the job remains. `checkpoint` is the name of the newest
    checkpoint, and `has_older` is true if there is an older checkpoint. If the launcher cannot run the job on the hosts of a restart,
    `refusal` states the reason.

    The last `spares` hosts were on standby during the last attempt. `excluded` contains the hosts that are not available because they are
    excluded from jobs. `reboots` is true if the host of the last failure reboots itself.
    """

    attempts: Sequence[FailedAttempt]
    hosts: Sequence[str]
    available: Sequence[str]
    policy: RestartPolicy
    checkpoint: str = ""
    has_older: bool = False
    refusal: str = ""
    spares: int = 0
    excluded: Sequence[str] = ()
    reboots: bool = False

    @property
    def size(self) -> int:
        """The number of hosts on which the last attempt ran."""
        return len(self.hosts) - self.spares

    @property
    def cause(self) -> Cause:
        return self.attempts[-1].cause

    @property
    def progress(self) -> bool:
        return self.attempts[-1].progress


class Decision(NamedTuple):
    """What follows an attempt. `rule` is a row of the table, and `why` is a sentence.

    A restart uses `hosts`. The hosts in `standby` wait, and the hosts in `replacements` were on standby during the last attempt. The
    checkpoint `set_aside` is renamed before the restart, so that the next attempt uses an older checkpoint.
    """

    action: str
    rule: str
    why: str
    hosts: Sequence[str] = ()
    set_aside: str = ""
    standby: Sequence[str] = ()
    replacements: Sequence[str] = ()


class DecisionRule(NamedTuple):
    """A row of the decision table. The first row that applies determines what follows. `why` is a sentence for messages."""

    name: str
    action: str
    applies: Callable[[Situation], bool]
    why: Callable[[Situation], str]
    without_suspect: bool = False
    older_checkpoint: bool = False


def decide(situation: Situation) -> Decision:
    """Return what follows the last attempt: the first row of the table that applies."""
    rule = next(rule for rule in TABLE if rule.applies(situation))
    if rule.action == STOP:
        return Decision(STOP, rule.name, rule.why(situation))
    hosts = _without_suspect(situation) if rule.without_suspect else list(situation.available)
    set_aside = situation.checkpoint if rule.older_checkpoint else ""
    standby = hosts[situation.size :]
    return Decision(RESTART, rule.name, rule.why(situation), hosts, set_aside, standby, _replacements(situation, hosts))


def explain(action: str, name: str, situation: Situation) -> str:
    """Return the explanation that the rule in a recorded decision gives for the situation.

    A sentence in the recorded decision would not be reliable, because the decision may be forged.
    """
    if (action, name) == (RESTART, CONTINUED):
        return "The job was started again with the same name."
    rule = next((rule for rule in TABLE if (rule.action, rule.name) == (action, name)), None)
    return rule.why(situation) if rule else f"The recorded decision names an unknown rule ({name})."


def waits_for_reboot(situation: Situation, rebooting: Sequence[str]) -> bool:
    """Return whether the job cannot continue without the hosts that reboot, but would continue with them."""
    if decide(situation).rule != TOO_FEW_HOSTS:
        return False
    available = [host for host in situation.hosts if host in situation.available or host in rebooting]
    return decide(situation._replace(available=available)).action == RESTART


def idle_restarts(attempts: Sequence[FailedAttempt]) -> int:
    """Return the number of consecutive restarts, up to the last attempt, that have completed no checkpoint.

    Neither the first attempt nor a restart after an announced termination of a host, or by an operator, counts.
    """
    failures = 0
    for attempt in reversed(attempts):
        failures += attempt.cause.kind not in (*ANNOUNCED, OPERATOR)
        if attempt.progress:
            break
    return max(0, failures - 1)


def _repeats(situation: Situation) -> bool:
    """Return whether the last two attempts ended with the same error, with no checkpoint in between."""
    if len(situation.attempts) < 2 or situation.progress:
        return False
    return is_own_fault(situation.cause) and is_same(situation.attempts[-2].cause, situation.cause)


def _named(hosts: Sequence[str]) -> str:
    """Return the names of the first five hosts and the number of other hosts, because decisions have a limited length."""
    more = len(hosts) - 5
    return ", ".join(hosts[:5]) + (f" and {more} {'other' if more == 1 else 'others'}" if more > 0 else "")


def _missing(situation: Situation) -> list[str]:
    return [host for host in situation.hosts if host not in situation.available]


def _lost(situation: Situation) -> list[str]:
    """Return the hosts of the last attempt that cannot be used, excluding hosts on standby."""
    return [host for host in situation.hosts[: situation.size] if host not in situation.available]


def _replacements(situation: Situation, hosts: Sequence[str]) -> list[str]:
    """Return the hosts that were on standby and run the next attempt, if the next attempt uses `hosts`."""
    return [host for host in hosts[: situation.size] if host in situation.hosts[situation.size :]]


def _without_suspect(situation: Situation) -> list[str]:
    return [host for host in situation.available if host != situation.cause.host]


def _is_suspect(situation: Situation) -> bool:
    """Return whether two consecutive attempts failed on the same host in a way for which the host may be responsible.

    An error that every attempt would repeat is not repeated on this host if only this host has it.
    """
    if situation.progress or situation.cause.host not in situation.available:
        return False
    cause, earlier = situation.cause, [attempt.cause for attempt in situation.attempts[:-1]]
    if is_certain(cause):
        return cause.alone and cause.name != USAGE and not any(is_same(each, cause) for each in earlier)
    return bool(earlier) and earlier[-1].host == cause.host and points_to_host(earlier[-1]) and points_to_host(cause)


def _leaves_out_host(situation: Situation) -> bool:
    """Return whether the host of the last failure is suspect, and enough other hosts remain."""
    return _is_suspect(situation) and len(_without_suspect(situation)) >= situation.policy.min_hosts


def _is_full_again(situation: Situation) -> bool:
    """Return whether storage ended the last two attempts, with the same error or in the same directory, and no checkpoint in between."""
    if len(situation.attempts) < 2 or situation.progress or situation.cause.kind != DISK_FULL:
        return False
    before, cause = situation.attempts[-2].cause, situation.cause
    return is_same(before, cause) or not full_directories(before).isdisjoint(full_directories(cause))


def _hangs_again(situation: Situation) -> bool:
    """Return whether the last attempts hung at the same place, with no checkpoint in between."""
    last = situation.attempts[-HANGS:]
    if len(last) < HANGS or any(attempt.progress for attempt in last[1:]):
        return False
    return all(attempt.cause.kind == HANG and is_same(attempt.cause, situation.cause) for attempt in last)


def _blames_checkpoint(situation: Situation) -> bool:
    """Return whether the checkpoint may have caused the failures of the last two attempts, and whether an older checkpoint is available.

    If the error has already recurred after a checkpoint was set aside, the checkpoint is not considered the cause. An older checkpoint
    cannot help if a disk or the memory of a GPU is full, or if a program cannot be started.
    """
    if situation.cause.kind in (DISK_FULL, GPU_MEMORY, NOT_STARTED):
        return False
    if len(situation.attempts) < 2 or situation.progress or not situation.checkpoint or not situation.has_older:
        return False
    return is_own_fault(situation.cause) and not _returned(situation)


def _returned(situation: Situation) -> bool:
    """Return whether the error has recurred after a checkpoint was set aside because of it.

    An exception and its line identify an error. An exit status or a signal does not: the error is considered the same only if it follows
    a checkpoint with the name of the one that was set aside. Without this rule, a job could write that checkpoint and fail again forever,
    because each checkpoint that it writes counts as progress.
    """
    if not is_own_fault(situation.cause) or situation.cause.kind == DISK_FULL:
        return False
    earlier = [attempt for attempt in situation.attempts[:-1] if attempt.set_aside and is_same(attempt.cause, situation.cause)]
    if situation.cause.kind == SCRIPT_ERROR:
        return bool(earlier)
    return any(attempt.set_aside == situation.checkpoint for attempt in earlier)


def _needs(situation: Situation, what: str) -> bool:
    """Return whether a health check of the host of the last failure requires a reboot (REBOOT) or a replacement (REPLACE)."""
    return situation.cause.kind == HEALTH and situation.cause.name == what


def _continuation(situation: Situation) -> str:
    """Return a sentence about the hosts of a restart after a health finding."""
    if not _missing(situation):
        seen = f"{situation.cause.host} has been rebooted" if situation.reboots else "The checks after the failure did not find this again"
        return f"{seen}, and the job continues on the same hosts."
    spares = _replacements(situation, situation.available)
    if spares:
        return f"The job continues with spare {_named(spares)} in place of {_named(_missing(situation))}."
    return f"The job continues without {_named(_missing(situation))}."


def _repair(situation: Situation) -> str:
    """Return what to do about unhealthy and excluded hosts, or an empty string if there are none.

    The hosts do not know the region and the playbooks of the controller, so health.yml shows the complete commands.
    """
    host, name = situation.cause.host, situation.cause.name
    needs = {REBOOT: "reboots itself" if situation.reboots else "must be rebooted", REPLACE: "should be replaced"}
    found = [f"{host} {needs[name]}"] if host in _missing(situation) and situation.cause.kind == HEALTH and name in needs else []
    others = [each for each in situation.excluded if not (found and each == host)]
    if others:
        found.append(f"{_named(others)} {'is' if len(others) == 1 else 'are'} excluded from jobs")
    return f" {', and '.join(found)}. To see the commands, run deeplearning.cluster.health." if found else ""


def _what(situation: Situation) -> str:
    """Return the name of the error, capitalized for the beginning of a sentence."""
    return situation.cause.what[:1].upper() + situation.cause.what[1:DETAIL_LIMIT]


def _suspicion(situation: Situation) -> str:
    """Return why the host of the last failure is suspect."""
    host = situation.cause.host
    if is_certain(situation.cause):
        return f"Only {host} had this error, so the job continues without this host."
    return f"Attempts {_numbers(situation)} failed on {host}, so the job continues without this host."


def _numbers(situation: Situation) -> str:
    last = len(situation.attempts)
    return f"{last - 1} and {last}"


TABLE: Sequence[DecisionRule] = (
    DecisionRule(
        "operator",
        STOP,
        lambda situation: situation.cause.kind == OPERATOR,
        lambda situation: "An operator stopped the job.",
    ),
    DecisionRule(
        "time_limit",
        STOP,
        lambda situation: situation.cause.kind in TIME_UP,
        lambda situation: TIME_UP.get(situation.cause.kind, TIME_UP[TIME_LIMIT]),
    ),
    DecisionRule(
        "stop_exit_code",
        STOP,
        lambda situation: situation.cause.exit_code in situation.policy.stop_exit_codes,
        lambda situation: f"Exit status {situation.cause.exit_code} is in training_job_stop_exit_codes.",
    ),
    DecisionRule(
        TOO_FEW_HOSTS,
        STOP,
        lambda situation: len(situation.available) < situation.policy.min_hosts,
        lambda situation: (
            f"{_named(_missing(situation))} cannot be used, and the job needs {situation.policy.min_hosts} hosts (training_job_min_hosts)."
            f"{_repair(situation)}"
        ),
    ),
    DecisionRule(
        "launcher",
        STOP,
        lambda situation: bool(situation.refusal),
        lambda situation: f"The launcher cannot run the job on the remaining hosts: {situation.refusal[:DETAIL_LIMIT]}",
    ),
    DecisionRule(
        "no_restarts_left",
        STOP,
        lambda situation: idle_restarts(situation.attempts) >= situation.policy.restarts,
        lambda situation: _used_up(situation.policy.restarts),
    ),
    DecisionRule(
        "too_many_attempts",
        STOP,
        lambda situation: len(situation.attempts) >= ATTEMPTS_LIMIT,
        lambda situation: f"A job has at most {ATTEMPTS_LIMIT} attempts. To continue, start a new job with training_job_resume.",
    ),
    DecisionRule(
        "after_reboot",
        RESTART,
        lambda situation: _needs(situation, REBOOT),
        lambda situation: f"{_continuation(situation)}{_repair(situation)}",
    ),
    DecisionRule(
        "ask_for_replacement",
        RESTART,
        lambda situation: _needs(situation, REPLACE),
        lambda situation: f"{_continuation(situation)}{_repair(situation)}",
    ),
    DecisionRule(
        "restart_exit_code",
        RESTART,
        lambda situation: situation.cause.exit_code in situation.policy.restart_exit_codes,
        lambda situation: f"Exit status {situation.cause.exit_code} is in training_job_restart_exit_codes.",
    ),
    DecisionRule(
        "certain_error",
        STOP,
        lambda situation: is_certain(situation.cause) and not _leaves_out_host(situation),
        lambda situation: f"The same error would end each attempt.{correction_of_certain(situation.cause)}",
    ),
    DecisionRule(
        "error_came_back",
        STOP,
        _returned,
        lambda situation: f"{_what(situation)} occurred again after a restart from an older checkpoint. Correct the script or its data.",
    ),
    DecisionRule(
        "suspect_host_and_checkpoint",
        RESTART,
        lambda situation: (
            (situation.cause.kind == SIGNAL or situation.cause.alone)
            and _repeats(situation)
            and _blames_checkpoint(situation)
            and _leaves_out_host(situation)
        ),
        lambda situation: (
            f"Attempts {_numbers(situation)} failed on {situation.cause.host} after checkpoint {situation.checkpoint}, so the job continues"
            " without this host, and uses the checkpoint before it."
        ),
        without_suspect=True,
        older_checkpoint=True,
    ),
    DecisionRule(
        "suspect_host",
        RESTART,
        _leaves_out_host,
        _suspicion,
        without_suspect=True,
    ),
    DecisionRule(
        "full_storage",
        STOP,
        _is_full_again,
        lambda situation: (
            f"The storage ended attempts {_numbers(situation)}, with no new checkpoint in between."
            f" {storage_problems.repair(situation.cause.storage, situation.cause.host)} Then run the same command again."
        ),
    ),
    DecisionRule(
        "suspect_checkpoint",
        RESTART,
        _blames_checkpoint,
        lambda situation: (
            f"Attempts {_numbers(situation)} failed after checkpoint {situation.checkpoint}, so the job uses the checkpoint before it."
        ),
        older_checkpoint=True,
    ),
    DecisionRule(
        "same_error",
        STOP,
        _repeats,
        lambda situation: (
            f"The same error ended attempts {_numbers(situation)}, with no new checkpoint in between.{correction(situation.cause)}"
        ),
    ),
    DecisionRule(
        "same_hang",
        STOP,
        _hangs_again,
        lambda situation: (
            f"{_what(situation)} ended {HANGS} attempts in a row, with no new checkpoint in between. Correct the script or its data."
        ),
    ),
    DecisionRule(
        "spare_host",
        RESTART,
        lambda situation: bool(_lost(situation)) and len(situation.available) >= situation.size,
        lambda situation: (
            f"{_named(_missing(situation))} cannot be used, so the job continues with spare"
            f" {_named(_replacements(situation, situation.available))}.{_repair(situation)}"
        ),
    ),
    DecisionRule(
        "fewer_hosts",
        RESTART,
        lambda situation: bool(_lost(situation)),
        lambda situation: f"The job continues without {_named(_missing(situation))}.{_repair(situation)}",
    ),
    DecisionRule(
        "same_hosts",
        RESTART,
        lambda situation: True,
        lambda situation: "The job continues on the same hosts.",
    ),
)


def _used_up(restarts: int) -> str:
    if not restarts:
        return "training_job_restarts is 0, so a job is not restarted."
    last = "the last restart" if restarts == 1 else f"each of the last {restarts} restarts"
    return (
        f"training_job_restarts is {restarts}, and {last} ended without a new checkpoint. Correct the cause, save checkpoints more often, "
        "or increase training_job_restarts."
    )
