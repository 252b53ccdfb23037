# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads the requirements file of a Python environment on the controller."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.python_environment.definition import check_requirements
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.job_code import find, searched_places


def read_requirements(name: str, bases: Sequence[str]) -> str:
    """Return the contents of the requirements file. Raises AnsibleActionFail if the file is missing or not allowed.

    A relative path is searched for in each base directory.
    """
    path = find(name, bases)
    if path is None or not os.path.isfile(path):
        raise AnsibleActionFail(
            f"requirements: {name!r} is not a file on the controller (searched in {searched_places(bases)}). "
            "Specify the path of an existing file."
        )
    try:
        with open(path, encoding="utf-8") as file:
            contents = file.read()
        check_requirements(contents)
    except ValueError as error:
        raise AnsibleActionFail(f"requirements: {name!r}: {error}") from error
    return contents
