# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Exclusions: the reasons why jobs must not use a host.

Each host keeps its own exclusions in a file that belongs to root. The file contains the ID of the EC2 instance, so a new instance starts
without exclusions, even if its disk is a copy. Only the health check that made an exclusion, or a person, can end the exclusion.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from typing import Any, Collection, Iterable, Iterator, Mapping, NamedTuple

from . import failure_causes, schema

PATH = "/var/lib/deeplearning-node-health/exclusions.json"
# The user ID of root, who must own the file.
OWNER = 0

# Who made an exclusion, if not a health check: a person, or the job's supervisors. No health check has one of these names.
PERSON, RECOVERY = "person", "recovery"

# Maximum number of exclusions of a host, and of GPUs of an exclusion. Maximum number of characters in a reason.
EXCLUSIONS_LIMIT, GPUS_LIMIT, REASON_LIMIT = 64, 64, 500

INSTANCE = re.compile(r"i-[0-9a-f]{8,17}")

EXCLUSION: schema.Schema = {
    "by": schema.text(64, r"[A-Za-z0-9][A-Za-z0-9._-]*", "the name of a check"),
    "reason": schema.text(REASON_LIMIT),
    "since": schema.seconds(),
    "gpus": schema.list_of(schema.text(64, r"[A-Za-z0-9-]+", "the UUID of a GPU"), GPUS_LIMIT),
    "severity": schema.lenient(schema.one_of("", failure_causes.REBOOT, failure_causes.REPLACE)),
    "boot": schema.lenient(schema.text(64, r"[0-9a-f:-]*", "the ID of a boot")),
}
MEMORY: schema.Schema = {
    "instance": schema.text(19, f"({INSTANCE.pattern})?", "the ID of an instance"),
    "exclusions": schema.list_of(schema.mapping(EXCLUSION), EXCLUSIONS_LIMIT),
    "included": schema.seconds(),
}


class Exclusion(NamedTuple):
    """Why jobs must not use a host.

    `by` is the name of a health check, `PERSON` or `RECOVERY`. `gpus` contains the UUIDs of faulty GPUs. If a check has made the exclusion,
    `severity` is the severity of its finding, and `boot` identifies the last boot before its last finding.
    """

    by: str
    reason: str
    since: float
    gpus: tuple[str, ...] = ()
    severity: str = ""
    boot: str = ""


class Memory(NamedTuple):
    """The exclusions of a host. `instance` is the ID of the EC2 instance, or an empty string outside AWS.

    Failures before `included`, the last time at which a person included the host, do not count.
    """

    instance: str
    exclusions: tuple[Exclusion, ...] = ()
    included: float = 0.0


def read(instance: str) -> Memory:
    """Return the exclusions of this host. A file that does not belong to root, is not valid, or is about a different instance is ignored.

    An instance ID that is not valid counts as an empty string, because names of hosts outside AWS are no evidence of a new host.
    """
    instance = instance if INSTANCE.fullmatch(instance) else ""
    try:
        with schema.open_regular(PATH) as file:
            status = os.fstat(file.fileno())
            if status.st_uid != OWNER or status.st_mode & 0o022:
                return Memory(instance)
            found = schema.conform(schema.parse_document(file.read(schema.FILE_LIMIT + 1)), MEMORY)
    except (OSError, ValueError):
        return Memory(instance)
    if found["instance"] != instance:
        return Memory(instance)
    valid = (schema.conform(each, EXCLUSION) for each in found["exclusions"])
    read_exclusions = tuple(Exclusion(**{**each, "gpus": tuple(each["gpus"])}) for each in valid)
    return Memory(instance, read_exclusions, found["included"])


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Hold the lock under which the exclusions of this host are read and changed. Only root can open the lock's file."""
    path = os.path.join(os.path.dirname(PATH), "lock")
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # on a disk on which the file cannot be created, the exclusions cannot be changed either
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def write(memory: Memory) -> None:
    """Replace the file with the exclusions atomically. Everyone can read the file."""
    document = {
        "instance": memory.instance,
        "exclusions": [each._asdict() for each in memory.exclusions],
        "included": memory.included,
    }
    schema.replace_document(PATH, document)


def exclude(memory: Memory, exclusion: Exclusion) -> Memory:
    """Return the exclusions with one more. Another exclusion with the same `by` is replaced, but the time of the first one is kept."""
    by_maker = {each.by: each for each in memory.exclusions}
    first = min(exclusion.since, by_maker.get(exclusion.by, exclusion).since)
    by_maker[exclusion.by] = exclusion._replace(since=first, reason=exclusion.reason[:REASON_LIMIT], gpus=exclusion.gpus[:GPUS_LIMIT])
    return memory._replace(exclusions=tuple(by_maker.values())[:EXCLUSIONS_LIMIT])


def include(memory: Memory, now: float) -> Memory:
    """Return the exclusions after a person has included the host. The exclusions of health checks stay."""
    left = tuple(each for each in memory.exclusions if each.by not in (PERSON, RECOVERY))
    return memory._replace(exclusions=left, included=now)


def after_checks(memory: Memory, passed: Collection[str]) -> Memory:
    """Return the exclusions without those made by health checks that have passed."""
    checks = set(passed) - {PERSON, RECOVERY}
    return memory._replace(exclusions=tuple(each for each in memory.exclusions if each.by not in checks))


def describe(exclusion: Mapping[str, Any]) -> str:
    moment = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(exclusion["since"]))
    by = {PERSON: "by a person", RECOVERY: "after repeated failures of jobs"}.get(exclusion["by"], f"by the check {exclusion['by']}")
    gpus = f" ({', '.join(exclusion['gpus'][:3])})" if exclusion["gpus"] else ""
    return f"since {moment} {by}: {exclusion['reason'].rstrip('.')}{gpus}."


def describe_all(exclusions: Iterable[Exclusion], with_checks: bool = True) -> str:
    """Return the descriptions of all exclusions of a host, or an empty string if there are none.

    If `with_checks` is false, the exclusions of health checks are left out.
    """
    return " ".join(describe(each._asdict()) for each in exclusions if with_checks or each.by in (PERSON, RECOVERY))
