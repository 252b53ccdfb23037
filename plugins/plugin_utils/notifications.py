# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Sends notifications about the events of a run to the URLs in `deeplearning_notify`.

A child process sends each notification to each URL, so that no receiver can stop the run. URLs are never arguments of tasks or processes,
parts of results, or texts of messages. Most texts come from hosts, which must not be able to forge or to silence notifications.
"""

from __future__ import annotations

import contextlib
import getpass
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from ansible import constants
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils._job import state_names
from ..module_utils._job.job_status import JobStatus
from ..module_utils._secret_forms import mask
from ..module_utils._text import clean_line
from ..module_utils._words import plural
from ._output import changes
from .gone_nodes import gone_hosts, with_gone_hosts
from .job_formatting import after_maximum_cost, failure_cause
from .node_end_messages import removed_ends
from .suggested_commands import NOT_SHOWN, playbook_command
from .variable_names import known_variables

display = Display()

VARIABLE = "deeplearning_notify"
TEST = "test"
SENDER = Path(__file__).parent / "_notify" / "sender.py"
# Maximum seconds for which a task waits until its notifications have been sent.
WAIT_SECONDS = 10.0
PAUSE_SECONDS = 0.1
# Minimum number of seconds between two notifications about the same kind of event of a job, and their maximum number in a run. These limits
# do not apply to the end of a job. Each kind has its own limits, so that many events of one kind do not silence other kinds.
RATE_SECONDS, MOST = 60.0, 10
# Maximum number of characters of what has happened.
LIMIT = 700
# Characters of links, mentions, entities and formatted text. Apprise does not escape all of them for each receiver.
MARKUP = str.maketrans({"<": "(", ">": ")", "[": "(", "]": ")", "@": " at ", "`": "'", "*": "'", "|": "/", "~": "-", "&": "+"})
# A command at the end of a message, which is complete without a full stop.
COMMAND = re.compile(r"\bansible-playbook .*deeplearning\.cluster\.\w+(?: -e \S+=\w+)*$")
LINK = re.compile(r"(?i)://|\bwww\.")
# What the message of a run that fails for lack of capacity contains.
INSUFFICIENT = "AWS has insufficient capacity"
SCHEMA = re.compile(r"([a-z][a-z0-9+.-]{0,20})://", re.IGNORECASE)
MISSING = f"{VARIABLE}: needs the Python package apprise, which is not installed on the controller. Run pip install apprise."


class Event(NamedTuple):
    """A kind of event: how bad it is, in the words of Apprise, and the next command.

    `purpose` says what the command does, and `options` are added to it. The limits do not apply if `always` is true.
    """

    severity: str
    purpose: str
    playbook: str
    options: str = ""
    always: bool = False


EVENTS: Mapping[str, Event] = {
    "job_started": Event("info", "watch it", "logs", "-e follow=true"),
    "job_restarted": Event("warning", "show its attempts", "status"),
    "job_succeeded": Event("success", "show it", "status", always=True),
    "job_not_started": Event("failure", "show the nodes and what they cost", "info", always=True),
    "job_failed": Event("failure", "read all logs", "logs", always=True),
    "job_stopped": Event("warning", "show it", "status", always=True),
    "job_unreachable": Event("failure", "show it", "status", always=True),
    "nodes_gone": Event("warning", "show the nodes", "info"),
    "nodes_replaced": Event("info", "show the nodes", "info"),
    "nodes_ended": Event("warning", "see what still costs money", "info"),
    "nodes_kept": Event("failure", "see what they cost", "info", always=True),
    "cluster_destroyed": Event("info", "see what happened to it", "events"),
    "ends_removed": Event("warning", "set this again with these options in the definition", "provision"),
    "price_exceeded": Event(
        "warning", "see what costs how much, with the -e of the run", "validate", "-e deeplearning_enforce_price_warning=false"
    ),
    "nodes_short": Event("warning", "try to launch the missing nodes", "provision", "-e deeplearning_grow=true"),
    TEST: Event("info", "check the definition", "validate", always=True),
}


class Notifications:
    """Sends the notifications of a run. `action` is the action of a task whose variables contain the URLs.

    The processes of a run share a directory, which contains counts of events and the results of the child processes.
    """

    def __init__(self, action: ActionBase, variables: Mapping[str, Any]) -> None:
        self._action, self._variables = action, variables
        self._folder = Path(constants.DEFAULT_LOCAL_TMP) / "deeplearning-notifications"

    def send(self, event: str, text: str, job: str = "", note: str = "") -> None:
        """Begin to send a notification. Problems are only shown.

        `text` is a sentence about what has happened, and `note` one of the controller, which contains nothing of a host.
        """
        try:
            urls = self._urls()
            withheld = self._withheld(event, job) if urls else None
            if withheld is not None:
                self._start(urls, self._message(event, text, job, note, withheld))
        except (AnsibleError, OSError) as error:
            display.warning(f"{VARIABLE}: a notification was not sent: {_described(error)}.")

    def show_problems(self) -> None:
        """Show a warning about each URL that has not received a notification."""
        for problem in self.problems():
            display.warning(problem)

    def problems(self) -> list[str]:
        """Wait until all notifications have been sent, but not too long, and return a message about each URL with a problem."""
        end, found = time.monotonic() + WAIT_SECONDS, Counter[str]()
        for path in sorted(self._folder.glob("result *")):
            while not (answer := path.read_text(encoding="utf-8")) and time.monotonic() < end:
                time.sleep(PAUSE_SECONDS)
            problem = json.loads(answer) if answer else f"did not answer within {WAIT_SECONDS:.0f} s"
            _result, number, schema, _random = path.name.split(" ")
            if problem:
                found[f"{VARIABLE}: URL {number} ({schema}) {problem}."] += 1
            path.unlink()
        return [f"{message} This happened {count} times." if count > 1 else message for message, count in found.items()]

    def test(self, text: str) -> list[str]:
        """Send a test notification to each URL, and return a message about each problem."""
        if wrong := self.errors():
            return wrong
        if not self._urls():
            return [f"{VARIABLE}: is empty. Specify a list of Apprise URLs."]
        self.send(TEST, text)
        return self.problems()

    def errors(self) -> list[str]:
        """Return a message about each URL that Apprise cannot use."""
        try:
            urls = self._urls()
        except AnsibleError as error:
            return [f"{VARIABLE}: {_described(error)}."]
        if not urls:
            return []
        if importlib.util.find_spec("apprise") is None:
            return [MISSING]
        self._start(urls, {})
        return self.problems()

    def _urls(self) -> dict[int, str]:
        """Return the URLs by number. Empty ones are left out, so that a variable of the environment can turn notifications off."""
        found = self._value(VARIABLE) or []
        return {number: str(url) for number, url in enumerate(found if isinstance(found, list) else [found], 1) if url}

    def _value(self, name: str) -> Any:
        raw = self._variables.get(name)
        return self._action._templar.template(raw) if raw else None

    def _withheld(self, event: str, job: str) -> int | None:
        """Count an event, and return how many notifications about the job were not sent before it. Return None if it is not to be sent."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path, now, key = self._folder / "counts.json", time.monotonic(), f"{event} {job}"
        counts = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"sent": {}, "withheld": {}}
        times = counts["sent"].setdefault(key, [])
        if not EVENTS[event].always and (len(times) >= MOST or (times and now - times[-1] < RATE_SECONDS)):
            counts["withheld"][job] = counts["withheld"].get(job, 0) + 1
            withheld = None
        else:
            times.append(now)
            withheld = counts["withheld"].pop(job, 0)
        path.write_text(json.dumps(counts), encoding="utf-8")
        return withheld

    def _message(self, event: str, text: str, job: str, note: str, withheld: int) -> dict[str, str]:
        kind = EVENTS[event]
        if kind.playbook == "validate" and str(self._action._task.action).endswith("emr_cluster"):
            kind = kind._replace(playbook="emr", options=f"--check {kind.options}")  # validate refuses EMR clusters
        command = [playbook_command(kind.playbook), kind.options, f"-e training_job_name={job}" if job and kind.playbook != "info" else ""]
        more = f"{plural(withheld, 'more notification was', 'more notifications were')} not sent." if withheld else ""
        parts = [*(COMMAND.sub(r"\g<0>\n", each) for each in (self._plain(text), note)), more, f"To {kind.purpose}, run:", *command]
        title = [str(self._value("deeplearning_cluster") or ""), job]
        body = " ".join(filter(None, parts)).replace("\n ", "\n")
        return {"title": " ".join(filter(None, title)), "body": body, "severity": kind.severity}

    def _plain(self, text: str) -> str:
        """Return a text from hosts as one sentence without links, mentions, formatting and the job's secrets."""
        secrets = self._value("training_job_secrets")
        values = map(str, secrets.values()) if isinstance(secrets, Mapping) else ()
        line = mask(_one_line(text), values, NOT_SHOWN, _one_line)
        # Commands begin with options of this run, which are not from hosts
        line = playbook_command("").join(map(_without_markup, line[:LIMIT].split(playbook_command(""))))
        first = line[:1] if line.partition(":")[0] in known_variables() else line[:1].upper()
        return f"{first}{line[1:]}{'' if line.endswith(('.', '!', '?')) or COMMAND.search(line) else '.'}"

    def _start(self, urls: Mapping[int, str], message: Mapping[str, str]) -> None:
        """Start a process for each URL, which outlives this one. Without a message, the process only checks the URL."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for number, url in urls.items():
            schema = SCHEMA.match(url)
            name = f"result {number} {schema[1].lower() if schema else 'unknown'} "
            with tempfile.NamedTemporaryFile("w", dir=self._folder, prefix=name, delete=False) as result:
                process = subprocess.Popen(
                    [sys.executable, str(SENDER)],
                    stdin=subprocess.PIPE,
                    stdout=result,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C does not end it
                    text=True,
                )
            process.returncode = 0  # it outlives this process, which does not wait for it
            with contextlib.suppress(OSError), cast(IO[str], process.stdin) as given:
                json.dump({"url": url, **message}, given)


def _without_markup(text: str) -> str:
    return LINK.sub(lambda found: f"{found[0][:-1]} {found[0][-1]}", text.translate(MARKUP))


def _one_line(text: str) -> str:
    return " ".join(clean_line(text).split())


def of_provisioning(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the events in the result of the module `cluster`, each with a sentence."""
    degraded, message = result.get("degraded"), str(result.get("msg", ""))
    if degraded:
        yield "nodes_short", f"The cluster has {degraded['workers']} of {degraded['wanted']} workers. {degraded['reason'] or ''}"
    elif result.get("failed") and INSUFFICIENT in message:
        yield "nodes_short", message
    elif result.get("nodes_ended"):
        why = message.partition(": ")[2].replace(" add -e ", f" run {playbook_command('provision')} -e ")
        yield "nodes_ended", f"No nodes were launched. {why[:1].upper()}{why[1:]}"
    elif result.get("price_exceeded"):
        yield "price_exceeded", f"The run was stopped because after it, {result['price_exceeded']}. Nothing was changed."
    yield from _changed(result)


def _changed(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the events that are changes, also those of a run that has failed afterwards."""
    if result.get("removed_ends") and "changes" in result:
        yield "ends_removed", removed_ends(result["removed_ends"], _who())
    replaced = list(filter(changes.replaces_nodes, changes.changes_of(result) or []))
    if replaced and not result.get("failed"):
        yield "nodes_replaced", "; ".join(line[2:] for _action, line in changes.plan_lines(replaced, properties=False))


def _who() -> str:
    """Return which run this is, for people who do not see its output."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"user {os.getuid()}"
    return f"A run of {user} on {socket.gethostname()}"


def of_end(job: str, failure: str, result: Mapping[str, Any], losses: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the events at the end of a job, each with a sentence. `failure` is why it failed, or an empty string.

    `result` is the result of `training_job_wait`, or empty. `losses` contains the arguments of `gone_hosts`.
    """
    found = cast(JobStatus, result.get("job") or {})
    if not failure:
        yield "job_succeeded", f"Job {job} succeeded."
        return
    sentence, gone = failure.partition("\n")[0], dict[str, str]()
    if "failure" in found:
        try:
            gone = gone_hosts(found, **losses)
            judged = with_gone_hosts(found, gone)
            last = [] if "gone" in judged["failure"] else judged["failure"]["lines"][-1:]
            sentence = " ".join([failure_cause(judged), *after_maximum_cost(judged), *(f"Its log ends with: {line}" for line in last)])
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            pass  # a job can write anything into its files, and its end must be told nevertheless
    if gone:
        yield "nodes_gone", " ".join(gone.values())
    yield _kind_of_end(result, found), sentence


def _kind_of_end(result: Mapping[str, Any], found: JobStatus) -> str:
    if not result or result.get("skipped"):
        return "job_not_started"
    if result.get("out_of_reach"):
        return "job_unreachable"
    return "job_stopped" if found.get("state") == state_names.STOPPED or result.get("interrupted") else "job_failed"


def _described(error: Exception) -> str:
    """Return what is wrong without the text of a template, which can contain a URL."""
    return (
        str(error.strerror) if isinstance(error, OSError) else f"its value cannot be evaluated ({type(error).__name__}). Check its lookups"
    )
