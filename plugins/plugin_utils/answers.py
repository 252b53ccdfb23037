# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Filters the results of modules that run on nodes.

The filter keeps only documented values of the correct type and size, and removes control characters.

A training script can forge the result of any module that runs on its node. ansible-core turns the `ansible_facts` of any result into
variables of the host. With `inject_facts_as_vars`, forged facts would override variables of the inventory and of roles.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import json
import math
import os
import re
import resource
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from ansible import constants
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils._job.schema import count_values
from ..module_utils._text import clean, clean_line
from .budget import RUN_SIZE, TEXT, VALUES, Budget, RunBudget, size_of
from .nodes import known_nodes, node_table
from .option_names import of_host_role
from .ssh_login import login_advice, login_of

display = Display()

MODULES = Path(__file__).resolve().parents[1] / "modules"


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
# Maximum memory in bytes for processing a response. While Ansible reads a command's output, it keeps several copies of the output.
MEMORY_LIMIT = 1 << 30
# Maximum number of characters in a value, and maximum depth of nested values.
TEXT_LIMIT, DEPTH_LIMIT = 1 << 20, 16
# Maximum for integers, and for times in seconds since 1970: the end of the year 9999, after which datetime cannot represent a time.
INTEGER_LIMIT, TIME_LIMIT = 1 << 53, 253_402_300_799.0
# Numbers by their name, with the smallest and the largest value. Other integers and other numbers are counts, sizes and durations.
RANGES: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(
        ("began", "created", "ended", "finished", "heartbeat", "last", "since", "started", "submitted", "time"), (0, TIME_LIMIT)
    ),
    **dict.fromkeys(("exit_code", "rc"), (-INTEGER_LIMIT, INTEGER_LIMIT)),
    "ratio": (0, 1),
}
USUAL_RANGE = (0, INTEGER_LIMIT)
# Names of processes and hosts, which tables and the lines of logs begin with. Where the host of a rank is not known, it is the rank.
NAME_KEYS, NAME = ("name", "host"), re.compile(r"(?:rank )?[A-Za-z0-9._-]{1,253}")
# Seconds within which a node must respond, in addition to the module's own timeout.
ANSWER_TIMEOUT = 600

# The values that any module may return. These values include neither facts nor the arguments that a host claims to have received.
COMMON: Mapping[str, Mapping[str, Any]] = {
    "changed": {"type": "bool"},
    "failed": {"type": "bool"},
    "skipped": {"type": "bool"},
    "msg": {"type": "text"},
    "rc": {"type": "int"},
    "module_stdout": {"type": "text"},
    "module_stderr": {"type": "text"},
    "diff": {
        "type": "list",
        "elements": "dict",
        "contains": {name: {"type": "text", "returned": "sometimes"} for name in ("before", "after", "before_header", "after_header")},
    },
}
# Keys of results that only ansible-core's own actions may have.
INTERNAL = ("add_host", "add_group")
# Keys whose values ansible-core 2.21 shows.
SHOWN = ("warnings", "deprecations", "exception")
# Maximum number of characters to show of the exception of a module, and of the output around a result.
CRASH = 500
OTHER_OUTPUT = 100
# Keys whose values ansible-core 2.21 shows if they have a different type.
TYPES: Mapping[str, type] = {
    **dict.fromkeys(("changed", "failed", "unreachable", "skipped", "finished"), bool),
    "rc": int,
    "ansible_facts": dict,
    "ansible_stats": dict,
    "ansible_job_id": str,
}
# With this key, ansible-core replaces a document with a value of another type.
TYPE_KEY = "__ansible_type"
# Keys that Ansible adds to results. These keys are dropped without a warning.
SILENT = ("invocation", "exception", "warnings", "deprecations", "ansible_facts", "stdout", "stdout_lines", "stderr", "stderr_lines")

# The strategies that run each task on all hosts before the next task.
STRATEGIES = ("linear", "debug")
SETTING = """\
[defaults]
inject_facts_as_vars = false"""


class AnswerError(Exception):
    """A value does not match the module's documentation. The message says which value is not valid and why."""


class SilenceError(BaseException):
    """A node has not responded in time.

    This class is not a subclass of Exception, because connection plugins would catch such an exception and retry.
    """


class NodeAction(ActionBase):
    """An action whose module runs on a node. Filters all results of the module."""

    _requires_connection = True
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

    def __init_subclass__(cls, module: str, **options: Any) -> None:
        """Read the module's documentation when the plugin is loaded, before Ansible starts a process for each host."""
        super().__init_subclass__(**options)
        returned_values(module)
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
        result: dict[str, Any] = super().run(tmp, task_vars)
        return result

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
        """Return an option of the connection, or None if the connection has no such option."""
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
        gc.disable()  # for the same reason as in execute_watched. A task can run a module thousands of times.
        try:
            with memory_limit(MEMORY_LIMIT):
                try:
                    answer = super()._execute_module(module_name, module_args, tmp, task_vars, **options)
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
        """Count the result of the task, before Ansible stores it."""
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


def seconds_of(value: Any) -> int:
    """Return an option of a module that is a number of seconds, or 0 if it is not set."""
    return int(value) if str(value).isdecimal() else 0


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise SilenceError if the code in this context runs longer than `seconds`.

    If Ansible has set its own time limit, only that limit applies.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return

    def end(*_: Any) -> None:
        raise SilenceError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def memory_limit(size: int) -> Iterator[None]:
    """Raise MemoryError if the code in this context needs more than `size` bytes of additional memory.

    Ansible reads the whole output of a command before it returns any of it. The limit applies to this process, which Ansible has started
    for one host, and to each of its child processes. Without `/proc`, for example on macOS, there is no limit.
    """
    try:
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5]) * resource.getpagesize()
    except OSError:
        yield
        return
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (min(each for each in (used + size, before, hard) if each != resource.RLIM_INFINITY), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def end_children(parent: int | None = None) -> None:
    """Terminate the child processes that are still waiting for the node: ssh, and the ProxyCommand that it runs.

    On systems other than Linux, these processes keep running.
    """
    pid = parent or os.getpid()
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
            end_children(int(child))
            os.kill(int(child), signal.SIGTERM)


def refuse_injected_facts() -> None:
    """Raise AnsibleActionFail if facts from nodes could override variables on the controller."""
    if constants.config.get_config_value("INJECT_FACTS_AS_VARS"):
        raise AnsibleActionFail(
            "inject_facts_as_vars: this setting is enabled, so facts returned by a node could override any variable. "
            f"Set ANSIBLE_INJECT_FACT_VARS=false in the environment, or add these lines to ansible.cfg:\n{SETTING}"
        )


def refuse_other_strategy() -> None:
    """Raise AnsibleActionFail if the default strategy does not run each task on all hosts before the next task."""
    strategy = str(constants.config.get_config_value("DEFAULT_STRATEGY"))
    if strategy.rpartition(".")[2] not in STRATEGIES:
        raise AnsibleActionFail(
            f"strategy: {strategy!r} is not supported, because tasks use results of earlier tasks on other hosts. Remove this setting from "
            "ansible.cfg and ANSIBLE_STRATEGY."
        )


def documented_part(answer: Mapping[str, Any], module: str, host: str, limit: int = VALUES) -> dict[str, Any]:
    """Return the documented values of a module's result.

    Returns a failed result if a value does not match the documentation, or if the result has more than `limit` values.
    """
    if count_values(answer, limit) > limit:
        return refusal(host, module, f"it has more than {limit} values")
    values = {**COMMON, **returned_values(module)}
    unknown = sorted(clean_line(str(key))[:40] for key in answer if key not in values and not is_silent(key))
    if answer.get("ansible_facts"):
        unknown.insert(0, "ansible_facts")
    if unknown:
        display.warning(
            f"{host}: {module.rpartition('.')[2]} returned undocumented values: {', '.join(unknown[:8])}. "
            "These values are ignored. Check the host, because its Python runs code that is not part of this collection."
        )
    is_failed = answer.get("failed") is True
    try:
        return _shown_part(_members(answer, values, "", is_complete=not is_failed), is_failed)
    except AnswerError as error:
        return refusal(host, module, str(error))


def _shown_part(part: dict[str, Any], is_failed: bool) -> dict[str, Any]:
    """Return a result whose texts are short enough to show. Callbacks show diffs, and all values of a failed result."""
    budget = Budget()
    found: dict[str, Any] = {
        key: indented(budget.lines(value.split("\n"))) if isinstance(value, str) and key in COMMON else value for key, value in part.items()
    }
    if isinstance(found.get("diff"), list):
        found["diff"] = budget.diffs(found["diff"])
    is_long = is_failed and size_of({key: value for key, value in found.items() if key not in COMMON}) > TEXT
    return {key: value for key, value in found.items() if key in COMMON} if is_long else found


def indented(text: str) -> str:
    """Return a text whose second and later lines are indented. Without indentation, they could imitate lines of Ansible's output."""
    return text.replace("\n", "\n    ")


def without(facts: Any, own: Mapping[str, Any]) -> Any:
    """Return the facts in a result except those in `own`."""
    return {key: value for key, value in facts.items() if key not in own} if isinstance(facts, dict) else facts


def is_silent(key: Any) -> bool:
    """Return whether Ansible itself adds this key to results. Such keys are dropped without a warning."""
    return key in SILENT or str(key).startswith("_ansible_")


def refusal(host: str, module: str, reason: str) -> dict[str, Any]:
    """Return a failed result for a task whose module returned an invalid result."""
    name = module.rpartition(".")[2]
    return {
        "failed": True,
        "changed": False,
        "msg": f"{host}: the result of {name} is not valid: {reason}. Check the host, or replace it, before you continue.",
    }


def checked_identity(answer: dict[str, Any], variables: Mapping[str, Any], module: str) -> dict[str, Any]:
    """Return the module result, or a failed result if the host's description in it contradicts the inventory."""
    name, said = variables["inventory_hostname"], answer["host"]
    for key, known in known_nodes(variables, [name]).get(name, {}).items():
        own = said[{"hostname": "name", "private_ip": "address"}.get(key, key)]
        if str(own) != str(known):
            return refusal(name, module, f"the host's {key} is {known} in the inventory, but {own} in the module result")
    return answer


def own_result(text: str) -> tuple[str, list[str]]:
    """Return the result in a module's output without the values that ansible-core shows by itself, and warnings, each as one line.

    The warnings are those in the result, and one about other output. Control characters can be escaped in JSON, so they are still in the
    output. ansible-core shows output after the result and, before 2.21, the names of internal keys. From 2.21 on, it also shows warnings
    and deprecations. The names of internal keys are changed, so that they count as unknown.

    Raises TypeError if a value that ansible-core uses itself does not have the correct type.
    """
    other, document = first_document(text)
    if document is None:
        return text, []
    wrong = [key for key in TYPES if not isinstance(document.get(key), (TYPES[key], type(None)))]
    if wrong or TYPE_KEY in document:
        raise TypeError(f"{wrong[0]} is not {TYPES[wrong[0]].__name__}" if wrong else f"{TYPE_KEY} is not allowed")
    shown = [key for key in document if key in (*SHOWN, *INTERNAL) or key.startswith("_ansible_")]
    if not shown and not other:
        return text, []
    values = {key: document.pop(key) for key in shown}
    document.update(crash(document, values.get("exception")))
    document.update({f"internal {clean_line(key)}": None for key in shown if key not in SHOWN})
    return json.dumps(document), [*_about_other_output(other), *Budget().messages(warnings_of(values.get("warnings")), "warnings")]


def crash(document: Mapping[str, Any], exception: Any) -> dict[str, str]:
    """Return the message that the result of a module lacks if the module has ended with an exception.

    The exception is a traceback, or a document of ansible-core with a text.
    """
    if not document.get("failed") or "msg" in document:
        return {}
    event = exception.get("event") if isinstance(exception, dict) else None
    text = event.get("msg") if isinstance(event, dict) else exception
    last = clean_line(text.strip().rpartition("\n")[2])[:CRASH] if isinstance(text, str) else ""
    return {"msg": f"the module ended with an unexpected error: {last or 'no reason given'}. If the host is in order, report this error."}


def _about_other_output(text: str) -> list[str]:
    shown = clean_line(text)[:OTHER_OUTPUT]
    return [f"the output has {len(text)} characters besides the result: {shown!r}. They are ignored. Check the host."] if text else []


def first_document(text: str) -> tuple[str, dict[str, Any] | None]:
    """Return the text around the JSON object that begins in the first line with a brace, and this object.

    Without such an object, the object is None. ansible-core finds the object in the same way, so it cannot read such a text either.
    """
    lines = text.splitlines()
    first = next((number for number, line in enumerate(lines) if line.strip().startswith("{")), len(lines))
    rest = "\n".join(lines[first:]).lstrip()
    try:
        document, end = json.JSONDecoder().raw_decode(rest)
    except (ValueError, RecursionError):
        return text, None
    return "\n".join([*lines[:first], rest[end:]]).strip(), document


def warnings_of(found: Any) -> list[str]:
    """Return the warnings in a result. A warning is a text, or a document of ansible-core with a text."""
    events = [each.get("event") if isinstance(each, dict) else {"msg": each} for each in (found if isinstance(found, list) else [])]
    texts = [event.get("msg") for event in events if isinstance(event, dict)]
    return [each for each in texts if isinstance(each, str)]


@functools.lru_cache(maxsize=None)
def returned_values(module: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the documented return values of a module of this collection, keyed by name."""
    source = (MODULES / f"{module.rpartition('.')[2]}.py").read_text(encoding="utf-8")
    (text,) = [ast.literal_eval(line.value) for line in ast.parse(source).body if isinstance(line, ast.Assign) and _is_return(line)]
    documented: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return documented


def _is_return(line: ast.Assign) -> bool:
    return isinstance(line.targets[0], ast.Name) and line.targets[0].id == "RETURN"


def _members(value: Mapping[str, Any], documented: Mapping[str, Mapping[str, Any]], place: str, is_complete: bool = True) -> dict[str, Any]:
    result = {}
    for name, description in documented.items():
        where = f"{place}.{name}" if place else name
        if value.get(name) is not None:
            result[name] = _value(value[name], description, where)
        elif is_complete and _is_required(description, place):
            raise AnswerError(f"{where} is missing")
        elif name in value:
            result[name] = None
    return result


def _is_required(description: Mapping[str, Any], place: str) -> bool:
    """Return whether a value is required.

    A top-level value is required if its `returned` is `always` or `success`. A nested value is required if it has no `returned`.
    """
    returned = description.get("returned")
    return returned is None if place else returned in ("always", "success")


def _value(value: Any, description: Mapping[str, Any], place: str) -> Any:
    kind = description["type"]
    if kind == "list":
        if not isinstance(value, list):
            raise AnswerError(f"{place} is not a list")
        element = {"type": description.get("elements", "raw"), "contains": description.get("contains")}
        return [_value(each, element, f"{place}[{index}]") for index, each in enumerate(value)]
    if kind == "dict" and description.get("contains"):
        if not isinstance(value, dict):
            raise AnswerError(f"{place} is not a dict")
        return _members(value, description["contains"], place)
    checked = CHECKS[kind](value)
    if checked is None:
        raise AnswerError(f"{place} is not a {kind}")
    _check_member(checked, kind, place)
    if description.get("choices") and checked not in description["choices"]:
        raise AnswerError(f"{place} is {str(checked)[:40]!r}, which is not one of {', '.join(description['choices'])}")
    return checked


def _check_member(value: Any, kind: str, place: str) -> None:
    """Raise AnswerError if a number is outside of its range, or if a name is not valid."""
    key = place.rpartition(".")[2]
    if kind in ("int", "float"):
        least, most = RANGES.get(key, USUAL_RANGE)
        if not least <= value <= most:
            raise AnswerError(f"{place} is {value:.6g}, which is not between {least:.6g} and {most:.6g}")
    elif kind == "str" and key in NAME_KEYS and not NAME.fullmatch(value):
        raise AnswerError(f"{place} is {value[:40]!r}, which is not a valid name")


def _text(value: Any) -> str | None:
    return clean(str.__str__(value)[:TEXT_LIMIT]) if isinstance(value, str) else None


def _line(value: Any) -> str | None:
    """Return text as one line. After a line break, text could imitate a line of Ansible's output."""
    text = _text(value)
    return None if text is None else text.replace("\n", " ")


def _path(value: Any) -> str | None:
    text = _text(value)
    return text if text and text.startswith("/") and text == value == clean_line(text) and len(text) <= 4096 else None


def _integer(value: Any) -> int | None:
    return int(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= INTEGER_LIMIT else None


def _number(value: Any) -> float | None:
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return _integer(value)


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _dictionary(value: Any) -> dict[str, Any] | None:
    return free(value) if isinstance(value, dict) else None


def free(value: Any, depth: int = DEPTH_LIMIT) -> Any:
    """Return a free-form value as plain data. Raises AnswerError if the value is nested too deeply."""
    if depth == 0:
        raise AnswerError(f"values are nested more than {DEPTH_LIMIT} levels deep")
    if isinstance(value, Mapping):
        return {clean_line(str(key))[:TEXT_LIMIT]: free(each, depth - 1) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [free(each, depth - 1) for each in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return int(value) if abs(value) < INTEGER_LIMIT else float("inf")
    return _line(str(value))


CHECKS = {
    "str": _line,
    "text": _text,
    "path": _path,
    "int": _integer,
    "float": _number,
    "bool": _flag,
    "dict": _dictionary,
    "raw": free,
}
