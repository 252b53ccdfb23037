# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Decides what follows a failed attempt of a job, according to the decision table in docs/recovery.md.

The functions are pure, and also run on hosts without Ansible.
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

from .failure_causes import (
    ANNOUNCED,
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
    full_directories,
    is_certain,
    is_own_fault,
    is_same,
    points_to_host,
)

# Causes after which no host has time for another attempt.
TIME_UP = (TIME_LIMIT, LEASE_END)

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
    `refusal` states the reason. The last `spares` hosts were on standby during the last attempt.
    """

    attempts: Sequence[FailedAttempt]
    hosts: Sequence[str]
    available: Sequence[str]
    policy: RestartPolicy
    checkpoint: str = ""
    has_older: bool = False
    refusal: str = ""
    spares: int = 0

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
    """What follows an attempt. `rule` is a row of the table.

    A restart uses `hosts`. The hosts in `standby` wait, and the hosts in `replacements` were on standby during the last attempt. The
    checkpoint `set_aside` is renamed before the restart, so that the next attempt uses an older checkpoint.
    """

    action: str
    rule: str
    hosts: Sequence[str] = ()
    set_aside: str = ""
    standby: Sequence[str] = ()
    replacements: Sequence[str] = ()


class DecisionRule(NamedTuple):
    """A row of the decision table. The first row that applies determines what follows. The controller explains the rule."""

    name: str
    action: str
    applies: Callable[[Situation], bool]
    without_suspect: bool = False
    older_checkpoint: bool = False


def decide(situation: Situation) -> Decision:
    """Return what follows the last attempt: the first row of the table that applies."""
    rule = next(rule for rule in TABLE if rule.applies(situation))
    if rule.action == STOP:
        return Decision(STOP, rule.name)
    hosts = _without_suspect(situation) if rule.without_suspect else list(situation.available)
    set_aside = situation.checkpoint if rule.older_checkpoint else ""
    standby = hosts[situation.size :]
    return Decision(RESTART, rule.name, hosts, set_aside, standby, _replacements(situation, hosts))


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


TABLE: Sequence[DecisionRule] = (
    DecisionRule("operator", STOP, lambda situation: situation.cause.kind == OPERATOR),
    DecisionRule("time_limit", STOP, lambda situation: situation.cause.kind in TIME_UP),
    DecisionRule("stop_exit_code", STOP, lambda situation: situation.cause.exit_code in situation.policy.stop_exit_codes),
    DecisionRule(TOO_FEW_HOSTS, STOP, lambda situation: len(situation.available) < situation.policy.min_hosts),
    DecisionRule("launcher", STOP, lambda situation: bool(situation.refusal)),
    DecisionRule("no_restarts_left", STOP, lambda situation: idle_restarts(situation.attempts) >= situation.policy.restarts),
    DecisionRule("too_many_attempts", STOP, lambda situation: len(situation.attempts) >= ATTEMPTS_LIMIT),
    DecisionRule("after_reboot", RESTART, lambda situation: _needs(situation, REBOOT)),
    DecisionRule("ask_for_replacement", RESTART, lambda situation: _needs(situation, REPLACE)),
    DecisionRule("restart_exit_code", RESTART, lambda situation: situation.cause.exit_code in situation.policy.restart_exit_codes),
    DecisionRule("certain_error", STOP, lambda situation: is_certain(situation.cause) and not _leaves_out_host(situation)),
    DecisionRule("error_came_back", STOP, _returned),
    DecisionRule(
        "suspect_host_and_checkpoint",
        RESTART,
        lambda situation: (
            (situation.cause.kind == SIGNAL or situation.cause.alone)
            and _repeats(situation)
            and _blames_checkpoint(situation)
            and _leaves_out_host(situation)
        ),
        without_suspect=True,
        older_checkpoint=True,
    ),
    DecisionRule("suspect_host", RESTART, _leaves_out_host, without_suspect=True),
    DecisionRule("full_storage", STOP, _is_full_again),
    DecisionRule("suspect_checkpoint", RESTART, _blames_checkpoint, older_checkpoint=True),
    DecisionRule("same_error", STOP, _repeats),
    DecisionRule("same_hang", STOP, _hangs_again),
    DecisionRule("spare_host", RESTART, lambda situation: bool(_lost(situation)) and len(situation.available) >= situation.size),
    DecisionRule("fewer_hosts", RESTART, lambda situation: bool(_lost(situation))),
    DecisionRule("same_hosts", RESTART, lambda situation: True),
)
