# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Determines which packages of a queue are missing on this host, and whether its distribution contains them."""

from __future__ import annotations

import glob
import os
import re
from typing import Collection, Mapping

from ..._common.managed_files import THIS
from ..services import ServiceError

OS_RELEASE = "/etc/os-release"


def missing(programs: Mapping[str, str]) -> list[str]:
    """Return the packages that are missing on this host. `programs` maps the path of a program or library to the name of its package.

    A package counts as installed if its program exists. Paths of libraries are patterns.
    """
    return sorted(package for path, package in programs.items() if not any(_is_usable(each) for each in glob.glob(path)))


def _is_usable(path: str) -> bool:
    return os.access(path, os.R_OK if path.endswith(".so") else os.X_OK)


def distribution(release: str) -> tuple[str, bool]:
    """Return the name of the distribution from the contents of os-release, and whether its repositories contain Slurm and Grid Engine."""
    values = dict(re.findall(r'^([A-Z_]+)="?([^"\n]*)"?$', release, re.MULTILINE))
    families = {values.get("ID", ""), *values.get("ID_LIKE", "").split()}
    return values.get("PRETTY_NAME") or values.get("ID") or "this distribution", bool(families & {"debian", "ubuntu"})


def check_available(packages: Collection[str], title: str) -> None:
    """Raise ServiceError if packages are missing and the distribution of this host does not contain them."""
    name, has_packages = distribution(THIS.read(OS_RELEASE) or "")
    if packages and not has_packages:
        raise ServiceError(
            f"the repositories of {name} do not contain {title}. Use Debian or Ubuntu, or an image with the programs of "
            f"{', '.join(packages)}."
        )
