# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads, creates, changes and deletes EMR clusters, their steps, and the default roles of EMR."""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Mapping

from ..client import DENIED_TIMEOUT, SDK_ERRORS, AwsClient, ClientError, ClusterError, WaitTimeout, read_concurrently, tag_list
from ..component import Request
from ..error_codes import error_code, outcome_is_unknown
from ..message_parts import P
from ..node_group.launch_and_termination import number_new_nodes
from ..node_group.membership_tags import number_of
from ..node_names import NODE_TYPES
from ..plan.planning import Kind
from ..plan.resources import Address, Found, Properties
from . import definition, record
from .cluster_properties import RESIZABLE, ClusterDescription, cluster_properties, managed_groups, node_properties, read_steps, state
from .definition import CLUSTER, GROUPS, READY
from .nodes import (
    LIVE,
    STARTED,
    describe,
    group_of,
    idle_seconds,
    own_cluster,
    role_of,
    running_instances,
    surplus,
    unnumbered,
    unrecorded_clusters,
    volumes_of,
)
from .roles import add_role, attach_policy, create_profile, create_role, read_roles
from .volumes import volumes

OVER = ("TERMINATED", "TERMINATED_WITH_ERRORS")
# The minimum time in seconds to wait for a cluster: EMR needs up to 15 minutes, and more for large images.
START_TIMEOUT = 1800
# The minimum time in seconds to wait while a group shrinks: YARN gives the containers of a node 3600 s to end. Source: Amazon EMR
# Management Guide, "Cluster scale-down".
SHRINK_TIMEOUT = 3600 + START_TIMEOUT
# The maximum time in seconds until EMR lists a new cluster.
LISTED_TIMEOUT = 60
# Seconds to wait for the log of a failed bootstrap action. EMR copies this log when it terminates the cluster.
LOG_TIMEOUT = 120
MOST_BYTES = 1_000_000
KEPT_LINES, KEPT_CHARACTERS = 5, 500
FAILED_ACTION = re.compile(r"\((?:including )?(?P<instance>i-[0-9a-f]+)\b.*bootstrap action (?P<action>\d+) returned a non-zero")
# The initial number of seconds between two checks of a cluster. EMR allows only a few API calls per second.
PAUSE = 2
STILL_SHRINKING = (
    "EMR removes the remaining surplus nodes when their containers have ended. EMR keeps at least as many core nodes as HDFS has copies of "
    "each block (dfs.replication), and enough core nodes for the data in HDFS. Run again to wait longer, or specify more nodes."
)
# Part of EMR's error message about an instance profile that is not visible to EMR yet.
NEW_ROLE = "InstanceProfile"


class ClusterEnded(ClusterError):
    """An EMR cluster ended unexpectedly. `code` is EMR's reason."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def read(request: Request) -> list[Found]:
    """Return the cluster, its steps, and the existing default roles that the definition uses and allows the run to create.

    The attribute `groups` of the cluster contains the roles of its instance groups, such as `TASK`.
    """
    return read_concurrently([partial(_read_cluster, request), partial(read_roles, request)])


def _read_cluster(request: Request) -> Iterator[Found]:
    cloud, described = request.cloud, own_cluster(request.cloud)
    if described is None:
        _refuse_unrecorded(cloud)
        return
    listed = {"ClusterId": described["Id"]}
    groups = _listed_groups(cloud, described["Id"])
    if request.present:
        groups = managed_groups(described["Id"], groups)
    actions = cloud.retrieve("emr", "list_bootstrap_actions", "BootstrapActions", **listed)
    instances = running_instances(cloud, described["Id"])
    roles = {"groups": frozenset(group["InstanceGroupType"] for group in groups)}
    recorded = record.read(cloud)
    properties = {
        **cluster_properties(request, described, groups, actions),
        **node_properties(request, instances),
        "idle_seconds": idle_seconds(cloud, described["Id"]) if request.present else 0,
        "volumes": {**(volumes(request) if request.present else {}), **volumes_of(cloud, instances)},
        "is_recorded": recorded is not None and recorded.cluster_id == described["Id"],
    }
    yield Found(CLUSTER, described["Id"], properties, roles)
    yield from read_steps(cloud.retrieve("emr", "list_steps", "Steps", **listed))


def _refuse_unrecorded(cloud: AwsClient) -> None:
    """Raise ClusterError if unrecorded EMR clusters have this cluster's name and tags, because anyone may have created them."""
    others = unrecorded_clusters(cloud)
    if others:
        parameter = record.parameter_name(cloud.cluster)
        raise ClusterError(
            f"EMR cluster {' and '.join(others)} has the name and the tags of {cloud.cluster}, but is not recorded in the parameter "
            f"{parameter}. If somebody else created this cluster, terminate it, or remove its tags. If this cluster is yours, run "
            f"aws ssm put-parameter --type String --overwrite --name {parameter} --value {others[0]}."
        )


def _create_cluster(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    request = definition.run_job_flow_request(cloud.cluster, properties)
    begun = record.begin(cloud)
    tags = {**properties["tags"], record.CREATION_TAG: begun.token}
    run = partial(cloud.create, "emr", "run_job_flow", **request, Tags=tag_list(tags))
    try:
        cluster_id = _once_roles_are_visible(cloud, run, properties["instance_profile"])["JobFlowId"]
    except (*SDK_ERRORS,) as error:
        if not outcome_is_unknown(error):
            raise
        cluster_id = _created_after_all(cloud, error)
    record.complete(cloud, begun, cluster_id)
    if properties["idle_seconds"]:
        # As a part of RunJobFlow, AWS would check the permission for the policy before the cluster has tags
        cloud.once_allowed(partial(_end_when_idle, cloud, cluster_id, properties["idle_seconds"]))
    return Found(address, cluster_id, properties)


def _created_after_all(cloud: AwsClient, error: Exception) -> str:
    """Return the ID of the cluster that was created by a call whose response was lost. Raises `error` if EMR lists no such cluster.

    RunJobFlow does not accept a client token, and names are not unique, so repeating the call too early would create a second cluster.
    """
    cloud.progress(f"EMR did not answer. Looking for a new EMR cluster {cloud.cluster}")
    try:
        return str(cloud.wait_until("the new EMR cluster", lambda: own_cluster(cloud), LISTED_TIMEOUT, pause=PAUSE)["Id"])
    except WaitTimeout:
        raise error from None


def _once_roles_are_visible(cloud: AwsClient, run: Callable[[], dict[str, Any]], profile: str) -> dict[str, Any]:
    """Create the cluster. If this run created the instance profile, retry for up to a minute while the profile is not visible to EMR."""
    if profile not in cloud.created:
        return run()
    errors: list[ClientError] = []

    def answer() -> dict[str, Any] | None:
        try:
            return cloud.once_allowed(run)
        except ClientError as error:
            if error_code(error) != "ValidationException" or NEW_ROLE not in str(error):
                raise
            errors.append(error)
            return None

    try:
        return cloud.wait_until("EMR to see the instance profile", answer, DENIED_TIMEOUT, pause=1)
    except WaitTimeout as error:
        raise errors[-1] from error


def _update_cluster(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> Found | None:
    """Change a cluster in place, or replace it. The plan contains a replacement only if the definition allows it."""
    before = {name: found.properties.get(name) for name in changed}
    if definition.needs_replacement(before, {name: properties[name] for name in changed}):
        _delete_cluster(cloud, found)
        return _create_cluster(cloud, found.address, properties)
    if "is_recorded" in changed:
        _record(cloud, found.id)
    if "tags" in changed:
        _update_tags(cloud, found, properties["tags"])
    if "termination_protection" in changed:
        _protect(cloud, found.id, properties["termination_protection"])
    if "idle_seconds" in changed:
        _end_when_idle(cloud, found.id, properties["idle_seconds"])
    if changed & {"core_count", "state", "task_count"}:
        _resize(cloud, found, properties)
    return None


def _record(cloud: AwsClient, cluster_id: str) -> None:
    begun = record.read(cloud)
    if begun:
        record.complete(cloud, begun, cluster_id)


def _update_tags(cloud: AwsClient, found: Found, tags: Mapping[str, str]) -> None:
    """Add tags. According to the EMR documentation, a tag must be removed before it can be added with a different value."""
    stale = [name for name, value in tags.items() if found.properties["tags"].get(name, value) != value]
    if stale:
        cloud.emr.remove_tags(ResourceId=found.id, TagKeys=stale)
    cloud.emr.add_tags(ResourceId=found.id, Tags=tag_list(tags))


def _protect(cloud: AwsClient, cluster_id: str, protected: bool) -> None:
    cloud.emr.set_termination_protection(JobFlowIds=[cluster_id], TerminationProtected=protected)


def _end_when_idle(cloud: AwsClient, cluster_id: str, seconds: int) -> None:
    if seconds:
        cloud.emr.put_auto_termination_policy(ClusterId=cluster_id, AutoTerminationPolicy={"IdleTimeout": seconds})
    else:
        cloud.emr.remove_auto_termination_policy(ClusterId=cluster_id)


def _resize(cloud: AwsClient, found: Found, properties: Properties) -> None:
    """Resize the groups whose size differs or for which EMR no longer launches nodes, and add the first task group.

    EMR accepts these changes only after the cluster has started. If no group needs to change, do not wait until the cluster has started.
    """
    sizes = {role: properties[f"{GROUPS[role]}_count"] for role in RESIZABLE}
    groups = {group["InstanceGroupType"]: group for group in _groups(cloud, found.id)}
    instances = running_instances(cloud, found.id)
    different = [
        _resize_request(group["Id"], sizes[role], surplus(instances, {role: sizes[role]}))
        for role, group in groups.items()
        if role in sizes and (group["RequestedInstanceCount"] != sizes[role] or group["Status"]["State"] in ("ARRESTED", "SUSPENDED"))
    ]
    adds = sizes["TASK"] and "TASK" not in groups
    if different or adds:
        _wait(cloud, found.id, lambda described, _groups: described["Status"]["State"] in STARTED)
    if different:
        cloud.emr.modify_instance_groups(ClusterId=found.id, InstanceGroups=different)
    if adds:
        cloud.create("emr", "add_instance_groups", JobFlowId=found.id, InstanceGroups=[definition.group_request("TASK", properties)])


def _resize_request(group_id: str, size: int, going: Sequence[str]) -> dict[str, Any]:
    """Return the new size of a group and, if the group shrinks, the nodes that EMR terminates."""
    policy = {"ShrinkPolicy": {"InstanceResizePolicy": {"InstancesToTerminate": list(going)}}} if going else {}
    return {"InstanceGroupId": group_id, "InstanceCount": size, **policy}


def _number_nodes(cloud: AwsClient, cluster_id: str) -> None:
    """Number the unnumbered nodes: core nodes before task nodes, oldest first.

    A node keeps its number until EMR terminates the node.
    """
    instances = running_instances(cloud, cluster_id)
    for group in NODE_TYPES:
        members = [item for role in GROUPS for item in instances if role_of(item) == role and group_of(cloud.cluster, item) == group]
        numbered = {item["InstanceId"]: number for item in members if (number := number_of(item))}
        number_new_nodes(cloud, group, numbered, unnumbered(members))


def _settle_cluster(cloud: AwsClient, found: Found) -> Found:
    """If the run waits, wait until the cluster is ready, and number its nodes."""
    if found.properties.get("state") != READY:
        return found

    def is_ready(described: ClusterDescription, groups: Sequence[ClusterDescription]) -> bool:
        for group in groups:
            if group["Status"]["State"] in ("ARRESTED", "SUSPENDED"):
                reason = group["Status"].get("StateChangeReason", {}).get("Message", "EMR returned no reason")
                raise ClusterError(f"EMR no longer launches {GROUPS[group['InstanceGroupType']]} nodes for {found.id}: {reason}")
        return state(described, groups) == READY

    shrinks = any(group["RunningInstanceCount"] > group["RequestedInstanceCount"] for group in _groups(cloud, found.id))
    try:
        _wait(cloud, found.id, is_ready, SHRINK_TIMEOUT if shrinks else START_TIMEOUT)
    except WaitTimeout as error:
        raise WaitTimeout(f"{error} {STILL_SHRINKING}" if shrinks else str(error)) from error
    except ClusterEnded as error:
        role = found.properties["service_role"]
        if error.code != "VALIDATION_ERROR" or role not in cloud.created:
            raise
        # AWS did not apply the policies of the new role yet
        cloud.created.remove(role)
        return _settle_cluster(cloud, _create_cluster(cloud, found.address, found.properties))
    _number_nodes(cloud, found.id)
    return found


def _wait(
    cloud: AwsClient,
    cluster_id: str,
    suits: Callable[[ClusterDescription, Sequence[ClusterDescription]], bool],
    timeout: float = START_TIMEOUT,
) -> None:
    """Wait until `suits` returns true for the cluster and its groups. If the cluster terminates, raises ClusterError with EMR's reason.

    `timeout` is in seconds. If the `wait_timeout` option specifies a longer time, that time applies.
    """

    started = time.monotonic()

    def probe() -> bool:
        described = describe(cloud, cluster_id)
        if described["Status"]["State"] not in LIVE:
            reason = described["Status"].get("StateChangeReason", {}).get("Code", "")
            raise ClusterEnded(ended(described, bootstrap_log(cloud, described)), reason)
        groups = _groups(cloud, cluster_id)
        nodes = [(group["RunningInstanceCount"], group["RequestedInstanceCount"]) for group in groups]
        running, wanted = (sum(counts) for counts in zip(*nodes))
        text = f"EMR cluster {cloud.cluster} is {described['Status']['State'].lower()}: {running} of {wanted} nodes are ready"
        cloud.progress(text, time.monotonic() - started)
        return suits(described, groups)

    cloud.wait_until(f"EMR cluster {cluster_id} to become ready", probe, max(cloud.wait_timeout, timeout), pause=PAUSE)


def _groups(cloud: AwsClient, cluster_id: str) -> list[dict[str, Any]]:
    return managed_groups(cluster_id, _listed_groups(cloud, cluster_id))


def _listed_groups(cloud: AwsClient, cluster_id: str) -> list[dict[str, Any]]:
    return cloud.retrieve("emr", "list_instance_groups", "InstanceGroups", ClusterId=cluster_id)


def ended(described: ClusterDescription, log: str = "") -> str:
    """Return the message for an unexpected termination of a cluster, with EMR's reason and the location of the logs."""
    reason = described["Status"].get("StateChangeReason", {})
    code, text = reason.get("Code", "no code"), reason.get("Message", "EMR returned no reason")
    message = f"EMR cluster {described['Id']} ended ({code}): {text.rstrip('.')}."
    if not described.get("LogUri"):
        return f"{message} Set {P}emr_log_uri to keep the logs of nodes."
    where = "steps/" if code == "STEP_FAILURE" else "node/"
    printed = f" It printed: {log}." if log else ""
    return f"{message}{printed} EMR copies the logs to s3://{'/'.join(_log_folder(described))}/{where} a few minutes later."


def _log_folder(described: ClusterDescription) -> tuple[str, str]:
    """Return the bucket that contains the cluster's logs, and the folder of the logs in this bucket."""
    bucket, _slash, folder = described["LogUri"].partition("://")[2].rstrip("/").partition("/")
    return bucket, f"{folder}/{described['Id']}".lstrip("/")


def bootstrap_log(cloud: AwsClient, described: ClusterDescription) -> str:
    """Return the last lines of the bootstrap action's error output, if the action's failure terminated the cluster.

    Returns an empty string if EMR does not copy the output within `LOG_TIMEOUT` seconds. Returns a note if the user is not allowed to
    read the output.
    """
    failed = FAILED_ACTION.search(described["Status"].get("StateChangeReason", {}).get("Message", ""))
    if not failed or not described.get("LogUri"):
        return ""
    bucket, folder = _log_folder(described)
    key = f"{folder}/node/{failed['instance']}/bootstrap-actions/{failed['action']}/stderr.gz"

    def read() -> str | None:
        try:
            return last_lines(cloud.s3.get_object(Bucket=bucket, Key=key)["Body"].read(MOST_BYTES))
        except ClientError as error:
            if error_code(error) == "AccessDenied":
                return "(you are not allowed to read the log)"
            return None

    try:
        return cloud.wait_until("the log of the bootstrap action", read, LOG_TIMEOUT, pause=PAUSE)
    except (WaitTimeout, *SDK_ERRORS):
        return ""


def last_lines(packed: bytes) -> str:
    """Return the last lines of a compressed log as one line, without control characters.

    The log is untrusted, because nodes write the log.
    """
    try:
        text = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(packed, MOST_BYTES).decode(errors="replace")
    except zlib.error:
        return "(its log is damaged)"
    lines = ["".join(char for char in line if char.isprintable()).strip() for line in text.splitlines()]
    return " / ".join([line for line in lines if line][-KEPT_LINES:])[-KEPT_CHARACTERS:] or "(nothing)"


def _delete_cluster(cloud: AwsClient, found: Found) -> None:
    if found.properties["termination_protection"]:
        _protect(cloud, found.id, False)
    cloud.emr.terminate_job_flows(JobFlowIds=[found.id])
    started = time.monotonic()

    def gone() -> bool:
        cloud.progress(f"EMR cluster {cloud.cluster} is terminating", time.monotonic() - started)
        return describe(cloud, found.id)["Status"]["State"] in OVER

    cloud.wait_until(f"EMR cluster {found.id} to terminate", gone, max(cloud.wait_timeout, START_TIMEOUT), pause=PAUSE)
    record.delete(cloud)


def _create_step(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    request = definition.step_request(address.key, properties)
    added = cloud.create("emr", "add_job_flow_steps", JobFlowId=properties["cluster"], Steps=[request])
    return Found(address, added["StepIds"][0], {name: properties[name] for name in ("jar", "args", "on_failure")})


def _never_delete(_cloud: AwsClient, found: Found) -> None:
    raise TypeError(f"{found.address} is kept: EMR does not delete it")


KINDS = (
    Kind(
        "emr_role",
        create_role,
        _never_delete,
        update=attach_policy,
        updatable=frozenset({"policy"}),
        advice="All EMR clusters of the account share this role. Change it yourself.",
    ),
    Kind(
        "emr_instance_profile",
        create_profile,
        _never_delete,
        update=add_role,
        updatable=frozenset({"role"}),
        advice="All EMR clusters of the account share this instance profile. Change it yourself.",
    ),
    Kind(
        CLUSTER.kind,
        _create_cluster,
        _delete_cluster,
        update=_update_cluster,
        settle=_settle_cluster,
        updatable=definition.IN_PLACE,
        replacing=frozenset(
            {
                "release_label",
                "image_id",
                *(f"{name}_instance_type" for name in GROUPS.values()),
                "service_role",
                "instance_profile",
                "key_name",
                "subnet",
                *(f"{purpose}_security_group" for purpose in definition.SECURITY_GROUPS),
                *(f"additional_{nodes}_security_groups" for nodes in definition.ADDITIONAL_GROUPS),
                "bootstrap_actions",
                "root_volume_size",
                "log_uri",
                "applications",
            }
        ),
    ),
    Kind(
        "emr_step",
        _create_step,
        _never_delete,
        advice="EMR does not change steps. Give the changed step another name.",
    ),
)
