# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The properties of an EMR cluster and its steps, in the form that the definition uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Mapping

from ..client import (
    ClusterError,
)
from ..component import Request
from ..message_parts import P
from ..node_service import Instance
from ..plan.resources import Found
from . import definition
from .definition import GROUPS, READY
from .nodes import STARTED, surplus, unnumbered

RESIZABLE = ("CORE", "TASK")
ClusterDescription = Mapping[str, Any]


def node_properties(request: Request, instances: Sequence[Instance]) -> dict[str, Any]:
    """Return the IDs of the nodes that have no number yet, and of the nodes beyond the desired counts."""
    counts = {role: request.options[f"emr_{GROUPS[role]}_count"] for role in RESIZABLE} if request.present else {}
    return {"nodes_without_number": unnumbered(instances), "surplus_nodes": surplus(instances, counts)}


def cluster_properties(
    request: Request, described: ClusterDescription, groups: Sequence[ClusterDescription], actions: Sequence[ClusterDescription]
) -> dict[str, Any]:
    """Return the properties that the plan compares, in the form that the definition uses."""
    options, instances = request.options, described["Ec2InstanceAttributes"]
    by_role = {group["InstanceGroupType"]: group for group in groups}
    applications = [item["Name"] for item in described.get("Applications", [])]
    return {
        "release_label": described.get("ReleaseLabel"),
        "image_id": described.get("CustomAmiId"),
        **{f"{name}_instance_type": by_role[role]["InstanceType"] for role, name in GROUPS.items() if role in by_role},
        **{f"{GROUPS[role]}_count": by_role.get(role, {}).get("RequestedInstanceCount", 0) for role in ("CORE", "TASK")},
        "service_role": definition.comparable_name(options.get("emr_service_role"), described.get("ServiceRole", "")),
        "instance_profile": definition.comparable_name(options.get("emr_instance_profile"), instances.get("IamInstanceProfile", "")),
        "key_name": instances.get("Ec2KeyName"),
        "subnet": instances.get("Ec2SubnetId"),
        **{f"{purpose}_security_group": instances.get(member) for purpose, member in definition.SECURITY_GROUPS.items()},
        **{
            f"additional_{nodes}_security_groups": frozenset(instances.get(member, ()))
            for nodes, member in definition.ADDITIONAL_GROUPS.items()
        },
        "bootstrap_actions": [{"name": item["Name"], "path": item["ScriptPath"], "args": item.get("Args", [])} for item in actions],
        "root_volume_size": described.get("EbsRootVolumeSize"),
        "log_uri": definition.comparable_log_uri(options.get("emr_log_uri"), described.get("LogUri")),
        "applications": definition.comparable_applications(options.get("emr_applications") or [], applications),
        "termination_protection": described["TerminationProtected"],
        "tags": request.cloud.comparable_tags(described.get("Tags", [])),
        "state": state(described, groups),
    }


def state(described: ClusterDescription, groups: Iterable[ClusterDescription]) -> str:
    """Return `ready` if the cluster has started and its groups have all their nodes, or else the state of the cluster or a group."""
    if described["Status"]["State"] not in STARTED:
        return str(described["Status"]["State"]).lower()
    unready = [group for group in groups if group["RunningInstanceCount"] != group["RequestedInstanceCount"]]
    states = sorted({group["Status"]["State"].lower() for group in unready})
    return states[0] if states else READY


def read_steps(listed: Iterable[ClusterDescription]) -> Iterator[Found]:
    """Yield the steps. If other tools have added steps with the same name, yield only the newest of them."""
    seen = set[str]()
    for item in listed:  # the newest step comes first
        if item["Name"] not in seen:
            seen.add(item["Name"])
            config = item["Config"]
            properties = {"jar": config["Jar"], "args": config.get("Args", []), "on_failure": _on_failure(item)}
            yield Found(definition.step(item["Name"]), item["Id"], properties, {"status": item["Status"]})


def _on_failure(step: ClusterDescription) -> str:
    return str(step.get("ActionOnFailure", "")).lower().replace("job_flow", "cluster")


def managed_groups(cluster_id: str, groups: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the groups that the definition describes: one for each role. EMR never deletes groups, so empty task groups do not count.

    Raises ClusterError if several task groups have nodes.
    """
    tasks = [group for group in groups if group["InstanceGroupType"] == "TASK"]
    used = [group for group in tasks if group["RequestedInstanceCount"] or group["RunningInstanceCount"]]
    if len(used) > 1:
        raise ClusterError(
            f"{P}emr_task_count: EMR cluster {cluster_id} has several task groups with nodes: {', '.join(group['Id'] for group in used)}. "
            "Set the number of nodes to 0 in all but one: aws emr modify-instance-groups"
        )
    return [*(group for group in groups if group["InstanceGroupType"] != "TASK"), *(used or tasks[:1])]
