# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The resources of the master and the workers: launch templates, Auto Scaling groups and numbered nodes. Performs no I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Tuple

from ..._common.shared_storage import boot
from ..component import Mount
from ..idle.definition import IDLE
from ..instance_role.definition import INSTANCE_PROFILE
from ..lease.definition import LEASE
from ..network.definition import NODES_GROUP, SSH_GROUP, subnet
from ..node_names import MASTER, NODE_TYPES, NUMBER_TAG, WORKERS, group_name, numbers
from ..plan.resources import Address, Computed, Ref, Wanted
from ..tags import CLUSTER_TAG, COMPONENT_TAG, IDLE_TAG, KEY_TAG, LEASE_TAG, TOPIC_TAG
from . import first_boot

WANTED_TAG = "deeplearning:wanted"  # on groups: the desired number of nodes, even if fewer were accepted
NOT_INHERITED = (WANTED_TAG, LEASE_TAG, IDLE_TAG, TOPIC_TAG)  # tags of groups that their instances do not inherit
NODE_TYPE_TAG = "NodeType"  # for users and billing reports. Nodes are identified by their Auto Scaling group
SUSPENDED = frozenset({"AZRebalance", "ReplaceUnhealthy"})
# What Auto Scaling sends to an SNS topic. Successful launches are what somebody has asked for
NOTIFICATION_TYPES = tuple(f"autoscaling:EC2_INSTANCE_{event}" for event in ("LAUNCH_ERROR", "TERMINATE", "TERMINATE_ERROR"))
HEALTH_CHECK_GRACE_PERIOD = 900  # seconds, enough for large instances to boot
# The tags of an instance, except user-defined tags and mount tags. Groups have `WANTED_TAG` instead of `NUMBER_TAG`.
OWN_TAGS = (CLUSTER_TAG, COMPONENT_TAG, KEY_TAG, "Name", NODE_TYPE_TAG, NUMBER_TAG)
# The EC2 resource types that are created with an instance, but do not inherit the tags of its Auto Scaling group.
LAUNCHED = ("volume", "network-interface")
PLACEMENT_GROUP = Address("placement_group", "main")
MASTER_ADDRESS = Address("master_address", MASTER)


@dataclass(frozen=True)
class Image:
    """The properties of a machine image for a launch template. `source` is the option value that selects the image."""

    image_id: str
    root_device: str
    source: str


PLAIN, EFA, EFA_ONLY = "interface", "efa", "efa-only"  # types of network interfaces
# A network interface: the index of its network card, its device index on that card, and its type.
Interface = Tuple[int, int, str]


@dataclass(frozen=True)
class RootVolume:
    """A root volume. `size` is in GiB and `throughput` in MiB/s. Zero and an empty `kms_key` represent the AWS defaults."""

    size: int
    type: str = "gp3"
    iops: int = 0
    throughput: int = 0
    kms_key: str = ""


@dataclass(frozen=True)
class NodeSettings:
    """The properties that all nodes of a cluster share. If `clustered` is true, the nodes are in the placement group."""

    instance_type: str
    image: Image
    key_name: str
    root_volume: RootVolume
    ebs_optimized: bool
    interfaces: tuple[Interface, ...]
    clustered: bool
    market: str
    spot_max_price: str
    capacity_reservation: str
    login_user: str
    mounts: tuple[Mount, ...]
    metadata_hop_limit: int = 1
    # IDs of the user's own security groups.
    additional_groups: tuple[str, ...] = ()


def clustered(options: Mapping[str, Any], *, reserved: bool = False, suitable: bool = False) -> bool:
    """Return whether the nodes are in a cluster placement group, which is limited to one zone.

    With `auto`, nodes without EFA are in a placement group only if they are `suitable`. See `capacity.suits_placement_group`.

    The reservation determines the location of `reserved` nodes. The capacity of a reservation may be spread out, unless the reservation was
    created in a placement group. Such a reservation is only for nodes in that placement group. A Capacity Block does not allow a placement
    group. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/limitations-placement-groups.html
    """
    if options["placement_group"] or options["placement"] == "cluster":
        return True
    return options["placement"] == "auto" and not reserved and (bool(options["efa"]) or suitable)


def in_one_zone(options: Mapping[str, Any]) -> bool:
    """Return whether all nodes are launched in one zone, either because of a placement group or because EFA traffic cannot leave a zone.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html#efa-limits
    """
    return bool(options["efa"]) or clustered(options)


@dataclass(frozen=True)
class Capacity:
    """The number of nodes that a run launches, and the limits within which the run accepts fewer nodes."""

    workers: int
    # The worker count in the definition. This count exceeds `workers` if a cluster that was accepted with fewer workers does not grow.
    wanted_workers: int
    least_workers: int
    # The zones of new nodes. None means that the zones do not change.
    zones: Sequence[str] | None
    # Seconds after which `least_workers` workers are sufficient.
    timeout: float
    # IDs of scaling activities from earlier attempts.
    past_activities: frozenset[str] = frozenset()
    # A description of the candidate for this attempt.
    alternative: str = ""


def launch_template(group: str) -> Address:
    return Address("launch_template", group)


def auto_scaling_group(group: str) -> Address:
    return Address("auto_scaling_group", group)


def nodes(group: str) -> Address:
    return Address("nodes", group)


def desired_workers(options: Mapping[str, Any]) -> int:
    """Return the number of workers and spares in a definition."""
    return int(options.get("worker_count") or 0) + int(options.get("spares") or 0)


def user_data(config: Mapping[str, Any]) -> str:
    """Return user data for cloud-init as JSON, which is also valid YAML. The same configuration always produces the same text."""
    return "#cloud-config\n" + json.dumps(config, indent=1, sort_keys=True) + "\n"


def wanted(
    group: str,
    settings: NodeSettings,
    capacity: Capacity,
    cluster: str,
    region: str,
    tags: Callable[[Address], dict[str, str]],
    *,
    public_master: bool,
    storage_tags: Mapping[str, str] | None = None,
    ends: Collection[str] = (),
    topic: str | None = None,
    wait: bool,
) -> list[Wanted]:
    """Return the resources of one group, `master` or `workers`. The numbered nodes are included only if `wait` is true.

    `storage_tags` contains the mount tags of nodes that are not replaced. By default, the mount tags come from `settings`. `ends`
    contains the tags of what AWS does to end the nodes. Auto Scaling notifies the SNS topic with the ARN `topic`.
    """
    public = group == MASTER and public_master
    by_ssh = group == MASTER or not public_master  # if the master has no public address, SSH connects directly to all nodes
    template = _launch_template(group, settings, cluster, tags, public=public, by_ssh=by_ssh)
    mounted = _storage_tags(settings) if storage_tags is None else storage_tags
    more = {**mounted, **dict.fromkeys(ends, cluster), **({TOPIC_TAG: topic} if topic else {})}
    result = [template, _scaling_group(group, capacity, cluster, {**tags(auto_scaling_group(group)), **more}, public=public)]
    return [*result, _numbered_nodes(group, capacity)] if wait else result


def _launch_template(
    group: str, settings: NodeSettings, cluster: str, tags: Callable[[Address], dict[str, str]], *, public: bool, by_ssh: bool
) -> Wanted:
    """Return the launch template of a group. If `by_ssh` is true, the template contains the security group for SSH."""
    volume, address = settings.root_volume, launch_template(group)
    own_groups = (Ref(NODES_GROUP), Ref(SSH_GROUP)) if by_ssh else (Ref(NODES_GROUP),)
    return Wanted(
        address,
        {
            "name": group_name(cluster, group),
            "instance_type": settings.instance_type,
            "image_id": settings.image.image_id,
            "root_device": settings.image.root_device,
            "root_volume_size": volume.size,
            "root_volume_type": volume.type,
            "root_volume_iops": volume.iops,
            "root_volume_throughput": volume.throughput,
            "root_volume_kms_key": volume.kms_key,
            "ebs_optimized": settings.ebs_optimized,
            "key_name": settings.key_name,
            "instance_profile": Ref(INSTANCE_PROFILE),
            "security_groups": frozenset((*own_groups, *settings.additional_groups)),
            "interfaces": settings.interfaces,
            "public_address": public and len(settings.interfaces) == 1,
            "placement_group": Ref(PLACEMENT_GROUP) if settings.clustered else "",
            "market": settings.market,
            "spot_max_price": settings.spot_max_price,
            "capacity_reservation": settings.capacity_reservation,
            "user_data": _user_data(settings),
            "metadata_hop_limit": settings.metadata_hop_limit,
            "launched_tags": {kind: tags(Address(kind, group)) for kind in LAUNCHED},
            "tags": tags(address),
        },
    )


def _scaling_group(group: str, capacity: Capacity, cluster: str, tags: Mapping[str, Any], *, public: bool) -> Wanted:
    """Return the Auto Scaling group, whose nodes are in public subnets if `public` is true, and otherwise in private subnets."""
    template, side = launch_template(group), "public" if public else "private"
    return Wanted(
        auto_scaling_group(group),
        {
            "name": group_name(cluster, group),
            "launch_template": Ref(template),
            "template_version": Ref(template, "version"),
            "minimum": 1 if group == MASTER else 0,
            "size": len(numbers(group, capacity.workers)),
            "subnets": capacity.zones and frozenset(Ref(subnet(side, zone)) for zone in capacity.zones),
            # While a job runs, AWS must not rebalance zones or replace a node that hangs or reboots. A run reports unhealthy nodes
            "suspended": SUSPENDED,
            "health_check_grace_period": HEALTH_CHECK_GRACE_PERIOD,
            # If a group has more members than its size, AWS must not choose which nodes it terminates. A run terminates specific nodes
            "protected_from_scale_in": True,
            "notifications": {tags[TOPIC_TAG]: NOTIFICATION_TYPES} if TOPIC_TAG in tags else {},
            "tags": {
                **tags,
                "Name": f"{cluster}-{NODE_TYPES[group]}",
                NODE_TYPE_TAG: NODE_TYPES[group],
                WANTED_TAG: str(len(numbers(group, capacity.wanted_workers))),
            },
        },
        # No node is launched before AWS can end it. The master is launched first, because a cluster can have fewer workers, but cannot work
        # without a master
        after=(LEASE, IDLE) if group == MASTER else (LEASE, IDLE, auto_scaling_group(MASTER)),
    )


def _numbered_nodes(group: str, capacity: Capacity) -> Wanted:
    """Return the nodes of a group. The master is numbered last, so it has no number if a run is killed before all workers are numbered."""
    template, scaling_group = launch_template(group), auto_scaling_group(group)
    return Wanted(
        nodes(group),
        {"numbers": numbers(group, capacity.workers), "group": Ref(scaling_group), "outdated": (), "unhealthy": ()},
        # A replacement node is launched from the new template, even if the group does not change
        after=(template, nodes(WORKERS)) if group == MASTER else (template,),
        parameters=launch_parameters(group, capacity),
    )


def launch_parameters(group: str, capacity: Capacity) -> dict[str, Any]:
    """Return the parameters that determine how long a run waits for the nodes of a group, and how many nodes are sufficient."""
    return {
        "least": 1 if group == MASTER else capacity.least_workers,
        "timeout": capacity.timeout,
        "past_activities": capacity.past_activities,
        "alternative": capacity.alternative,
    }


def _storage_tags(settings: NodeSettings) -> dict[str, Any]:
    return {key: value for mount in settings.mounts for key, value in mount.tags.items()}


def _user_data(settings: NodeSettings) -> Computed:
    def render(*values: Any) -> str:
        left = iter(values)
        entries = [mount.entry.function(*islice(left, len(mount.entry.refs))) for mount in settings.mounts]
        return user_data(first_boot.cloud_config(boot.cloud_config(entries, settings.login_user)))

    return Computed(render, tuple(ref for mount in settings.mounts for ref in mount.entry.refs))
