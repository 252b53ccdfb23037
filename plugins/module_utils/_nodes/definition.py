# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What the master and the workers consist of: launch templates, auto scaling groups, numbered nodes. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import storage
from .._file_system.definition import FILE_SYSTEM
from .._instance_role.definition import INSTANCE_PROFILE
from .._network.definition import NODES_GROUP, SSH_GROUP, subnet
from .._plan.resources import Address, Computed, Ref, Wanted

COMPONENT = "nodes"
MASTER = "master"
WORKERS = "workers"
NODE_TYPES = {MASTER: "Master", WORKERS: "Worker"}
MASTER_NUMBER = 1  # the master trains too and is worker 1
NUMBER_TAG = "deeplearning:number"
FILE_SYSTEM_TAG = "deeplearning:file-system"
NODE_TYPE_TAG = "NodeType"


@dataclass(frozen=True)
class Image:
    """A machine image and what a launch template has to know of it. C(source) is what the user named it by."""

    image_id: str
    root_device: str
    source: str


@dataclass(frozen=True)
class NodeSettings:
    """What all nodes of a cluster have in common. C(root_volume_size) is in GiB."""

    instance_type: str
    image: Image
    key_name: str
    root_volume_size: int
    login_user: str
    mount_point: str
    mounts_file_system: bool


def launch_template(group: str) -> Address:
    return Address("launch_template", group)


def auto_scaling_group(group: str) -> Address:
    return Address("auto_scaling_group", group)


def nodes(group: str) -> Address:
    return Address("nodes", group)


def numbers(group: str, worker_count: int) -> tuple[int, ...]:
    """The numbers of a group's nodes; the master is 1, workers follow."""
    return (MASTER_NUMBER,) if group == MASTER else tuple(range(MASTER_NUMBER + 1, MASTER_NUMBER + 1 + worker_count))


def assign_numbers(group: str, numbered: Mapping[str, int], unnumbered: Iterable[str], size: int) -> dict[str, int]:
    """Numbers by instance id for all of a group's instances; one that has a number keeps it.

    The others get the lowest free numbers in the order given, beyond C(size) nodes too, while surplus ones are still going away.
    """
    taken = set(numbered.values())
    unnumbered = list(unnumbered)
    candidates = numbers(group, size + len(taken) + len(unnumbered)) if group == WORKERS else range(MASTER_NUMBER, MASTER_NUMBER + 1)
    free = iter([number for number in candidates if number not in taken])
    return {**numbered, **dict(zip(unnumbered, free))}


def user_data(config: Mapping[str, Any]) -> str:
    """Cloud-init user data. JSON is YAML too, and its text is the same every time."""
    return "#cloud-config\n" + json.dumps(config, indent=1, sort_keys=True) + "\n"


def wanted(
    group: str,
    settings: NodeSettings,
    worker_count: int,
    zones: Sequence[str],
    cluster: str,
    region: str,
    tags: Callable[[Address], dict[str, str]],
    *,
    wait: bool,
) -> list[Wanted]:
    """The resources of one group, C(master) or C(workers). Nodes get their numbers once they are up, so only if C(wait)."""
    is_master = group == MASTER
    template, scaling_group = launch_template(group), auto_scaling_group(group)
    size = len(numbers(group, worker_count))
    file_system_tag = {FILE_SYSTEM_TAG: Ref(FILE_SYSTEM)} if settings.mounts_file_system else {}
    result = [
        Wanted(
            template,
            {
                "name": f"{cluster}-{group}",
                "instance_type": settings.instance_type,
                "image_id": settings.image.image_id,
                "root_device": settings.image.root_device,
                "root_volume_size": settings.root_volume_size,
                "key_name": settings.key_name,
                "instance_profile": Ref(INSTANCE_PROFILE),
                "security_groups": frozenset({Ref(NODES_GROUP), Ref(SSH_GROUP)} if is_master else {Ref(NODES_GROUP)}),
                "public_address": is_master,
                "user_data": _user_data(settings, region),
                "tags": tags(template),
            },
        ),
        Wanted(
            scaling_group,
            {
                "name": f"{cluster}-{group}",
                "launch_template": Ref(template),
                "minimum": 1 if is_master else 0,
                "size": size,
                "subnets": frozenset(Ref(subnet("public" if is_master else "private", zone)) for zone in zones),
                # Never end a node under a job to balance zones
                "suspended": frozenset({"AZRebalance"}),
                "tags": {
                    **tags(scaling_group),
                    **file_system_tag,
                    "Name": f"{cluster}-{NODE_TYPES[group]}",
                    NODE_TYPE_TAG: NODE_TYPES[group],
                },
            },
        ),
    ]
    if wait:
        result.append(Wanted(nodes(group), {"numbers": numbers(group, worker_count), "group": Ref(scaling_group)}))
    return result


def _user_data(settings: NodeSettings, region: str) -> Any:
    if not settings.mounts_file_system:
        return user_data({})

    def render(file_system_id: str) -> str:
        return user_data(storage.cloud_config(file_system_id, region, settings.mount_point, settings.login_user))

    return Computed(render, (Ref(FILE_SYSTEM),))
