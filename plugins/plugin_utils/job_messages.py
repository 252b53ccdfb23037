# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Messages of the roles and playbooks about one job. The filter `message` calls these functions by name."""

from __future__ import annotations

import json
from operator import itemgetter
from typing import Any, Collection, Mapping, Sequence

from ..module_utils._words import form, plural
from . import job_formatting
from ._output.hosts import host_names
from .gone_nodes import gone_hosts, with_gone_hosts
from .suggested_commands import continuing_command, playbook_command


def continued_job(wanted: str, jobs: Collection[str], directory: str) -> str:
    """Return why a job cannot be continued. `wanted` is its name, or `newest`, and `jobs` contains the names of all jobs."""
    why = f"there is no job {wanted} in {directory}"
    if wanted == "newest":
        why = f"no job in {directory} has ended"
    elif wanted in jobs:
        why = f"job {wanted} has not ended"
    advice = f"Specify a job that has ended, or remove this variable. To list the jobs, run {playbook_command('status')}"
    return f"training_job_resume: {why}. {advice}"


def excluded_hosts(job: str, excluded: Sequence[str], has_queue: bool) -> str:
    """Return why too few hosts may run a job. `excluded` contains a sentence for each excluded host."""
    fewer = "" if has_queue else ", or set training_job_min_hosts to the minimum number of hosts"
    return (
        f"Job {job} was not started: {' '.join(excluded)} To run the job on the other nodes, set training_job_hosts{fewer}. To see how to "
        f"let jobs use {form(len(excluded), 'this node', 'these nodes')} again, run {playbook_command('health')}"
    )


def shared_hosts(job: str, others: Sequence[str]) -> str:
    """Return which other jobs run on the hosts of a job."""
    return (
        f"Job {job} shares processors and memory with {', '.join(others)}, which {form(len(others), 'is', 'are')} running on the same "
        f"hosts. To stop {form(len(others), 'that job', 'one of these jobs')}, run {playbook_command('stop')} "
        f"-e training_job_name={others[0]}"
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


def unstarted_job(job: str, reason: str) -> str:
    """Return why a job was not started. `job` and `reason` are empty if the run has failed before they were known."""
    return f"{f'Job {job}' if job else 'The job of this run'} was not started: {reason or 'the output of the run says why.'}"


def lost_hosts(job: str, hosts: Sequence[str]) -> str:
    """Return that a job does not start because hosts have failed earlier."""
    return (
        f"Job {job} was not started: {', '.join(hosts)} could not be reached or failed earlier in this run. Correct the error above, or "
        "run the job on the other hosts with training_job_hosts."
    )


def unused_hosts(job: str, excluded: Sequence[str]) -> str:
    """Return without which hosts a job runs. `excluded` contains a sentence for each of them."""
    return (
        f"Job {job} runs without these hosts: {' '.join(excluded)} To see how to let jobs use them again, run {playbook_command('health')}"
    )


def hosts_of_queues(job: str, queues: Sequence[str]) -> str:
    """Return that queues can start other jobs on the hosts of a job that does not wait for its turn."""
    return (
        f"A queue ({', '.join(queues)}) manages the hosts of job {job}, and is not aware of this job. The queue can start other jobs on "
        f"the same hosts. To let the job wait for its turn, set training_job_queue: {queues[0]}. To run it immediately, drain its hosts "
        "first."
    )


def started_job(job: str, directory: str) -> str:
    """Return how to follow a job for which the run does not wait."""
    name = f"-e training_job_name={job}"
    return (
        f"Job {job} runs in {directory}/{job}.\nTo watch it: {playbook_command('logs')} {name} -e follow=true\n"
        f"To show its status: {playbook_command('status')} {name}\nTo stop it: {playbook_command('stop')} {name}"
    )


def nothing_to_stop(job: str, running: Mapping[str, Sequence[str]]) -> str:
    """Return that no host runs a job. `running` contains the names of the jobs that each host runs."""
    others = "; ".join(f"{host}: {', '.join(names)}" for host, names in running.items() if names) or "none"
    return (
        f"training_job_name: no process of job {json.dumps(job)} is running on any host, so there is nothing to stop. Running jobs: "
        f"{others}. {playbook_command('status')} shows all jobs and how they ended. To delete a job that is pending because no run has "
        f"started it, run {playbook_command('cleanup')} -e training_job_name={job} -e cleanup_days=0"
    )


def continued_job_without_cluster(wanted: str, cluster: str, region: str) -> str:
    """Return that a job cannot be continued, because the cluster of the inventory does not exist."""
    return (
        f"training_job_resume: there is no job {wanted} to continue, because cluster {cluster} in {region} has neither nodes nor a file "
        "system. Check the cluster and the region in the inventory, or remove this variable."
    )


def unmatched_hosts(pattern: str, cluster: str, region: str, hosts: Sequence[str]) -> str:
    """Return that the pattern for the hosts of a job matches none. Inventories written by hand have no cluster and no region."""
    return (
        f"training_job_hosts: '{pattern}' matches no host. The nodes of cluster {cluster or '(none)'} in {region or '(no region)'} are "
        f"{', '.join(hosts)}. Use their names, or a group such as workers."
    )


def cleanup(
    jobs: Sequence[Mapping[str, Any]], kept: Sequence[Mapping[str, Any]], environments: Sequence[str], directories: Sequence[str]
) -> str:
    """Return which jobs and environments are deleted, and which jobs are kept for which reasons."""
    reasons: dict[str, list[str]] = {}
    for job in sorted(kept, key=itemgetter("reason")):
        reasons.setdefault(job["reason"], []).append(job["name"])
    lines = [
        f"In {' and '.join(directories)}:",
        f"  jobs to delete          {', '.join(job['name'] for job in jobs) or 'none'}",
        f"  jobs to keep            {'' if kept else 'none'}".rstrip(),
        *(f"    {', '.join(names)}: {reason}" for reason, names in reasons.items()),
        f"  environments to delete  {', '.join(environments) or 'none'}",
    ]
    return "\n".join(lines)


def cleanup_question(jobs: Collection[Any], environments: Collection[Any]) -> str:
    """Return the question before jobs and environments are deleted."""
    deleted = plural(len(jobs), "job with its", "jobs with their")
    return f"Delete {deleted} checkpoints, and {plural(len(environments), 'environment', 'environments')}?"
