# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The records of set-up steps on a host. All files belong to root, and no other user can read or change them."""

from __future__ import annotations

import os
from typing import Any, Mapping

from ..._files import read_object

# The directory of the records. Users who run steps can traverse the directory, because it also contains the scripts of running steps.
STATE = "/var/lib/deeplearning-node-setup"

RECORDS, WORK = os.path.join(STATE, "records"), os.path.join(STATE, "work")
LOGS = "/var/log/deeplearning-node-setup"

SUCCEEDED = "succeeded"


def record_path(digest: str) -> str:
    return os.path.join(RECORDS, f"{digest}.json")


def has_succeeded(record: Mapping[str, Any]) -> bool:
    return record.get("state") == SUCCEEDED


def missing(digests: Mapping[str, str]) -> list[str]:
    """Return the descriptions of the steps that have not succeeded on this host.

    `digests` maps the digest of each step to the step's description.
    """
    return [description for digest, description in digests.items() if not has_succeeded(read_object(record_path(digest)))]
