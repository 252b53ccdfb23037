# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The types of a job's documents: its files on the shared storage, and the module return values that are derived from them.

The schemas in records.py check the files. Times are in seconds since 1970. Base classes contain the required keys, because hosts may
use Python 3.8, which has no `NotRequired`.
"""

from __future__ import annotations

from typing import Any, TypedDict


class Outcome(TypedDict, total=False):
    """How a process ended: its exit status or the signal that killed it, and a reason if neither explains why it ended."""

    exit_code: int
    signal: str
    reason: str


class _Record(TypedDict):
    name: str
    rank: int
    ranks: list[int]
    part: str
    host: str
    processes: int
    state: str
    started: float
    heartbeat: float


class Record(_Record, Outcome, total=False):
    """The record of one process: status/<name>.json. `processes` is the number of processes of the job."""

    tagged: bool
    instance: str
    pid: int
    finished: float


class Verdict(TypedDict):
    """How the job ended, and the process that made it fail: status/over."""

    state: str
    failure: Record | None


class Code(TypedDict, total=False):
    """The origin of a job's code. The dictionary is empty if the code does not come from git."""

    commit: str
    changed: bool
    repository: str
    version: str


class _Description(TypedDict):
    launcher: str
    created: float


class Description(_Description, total=False):
    """What a job runs: job.json. `resume` is the name of the job whose checkpoints it resumes from."""

    script: str
    command: list[str]
    arguments: list[str]
    launcher_options: dict[str, Any]
    python: str
    time_limit: float
    resume: str
    checkpoint_directory: str
    code: Code


class Endpoint(TypedDict):
    """The address and port at which a process listens for commands from other hosts."""

    address: str
    port: int


class JobSpec(TypedDict):
    """The part of the spec that is the same for the supervisors of all processes of a job.

    `directory` is the job's directory, and `programs` is the directory that contains its Python. `lead` is the name of the first
    process. If `own_profile` is true, supervisors read the user's own shell profile. `stop_timeout` is the time between SIGTERM and
    SIGKILL. A `time_limit` of 0 means no limit.
    """

    job: str
    directory: str
    cwd: str
    programs: str
    processes: int
    lead: str
    daemons: dict[str, Endpoint]
    key: str
    hostfile: str
    own_profile: bool
    time_limit: int
    stop_timeout: int
    heartbeat_timeout: int


class Spec(JobSpec):
    """The spec for the supervisor of one process: spec.json in the process's directory on its host.

    A process without `argv` runs the commands that other hosts send. `instance` is the id of the host's instance. It is empty outside AWS.
    """

    name: str
    rank: int
    ranks: list[int]
    tagged: bool
    part: str
    host: str
    argv: list[str]
    environment: dict[str, str]
    gpus: list[int]
    instance: str


class StartedProcess(TypedDict):
    """What root stores about a process that it has started on this host."""

    job: str
    gpus: list[int]
    cwd: str


class ProcessStatus(Record):
    """The current status of a process: its record, the path of its log, and the tag at the beginning of a rank's lines in the log."""

    log: str
    tag: str


class LastWords(TypedDict):
    """How a process ended, in words, and the last lines of its log."""

    how: str
    log: str
    lines: list[str]


class Failure(ProcessStatus, LastWords, total=False):
    """The process that made the job fail. If its host is gone, `gone` is a sentence about it. Only the controller knows that."""

    gone: str


class Log(TypedDict):
    """New lines of a process's log. `left_out` is the number of preceding bytes that are skipped because an answer has a size limit."""

    name: str
    path: str
    lines: list[str]
    left_out: int


class Logs(TypedDict):
    """New lines of the logs, and the offsets (bytes) from which to read next."""

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
    process_count: int
    processes: list[ProcessStatus]


class JobStatus(_JobStatus, total=False):
    """The current status of a job, as the module training_job_info returns it."""

    checkpoint_directory: str
    resume: str | None
    problems: list[str]
    failure: Failure
    progress: list[dict[str, Any]]
    progress_offset: int
    logs: list[Log]
    log_offsets: dict[str, int]
    lines: list[str]
