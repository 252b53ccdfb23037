# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads a requirements file on the controller, then runs the module of the same name."""

from __future__ import annotations

import os
from typing import Any

from ..plugin_utils.answers import NodeAction
from ..plugin_utils.python_requirements import read_requirements
from ..plugin_utils.yaml_text import refuse_changed_text


class ActionModule(NodeAction):
    """Adds the contents of the requirements file to the task's arguments."""

    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        arguments = dict(self._task.args)
        refuse_changed_text(self._task, {"build_variables": {"type": "dict"}, "python": {"type": "str"}})
        if arguments.get("requirements"):
            bases = [os.getcwd(), self._loader.get_basedir()]
            found = read_requirements(arguments["requirements"], bases, arguments.get("installer", "pip"))
            arguments.update(contents=found.contents, credentials=found.credentials)
        return self._execute_module(self._module, module_args=arguments, task_vars=variables)
