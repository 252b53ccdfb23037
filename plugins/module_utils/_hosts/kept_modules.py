# Copyright: Contributors to the deeplearning.cluster project
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
# Seconds after which the files of the same module that come from other controllers or versions are deleted.
UNUSED = 24 * 3600


def use(folder: str) -> None:
    """Let Python import from the kept files of a module. If they are not there, exit with an answer that says so."""
    if not os.path.isdir(folder):
        print(json.dumps({"failed": True, "msg": f"The files of the module are not in {folder}.", "files_missing": True}))
        sys.exit(0)
    sys.path.insert(0, folder)


def keep(folder: str) -> None:
    """Keep the files of the module that is running. Without space for them, or if another task keeps them, do nothing."""
    above, name = os.path.split(folder)
    before = os.umask(0o022)  # other users must be able to read what else is in /run/deeplearning
    with contextlib.suppress(OSError):
        os.makedirs(above, exist_ok=True)
        for other in os.scandir(above):
            if other.name.split("-")[0] == name.split("-")[0] and other.stat().st_mtime < time.time() - UNUSED:
                shutil.rmtree(other.path, ignore_errors=True)
        new = tempfile.mkdtemp(dir=above, prefix=f"{name}-")
        try:
            with zipfile.ZipFile(sys.path[0]) as archive:
                archive.extractall(new, [each for each in archive.namelist() if each.endswith(".py") and each != "sitecustomize.py"])
            os.rename(new, folder)
        except OSError:
            shutil.rmtree(new, ignore_errors=True)
            raise
    os.umask(before)
