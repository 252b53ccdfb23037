# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The types of a job's documents, which are files on the shared storage.

The schemas in document_schemas.py define the valid contents of the files. Times are in seconds since 1970. Base classes contain the
required keys, because hosts may use Python 3.8, which has no `NotRequired`.
"""

from __future__ import annotations

from typing import Any, TypedDict


class Outcome(TypedDict, total=False):
    """How a process ended: its exit status or the signal that killed it."""

    exit_code: int
    signal: str


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


class _CostRecord(TypedDict):
    limit: float
    spent: float
    currency: str
    seconds: float


class CostRecord(_CostRecord, total=False):
    """What a job may cost (`limit`), and what it had cost after `seconds`, when it reached this limit.

    `earlier` is the part of this cost that earlier attempts and the jobs that it continues had caused.
    """

    earlier: float


class _Stuck(TypedDict):
    rank: int
    where: str
    waits: bool
    suspended: bool


class Stuck(_Stuck, total=False):
    """The place at which a rank of a hanging job is stuck.

    `where` is a line in the script or a kernel function, or empty if the place is unknown. `waits` is true if the rank waits in a
    communication library, and `suspended` is true if a signal has stopped the rank. `silent_peers` is the percentage of the hosts connected
    to the rank that do not acknowledge its data. If all hosts do, `silent_peers` is left out. `error` is the exception at the end of the
    rank's log, if there is one. A rank that has failed can wait for the other ranks before it ends.
    """

    silent_peers: int
    error: str


class _Hang(TypedDict):
    seconds: float


class Hang(_Hang, total=False):
    """For how many `seconds` a job has hung.

    If it counts as hanging because it has reported no new step, `median` is its median step time. `lock` is a lock file that no process has
    open. In a cause, `stuck` is the rank that is shown. Of the `others` ranks, `there` are at the place `most`, at which most of them are.
    """

    median: float
    lock: str
    stuck: Stuck
    others: int
    there: int
    most: str


class _CauseRecord(TypedDict):
    kind: str


class CauseRecord(_CauseRecord, total=False):
    """Why a process failed, as `failure_causes.Cause` describes it. `message` is the message of the script's exception, or of an abort.

    The elements of `storage` have the fields of `storage_problems.StorageProblem`. `limit` is the time limit in seconds that the job has
    reached. If this came from the maximum cost, `cost` is set. AWS terminates the host at `deadline`. If a process could not listen on
    `port`, `listener` is the process that does. `hang` is set for the process that is shown as the cause of a hang.
    """

    what: str
    exit_code: int
    name: str
    message: str
    storage: list[dict[str, Any]]
    alone: bool
    limit: float
    cost: CostRecord
    deadline: float
    port: int
    listener: str
    hang: Hang


class _Unfit(TypedDict):
    why: str
    what: str


class Unfit(_Unfit, total=False):
    """Why a host must not run the next attempt: `why` is `reboot`, `replace` or `excluded`, and `what` describes the reason.

    `reboots` is true if the host reboots as soon as its supervisors have ended, and then starts them again.
    """

    reboots: bool


class ProcessRecord(_Record, Outcome, total=False):
    """The record of one process: status/<name>.json.

    `processes` is the number of processes in the attempt, excluding standby processes.

    `restartable` is true if the job may be restarted after a failure. `available` is true if the attempt has ended, the process has left no
    other processes behind, and the supervisor can start another attempt. `available` is false if the supervisor has ended or is about to
    end. `unfit` says why the host of an available process must not run the next attempt, unless `rebooted` is true: the host has rebooted
    since, and its health checks have passed.

    `stopped_for` is the name of the process whose failure has ended the attempt, in the record of a process that was stopped as a result.
    `oom_kills` is the number of processes of a process that has ended by itself which the kernel's OOM killer has killed, if it is known.

    If the job detects hangs, `active` is the time at which the process last wrote output. If the job hangs, `hang` in the record of the
    lead says how long the job has hung, and `stuck` says where the ranks of the process are stuck. `suspects_hang` in the record of the
    lead is true if the next step is overdue, so that all supervisors poll at short intervals.

    `still_connected` is the name of a host to which this process still had open connections after all processes there had ended. It is only
    recorded if the attempt ended because connections between processes were closed. `raised` is the exception of a rank that did not end,
    and is only recorded if the attempt ended because other processes waited too long.
    """

    tagged: bool
    instance: str
    pid: int
    finished: float
    cause: CauseRecord
    stopped_for: str
    oom_kills: int
    restartable: bool
    available: bool
    unfit: Unfit
    rebooted: bool
    active: float
    suspects_hang: bool
    hang: Hang
    stuck: list[Stuck]
    still_connected: str
    raised: CauseRecord


class _Verdict(TypedDict):
    state: str
    failure: ProcessRecord | None


class Verdict(_Verdict, total=False):
    """The contents of status/over: how an attempt ended, and the process that caused its failure.

    If `restartable` is true, the job is not over: the supervisors decide whether to restart the job.
    """

    restartable: bool


class Checkpoint(TypedDict):
    """A complete checkpoint: its name or path, which is the common part of those of its files, and the time of its last change."""

    name: str
    changed: float


class Explanation(TypedDict, total=False):
    """What explains a decision: the `cause` of the failure, the hosts that cannot be used (`missing`), those of them that are `excluded`
    from jobs, and those that take the place of others (`replacements`).

    `restarts` and `min_hosts` are options of the job. `reboots` says whether the host of the failure reboots itself, and `refusal` why the
    launcher cannot run the job on the remaining hosts. If `without_checkpoint` is true, no complete checkpoint is left.
    """

    cause: CauseRecord
    missing: list[str]
    excluded: list[str]
    replacements: list[str]
    restarts: int
    min_hosts: int
    reboots: bool
    refusal: str
    without_checkpoint: bool


class _Following(TypedDict):
    action: str
    rule: str
    decided: float


class Following(_Following, Explanation, total=False):
    """The contents of status/next: what follows an attempt, and the rule that determined it. See `recovery.Decision`.

    The attempt began at `started` and ran on `ran_on` hosts. `failure` is the process that ended the attempt, and `progress` is true if the
    attempt completed a checkpoint. The next attempt uses `hosts`, after the checkpoint `set_aside` and those in `damaged` were renamed.
    Among these hosts, those in `standby` wait, and those in `replacements` have waited until now.
    """

    started: float
    ran_on: int
    failure: ProcessRecord
    progress: bool
    hosts: list[str]
    set_aside: Checkpoint
    damaged: list[Checkpoint]
    standby: list[str]


class _Export(TypedDict):
    destination: str
    state: str
    began: float
    heartbeat: float


class Export(_Export, total=False):
    """The contents of status/export: the latest pass of a job's export to S3.

    A pass uploads the files that differ from those at the destination.

    `state` is `running` during a pass, `waiting` between two passes, and otherwise says how the last pass ended. `files` and `size` (in
    bytes) refer to all exported files. `uploaded` and `uploaded_size` refer to the files that the pass has uploaded. `changing` is the
    number of files that changed while they were uploaded. `omitted` contains the keys of the first entries that are left out, and
    `omitted_count` is the number of all. `error` says why the pass failed.
    """

    finished: float
    files: int
    size: int
    uploaded: int
    uploaded_size: int
    changing: int
    omitted: list[str]
    omitted_count: int
    error: str


class _Queued(TypedDict):
    queue: str
    id: str
    submitted: float


class Queued(_Queued, total=False):
    """The contents of status/queue: the queue to which the job was submitted, the ID of its entry, and the time of the submission.

    If the job did not start on the allocated hosts, `failure` states the reason. The other keys are not in the file: `reason` says why the
    job waits, `before` is the number of waiting jobs with a higher priority, and `problem` says why the queue could not be queried. `held`
    says whether root keeps the job's parameters on this host, which a job cannot change.
    """

    failure: str
    reason: str
    before: int
    problem: str
    held: bool


class Code(TypedDict, total=False):
    """The origin of a job's code. The dictionary is empty if the code does not come from git."""

    commit: str
    changed: bool
    repository: str
    version: str


class _Description(TypedDict):
    launcher: str
    created: float


class JobDescription(_Description, total=False):
    """The contents of job.json, which describes what a job runs. `resume` is the name of the earlier job that this job continues.

    `digest` is the digest of the code's contents. `printed` is true if the commands of the job were only printed.
    """

    script: str
    command: list[str]
    arguments: list[str]
    launcher_options: dict[str, Any]
    python: str
    time_limit: float
    resume: str
    checkpoint_directory: str
    code: Code
    digest: str
    printed: bool


class Endpoint(TypedDict):
    """The address and port on which a process listens for commands from other hosts."""

    address: str
    port: int


class JobSpec(TypedDict):
    """The part of the spec that is identical for all supervisors of a job.

    `attempt` is the number of the attempt, beginning with 1. `parameters` contains the job's options (options.py) and the other parameters
    of the `training_job` module. The specs of the next attempt are planned from them. If the time limit comes from the maximum cost,
    `cost_limit` among them contains the `amount`, how much of it is `earlier` cost, the `hourly` price of the job's nodes, and the
    `currency`.

    `directory` is the job's directory, and `programs` is the directory that contains the Python interpreter. `processes` is the number of
    processes excluding standby processes, and `standby` is the number of standby processes. `lead` is the name of the first process. If
    `own_profile` is true, supervisors read the user's own shell profile. `peers` contains the names and addresses of the job's hosts.
    """

    job: str
    directory: str
    cwd: str
    programs: str
    processes: int
    standby: int
    lead: str
    daemons: dict[str, Endpoint]
    key: str
    hostfile: str
    own_profile: bool
    peers: list[str]
    attempt: int
    parameters: dict[str, Any]


class ProcessSpec(JobSpec):
    """The contents of spec.json, the spec for the supervisor of one process. The file is in the process's runtime directory.

    `slot` is the index of the process among the processes on its host. In each attempt, a unit runs the process of its slot.

    A process without `argv` runs the commands that other hosts send. `instance` is the ID of the EC2 instance, or an empty string outside
    AWS. `capacity_end` is the time at which the Capacity Block of the instance ends, or 0.

    `rejoins` is true after a reboot of the host, until the supervisor has found the attempt that the host has left. `elapsed` is the
    number of seconds of the time limit that had passed when the supervisor was started: 0 unless the host has rebooted.
    """

    slot: int
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
    capacity_end: float
    rejoins: bool
    elapsed: int


class StartedProcess(TypedDict):
    """Data about a process that was started on this host, stored in a file that belongs to root."""

    job: str
    gpus: list[int]
    cwd: str
