# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""EMR releases, and the versions of Amazon Linux that they require. Performs no I/O."""

from __future__ import annotations

import re

RELEASE = re.compile(r"emr-(?:[a-z]+-)?(\d+)\.(\d+)\.(\d+)")
FIRST_WITH_CUSTOM_IMAGES = (5, 7, 0)
# The first release whose master connects to EMR through the security group for service access, if the subnet is private.
FIRST_WITH_SERVICE_RULE = (5, 30, 0)
# The first releases of the lines 5 and 6 with auto-termination. Source: Amazon EMR API Reference, PutAutoTerminationPolicy.
FIRST_WITH_AUTO_TERMINATION = {5: (5, 30, 0), 6: (6, 1, 0)}
FIRST_WITH_LARGER_ROOT = (6, 10, 0)
FIRST_WITH_GP3_ROOT = (6, 15, 0)
# The first release whose volumes for data depend on the size of the instance type.
FIRST_WITH_DATA_VOLUMES = (5, 22, 0)
# GiB. Source: Amazon EMR Management Guide, "Customizing the Amazon EBS root device volume".
LARGEST_ROOT = 100
# The versions of Amazon Linux, and patterns for the names of images that are based on these versions.
AMAZON_LINUX = {
    "Amazon Linux 1": re.compile(r"amzn-ami|amazon[ -]linux(?: ami|\)| 1\b| 201\d)", re.IGNORECASE),
    "Amazon Linux 2": re.compile(r"amzn2-ami|amazon[ -]linux[ -]2\b", re.IGNORECASE),
    "Amazon Linux 2023": re.compile(r"al2023-ami|amazon[ -]linux[ -]2023\b", re.IGNORECASE),
}


def release(label: str | None) -> tuple[int, ...] | None:
    """Return the version numbers in a release label, or None if the label is not in the format of EMR releases."""
    found = RELEASE.fullmatch(label or "")
    return tuple(map(int, found.groups())) if found else None


def has_auto_termination(version: tuple[int, ...]) -> bool:
    return version >= FIRST_WITH_AUTO_TERMINATION[5 if version < (6,) else 6]


def smallest_root(version: tuple[int, ...] | None) -> int:
    """Return the smallest size of root volumes in GiB, which is also the default."""
    return 15 if version and version >= FIRST_WITH_LARGER_ROOT else 10


def amazon_linux(version: tuple[int, ...]) -> str:
    """Return the version of Amazon Linux that a release requires. Source: Amazon EMR Management Guide, "Using a custom AMI"."""
    if version >= (7, 0, 0):
        return "Amazon Linux 2023"
    return "Amazon Linux 2" if version >= (5, 30, 0) else "Amazon Linux 1"


def amazon_linux_of(*texts: str) -> str | None:
    """Return the version of Amazon Linux in the first text that names a version, or None. The texts are an image's name and description."""
    for text in texts:
        for name, pattern in AMAZON_LINUX.items():
            if pattern.search(text):
                return name
    return None
