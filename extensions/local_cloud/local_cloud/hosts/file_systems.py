"""EFS and Lustre file systems: folders on this machine that the mount helpers of hosts find by server name."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from .podman import TIMEOUT, as_root, remove_as_root


class FileSystems:
    """The folder that contains all file systems of a local cloud. `.servers/<server>` contains the ID of the file system that a server
    exports.

    `<server>` is the DNS name or address of an EFS mount target, or a Lustre file system's `DNS name@tcp:mount name`.
    `.access/<id>` contains the actions that clients may perform, as JSON.
    `root` is the user ID that root on hosts has on this machine.
    """

    MOUNTED_AT = "/srv/local-cloud/file-systems"

    def __init__(self, folder: Path, root: int = 0) -> None:
        self.folder = folder
        self._root = root
        self._servers, self._access = folder / ".servers", folder / ".access"
        for each in (self._servers, self._access):
            each.mkdir(parents=True, exist_ok=True)
            each.chmod(0o755)
        # Hosts see all file systems of the local cloud in this folder. The folder's mode gives unprivileged users on hosts access only to
        # mounts.
        if root and folder.stat().st_gid != root:
            subprocess.run(as_root("chgrp", str(root), str(folder)), check=True, timeout=TIMEOUT)
        folder.chmod(0o750 if root else 0o700)
        self._lock = threading.Lock()

    def export(self, file_system_id: str, servers: Collection[str], access: Mapping[str, Any]) -> None:
        """Export the file system from exactly these servers."""
        with self._lock:
            self._create(file_system_id)
            _write(self._access / file_system_id, json.dumps(access))
            for server in self._served_by(file_system_id) - set(servers):
                (self._servers / server).unlink()
            for server in servers:
                _write(self._servers / server, file_system_id)

    def delete(self, file_system_id: str) -> None:
        """Delete a file system and its data. An unknown file system is ignored."""
        with self._lock:
            for server in self._served_by(file_system_id):
                (self._servers / server).unlink()
            (self._access / file_system_id).unlink(missing_ok=True)
            remove_as_root(self.folder / file_system_id)

    def _create(self, file_system_id: str) -> None:
        root = self.folder / file_system_id
        if not root.exists():
            # The owner and mode of a new EFS file system.
            owner = (f"--owner={self._root}", f"--group={self._root}")
            subprocess.run(as_root("install", "--directory", *owner, "--mode=755", str(root)), check=True, timeout=TIMEOUT)

    def _served_by(self, file_system_id: str) -> set[str]:
        return {path.name for path in self._servers.iterdir() if path.read_text() == file_system_id}


def _write(path: Path, text: str) -> None:
    """Write a file that hosts read. The file is replaced atomically."""
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_text(text)
    unfinished.chmod(0o644)
    os.replace(unfinished, path)
