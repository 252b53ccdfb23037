"""Checkpoints that are complete or missing, with digests and retention, and a handler for the stop signal. Needs no framework.

Copy this file into your own code, or ignore it: docs/jobs.md describes the rules that it implements. Only one process of a job saves.
"""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable
from pathlib import Path


class Checkpoints:
    """The checkpoints in a directory, such as `epoch-0007.pt`. Keeps all of them, or the newest `keep`."""

    def __init__(self, directory: Path, suffix: str = ".pt", keep: int = 0) -> None:
        self.directory, self.suffix, self.keep = directory, suffix, keep

    def all(self) -> list[Path]:
        """Return the complete checkpoints, newest first."""
        return sorted(self.directory.glob(f"epoch-*[0-9]{self.suffix}"), key=lambda path: int(path.stem.split("-")[1]), reverse=True)

    def newest(self) -> Path | None:
        """Return the newest checkpoint whose digest is correct. Call this in all processes before one of them saves."""
        return next(filter(is_intact, self.all()), None)

    def save(self, epoch: int, write: Callable[[Path], object]) -> None:
        """Save a checkpoint with `write`, which gets the path of a temporary file, and delete the oldest checkpoints."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"epoch-{epoch:04d}{self.suffix}"
        temporary, digest = path.with_name(path.name + ".tmp"), path.with_name(path.name + ".sha256.tmp")
        write(temporary)
        digest.write_text(f"{sha256(temporary)}  {path.name}\n")
        for each in (digest, temporary):  # the digest first, so that a checkpoint always has one
            synchronize(each)
            each.replace(each.with_suffix(""))
        synchronize(self.directory)
        for old in self.all()[self.keep :] if self.keep else []:
            old.unlink()
            old.with_name(old.name + ".sha256").unlink(missing_ok=True)


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def is_intact(path: Path) -> bool:
    """Return whether the file has the digest in the file beside it. A file without a digest counts as intact."""
    digest = path.with_name(path.name + ".sha256")
    return not digest.exists() or digest.read_text().split()[:1] == [sha256(path)]


def synchronize(path: Path) -> None:
    """Wait until the storage has the contents of a file or directory."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


class StopSignal:
    """Remembers SIGTERM, so that the script can complete a checkpoint and then exit with STATUS."""

    STATUS = 128 + signal.SIGTERM

    def __init__(self) -> None:
        self.received = False
        signal.signal(signal.SIGTERM, self._receive)

    def _receive(self, *_signal: object) -> None:
        self.received = True
