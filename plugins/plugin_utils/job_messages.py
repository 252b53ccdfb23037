# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Messages of the roles and playbooks about one job. The filter `message` calls these functions by name."""

from __future__ import annotations

from typing import Any, Collection, Mapping, Sequence

from . import job_formatting
from ._output.hosts import host_names
from ._output.words import form
from .gone_nodes import gone_hosts, with_gone_hosts
from .suggested_commands import continuing_command, playbook_command

LOST = "This run no longer reaches the job"


def continued_job(wanted: str, jobs: Collection[str], directory: str) -> str:
    """Return why a job cannot be continued. `wanted` is its name, or `newest`, and `jobs` contains the names of all jobs."""
    why = f"there is no job {wanted} in {directory}"
    if wanted == "newest":
        why = f"no job in {directory} has ended"
    elif wanted in jobs:
        why = f"job {wanted} has not ended"
    advice = f"Specify a job that has ended, or remove this variable. To list the jobs, run {playbook_command('status')}"
    return f"training_job_resume: {why}. {advice}"


def used_name(job: str, directory: str, then: str) -> str:
    """Return that a job with this name has succeeded before the run, so that the action `then` does not follow it."""
    used = f"training_job_name: job {job} has already run and its results are in {directory}."
    if then == "keep":
        return f"{used} Choose another name, or remove this variable to get a name that contains the current time."
    return (
        f"{used} Because it had ended before this run, training_job_then: {then} is not applied, and the nodes continue to cost money. To "
        f"delete the cluster and keep the file systems, run {playbook_command('destroy')}"
    )


def kept_nodes(then: str, has_failed: bool, out_of_reach: bool, running: str, not_started: bool = False) -> str:
    """Return why nodes stay after a job that has failed, is out of reach, was not exported, or for which no run has launched them.

    `running` is about the running nodes.
    """
    what = LOST if out_of_reach else f"The job {'was not started' if not_started else 'failed' if has_failed else 'was not exported'}"
    failed = has_failed and not out_of_reach and not not_started
    always = " To apply it even if a job fails, set training_job_then_always: true." if failed else ""
    return f"{what}, as shown above, so training_job_then: {then} is not applied.{always} {running}"


def excluded_hosts(job: str, excluded: Sequence[str], has_queue: bool) -> str:
    """Return why too few hosts may run a job. `excluded` contains a sentence for each excluded host."""
    fewer = "" if has_queue else ", or set training_job_min_hosts to the minimum number of hosts"
    return (
        f"Job {job} was not started: {' '.join(excluded)} To run the job on the other nodes, set training_job_hosts{fewer}. To see how to "
        f"let jobs use {form(excluded, 'this node', 'these nodes')} again, run {playbook_command('health')}"
    )


def shared_hosts(job: str, others: Sequence[str]) -> str:
    """Return which other jobs run on the hosts of a job."""
    return (
        f"Job {job} shares processors and memory with {', '.join(others)}, which {form(others, 'is', 'are')} running on the same hosts. "
        f"To stop {form(others, 'that job', 'one of these jobs')}, run {playbook_command('stop')} -e training_job_name={others[0]}"
    )


def job_plan(
    job: str,
    directory: str,
    state: str,
    unprepared: str,
    is_running: bool,
    waits: bool,
    nodes: int,
    hosts: int,
    printed: Mapping[str, Any],
    scripts_directory: str,
) -> str:
    """Return what the role training_job shows in check mode and with the state `printed`.

    `unprepared` is why a host is not ready. `nodes` is the future number of nodes if the job is to use all of them, or 0. `hosts` is the
    current number of hosts. `printed` is the result of the module that has planned the processes.
    """
    if unprepared:
        return f"The processes of job {job} cannot be predicted, because a host is not ready: {unprepared}"
    if state == "started" and is_running:
        then = "wait for the job and show its progress" if waits else "show how to watch the job"
        return (
            f"Job {job} has already started, so this run would start nothing. It would {then}. To stop the job, run: "
            f"{playbook_command('stop')} -e training_job_name={job}"
        )
    if state == "started":
        resized = f". The definition has {nodes} nodes, so the job would run on {nodes} hosts, and not on {hosts} as shown here"
        where = f"{directory}/{job}{resized if nodes not in (0, hosts) else ''}"
        return "\n".join([f"Job {job} would start these processes on the nodes that exist now, in {where}:", *printed["lines"]])
    if scripts_directory:
        names = ", ".join(f"{name}.sh" for name in printed["scripts"])
        return f"The commands of job {job} are in {scripts_directory}: {names}. No process was started."
    return "\n".join(printed["scripts"].values())


def interrupted_job(job: str, has_queue: bool) -> str:
    """Return how to continue a job that was stopped with Ctrl-C."""
    advice = f"To continue the job, run the same command again with -e training_job_name={job}"
    if has_queue:
        advice = f"To continue from the newest checkpoint, if there is one, run: {continuing_command(job)}"
    return f"Job {job} was stopped on all hosts, as requested with Ctrl-C. {advice}"


def failed_job(failure: str, job: Any, losses: Mapping[str, Any]) -> str:
    """Return why a job has failed, or why the run no longer reaches it, which is `failure`, and which of its hosts are gone.

    If a host is gone, the message names the host, not the processes that lost their connection to it. `job` is empty if the run has never
    reached the job. `losses` contains the arguments of `gone_hosts`.
    """
    gone = gone_hosts(job, **losses) if job else {}
    if "failure" in job:
        return job_formatting.failure_message(with_gone_hosts(job, gone), playbook_command, continuing_command(job["name"]))
    return " ".join([*gone.values(), failure])


def unexported_job(job: str, directory: str, reason: str, destination: str) -> str:
    """Return how to export a job after an export that failed. `reason` is the message of the host, if it has answered."""
    why = (reason or "the host does not answer").rstrip().rstrip(".")
    return (
        f"Job {job} was not exported: {why}. Its files are in {directory}/{job}. To export them, run {playbook_command('export')} "
        f"-e training_job_name={job} -e training_job_export={destination}"
    )


def stopped_job(job: str, hosts: Sequence[str]) -> str:
    """Return on which hosts a job was stopped."""
    return f"Stopped job {job} on {host_names(hosts, ())}."
