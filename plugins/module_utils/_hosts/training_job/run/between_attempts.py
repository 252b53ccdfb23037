# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What a supervisor does between two attempts.

A supervisor finds out why an attempt failed, and ends the remaining processes. It then decides what follows, or waits for the decision of
another supervisor.

The supervisors decide without the controller. The supervisor of the first process that responds decides for all supervisors, so a job
survives the loss of any host.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Callable, NamedTuple, Sequence, cast

from ...._job import checkpoint_layouts, exclusion_after_failures, failure_causes, recovery
from ...._job.checkpoint_layouts import Saved
from ...._job.definition import attempt_processes
from ...._job.directories import Paths, runtime_directory
from ...._job.document_schemas import DAMAGED_LIMIT
from ...._job.documents import CauseRecord, Following, ProcessRecord, ProcessSpec, Unfit, Verdict
from ...._job.failed_process import cause, has_lost_connection, is_alone, recovery_cause
from ...._job.job_states import participants
from ...._job.records import Budget, read_following, read_records, write_new_json
from ...._job.state_names import FAILED, LOST, STOPPED, is_over
from ...._launchers.base import LaunchError
from ..files import checkpoint_files, progress
from . import connections
from .descendant_processes import descendants

# Seconds between two polls of the records while all supervisors wait for each other.
INTERVAL = 0.5

CHECKPOINTS = "DEEPLEARNING_CHECKPOINT_DIRECTORY"

# The name of the rule in a decision that replaces an invalid decision.
INVALID = "invalid"

# Causes for which the script is responsible, unless only one host has them.
ONLY_HERE = (failure_causes.SCRIPT_ERROR, failure_causes.EXIT_STATUS, failure_causes.GPU_MEMORY)


def still_connected(spec: ProcessSpec, verdict: Verdict) -> str:
    """Return a host to which this supervisor's descendants have open connections, although all processes there have failed.

    The result is an empty string if there is no such host, or if the attempt did not end because a connection was closed.
    """
    if not (spec["parameters"]["restarts"] and verdict["failure"] and has_lost_connection(verdict["failure"])):
        return ""
    processes = participants(read_records(Paths(spec["directory"], spec["attempt"])))
    running = {process["host"] for process in processes if process["state"] != FAILED}
    ended = {process["host"] for process in processes} - running
    names = {host["address"]: host["name"] for host in spec["parameters"]["hosts"] if host["name"] in ended}
    return min((names[address] for address in connections.open_to(descendants(), names)), default="")


class TrainingState(NamedTuple):
    """The state of the training at the start or the end of an attempt: the complete checkpoints and the last step."""

    checkpoints: Sequence[Saved]
    step: float | None


def known(spec: ProcessSpec) -> TrainingState:
    """Return the complete checkpoints of a job, and the last step that its script has reported."""
    step = progress.last_progress(Paths(spec["directory"]).progress).get("step")
    if not isinstance(step, (int, float)) or isinstance(step, bool):
        step = None
    return TrainingState(checkpoints(spec), step)


def checkpoints(spec: ProcessSpec, find: Callable[[str], list[Saved]] = checkpoint_files.complete) -> list[Saved]:
    """Return the job's complete checkpoints, newest first. Only a directory on this host's file systems is read, not a location on S3."""
    place = spec["environment"].get(CHECKPOINTS, "")
    return find(place) if os.path.isabs(place) else []


def has_progressed(before: TrainingState, after: TrainingState, spec: ProcessSpec) -> bool:
    """Return whether an attempt has completed a checkpoint. If checkpoints cannot be read, return whether an attempt has completed new
    steps.
    """
    has_new_steps = after.step is not None and after.step > (before.step or 0.0)
    if os.path.isabs(spec["environment"].get(CHECKPOINTS, "")):
        return checkpoint_layouts.has_new(before.checkpoints, after.checkpoints, has_new_steps)
    return has_new_steps


class Recovery:
    """Determines what follows an attempt that has ended with a restartable verdict.

    The function `silent` returns whether the process that a record describes has sent no heartbeat for too long. The function `stopped`
    returns whether this supervisor must end.
    """

    def __init__(
        self, spec: ProcessSpec, before: TrainingState, silent: Callable[[ProcessRecord], bool], stopped: Callable[[], bool]
    ) -> None:
        self._spec = spec
        self._paths = Paths(spec["directory"], spec["attempt"])
        self._before = before
        # Until `_patient_until`, processes without a record may still be starting.
        self._patient_until = time.monotonic() + spec["parameters"]["heartbeat_timeout"]
        self._waits_until = time.monotonic() + recovery.REBOOT_PATIENCE
        self._silent = silent
        self._stopped = stopped

    def following(self, verdict: Verdict) -> Following | None:
        """Return what follows the attempt, or None if this supervisor must end. Waits until all supervisors are ready or silent."""
        while not self._stopped():
            with contextlib.suppress(OSError):
                os.utime(self._paths.status)  # makes an NFS client fetch the directory again
                found = read_following(self._paths) or self._decide(verdict)
                if found:
                    return found
            time.sleep(INTERVAL)
        return None

    def _planned(self) -> int:
        """Return the number of processes in the attempt, including standby processes."""
        return self._spec["processes"] + self._spec["standby"]

    def conclude(self, verdict: Verdict) -> None:
        """Write the decision to stop if no supervisor is left that could start another attempt, for example if AWS terminates all hosts."""
        with contextlib.suppress(OSError):
            processes = read_records(self._paths)
            if len(processes) == self._planned() and all(process.get("available") is False for process in processes):
                write_new_json(self._paths.following, self._decision(processes, set(), verdict))

    def _decide(self, verdict: Verdict) -> Following | None:
        """Write the decision about what follows, and return what the other supervisors will read.

        Only the supervisor of the first process that responds writes the decision, after all other supervisors are ready, silent or
        leaving.
        """
        processes = read_records(self._paths)
        if len(processes) < self._planned() and time.monotonic() < self._patient_until:
            return None
        silent = {process["name"] for process in processes if self._silent(process)}
        if not self._may_decide([process for process in processes if process["name"] not in silent]):
            return None
        if self._waits_for_reboot(processes, silent, verdict):
            return None
        decision = self._decision(processes, silent, verdict)
        if write_new_json(self._paths.following, decision):
            record_failure(self._spec, decision)
        # The file may contain the decision of another supervisor, or a decision that a process of the job has changed. An invalid decision
        # ends the job.
        return read_following(self._paths) or {**decision, "action": recovery.STOP, "rule": INVALID}

    def _may_decide(self, processes: Sequence[ProcessRecord]) -> bool:
        """Return whether this supervisor decides now. `processes` are the processes that are not silent."""
        answering = [process for process in processes if process.get("available") is not False]
        # A host that has rebooted does not know whether the attempt completed a checkpoint.
        deciding = [process for process in answering if not process.get("rebooted")] or answering
        is_first = bool(deciding) and deciding[0]["name"] == self._spec["name"]
        return is_first and all(process.get("available") for process in answering)

    def _waits_for_reboot(self, processes: Sequence[ProcessRecord], silent: set[str], verdict: Verdict) -> bool:
        """Return whether the decision must wait for hosts that reboot."""
        rebooting = [each["host"] for each in processes if each.get("unfit", {}).get("reboots") and not each.get("rebooted")]
        if not rebooting or time.monotonic() > self._waits_until:
            return False
        seen, failure, why, progressed = self._failure(processes, silent, verdict)
        attempt = recovery.FailedAttempt(recovery_cause(why, failure["host"]), progressed)
        return recovery.waits_for_reboot(self._situation(seen, attempt, checkpoints(self._spec)), rebooting)

    def _failure(
        self, processes: Sequence[ProcessRecord], silent: set[str], verdict: Verdict
    ) -> tuple[list[ProcessRecord], ProcessRecord, CauseRecord, bool]:
        """Return the attempt's processes, the one that ended the attempt, the cause, and whether the attempt completed a checkpoint."""
        seen = [as_lost(process) if process["name"] in silent else process for process in processes]
        failure = cause(seen, verdict["failure"]) or seen[0]
        failure, why = blame_unhealthy(failure, cause_of(failure), participants(seen))
        if why["kind"] in ONLY_HERE and is_alone(failure, participants(seen)):
            why = {**why, "alone": True}
        after = known(self._spec)
        if why["kind"] == failure_causes.DISK_FULL:  # the newest checkpoint may be the file that could not be written
            after = after._replace(checkpoints=after.checkpoints[1:])
        return seen, failure, why, has_progressed(self._before, after, self._spec)

    def _decision(self, processes: Sequence[ProcessRecord], silent: set[str], verdict: Verdict) -> Following:
        """Return what follows the attempt that these records describe."""
        spec = self._spec
        ran = participants(processes)
        seen, failure, why, progressed = self._failure(processes, silent, verdict)
        saved = checkpoints(spec)
        situation = self._situation(seen, recovery.FailedAttempt(recovery_cause(why, failure["host"]), progressed), saved)
        decision = recovery.decide(situation)
        refusal = self._refusal(decision)
        if refusal:
            decision = recovery.decide(situation._replace(refusal=refusal))
        found: Following = {
            "action": decision.action,
            "rule": decision.rule,
            "decided": time.time(),
            "started": min(process["started"] for process in ran or processes),
            "ran_on": max(1, len({process["host"] for process in ran})),
            "failure": cast(ProcessRecord, {**failure, "ranks": failure["ranks"][:2]}),
            "cause": why,
            "progress": progressed,
            "hosts": list(decision.hosts),
            "standby": list(decision.standby),
            "replacements": list(decision.replacements),
            "missing": [host for host in situation.hosts if host not in situation.available],
            "excluded": _excluded(seen, situation.hosts),
            "restarts": situation.policy.restarts,
            "min_hosts": situation.policy.min_hosts,
            "reboots": _reboots(seen, failure["host"]),
            "refusal": refusal,
        }
        if decision.set_aside:
            found["set_aside"] = {"name": saved[0].name, "changed": saved[0].changed}
        # If a disk is full, the damaged checkpoint is the one that could not be written, and nothing is known about later ones.
        damaged = checkpoints(spec, checkpoint_files.damaged) if why["kind"] != failure_causes.DISK_FULL else []
        if damaged and decision.action == recovery.RESTART:
            found["damaged"] = [{"name": each.name, "changed": each.changed} for each in damaged[:DAMAGED_LIMIT]]
            found["without_checkpoint"] = not saved
        return found

    def _situation(
        self, seen: Sequence[ProcessRecord], attempt: recovery.FailedAttempt, saved: Sequence[checkpoint_files.Saved]
    ) -> recovery.Situation:
        """Return what the decision depends on. `saved` are the complete checkpoints, newest first."""
        parameters = self._spec["parameters"]
        unfit = _unfit(seen)
        hosts = [host["name"] for host in sorted(parameters["hosts"], key=lambda host: host["number"])]
        return recovery.Situation(
            [*self._earlier(), attempt],
            hosts,
            [host for host in available_hosts(hosts, attempt_processes.plan_specs(parameters, self._paths), seen) if host not in unfit],
            policy(self._spec),
            saved[0].name if saved else "",
            len(saved) > 1,
            spares=parameters["spares"],
        )

    def _earlier(self) -> list[recovery.FailedAttempt]:
        """Return the attempts before this one.

        If the decision about an attempt is invalid or exceeds the budget, the attempt counts as an attempt without progress.
        """
        budget, found = Budget(), []
        for number in range(self._spec["attempt"] - 1, 0, -1):
            each = read_following(self._paths.of_attempt(number), budget)
            host = each["failure"]["host"] if each and "failure" in each else ""
            name = each["set_aside"]["name"] if each and "set_aside" in each else ""
            why = recovery_cause((each and each.get("cause")) or {}, host)
            if each and each["rule"] == recovery.CONTINUED:
                # The operator has started the job again, so earlier failures do not count.
                found.append(recovery.FailedAttempt(failure_causes.Cause(failure_causes.OPERATOR), progress=True))
                continue
            found.append(recovery.FailedAttempt(why, bool(each and each.get("progress")), name))
        return found[::-1]

    def _refusal(self, decision: recovery.Decision) -> str:
        """Return why the launcher cannot restart the job on the chosen hosts with the existing units, or an empty string if it can."""
        if decision.action == recovery.STOP:
            return ""
        try:
            planned = plan(self._spec, decision.hosts)
        except LaunchError as error:
            return str(error)[: failure_causes.WHAT_LIMIT]
        units = _per_host(attempt_processes.plan_specs(self._spec["parameters"], Paths(self._spec["directory"])))
        if any(count > units.get(host, 0) for host, count in _per_host(planned).items()):
            return f"{self._spec['parameters']['launcher']} would need additional processes on a host."
        return ""


def blame_unhealthy(failure: ProcessRecord, why: CauseRecord, processes: Sequence[ProcessRecord]) -> tuple[ProcessRecord, CauseRecord]:
    """Return the process that ended an attempt, and the cause. If a host of the attempt is unhealthy, its health finding is the cause.

    A health finding does not explain why an operator, the time limit or AWS ended the attempt, or why the script is not valid.
    """
    kept = (failure_causes.OPERATOR, failure_causes.TIME_LIMIT, *failure_causes.ANNOUNCED)
    if why["kind"] in kept or why.get("name") in failure_causes.CERTAIN_ERRORS:
        return failure, why
    unhealthy = [each for each in processes if each.get("unfit") and each["unfit"]["why"] != failure_causes.EXCLUDED]
    if not unhealthy:
        return failure, why
    process = next((each for each in unhealthy if each["host"] == failure["host"]), unhealthy[0])
    finding = process["unfit"]
    found = failure if process["host"] == failure["host"] else process
    return found, {"kind": failure_causes.HEALTH, "what": finding["what"], "name": finding["why"]}


def _unfit(processes: Sequence[ProcessRecord]) -> dict[str, Unfit]:
    """Return the hosts that must not run the next attempt."""
    return {each["host"]: each["unfit"] for each in processes if each.get("unfit") and not each.get("rebooted")}


def _excluded(processes: Sequence[ProcessRecord], hosts: Sequence[str]) -> list[str]:
    """Return those of the hosts that are excluded from jobs. A process of the job can write records that name other hosts."""
    unfit = _unfit(processes)
    return [host for host in hosts if host in unfit and unfit[host]["why"] == failure_causes.EXCLUDED]


def _reboots(processes: Sequence[ProcessRecord], host: str) -> bool:
    return any(each.get("unfit", {}).get("reboots") for each in processes if each["host"] == host)


def record_failure(spec: ProcessSpec, decision: Following) -> None:
    """Record a failure for which only a host can be responsible. Later jobs do not use a host with several such failures.

    A health finding that only requires a restart of the job is not recorded, because the script may be responsible.
    """
    failure, why = decision["failure"], decision["cause"]
    if exclusion_after_failures.is_recorded(why["kind"]) and (
        why["kind"] != failure_causes.HEALTH or why.get("name") in (failure_causes.REBOOT, failure_causes.REPLACE)
    ):
        node = failure.get("instance") or failure["host"]
        exclusion_after_failures.record_failure(os.path.dirname(spec["directory"]), node, spec["job"], spec["attempt"])


def as_lost(process: ProcessRecord) -> ProcessRecord:
    """Return the record of a silent process. If the process has already ended, its state does not change, but its host cannot be used."""
    if is_over(process["state"]):
        return {**process, "available": False}
    return {**process, "state": LOST, "available": False}


def available_hosts(hosts: Sequence[str], planned: Sequence[ProcessSpec], processes: Sequence[ProcessRecord]) -> list[str]:
    """Return the hosts on which every supervisor is ready for another attempt. A host for which no process is planned is ready too."""
    ready = {process["name"] for process in processes if process.get("available")}
    missing = {spec["host"] for spec in planned if spec["name"] not in ready}
    return [host for host in hosts if host not in missing]


def policy(spec: ProcessSpec) -> recovery.RestartPolicy:
    """Return the job options that the decision about a restart depends on."""
    params = spec["parameters"]
    return recovery.RestartPolicy(params["restarts"], params["min_hosts"], params["stop_exit_codes"], params["restart_exit_codes"])


def cause_of(failure: ProcessRecord) -> CauseRecord:
    """Return why an attempt ended, from the record of the process that ended it."""
    if failure["state"] == LOST:
        return {"kind": failure_causes.HOST_LOST}
    if failure["state"] == STOPPED:
        return {"kind": failure_causes.OPERATOR}
    return failure.get("cause") or {"kind": failure_causes.KILLED}


def _per_host(planned: Sequence[ProcessSpec]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for spec in planned:
        counts[spec["host"]] = counts.get(spec["host"], 0) + 1
    return counts


def plan(spec: ProcessSpec, hosts: Sequence[str]) -> list[ProcessSpec]:
    """Return the specs of the next attempt on these hosts. Spares take the place of missing hosts. Raises LaunchError."""
    params, paths = spec["parameters"], Paths(spec["directory"], spec["attempt"] + 1)
    chosen = [host for host in params["hosts"] if host["name"] in hosts]
    if not chosen:
        raise LaunchError("No host is left for the next attempt.")
    spares = max(0, len(chosen) - (len(params["hosts"]) - params["spares"]))
    return attempt_processes.plan_specs({**params, "hosts": chosen, "spares": spares}, paths)


def next_spec(spec: ProcessSpec, hosts: Sequence[str], directory: str) -> ProcessSpec | None:
    """Return the spec with which this unit takes part in the next attempt, or None if it takes no part. Raises LaunchError.

    `directory` is the unit's runtime directory. Launchers derive the path of the runtime directory from the name of the process, which may
    differ between attempts.
    """
    planned = plan(spec, hosts)
    found = next((each for each in planned if (each["host"], each["slot"]) == (spec["host"], spec["slot"])), None)
    if found is None:
        return None
    planned_directory = runtime_directory(spec["job"], found["name"])
    found["argv"] = [word.replace(planned_directory, directory) for word in found["argv"]]
    found["environment"] = {name: value.replace(planned_directory, directory) for name, value in found["environment"].items()}
    found["instance"], found["capacity_end"] = spec["instance"], spec["capacity_end"]
    return found


def summary(verdict: Verdict, following: Following) -> str:
    """Return a log line about the end of an attempt and about what follows. On the controller, status.yml shows it in words."""
    failure, cause = following.get("failure") or verdict["failure"], following.get("cause")
    ended = [failure["name"], failure["host"], failure["state"]] if failure else []
    why = [cause["kind"], cause.get("what", "")] if cause else []
    return " ".join(filter(None, ["attempt ended:", *ended, *why])) + f"; {following['action']}: {following['rule']}"
