# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Filters the results of modules that run on nodes, and limits the time and the memory that their responses take.

The filter keeps only documented values of the correct type and size, and removes control characters.

A training script can forge the result of any module that runs on its node. ansible-core turns the `ansible_facts` of any result into
variables of the host. With `inject_facts_as_vars`, forged facts would override variables of the inventory and of roles.
"""

from __future__ import annotations

import contextlib
import gc
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ansible import constants
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils._text import clean, clean_line
from . import built_modules, role_messages
from .budget import RUN_SIZE, VALUES, RunBudget, size_of
from .documented_values import documented_part, indented, refusal, returned_values, without
from .inventory_nodes import known_nodes, node_table
from .module_output import own_result
from .option_names import of_host_role
from .ssh_login import login_advice, login_of
from .worker_limits import MEMORY_LIMIT, SilenceError, end_children, memory_limit, seconds_of, time_limit

display = Display()


class Limits(NamedTuple):
    """Maximum size of a command's output in bytes, and maximum number of values in the result of a module."""

    size: int
    values: int = VALUES


# The limits of most modules, and those of modules that return logs, the records or parameters of jobs, or lists of files. The logs and the
# progress of a long job are returned by several commands. The result of a report does not reach the main process of Ansible.
USUAL = Limits(4 << 20)
LARGE: Mapping[str, Limits] = {
    "dataset": Limits(16 << 20),
    "queued_jobs": Limits(64 << 20),
    "training_job_info": Limits(64 << 20, 250_000),
    "training_job_report": Limits(64 << 20, 4_000_000),
}

# Seconds within which a node must respond, in addition to the module's own timeout.
ANSWER_TIMEOUT = 600

# The strategies that run each task on all hosts before the next task.
STRATEGIES = ("linear", "debug")


class NodeAction(ActionBase):
    """An action whose module runs on a node. Filters all results of the module."""

    _requires_connection = True
    _module = ""
    # Seconds within which the node must respond, without and with the module's own timeout.
    _host, _patience, _limit = "", ANSWER_TIMEOUT, ANSWER_TIMEOUT
    # Seconds for which the module itself may wait.
    _own_seconds = 0.0
    _limits = USUAL
    # Memory in bytes that the last result of the module needs.
    _size = 0
    _variables: Mapping[str, Any] = {}
    # The warnings in the last response of a module.
    _warnings: Sequence[str] = ()

    def __init_subclass__(cls, module: str = "", **options: Any) -> None:
        """Read what the action needs of files when the plugin is loaded, before Ansible starts a process for each host.

        An action runs the module of the same name unless it names another one.
        """
        super().__init_subclass__(**options)
        module = module or cls.__module__.rpartition(".")[2]
        cls._module = f"deeplearning.cluster.{module}"
        returned_values(module)
        built_modules.digest()
        cls._limits = LARGE.get(module, USUAL)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        gc.freeze()  # for the same reason as in the inventory plugin
        refuse_injected_facts()
        refuse_other_strategy()
        self._variables = variables = task_vars or {}
        own = seconds_of(self._task.args.get("timeout"))
        self._host = str(variables.get("inventory_hostname", ""))
        self._patience = int(variables.get("deeplearning_answer_timeout", ANSWER_TIMEOUT))
        self._own_seconds, self._limit = own, self._patience + own
        super().run(tmp, task_vars)
        return self.run_module(variables)

    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        """Run the module and return its result. Actions that do more replace this method."""
        return self._execute_module(self._module, task_vars=variables)

    def _low_level_execute_command(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        """Run a command on the node with a time limit. Remove control characters from the output, and reject output that is too long."""
        with self._contact():
            answer: dict[str, Any] = super()._low_level_execute_command(*arguments, **options)
        for name in ("stdout", "stderr"):
            text = answer.get(name) or ""
            if len(text) > self._limits.size:
                raise AnsibleConnectionFailure(f"{self._host}: the output is larger than {self._limits.size >> 20} MiB. Check the host.")
            answer[name] = clean(text)
            answer[f"{name}_lines"] = answer[name].splitlines()
        return answer

    def _transfer_file(self, *arguments: Any, **options: Any) -> Any:
        with self._contact():
            return super()._transfer_file(*arguments, **options)

    @contextlib.contextmanager
    def _contact(self) -> Iterator[None]:
        """Within this context, a node that does not respond in time, or never ends its response, counts as unreachable.

        The same applies if the run has already waited too long for the node. Errors contain no control characters.
        """
        budget, began = RunBudget(self._host), time.monotonic()
        left = budget.waiting_left(self._patience)
        if left <= 0:
            raise AnsibleConnectionFailure(
                f"{self._host}: this run has waited more than {self._patience} s for this host, in addition to the timeouts of modules. "
                "Check the host, or increase deeplearning_answer_timeout."
            )
        limit = min(self._limit, math.ceil(left + self._own_seconds))
        try:
            with memory_limit(MEMORY_LIMIT), time_limit(limit):
                yield
        except MemoryError:
            end_children()
            raise AnsibleConnectionFailure(
                f"{self._host}: reading the output takes more than {MEMORY_LIMIT >> 20} MiB of memory. Check the host."
            ) from None
        except SilenceError:
            end_children()
            raise AnsibleConnectionFailure(
                f"{self._host}: no answer within {limit} s. Check the host, or increase deeplearning_answer_timeout."
            ) from None
        except AnsibleConnectionFailure as error:
            message = indented(clean(str(error)).rstrip())
            login = login_of(self._host, node_table(self._variables), self._variable)
            advice = login_advice(message, login._replace(user=self._ssh("remote_user"), key_file=self._ssh("private_key_file")))
            raise AnsibleConnectionFailure(f"{message.rstrip('.')}.\n{advice}" if advice else message) from None
        except AnsibleError as error:
            raise AnsibleError(clean(str(error))) from None
        finally:
            self._count_waiting(budget, time.monotonic() - began)

    def _count_waiting(self, budget: RunBudget, seconds: float) -> None:
        """Count the time until a response, except the time for which the module itself may wait."""
        explained = min(seconds, self._own_seconds)
        self._own_seconds -= explained
        budget.add_waiting(seconds - explained, self._patience)

    def _variable(self, name: str) -> Any:
        """Return the value of a variable of the host, or None if the variable is not set or cannot be evaluated."""
        try:
            return self._templar.template(self._variables.get(name))
        except AnsibleError:
            return None

    def _ssh(self, option: str) -> str | None:
        try:
            value: str | None = self._connection.get_option(option)
        except (AnsibleError, KeyError):
            return None
        return value

    def _execute_module(
        self,
        module_name: str | None = None,
        module_args: dict[str, Any] | None = None,
        tmp: str | None = None,
        task_vars: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Run a module of this collection on the node and return the documented part of its result."""
        module, host = module_name or self._task.action, (task_vars or {}).get("inventory_hostname", "")
        if RunBudget(host).used() > RUN_SIZE:
            return refusal(host, module, f"the results of this run need more than {RUN_SIZE >> 20} MiB of memory")
        self._own_seconds = seconds_of(self._task.args.get("timeout")) + seconds_of((module_args or {}).get("wait"))
        gc.disable()  # for the same reason as in progress.py. A task can run a module thousands of times.
        try:
            with memory_limit(MEMORY_LIMIT):
                try:
                    with built_modules.kept_module(module) as versions:
                        user = self.get_become_option("become_user") or self._ssh("remote_user")
                        for version in versions if user == "root" else versions[-1:]:
                            variables = {**(task_vars or {}), "ansible_module_compression": version}
                            answer = super()._execute_module(module_name, module_args, tmp, variables, **options)
                            if "files_missing" not in answer:
                                break
                except (AttributeError, TypeError, RecursionError) as error:
                    # ansible-core assumes the structure of a module result, but a node can return anything.
                    return refusal(host, module, f"the response does not have the format of a module result ({clean_line(str(error))})")
                return self._documented_answer(answer, module, host)
        except MemoryError:
            return refusal(host, module, f"reading the response takes more than {MEMORY_LIMIT >> 20} MiB of memory")
        finally:
            gc.enable()

    def _documented_answer(self, answer: Mapping[str, Any], module: str, host: str) -> dict[str, Any]:
        """Show the warnings of a module's result, and return its documented part."""
        for warning in self._warnings:
            display.warning(f"{host}: {warning}")
        # Keep the fact that contains the discovered interpreter. Otherwise, ansible-core would search for an interpreter again in the next
        # task.
        facts = {self._discovered_interpreter_key: self._discovered_interpreter} if self._discovered_interpreter_key else {}
        answer = {**answer, "ansible_facts": without(answer.get("ansible_facts"), facts)}
        part = documented_part(answer, module, host, self._limits.values)
        self._size = size_of(part)
        if part.get("failed") is True and isinstance(part.get("msg"), str):
            part["msg"] = of_host_role(self._task, part["msg"])
        return {**part, "ansible_facts": facts} if facts else part

    def cleanup(self, force: bool = False) -> None:
        """Count the result of the task, before Ansible stores it.

        Without pipelining, Ansible deletes its files on the host. If the host is lost by then, its result must not be lost as well.
        """
        with contextlib.suppress(AnsibleConnectionFailure):
            super().cleanup(force)
        if self._size:
            RunBudget(self._host).add(self._size)

    def _update_module_args(self, module_name: str, module_args: dict[str, Any], task_vars: Any, *arguments: Any, **options: Any) -> None:
        """Keep arguments out of the node's syslog, because URLs may contain signatures, and environment variables may contain tokens."""
        super()._update_module_args(module_name, module_args, task_vars, *arguments, **options)
        module_args["_ansible_no_log"] = True

    def _parse_returned_data(self, response: Mapping[str, Any], *profile: Any) -> Any:
        """Take what ansible-core would show on the terminal, without limits and with control characters, out of a module's response."""
        text, self._warnings = own_result(response.get("stdout") or "")
        return super()._parse_returned_data({**response, "stdout": text}, *profile)

    @contextlib.contextmanager
    def reading(self, task_vars: Mapping[str, Any] | None) -> Iterator[None]:
        """Within this context, an error caused by free-form values in a result fails the task with a one-line message."""
        try:
            yield
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            host = (task_vars or {}).get("inventory_hostname", "")
            answer = refusal(host, self._task.action, f"{type(error).__name__}: {clean_line(str(error))}")
            raise AnsibleActionFail(answer["msg"]) from None


def refuse_injected_facts() -> None:
    """Raise AnsibleActionFail if facts from nodes could override variables on the controller."""
    if constants.config.get_config_value("INJECT_FACTS_AS_VARS"):
        raise AnsibleActionFail(role_messages.injected_facts())


def refuse_other_strategy() -> None:
    """Raise AnsibleActionFail if the default strategy does not run each task on all hosts before the next task."""
    strategy = str(constants.config.get_config_value("DEFAULT_STRATEGY"))
    if strategy.rpartition(".")[2] not in STRATEGIES:
        raise AnsibleActionFail(
            f"strategy: {strategy!r} is not supported, because tasks use results of earlier tasks on other hosts. Remove this setting from "
            "ansible.cfg and ANSIBLE_STRATEGY."
        )


def checked_identity(answer: dict[str, Any], variables: Mapping[str, Any], module: str) -> dict[str, Any]:
    """Return the module result, or a failed result if the host's description in it contradicts the inventory."""
    name, said = variables["inventory_hostname"], answer["host"]
    for key, known in known_nodes(variables, [name]).get(name, {}).items():
        own = said[{"hostname": "name", "private_ip": "address"}.get(key, key)]
        if str(own) != str(known):
            return refusal(name, module, f"the host's {key} is {known} in the inventory, but {own} in the module result")
    return answer
