"""The API of EMR."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import datetime
from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.emr.exceptions import InvalidCluster
from moto.emr.responses import ElasticMapReduceResponse as Response

from ..context import CLOUD
from ..override import override
from .auto_termination import AutoTermination
from .block_public_access import configuration
from .checks import check_creation, check_groups, check_steps, normal_request
from .clusters import ENDING, STARTED, Cluster, clusters
from .errors import invalid, unknown
from .nodes import CORE, MASTER, TASK, InstanceGroup

# The number of results per page.
PAGE = 50
MOST_TASK_GROUPS = 48
# The creation time of the configurations that each account has from the start.
CREATION = datetime(2019, 7, 1)

Response.PROTOCOL_PARSER_MAP_TYPE = dict


def _cluster(response: Response, parameter: str = "ClusterId") -> Cluster:
    """Return the cluster to which a request refers. Raises `InvalidRequestException`."""
    identifier = response._get_param(parameter)
    try:
        return clusters(response.backend)[identifier]
    except KeyError:
        raise InvalidCluster(identifier) from None


def _clusters(response: Response) -> list[Cluster]:
    """Return the clusters to which a request refers. Raises `ValidationException`."""
    known, wanted = clusters(response.backend), response._get_param("JobFlowIds", [])
    for identifier in wanted:
        if identifier not in known:
            raise invalid(f"Specified job flow ID not valid: {identifier}")
    return [known[identifier] for identifier in wanted]


def _page(response: Response, name: str, found: list[dict[str, Any]]) -> ActionResult:
    """Return a page of items. The marker is the ID or the name of the last item on the previous page."""
    marker = response._get_param("Marker")
    start = next((number + 1 for number, each in enumerate(found) if _mark(each) == marker), None if marker else 0)
    if start is None:
        raise unknown("Marker is not valid.")
    page = found[start : start + PAGE]
    more = start + PAGE < len(found)
    return ActionResult({name: page, "Marker": _mark(page[-1]) if more else None})


def _mark(description: dict[str, Any]) -> str:
    return next(str(description[name]) for name in ("Id", "Type", "Name") if name in description)


@override(Response)
def list_supported_instance_types(self: Response) -> ActionResult:
    label = self._get_param("ReleaseLabel")
    if label not in self.backend.list_release_labels():
        raise unknown(f"The supplied release label is invalid: {label}.")
    return _page(self, "SupportedInstanceTypes", self.backend.list_supported_instance_types(label))


@override(Response)
def get_block_public_access_configuration(self: Response) -> ActionResult:
    stored = self.backend.block_public_access_configuration
    created = {"creation_date_time": CREATION, "created_by_arn": f"arn:aws:iam::{self.backend.account_id}:root"}
    metadata = stored.get("block_public_access_configuration_metadata") or created
    found = configuration(self.backend)
    return ActionResult({"BlockPublicAccessConfiguration": found, "BlockPublicAccessConfigurationMetadata": metadata})


@override(Response)
def put_block_public_access_configuration(self: Response) -> EmptyResult:
    given = self._get_param("BlockPublicAccessConfiguration")
    ranges = given.get("PermittedPublicSecurityGroupRuleRanges")
    self.backend.put_block_public_access_configuration(given["BlockPublicSecurityGroupRules"], ranges)
    return EmptyResult()


@override(Response)
def run_job_flow(self: Response) -> ActionResult:
    request = normal_request(copy.deepcopy(dict(self._get_params())))
    check_creation(self.backend, request)
    cluster = Cluster(self.backend, request)
    clusters(self.backend)[cluster.id] = cluster
    CLOUD.wake.set()
    return ActionResult({"JobFlowId": cluster.id, "ClusterArn": cluster.arn})


@override(Response)
def describe_cluster(self: Response) -> ActionResult:
    return ActionResult({"Cluster": _cluster(self).describe()})


@override(Response)
def list_clusters(self: Response) -> ActionResult:
    """Return clusters in pages, newest first."""
    states, after, before = (self._get_param(name) for name in ("ClusterStates", "CreatedAfter", "CreatedBefore"))
    found = [
        cluster.summarize()
        for cluster in reversed(list(clusters(self.backend).values()))
        if (not states or cluster.state in states)
        and (not after or cluster.created > after.replace(tzinfo=None))
        and (not before or cluster.created < before.replace(tzinfo=None))
    ]
    return _page(self, "Clusters", found)


@override(Response)
def list_instance_groups(self: Response) -> ActionResult:
    return _page(self, "InstanceGroups", [group.describe() for group in _cluster(self).groups])


@override(Response)
def list_instances(self: Response) -> ActionResult:
    identifier, roles, states = (self._get_param(name) for name in ("InstanceGroupId", "InstanceGroupTypes", "InstanceStates"))
    found = [
        node.describe()
        for node in _cluster(self).nodes
        if identifier in (None, node.group.id) and (not roles or node.group.role in roles) and (not states or node.state in states)
    ]
    return _page(self, "Instances", found)


@override(Response)
def list_bootstrap_actions(self: Response) -> ActionResult:
    actions = _cluster(self).request.get("BootstrapActions", [])
    scripts = [(action["Name"], action["ScriptBootstrapAction"]) for action in actions]
    # A cluster has at most 16 bootstrap actions, so one page contains them all
    return ActionResult(
        {"BootstrapActions": [{"Name": name, "ScriptPath": script["Path"], "Args": script.get("Args", [])} for name, script in scripts]}
    )


@override(Response)
def list_steps(self: Response) -> ActionResult:
    """Return steps in pages, newest first."""
    identifiers, states = self._get_param("StepIds"), self._get_param("StepStates")
    steps = [
        step.describe()
        for step in reversed(_cluster(self).steps)
        if (not identifiers or step.id in identifiers) and (not states or step.state in states)
    ]
    return _page(self, "Steps", steps)


@override(Response)
def describe_step(self: Response) -> ActionResult:
    cluster, identifier = _cluster(self), self._get_param("StepId")
    for step in cluster.steps:
        if step.id == identifier:
            return ActionResult({"Step": step.describe()})
    raise unknown(f"Step id '{identifier}' is not valid.")


@override(Response)
def add_job_flow_steps(self: Response) -> ActionResult:
    cluster, steps = _cluster(self, "JobFlowId"), copy.deepcopy(self._get_param("Steps", []))
    if self._get_param("ExecutionRoleArn"):
        raise invalid("The local cloud does not implement ExecutionRoleArn.")
    _check_modifiable(cluster)
    check_steps(sum(1 for step in cluster.steps if step.is_active), steps)
    return ActionResult({"StepIds": [step.id for step in cluster.add_steps(steps)]})


@override(Response)
def add_instance_groups(self: Response) -> ActionResult:
    """Add task groups. Groups with other roles can be specified only when the cluster is created."""
    cluster, requests = _cluster(self, "JobFlowId"), copy.deepcopy(self._get_param("InstanceGroups", []))
    _check_started(cluster, "Instance groups can only be added")
    check_groups(self.backend, cluster.request["ReleaseLabel"], requests)
    if any(each["InstanceRole"] != TASK for each in requests):
        raise invalid("Only TASK instance groups can be added to a running cluster.")
    if all(group.role != CORE for group in cluster.groups):
        raise invalid("A cluster with a TASK instance group must have a CORE instance group.")
    if sum(group.role == TASK for group in cluster.groups) + len(requests) > MOST_TASK_GROUPS:
        raise invalid(f"A cluster can have at most {MOST_TASK_GROUPS} task instance groups.")
    added = [cluster.add_group(each) for each in requests]
    return ActionResult({"JobFlowId": cluster.id, "InstanceGroupIds": [group.id for group in added], "ClusterArn": cluster.arn})


@override(Response)
def modify_instance_groups(self: Response) -> EmptyResult:
    """Resize groups. Nothing changes if one of the requests is not valid."""
    named, requests = self._get_param("ClusterId"), self._get_param("InstanceGroups", [])
    changes = [(*_group(self, each["InstanceGroupId"], named), each) for each in requests]
    for cluster, group, request in changes:
        _check_resize(cluster, group, request)
    for _cluster_of_group, group, request in changes:
        group.requested, group.failure = request["InstanceCount"], ""
        policy = request.get("ShrinkPolicy", {}).get("InstanceResizePolicy", {})
        group.shrink([*request.get("EC2InstanceIdsToTerminate", []), *policy.get("InstancesToTerminate", [])])
    CLOUD.wake.set()
    return EmptyResult()


def _group(response: Response, identifier: str, cluster_id: str | None) -> tuple[Cluster, InstanceGroup]:
    for cluster in clusters(response.backend).values():
        for group in cluster.groups:
            if group.id == identifier and cluster_id in (None, cluster.id):
                return cluster, group
    raise unknown(f"Instance group id '{identifier}' is not valid.")


def _check_resize(cluster: Cluster, group: InstanceGroup, request: dict[str, Any]) -> None:
    for name in ("Configurations", "ReconfigurationType"):
        if request.get(name):
            raise invalid(f"The local cloud does not implement {name}.")
    _check_started(cluster, "An instance group may only be modified")
    if "InstanceCount" not in request:
        raise invalid("InstanceCount is required.")
    if group.role == MASTER:
        raise invalid("The master instance group may not be modified.")
    if request["InstanceCount"] < (1 if group.role == CORE else 0):
        raise invalid(f"The {group.role} instance group cannot have {request['InstanceCount']} instances.")


@override(Response)
def set_termination_protection(self: Response) -> EmptyResult:
    protected = self._get_param("TerminationProtected")
    for cluster in _clusters(self):
        _check_modifiable(cluster)
        cluster.protected = protected
    return EmptyResult()


@override(Response)
def put_auto_termination_policy(self: Response) -> EmptyResult:
    """Attach the policy, or replace it. The cluster counts as idle from now on at the earliest."""
    cluster = _cluster(self)
    _check_modifiable(cluster)
    cluster.auto_termination = AutoTermination(cluster.request["ReleaseLabel"], self._get_param("AutoTerminationPolicy") or {})
    return EmptyResult()


@override(Response)
def get_auto_termination_policy(self: Response) -> ActionResult:
    policy = _cluster(self).auto_termination
    return ActionResult({"AutoTerminationPolicy": policy.describe() if policy else None})


@override(Response)
def remove_auto_termination_policy(self: Response) -> EmptyResult:
    cluster = _cluster(self)
    _check_modifiable(cluster)
    cluster.auto_termination = None
    return EmptyResult()


@override(Response)
def terminate_job_flows(self: Response) -> EmptyResult:
    """Terminate the clusters that are not protected. Raises `ValidationException` if any of the clusters are protected."""
    wanted = _clusters(self)
    for cluster in wanted:
        if not cluster.protected:
            cluster.terminate("USER_REQUEST", "Terminated by user request")
    CLOUD.wake.set()
    if any(cluster.protected for cluster in wanted):
        raise invalid("Could not shut down one or more job flows since they are termination protected.")
    return EmptyResult()


@override(Response)
def add_tags(self: Response) -> EmptyResult:
    cluster = _cluster(self, "ResourceId")
    _check_modifiable(cluster)
    cluster.set_tags({tag["Key"]: tag.get("Value", "") for tag in self._get_param("Tags", [])})
    return EmptyResult()


@override(Response)
def remove_tags(self: Response) -> EmptyResult:
    cluster = _cluster(self, "ResourceId")
    _check_modifiable(cluster)
    cluster.remove_tags(self._get_param("TagKeys", []))
    return EmptyResult()


def _check_modifiable(cluster: Cluster) -> None:
    if cluster.state in ENDING:
        raise invalid("A job flow that is shutting down, terminated, or finished may not be modified.")


def _check_started(cluster: Cluster, what: str) -> None:
    _check_modifiable(cluster)
    if cluster.state not in STARTED:
        raise invalid(f"{what} when the job flow is running or waiting.")


def _not_implemented(action: str) -> Callable[[Response], ActionResult]:
    def call(self: Response) -> ActionResult:
        raise NotImplementedError(f"moto's {action} does not work with the clusters of the local cloud")

    call.__name__ = action
    return call


for _action in (
    "describe_job_flows",
    "modify_cluster",
    "put_auto_scaling_policy",
    "remove_auto_scaling_policy",
    "set_visible_to_all_users",
):
    override(Response)(_not_implemented(_action))
