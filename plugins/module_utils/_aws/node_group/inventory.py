# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Derives the nodes for the inventory and `cluster_info` from EC2's descriptions of the instances. Performs no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from ..instances import ON_DEMAND, market_of, tags_of
from ..node_names import MASTER, NODE_TYPES, WORKERS, assign_numbers, node_name
from ..node_service import Instance, NodeService
from ..storage.kinds import TAGS, told
from .definition import EFA, EFA_ONLY
from .membership_tags import MembershipError, check, number_of


@dataclass(frozen=True)
class Node:
    """A live node. `name` is the node's name in the inventory. The cluster's hosts use `hostname` as the node's name."""

    name: str
    hostname: str
    group: str
    number: int
    instance_id: str
    instance_type: str
    zone: str
    private_ip: str
    public_ip: str | None
    # The tags that describe the node's mounts.
    tags: Mapping[str, str] = field(default_factory=dict)
    efa: bool = False
    efa_devices: int = 0
    # The ID of the Capacity Block that the node runs in.
    capacity_block: str = ""
    # The time at which this Capacity Block ends, in seconds since 1970, or 0 if it is unknown.
    capacity_end: float = 0.0
    # The time at which EC2 launched the instance, in seconds since 1970.
    launched_at: float = 0.0
    # How the instance is paid for: `on-demand`, `spot` or `capacity-block`.
    market: str = ON_DEMAND
    # The volumes of a node of EMR, as the module `emr.definition` describes them, if they are known.
    volumes: Sequence[Any] | None = None

    @property
    def mounts(self) -> list[dict[str, Any]]:
        """Return the mounts that the tags describe, as arguments of the module `shared_storage`."""
        return told(self.tags)

    @property
    def storage(self) -> dict[str, str | None]:
        """Return the values of the storage tags, keyed by variable. A value is None if the node lacks the tag."""
        return {tag.variable: self.tags[tag.key] if tag.is_told(self.tags) else None for tag in TAGS if tag.variable}

    def as_dict(self) -> dict[str, Any]:
        """Return the node's fields without its Capacity Block, and replace the tags with the mounts and the storage variables."""
        own = {name: value for name, value in asdict(self).items() if name not in ("tags", "capacity_block", "capacity_end")}
        return {**own, **self.storage, "mounts": self.mounts}


def nodes(cluster: str, instances: Iterable[Instance], service: NodeService) -> list[Node]:
    """Return the nodes among the running instances, sorted by number.

    Nodes without numbers get free numbers, starting with the oldest node. Instances that the service did not launch for the cluster are
    omitted. Raises MembershipError.
    """
    instances = list(instances)
    check(cluster, instances, service)
    unknown = sorted(item["InstanceId"] for item in instances if not item.get("PrivateIpAddress"))
    if unknown:
        raise MembershipError(f"EC2 does not return the private address of {', '.join(unknown)} yet. Run the playbook again in a minute.")
    ordered = sorted(instances, key=lambda item: (item["LaunchTime"], item["InstanceId"]))
    result = []
    for group in NODE_TYPES:
        members = {item["InstanceId"]: item for item in ordered if service.group_of(cluster, item) == group}
        numbered = {instance_id: number for instance_id, item in members.items() if (number := number_of(item))}
        numbers = assign_numbers(group, numbered, [instance_id for instance_id in members if instance_id not in numbered], len(members))
        result += [_node(cluster, group, number, members[instance_id]) for instance_id, number in numbers.items()]
    return sorted(result, key=lambda node: node.number)


def _seconds(time: datetime | str) -> float:
    """Return a time in seconds since 1970. The inventory plugin leaves times as EC2 writes them."""
    return (datetime.fromisoformat(time.replace("Z", "+00:00")) if isinstance(time, str) else time).timestamp()


def _node(cluster: str, group: str, number: int, instance: Mapping[str, Any]) -> Node:
    tags = tags_of(instance)
    adapters = sum(interface.get("InterfaceType") in (EFA, EFA_ONLY) for interface in instance.get("NetworkInterfaces", []))
    name = node_name(cluster, group, number)
    return Node(
        name=name,
        hostname=name,
        group=MASTER if group == MASTER else WORKERS,
        number=number,
        instance_id=instance["InstanceId"],
        instance_type=instance["InstanceType"],
        zone=instance["Placement"]["AvailabilityZone"],
        private_ip=instance["PrivateIpAddress"],
        public_ip=instance.get("PublicIpAddress") or None,
        tags={tag.key: tags[tag.key] for tag in TAGS if tag.key in tags},
        efa=adapters > 0,
        efa_devices=adapters,
        capacity_block=instance.get("CapacityReservationId", "") if instance.get("InstanceLifecycle") == "capacity-block" else "",
        launched_at=_seconds(instance["LaunchTime"]),
        market=market_of(instance),
        volumes=instance.get("Volumes"),
    )
