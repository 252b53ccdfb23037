# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs modules that call AWS in the processes of their actions.

For a process of its own, a module is packed, and the process loads the SDK and the collection again, which takes longer than its work.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.parameters import remove_values
from ansible.plugins.action import ActionBase
from ansible.plugins.action.normal import ActionModule as NormalAction

from ..module_utils._aws.client import use_module_class

MODULES = "ansible_collections.deeplearning.cluster.plugins.modules"


class Ended(SystemExit):
    """The module has ended with this result."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__(0)
        self.result = result


class InvalidArgumentsError(Exception):
    """The module rejects its arguments."""


class TaskModule:
    """What the module class of `amazon.aws` needs of Ansible's module class, for the module of an action's task."""

    def __init__(self, action: ActionBase, arguments: Mapping[str, Any], argument_spec: Mapping[str, Any], **rules: Any) -> None:
        del rules["supports_check_mode"]
        # The copy is without Ansible's tags, which can mark a text as a template.
        validation = ArgumentSpecValidator(argument_spec, **rules).validate(plain(arguments))
        if validation.error_messages:
            raise InvalidArgumentsError
        self.params: dict[str, Any] = validation.validated_parameters
        self.check_mode, self._diff, self._name = action._task.check_mode, action._task.diff, action._task.action
        self._secrets = {str(self.params[name]) for name, option in argument_spec.items() if option.get("no_log") and self.params[name]}
        self._warnings: list[str] = []

    def warn(self, warning: str) -> None:
        self._warnings.append(warning)

    def exit_json(self, **result: Any) -> NoReturn:
        raise Ended(plain(remove_values({**result, "warnings": self._warnings}, self._secrets)))

    def fail_json(self, msg: str, exception: object = None, **result: Any) -> NoReturn:
        self.exit_json(failed=True, msg=msg, **result)


def plain(value: Any) -> Any:
    """Return a copy that consists of the types of JSON."""
    return json.loads(json.dumps(value, default=str))


class InProcessAction(NormalAction):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        found = result_of(self, self._task.args) if is_possible(self, task_vars or {}) else None
        return found or super().run(tmp, task_vars)


def result_of(action: ActionBase, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Run the module of the action's task in this process and return its result, or None if the module rejects the arguments.

    Ansible then runs the module, which says why.
    """
    use_module_class(partial(TaskModule, action, arguments))
    try:
        import_module(f"{MODULES}.{action._task.action.rpartition('.')[2]}").main()
    except Ended as end:
        return end.result
    except InvalidArgumentsError:
        pass
    return None


def is_possible(action: ActionBase, variables: Mapping[str, Any]) -> bool:
    """Return whether the module of the action's task would run on the controller, with the Python and the environment of this process."""
    task, connection = action._task, action._connection
    own = variables.get("ansible_delegated_vars", {}).get(task.delegate_to, variables)
    return (
        connection.transport == "local"
        and not (connection.become or task.async_val or any(task.environment or ()))
        and action._templar.template(own.get("ansible_python_interpreter")) == sys.executable
    )
