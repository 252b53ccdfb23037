# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What the inventory and cluster_info tell about nodes, from EC2's description of the instances. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instances import MASTER, NODE_TYPES, WORKERS, group_of, tags_of
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.definition import (
    ACCESS_POINT_TAG,
    EFA,
    EFA_ONLY,
    FILE_SYSTEM_ADDRESS_TAG,
    FILE_SYSTEM_TAG,
    FILE_SYSTEM_TLS_TAG,
    LUSTRE_SOURCE_TAG,
    LUSTRE_TAG,
    assign_numbers,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.membership import check, number_of
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.tags import TLS


@dataclass(frozen=True)
class Node:
    """One live node. C(name) is its name in the inventory, C(hostname) the one that hosts use among themselves."""

    name: str
    hostname: str
    group: str
    number: int
    instance_id: str
    instance_type: str
    zone: str
    private_ip: str
    public_ip: str | None
    file_system_id: str | None
    file_system_address: str | None = None
    file_system_tls: str | None = None
    """One of C(TLS). None where no tag says so: then the definition decides."""
    file_system_access_point: str | None = None
    lustre_file_system_id: str | None = None
    lustre_source: str | None = None
    efa: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def nodes(cluster: str, instances: Iterable[Mapping[str, Any]]) -> list[Node]:
    """The nodes among the running instances, by number. One that has no number on its tag yet gets a free one, oldest first.

    An instance that no auto scaling group of the cluster has launched is no node. Raises MembershipError.
    """
    instances = list(instances)
    check(cluster, instances)
    ordered = sorted(instances, key=lambda item: (item["LaunchTime"], item["InstanceId"]))
    result = []
    for group in NODE_TYPES:
        members = {item["InstanceId"]: item for item in ordered if group_of(cluster, item) == group}
        numbered = {instance_id: number for instance_id, item in members.items() if (number := number_of(item))}
        numbers = assign_numbers(group, numbered, [instance_id for instance_id in members if instance_id not in numbered], len(members))
        result += [_node(cluster, group, number, members[instance_id]) for instance_id, number in numbers.items()]
    return sorted(result, key=lambda node: node.number)


def _node(cluster: str, group: str, number: int, instance: Mapping[str, Any]) -> Node:
    tags = tags_of(instance)
    return Node(
        name=f"{cluster}-{MASTER}" if group == MASTER else f"{cluster}-worker{number}",
        hostname=f"deeplearning-worker{number}",
        group=MASTER if group == MASTER else WORKERS,
        number=number,
        instance_id=instance["InstanceId"],
        instance_type=instance["InstanceType"],
        zone=instance["Placement"]["AvailabilityZone"],
        private_ip=instance["PrivateIpAddress"],
        public_ip=instance.get("PublicIpAddress") or None,
        file_system_id=tags.get(FILE_SYSTEM_TAG),
        file_system_address=tags.get(FILE_SYSTEM_ADDRESS_TAG),
        file_system_tls=tls if (tls := tags.get(FILE_SYSTEM_TLS_TAG)) in TLS else None,
        file_system_access_point=tags.get(ACCESS_POINT_TAG),
        lustre_file_system_id=tags.get(LUSTRE_TAG),
        lustre_source=tags.get(LUSTRE_SOURCE_TAG),
        efa=any(interface.get("InterfaceType") in (EFA, EFA_ONLY) for interface in instance.get("NetworkInterfaces", [])),
    )
