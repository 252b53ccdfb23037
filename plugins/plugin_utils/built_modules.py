# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Keeps the modules of this collection as Ansible has built them, on the controller and on hosts, for later tasks and runs.

To build a module for hosts, Ansible parses all files that the module imports. For `training_job`, this takes 0.6 s of a processor. Ansible
keeps what it has built in a temporary folder, for the rest of the run. Then it sends all files to each host in each task, where Python
compiles them: 640 kB for `training_job`.

Here, Ansible has two versions of each module. The whole one also leaves its files on the host. The short one, of 6 kB, uses these files.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import inspect
import io
import os
import pickle
import shutil
import sys
import time
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ansible import constants
from ansible.plugins.loader import module_utils_loader
from ansible.release import __version__ as ansible_version

from ..module_utils._common import kept_modules
from ..module_utils._files import replace_file

PLUGINS = Path(__file__).parents[1]
# Seconds after which modules that were built from other files are deleted.
UNUSED = 7 * 24 * 3600
# The versions of a module, by the compression by which Ansible tells them apart.
WHOLE, SHORT = "ZIP_DEFLATED", "ZIP_STORED"
FIRST = "ansible/__init__.py"


@contextlib.contextmanager
def kept_module(name: str) -> Iterator[list[str]]:
    """Within this context, Ansible uses the module of an earlier run, if its files are the same, or builds one for later runs.

    Returns the versions of the module, the shortest first. If the folder cannot be used, Ansible builds the whole version as usual.
    """
    folder, _dot, module = name.rpartition(".")
    files = {each: f"ansible_collections.{folder}.plugins.modules.{module}-{each}-none" for each in (WHOLE, SHORT)}
    temporary = Path(constants.DEFAULT_LOCAL_TMP, "ansiballz_cache")
    with contextlib.suppress(OSError):
        temporary.mkdir(exist_ok=True)
        for file in files.values():
            if not (temporary / file).exists():
                _link(file, temporary)
    yield [SHORT, WHOLE] if (temporary / files[SHORT]).exists() else [WHOLE]
    with contextlib.suppress(Exception):  # the module has run. Another version of ansible-core may build other files
        built = (temporary / files[WHOLE]).read_bytes()  # before the link replaces it
        if not (temporary / files[WHOLE]).is_symlink():
            for version, content in versions(module, built).items():
                replace_file(own_folder() / files[version], content)
                _link(files[version], temporary)


def versions(module: str, built: bytes) -> dict[str, bytes]:
    whole = pickle.loads(built)
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(whole.zip_data))) as archive:
        digest = hashlib.sha256(repr([(each.filename, each.CRC) for each in archive.infolist()]).encode()).hexdigest()[:16]
        folder = f"{kept_modules.FOLDER}/{module}-{digest}"
        contents = {each.filename: archive.read(each) for each in archive.infolist()}
    first, code = contents.pop(FIRST), inspect.getsource(kept_modules)

    def version(call: str, others: dict[str, bytes]) -> bytes:
        zipped = io.BytesIO()
        with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in {FIRST: f"{code}\n\n{call}({folder!r})\n".encode() + first, **others}.items():
                archive.writestr(name, content)
        return pickle.dumps(dataclasses.replace(whole, zip_data=base64.b64encode(zipped.getvalue())))

    return {WHOLE: version("keep", contents), SHORT: version("use", {})}


def _link(name: str, temporary: Path) -> None:
    """Let Ansible use a module in the own folder, if it is there. Other tasks may be about to read the file that the link replaces."""
    if (own_folder() / name).exists():
        link = temporary / f"{name}.{os.getpid()}"
        link.symlink_to(own_folder() / name)
        link.replace(temporary / name)


def own_folder() -> Path:
    """Return the folder for modules that are built from the current files. Raises PermissionError if others could write to it.

    What is in the folder runs as root on hosts.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "deeplearning.cluster")
    above, folder = base / "modules", base / "modules" / digest()
    if not folder.is_dir():
        base.mkdir(parents=True, exist_ok=True)
        for each in (above, folder):
            each.mkdir(mode=0o700, exist_ok=True)
        for other in above.iterdir():
            if other.stat().st_mtime < time.time() - UNUSED:
                shutil.rmtree(other, ignore_errors=True)
    for each in (above, folder):
        found = each.stat()
        if found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise PermissionError(each)
    return folder


@cache
def digest() -> str:
    """Return a digest of the versions of Ansible and Python, and of the times and sizes of all files that modules can import.

    Images for containers can give all files the same time of modification.
    """
    result = hashlib.sha256(f"{ansible_version} {sys.version} {PLUGINS}".encode())
    for base in (str(PLUGINS / "modules"), str(PLUGINS / "module_utils"), *module_utils_loader.print_paths().split(os.pathsep)):
        for folder, folders, names in os.walk(base):
            folders[:] = sorted(set(folders) - {"__pycache__"})
            for name in sorted(names):
                found = os.lstat(os.path.join(folder, name))
                result.update(f"{folder}/{name} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_size}\n".encode())
    return result.hexdigest()[:32]
