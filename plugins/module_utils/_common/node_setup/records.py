# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The records of set-up steps on a host. All files belong to root, and no other user can read or change them."""

from __future__ import annotations

import json
import os
from typing import Any, Mapping

# The directory of the records. Users who run steps can traverse the directory, because it also contains the scripts of running steps.
STATE = "/var/lib/deeplearning-node-setup"

RECORDS, WORK = os.path.join(STATE, "records"), os.path.join(STATE, "work")
LOGS = "/var/log/deeplearning-node-setup"

SUCCEEDED = "succeeded"


def record_path(digest: str) -> str:
    return os.path.join(RECORDS, f"{digest}.json")


def parse(text: str) -> dict[str, Any]:
    """Return the record or the progress in `text`, or an empty dictionary if `text` is malformed."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def read(path: str) -> dict[str, Any]:
    """Return the record or progress at a path, or an empty dictionary if the file does not exist or is damaged."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse(file.read())
    except FileNotFoundError:
        return {}


def has_succeeded(record: Mapping[str, Any]) -> bool:
    return record.get("state") == SUCCEEDED


def missing(digests: Mapping[str, str]) -> list[str]:
    """Return the descriptions of the steps that have not succeeded on this host."""
    return [description for digest, description in digests.items() if not has_succeeded(read(record_path(digest)))]
