# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Determines which packages of Grid Engine are missing on this host."""

from __future__ import annotations

import os

#: Packages for Debian and Ubuntu, with one program of each. A package counts as installed if its program exists. The packages depend on a
#: mail server. Without esmtp-run, which has no daemon, the distribution would install a mail server that runs as a daemon.
PROGRAMS = {
    "/usr/sbin/munged": "munge",
    "/usr/sbin/sendmail": "esmtp-run",
    "/usr/lib/gridengine/sge_execd": "gridengine-exec",
    "/usr/lib/gridengine/qsub": "gridengine-client",
}
CONTROLLER_PROGRAMS = {"/usr/lib/gridengine/sge_qmaster": "gridengine-master"}


def missing_packages(controller: bool) -> list[str]:
    """Return the packages that are missing on this host."""
    programs = {**PROGRAMS, **(CONTROLLER_PROGRAMS if controller else {})}
    return sorted(package for program, package in programs.items() if not os.access(program, os.X_OK))
