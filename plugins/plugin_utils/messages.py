# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Messages of the roles and playbooks, as functions of the facts that they state. The filter `message` calls these functions by name."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from ..module_utils._aws.pricing.charges import of_nodes
from ..module_utils._aws.tags import CLUSTER_NAME
from ..module_utils._job.failure_causes import ANNOUNCED_BEFORE
from ..module_utils._words import form, plural
from . import health_messages
from ._output import prices
from ._output.changes import PlannedChange, plan_lines
from ._output.prices import Price
from ._output.words import duration
from .cost_limit import limited_seconds
from .node_end_messages import emr_end, ended_nodes, endless, ends_after_run, incomplete, missing_emr, node_ends, unread, utc
from .suggested_commands import playbook_command

# Maximum number of clusters to name.
NAMED_CLUSTERS = 20
IGNORE_JOBS = "To terminate nodes even if jobs are running on them, add -e deeplearning_ignore_running_jobs=true"
DELETE_DATA = "-e deeplearning_delete_data=true"
ENDLESS_EMR = "Nothing ends the EMR cluster by itself. To let EMR terminate it when it is idle, set deeplearning_emr_idle_after."


def unmanaged_nodes(cluster: str, service: str) -> str:
    """Return that the playbook destroy does not terminate the nodes, because another service has launched them."""
    return (
        f"node_service: this playbook does not manage the nodes of cluster {cluster}, because the inventory specifies {service}. To "
        f"terminate these nodes, run {playbook_command(service)} -e deeplearning_state=absent"
    )


def unvalidated_nodes(service: str) -> str:
    """Return that the playbook validate does not check the nodes, because another service launches them."""
    return (
        f"node_service: this playbook checks the clusters of the playbook provision, but the inventory specifies {service}. To check the "
        f"definition of these nodes and to see their price, run {playbook_command(service)} --check"
    )


def validated(
    cluster: str,
    findings: Collection[Any],
    price: Price | None,
    lease: Mapping[str, Any] | None = None,
    idle: Mapping[str, Any] | None = None,
) -> str:
    """Return the result of a validation without errors. The price, the lease and the end of idle nodes are those after a run."""
    warnings = plural(len(findings), "warning", "warnings") if findings else "no warnings"
    valid = f"No errors and {warnings}: {cluster} can be provisioned."
    return "\n".join([valid, *(prices.lines(price) if price else ()), ends_after_run(lease, price, idle)])


def emr_costs(price: Price | None, idle_after: str | None) -> str:
    """Return what an EMR cluster costs, if this run only predicts it, and what ends it. `idle_after` is deeplearning_emr_idle_after."""
    end = (
        f"EMR terminates the cluster when it has been idle for {idle_after}. Run deeplearning.cluster.configure, so that training jobs and "
        "other processes outside of YARN count as uses."
    )
    return "\n".join([*(prices.lines(price) if price else ()), end if idle_after else ENDLESS_EMR])


def running_emr_cluster(cluster: str, region: str, cluster_id: str, price: Price | None) -> str:
    """Return that an EMR cluster keeps running, what it costs, and how to log in to its master and to terminate it."""
    return (
        f"EMR cluster {cluster} ({cluster_id}) keeps running and costs money, whether or not a step is running. {_price_sentence(price)}"
        f"To log in to the master, run aws emr ssh --region {region} --cluster-id {cluster_id} --key-pair-file FILE. To terminate the "
        f"cluster, run {playbook_command('emr')} -e deeplearning_state=absent"
    )


def absent_emr_cluster(cluster: str, region: str) -> str:
    """Return that a run has found no EMR cluster to terminate."""
    return (
        f"Cluster {cluster} has no running EMR cluster in {region}, so there is nothing to terminate. Check the cluster and the region in "
        "the inventory."
    )


def _price_sentence(price: Price | None) -> str:
    """Return a sentence about what the cluster costs, and a space. Return an empty string if this run does not know the price."""
    return f"The cluster costs {prices.per_hour(price)}. " if price and prices.is_known(price) else ""


def running_nodes(
    cluster: str,
    groups: Collection[str],
    instance_types: Iterable[str],
    own_disk: str,
    service: str,
    price: Price | None,
    lease: Mapping[str, Any] | None = None,
    idle: Mapping[str, Any] | None = None,
) -> str:
    """Return which nodes keep running after a playbook run, and how to terminate them.

    `groups` contains the name of its group for each node. `own_disk` is the directory of the jobs if it is on the master's own disk.
    `service` is the service that launches the nodes, if it is not Auto Scaling. `price` is the price of the whole cluster, `lease` its
    lease, and `idle` what AWS does with idle nodes, if this run has read them.
    """
    lost = f"The jobs in {own_disk} are on the master's own disk, and are lost when the master is terminated. To keep a job, export it to "
    count = len(groups)
    price = of_nodes(price, groups) if price else None
    them = form(len(groups), "it", "them")
    end = f"To terminate {them}" if service else "To delete the cluster"
    unlimited = (
        "" if service or not count else f"To let AWS terminate {them} by itself, set deeplearning_lease or deeplearning_idle_after. "
    )
    return (
        (f"{lost}S3 with the playbook export. " if own_disk else "")
        + _running(cluster, groups, instance_types)
        + _price_sentence(price)
        + (node_ends(lease, price, idle, count) or unlimited)
        + f"{end}{'' if own_disk or service else ' and keep the file systems'}, run "
        + (f"{playbook_command(service)} -e deeplearning_state=absent" if service else playbook_command("destroy"))
    )


def _running(cluster: str, groups: Collection[str], instance_types: Iterable[str]) -> str:
    what = f"{plural(len(groups), 'node', 'nodes')} of cluster {cluster}"
    if not groups:
        return f"{what} are running. "
    types = ", ".join(instance_types)
    return f"{what} {form(len(groups), 'keeps', 'keep')} running ({types}) and {form(len(groups), 'costs', 'cost')} money. "


def prolonged_lease(end: str, former_end: str, predicted: bool) -> str:
    """Return that a run has prolonged the lease of the nodes, or would do so."""
    return f"AWS {'would then terminate' if predicted else 'now terminates'} the nodes at {utc(end)} instead of {utc(former_end)}."


def short_lease(lease: Mapping[str, Any] | None, time_limit: int, max_cost: float = 0, price: Price | None = None, hosts: int = 0) -> str:
    """Return that the lease ends before a job has to, or an empty string. `time_limit` is in seconds, and 0 means no limit.

    A job on `hosts` nodes also ends when it has used up `max_cost`, which is not checked here. 0 means no such limit.
    """
    seconds = time_limit
    with contextlib.suppress(ValueError):
        seconds = limited_seconds(float(max_cost), time_limit, price, hosts) if float(max_cost) else time_limit
    if not lease or 0 < seconds <= lease["seconds"] - ANNOUNCED_BEFORE:
        return ""
    end = utc(lease["end"])
    how = "change it, and run the playbook provision" if lease["fixed"] else "run the playbook configure when less than half is left"
    what = "the time limit of the job" if seconds == time_limit else "training_job_max_cost stops the job"
    limit = f"before {what} ({duration(seconds)})" if seconds else "and the job has no time limit"
    return (
        f"deeplearning_lease: AWS terminates the nodes at {end}, in {duration(lease['seconds'])}, {limit}. "
        f"{ANNOUNCED_BEFORE / 60:.0f} minutes earlier, the job gets SIGTERM, so that it can save a checkpoint. To prolong the lease, {how}."
    )


def missing_nodes(
    cluster: str,
    region: str,
    instances: Sequence[Mapping[str, Any]] | None,
    inventory: str,
    playbook: str,
    info: Mapping[str, Any] | None = None,
) -> str:
    """Return which clusters have nodes, for an inventory without nodes, or why AWS has terminated the nodes.

    `instances` are all instances with the tag of a cluster, or None if they could not be listed. Anyone who may tag instances can set this
    tag, so the message contains only names of clusters, and not too many. `playbook` creates the cluster. `info` is the result of
    cluster_info, which fails without permissions, or None if the run has not tried to read it.
    """
    names, region = _clusters(instances or ()), region or "(no region)"
    if cluster in names:
        return (
            f"cluster: '{cluster}' has running instances in {region} that the inventory does not contain. If the inventory is a copy, as "
            "in AWX, synchronize its source, and run the playbook again. Otherwise, wait until the nodes are in service."
        )
    ended = _end_of(info) if info and "resources" in info else ""
    if ended:
        return f"cluster: '{cluster}' has no nodes in {region}. {ended}"
    more = [f"and {len(names) - NAMED_CLUSTERS} more"] if len(names) > NAMED_CLUSTERS else []
    others = f"Clusters with nodes in this region: {', '.join(names[:NAMED_CLUSTERS] + more)}."
    known = "" if instances is None else f"{others if names else 'No cluster has nodes in this region.'} "
    advice = f"Correct cluster or region in {inventory or 'the inventory'}, or create the cluster: {playbook_command(playbook)}"
    return f"cluster: '{cluster}' has no nodes in {region}. {known}{advice}\n{_whether_ended(info)}".rstrip()


def _whether_ended(info: Mapping[str, Any] | None) -> str:
    """Return that it is not known whether AWS has ended the nodes, or an empty string. `info` is as for `missing_nodes`."""
    if info is None:
        return ""
    if "resources" not in info:
        return f"Whether AWS has terminated its nodes, says {playbook_command('info')}"
    return unread(info["unread_ends"], False)


def _end_of(info: Mapping[str, Any]) -> str:
    """Return why the nodes of a cluster without nodes have ended, or an empty string. `info` is a result of cluster_info."""
    return missing_emr(info["emr"]) or ended_nodes(info["lease"], info["idle"], info["price"])


def _clusters(instances: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted({tag for each in instances if CLUSTER_NAME.fullmatch(tag := each["tags"]["deeplearning:cluster"])})


def clusters_elsewhere(cluster: str, region: str, others: Iterable[str]) -> str:
    """Return that this run creates a cluster in a region, although clusters of this name have been configured in `others`."""
    return (
        f"Cluster {cluster} has no nodes in {region}, but this controller has configured a cluster with this name in {', '.join(others)}. "
        "They are different clusters, and each costs money. If you meant the other one, correct region in the inventory file."
    )


def unverified_nodes(cluster: str, names: Iterable[str], authority: Mapping[str, Any]) -> str:
    """Return why the nodes cannot be verified. `authority` is the result of ssh_authority_info."""
    key, run = "the public key of the SSH certificate authority", playbook_command("configure")
    if "public_keys" in authority:
        why = f"{key} is not in Parameter Store ({authority['parameter']}). Run {run}"
    else:
        why = (
            f"it cannot read {key}: {authority.get('msg', 'no reason given.')} Allow ssm:GetParameter for this parameter, which each "
            f"generated policy contains, or run the playbook configure with its policy: {run}"
        )
    return f"Cluster {cluster}: this controller cannot verify {', '.join(names)}, because {why}"


def cluster_overview(
    nodes: Sequence[Mapping[str, Any]],
    resources: Sequence[Mapping[str, Any]],
    login: str,
    price: Price | None,
    lease: Mapping[str, Any] | None = None,
    idle: Mapping[str, Any] | None = None,
    emr: Mapping[str, Any] | None = None,
    incomplete_ends: Collection[str] = (),
    unread_ends: Collection[str] = (),
) -> str:
    """Return lines about the nodes, resources, price, lease, end of idle nodes and EMR cluster that cluster_info returns.

    `login` is the command that logs in to the master. Without prices, only the resources are named that cost money even without nodes.
    """
    columns = itemgetter("name", "instance_id", "instance_type", "zone", "private_ip", "public_ip")
    lines = ["{:24} {:20} {:14} {:12} {:15} {}".format(*(value or "" for value in columns(node))).rstrip() for node in nodes]
    lines += ["{kind:24} {key:20} {id}".format(**each) for each in resources if each["kind"] != "nodes"]
    billed = _billed(resources, nodes, price)
    if billed:
        lines.append("AWS charges for these resources, whether or not a job is running:")
    has_groups = any(each["kind"] == "auto_scaling_group" for each in resources)
    if nodes:
        ends = [node_ends(lease, price, idle, len(nodes), is_current=True).rstrip(), incomplete(incomplete_ends)]
        ends += [endless(lease, idle)] if has_groups and not unread_ends else []
        last = f"To log in to the master, run {login}"
    else:
        ends, last = _without_nodes(has_groups, price, lease, idle)
    told = filter(None, [*ends, unread(unread_ends, bool(nodes)), _emr_end(emr)])
    return "\n".join([*lines, *billed, *told, last])


def _without_nodes(
    has_groups: bool, price: Price | None, lease: Mapping[str, Any] | None, idle: Mapping[str, Any] | None
) -> tuple[list[str], str]:
    """Return what has ended, or will end, the nodes of a cluster that has none, and the last line of the overview."""
    last, ended = "The cluster has no running nodes.", ended_nodes(lease, idle, price)
    if (lease or idle) and not has_groups and not ended:
        return [], f"{last} Its Auto Scaling groups have been deleted. To launch the nodes again, run {playbook_command('provision')}"
    return [ended or node_ends(lease, price, idle, 0, is_current=True).rstrip()], last


def _emr_end(emr: Mapping[str, Any] | None) -> str:
    return emr_end(emr) or (ENDLESS_EMR if emr else "")


def missing_cluster(cluster: str, region: str, playbook: str, emr: Mapping[str, Any] | None) -> str:
    """Return why a cluster has no resources. `playbook` creates it, and `emr` is its EMR cluster as cluster_info returns it."""
    advice = f"Check the cluster and the region in the inventory, or create the cluster: {playbook_command(playbook)}"
    return f"Cluster {cluster} has no {'nodes' if emr else 'resources'} in {region}. {missing_emr(emr) or advice}"


def _billed(resources: Iterable[Mapping[str, Any]], nodes: Sequence[Mapping[str, Any]], price: Price | None) -> list[str]:
    """Return the lines about what costs money."""
    if price:
        return list(filter(None, (*prices.lines(price), prices.since_launch(price, nodes, time.time()))))
    return [f"  {each['billed']}" for each in resources if each["billed"]]


def ssh_configuration(file: str, login: str, others: Sequence[str], is_removed: bool) -> str:
    """Return how to log in to the master with the command `login`, and to the other nodes."""
    if is_removed:
        return f"ssh no longer reads {file}."
    return f"Log in with {login}, or use the name of another node: {', '.join(others)}." if others else f"Log in with {login}."


def missing_ssh_configuration(file: str, cluster: str) -> str:
    """Return that this controller cannot log in to the nodes, because it has not configured them."""
    return f"{file} does not exist: this controller has not configured cluster {cluster} yet. Run {playbook_command('configure')} first."


def revoked_host(host: str, instance_id: str, is_listed: bool, problem: str) -> str:
    """Return why a host is revoked. `is_listed` is true if the user has revoked the host, and `problem` is about the host's keys."""
    why = "ssh_trust_revoked contains it" if is_listed else problem or "it has left the cluster"
    return (
        f"{host}: instance {instance_id} is revoked, because {why}. Other hosts refuse its connections. Terminate the instance so that "
        "its group launches a new one: aws autoscaling terminate-instance-in-auto-scaling-group --no-should-decrement-desired-capacity "
        f"--instance-id {instance_id}"
    )


def exclusion_problem(excluded: Sequence[str], included: Sequence[str], reason: str, hosts: Sequence[str]) -> str:
    """Return why these nodes cannot be excluded from jobs or included again, or an empty string."""
    unknown = [name for name in dict.fromkeys([*excluded, *included]) if name not in hosts]
    if unknown:
        return (
            f"node_health_exclude, node_health_include: not reachable or not in the inventory: {', '.join(unknown)}. Use the names of "
            f"nodes: {', '.join(hosts)}."
        )
    if excluded and not reason.strip():
        return f"node_health_reason: missing. Say why jobs must not use {', '.join(excluded)}."
    if set(excluded) & set(included):
        return "node_health_include: contains a node that is also in node_health_exclude. Remove the node from one of these variables."
    return ""


def deletion(cluster: str, region: str, nodes: Iterable[str], changes: Iterable[PlannedChange], kept: Sequence[str], own_disk: str) -> str:
    """Return what a deletion deletes and keeps. `own_disk` is the directory of the jobs if a running master has them on its own disk."""
    lines = [f"Cluster {cluster} in {region}:", f"  running nodes  {', '.join(nodes) or 'none'}", "  to delete"]
    lines += [f"    {line}" for _action, line in plan_lines(changes, properties=False)]
    lines += [f"  to be lost     the jobs in {own_disk} on the master's own disk"] if own_disk else []
    keeps = f"{', '.join(kept)}, with all data (continues to cost money)" if kept else "nothing"
    return "\n".join([*lines, f"  to keep        {keeps}"])


def deletion_question(cluster: str, kept: Sequence[str], own_disk: str) -> str:
    """Return the question that follows `deletion`."""
    return f"Delete cluster {cluster}{'' if kept and not own_disk else ', with all its data'}?"


def _nothing_to_delete(cluster: str, region: str) -> str:
    """Return that a deletion has found nothing, which is also so if the inventory names a wrong region."""
    nothing = f"Cluster {cluster} has no resources in {region}, so there is nothing to delete."
    return f"{nothing} Check the cluster and the region in the inventory."


def planned_deletion(cluster: str, region: str, is_changed: bool, kept: Sequence[str], own_disk: str) -> str:
    """Return what a deletion would keep. `is_changed` says whether it would delete anything.

    `own_disk` has the same meaning as for `deletion`.
    """
    if not is_changed and not kept:
        return _nothing_to_delete(cluster, region)
    keeps, advice = "Deleting the cluster keeps no file system.", ""
    if kept:
        keeps = f"Deleting the cluster keeps {', '.join(kept)} and all data. Kept file systems continue to cost money."
        advice = f" To delete {form(len(kept), 'it', 'them')} as well, add {DELETE_DATA}"
    lost = f"The jobs in {own_disk} on the master's own disk would be lost. " if own_disk else ""
    return f"{keeps} {lost}S3 buckets are always kept.{advice}"


def remaining_resources(
    cluster: str, region: str, is_changed: bool, kept: Sequence[str], leftovers: Sequence[str], price: Price | None
) -> str:
    """Return what a deletion has kept, and what it could not delete. `price` is the price of both.

    `is_changed` says whether it has deleted anything.
    """
    found, money = [], prices.per_hour(price) if price and price["hourly"] and not leftovers else "money"
    if leftovers:
        found.append(f"Resources that remain in AWS: {', '.join(leftovers)}.")
    if kept:
        found.append(
            f"Kept, with all data: {', '.join(kept)}, which {form(len(kept), 'continues', 'continue')} to cost {money}. To delete "
            f"{form(len(kept), 'it', 'them')} as well, run {playbook_command('destroy')} {DELETE_DATA}"
        )
    if not found and not is_changed:
        return _nothing_to_delete(cluster, region)
    return " ".join(found) or f"No resources of cluster {cluster} remain in {region}."


def unlisted_jobs(going: Iterable[str], host: str, reason: str) -> str:
    """Return why the nodes are not terminated if the host cannot list their jobs. `reason` is the message of the host, if it has any."""
    why = re.sub(r"^Task failed: |[.]?\s*$", "", reason)
    return (
        f"This run would terminate {', '.join(going)}, but {host} cannot list the running jobs{': ' if why else ''}{why}. If the cluster "
        f"has not been configured from this controller yet, run {playbook_command('configure')} first. {IGNORE_JOBS}"
    )


def ignored_jobs(going: Iterable[str], host: str, cluster: str, silent: Collection[str], is_requested: bool) -> str:
    """Return why the nodes are terminated without a list of jobs. `silent` are the nodes to terminate that have not answered."""
    why = f"cluster {cluster} has never been configured: it has no SSH certificate authority."
    if is_requested:
        why = "deeplearning_ignore_running_jobs is true."
    elif not silent:
        why = "no job is running on these nodes, according to systemd."
    return f"This run terminates {', '.join(going)} without listing the running jobs through {host}, because {why}"


def damaged_jobs(problems: Iterable[str], silent: Sequence[str]) -> str:
    """Return what was wrong with the files of jobs. `silent` are the nodes to terminate that have not answered."""
    unless = f", unless a job with damaged files is running only on {', '.join(silent)}, which {form(len(silent), 'does', 'do')} not answer"
    return f"Damaged files of jobs were skipped. They do not affect this run{unless if silent else ''}. {' '.join(problems)}"


def jobs_in_the_way(jobs: Sequence[Mapping[str, str]], cluster: str, destroying: bool, replacing: bool, kept: str) -> str:
    """Return which jobs run on nodes that would be terminated. `jobs` comes from the filter jobs_on.

    `kept` is the number of workers in the definition that keeps all nodes, or an empty string if the definition does not decide.
    """
    what = f"Cluster {cluster} cannot be destroyed" if destroying else f"Nodes cannot be {'replaced' if replacing else 'removed'}"
    number = f" with -e deeplearning_worker_count={kept}" if kept else ""
    keep = "" if destroying or replacing else f", keep the number of workers{number}"
    return (
        f"{what} while {' and '.join(job['words'] for job in jobs)}. Wait until the {form(len(jobs), 'job ends', 'jobs end')}{keep}, or "
        f"run {playbook_command('stop')} -e training_job_name={jobs[0]['name']} to stop "
        f"{form(len(jobs), 'it', 'the first one, and stop the others in the same way')}. {IGNORE_JOBS}"
    )


def running_queue(queue: str, result: Mapping[str, Any], going: Iterable[str], host: str) -> str:
    """Return why a queue does not allow the nodes to be terminated. `result` is that of the module that drains the nodes."""
    jobs = result.get("jobs", ())
    if not jobs:
        why = result.get("msg", "no reason given.")
        return f"This run would terminate {', '.join(going)}, but {host} cannot drain them in the queue of {queue}: {why} {IGNORE_JOBS}"
    return (
        f"{queue} {form(len(jobs), 'job', 'jobs')} {', '.join(jobs)} {form(len(jobs), 'is', 'are')} running on nodes that this run would "
        f"terminate. These nodes are drained, so no new job starts there. Wait until the {form(len(jobs), 'job ends', 'jobs end')} and run "
        f"the playbook again, or keep the nodes and resume them with {playbook_command(queue.lower())}\n{IGNORE_JOBS}"
    )


def terminated_nodes(going: Sequence[str], workers: int, kept: str, predicted: bool) -> str:
    """Return which nodes a run terminates. `workers` is the number in the definition. `kept` has the same meaning as above."""
    because = f", because the definition has {plural(workers, 'worker', 'workers')}. To keep all nodes, use -e deeplearning_worker_count="
    return (
        f"This run {'would terminate' if predicted else 'terminates'} {', '.join(going)}, and the data on "
        f"{form(len(going), 'its disk', 'their disks')} is lost{f'{because}{kept}' if kept else ''}."
    )


def missing_folder_of_events(file: str) -> str:
    """Return that the events cannot be written to a file, because its folder does not exist."""
    return f"deeplearning_events_file: the folder of '{file}' does not exist. Create it, or specify a file in another folder."


def cluster_events(
    facts: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]], host: str, problem: str, form: str, cluster: str, region: str, service: str
) -> str:
    """Return what happened to a cluster. `timeline.cluster_events` describes the arguments."""
    # Only one playbook needs this file, which imports the SDK
    from . import timeline

    return timeline.cluster_events(facts, jobs, host, problem, form, f"{cluster} in {region}", service)


def uploaded_logs(count: int, destination: str) -> str:
    """Return where the logs of a node are."""
    return f"{plural(count, 'log', 'logs')} uploaded to {destination}"


def health_report(
    findings: Mapping[str, Sequence[Mapping[str, str]]],
    nodes: Mapping[str, Mapping[str, Any]],
    region: str,
    unreachable: Collection[str],
    exclusions: Mapping[str, Sequence[Mapping[str, Any]]],
    jobs: Sequence[Mapping[str, str]] | None,
) -> str:
    """Return the health of all nodes, and what to do about unhealthy ones. `jobs` are those on unreachable nodes, or None if unknown."""
    found = {name: health_messages.findings_of({"findings": own}) for name, own in findings.items()}
    lines = [health_messages.report(found, unreachable, health_messages.jobs_on_nodes(jobs)), *health_messages.exclusion_lines(exclusions)]
    return "\n".join(filter(None, [*lines, health_messages.advice(found, nodes, region, unreachable)]))
