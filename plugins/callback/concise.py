# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Shows in a few lines what a playbook run does."""

from __future__ import annotations

DOCUMENTATION = r"""
name: concise
type: stdout
version_added: 0.2.0
short_description: Shows plays, changes, progress and failures in a few lines
description:
  - Shows each play that has something to report, with one line for each change and message. Skipped tasks and tasks that change
    nothing are not shown.
  - Lists the AWS resources that tasks create, change and delete. Hosts with the same change share one line.
  - On a terminal, progress is a single line that is rewritten. Without a terminal, progress lines are at least 10 seconds apart.
  - A failure is shown once, as text, with all hosts that report it. Failures that the playbook handles are not shown.
  - In check mode, the plan has one line for each change and ends with the number of changes. With C(--diff), it also shows the main
    properties of new resources.
  - With C(-v), the output is the same as that of P(ansible.builtin.default#callback).
extends_documentation_fragment:
  - default_callback
  - result_format_callback
requirements:
  - Set as C(stdout_callback) in the section C(defaults) of C(ansible.cfg), or with the environment variable
    C(ANSIBLE_STDOUT_CALLBACK).
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

import functools
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible import constants, context
from ansible.playbook.task_include import TaskInclude
from ansible.plugins.callback.default import CallbackModule as DefaultCallback

from ..module_utils._text import clean, clean_line
from ..module_utils._words import form, plural
from ..plugin_utils._output import changes, failures
from ..plugin_utils._output.folding import short
from ..plugin_utils._output.hosts import Folded, host_names
from ..plugin_utils._output.prices import Price, is_known, per_hour
from ..plugin_utils._output.screen import Screen
from ..plugin_utils._output.task_results import (
    USE_V,
    are,
    as_text,
    count_hosts,
    enclosing_blocks,
    first_line,
    fitting,
    items,
    line_count,
    title_of,
)
from ..plugin_utils.budget import Budget

# Host variables whose values may appear in messages in place of the host's inventory name.
ALIASES = ("deeplearning_hostname", "deeplearning_private_ip", "deeplearning_instance_id", "ansible_host")
# Kinds of messages. Messages of one kind that differ only in the host's own name are shown only once.
FOLDED = ("warnings", "failures", "unreachable")
# Part of the warning that Ansible shows when a user's first module runs on a host. The callback does not show this warning.
HARMLESS = "Module remote_tmp /"
# The beginning of the names that Ansible gives to its checks of a role's variables, and the name that is shown instead.
ARGUMENTS = "Validating arguments against arg spec"
ARGUMENTS_TITLE = "Check the types of the variables"
WIDTH = 120
DIFF_LINES = 40
# Maximum number of different failures, and of different diffs, to show for a task.
FAILURES = DIFFS = 4
# Maximum number of lines for the failures, unreachable hosts and warnings of a task, in this order, because hosts determine their number.
TASK_LINES = 20

# These modules change a job's files, but not the configuration of a host. The summary says whether the job was started or stopped.
JOB = "deeplearning.cluster.training_job"
JOB_WAIT = f"{JOB}_wait"
REPORT = f"{JOB}_report"
JOB_FILES = {f"{JOB}_export", REPORT}
# The variables of tasks that only plan, also in check mode, and that are followed by a task that shows or applies the plan.
PREDICTS = {"__emr_cluster_predicts", "__provision_predicts"}
COLORS = {changes.CREATE: "COLOR_DIFF_ADD", changes.UPDATE: "COLOR_CHANGED", changes.DELETE: "COLOR_DIFF_REMOVE"}


@dataclass
class TaskEvents:
    task: Any
    began: float = field(default_factory=time.monotonic)
    name: str = ""
    is_check: bool = False
    lines: list[tuple[str, str]] = field(default_factory=list)
    items: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    warnings: Folded = field(default_factory=Folded)
    changed: Folded = field(default_factory=Folded)
    diffs: Folded = field(default_factory=Folded)
    messages: Folded = field(default_factory=Folded)
    failures: Folded = field(default_factory=Folded)
    unreachable: Folded = field(default_factory=Folded)


@dataclass
class Totals:
    began: float = field(default_factory=time.monotonic)
    provisions: bool = False
    shows_changes: bool = False
    changes: list[changes.PlannedChange] = field(default_factory=list)
    price: Price = field(default_factory=dict)
    hosts: set[str] = field(default_factory=set)
    run_hosts: set[str] = field(default_factory=set)
    stop_hosts: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    job_is_over: bool = False


def concise(method: Callable[..., None]) -> Callable[..., None]:
    """Decorate a method of the callback so that it calls the default callback's method if Ansible runs with -v."""

    @functools.wraps(method)
    def choose(self: CallbackModule, *arguments: Any, **options: Any) -> None:
        if self._display.verbosity:
            getattr(super(CallbackModule, self), method.__name__)(*arguments, **options)
        else:
            method(self, *arguments, **options)

    return choose


def silent(name: str) -> Callable[..., None]:
    """Return a callback method that shows nothing unless Ansible runs with -v."""

    def show_nothing(_self: CallbackModule, *_arguments: Any, **_options: Any) -> None:
        pass

    show_nothing.__name__ = name
    return concise(show_nothing)


class CallbackModule(DefaultCallback):
    """Collects the hosts' reports about a task. When the task has ended, shows each report once, with the hosts that sent it."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "deeplearning.cluster.concise"

    def __init__(self) -> None:
        super().__init__()
        self._screen, self._totals = Screen(self._display), Totals()
        self._tasks: dict[str, TaskEvents] = {}
        # The hosts of the current play, and the lines about changes that have already been shown for this play.
        self._hosts: set[str] = set()
        self._told: set[str] = set()
        # The failures that rescue sections handle, by host and block. If a rescue section also fails, these failures are shown as its
        # cause.
        self._handled: dict[tuple[str, str], tuple[str, str]] = {}

    @concise
    def v2_playbook_on_start(self, playbook: Any) -> None:
        self._screen.install()
        self._totals = Totals()

    @concise
    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._flush()
        self._hosts, self._told = set(), set()
        self._screen.stage(clean_line(play.get_name().strip()))

    @concise
    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        self._begin(task)

    @concise
    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        self._begin(task)

    @concise
    def v2_playbook_on_no_hosts_remaining(self) -> None:
        self._flush()

    @concise
    def v2_playbook_on_vars_prompt(self, *arguments: Any, **options: Any) -> None:
        self._screen.clear()

    v2_playbook_on_no_hosts_matched = silent("v2_playbook_on_no_hosts_matched")
    v2_playbook_on_include = silent("v2_playbook_on_include")
    v2_playbook_on_notify = silent("v2_playbook_on_notify")
    v2_runner_on_start = silent("v2_runner_on_start")
    v2_runner_retry = silent("v2_runner_retry")
    v2_runner_on_async_poll = silent("v2_runner_on_async_poll")
    v2_runner_on_async_ok = silent("v2_runner_on_async_ok")
    v2_runner_on_async_failed = silent("v2_runner_on_async_failed")

    def _begin(self, task: Any) -> None:
        self._flush()
        self._tasks[task._uuid] = TaskEvents(task)
        self._screen.task(clean_line(task.name or task.action))

    @concise
    def v2_runner_item_on_ok(self, result: Any) -> None:
        self._add_warnings(result)

    @concise
    def v2_runner_item_on_failed(self, result: Any) -> None:
        self._add_warnings(result)
        label, text = clean_line(str(self._get_item_label(result.result))), failures.failure_text(result.result)
        self._events(result).items.setdefault(result.host.get_name(), []).append((label, text))

    @concise
    def v2_runner_item_on_skipped(self, result: Any) -> None:
        self._add_warnings(result)

    @concise
    def v2_runner_on_skipped(self, result: Any) -> None:
        self._add_warnings(result)

    @concise
    def v2_runner_on_ok(self, result: Any) -> None:
        self._add_warnings(result)
        if isinstance(result.task, TaskInclude):
            return
        made = changes.changes_of(result.result)
        self._totals.job_is_over |= is_end_of_job(result.task.action, result.result)
        if result.task.action in constants._ACTION_DEBUG:
            for text in filter(None, map(self._message, items(result.result))):
                self._add(result, "messages", text)
        if made is not None:
            self._add_resources(result, made)
        elif result.result.get("changed"):
            # The module itself shows where it has written the report.
            if result.task.action != REPORT or self._events(result).is_check:
                self._add(result, "changed", title_of(result))
            is_done = context.CLIARGS.get("check") or not self._events(result).is_check
            if is_done and not result.task.delegate_to and result.host.get_name() not in constants.LOCALHOST:
                self._changed_hosts(result.task).add(result.host.get_name())

    def _changed_hosts(self, task: Any) -> set[str]:
        """Return the set in which the summary collects the hosts that tasks of this kind have changed."""
        state = task.args.get("state") if task.action == JOB else None
        if task.action in JOB_FILES or (state == "prepared" and not context.CLIARGS.get("check")):
            return set()
        if task.action == JOB:
            return self._totals.stop_hosts if state == "stopped" else self._totals.run_hosts
        return self._totals.hosts

    @concise
    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._add_warnings(result)
        host = result.host.get_name()
        self._totals.changes += changes.changes_of(result.result) or []
        failed_items = self._events(result).items.pop(host, [])
        text = failures.items_text(failed_items) or failures.failure_text(result.result)
        blocks = list(enclosing_blocks(result.task))
        rescuing = next((block._uuid for block, section in blocks if section == "block" and block.rescue), None)
        if ignore_errors:
            return
        if rescuing:
            self._handled[host, rescuing] = (title_of(result), text)
            return
        causes = [
            self._handled[host, block._uuid] for block, section in blocks if section == "rescue" and (host, block._uuid) in self._handled
        ]
        self._add_failure(result, "\n".join([text, *(f"This task ran because {name!r} failed: {first_line(why)}" for name, why in causes)]))

    @concise
    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._add_warnings(result)
        if not result.task.ignore_unreachable:
            self._totals.failed.add(result.host.get_name())
            self._add(result, "unreachable", failures.unreachable_text(result.result))

    @concise
    def v2_on_file_diff(self, result: Any) -> None:
        if changes.changes_of(result.result) is None:
            for each in items(result.result):
                if each.get("diff") and each.get("changed"):
                    diffs = each["diff"] if isinstance(each["diff"], list) else [each["diff"]]
                    self._add(result, "diffs", self._get_diff(Budget().diffs(diffs)).strip("\n"))

    def _events(self, result: Any) -> TaskEvents:
        """Return the events of the task to which the result belongs. Strategies other than linear interleave the results of several
        tasks.
        """
        events = self._tasks.setdefault(result.task._uuid, TaskEvents(result.task))
        name = clean_line(title_of(result))
        events.name, events.is_check = ARGUMENTS_TITLE if name.startswith(ARGUMENTS) else name, result.task.check_mode is True
        self._hosts.add(result.host.get_name())
        return events

    def _add(self, result: Any, kind: str, text: str) -> None:
        variables = result.host.get_vars() if kind in FOLDED else {}
        aliases = [result.host.get_name(), *(str(variables[name]) for name in ALIASES if variables.get(name))]
        getattr(self._events(result), kind).add(Budget().cut(text), result.host.get_name(), aliases if kind in FOLDED else [])

    def _add_warnings(self, result: Any) -> None:
        texts = [warning.event.msg for warning in result.warnings if HARMLESS not in warning.event.msg]
        for text in Budget().messages(texts, "warnings"):
            self._add(result, "warnings", text)
        self._events(result)
        self._handle_warnings({"deprecations": result.result.pop("deprecations", None)})

    def _add_failure(self, result: Any, text: str) -> None:
        self._totals.failed.add(result.host.get_name())
        self._add(result, "failures", text)

    def _add_resources(self, result: Any, made: list[changes.PlannedChange]) -> None:
        events = self._events(result)
        # Outside check mode, each task that only plans is followed by one that shows or applies the plan.
        if events.is_check and (not context.CLIARGS.get("check") or PREDICTS & result.task.get_vars().keys()):
            return
        price = result.result.get("price") or {}
        self._totals.provisions = True
        self._totals.changes += made
        self._totals.price = price
        if events.is_check or result.task.diff is True:
            events.lines += [
                (line, getattr(constants, COLORS[action]))
                for action, line in changes.plan_lines(made, properties=result.task.diff is True, currency=price.get("currency", ""))
            ]
        if not events.is_check:
            done = changes.done_lines(made, time.monotonic() - events.began, names=result.task.diff is not True)
            events.lines += [(line, constants.COLOR_CHANGED) for line in done or ["Nothing to change."]]

    def _message(self, result: Mapping[str, Any]) -> str:
        """Return the output of the debug module: the message, or a variable with its name."""
        shown = dict(result)
        self._clean_results(shown, "debug")
        if "msg" in shown:
            return clean(as_text(shown["msg"])).strip()
        hidden = ("item", "warnings", "deprecations", "exception", "attempts", "censored")
        values = {name: value for name, value in shown.items() if name not in hidden and not name.startswith("_ansible")}
        return clean("\n".join(f"{name}: {as_text(value)}" for name, value in values.items()))

    def _flush(self) -> None:
        tasks, self._tasks = self._tasks, {}
        for events in tasks.values():
            self._show(events)
        self._screen.clear()

    def _show(self, events: TaskEvents) -> None:
        failed = self._failures(events)
        unreachable = self._unreachable(list(events.unreachable), max(1, TASK_LINES - line_count(failed) - 1))
        self._show_warnings(events, max(1, TASK_LINES - line_count(failed) - len(unreachable)))
        for line, color in events.lines:
            self._display.display(textwrap.fill(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False), color=color)
        for name, hosts in events.changed:
            self._show_changed(events, clean_line(name), hosts)
        diffs = list(events.diffs)
        for text, hosts in diffs[:DIFFS]:
            self._show_block(f"{self._who(events, hosts) or events.name}:", [f"  {line}" for line in text.splitlines()], DIFF_LINES)
        if diffs[DIFFS:]:
            self._display.display(f"... ({len(diffs) - DIFFS} more diffs{USE_V})")
        for text, hosts in events.messages:
            self._show_message(events, text, hosts)
        for text in failed:
            self._show_error(text, constants.COLOR_ERROR)
        for text in unreachable:
            self._show_error(text, constants.COLOR_UNREACHABLE)

    def _show_warnings(self, events: TaskEvents, room: int) -> None:
        found = [(f"{text} (also on {host_names(hosts[1:], ())})" if hosts[1:] else text, hosts) for text, hosts in events.warnings]
        for text in fitting(found, room, "warnings"):
            self._display.warning(text)

    def _show_changed(self, events: TaskEvents, name: str, hosts: list[str]) -> None:
        who, verb = self._who(events, hosts), "would change" if events.is_check else "changed"
        line = f"{name}: {verb} on {who}" if who else f"{name}: {verb}"
        if line not in self._told:
            self._told.add(line)
            self._totals.shows_changes = True
            self._display.display(line, color=constants.COLOR_CHANGED)

    def _show_message(self, events: TaskEvents, text: str, hosts: list[str]) -> None:
        who = "" if set(hosts) >= self._hosts else self._who(events, hosts)
        if who and "\n" in text:
            text = "\n" + textwrap.indent(text, "  ")
        self._display.display(f"{who}: {text}" if who else text)

    def _failures(self, events: TaskEvents) -> list[str]:
        """Return why a task failed, as texts."""
        groups, texts = list(events.failures), []
        number = min(len(groups), FAILURES)
        limit = failures.LINES if number <= 1 else failures.LINES // number - 1
        for text, hosts in groups[:FAILURES]:
            who = self._who(events, hosts)
            texts.append(f"FAILED: {events.name} ({who})" if who else f"FAILED: {events.name}")
            texts.append(textwrap.indent("\n".join(map(short, failures.shortened(text, limit))), "  "))
        rest = [host for _text, hosts in groups[FAILURES:] for host in hosts]
        return [*texts, f"The task also failed on {host_names(rest, ())}, with other errors. Use -v to show them."] if rest else texts

    def _show_error(self, text: str, color: str) -> None:
        self._display.display(text, color=color, stderr=self.get_option("display_failed_stderr"))

    def _unreachable(self, groups: list[tuple[str, list[str]]], room: int) -> list[str]:
        """Return why hosts are unreachable, and which other hosts SSH reaches only through one of these hosts, in at most `room` lines."""
        unreachable = {host for _text, hosts in groups for host in hosts}
        behind: dict[str, list[str]] = {}
        lines: list[tuple[str, list[str]]] = []
        for text, hosts in groups:
            other = failures.other_host(text)
            if other in unreachable:
                behind.setdefault(other, []).extend(hosts)
                continue
            lines.append((short(f"{host_names(hosts, self._hosts)} {are(hosts)} unreachable: {text}"), hosts))
        for other, hosts in behind.items():
            them = form(len(hosts), "it", "them")
            why = f"because SSH reaches {them} through {other}"
            lines.append((f"{host_names(hosts, self._hosts)} {are(hosts)} unreachable, {why}.", hosts))
        return fitting(lines, room, "unreachable hosts")

    def _show_block(self, heading: str, lines: list[str], limit: int) -> None:
        rest = len(lines) - limit
        more = [f"... ({plural(rest, 'more line, -v shows it', 'more lines, -v shows them')})"] if rest > 0 else []
        self._display.display("\n".join([heading, *lines[:limit], *more]))

    def _who(self, events: TaskEvents, hosts: list[str]) -> str:
        """Return the hosts as text, or an empty string for tasks that run once or only on the controller."""
        if events.task.run_once is True or self._hosts <= set(constants.LOCALHOST):
            return ""
        return host_names(hosts, self._hosts)

    @concise
    def v2_playbook_on_stats(self, stats: Any) -> None:
        self._flush()
        failed = {*stats.failures, *stats.dark}
        for (host, _block), (name, text) in self._handled.items():
            if host in failed - self._totals.failed:
                self._show_error(f"FAILED: {name} ({host})\n{textwrap.indent(text, '  ')}", constants.COLOR_ERROR)
        self._screen.stage("")
        for line, color in self._summary(bool(failed)):
            self._screen.end(line, color=color)

    def _summary(self, is_failed: bool) -> Iterator[tuple[str, str | None]]:
        """Yield the summary lines with their colors. A playbook run that only displays information has no summary."""
        totals = self._totals
        # A failed job may have run on only some of the hosts. If no host has reported the end of the job, it is still running.
        ran = "ran the job on" if totals.job_is_over and not is_failed else "started the job on"
        verbs = {"changed": totals.hosts, ran: totals.run_hosts, "stopped the job on": totals.stop_hosts}
        parts = [*changes.totals(totals.changes), *(f"{verb} {count_hosts(hosts)}" for verb, hosts in verbs.items() if hosts)]
        seconds, done = f"{time.monotonic() - totals.began:.0f} s", ", ".join(parts) or "changed nothing"
        if is_failed:
            # The totals do not count changes on the controller, although these changes are displayed.
            failed = f"Failed after {seconds}" if totals.shows_changes and not parts else f"Failed after {seconds}: {done}"
            yield f"{failed}. Use -v to show all tasks and results.", constants.COLOR_ERROR
        elif context.CLIARGS.get("check"):
            yield f"Plan: {_plan(totals)}", None
        elif totals.provisions or parts:
            yield f"Done in {seconds}: {done}.", None


def _plan(totals: Totals) -> str:
    plan = [changes.counts(totals.changes)] if totals.provisions else []
    plan += [f"then {per_hour(totals.price)}"] if totals.provisions and is_known(totals.price) else []
    plan += [f"{count_hosts(totals.hosts)} to change"] if totals.hosts else []
    plan += [f"job to run on {count_hosts(totals.run_hosts)}"] if totals.run_hosts else []
    return "; ".join(plan) or "nothing to change"


def is_end_of_job(action: str, result: Mapping[str, Any]) -> bool:
    """Return whether a task has waited until the end of a job. After Ctrl-C, a user can leave the job running."""
    return action == JOB_WAIT and not result.get("interrupted")
