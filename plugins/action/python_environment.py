# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads a requirements file on the controller, then runs the module of the same name."""

from __future__ import annotations

import os
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.python_environment.definition import check_requirements
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.answers import NodeAction
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.job_code import find


class ActionModule(NodeAction, module="python_environment"):
    """Adds the contents of the file to the task's arguments."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        if arguments.get("requirements"):
            arguments["contents"] = read_requirements(arguments["requirements"], [os.getcwd(), self._loader.get_basedir()])
        return self._execute_module("deeplearning.cluster.python_environment", module_args=arguments, task_vars=task_vars)


def read_requirements(name: str, bases: list[str]) -> str:
    """Return the contents of the requirements file, found like a job's script. Raises AnsibleActionFail if hosts cannot use the file."""
    path = find(name, bases)
    if path is None or not os.path.isfile(path):
        raise AnsibleActionFail(f"requirements {name!r} is not a file on the controller (looked in {', '.join(bases)})")
    try:
        with open(path, encoding="utf-8") as file:
            contents = file.read()
        check_requirements(contents)
    except ValueError as error:
        raise AnsibleActionFail(f"requirements {name!r}: {error}") from error
    return contents
