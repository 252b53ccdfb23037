# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Keeps the files of Ansible modules on a host, until it reboots.

The controller puts this file in front of the package `ansible` in what Ansible sends (`plugin_utils/built_modules.py`). Therefore, this
file runs before all others, as root, and imports only the standard library.
"""

import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
import zipfile

FOLDER = "/run/deeplearning/modules"
# Seconds after which files of the same module that nobody has used are deleted. They come from other controllers or versions.
UNUSED = 24 * 3600
# The part of the file system, which is in memory, that must be free.
FREE = 0.25


def use(folder: str) -> None:
    """Let Python import from the kept files of a module. If they cannot be used, exit with an answer that says so."""
    try:
        for path in (os.path.dirname(folder), folder):
            _refuse_files_of_others(path)
        os.utime(folder)
        open(os.path.join(folder, "ansible", "__init__.py"), "rb").close()
    except OSError as error:
        print(json.dumps({"failed": True, "msg": f"The files of the module cannot be used: {error}", "files_missing": True}))
        sys.exit(0)
    sys.path.insert(0, folder)


def keep(folder: str) -> None:
    """Keep the files of the module that is running. If that is not possible, or another task keeps them, do nothing."""
    umask = os.umask(0o022)  # other users must be able to read what else is in /run/deeplearning
    try:
        with contextlib.suppress(Exception):  # the module itself does not need the files
            _keep(folder)
    finally:
        os.umask(umask)


def _keep(folder: str) -> None:
    above, name = os.path.split(folder)
    os.makedirs(above, exist_ok=True)
    _refuse_files_of_others(above)
    _delete_unused(above, name.split("-")[0])
    space = os.statvfs(above)
    if os.path.exists(folder) or space.f_bavail < FREE * space.f_blocks:
        return
    new = tempfile.mkdtemp(dir=above, prefix=name + "-")
    try:
        with zipfile.ZipFile(sys.path[0]) as archive:
            archive.extractall(new, [each for each in archive.namelist() if each.endswith(".py") and each != "sitecustomize.py"])
        os.rename(new, folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _delete_unused(above: str, module: str) -> None:
    """Delete other files of the module, except those that were used last if that is less than a day ago."""
    others = [each for each in os.scandir(above) if each.name.split("-")[0] == module]
    others.sort(key=lambda each: each.stat().st_mtime, reverse=True)
    for number, other in enumerate(others):
        if number or other.stat().st_mtime < time.time() - UNUSED:
            shutil.rmtree(other.path, ignore_errors=True)


def _refuse_files_of_others(path: str) -> None:
    """Raise PermissionError if others could have written what this process, as root, would run."""
    found = os.stat(path)
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise PermissionError(f"others can write to {path}")
