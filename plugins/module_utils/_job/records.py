# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Names of jobs and their processes, the paths of their files, and the states derived from their records.

This code runs on hosts as part of the supervisor and depends only on the standard library.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import signal
import socket
import subprocess
import time
from typing import IO, Any, Iterator, Mapping, NamedTuple, Sequence, TypeVar, cast

from . import error_messages, recovery, schema, storage_problems
from .documents import CauseRecord, Export, Following, JobDescription, Outcome, ProcessRecord, Queued, Verdict
from .schema import Document, SchemaError, optional
from .states import FAILED, FINAL, LOST, OF_PROCESSES, PENDING, QUEUED, RUNNING, STOPPED, SUCCEEDED, WAITING

# A DNS label, which is valid in the names of units, directories and hosts. For slices, see slice_name().
JOB_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

# The default user of jobs.
DEFAULT_USER = "deeplearning"

# Hyphens are not allowed. Otherwise, process "a-b" of job "x" and process "b" of job "x-a" would have the same unit name.
PROCESS_NAME = re.compile(r"[a-z]+[0-9]*")

# The ID of an EC2 instance. Hosts outside AWS have no such ID.
INSTANCE_ID = re.compile(r"i-[0-9a-f]{8,17}")

# The file that the `training_job` module locks on a host while the module starts units. Only root can open the file.
LOCK = "/run/deeplearning.lock"

# The file that the `training_job` module locks on a host while it submits a job to a queue.
#
# It is not `LOCK`, because a queue can take a long time to respond.
QUEUE_LOCK = "/run/deeplearning-queue.lock"

# The directory that contains a directory for each job that waits in a queue or that the queue has started.
#
# Everyone can find out whether a job has a directory. Only root can create the directories and read their files.
HELD = "/var/lib/deeplearning-queue"

# The directory in which each export has a directory while it runs on this host.
EXPORTS = "/run/deeplearning/exports"
SHARED_MEMORY = "/run/deeplearning/shm"
# The directory in which each job has a directory for temporary files, on the host's disk. It is not in /tmp, which other programs clean up.
TEMPORARY = "/var/lib/deeplearning-tmp"

# Roles of processes: a job waits for its workers, does not wait for its services (parameter servers), and can lose spares (elastic jobs).
# Standby processes do not run the job's program. They reserve units for the processes of later attempts (`training_job_spares`).
WORKER, SERVICE, SPARE, STANDBY = "worker", "service", "spare", "standby"
MAY_BE_LOST = (SPARE, STANDBY)

# The reason in the record of a process that ended because its host was terminated or restarted in an orderly way.
HOST_SHUT_DOWN = "was stopped because its host was shutting down"

# The beginning of the recorded reason if a program could not be run, and the end of the recorded reason if the kernel has killed one of
# the program's processes.
COULD_NOT_BE_STARTED = "could not be started"
OUT_OF_MEMORY = "after the kernel's OOM killer had killed one of its processes"

# Maximum number of lines of all logs in one response to the controller.
LINES_LIMIT = 10_000

# The maximum number of records to read. No job has so many records, but reading this many would still be fast.
RECORDS_LIMIT = 1 << 13

# Maximum total size of the records of one job, in bytes. The records of 8192 processes take up half of this size.
JOB_LIMIT = 1 << 23

# Maximum number of ranks in one record. The record of mpirun or of an elastic agent contains all ranks of the job.
RANKS_LIMIT = 1 << 13

# The arguments of one command are limited to 2 MiB, and each path to 4 KiB.
DELETED_AT_ONCE = 400

# Maximum clock difference between hosts, in seconds. Without this limit, a process with a heartbeat in the far future would seem alive
# for years.
CLOCK_LIMIT = 300

# Maximum size in bytes of the decision about an attempt. The names of 2000 hosts fit into a decision of this size.
FOLLOWING_LIMIT = 1 << 16

# Maximum number of characters in a sentence about a failure. Parts of the sentence come from the job.
SENTENCE_LIMIT = 1000

# The name of the directories of an attempt after the first.
ATTEMPT = re.compile(r"attempt([1-9][0-9]{0,3})")

HOST_NAME = schema.text(253, r"[A-Za-z0-9._-]+", "the name of a host")

# A part of the path of a checkpoint. It is not the name of a hidden file, and contains no lone surrogates except those with which Python
# represents bytes that are not UTF-8.
CHECKPOINT_NAME = r"(?!\.)[^/\0\ud800-\udc7f\udd00-\udfff]+"

# Why a job cannot write to a directory.
STORAGE_PROBLEM: schema.Schema = {
    "path": schema.text(4096),
    "problem": schema.one_of(*storage_problems.KINDS),
    "free": schema.integer(0, 1 << 62),
    "size": schema.integer(0, 1 << 62),
    "shared": schema.flag(),
}

# Why a process failed.
CAUSE: schema.Schema = {
    "kind": schema.one_of(*recovery.KINDS),
    "what": schema.text(recovery.WHAT_LIMIT),
    "exit_code": optional(schema.integer(0, 255)),
    "name": optional(schema.text(300)),
    "message": optional(schema.text(1000)),
    "storage": optional(schema.list_of(schema.mapping(STORAGE_PROBLEM), storage_problems.LIMIT)),
    "alone": optional(schema.flag()),
}

# Maximum number of ranks of one process on its own host.
RANKS_PER_HOST_LIMIT = 1 << 10

# The place at which a rank of a hanging job is stuck.
STUCK: schema.Schema = {
    "rank": schema.integer(0, 1 << 20),
    "where": schema.text(400),
    "waits": schema.flag(),
    "suspended": schema.flag(),
    "silent_peers": optional(schema.integer(0, 100)),
    "error": optional(schema.text(400)),
}

# The announcement that AWS will terminate a host.
NOTICE: schema.Schema = {"kind": schema.one_of(*recovery.ANNOUNCED), "deadline": schema.seconds()}

# Why a host must not run the next attempt.
UNFIT: schema.Schema = {
    "why": schema.one_of(recovery.REBOOT, recovery.REPLACE, recovery.EXCLUDED),
    "what": schema.text(recovery.WHAT_LIMIT),
    "reboots": optional(schema.flag()),
}

# The record of a process.
RECORD: schema.Schema = {
    "name": schema.text(40, PROCESS_NAME.pattern, "the name of a process"),
    "rank": schema.integer(0, 1 << 20),
    "ranks": schema.list_of(schema.integer(0, 1 << 20), RANKS_LIMIT),
    "tagged": optional(schema.flag()),
    "part": schema.one_of(WORKER, SERVICE, SPARE, STANDBY),
    "host": HOST_NAME,
    "instance": optional(schema.text(19, INSTANCE_ID.pattern, "the ID of an instance")),
    "processes": schema.integer(1, 1 << 20),
    "pid": optional(schema.integer(1, 1 << 31)),
    "state": schema.one_of(*OF_PROCESSES),
    "started": schema.seconds(),
    "heartbeat": schema.seconds(),
    "finished": optional(schema.seconds()),
    "exit_code": optional(schema.integer(0, 255)),
    "signal": optional(schema.text(20, r"[A-Z0-9+-]+", "the name of a signal")),
    "reason": optional(schema.text()),
    "cause": schema.lenient(schema.mapping(CAUSE)),
    "restartable": optional(schema.flag()),
    "available": optional(schema.flag()),
    "unfit": schema.lenient(schema.mapping(UNFIT)),
    "rebooted": optional(schema.flag()),
    "active": optional(schema.seconds()),
    "suspects_hang": optional(schema.flag()),
    "hang": optional(schema.text(300)),
    "stuck": optional(schema.list_of(schema.mapping(STUCK), RANKS_PER_HOST_LIMIT)),
    "still_connected": optional(HOST_NAME),
    "raised": schema.lenient(schema.mapping(CAUSE)),
    "notice": optional(schema.mapping(NOTICE)),
}

# The description of a job, `job.json`. The job's name is the name of its directory.
DESCRIPTION: schema.Schema = {
    "script": optional(schema.text()),
    "command": optional(schema.list_of(schema.text(1 << 17))),
    "arguments": optional(schema.list_of(schema.text(1 << 17))),
    "launcher": schema.text(40, r"[a-z0-9_]+", "the name of a launcher"),
    "launcher_options": optional(schema.mapping()),
    "python": optional(schema.text()),
    "time_limit": optional(schema.seconds()),
    "resume": optional(schema.text(63, JOB_NAME.pattern, "the name of a job")),
    "printed": optional(schema.flag()),
    "checkpoint_directory": optional(schema.text(4096, r"[^\0]*", "a path or an address")),
    "created": schema.seconds(),
    "digest": optional(schema.text(64, r"[0-9a-f]{64}", "a digest")),
    "code": optional(
        schema.mapping(
            {
                "commit": optional(schema.text(64, r"[0-9a-f]*", "a commit")),
                "changed": optional(schema.flag()),
                "repository": optional(schema.text()),
                "version": optional(schema.text()),
            }
        )
    ),
}

# The verdict, which tells the processes that the attempt is over.
VERDICT: schema.Schema = {
    "state": schema.one_of(*FINAL),
    "failure": optional(schema.mapping()),
    "restartable": optional(schema.flag()),
}

CHECKPOINT = schema.mapping(
    {"name": schema.text(1024, f"{CHECKPOINT_NAME}(/{CHECKPOINT_NAME})*", "the path of a file"), "changed": schema.seconds()}
)
# How many damaged checkpoints are set aside at once.
DAMAGED_LIMIT = 8

# What follows an attempt, `status/next`.
FOLLOWING: schema.Schema = {
    "action": schema.one_of(recovery.RESTART, recovery.STOP),
    "rule": schema.text(40, r"[a-z_]+", "the name of a rule"),
    "decided": schema.seconds(),
    "started": optional(schema.seconds()),
    "ran_on": optional(schema.integer(1, RECORDS_LIMIT)),
    "failure": optional(schema.mapping()),
    "cause": schema.lenient(schema.mapping(CAUSE)),
    "progress": optional(schema.flag()),
    "hosts": optional(schema.list_of(HOST_NAME, RECORDS_LIMIT)),
    "set_aside": optional(CHECKPOINT),
    "damaged": optional(schema.list_of(CHECKPOINT, DAMAGED_LIMIT)),
    "without_checkpoint": optional(schema.flag()),
    "standby": optional(schema.list_of(HOST_NAME, RECORDS_LIMIT)),
    "replacements": optional(schema.list_of(HOST_NAME, RECORDS_LIMIT)),
    "missing": optional(schema.list_of(HOST_NAME, RECORDS_LIMIT)),
    "excluded": optional(schema.list_of(HOST_NAME, RECORDS_LIMIT)),
    "restarts": optional(schema.integer(0, 1 << 31)),
    "min_hosts": optional(schema.integer(0, 1 << 31)),
    "reboots": optional(schema.flag()),
    "refusal": optional(schema.text(recovery.WHAT_LIMIT)),
}

# The state of a job's export to S3, `status/export`.
EXPORT: schema.Schema = {
    "destination": schema.text(1200, r"s3://[A-Za-z0-9._=+@/-]+", "a location on S3"),
    "state": schema.one_of(RUNNING, WAITING, SUCCEEDED, FAILED),
    "began": schema.seconds(),
    "heartbeat": schema.seconds(),
    "finished": optional(schema.seconds()),
    **{key: optional(schema.integer(0, 1 << 62)) for key in ("files", "size", "uploaded", "uploaded_size", "changing", "omitted_count")},
    "omitted": optional(schema.list_of(schema.text(200), 20)),
    "error": optional(schema.text()),
}

# The entry of a job in a queue, `status/queue`.
ENTRY: schema.Schema = {
    "queue": schema.text(40, r"[a-z0-9_]+", "the name of a queue"),
    "id": schema.text(60, r"[0-9.]+|application_[0-9]+_[0-9]+", "the ID of a job"),
    "submitted": schema.seconds(),
    "failure": optional(schema.text(SENTENCE_LIMIT)),
}


def check_name(name: str, option: str = "name") -> str:
    """Return the name if it is a valid job name, otherwise raise ValueError. The message names the `option`."""
    if not JOB_NAME.fullmatch(name):
        raise ValueError(
            f"{option}: {name!r} is not a valid job name. Use 1 to 63 lowercase letters, digits and hyphens, with no hyphen at either end."
        )
    return name


# The systemd slice for all jobs on a host. Each job has a child slice.
JOBS_SLICE = "deeplearning.slice"


def slice_name(job: str) -> str:
    """Return the name of the job's systemd slice.

    A slice whose name contains a hyphen is the child of another slice. With hyphens, stopping job "digits" would also stop job "digits-2".
    Hyphens are therefore replaced with underscores. Job names contain no underscores, so the result is unambiguous.
    """
    return "deeplearning-{}.slice".format(job.replace("-", "_"))


def unit_name(job: str, process: str) -> str:
    """Return the name of the systemd service for one process of the job."""
    return f"deeplearning-{job}-{process}.service"


def runtime_directory(job: str, process: str) -> str:
    """Return the directory of a process on its own host. The directory exists while the process runs."""
    return f"/run/deeplearning/jobs/{job}-{process}"


@contextlib.contextmanager
def open_lock(path: str = "") -> Iterator[IO[str]]:
    """Open a lock file, by default `LOCK`. Only root can open the file, because each user who can open it can block all others."""
    with open(path or LOCK, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600)) as lock:
        os.fchmod(lock.fileno(), 0o600)
        yield lock


def running_jobs() -> list[str]:
    """Return the names of the jobs that have a process on this host that is running or stopping."""
    return sorted({name.rpartition("-")[0] for name in _listing(os.path.dirname(runtime_directory("job", "process")))})


def running_exports() -> list[str]:
    """Return the names of the jobs that this host is exporting to S3."""
    return _listing(EXPORTS)


def is_held(job: str) -> bool:
    """Return whether this host keeps the parameters of the job, because the job waits in a queue or the queue has started it."""
    return os.path.isdir(os.path.join(HELD, job))


def runtime_directories(job: str) -> list[str]:
    """Return the runtime directories of the job's processes that are running or stopping on this host."""
    found = glob.glob(runtime_directory(glob.escape(job), "*"))
    return [path for path in found if os.path.basename(path).rpartition("-")[0] == job]


def private_directories(job: str) -> dict[str, str]:
    """Return the directories that the job's processes on this host see in place of /dev/shm, /tmp and /var/tmp, keyed by these paths."""
    temporary = os.path.join(TEMPORARY, job)
    return {"/dev/shm": os.path.join(SHARED_MEMORY, job), "/tmp": temporary + "/tmp", "/var/tmp": temporary + "/var-tmp"}


def delete(paths: Sequence[str]) -> None:
    """Delete files, links and directories with their contents. Missing paths are ignored. Raises OSError.

    Runs `rm`, because jobs can create directory trees of any depth. The depth that shutil.rmtree supports is limited by Python's stack
    and by the maximum number of open files.
    """
    for first in range(0, len(paths), DELETED_AT_ONCE):
        command = ["rm", "-rf", "--one-file-system", "--", *paths[first : first + DELETED_AT_ONCE]]
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, errors="replace", check=False
        )
        if result.returncode:
            raise OSError(result.stderr.strip()[:1000])


def title(process: str) -> str:
    """Return a process's name as shown in messages, such as `rank 3` for `rank3`."""
    return re.sub(r"(?<=[a-z])(?=[0-9])", " ", process)


class Paths(NamedTuple):
    """The paths of a job's files on the shared storage. `directory` is the job's directory.

    Each attempt has its own logs and records. The logs and records of the first attempt are in `logs` and `status`. The logs and records of
    attempt 2 are in `logs/attempt2` and `status/attempt2`. All other files are shared by the attempts.
    """

    directory: str
    attempt: int = 1

    def of_attempt(self, attempt: int) -> Paths:
        """Return the paths for a different attempt of the same job."""
        return self._replace(attempt=attempt)

    def _of_this_attempt(self, directory: str) -> str:
        path = os.path.join(self.directory, directory)
        return path if self.attempt == 1 else os.path.join(path, f"attempt{self.attempt}")

    @property
    def code(self) -> str:
        return os.path.join(self.directory, "code")

    @property
    def description(self) -> str:
        return os.path.join(self.directory, "job.json")

    @property
    def logs(self) -> str:
        return self._of_this_attempt("logs")

    @property
    def status(self) -> str:
        return self._of_this_attempt("status")

    @property
    def verdict(self) -> str:
        """The file that tells the processes that the attempt is over.

        The name of this file does not end in `.json`, because the file is not a record.
        """
        return os.path.join(self.status, "over")

    @property
    def following(self) -> str:
        """The file that says what follows the attempt."""
        return os.path.join(self.status, "next")

    @property
    def stacks(self) -> str:
        """The directory for the stacks of the processes and the files of torch's flight recorder, if the attempt hangs."""
        return os.path.join(self.logs, "stacks")

    @property
    def checkpoints(self) -> str:
        return os.path.join(self.directory, "checkpoints")

    @property
    def tensorboard(self) -> str:
        return os.path.join(self.directory, "tensorboard")

    @property
    def progress(self) -> str:
        return os.path.join(self.directory, "progress.jsonl")

    @property
    def progress_times(self) -> str:
        """The history of the size of the `progress` file. Each line contains a time in seconds since 1970 and a size in bytes."""
        return os.path.join(self.of_attempt(1).status, "progress")

    @property
    def export(self) -> str:
        """The state of the job's export to S3."""
        return os.path.join(self.of_attempt(1).status, "export")

    @property
    def queue(self) -> str:
        """The entry of the job in a queue. The file exists once the job has been submitted to the queue."""
        return os.path.join(self.of_attempt(1).status, "queue")

    def log(self, process: str) -> str:
        """Return the path of the file with the output of one process."""
        return os.path.join(self.logs, process + ".log")

    def record(self, process: str) -> str:
        """Return the path of the file with the record of one process."""
        return os.path.join(self.status, process + ".json")


def write_json(path: str, document: Mapping[str, Any]) -> None:
    """Replace a file atomically, so that readers on other hosts see either the old or the new contents."""
    temporary = f"{path}.{socket.gethostname()}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(document, file)
    os.replace(temporary, path)


def write_new_json(path: str, document: Mapping[str, Any]) -> bool:
    """Write a file unless it exists, and return whether it was written. Readers see either the complete file or no file.

    If several hosts write the file at the same time, exactly one succeeds. Creating a link is atomic on NFS too.
    """
    temporary = f"{path}.{socket.gethostname()}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(document, file)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)
    return True


def read_json(path: str) -> Document | None:
    """Return the document in the file, or None if it is missing or invalid."""
    try:
        return schema.read_document(path)
    except (OSError, ValueError):
        return None


def read_description(paths: Paths) -> JobDescription:
    """Return the description of a job. Raises OSError (FileNotFoundError for a missing file), or ValueError if the file is not valid."""
    if os.path.islink(paths.directory):
        raise SchemaError("the job's directory is a symbolic link")
    return cast(JobDescription, schema.conform(schema.read_document(paths.description), DESCRIPTION))


class Budget:
    """The number of bytes that may still be read from records."""

    def __init__(self, size: int = JOB_LIMIT) -> None:
        self.size = self.left = size

    def take(self, size: int) -> bool:
        """Subtract bytes that have been read, and return whether they were still within the budget."""
        self.left -= size
        return self.left >= 0


def read_records(paths: Paths, problems: list[str] | None = None, budget: Budget | None = None) -> list[ProcessRecord]:
    """Return the records of the job's processes in the order of their ranks.

    Records that are invalid or exceed the budget are skipped and reported in `problems`.
    """
    budget = budget or Budget()
    found, names = [], sorted(name for name in _listing(paths.status) if name.endswith(".json"))
    for name in names[:RECORDS_LIMIT]:
        path = os.path.join(paths.status, name)
        try:
            content = schema.read_content(path)
            if not budget.take(len(content)):
                if problems is not None:
                    problems.append(
                        f"the records of job {os.path.basename(paths.directory)!r} in {paths.status!r} exceed {budget.size} bytes:"
                        f" {name!r} and the records after it are skipped"
                    )
                break
            found.append(_parse_record(path, content))
        except FileNotFoundError:
            continue  # the record was replaced in the meantime
        except (OSError, ValueError) as error:
            if problems is not None:
                problems.append(f"record {path!r} is skipped: {error}")
    if len(names) > RECORDS_LIMIT and problems is not None:
        problems.append(f"{paths.status!r} has more than {RECORDS_LIMIT} records. The remaining records are skipped.")
    return sorted(found, key=lambda record: (record["rank"], record["name"]))


def read_record(path: str) -> ProcessRecord | None:
    """Return the record of a process, or None if it is missing or invalid."""
    try:
        return _parse_record(path, schema.read_content(path))
    except (OSError, ValueError):
        return None


def _parse_record(path: str, content: bytes) -> ProcessRecord:
    """Return the record in a file. Raises OSError or ValueError."""
    record = check_record(schema.parse_document(content))
    if os.path.basename(path) != record["name"] + ".json":
        raise SchemaError("the process name {!r} does not match the name of the file".format(record["name"]))
    # If the storage is full, a supervisor can still update the modification time of its record.
    record["heartbeat"] = max(record["heartbeat"], min(os.stat(path, follow_symlinks=False).st_mtime, schema.TIME_LIMIT))
    return record


def check_record(document: Mapping[str, Any]) -> ProcessRecord:
    """Return a process's record without unknown keys. Raises ValueError if the record is invalid."""
    record = cast(ProcessRecord, schema.conform(document, RECORD))
    if record["state"] in (SUCCEEDED, FAILED, STOPPED) and "finished" not in record:
        raise SchemaError("the key 'finished' is missing")
    return record


def read_verdict(paths: Paths, problems: list[str] | None = None) -> Verdict | None:
    """Return how the job ended, or None while the job is running. An invalid verdict is reported in `problems`."""
    try:
        verdict = schema.conform(schema.read_document(paths.verdict), VERDICT)
        if verdict["state"] == SUCCEEDED:
            return {"state": SUCCEEDED, "failure": None}
        found: Verdict = {"state": verdict["state"], "failure": check_record(verdict.get("failure") or {})}
        if verdict.get("restartable"):
            found["restartable"] = True
        return found
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        if problems is not None:
            problems.append(f"verdict {paths.verdict!r} is skipped: {error}")
        return None


def read_following(paths: Paths, budget: Budget | None = None) -> Following | None:
    """Return what follows an attempt. Return None if the attempt has not ended, or if the file is not valid or exceeds the budget."""
    try:
        content = schema.read_content(paths.following, FOLLOWING_LIMIT)
        if budget is not None and not budget.take(len(content)):
            return None
        found = cast(Following, schema.conform(schema.parse_document(content, FOLLOWING_LIMIT), FOLLOWING))
        if "failure" in found:
            found["failure"] = check_record(found["failure"])
    except (OSError, ValueError):
        return None
    return found


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
    return recovery.explain(found["action"], found["rule"], situation) + recovery.about_damage(
        damaged, found.get("without_checkpoint", False)
    )


def recovery_cause(found: Mapping[str, Any], host: str) -> recovery.Cause:
    """Return a document's cause in the form that the decision about a restart uses.

    A connection that was closed for no known reason is evidence against neither the script nor the checkpoint, nor this host.
    """
    kind = str(found.get("kind") or recovery.KILLED)
    if kind in (recovery.SCRIPT_ERROR, recovery.SIGNAL) and error_messages.is_connection_closed(str(found.get("message") or "")):
        kind, host = recovery.NETWORK, ""
    name, storage = str(found.get("name") or ""), _storage(found)
    return recovery.Cause(kind, str(found.get("what") or ""), host, found.get("exit_code"), name, storage, bool(found.get("alone")))


def _storage(found: Mapping[str, Any]) -> tuple[storage_problems.StorageProblem, ...]:
    """Return the problems of the storage in a document's cause. Unknown keys are ignored."""
    fields = storage_problems.StorageProblem._fields
    return tuple(storage_problems.StorageProblem(**{name: each[name] for name in fields}) for each in found.get("storage") or ())


def newest_attempt(paths: Paths, budget: Budget | None = None) -> Paths:
    """Return the paths of the newest attempt of a job: the attempt with the highest number that follows a valid decision to restart.

    Attempts whose directories are symbolic links do not count. The sizes of the decisions count toward the budget.
    """
    first, budget = paths.of_attempt(1), budget or Budget()
    if any(os.path.islink(path) for path in (paths.directory, first.status, first.logs)):
        return first
    for number in sorted(_attempts(first), reverse=True):
        if number <= recovery.ATTEMPTS_LIMIT:
            before = read_following(paths.of_attempt(number - 1), budget)
            if before and before["action"] == recovery.RESTART:
                return paths.of_attempt(number)
    return first


def _attempts(first: Paths) -> list[int]:
    """Return the attempt numbers above 1 for which a directory exists, in any order."""
    matches = (ATTEMPT.fullmatch(name) for name in _listing(first.status))
    return [int(match[1]) for match in matches if match and int(match[1]) > 1]


def last_change(paths: Paths) -> float:
    """Return the time at which a record of any attempt last changed, in seconds since 1970, or 0. The time is not later than now.

    Supervisors rewrite their records, so a job cannot hide its last heartbeat by changing other files.
    """
    first, last = paths.of_attempt(1), 0.0
    for place in (first.status, *(paths.of_attempt(number).status for number in _attempts(first))):
        for name in _listing(place):
            if name.endswith(".json"):
                with contextlib.suppress(OSError):  # the record was replaced in the meantime
                    last = max(last, os.stat(os.path.join(place, name), follow_symlinks=False).st_mtime)
    return min(last, time.time())


def attempt_state(paths: Paths, processes: Sequence[ProcessRecord], heartbeat_timeout: float, verdict: Verdict | None) -> str:
    """Return the state of a job, based on the records and the verdict of its newest attempt. The records are results of with_state().

    A failed job that may be restarted counts as running until its supervisors decide to stop it, or until they have sent no heartbeat for
    `heartbeat_timeout` seconds.
    """
    following = read_following(paths)
    state = final_state(verdict, processes, following)
    starting = paths.attempt > 1 and not processes
    if not starting:
        may_restart = verdict.get("restartable") if verdict else any(process.get("restartable") for process in processes)
        if state not in (FAILED, LOST) or not may_restart or (following and following["action"] == recovery.STOP):
            return state
    before = read_following(paths.of_attempt(paths.attempt - 1)) if starting else following
    if _answers(processes, before["decided"] if before else 0.0, heartbeat_timeout):
        return RUNNING
    return LOST if starting else state


def final_state(verdict: Verdict | None, processes: Sequence[ProcessRecord], following: Following | None) -> str:
    """Return the state of an attempt according to its verdict, its records and what follows the attempt."""
    state = verdict["state"] if verdict else job_state(processes)
    if state not in (FAILED, LOST):
        return state
    failure = verdict["failure"] if verdict else first_failure(processes)
    return decided_state(state, following) or failed_state(state, processes, failure)


def decided_state(state: str, following: Following | None) -> str:
    """Return the final state of an attempt without success if the hosts have decided to end the job, otherwise an empty string.

    The hosts have then waited for the heartbeats that they needed to know the cause. A stop by an operator does not change the state.
    """
    if not following or following["action"] != recovery.STOP:
        return ""
    found = following["failure"]["state"] if "failure" in following else state
    return found if found in (FAILED, LOST) else state


def failed_state(state: str, processes: Sequence[ProcessRecord], failure: ProcessRecord | None) -> str:
    """Return the final state of an attempt without success: `lost` if a process without heartbeats has caused its end, otherwise `failed`.

    If a host disappears, it is a race whether other processes fail first or the host's heartbeat becomes too old. The state is therefore
    that of the cause, and the attempt counts as running until the cause is known: until each process that the records show as running has
    sent a heartbeat after the failure, has ended, or is lost. `failure` is the process that the verdict names, or the first failure, and
    `state` is the state of the attempt according to it.
    """
    if failure is None or failure["state"] not in (FAILED, LOST):  # written by the job itself
        return state
    if failure["state"] == LOST:  # the process's host may have recorded its end since
        failure = next((each for each in processes if (each["name"], each["state"]) == (failure["name"], FAILED)), failure)
    moment = last_moment(failure)
    if any(each["state"] == RUNNING and each["heartbeat"] < moment and each["part"] not in MAY_BE_LOST for each in processes):
        return RUNNING
    found = cause(processes, failure)
    return found["state"] if found else state


def _answers(processes: Sequence[ProcessRecord], decided: float, heartbeat_timeout: float) -> bool:
    """Return whether a supervisor that can start another attempt has sent a heartbeat, or a decision was made, within the timeout."""
    last = max([decided, *(process["heartbeat"] for process in processes if process.get("available", True))])
    return -CLOCK_LIMIT <= time.time() - last <= heartbeat_timeout


def read_state(paths: Paths, heartbeat_timeout: float) -> str:
    """Return the state of a job, based on the records of its newest attempt."""
    newest, now = newest_attempt(paths), time.time()
    # Read the verdict before the records, so that the records of a finished job are complete.
    verdict = read_verdict(newest)
    processes = [with_state(record, now, heartbeat_timeout) for record in read_records(newest)]
    return attempt_state(newest, processes, heartbeat_timeout, verdict)


def read_export(paths: Paths, heartbeat_timeout: float) -> Export | None:
    """Return the state of a job's export, or None if it is missing or invalid.

    The state of an unfinished export is `lost` if the export has sent no heartbeat within the timeout.
    """
    try:
        export = cast(Export, schema.conform(schema.read_document(paths.export), EXPORT))
    except (OSError, ValueError):
        return None
    silent = not -CLOCK_LIMIT <= time.time() - export["heartbeat"] <= heartbeat_timeout
    return {**export, "state": LOST} if silent and export["state"] in (RUNNING, WAITING) else export


def read_queued(paths: Paths) -> Queued | None:
    """Return the entry of a job in a queue, or None if it is missing or invalid."""
    try:
        return cast(Queued, schema.conform(schema.read_document(paths.queue), ENTRY))
    except (OSError, ValueError):
        return None


def queued_state(state: str, queued: Queued) -> str:
    """Return the state of a job with an entry in a queue. `state` is the state according to the job's records.

    Only the queue knows whether a job without records still waits (see `_hosts/training_job/queue/submission.py`).
    """
    if "failure" in queued:
        return FAILED
    return QUEUED if state == PENDING else state


def _listing(directory: str) -> list[str]:
    try:
        return [] if os.path.islink(directory) else os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []


def process_state(record: ProcessRecord, now: float, heartbeat_timeout: float) -> str:
    """Return the recorded state of a process, or `lost` if a running process has sent no heartbeat for `heartbeat_timeout` seconds.

    A heartbeat that is more than CLOCK_LIMIT seconds in the future does not count.
    """
    state = record["state"]
    return LOST if state == RUNNING and not -CLOCK_LIMIT <= now - record["heartbeat"] <= heartbeat_timeout else state


def with_state(record: ProcessRecord, now: float, heartbeat_timeout: float) -> ProcessRecord:
    """Return a record with the current state of its process (see process_state())."""
    return {**record, "state": process_state(record, now, heartbeat_timeout)}


AnyRecord = TypeVar("AnyRecord", bound=ProcessRecord)


def participants(processes: Sequence[AnyRecord]) -> list[AnyRecord]:
    """Return the records of the processes that run the job's program, excluding standby processes."""
    return [process for process in processes if process["part"] != STANDBY]


def standby_hosts(processes: Sequence[ProcessRecord]) -> list[str]:
    """Return the hosts on which all processes are on standby."""
    used = {process["host"] for process in participants(processes)}
    return [host for host in dict.fromkeys(process["host"] for process in processes) if host not in used]


def job_state(processes: Sequence[ProcessRecord]) -> str:
    """Return the state of a job, derived from the records of the processes that have started. The records are results of with_state()."""
    states = {process["state"] for process in processes if process["part"] not in MAY_BE_LOST}
    # Losing a process whose part is in MAY_BE_LOST does not end the job, but stopping such a process does.
    states |= {STOPPED} & {process["state"] for process in processes}
    for state in (FAILED, LOST, STOPPED):
        if state in states:
            return state
    if not processes:
        return PENDING
    started = participants(processes)
    if not started:
        return RUNNING if any(process["state"] == RUNNING for process in processes) else LOST
    complete = len(started) == started[0]["processes"]
    running = any(process["state"] == RUNNING for process in started if process["part"] != SERVICE)
    return SUCCEEDED if complete and not running else RUNNING


def first_failure(processes: Sequence[ProcessRecord]) -> ProcessRecord | None:
    """Return the process that caused a job to end without success.

    The first process that failed or was lost is the cause, because the other processes then lose their connection to it and fail. If no
    process failed or was lost, the first process that was stopped is the cause.

    The other processes may fail within milliseconds, and each host detects the end of its processes at a slightly different time. A process
    that failed because its connection was closed is therefore the cause only if all failed processes failed for this reason. Gloo and NCCL
    abort a process that loses its connection or waits too long, so such a process is the cause only if no script raised an exception.
    """
    ended = [process for process in processes if process["state"] in (FAILED, LOST) and process["part"] not in MAY_BE_LOST]
    stopped = [process for process in processes if process["state"] == STOPPED]
    first = [process for process in ended if not has_lost_connection(process)]
    if any(process.get("cause", {}).get("kind") in recovery.EXCEPTIONS for process in first):
        first = [process for process in first if not is_aborted(process)]
    return min(first or ended or stopped, key=lambda process: (last_moment(process), process["rank"]), default=None)


def has_lost_connection(process: ProcessRecord) -> bool:
    """Return whether a process failed because its connection to another process was closed."""
    why = process.get("cause", {})
    return error_messages.is_connection_closed(why.get("message", "")) or why.get("name") in error_messages.AGENT_ENDED


def is_aborted(process: ProcessRecord) -> bool:
    """Return whether a process was aborted for no known reason, for example by Gloo or NCCL, or has waited for other ranks too long."""
    why = process.get("cause", {})
    return why.get("kind") == recovery.HANG or (why.get("kind") == recovery.SIGNAL and why.get("name") == "SIGABRT")


def is_alone(failure: ProcessRecord, processes: Sequence[ProcessRecord]) -> bool:
    """Return whether the processes on the other hosts have passed the place at which a process failed.

    None of them has ended with the same error, and each of them has run for at least as long as the process that failed. Services such as
    the daemons of MPI do not run the script.
    """
    others = [process for process in processes if process["host"] != failure["host"] and process["part"] != SERVICE]
    age, what = last_moment(failure) - failure["started"], failure.get("cause", {}).get("what")
    return bool(others) and all(
        process.get("cause", {}).get("what") != what and (process.get("finished") or process["heartbeat"]) - process["started"] >= age
        for process in others
    )


def cause(processes: Sequence[ProcessRecord], judged: ProcessRecord | None) -> ProcessRecord | None:
    """Return the process that caused a job to end without success. `judged` is the process that the verdict names.

    If a host disappears, processes that lose their connection to it fail before the processes on the host count as lost. The verdict may
    therefore name the wrong process. A lost process takes precedence if its last heartbeat came before the process in the verdict
    ended.

    If the process in the verdict lost a connection or was aborted, the process at the other end may have recorded its own failure later.
    A process that was stopped because of the verdict has not failed. However, if connections were closed for no known reason, the cause
    is a process whose connections stayed open, and if processes have waited too long, the cause is a process that had raised an exception.
    """
    if judged is None or judged["state"] != FAILED:
        return judged
    states = (FAILED, LOST) if has_lost_connection(judged) or is_aborted(judged) else (LOST,)
    found = first_failure([judged, *(process for process in processes if process["state"] in states)])
    return (found and (without_data(found, processes) or without_end(found, processes))) or found


def without_data(failure: ProcessRecord, processes: Sequence[ProcessRecord]) -> ProcessRecord | None:
    """Return the record of the process that receives no data from other hosts, changed to the record of a failed process, or None.

    A process whose host receives data notices within milliseconds that the process at the other end of a connection has ended. If processes
    on several hosts do not notice this, the network of the other end is the more likely cause.
    """
    found = [process for process in processes if process["state"] == STOPPED and process.get("still_connected")]
    if not has_lost_connection(failure) or len({process["host"] for process in found}) != 1:
        return None
    reason = "received no data (its connections to {} were open after all processes there had ended)".format(found[0]["still_connected"])
    cause: CauseRecord = {"kind": recovery.NETWORK, "what": "a host that receives no data"}
    return {**found[0], "state": FAILED, "finished": last_moment(failure), "reason": reason, "cause": cause}


def has_waited(failure: ProcessRecord | None) -> bool:
    """Return whether a process has ended because it has waited for other ranks too long."""
    return bool(failure and not failure.get("reason") and failure.get("cause", {}).get("kind") == recovery.HANG)


def without_end(failure: ProcessRecord, processes: Sequence[ProcessRecord]) -> ProcessRecord | None:
    """Return the record of the process that others have waited for, because it had raised an exception and did not end, changed to the
    record of a failed process, or None.
    """
    found = [process for process in processes if process["state"] == STOPPED and process.get("raised")]
    if not found or not has_waited(failure):
        return None
    first = min(found, key=lambda process: process["rank"])
    reason = "raised an exception and did not end, so that the other ranks waited for it"
    return {**first, "state": FAILED, "finished": last_moment(failure), "reason": reason, "cause": first["raised"]}


def last_moment(process: ProcessRecord) -> float:
    """Return the time at which a process ended, or the time of its last heartbeat if it is lost."""
    return process["heartbeat"] if process["state"] == LOST else process["finished"]


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
    if why.get("kind") not in (recovery.SIGNAL, recovery.EXIT_STATUS) or not why.get("what") or why["what"] in end:
        return end
    if process.get("tagged"):  # the process has several ranks
        return f"{end} ({why['what']} of a rank)"
    return f"{'was killed by' if why['kind'] == recovery.SIGNAL else 'ended with'} {why['what']}"


def describe_failure(process: ProcessRecord, found: CauseRecord | None = None) -> str:
    """Return a sentence about the process that ended an attempt, such as `rank 1 on worker2 ended with exit status 1 (ValueError at ...)`.

    `found` is the cause. The default is the cause in the process's record.
    """
    why = found or process.get("cause") or {}
    if why.get("kind") == recovery.HEALTH:
        return "health finding on {}: {}".format(process["host"], why["what"])[:SENTENCE_LIMIT]
    text = "{} on {} {}".format(title(process["name"]), process["host"], _describe_end_of_script(process, why))
    if why.get("kind") in recovery.EXCEPTIONS or (why.get("kind") == recovery.HANG and why.get("message")):
        what = f"{why['what']}: {why['message']}" if why.get("message") else why["what"]
        text += "" if text.endswith(what) else f" ({what})"
    elif why.get("message") == recovery.NOT_BY_OOM_KILLER:
        text += f" ({recovery.NOT_BY_OOM_KILLER})"
    if why.get("storage"):
        text += f" while {storage_problems.describe(_storage(why))}"
    return text[:SENTENCE_LIMIT]
