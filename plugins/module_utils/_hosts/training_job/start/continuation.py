# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Continues a job that has ended, under its own name: determines whether that is possible, and begins the next attempt.

A job can be continued if an operator, the infrastructure or a lack of hosts has ended it, and if its code and its definition have not
changed.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import time
from typing import Any, BinaryIO, Mapping, Sequence

from ...._job import directories, failed_process, failure_causes, job_states, records, recovery
from ...._job.definition.refusal import RefusalError
from ...._job.documents import Following, JobDescription, ProcessRecord, Verdict
from ..files import goodput
from ..run import between_attempts
from ..units import checkpoint_directory

# Rules after which a job can be continued, whatever the cause of its last failure.
RULES = ("operator", "time_limit", "too_few_hosts")

# Module options that a job keeps when it continues, as they are in its description.
KEPT = ("arguments", "command", "launcher", "launcher_options", "python")

# Number of bytes of a file that are read at once.
CHUNK = 1 << 20


def can_continue(newest: directories.Paths, processes: Sequence[ProcessRecord], verdict: Verdict | None) -> bool:
    """Return whether a job that has ended without success can be continued: whether something other than its script has ended it."""
    following, failure = records.read_following(newest), failed_process.last_failure(processes, verdict)
    if newest.attempt >= recovery.ATTEMPTS_LIMIT:
        return False
    if failure is None or (following and following["rule"] in RULES):
        return True
    cause = (following.get("cause") if following else None) or between_attempts.cause_of(failure)
    return not failure_causes.blames_script(failed_process.recovery_cause(cause, failure["host"]))


def earlier_node_seconds(params: Mapping[str, Any], paths: directories.Paths) -> float:
    """Return for how many seconds hosts have run the earlier attempts of a job and the jobs that it continues, added up over the hosts.

    Jobs that have been deleted do not count.
    """
    found: dict[str, float] = {}
    name = params["name"]
    while name and name not in found:
        job = directories.Paths(os.path.join(os.path.dirname(paths.directory), name))
        found[name] = goodput.node_seconds(job, params["heartbeat_timeout"])
        try:
            name = records.read_description(job).get("resume", "")
        except (OSError, ValueError):
            name = params["resume"] if name == params["name"] else ""
    return sum(found.values())


def check_unchanged(params: Mapping[str, Any], paths: directories.Paths, digest: str) -> None:
    """Raise RefusalError if the job's definition has changed since its first attempt.

    `digest` is the digest of the code, or an empty string if the code is not known, as in check mode.
    """
    name = params["name"]
    try:
        found = records.read_description(paths)
    except (OSError, ValueError) as error:
        raise RefusalError(f"job {name} has already run, and cannot be continued: {error}. Choose another name.") from error
    changed = changes(params, paths, found, digest)
    if changed:
        raise RefusalError(
            f"job {name} has already run, and cannot continue under its own name, because its {' and '.join(changed)} changed since its"
            f" start. Use the same values, or choose another name and set training_job_resume={name}"
        )


def changes(params: Mapping[str, Any], paths: directories.Paths, found: JobDescription, digest: str) -> list[str]:
    values: Mapping[str, Any] = {"arguments": [], "command": [], "launcher_options": {}, **found}
    result = [option for option in KEPT if values.get(option) != params[option]]
    if script_name(params, params["script"]) != script_name(params, found.get("script")):
        result.append("script")
    if digest and digest != found.get("digest"):
        result.append("code")
    if found.get("checkpoint_directory", paths.checkpoints) != checkpoint_directory.directory(dict(params), paths):
        result.append("checkpoint directory")
    return result


def script_name(params: Mapping[str, Any], script: str | None) -> str:
    """Return what the job's processes run. Without a source or repository, only the name of the script is relevant."""
    return (script or "") if params["source"] or params["repository"] else os.path.basename(script or "")


def code_digest(file: BinaryIO) -> str:
    """Return a digest of the contents of an archive of code: of the names, types, modes and contents of its entries."""
    found = hashlib.sha256()
    with tarfile.open(fileobj=file) as archive:
        for member in sorted(archive.getmembers(), key=lambda each: each.name):
            found.update(repr((member.name, member.type, member.mode & 0o100, member.linkname)).encode(errors="surrogateescape"))
            content = archive.extractfile(member) if member.isreg() else None
            while content:
                part = content.read(CHUNK)
                found.update(b"%d " % len(part) + part)
                if not part:
                    break
    return found.hexdigest()


def begin_attempt(paths: directories.Paths, heartbeat_timeout: int) -> None:
    """Record that the attempt of `paths` follows the last attempt, and create the directories of the new attempt.

    Each host of the job calls this function as the job's user. The supervisors of earlier attempts do not take part, because the
    recorded decision names no hosts.
    """
    before = paths.of_attempt(paths.attempt - 1)
    following = records.read_following(before)
    # A host of the last attempt that could not reach the storage ends its processes when it reads the verdict.
    verdict, processes = job_states.read_attempt(before, heartbeat_timeout)
    failure = failed_process.first_failure(processes)
    if failure and verdict is None:
        records.write_new_json(before.verdict, {"state": failure["state"], "failure": failure})
    if not following or following["rule"] != recovery.CONTINUED:
        records.write_json(before.following, decision(before, following, heartbeat_timeout))
    for directory in (paths.logs, paths.status):
        os.makedirs(directory, exist_ok=True)


def decision(before: directories.Paths, following: Following | None, heartbeat_timeout: int) -> Following:
    """Return the decision that replaces the one that has ended the job. The cause of the failure stays in the record."""
    verdict, processes = job_states.read_attempt(before, heartbeat_timeout)
    failure = failed_process.last_failure(processes, verdict)
    found: Following = {"action": recovery.RESTART, "rule": recovery.CONTINUED, "decided": time.time(), "hosts": []}
    if following:
        found = {**following, **found}
    if failure and "failure" not in found:
        started = job_states.participants(processes) or processes
        found["failure"] = {**failure, "ranks": failure["ranks"][:2]}
        found["cause"] = between_attempts.cause_of(failure)
        found["started"] = min(process["started"] for process in started)
        found["ran_on"] = len({process["host"] for process in started})
    for name in ("standby", "replacements", "missing", "set_aside", "damaged", "without_checkpoint"):
        found.pop(name, None)  # type: ignore[misc]
    return found
