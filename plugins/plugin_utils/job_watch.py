# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Polls a job through one of its hosts, and shows new progress and new log lines."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Callable, Mapping, Sequence

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.utils.display import Display

from ..module_utils._job import recovery, state_names
from ..module_utils._job.directories import Paths
from ..module_utils._job.job_states import CLOCK_LIMIT, participants
from ..module_utils._job.job_status import STATUS_COMMAND, JobStatus
from ..module_utils._job.naming import JOB_NAME
from ..module_utils._job.records import LINES_LIMIT
from ..module_utils._text import clean_line
from ..module_utils._words import plural
from . import job_formatting
from ._output.hosts import host_names
from .answers import NodeAction
from .attempt_messages import attempt_cause, explain
from .budget import LOG_TEXT, MESSAGES, Budget
from .documented_values import refusal
from .job_metrics import JobMetrics
from .output import ProgressLine, show
from .suggested_commands import playbook_command

display = Display()

# Maximum duration of one poll, in seconds. The poll ends earlier if there is something new.
POLL_SECONDS = 10

# Minimum time between two polls, in seconds. Because of this pause, a script that reports many times per second does not keep the
# controller busy.
PAUSE_SECONDS = 1.0

# Time for which new progress is collected on the host before it is shown, as a fraction of the time since the beginning. Each poll starts a
# module, which uses CPU time of the host. Polls therefore become less frequent over time, down to one every POLL_SECONDS. New log lines are
# shown at once.
HOLD_SHARE = 0.05

# Maximum seconds until a queue has started the processes of a job on its hosts, and their records are visible on another host.
QUEUE_SECONDS = 120

# Maximum seconds for which the queue of a waiting job may not respond. Otherwise, the files of an ended job could claim that it waits.
QUEUE_PATIENCE = 3600

# Maximum number of metrics to keep, and maximum number of characters in a metric and in its name. Metrics that come later are ignored.
METRICS, METRIC = 1000, 200

# Maximum number of logs whose offsets are kept. A job has at most this number of processes in an attempt.
OFFSETS = 1 << 14

# Seconds without a new heartbeat after which a line names the host. Processes send a heartbeat every 5 s.
SILENCE_SECONDS = 15

# Runs training_job_info on the host with these arguments and returns its result.
Poll = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def polls_through(action: NodeAction, task_vars: Mapping[str, Any] | None) -> Poll:
    """Return a function that polls a job through the host of an action's task.

    The watch itself repeats polls. Without pipelining, Ansible would try each file for minutes if the host is lost.
    """
    connection = action._connection
    if connection.transport == "ssh":
        connection.set_option("reconnection_retries", 0)
    return lambda arguments: job_info(action, arguments, task_vars)


def job_info(action: NodeAction, arguments: Mapping[str, Any], task_vars: Mapping[str, Any] | None) -> dict[str, Any]:
    """Run training_job_info on the host of an action's task and return its result.

    Job names in the result are checked, because messages suggest commands that contain job names. If `arguments` contains the name of a
    job, the result has the directory from `arguments`.
    """
    module = "deeplearning.cluster.training_job_info"
    answer: dict[str, Any] = action._execute_module(module, module_args=dict(arguments), task_vars=task_vars)
    if answer.get("failed"):
        message = str(answer.get("msg", "training_job_info failed"))
        return {**answer, "msg": message.replace(STATUS_COMMAND, playbook_command("status"))}
    host, name = (task_vars or {}).get("inventory_hostname", ""), arguments.get("name")
    if name and len(answer["jobs"]) != 1 and (answer["jobs"] or not arguments.get("missing_ok")):
        return refusal(host, module, f"the result contains {len(answer['jobs'])} jobs instead of only {name}")
    for job in answer["jobs"]:
        problem = contradiction(job, name)
        if problem:
            return refusal(host, module, problem)
        if name:
            job["directory"] = os.path.join(str(arguments["directory"]), str(name))
    return answer


def contradiction(job: Mapping[str, Any], name: str | None) -> str:
    """Return why a job in a result is not valid, or an empty string. `name` is the name of the requested job, if any."""
    if not JOB_NAME.fullmatch(job["name"]):
        return f"{job['name'][:70]!r} is not a valid job name"
    if name and job["name"] != name:
        return f"it describes the job {job['name']} instead of {name}"
    if "over" in job and job["over"] != state_names.is_over(job["state"]):
        return f"over is {job['over']}, but the state of {job['name']} is {job['state']}"
    return ""


class JobWatch:
    """Follows one job. `arguments` contains `name`, `directory`, `heartbeat_timeout` and, if logs are shown, `log_lines`.

    When processes have started, a message shows the number of processes, the path of the logs and the `hint`. `metrics` contains the last
    value of each key that the script has reported. The `file` with the metrics of the job, if any, is kept up to date. `notify` gets the
    kind of each event to notify people about, and a sentence about the event.

    A job can write anything into its files, even when it ends. The files therefore cannot make the watch wait forever: a job that has run
    no longer waits in a queue, records that no longer change do not show a running job, and a queue must respond in time. If
    `is_on_host` is true, the job has started, the polls go through one of its hosts, and the job waits only while root keeps its
    parameters there.
    """

    def __init__(
        self,
        poll: Poll,
        arguments: Mapping[str, Any],
        hint: str,
        file: JobMetrics | None = None,
        *,
        is_on_host: bool = False,
        notify: Callable[[str, str], None] = lambda _event, _text: None,
    ) -> None:
        self._is_on_host, self._notify = is_on_host, notify
        self._has_run = False
        self._heartbeats: object = None
        self._changed = self._queue_answered = 0.0
        self.metrics: dict[str, Any] = {}
        self._file = file
        self._hint = hint
        self._ask = poll
        self._arguments = arguments
        self._seen: dict[str, Any] = {}
        # The last attempt whose end was shown.
        self._attempt = 0
        # The last heartbeat of each process, and when this controller saw it for the first time.
        self._heard: dict[str, tuple[float, float]] = {}
        self._silent: set[str] = set()
        self._is_quiet = False
        self._waiting = ""
        self._problems: set[str] = set()

    def follow(self, left: Callable[[], bool] = lambda: False) -> JobStatus:
        """Return the status of the job when the job is over, or as soon as `left` returns true.

        Raises AnsibleActionFail if the job does not start, or if its host is unreachable, or lacks the job, for too long.
        """
        timeout = self._arguments["heartbeat_timeout"]
        share = HOLD_SHARE if self._arguments.get("log_lines") is None else 0.0
        began = seen = time.monotonic()
        found: JobStatus | None = None
        while True:
            now = time.monotonic()
            try:
                found = self.poll(POLL_SECONDS, min(POLL_SECONDS, int(share * (now - began))))
                seen = now
            except AnsibleConnectionFailure as error:
                if found and left():
                    return found
                if now - seen > timeout:
                    # The controller itself may have lost its network connection. A job runs without the controller, so it is not stopped.
                    raise AnsibleActionFail(
                        f"The host that reports on the job has not told its status for {timeout} s: {error}. {self._continuing()}",
                        result={"out_of_reach": True, **({"job": found} if found else {})},
                    ) from None  # Ansible would repeat the error at the end
                display.warning(f"cannot read the status of job {self._arguments['name']}, retrying: {error}")
                time.sleep(PAUSE_SECONDS)
                continue
            if state_names.is_over(found["state"]):
                return self._settle(found)
            if left():
                return found
            self._check_life(found, now)
            if found["state"] == state_names.QUEUED:
                began = time.monotonic()
            self._check_start(found, now - began)
            time.sleep(max(0.0, PAUSE_SECONDS - (time.monotonic() - now)))

    def _continuing(self) -> str:
        """Return what to do about a job that this run no longer reaches. Without its name, the same command could start another job."""
        return f"The job was not stopped. Run the same command again with -e training_job_name={self._arguments['name']}"

    def poll(self, wait: int = 0, hold: int = 0) -> JobStatus:
        """Return the current status of the job, and show its progress and logs since the last poll.

        The poll lasts up to `wait` seconds. New progress is collected for `hold` seconds. Raises AnsibleConnectionFailure if the host is
        unreachable, or lacks a job that has started.
        """
        answer = self._read(wait, hold)
        self._show_problems(answer.get("problems") or [])
        found: JobStatus = answer["jobs"][0]
        progress = found.pop("progress")
        self._seen["progress_offset"] = found.pop("progress_offset")
        if "log_offsets" in found:
            self._seen["log_offsets"] = merged_offsets(self._seen.get("log_offsets", {}), found.pop("log_offsets"))
        self._correct_state(found)
        if found["processes"] and self._hint:
            show(f"{found['name']}: {found['process_count']} processes, logs in {Paths(found['directory']).logs}; {self._hint}")
            processes, hosts = plural(found["process_count"], "process", "processes"), plural(found["hosts"], "host", "hosts")
            self._notify("job_started", f"Job {found['name']} runs with {processes} on {hosts}.")
            self._hint = ""
        if found["state"] == state_names.QUEUED:
            self._show_queue(found)
        self._show_attempts(found)
        self._write_metrics(found)
        lines = job_formatting.log_lines(found.pop("logs", []), found["processes"])
        if lines:
            show(Budget(text=LOG_TEXT, lines=LINES_LIMIT).lines(lines), LOG_TEXT)
        for entry in progress:
            self._keep_metrics(entry)
        if progress:
            show(ProgressLine(f"{found['name']}: {job_formatting.progress_line(progress[-1])}"))
        self._show_silence(found)
        self._show_quiet(found)
        return found

    def _read(self, wait: int, hold: int) -> Mapping[str, Any]:
        """Return the result of a poll. A host that is shutting down unmounts the storage before it becomes unreachable."""
        more = self._file.arguments() if self._file else {}
        exists = self._is_on_host or bool(self._seen)
        answer = self._ask({**self._arguments, **self._seen, **more, "wait": wait, "hold": hold, "missing_ok": exists})
        if answer.get("failed"):
            raise AnsibleActionFail(answer.get("msg", "training_job_info failed"), result=answer)
        if not answer["jobs"]:
            raise AnsibleConnectionFailure("it does not find the files of the job, as if its storage were not mounted")
        return answer

    def _correct_state(self, found: JobStatus) -> None:
        """Set the state to `pending` if only the job's files say that the job waits in a queue."""
        self._has_run = self._has_run or bool(found["processes"])
        if found["state"] == state_names.QUEUED and (self._has_run or (self._is_on_host and not found["queue"].get("held"))):
            found["state"] = state_names.PENDING

    def _check_start(self, found: JobStatus, waited: float) -> None:
        """Raise AnsibleActionFail if processes of the first attempt have written no records after so many seconds."""
        missing = missing_ranks(found)
        limit = self._arguments["heartbeat_timeout"] + (QUEUE_SECONDS if "queue" in found else 0)
        if missing and found.get("attempt", 1) == 1 and waited > limit:
            raise AnsibleActionFail(
                f"job {found['name']}: {missing} of its processes wrote no record within {limit} s. "
                f"Read their messages on the hosts with: journalctl -u 'deeplearning-{found['name']}-*'"
            )

    def _check_life(self, found: JobStatus, now: float) -> None:
        """Raise AnsibleActionFail if the job's records have not changed, or if its queue has not responded, for too long."""
        heartbeats = [(process["name"], process["heartbeat"]) for process in found["processes"]]
        if heartbeats != self._heartbeats:
            self._heartbeats, self._changed = heartbeats, now
        problem = found["queue"].get("problem") if found["state"] == state_names.QUEUED else None
        if not problem:
            self._queue_answered = now
        limit = self._arguments["heartbeat_timeout"] + CLOCK_LIMIT
        if found["state"] == state_names.RUNNING and now - self._changed > limit:
            raise AnsibleActionFail(
                f"job {found['name']}: its records say that it is running, but have not changed for {limit} s. Check its hosts and their "
                "storage."
            )
        if problem and now - self._queue_answered > QUEUE_PATIENCE:
            raise AnsibleActionFail(
                f"job {found['name']}: its queue has not responded for {QUEUE_PATIENCE} s: {problem.rstrip('.')}. {self._continuing()}",
                result={"out_of_reach": True},
            )

    def _show_problems(self, problems: Sequence[str]) -> None:
        """Show new problems. When there are too many, their number is shown once."""
        new = [problem for problem in problems if problem not in self._problems]
        room = MESSAGES - len(self._problems)
        for text in Budget(room).messages(new, "problems") if new and room >= 0 else ():
            display.warning(text)
        self._problems.update(new[: room + 1])

    def _keep_metrics(self, entry: Mapping[str, Any]) -> None:
        """Keep the values of a progress entry. A script can report new names and long values forever."""
        for name, value in entry.items():
            if len(name) <= METRIC and len(str(value)) <= METRIC and (name in self.metrics or len(self.metrics) < METRICS):
                self.metrics[name] = value

    def _write_metrics(self, found: JobStatus) -> None:
        """Update the file with the metrics. If the file cannot be written, show a warning once. The job is not affected."""
        if self._file:
            try:
                self._file.write(found)
            except OSError as error:
                display.warning(f"metrics_directory: {str(self._file.path)!r} cannot be written: {error}. Use another directory.")
                self._file = None

    def _show_queue(self, found: JobStatus) -> None:
        """Show why the job waits, if the reason has changed since the last poll."""
        text = job_formatting.waiting(found["queue"])
        if text != self._waiting:
            self._waiting = text
            show(ProgressLine(f"{found['name']}: queued {text}{'; ' + self._hint if self._hint else ''}"))

    def _show_attempts(self, found: JobStatus) -> None:
        """Show why an attempt has ended and what follows, once for each attempt. The job's last attempt is not shown here, because the
        job's failure message reports it.
        """
        new = [one for one in found.get("attempts") or [] if one.get("action") == recovery.RESTART and one["attempt"] > self._attempt]
        self._attempt = max((one["attempt"] for one in new), default=self._attempt)
        causes = [f": {cause}" if (cause := attempt_cause(one)) else "" for one in new]
        lines = [f"{found['name']}: attempt {one['attempt']} failed{cause}. {explain(one)}" for one, cause in zip(new, causes)]
        for line in Budget().messages(lines, "attempts"):
            show(line)
        if lines:
            self._notify("job_restarted", f"Job {lines[-1]}")

    def _show_silence(self, found: JobStatus) -> None:
        """Show which hosts have sent no heartbeat for a while. Only the controller's clock is used."""
        now, silent = time.monotonic(), dict[str, float]()
        before, self._heard = self._heard, {}
        for process in found["processes"]:
            heartbeat, since = before.get(process["name"], (None, now))
            since = since if heartbeat == process["heartbeat"] else now
            self._heard[process["name"]] = (process["heartbeat"], since)
            if process["state"] == state_names.RUNNING and now - since >= SILENCE_SECONDS:
                silent[process["host"]] = max(now - since, silent.get(process["host"], 0.0))
        if silent:
            hosts, seconds, timeout = host_names(list(silent), ()), max(silent.values()), self._arguments["heartbeat_timeout"]
            line = f"{found['name']}: no heartbeat from {hosts} for {seconds:.0f} s. After {timeout} s, a host counts as lost."
            # The first line about a host is not a progress line, because a long playbook run shows few progress lines.
            show(clean_line(line) if silent.keys() - self._silent else ProgressLine(clean_line(line)))
        self._silent = set(silent)

    def _show_quiet(self, found: JobStatus) -> None:
        """Show for how long the job has shown no activity. Only the first line about this is not a progress line."""
        seconds = found.get("quiet") or 0.0
        if seconds:
            line = f"{found['name']}: {job_formatting.silence(seconds)}. To restart a job that hangs, set training_job_hang_timeout."
            show(ProgressLine(line) if self._is_quiet else line)
        self._is_quiet = bool(seconds)

    def _settle(self, found: JobStatus) -> JobStatus:
        """Poll a failed job once more, because the record of an earlier failure may be written slightly later."""
        if found["state"] == state_names.SUCCEEDED:
            return found
        time.sleep(PAUSE_SECONDS)
        with contextlib.suppress(AnsibleConnectionFailure):  # the failure is known already
            return self.poll()
        return found


def merged_offsets(before: Mapping[str, int], new: Mapping[str, Any]) -> dict[str, int]:
    """Return the offsets of the logs for the next poll. If there are too many, only the newest are kept."""
    valid = {name: offset for name, offset in new.items() if len(name) <= METRIC and isinstance(offset, int)}
    merged = {**before, **valid}
    return merged if len(merged) <= OFFSETS else dict(list(valid.items())[:OFFSETS])


def missing_ranks(found: JobStatus) -> int:
    """Return the number of processes of the job that have not written a record yet."""
    return max(1, found["process_count"]) - len(participants(found["processes"]))
