# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Why an attempt of a job ended."""

from __future__ import annotations

from typing import NamedTuple, Sequence

from .storage_problems import StorageProblem

# Why an attempt ended.
OPERATOR = "operator"
TIME_LIMIT = "time_limit"
HOST_LOST = "host_lost"
HOST_SHUT_DOWN = "host_shut_down"
SPOT_INTERRUPTION = "spot_interruption"
CAPACITY_BLOCK_END = "capacity_block_end"
LEASE_END = "lease_end"
NOT_STARTED = "not_started"
OUT_OF_MEMORY = "out_of_memory"
DISK_FULL = "disk_full"
GPU_MEMORY = "gpu_memory"
HARDWARE = "hardware"
SCRIPT_ERROR = "script_error"
EXIT_STATUS = "exit_status"
SIGNAL = "signal"
KILLED = "killed"
HANG = "hang"
NETWORK = "network"
HEALTH = "health"
# Seconds from SIGTERM to the end of a lease, or of the time of a Capacity Block.
ANNOUNCED_BEFORE = 600.0
KINDS = (
    OPERATOR,
    TIME_LIMIT,
    HOST_LOST,
    HOST_SHUT_DOWN,
    SPOT_INTERRUPTION,
    CAPACITY_BLOCK_END,
    LEASE_END,
    NOT_STARTED,
    OUT_OF_MEMORY,
    DISK_FULL,
    GPU_MEMORY,
    HARDWARE,
    SCRIPT_ERROR,
    EXIT_STATUS,
    SIGNAL,
    KILLED,
    HANG,
    NETWORK,
    HEALTH,
)

# Causes that are announced before AWS terminates a host. They do not count toward the maximum number of restarts.
ANNOUNCED = (SPOT_INTERRUPTION, CAPACITY_BLOCK_END, LEASE_END)

# Causes after which neither the exit status nor the log of the process says why it ended.
NOT_BY_ITSELF = (TIME_LIMIT, HOST_SHUT_DOWN, NOT_STARTED, KILLED, NETWORK, HEALTH, *ANNOUNCED)

# Why a host that responds must not run the next attempt: a health check requires a reboot or a replacement, or the host is excluded from
# jobs. `REBOOT` and `REPLACE` are also severities of health checks, and the `name` of a cause of the kind `HEALTH`.
REBOOT, REPLACE, EXCLUDED = "reboot", "replace", "excluded"

# The causes that an exception of the script shows.
EXCEPTIONS = (SCRIPT_ERROR, DISK_FULL, GPU_MEMORY, HARDWARE)

# The causes for which only the host can be responsible. A host that is the cause of two such failures is excluded from later jobs.
BROKEN_HOST = (HOST_LOST, HEALTH)

# Maximum number of characters in `Cause.what` and `Cause.name`.
WHAT_LIMIT, NAME_LIMIT = 1000, 300

# Signals that an error in the program itself causes. Other signals come from outside, and are no evidence of an error in the program.
OWN_SIGNALS = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL")

# The names of an error about the script's arguments, and of one whose message says that it would end each attempt.
USAGE, CERTAIN = "usage", "certain"

# The names of errors that would occur again, regardless of the data and of which checkpoint is used.
MISSING_MODULE = "ModuleNotFoundError"
EXCEPTIONS_OF_CODE = ("SyntaxError", "IndentationError", "TabError", MISSING_MODULE, "ImportError", "NameError", "UnboundLocalError")
CERTAIN_ERRORS = (*EXCEPTIONS_OF_CODE, USAGE, CERTAIN)


class Cause(NamedTuple):
    """Why an attempt ended. Two causes with the same `kind` and `what` describe the same error.

    `what` is a noun phrase such as `ValueError at train.py, line 42`. `host` is the host on which the error occurred. `exit_code` is the
    script's exit status, if it is known. `name` is the exception that the script raised, the signal, the rank that makes a job hang, or
    what the host needs according to a health check. `storage` contains the problems of the storage to which the job writes. `alone` is true
    if the processes on all other hosts have passed the place of the error.
    """

    kind: str
    what: str = ""
    host: str = ""
    exit_code: int | None = None
    name: str = ""
    storage: Sequence[StorageProblem] = ()
    alone: bool = False


def is_own_fault(cause: Cause) -> bool:
    """Return whether a repetition of this cause is evidence against the script, its data or its checkpoint, and not against a host."""
    if cause.kind == SIGNAL:
        return cause.name in OWN_SIGNALS
    return cause.kind in (SCRIPT_ERROR, EXIT_STATUS, NOT_STARTED, OUT_OF_MEMORY, DISK_FULL, GPU_MEMORY)


def blames_script(cause: Cause) -> bool:
    """Return whether the script has caused the failure, so that the same script would fail again on other hosts."""
    is_own_signal = cause.kind == SIGNAL and cause.name in OWN_SIGNALS
    return cause.kind in (SCRIPT_ERROR, EXIT_STATUS, NOT_STARTED, GPU_MEMORY) or is_own_signal


def is_certain(cause: Cause) -> bool:
    """Return whether the script would raise the error again, regardless of the data and the checkpoint."""
    return cause.kind == SCRIPT_ERROR and cause.name in CERTAIN_ERRORS


def is_same(one: Cause, other: Cause) -> bool:
    return (one.kind, one.what) == (other.kind, other.what)


def points_to_host(cause: Cause) -> bool:
    """Return whether the host may be responsible for the failure. If all ranks hang at the same place, the responsible host is unknown."""
    if cause.kind == HANG:
        return bool(cause.name)
    if cause.kind == DISK_FULL:
        return not any(each.shared for each in cause.storage)
    return cause.alone or cause.kind in (SIGNAL, NOT_STARTED, OUT_OF_MEMORY, NETWORK, HARDWARE)


def full_directories(cause: Cause) -> set[tuple[str, str]]:
    """Return the directories to which the job could not write, each with its host or, on shared storage, without a host."""
    return {(each.path, "" if each.shared else cause.host) for each in cause.storage}
