"""The EBS volumes of nodes. Source: Amazon EMR Management Guide, "Instance storage options and behavior in Amazon EMR"."""

from __future__ import annotations

from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPES

from .checks import FIRST_WITH_LARGER_ROOT, SMALLEST_ROOT_VOLUMES, version

FIRST_WITH_GP3_ROOT, FIRST_WITH_DATA_VOLUMES = (6, 15, 0), (5, 22, 0)
# The sizes in GiB of the four volumes of an instance type without disks, by its size. The smallest types have fewer volumes.
SIZES = {2: 32, 4: 64, 8: 128, 9: 144, 10: 160, 12: 192, 16: 256, 18: 288, 24: 384}
DATA_VOLUMES = {"large": [32], "xlarge": [32] * 2, **{f"{factor}xlarge": [size] * 4 for factor, size in SIZES.items()}}


def data_volumes(label: str, instance_type: str) -> list[dict[str, Any]]:
    """Return the volumes for data, in the form of EbsBlockDevices."""
    if INSTANCE_TYPES[instance_type].get("InstanceStorageSupported") or version(label) < FIRST_WITH_DATA_VOLUMES:
        return []
    sizes = DATA_VOLUMES.get(instance_type.partition(".")[2], [])
    named = zip(sizes, "bcde")
    return [{"VolumeSpecification": {"VolumeType": "gp2", "SizeInGB": size}, "Device": f"/dev/sd{name}"} for size, name in named]


def mappings(request: dict[str, Any], root_device: str, data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the block device mappings of a node. A custom image decides the type of its root volume."""
    label, root = request["ReleaseLabel"], dict[str, Any]()
    if not request.get("CustomAmiId"):
        size = SMALLEST_ROOT_VOLUMES[version(label) >= FIRST_WITH_LARGER_ROOT]
        root = {"VolumeType": "gp3" if version(label) >= FIRST_WITH_GP3_ROOT else "gp2", "VolumeSize": size}
    if size := request.get("EbsRootVolumeSize"):
        root["VolumeSize"] = size
    specifications = [(each["Device"], each["VolumeSpecification"]) for each in data]
    disks = {name: {"VolumeType": each["VolumeType"], "VolumeSize": each["SizeInGB"]} for name, each in specifications}
    return [{"DeviceName": name, "Ebs": {**disk, "DeleteOnTermination": True}} for name, disk in {root_device: root, **disks}.items()]
