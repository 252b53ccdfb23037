# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The directories and files of jobs: on the shared storage (`Paths`) and on each host."""

from __future__ import annotations

import contextlib
import glob
import os
import subprocess
from typing import IO, Iterator, NamedTuple, Sequence

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

# The arguments of one command are limited to 2 MiB, and each path to 4 KiB.
DELETED_AT_ONCE = 400


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
    return sorted({name.rpartition("-")[0] for name in listing(os.path.dirname(runtime_directory("job", "process")))})


def running_exports() -> list[str]:
    return listing(EXPORTS)


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


class Paths(NamedTuple):
    """The paths of a job's files on the shared storage. `directory` is the job's directory.

    Each attempt has its own logs and records. The logs and records of the first attempt are in `logs` and `status`. The logs and records of
    attempt 2 are in `logs/attempt2` and `status/attempt2`. All other files are shared by the attempts.
    """

    directory: str
    attempt: int = 1

    def of_attempt(self, attempt: int) -> Paths:
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
        return os.path.join(self.of_attempt(1).status, "export")

    @property
    def queue(self) -> str:
        """The entry of the job in a queue. The file exists once the job has been submitted to the queue."""
        return os.path.join(self.of_attempt(1).status, "queue")

    def log(self, process: str) -> str:
        return os.path.join(self.logs, process + ".log")

    def record(self, process: str) -> str:
        return os.path.join(self.status, process + ".json")


def listing(directory: str) -> list[str]:
    try:
        return [] if os.path.islink(directory) else os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
