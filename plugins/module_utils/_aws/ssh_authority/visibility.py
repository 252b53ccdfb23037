# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Waits until Parameter Store, which is eventually consistent, returns what a run has stored or found before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from ..client import AwsClient

VISIBLE_TIMEOUT = 60  # seconds


class Versioned(Protocol):
    """What has the version of a parameter."""

    @property
    def version(self) -> int: ...


T = TypeVar("T", bound=Versioned)


def wait_for_version(cloud: AwsClient, name: str, version: int, read: Callable[[], T | None]) -> T:
    """Return what `read` returns for the parameter `name` as soon as it has at least this version. Raises WaitTimeout."""

    def visible() -> T | None:
        found = read()
        return found if found and found.version >= version else None

    return cloud.wait_until(f"version {version} of the parameter {name} to become visible", visible, VISIBLE_TIMEOUT)
