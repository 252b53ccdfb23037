# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""File name patterns, such as the values of `training_job_exclude`.

This code runs on hosts without Ansible and imports only the standard library.
"""

from __future__ import annotations

import fnmatch
import os
from typing import Iterable


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Return whether a pattern matches a file or directory.

    Patterns with a slash are compared with the path, and patterns without a slash with the name.
    """
    name = os.path.basename(path)
    return any(fnmatch.fnmatchcase(path if "/" in pattern else name, pattern) for pattern in patterns)
