# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Implements `NodeService` for clusters whose nodes EMR launches.

The nodes are the instances that EMR lists as running in the recorded EMR cluster and that also have EMR's tags, which only AWS can set.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timezone
from typing import Any, Mapping

from ..client import CLUSTER_TAG, COMPONENT_TAG, ClientError, ClusterError, tag_dict
from ..error_codes import DENIED, error_code
from ..instances import tags_of
from ..node_group.membership_tags import number_of, with_storage_tags
from ..node_names import MASTER, WORKERS
from ..node_service import Instance, NodeService, Reader
from ..tags import EMR_COMPONENT
from . import record
from .charges import products
from .definition import UNKNOWN_VOLUMES, Volume
from .iam_actions import NODES

# EMR sets these tags on the instances of a cluster. Users cannot set or delete tags that begin with `aws:`.
JOB_FLOW_TAG, ROLE_TAG = "aws:elasticmapreduce:job-flow-id", "aws:elasticmapreduce:instance-group-role"
GROUPS = {"MASTER": MASTER, "CORE": WORKERS, "TASK": WORKERS}
STARTING = ("STARTING", "BOOTSTRAPPING")
STARTED = ("RUNNING", "WAITING")
LIVE = (*STARTING, *STARTED)
ENDED = ("TERMINATING", "TERMINATED", "TERMINATED_WITH_ERRORS")
# EMR's answers if the release or the region has no auto-termination.
NO_AUTO_TERMINATION = ("UnknownOperationException", "ValidationException")
InstanceDescription = Mapping[str, Any]


def own_cluster(reader: Reader) -> dict[str, Any] | None:
    """Return the description of the recorded EMR cluster, or None if it is terminating.

    While a run is creating the EMR cluster, or if that run was interrupted, the record contains a token instead of an ID. If the record
    contains a token, return the description of the EMR cluster with this name, these tags and this token. Raises ClusterError if several
    EMR clusters have this token, or if the recorded cluster does not have the tags.
    """
    recorded = record.read(reader)
    if recorded is None:
        return None
    if recorded.cluster_id:
        described = _described(reader, recorded.cluster_id)
        if described is None or described["Status"]["State"] not in LIVE:
            return None
        _refuse_changed_tags(reader, described)
        return described
    own = [item for item in _own_clusters(reader, LIVE) if tag_dict(item["Tags"]).get(record.CREATION_TAG) == recorded.token]
    if len(own) > 1:
        ids = " and ".join(item["Id"] for item in own)
        raise ClusterError(
            f"{ids} have the same tag {record.CREATION_TAG}. Find out who created these clusters, and terminate all but your own."
        )
    return own[0] if own and recorded.token else None


def _refuse_changed_tags(reader: Reader, described: InstanceDescription) -> None:
    """Raise ClusterError if the tags of the recorded cluster differ, because fewer users may change the record than the tags."""
    tags = tag_dict(described.get("Tags", []))
    for name, value in _own_tags(reader).items():
        if tags.get(name) != value:
            cluster_id = described["Id"]
            restored = " ".join(f"{each}={own}" for each, own in _own_tags(reader).items())
            raise ClusterError(
                f"EMR cluster {cluster_id}: the tag {name} is {repr(tags[name]) if name in tags else 'missing'}, but the parameter "
                f"{record.parameter_name(reader.cluster)} records this cluster. Find out who changed the tag, then run "
                f"aws emr remove-tags --resource-id {cluster_id} --tag-keys {' '.join(_own_tags(reader))} && "
                f"aws emr add-tags --resource-id {cluster_id} --tags {restored}."
            )


def unrecorded_clusters(reader: Reader) -> list[str]:
    return [item["Id"] for item in _own_clusters(reader, LIVE)]


def _described(reader: Reader, cluster_id: str) -> dict[str, Any] | None:
    """Return EMR's description of a cluster.

    Return None if EMR has deleted the description, which happens two months after the cluster has terminated.
    """
    try:
        return describe(reader, cluster_id)
    except ClientError as error:
        if error_code(error) != "InvalidRequestException":
            raise
        return None


def _own_clusters(reader: Reader, states: Sequence[str], **since: datetime) -> Iterator[dict[str, Any]]:
    for item in reader.retrieve("emr", "list_clusters", "Clusters", ClusterStates=list(states), **since):
        if item["Name"] == reader.cluster:
            described = describe(reader, item["Id"])
            if _own_tags(reader).items() <= tag_dict(described.get("Tags", [])).items() and described["Status"]["State"] in states:
                yield described


def describe(reader: Reader, cluster_id: str) -> dict[str, Any]:
    return dict(reader.client("emr").describe_cluster(ClusterId=cluster_id)["Cluster"])


def idle_seconds(reader: Reader, cluster_id: str, unknown: Collection[str] = NO_AUTO_TERMINATION) -> int:
    """Return the number of seconds after which EMR terminates the idle cluster, or 0. DescribeCluster does not return it.

    Errors with the codes in `unknown` mean 0.
    """
    try:
        policy = reader.client("emr").get_auto_termination_policy(ClusterId=cluster_id).get("AutoTerminationPolicy")
    except ClientError as error:
        if error_code(error) not in unknown:
            raise
        return 0
    return int(policy["IdleTimeout"]) if policy else 0


def status(reader: Reader) -> dict[str, Any] | None:
    """Return the state of the recorded EMR cluster, also of a terminated one, as the module `cluster_info` documents it, or None."""
    recorded = record.read(reader)
    described = _described(reader, recorded.cluster_id) if recorded and recorded.cluster_id else None
    if described is None:
        return None
    ended = described["Status"]["State"] in ENDED
    reason = described["Status"].get("StateChangeReason", {}).get("Message", "") if ended else ""
    end = described["Status"].get("Timeline", {}).get("EndDateTime")
    told = end and f"{end.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    seconds = 0 if ended else idle_seconds(reader, described["Id"], (*NO_AUTO_TERMINATION, *DENIED))
    return {"id": described["Id"], "ended": ended, "reason": reason, "end": told, "idle_seconds": seconds}


def _own_tags(reader: Reader) -> dict[str, str]:
    return {CLUSTER_TAG: reader.cluster, COMPONENT_TAG: EMR_COMPONENT}


def listed(reader: Reader, cluster_id: str, state: str, *roles: str) -> list[dict[str, Any]]:
    """Return EMR's descriptions of the cluster's instances in the given state, in all groups or only in those with these roles."""
    which = {"InstanceGroupTypes": list(roles)} if roles else {}
    return reader.retrieve("emr", "list_instances", "Instances", ClusterId=cluster_id, InstanceStates=[state], **which)


def running_instances(reader: Reader, cluster_id: str) -> list[Instance]:
    """Return the running nodes of a cluster as EC2 describes them, oldest first."""
    nodes = {each["Ec2InstanceId"] for each in listed(reader, cluster_id, "RUNNING")}
    filters = [{"Name": f"tag:{JOB_FLOW_TAG}", "Values": [cluster_id]}, {"Name": "instance-state-name", "Values": ["running"]}]
    reservations = reader.retrieve("ec2", "describe_instances", "Reservations", Filters=filters)
    found = [instance for reservation in reservations for instance in reservation["Instances"] if instance["InstanceId"] in nodes]
    return sorted(found, key=lambda instance: (instance["LaunchTime"], instance["InstanceId"]))


def volumes_of(reader: Reader, instances: Sequence[Instance]) -> dict[str, list[Volume]]:
    """Return the volumes of a node of each role, in which all nodes have the same ones. Without the permission, none is known."""
    roles = {node: role for role, node in {role_of(item) or "": item["InstanceId"] for item in instances}.items()}
    try:
        filters = [{"Name": "attachment.instance-id", "Values": [*roles]}]
        found = reader.retrieve("ec2", "describe_volumes", "Volumes", Filters=filters) if roles else []
    except ClientError:
        return {}
    result = defaultdict[str, list[Volume]](list)
    for each in found:
        volume = (each["VolumeType"], each["Size"], each.get("Iops"), each.get("Throughput"))
        result[roles[each["Attachments"][0]["InstanceId"]]].append(volume)
    return dict(result)


def role_of(instance: Instance) -> str | None:
    """Return the role of an instance: MASTER, CORE or TASK."""
    return tags_of(instance).get(ROLE_TAG)


def group_of(_cluster: str, instance: Instance) -> str | None:
    """Return `master` or `workers`. Instances come from `running_instances`, which returns only nodes of the cluster."""
    return GROUPS.get(role_of(instance) or "")


def unnumbered(instances: Sequence[Instance]) -> tuple[str, ...]:
    return tuple(item["InstanceId"] for item in instances if number_of(item) is None)


def surplus(instances: Sequence[Instance], counts: Mapping[str, int]) -> tuple[str, ...]:
    """Return the IDs of the core and task nodes beyond the desired counts. These nodes have the highest numbers."""
    result = []
    for role, count in counts.items():
        members = sorted((item for item in instances if role_of(item) == role), key=lambda item: number_of(item) or float("inf"))
        result += [item["InstanceId"] for item in members[count:]]
    return tuple(result)


def _instances(reader: Reader) -> list[Instance]:
    described = own_cluster(reader)
    if described is None:
        return []
    tags = tag_dict(described["Tags"])
    instances = running_instances(reader, described["Id"])
    volumes = volumes_of(reader, instances)
    return [{**with_storage_tags(each, tags), "Volumes": volumes.get(role_of(each) or "")} for each in instances]


def _former(reader: Reader, since: datetime, current: Collection[str]) -> list[dict[str, Any]]:
    """Return the terminated instances of the cluster and of earlier clusters with the same name and tags.

    EMR lists terminated instances for 30 days, and terminated clusters for two months.
    """
    found = []
    for described in _own_clusters(reader, (*LIVE, *ENDED)):
        for each in listed(reader, described["Id"], "TERMINATED"):
            began, ended = (each["Status"].get("Timeline", {}).get(f"{name}DateTime") for name in ("Creation", "End"))
            if each["Ec2InstanceId"] not in current and (ended is None or ended >= since):
                cause = each["Status"].get("StateChangeReason", {}).get("Message", "")
                times = {"launched_at": began and began.timestamp(), "left_at": ended and ended.timestamp()}
                node = {"instance_id": each["Ec2InstanceId"], "cause": cause, "replacement": "", **times}
                found.append((ended or since, each["Ec2InstanceId"], node))
    return [node for _ended, _id, node in sorted(found, key=lambda item: item[:2])]


EMR_NODES = NodeService(
    _instances,
    group_of,
    lambda cluster, _group: f"EMR cluster {cluster}",
    "The collection supports only EMR clusters with one master. For this cluster, write an inventory that specifies the master.",
    _former,
    lambda node: products(node["instance_type"], node.get("volumes") or UNKNOWN_VOLUMES),
    "hadoop",
    NODES,
    NODES,
)
