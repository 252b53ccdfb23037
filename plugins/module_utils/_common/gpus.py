# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads the GPUs of this host with `nvidia-smi -q -x`, for the worker metadata, the queues and the health checks.

Source of the exit statuses and the format: https://docs.nvidia.com/deploy/nvidia-smi/index.html, for drivers 470 and later.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import time
from typing import Any, Callable, NamedTuple, Sequence
from xml.etree import ElementTree

PROGRAM = "nvidia-smi"
QUERY = ("-q", "-x")
# Directories that may be missing from PATH without a login shell.
DIRECTORIES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What nvidia-smi prints about a GPU that no longer responds on the PCI Express bus.
LOST = ("GPU is lost", "Unable to determine the device handle")
# The exit status for a GPU that is not accessible. If the output is complete, all other statuses are only warnings, such as 14 for a
# corrupted infoROM.
INACCESSIBLE = 15
# Seconds for nvidia-smi when a host is configured. Without the persistence daemon, it needs up to 30 s for eight GPUs.
PATIENCE = 120.0
# The command that lists the GPUs for hosts that are inspected without Python, and its time limit in seconds.
LIST = f"timeout {PATIENCE:.0f} {PROGRAM} -L"

METADATA = "/opt/deeplearning/metadata.json"


class GpuQuery(NamedTuple):
    """What nvidia-smi has printed about the GPUs of this host.

    `elements` contains one XML element per GPU. `error` is what nvidia-smi printed if the driver or a GPU does not respond, and `warnings`
    are all other lines outside the XML document. `seconds` is the duration.
    """

    is_installed: bool
    elements: Sequence[ElementTree.Element] = ()
    error: str = ""
    warnings: Sequence[str] = ()
    seconds: float = 0.0


def query(limit: float | None = None) -> GpuQuery:
    """Return what nvidia-smi prints about the GPUs. After `limit` seconds, nvidia-smi is killed, which is an error.

    Raises ValueError if the output is incomplete although nvidia-smi reports success.
    """
    program = shutil.which(PROGRAM, path=DIRECTORIES)
    if program is None:
        return GpuQuery(False)
    start = time.monotonic()
    process = subprocess.Popen([program, *QUERY], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, error = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        _abandon(process)
        return GpuQuery(True, error=f"no answer within {limit:g} s")
    found = interpret(output.decode("utf-8", "replace"), error.decode("utf-8", "replace"), process.returncode)
    return found._replace(seconds=time.monotonic() - start)


def _abandon(process: subprocess.Popen[bytes]) -> None:
    """Kill a process. A process that waits for a broken GPU may never end, so nothing waits long for it."""
    process.kill()
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1)


def interpret(output: str, error: str, status: int) -> GpuQuery:
    """Return what nvidia-smi has printed. Raises ValueError if the output is incomplete although the status is 0.

    Lines before or after the XML document are warnings, whichever stream they are on. Users choose the names of processes, so the text of a
    document that cannot be parsed is ignored.
    """
    before, document, after = _split(output)
    try:
        elements = ElementTree.fromstring(document).findall("gpu")
    except ElementTree.ParseError:
        lines = _lines(before, error)
        lost = next(filter(is_lost, lines), "")
        if not status and document and not lost:
            raise ValueError(f"the output of {PROGRAM} is incomplete") from None
        return GpuQuery(True, error=lost or next(iter(lines), f"exit status {status}"))
    lines = _lines(before, after, error)
    lost = next(filter(is_lost, lines), "")
    if lost:
        return GpuQuery(True, elements, lost, [line for line in lines if line != lost])
    if status == INACCESSIBLE:
        return GpuQuery(True, elements, f"exit status {status}", lines)
    return GpuQuery(True, elements, warnings=lines or ([f"exit status {status}"] if status else []))


def _lines(*texts: str) -> list[str]:
    return [line.strip() for text in texts for line in text.splitlines() if line.strip()]


def is_lost(text: str) -> bool:
    """Return whether nvidia-smi says that a GPU no longer responds on the PCI Express bus."""
    return any(words in text for words in LOST)


def _split(output: str) -> tuple[str, str, str]:
    """Return the text before the XML document, the document, and the text after it."""
    start = re.search(r"<\?xml|<nvidia_smi_log", output)
    if not start:
        return output, "", ""
    before, rest = output[: start.start()], output[start.start() :]
    document, end, after = rest.rpartition("</nvidia_smi_log>")
    return (before, document + end, after) if end else (before, rest, "")


def count(known: int, warn: Callable[[str], None]) -> int:
    """Return the number of GPUs that jobs can use on this host. `known` is the number at the last configuration.

    A smaller number than before is the sign of a fault, so the number stays, and `warn` gets the reason.
    """
    try:
        found = query(PATIENCE)
    except ValueError as problem:
        found = GpuQuery(True, error=str(problem))
    number, error = len(found.elements), found.error or ("" if found.is_installed else "is not installed")
    if number < known:
        said = f"{PROGRAM}: {error}" if error else f"GPUs: {PROGRAM} lists {number}"
        warn(
            f"{said}. This host had {known} GPUs when it was configured, and keeps this number. To find the fault, run"
            " deeplearning.cluster.health. If GPUs were removed on purpose, delete metadata.json on the host, and run"
            " deeplearning.cluster.configure."
        )
        return known
    if found.error:
        treated = f"has {number} GPUs" if number else "has no GPUs"
        warn(f"{PROGRAM}: {error}. Jobs are started as if this host {treated}. Correct the cause, and run deeplearning.cluster.configure.")
    return number


def count_listed(listing: str) -> int:
    """Return the number of GPUs in the output of `LIST`. MIG devices, which are on indented lines, are not counted."""
    return sum(line.startswith("GPU ") for line in listing.splitlines())


def configured_count() -> int:
    """Return the number of GPUs in the metadata of this host, or 0 if the host has no metadata."""
    with contextlib.suppress(OSError), open(METADATA, encoding="utf-8", errors="replace") as file:
        return known_count(file.read())
    return 0


def known_count(text: str | None, address: str = "") -> int:
    """Return the number of GPUs in the text of metadata.json, or 0 if it has none.

    With an `address`, only the metadata of the host with this address counts, because an image can contain the metadata of another host.
    """
    try:
        document: Any = json.loads(text or "")
        own = [worker["address"] for worker in document["workers"] if worker["number"] == document["number"]]
        return int(document["gpu_count"]) if not address or own == [address] else 0
    except (ValueError, KeyError, TypeError):
        return 0
