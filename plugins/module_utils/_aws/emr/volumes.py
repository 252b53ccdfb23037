# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The EBS volumes that EMR gives to nodes, before they exist.

Source: Amazon EMR Management Guide, "Instance storage options and behavior in Amazon EMR" and "Customizing the Amazon EBS root device
volume", https://docs.aws.amazon.com/emr/latest/ManagementGuide/emr-plan-storage.html and emr-custom-ami-root-volume-size.html.
"""

from __future__ import annotations

from ..client import AwsClient
from ..component import Request
from ..node_group import images, instance_types
from .definition import GROUPS, UNKNOWN_VOLUMES, Volume
from .releases import FIRST_WITH_DATA_VOLUMES, FIRST_WITH_GP3_ROOT, release, smallest_root

# The number of gp2 volumes for data, and the size of each in GiB, by the size of the instance type, which has no disks of its own.
DATA_VOLUMES = {
    "large": (1, 32),
    "xlarge": (2, 32),
    "2xlarge": (4, 32),
    "4xlarge": (4, 64),
    "8xlarge": (4, 128),
    "9xlarge": (4, 144),
    "10xlarge": (4, 160),
    "12xlarge": (4, 192),
    "16xlarge": (4, 256),
    "18xlarge": (4, 288),
    "24xlarge": (4, 384),
}


def volumes(request: Request) -> dict[str, list[Volume | None]]:
    """Return the volumes of a node of each role. A volume is None if the documentation does not tell its type and size."""
    options, usual = request.options, request.options["emr_instance_type"]
    version = release(options["emr_release_label"]) or ()
    types = {role: options.get(f"emr_{name}_instance_type") or usual for role, name in GROUPS.items()}
    root = _root(request, version)
    return {role: [root, *_data(request.cloud, name, version)] for role, name in types.items() if name}


def _root(request: Request, version: tuple[int, ...]) -> Volume | None:
    image_id, size = request.options["emr_image_id"], request.options["emr_root_volume_size"]
    if not image_id:
        return "gp3" if version >= FIRST_WITH_GP3_ROOT else "gp2", size or smallest_root(version), None, None
    # The type is that of the image
    disk = images.root_disk(images.find(request.cloud, image_id) or {})
    size = size or disk.get("VolumeSize")
    return (disk["VolumeType"], size, disk.get("Iops"), disk.get("Throughput")) if size and "VolumeType" in disk else None


def _data(cloud: AwsClient, name: str, version: tuple[int, ...]) -> list[Volume | None]:
    found, (count, size) = instance_types.find(cloud, name), DATA_VOLUMES.get(name.partition(".")[2], (0, 0))
    if found and found.has_disks:
        return []
    return [("gp2", size, None, None)] * count if found and count and version >= FIRST_WITH_DATA_VOLUMES else [*UNKNOWN_VOLUMES]
