# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Keeps the modules of this collection as Ansible has built them, for later runs.

To build a module for hosts, Ansible parses all files that the module imports. For `training_job`, this takes 0.6 s of a processor. Ansible
keeps what it has built in a temporary folder, for the rest of the run.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ansible import constants
from ansible.plugins.loader import module_utils_loader
from ansible.release import __version__ as ansible_version

PLUGINS = Path(__file__).parents[1]
# Seconds after which modules that were built from other files are deleted.
UNUSED = 7 * 24 * 3600


@contextlib.contextmanager
def kept_module(name: str) -> Iterator[None]:
    """Within this context, Ansible uses the module of an earlier run, if its files are the same, or builds one for later runs.

    If the folder cannot be used, Ansible builds the module as usual.
    """
    files = f"ansible_collections.{name.rpartition('.')[0]}.plugins.modules.{name.rpartition('.')[2]}-*-none"
    temporary = Path(constants.DEFAULT_LOCAL_TMP, "ansiballz_cache")
    with contextlib.suppress(OSError):
        temporary.mkdir(exist_ok=True)
        for kept in own_folder().glob(files):
            (temporary / kept.name).symlink_to(kept)
    yield
    with contextlib.suppress(OSError):
        for built in temporary.glob(files):
            if not (own_folder() / built.name).exists():
                with tempfile.NamedTemporaryFile(dir=own_folder(), delete=False) as copy:
                    copy.write(built.read_bytes())
                os.replace(copy.name, own_folder() / built.name)


def own_folder() -> Path:
    """Return the folder for modules that are built from the current files. Raises PermissionError if others could write to it.

    What is in the folder runs as root on hosts.
    """
    above = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "deeplearning.cluster", "modules")
    folder = above / digest()
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for other in above.iterdir():
            if other.stat().st_mtime < time.time() - UNUSED:
                shutil.rmtree(other, ignore_errors=True)
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise PermissionError(folder)
    return folder


@cache
def digest() -> str:
    """Return a digest of the versions of Ansible and Python, and of the times and sizes of all files that modules can import."""
    result = hashlib.sha256(f"{ansible_version} {sys.version} {PLUGINS}".encode())
    for base in (str(PLUGINS / "modules"), str(PLUGINS / "module_utils"), *module_utils_loader.print_paths().split(os.pathsep)):
        for folder, folders, names in os.walk(base):
            folders[:] = sorted(set(folders) - {"__pycache__"})
            for name in sorted(names):
                found = os.lstat(os.path.join(folder, name))
                result.update(f"{folder}/{name} {found.st_mtime_ns} {found.st_size}\n".encode())
    return result.hexdigest()[:32]
