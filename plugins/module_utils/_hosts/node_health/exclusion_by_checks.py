# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Makes and ends the exclusions of this host according to the results of health checks."""

from __future__ import annotations

import contextlib
import re
from typing import Callable, Iterable, Mapping, Sequence
from xml.etree import ElementTree

from ..._common import gpus
from ..._common.node_health.check import REBOOT, REPLACE, Check, HealthFinding, is_unhealthy
from ..._job import exclusions
from .run import is_failure

# The bus and the device in the PCI address of a GPU. The kernel and nvidia-smi write the domain and the function differently.
ADDRESS = re.compile(r"\b[0-9A-Fa-f]{4,8}:([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})\b")
# Seconds for nvidia-smi to list the GPUs.
LISTING = 10.0


def requires_exclusion(finding: HealthFinding) -> bool:
    """Return whether jobs must not use the host until the check passes. A restart of the job does not help."""
    return finding.severity in (REBOOT, REPLACE)


def update(instance: str, checks: Sequence[Check], findings: Sequence[HealthFinding], now: float) -> exclusions.Memory:
    """Exclude this host for each check that requires it, end the exclusions of the checks that pass, and return all exclusions."""
    faulty = find_faulty(findings, now)
    return change(instance, lambda memory: with_faulty(without_passed(memory, checks, findings), faulty))[1]


def change(
    instance: str, changed: Callable[[exclusions.Memory], exclusions.Memory], check_mode: bool = False, is_optional: bool = True
) -> tuple[exclusions.Memory, exclusions.Memory]:
    """Change the exclusions of this host, and return the exclusions before and after the change.

    Programs that change the exclusions at the same time wait for each other. If `is_optional` is true, exclusions that cannot be stored are
    no error. Otherwise, raises OSError. Check mode changes nothing.
    """
    with contextlib.nullcontext() if check_mode else exclusions.locked():
        before = exclusions.read(instance)
        memory = changed(before)
        if memory != before and not check_mode:
            if is_optional:
                store(memory)
            else:
                exclusions.write(memory)
    return before, memory


def store(memory: exclusions.Memory) -> None:
    """Write the exclusions if the disk allows it.

    A host with a full or read-only disk must still report its findings, and its checks exclude it again in the next run.
    """
    with contextlib.suppress(OSError):
        exclusions.write(memory)


def without_passed(
    memory: exclusions.Memory, checks: Sequence[Check], findings: Sequence[HealthFinding], by_person: bool = False
) -> exclusions.Memory:
    """Return the exclusions without those of the checks that pass.

    A check that could not run has not passed, nor have the checks that share its reading. If the check requires it, only the next boot or a
    person (`by_person`) ends the exclusion.
    """
    failed = {finding.check for finding in findings if is_unhealthy(finding.severity) or is_failure(finding)}
    readings = [check.read for check in checks if check.name in failed]
    passed = {check.name for check in checks if check.name not in failed and check.read not in readings}
    return exclusions.after_checks(memory, passed if by_person else passed - set(_until_boot(memory, checks)))


def find_remembered(memory: exclusions.Memory, checks: Sequence[Check], findings: Sequence[HealthFinding]) -> list[HealthFinding]:
    """Return a finding for each exclusion that lasts until the next boot although its check has no such finding any more."""
    found = {finding.check for finding in findings if requires_exclusion(finding)}
    return [HealthFinding(name, each.severity, each.reason) for name, each in _until_boot(memory, checks).items() if name not in found]


def _until_boot(memory: exclusions.Memory, checks: Sequence[Check]) -> dict[str, exclusions.Exclusion]:
    """Return the exclusions that last until the next boot, by the names of the checks that have made them."""
    names, boot = {check.name for check in checks if check.until_boot}, current_boot()
    return {each.by: each for each in memory.exclusions if each.by in names and each.boot == boot}


def current_boot() -> str:
    """Return a string that identifies the current boot of this host. A container has the kernel's boot ID and its own first process."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        kernel = file.read().strip()
    with open("/proc/1/stat", encoding="utf-8", errors="replace") as file:
        return f"{kernel}:{file.read().rpartition(')')[2].split()[19]}"


def find_faulty(findings: Sequence[HealthFinding], now: float) -> list[exclusions.Exclusion]:
    """Return an exclusion for each check whose findings require it. This takes some seconds if nvidia-smi is slow."""
    faulty = [finding for finding in findings if requires_exclusion(finding)]
    known = list_gpus() if any(ADDRESS.search(finding.message) for finding in faulty) else {}
    found = []
    for name in dict.fromkeys(finding.check for finding in faulty):
        own = [finding for finding in faulty if finding.check == name]
        messages, severity = [finding.message for finding in own], REPLACE if any(each.severity == REPLACE for each in own) else REBOOT
        found.append(exclusions.Exclusion(name, messages[0], now, gpus_in(messages, known), severity, current_boot()))
    return found


def with_faulty(memory: exclusions.Memory, faulty: Iterable[exclusions.Exclusion]) -> exclusions.Memory:
    for exclusion in faulty:
        memory = exclusions.exclude(memory, exclusion)
    return memory


def gpus_in(messages: Iterable[str], known: Mapping[str, str]) -> tuple[str, ...]:
    """Return the UUIDs of the GPUs whose PCI addresses are in the messages. Unknown GPUs are left out."""
    addresses = (match[1].lower() for message in messages for match in ADDRESS.finditer(message))
    return tuple(dict.fromkeys(known[address] for address in addresses if address in known))


def list_gpus() -> dict[str, str]:
    """Return the UUIDs of the GPUs that nvidia-smi lists, by the bus and the device in their PCI addresses."""
    with contextlib.suppress(OSError, ValueError):
        return uuids(gpus.query(LISTING).elements)
    return {}


def uuids(elements: Iterable[ElementTree.Element]) -> dict[str, str]:
    """Return the UUIDs in the entries of `nvidia-smi -q -x`, by the bus and the device in the GPUs' PCI addresses."""
    found = {}
    for element in elements:
        match, uuid = ADDRESS.search(element.get("id", "")), (element.findtext("uuid") or "").strip()
        if match and re.fullmatch(r"[A-Za-z0-9-]{1,64}", uuid):
            found[match[1].lower()] = uuid
    return found
