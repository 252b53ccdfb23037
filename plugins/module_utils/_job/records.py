# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads and writes the documents of jobs: records of processes, verdicts, decisions, and the states of exports and entries in queues."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from typing import Any, Mapping, cast

from .._files import replace_file, replacing
from . import recovery, schema
from .directories import Paths, listing
from .document_schemas import DESCRIPTION, ENTRY, FOLLOWING, RECORD, RECORDS_LIMIT, VERDICT
from .documents import Following, JobDescription, ProcessRecord, Queued, Verdict
from .schema import Document, SchemaError
from .state_names import FAILED, STOPPED, SUCCEEDED

# Maximum number of lines of all logs in one response to the controller.
LINES_LIMIT = 10_000

# Maximum total size of the records of one job, in bytes. The records of 8192 processes take up half of this size.
JOB_LIMIT = 1 << 23

# Maximum size in bytes of the decision about an attempt. The names of 2000 hosts fit into a decision of this size.
FOLLOWING_LIMIT = 1 << 16

# The name of the directories of an attempt after the first.
ATTEMPT = re.compile(r"attempt([1-9][0-9]{0,3})")


def write_json(path: str, document: Mapping[str, Any]) -> None:
    """Replace a file atomically. Everyone can read the file."""
    replace_file(path, json.dumps(document).encode(), 0o644)


def write_new_json(path: str, document: Mapping[str, Any]) -> bool:
    """Write a file atomically unless it exists, and return whether it was written."""
    try:
        with replacing(path, 0o644, is_new=True) as file:
            file.write(json.dumps(document).encode())
    except FileExistsError:
        return False
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
    found, names = [], sorted(name for name in listing(paths.status) if name.endswith(".json"))
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
    matches = (ATTEMPT.fullmatch(name) for name in listing(first.status))
    return [int(match[1]) for match in matches if match and int(match[1]) > 1]


def last_change(paths: Paths) -> float:
    """Return the time at which a record of any attempt last changed, in seconds since 1970, or 0. The time is not later than now.

    Supervisors rewrite their records, so a job cannot hide its last heartbeat by changing other files.
    """
    first, last = paths.of_attempt(1), 0.0
    for place in (first.status, *(paths.of_attempt(number).status for number in _attempts(first))):
        for name in listing(place):
            if name.endswith(".json"):
                with contextlib.suppress(OSError):  # the record was replaced in the meantime
                    last = max(last, os.stat(os.path.join(place, name), follow_symlinks=False).st_mtime)
    return min(last, time.time())


def read_queued(paths: Paths) -> Queued | None:
    try:
        return cast(Queued, schema.conform(schema.read_document(paths.queue), ENTRY))
    except (OSError, ValueError):
        return None
