# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The types of what modules return about a job, which they derive from the job's documents. Times are in seconds since 1970."""

from __future__ import annotations

from typing import Any, TypedDict

from .documents import Code, Explanation, Export, Outcome, ProcessRecord, Queued

# The command that shows jobs, in messages of hosts. On the controller, it gets the options of the playbook run.
STATUS_COMMAND = "ansible-playbook deeplearning.cluster.status"


class ProcessStatus(ProcessRecord):
    """The current status of a process: its record, the path of its log, and the prefix of each rank's lines in the log."""

    log: str
    tag: str


class CulpritStatus(Outcome):
    """How the rank ended that failed first among the ranks of a process, according to the process's log."""

    rank: str


class _Failure(ProcessStatus):
    lines: list[str]


class Failure(_Failure, total=False):
    """The process that caused the job to fail, the last lines of its log, and the rank that failed first (`culprit`).

    If the process's host has left the cluster or is unreachable, the controller sets `gone` to a sentence that states the reason.
    """

    culprit: CulpritStatus
    gone: str


class _AttemptStatus(TypedDict):
    attempt: int
    state: str
    started: float
    hosts: int
    logs: str


class AttemptStatus(_AttemptStatus, Explanation, total=False):
    """One attempt of a job: when it ran, on how many hosts, the process that ended it (`failure`), and what followed (see `Following`)."""

    ended: float
    failure: ProcessStatus
    action: str
    rule: str
    set_aside: str
    damaged: list[str]


class HostGoodput(TypedDict):
    """What one host of a job spent its time on: the seconds in each bucket (see goodput.py)."""

    host: str
    buckets: dict[str, float]


class Goodput(TypedDict):
    """What the hosts of a job spent their time on.

    `seconds` is the time from the creation of the job to its end, or until now. `buckets` contains node-seconds: their sum is `seconds`
    times the number of `nodes`. `ratio` is the share of the bucket `training`.
    """

    nodes: int
    seconds: float
    ratio: float
    buckets: dict[str, float]
    hosts: list[HostGoodput]


class StepTime(TypedDict):
    """The time in seconds that a host needs for a step, and whether this host is slower than the other hosts.

    `name` is the name of the host or, if the rank's host is unknown, the rank, such as `rank 3`.
    """

    name: str
    seconds: float
    slow: bool


class Log(TypedDict):
    """New lines of a process's log. Because results have a size limit, `left_out` bytes before these lines are omitted."""

    name: str
    path: str
    lines: list[str]
    left_out: int


class Logs(TypedDict):
    """New lines of the logs, and the byte offsets from which to read next."""

    logs: list[Log]
    log_offsets: dict[str, int]


class _JobStatus(TypedDict):
    name: str
    launcher: str
    created: float
    script: str | None
    command: list[str]
    code: Code
    metrics: dict[str, Any]
    directory: str
    state: str
    over: bool
    process_count: int
    processes: list[ProcessStatus]
    hosts: int
    spares: int
    began: float
    ended: float
    read: float
    attempt: int
    attempts: list[AttemptStatus]


class JobStatus(_JobStatus, total=False):
    """The current status of a job, as returned by the `training_job_info` module."""

    quiet: float
    checkpoint_directory: str
    has_checkpoint: bool
    resume: str | None
    printed: bool
    queue: Queued
    export: Export
    problems: list[str]
    failure: Failure
    goodput: Goodput
    step_times: list[StepTime]
    progress: list[dict[str, Any]]
    progress_offset: int
    logs: list[Log]
    log_offsets: dict[str, int]
