"""The catalogue: one row per fault. `python tools/chaos_catalogue.py` writes the catalogue to docs/chaos.md.

Each row describes what the suite does and what the judge expects of the collection. The names of injectors are the names of functions in
`faults`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("workload.py")

# Number of seconds within which hosts must detect a fault, with the options of the suite's jobs: a heartbeat timeout of 15 s, a median
# step of 0.1 s, and a minimum time of a hang of 0 s. SLOW_HANG is for the role's default of 300 s. After STALL, the storage works again.
# CHECK is for a fault that a health check finds while the job runs. The check runs every HEALTH_INTERVAL seconds.
PROCESS, HOST, HANG, SLOW_HANG, STALL, CHECK = "process", "host", "hang", "slow hang", "stall", "health check"
HEALTH_INTERVAL = 2
NOTICED = {
    CHECK: HEALTH_INTERVAL + 8.0,
    PROCESS: 5.0,
    HOST: 15.0 + 5.0,
    HANG: 3 * 0.1 + 10.0,
    SLOW_HANG: 300.0 + 10.0,
    STALL: 30.0 + 3 * 0.1 + 10.0,
}

# The cause of an out-of-memory kill. With cgroup v1, units in containers have no memory cgroup of their own that counts these kills.
OUT_OF_MEMORY = "out of memory|OOM killer had" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "SIGKILL"

# Number of hosts of each job. Each host has one rank, unless the host is a spare.
RANKS = 4


@dataclass(frozen=True)
class JobFault:
    """A fault that affects a running job.

    `causes` contains regular expressions for the causes that the collection must name, one for each attempt that failed. These expressions
    may contain the names `{rank}` and `{host}` of the rank and host at which the fault was aimed in this attempt, or else in the first
    attempt. If the job cannot succeed, `why` is a
    regular expression for the reason that the collection must report. `ranks` is the number of ranks with which the job ends. If `replaced`
    is true, a spare takes the place of the host at which the fault was aimed.
    """

    name: str
    where: str
    description: str
    injector: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    survivable: bool = True
    causes: Sequence[str] = ()
    why: str = ""
    ranks: int = RANKS
    replaced: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    # Whether the job uses the defaults of the role for restarts, heartbeats and hangs, and not the options that detect faults early.
    role_defaults: bool = False
    # How the fault is detected in each attempt that fails: a key of NOTICED, or an empty string if no attempt fails.
    noticed: str = ""
    # Whether the fault takes effect only after further steps, for example when the next checkpoint is written.
    delayed: bool = False
    # Number of checkpoint intervals that may be lost. Damaged checkpoints cost one more interval.
    lost: int = 1
    # Whether the fault also affects other jobs on the same hosts.
    alone: bool = False
    # Whether the play that started the job is still watching the job when the fault begins.
    watched: bool = False
    # Whether there can be fewer attempts, because the job might end or continue before the fault has an effect.
    at_most: bool = False

    @property
    def attempts(self) -> int:
        """Return the number of attempts."""
        return len(self.causes) + (1 if self.survivable else 0)

    @property
    def began_with(self) -> int:
        """Return the number of ranks with which the job begins."""
        return RANKS - int(self.options.get("spares", 0))


@dataclass(frozen=True)
class HealthFault:
    """A fault that affects a host and that the health check must find.

    `expected` contains, for each check with a finding, the severity and a regular expression for the message.
    """

    name: str
    where: str
    description: str
    injector: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    expected: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    # Parameters of the module node_health.
    parameters: Mapping[str, Any] = field(default_factory=dict)


def line_of(kind: str) -> int:
    """Return the line number of the bug in the script."""
    text = {"name": "    return this_name_is_not_defined", "fail": "        BUGS[kind]()", "stuck": "        time.sleep(1)"}
    start = text.get(kind, f'    "{kind}": ')
    return next(number for number, line in enumerate(SCRIPT.read_text().splitlines(), 1) if line.startswith(start))


def killed(signal: str, rank: str = "{rank}", host: str = "{host}") -> str:
    return rf"^rank {rank} on {host} (was killed by signal {signal}|ended with exit status \d+ .*{signal})"


def signalled(name: str, signal: str, description: str) -> JobFault:
    causes = (killed(f"SIG{signal}"),)
    return JobFault(name, "rank", description, "processes.send", {"signal": signal}, causes=causes, noticed=PROCESS, role_defaults=True)


def at_line(error: str, kind: str) -> str:
    return rf"^rank 1 on \S+ ended with exit status 1 \({error} at workload\.py, line {line_of(kind)}\b"


def bug(kind: str, error: str, description: str, attempts: int = 3, why: str = "") -> JobFault:
    """Return a fault that is a bug in the script: one that raises an exception at the same step in every attempt."""
    return JobFault(
        f"bug_{kind}",
        "script",
        f"the script raises {description} at the same step in every attempt",
        "controller.none",
        survivable=False,
        causes=(at_line(error, kind),) * attempts,
        why=why or rf"{error} at workload\.py, line {line_of(kind)} occurred again .*older checkpoint",
        options={"environment": {"CHAOS_BUG": f"{kind} 37"}},
        role_defaults=True,
        noticed=PROCESS,
    )


def damaged(kind: str, error: str, description: str) -> JobFault:
    return JobFault(
        f"checkpoint_{kind}",
        "checkpoint",
        f"the newest checkpoint is {description}, and rank 0 is killed",
        "checkpoints.damage",
        {"kind": kind},
        causes=(killed("SIGKILL"), rf"^rank \d on \S+ ended with exit status 1 \({error} at workload\.py, line \d+"),
        lost=2,
        role_defaults=True,
        noticed=PROCESS,
    )


def cut(kind: str, description: str, causes: Sequence[str], noticed: str) -> JobFault:
    return JobFault(
        f"network_{kind}",
        "network",
        f"{description}, except for SSH, until the hosts have detected the fault",
        "network.cut",
        {"kind": kind},
        causes=causes,
        noticed=noticed,
        alone=True,
    )


def with_spare(name: str, where: str, description: str, injector: str, /, **changes: Any) -> JobFault:
    """Return a fault in a job that has three hosts and a spare. The number of ranks does not change."""
    found = {"ranks": RANKS - 1, "replaced": True, "alone": True, **changes}
    return JobFault(name, where, description, injector, options={"spares": 1, **found.pop("options", {})}, **found)


HANGS = r"^rank {rank} on {host} made no progress for \d+ s"
UNREACHABLE = HANGS + r", with a median step of .* % of the connected hosts do not acknowledge its data"
SUSPENDED = r"^rank {rank} on {host} made no progress for \d+ s, with a median step of .*it is suspended"
NO_DATA = r"^rank {rank} on {host} received no data \(its connections to \S+ were open after all processes there had ended\)"
LOST = r"{host} has sent no heartbeat"
OWN_DISK = {"checkpoints": "own"}


def kill(name: str, where: str, description: str, injector: str, arguments: Mapping[str, Any] = {}, **changes: Any) -> JobFault:
    """Return a fault after which the collection must name a rank that was killed."""
    return JobFault(name, where, description, injector, arguments, causes=(killed("SIGKILL"),), noticed=PROCESS, **changes)


def without_host(name: str, description: str, injector: str, **arguments: Any) -> JobFault:
    """Return a fault after which the job continues without a host that sends no heartbeat."""
    return JobFault(name, "host", description, injector, arguments, causes=(LOST,), noticed=HOST, ranks=3, alone=True)


JOB_FAULTS = (
    signalled("rank_sigkill", "KILL", "a rank is killed with SIGKILL"),
    signalled("rank_sigterm", "TERM", "a rank is terminated with SIGTERM"),
    signalled("rank_sigint", "INT", "a rank is interrupted with SIGINT"),
    signalled("rank_sigsegv", "SEGV", "a rank is killed by a segmentation fault"),
    signalled("rank_sigabrt", "ABRT", "a rank aborts"),
    signalled("rank_sigbus", "BUS", "a rank is killed by a bus error"),
    JobFault(
        "launcher_sigkill",
        "launcher",
        "the launcher of a rank is killed, but not the rank itself",
        "processes.send",
        {"signal": "KILL", "part": "launcher"},
        causes=(killed("SIGKILL"),),
        noticed=PROCESS,
        # The ranks compute steps until the fault is detected.
        options={"environment": {"CHAOS_STEPS": "150"}},
    ),
    kill("two_ranks_sigkill", "rank", "two ranks are killed at the same time", "processes.send", {"signal": "KILL", "count": 2}),
    JobFault(
        "rank_sigstop",
        "rank",
        "a rank is suspended with SIGSTOP, so that the job hangs",
        "processes.send",
        {"signal": "STOP"},
        causes=(SUSPENDED,),
        noticed=HANG,
    ),
    JobFault(
        "rank_sigstop_with_defaults",
        "rank",
        "a rank is suspended with SIGSTOP, in a job with the defaults of the role",
        "processes.send",
        {"signal": "STOP"},
        causes=(SUSPENDED,),
        noticed=SLOW_HANG,
        role_defaults=True,
    ),
    JobFault(
        "two_faults_in_one_recovery",
        "rank",
        "a rank is killed, and a different rank is killed when the next attempt begins",
        "processes.kill_in_recovery",
        causes=(killed("SIGKILL"),) * 2,
        noticed=PROCESS,
    ),
    JobFault(
        "a_fault_in_each_attempt",
        "rank",
        "a rank is killed in each of five attempts, although training_job_restarts is 3",
        "processes.kill_in_each_attempt",
        {"steps": (12,) * 5},
        causes=(killed("SIGKILL"),) * 5,
        noticed=PROCESS,
        role_defaults=True,
        options={"environment": {"CHAOS_STEPS": "300"}},
    ),
    JobFault(
        "out_of_memory",
        "rank",
        "a rank needs more memory than its cgroup allows",
        "processes.limit_memory",
        causes=(rf"^rank {{rank}} on {{host}} .*({OUT_OF_MEMORY})",),
        noticed=PROCESS,
        delayed=True,
        options={"environment": {"CHAOS_BUG": "grow 30 once"}},
    ),
    JobFault(
        "supervisor_sigkill",
        "supervisor",
        "a supervisor is killed, so systemd stops its unit",
        "processes.send",
        {"signal": "KILL", "part": "supervisor"},
        # With cgroup v1, systemd in a container stops a unit only after a timeout.
        causes=(r"^rank {rank} on {host} (was killed by the system|has sent no heartbeat)",),
        noticed=PROCESS,
        ranks=3,
    ),
    JobFault(
        "supervisor_sigstop",
        "supervisor",
        "a supervisor is suspended until the job continues without the supervisor's host",
        "processes.suspend_supervisor",
        causes=(LOST,),
        noticed=HOST,
        ranks=3,
    ),
    without_host("host_lost", "a host disappears", "machines.lose"),
    without_host("first_host_lost", "the first host, which makes the decisions about restarts, disappears", "machines.lose", number=0),
    without_host("host_suspended", "a host is suspended, and resumes after the job has continued without it", "machines.suspend"),
    without_host(
        "first_host_suspended",
        "the first host is suspended, and resumes after the job has continued without it",
        "machines.suspend",
        number=0,
    ),
    JobFault(
        "host_shut_down",
        "host",
        "a host shuts down",
        "machines.shut_down",
        causes=(r"^rank {rank} on {host} .*shut",),
        noticed=PROCESS,
        ranks=3,
        alone=True,
    ),
    JobFault(
        "spot_interruption",
        "host",
        "AWS announces that it interrupts the Spot Instance of a host in two minutes",
        "machines.interrupt",
        causes=(r"^rank {rank} on {host} .*spot interruption",),
        noticed=PROCESS,
        ranks=3,
        alone=True,
    ),
    with_spare("host_lost_with_spare", "host", "a host of a job with a spare disappears", "machines.lose", causes=(LOST,), noticed=HOST),
    with_spare(
        "first_host_lost_with_spare",
        "host",
        "the first host of a job with a spare disappears",
        "machines.lose",
        arguments={"number": 0},
        causes=(LOST,),
        noticed=HOST,
    ),
    with_spare(
        "host_suspected_with_spare",
        "rank",
        "the rank on a host of a job with a spare is killed in two attempts, with no new checkpoint in between",
        "processes.kill_in_each_attempt",
        arguments={"steps": (12, 1), "same_host": True},
        causes=(killed("SIGKILL"),) * 2,
        noticed=PROCESS,
        options={"environment": {"CHAOS_STEPS": "30", "CHAOS_STEP_SECONDS": "0.5"}},
        alone=False,
    ),
    with_spare(
        "spare_lost",
        "host",
        "the spare of a job disappears, and a rank is killed 20 s later",
        "machines.lose_spare",
        arguments={"step": 205},
        causes=(killed("SIGKILL"),),
        noticed=PROCESS,
        replaced=False,
        options={"environment": {"CHAOS_STEPS": "300"}},
    ),
    with_spare(
        "gpu_fails_with_spare",
        "GPU",
        "the kernel reports that a GPU has fallen off the bus (Xid 79), and a rank on a different host is killed",
        "machines.report_xid",
        arguments={"code": 79, "text": "GPU has fallen off the bus.", "is_cause": True},
        causes=(r"^health finding on {host}: GPU 0000:64:00: Xid 79 ",),
        noticed=PROCESS,
    ),
    with_spare(
        "gpu_fails_while_ranks_run",
        "GPU",
        "the kernel reports that a GPU has fallen off the bus (Xid 79), and all ranks continue",
        "machines.report_xid",
        arguments={"code": 79, "text": "GPU has fallen off the bus.", "is_cause": True, "kills": False},
        causes=(r"^health finding on {host}: GPU 0000:64:00: Xid 79 ",),
        noticed=CHECK,
        options={"health_interval": HEALTH_INTERVAL, "environment": {"CHAOS_STEPS": "300"}},
    ),
    with_spare(
        "gpu_needs_reboot",
        "GPU",
        "the kernel reports an NVLink error (Xid 74), and the host reboots itself after it has left the job",
        "machines.reboot",
        arguments={"code": 74, "text": "NVLink: fatal error detected on link 6"},
        causes=(r"^health finding on {host}: GPU 0000:64:00: Xid 74 ",),
        noticed=CHECK,
        options={"health_interval": HEALTH_INTERVAL, "reboot": True, "environment": {"CHAOS_STEPS": "300"}},
    ),
    kill(
        "unknown_xid",
        "GPU",
        "the kernel reports an unknown Xid, and a rank on a different host is killed",
        "machines.report_xid",
        {"code": 4711, "text": "something that no table contains"},
        alone=True,
    ),
    cut("everything", "a host neither sends nor receives packets", (UNREACHABLE,), HANG),
    cut("incoming", "a host receives no packets", (UNREACHABLE,), HANG),
    cut("outgoing", "a host sends no packets", (UNREACHABLE,), HANG),
    cut("reset", "a host resets all connections", (NO_DATA,), PROCESS),
    JobFault(
        "network_interrupted",
        "network",
        "a host neither sends nor receives for 2 s, and TCP retransmits the lost packets",
        "network.cut_for",
        {"kind": "everything", "seconds": 2},
        alone=True,
    ),
    JobFault(
        "controller_unreachable",
        "network",
        "the controller cannot reach a host for 8 s",
        "network.cut_for",
        {"kind": "ssh", "seconds": 8},
        alone=True,
    ),
    JobFault(
        "checkpoint_disk_full",
        "storage",
        "the file system with the checkpoints is full until the job has failed",
        "storage.fill",
        {"place": "/checkpoints"},
        causes=(r"^rank 0 on \S+ .*OSError at workload\.py, line \d+",),
        options=OWN_DISK,
        noticed=PROCESS,
        delayed=True,
        alone=True,
    ),
    JobFault(
        "checkpoint_disk_stays_full",
        "storage",
        "the file system with the checkpoints is full and remains full",
        "storage.fill",
        {"place": "/checkpoints", "stays": True},
        survivable=False,
        causes=(r"^rank 0 on \S+ .*OSError at workload\.py, line \d+",) * 4,
        noticed=PROCESS,
        delayed=True,
        why="training_job_restarts|storage ended attempts",
        options=OWN_DISK,
        alone=True,
        at_most=True,
    ),
    JobFault(
        "shared_storage_full",
        "storage",
        "the shared storage, which also contains the job's records, is full until the job has failed",
        "storage.fill",
        {"place": "/efs"},
        causes=(r"^rank 0 on \S+ .*OSError at workload\.py, line \d+",),
        noticed=PROCESS,
        delayed=True,
        alone=True,
    ),
    JobFault(
        "storage_stalls_shortly", "storage", "all writes to the shared storage hang for 4 s", "storage.stall", {"seconds": 4}, alone=True
    ),
    JobFault(
        "storage_stalls",
        "storage",
        "all writes to the shared storage hang for 30 s, longer than the heartbeat timeout",
        "storage.stall",
        {"seconds": 30},
        causes=(HANGS,),
        noticed=STALL,
        alone=True,
        at_most=True,
    ),
    JobFault(
        "checkpoints_read_only",
        "storage",
        "the job has no permission to write checkpoints until the hosts have detected the fault",
        "storage.forbid",
        causes=(r"^rank 0 on \S+ ended with exit status 1 \(PermissionError at workload\.py, line \d+\b",),
        noticed=PROCESS,
        delayed=True,
    ),
    damaged("garbage", "JSONDecodeError", "overwritten with garbage"),
    damaged("truncated", "JSONDecodeError", "truncated"),
    damaged("empty", "JSONDecodeError", "empty"),
    damaged("poisoned", "FloatingPointError", "complete, but contains NaN in place of numbers"),
    damaged("directory", "IsADirectoryError", "replaced with a directory"),
    kill(
        "checkpoint_unfinished",
        "checkpoint",
        "a newer checkpoint is incomplete, and rank 0 is killed",
        "checkpoints.damage",
        {"kind": "unfinished"},
    ),
    JobFault(
        "all_checkpoints_garbage",
        "checkpoint",
        "all checkpoints are overwritten with garbage, and rank 0 is killed",
        "checkpoints.damage",
        {"kind": "garbage", "everything": True},
        survivable=False,
        causes=(killed("SIGKILL"), *(r"^rank \d on \S+ ended with exit status 1 \(JSONDecodeError at workload\.py, line \d+",) * 2),
        noticed=PROCESS,
        why=r"JSONDecodeError at workload\.py, line \d+.*older checkpoint",
    ),
    bug("value", "ValueError", "ValueError"),
    bug("key", "KeyError", "KeyError"),
    bug("zero", "ZeroDivisionError", "ZeroDivisionError"),
    bug("memory", "MemoryError", "MemoryError"),
    bug("name", "NameError", "NameError", 1, "The same error would end each attempt"),
    bug("import", "ModuleNotFoundError", "ModuleNotFoundError", 1, "The same error would end each attempt"),
    JobFault(
        "bug_exit",
        "script",
        "the script ends with exit status 7 at the same step in every attempt",
        "controller.none",
        survivable=False,
        causes=(r"^rank 1 on \S+ ended with exit status 7",) * 3,
        why="Exit status 7 occurred again .*older checkpoint",
        options={"environment": {"CHAOS_BUG": "exit 37"}},
        noticed=PROCESS,
        role_defaults=True,
    ),
    JobFault(
        "bug_abort",
        "script",
        "rank 1 aborts at the same step in every attempt; after two attempts, the job continues without the host",
        "controller.none",
        survivable=False,
        causes=(rf"^rank 1 on \S+ .*SIGABRT at workload\.py, line {line_of('fail')}",) * 3,
        why=rf"Signal SIGABRT at workload\.py, line {line_of('fail')} occurred again .*older checkpoint",
        options={"environment": {"CHAOS_BUG": "abort 37"}},
        noticed=PROCESS,
    ),
    JobFault(
        "bug_hang",
        "script",
        "rank 1 waits indefinitely at the same step in every attempt",
        "controller.none",
        survivable=False,
        causes=(rf"^rank 1 on \S+ made no progress for .*it is at workload\.py, line {line_of('stuck')}\b",) * 3,
        why=rf"hang at workload\.py, line {line_of('stuck')} ended 3 attempts in a row",
        options={"environment": {"CHAOS_BUG": "stuck 37"}},
        noticed=HANG,
    ),
    JobFault(
        "error_once",
        "script",
        "ValueError in the first attempt only",
        "controller.none",
        causes=(at_line("ValueError", "value"),),
        noticed=PROCESS,
        role_defaults=True,
        options={"environment": {"CHAOS_BUG": "value 37 once"}},
    ),
    JobFault(
        "stop_exit_code",
        "script",
        "the script ends with an exit status that is in training_job_stop_exit_codes",
        "controller.none",
        survivable=False,
        causes=(r"^rank 1 on \S+ ended with exit status 7",),
        noticed=PROCESS,
        role_defaults=True,
        why="training_job_stop_exit_codes",
        options={"environment": {"CHAOS_BUG": "exit 37"}, "stop_exit_codes": [7]},
    ),
    JobFault(
        "controller_sigkill", "controller", "the play that watches the job is killed", "controller.end", {"number": "SIGKILL"}, watched=True
    ),
    JobFault(
        "controller_sigterm",
        "controller",
        "the play that watches the job is terminated with SIGTERM",
        "controller.end",
        {"number": "SIGTERM"},
        watched=True,
    ),
    kill(
        "controller_and_rank_sigkill",
        "controller",
        "the play that watches the job is killed, and then a rank is killed",
        "controller.end",
        {"number": "SIGKILL", "then": "KILL"},
        watched=True,
    ),
)


def health(
    name: str, where: str, description: str, injector: str, check: str, severity: str, message: str, /, **arguments: Any
) -> HealthFault:
    return HealthFault(name, where, description, f"health.{injector}", arguments, {check: (severity, message)})


def xid(code: int, severity: str, description: str, text: str = "", **arguments: Any) -> HealthFault:
    """Return a fault that is a GPU error in the kernel log. The severities come from NVIDIA's catalog, not from the collection's code."""
    suffix = f"_{arguments.pop('suffix')}" if "suffix" in arguments else ""
    return health(
        f"xid_{code}{suffix}",
        "kernel log",
        f"Xid {code}: {description}",
        "xid",
        "xid",
        severity,
        rf"GPU 0000:64:00: Xid {code}\b",
        code=code,
        text=text or description,
        **arguments,
    )


def gpu(name: str, description: str, check: str, severity: str, message: str, **arguments: Any) -> HealthFault:
    return health(f"gpu_{name}", "GPU", description, "nvidia", check, severity, message, **arguments)


def dcgm(name: str, description: str, severity: str, message: str, injector: str = "dcgm", **arguments: Any) -> HealthFault:
    """Return a fault that the deep checks find."""
    found = health(f"dcgm_{name}", "GPU", description, injector, "dcgm", severity, message, **arguments)
    return replace(found, parameters={"context": "deep", "timeout": 5})


def changed(name: str, description: str, severity: str, message: str, before: str, after: str) -> HealthFault:
    return gpu(name, description, "gpu_errors", severity, rf"GPU 00000000:ca:00\.0: .*{message}", changes=[(before, after)])


def shell(name: str, where: str, description: str, check: str, severity: str, message: str, command: str) -> HealthFault:
    """Return a fault that a command of the root user causes."""
    return health(name, where, description, "shell", check, severity, message, command=command)


def driver_xid(name: str, description: str, severity: str, code: int, text: str) -> HealthFault:
    return health(name, "kernel log", description, "xid_of_driver", "xid", severity, rf"Xid {code}\b", code=code, text=text)


def sxid(name: str, description: str, severity: str, message: str, code: int, *texts: str) -> HealthFault:
    return health(name, "kernel log", description, "sxid", "xid", severity, message, code=code, texts=texts)


RUNNING = {"pid": "1", "name": "systemd", "suffix": "running"}
ENDED = {"pid": "999999", "name": "python3", "suffix": "ended"}

HEALTH_FAULTS = (
    xid(8, "restart", "a GPU stopped processing, and its process is running", **RUNNING),
    xid(13, "restart", "graphics engine exception in a process that is running", **RUNNING),
    xid(13, "monitor", "graphics engine exception in a process that has ended", **ENDED),
    xid(31, "restart", "GPU memory page fault in a process that is running", **RUNNING),
    xid(31, "monitor", "GPU memory page fault in a process that has ended", **ENDED),
    xid(32, "restart", "invalid command stream in a process that is running", **RUNNING),
    xid(39, "restart", "copy engine exception in a process that is running", **RUNNING),
    xid(43, "monitor", "an application was terminated after its own error"),
    xid(45, "monitor", "an application was terminated"),
    xid(46, "reboot", "a GPU stopped processing"),
    xid(48, "reboot", "double-bit ECC error"),
    xid(62, "reboot", "micro-controller halt"),
    xid(63, "monitor", "a memory row was remapped"),
    xid(64, "replace", "a memory row could not be remapped"),
    xid(68, "restart", "video engine exception in a process that is running", **RUNNING),
    xid(69, "restart", "graphics engine class error in a process that is running", **RUNNING),
    xid(74, "reboot", "NVLink error"),
    xid(79, "replace", "GPU has fallen off the bus"),
    xid(92, "monitor", "many single-bit ECC errors"),
    xid(94, "restart", "contained memory error in a process that is running", **RUNNING),
    xid(94, "monitor", "contained memory error in a process that has ended", **ENDED),
    xid(95, "reboot", "uncontained memory error"),
    xid(109, "reboot", "context switch timeout"),
    xid(110, "reboot", "security fault"),
    xid(119, "reboot", "GSP timeout"),
    xid(120, "reboot", "GSP error"),
    xid(136, "reboot", "NVLink training failed"),
    xid(137, "monitor", "invalid access over NVLink"),
    xid(140, "reboot", "unrecovered ECC error"),
    xid(143, "reboot", "GPU initialization error"),
    xid(156, "reboot", "a GPU resource was retired"),
    xid(4711, "monitor", "a code that no catalog contains"),
    driver_xid(
        "xid_145_fatal",
        "Xid 145: a fatal NVLink error on a Blackwell GPU",
        "reboot",
        145,
        "RLW_REMAP Fatal XC0 i0 Link 08 (0x00000004 0x80000000 0x00000000 0x00000000 0x00000000 0x00000000)",
    ),
    driver_xid(
        "xid_149_nonfatal",
        "Xid 149: a nonfatal NVLink error on a Blackwell GPU",
        "monitor",
        149,
        "NETIR Nonfatal XC1 i0 Link 05 (0x00000004 0x80000000 0x00000000 0x00000000 0x00000000 0x00000000)",
    ),
    driver_xid(
        "xid_154_reset",
        "Xid 154: the driver recommends resetting a GPU",
        "reboot",
        154,
        "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
    ),
    driver_xid(
        "xid_154_none",
        "Xid 154: the driver no longer recommends an action",
        "monitor",
        154,
        "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
    ),
    sxid(
        "sxid_fatal",
        "SXid 20034: a fatal NVSwitch error",
        "reboot",
        r"NVSwitch 0000:c4:00\.0: SXid 20034\b",
        20034,
        "Fatal, Link 30 LTSSM Fault Up",
    ),
    sxid(
        "sxid_nonfatal_after_fatal",
        "SXid 20034: a fatal NVSwitch error, and then a nonfatal error with the same code",
        "reboot",
        r"NVSwitch 0000:c4:00\.0: SXid 20034, 2 times since boot\. Fatal",
        20034,
        "Fatal, Link 30 LTSSM Fault Up",
        "Non-fatal, Link 30 LTSSM Fault Up",
    ),
    health("kernel_log_unreadable", "kernel log", "journalctl fails", "no_log", "xid", "monitor", "the kernel log could not be read"),
    sxid(
        "sxid_nonfatal",
        "SXid 22013: a nonfatal NVSwitch error",
        "monitor",
        r"NVSwitch 0000:c4:00\.0: SXid 22013\b",
        22013,
        "Non-fatal, Link 30 AN1 Heartbeat Timeout Error",
    ),
    gpu(
        "missing",
        "nvidia-smi lists one GPU fewer than the instance type has",
        "gpu_count",
        "replace",
        "lists 7, but instance type",
        count=7,
    ),
    health("gpu_lost", "GPU", "a GPU has no connection to the PCI bus", "lost", "gpu_count", "replace", "GPU is lost"),
    health(
        "driver_fails", "GPU", "nvidia-smi cannot communicate with the driver", "no_driver", "gpu_count", "reboot", "has failed because"
    ),
    HealthFault(
        "driver_hangs",
        "GPU",
        "nvidia-smi hangs although the persistence daemon runs",
        "health.nvidia",
        {"pause": 3600},
        {
            "gpu_count": ("reboot", "nvidia-smi: no answer within 30 s"),
            "gpu_links": ("monitor", "nvidia-smi nvlink: no answer within 30 s"),
        },
    ),
    health("driver_missing", "GPU", "nvidia-smi is no longer installed", "no_program", "gpu_count", "restart", "is not installed"),
    health(
        "gpu_not_configured",
        "GPU",
        "jobs use fewer GPUs than the host has",
        "configured",
        "gpu_count",
        "monitor",
        "use only the 7",
        count=7,
    ),
    health(
        "gpu_in_use", "GPU", "a process that belongs to no job uses a GPU", "left_process", "gpu_processes", "monitor", "process 1: systemd"
    ),
    changed("ecc_dram", "uncorrectable memory errors", "reboot", "2 uncorrectable", "<dram_uncorrectable>0", "<dram_uncorrectable>2"),
    changed(
        "ecc_sram", "uncorrectable SRAM errors", "reboot", "1 uncorrectable", "<sram_uncorrectable_parity>0", "<sram_uncorrectable_parity>1"
    ),
    changed("ecc_threshold", "too many SRAM errors", "replace", "threshold", "<sram_threshold_exceeded>No", "<sram_threshold_exceeded>Yes"),
    changed(
        "remap_pending",
        "a memory row will be remapped at the next reset",
        "reboot",
        "until the GPU is reset",
        "<remapped_row_pending>No",
        "<remapped_row_pending>Yes",
    ),
    changed(
        "remap_failed",
        "a memory row could not be remapped",
        "replace",
        "could not be remapped",
        "<remapped_row_failure>No",
        "<remapped_row_failure>Yes",
    ),
    changed("reset_required", "a GPU needs a reset", "reboot", "needs a reset", "<reset_required>No", "<reset_required>Yes"),
    changed("recovery_reboot", "the driver recommends a reboot", "reboot", "'Reboot'", "action>None<", "action>Reboot<"),
    changed("recovery_drain", "the driver recommends draining a GPU", "monitor", "'Drain P2P'", "action>None<", "action>Drain P2P<"),
    changed(
        "fabric", "a GPU is not connected to the NVLink fabric", "reboot", "fabric", "<status>Success", "<status>Insufficient Resources"
    ),
    gpu(
        "nvlink",
        "a GPU has fewer active NVLinks than the other GPUs",
        "gpu_links",
        "reboot",
        "GPU 3: 17 NVLinks",
        links=[18, 18, 18, 17, 18, 18, 18, 18],
    ),
    gpu(
        "nvlink_unreadable",
        "nvidia-smi nvlink fails",
        "gpu_links",
        "monitor",
        "NVLinks could not be read: Unknown Error",
        links_failure="Unknown Error",
    ),
    dcgm("memory", "a test of DCGM 4 finds faulty memory", "replace", "GPU 3: .*12 faulty memory elements", fault="FAULTY_MEMORY"),
    dcgm(
        "row_remap",
        "a test of DCGM 3 finds a row that will be remapped",
        "reboot",
        "GPU 5: .*remappings are pending",
        version=3,
        fault="PENDING_REMAP",
    ),
    dcgm("bandwidth", "a test of DCGM 3 measures a low bandwidth", "restart", "GPU 0: .*3.41", version=3, fault="LOW_BANDWIDTH"),
    dcgm("no_daemon", "the DCGM daemon is not running", "monitor", "the tests did not run: Error: unable to establish", "no_host_engine"),
    dcgm("hangs", "dcgmi hangs", "monitor", "no result within 5 s", pause=3600),
    shell(
        "efa_missing",
        "EFA",
        "the operating system detects one EFA adapter fewer than the instance has",
        "efa",
        "replace",
        "has 3 adapters, but 4",
        "rmdir /sys/class/infiniband/rdmap0s0",
    ),
    shell("efa_no_driver", "EFA", "the EFA driver is not loaded", "efa", "restart", "no EFA device", "rmdir /sys/class/infiniband/*"),
    health(
        "efa_no_provider",
        "EFA",
        "libfabric finds no provider",
        "fi_info",
        "efa",
        "restart",
        "No data available",
        error="fi_getinfo: -61 (No data available)",
    ),
    shell("disk_full", "disk", "a file system is full", "disks", "restart", "/mnt/disk: 0 of 4 MiB", "fallocate -l 4M /mnt/disk/full"),
    shell(
        "disk_no_inodes",
        "disk",
        "a file system has no free inodes",
        "disks",
        "restart",
        "/mnt/disk: .* inodes are free",
        "cd /mnt/disk && seq 995 | xargs touch",
    ),
    shell("root_read_only", "disk", "the root file system is read-only", "root", "reboot", "read-only", "mount -o remount,ro,bind /"),
    health("memory_low", "memory", "almost no memory is available", "meminfo", "memory", "monitor", "MiB are available", available=90000),
    shell(
        "storage_not_mounted",
        "storage",
        "the shared storage is not mounted",
        "storage",
        "restart",
        "nothing is mounted",
        "umount /mnt/storage",
    ),
    shell(
        "storage_full",
        "storage",
        "the shared storage is full",
        "storage",
        "restart",
        "/mnt/storage: No space left",
        "fallocate -l 4M /mnt/storage/full",
    ),
    shell(
        "storage_read_only",
        "storage",
        "the shared storage is read-only",
        "storage",
        "restart",
        "/mnt/storage: Read-only file system",
        "mount -o remount,ro,bind /mnt/storage",
    ),
    shell(
        "storage_forbidden",
        "storage",
        "the login user cannot write to the shared storage",
        "storage",
        "restart",
        "/mnt/storage: Permission denied",
        "chmod 700 /mnt/storage",
    ),
    health(
        "storage_stalled",
        "storage",
        "the process that serves the storage is suspended, so the storage hangs",
        "storage",
        "storage",
        "restart",
        "/mnt/storage: no answer within 5 s",
        signal="STOP",
    ),
    health(
        "storage_stale",
        "storage",
        "the process that serves the storage has died, and the mount is stale",
        "storage",
        "storage",
        "restart",
        "/mnt/storage: Transport endpoint is not connected",
        signal="KILL",
    ),
    health("clock_ahead", "clock", "the clock is ten minutes ahead", "clock", "clock", "restart", r"clock is \d+ s ahead", seconds=600),
    health(
        "clock_behind", "clock", "the clock is half a minute behind", "clock", "clock", "monitor", r"clock is \d+ s behind", seconds=-30
    ),
    shell(
        "name_wrong",
        "host names",
        "the name of a host resolves to the address of a different host",
        "names",
        "restart",
        "resolves to 192.0.2.99",
        "sed '/deeplearning-worker1/s/^[0-9.]*/192.0.2.99/' /etc/hosts >/run/hosts && cp /run/hosts /etc/hosts",
    ),
    shell(
        "metadata_missing",
        "host names",
        "the worker metadata is missing",
        "names",
        "restart",
        "metadata.json: No such file",
        "rm /opt/deeplearning/metadata.json",
    ),
    shell(
        "metadata_damaged",
        "host names",
        "the worker metadata is damaged",
        "names",
        "restart",
        "metadata.json",
        "echo nonsense >/opt/deeplearning/metadata.json",
    ),
    health(
        "certificate_expired",
        "certificate",
        "the SSH certificate has expired",
        "certificate",
        "certificates",
        "restart",
        "has expired",
        validity="-9d:-1d",
    ),
    health(
        "certificate_expires",
        "certificate",
        "the SSH certificate expires in an hour",
        "certificate",
        "certificates",
        "monitor",
        "less than a day",
        validity="-1d:+1h",
    ),
    shell(
        "certificate_damaged",
        "certificate",
        "the SSH certificate is damaged",
        "certificates",
        "restart",
        "ssh_host_ed25519_key-cert.pub",
        "mkdir -p /etc/ssh/deeplearning && echo nonsense >/etc/ssh/deeplearning/ssh_host_ed25519_key-cert.pub",
    ),
)
