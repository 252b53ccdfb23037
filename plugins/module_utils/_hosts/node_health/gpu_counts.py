# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""How many NVIDIA GPUs each EC2 instance type has, as returned by DescribeInstanceTypes (GpuInfo), and how many of a host jobs use."""

from __future__ import annotations

import json
import os
from typing import Any

from ..._common.node_health.check import CheckedNode

# Families in which the number of GPUs depends on the size. Sizes that are not listed have one GPU.
FAMILIES: dict[str, dict[str, int]] = {
    "g4dn": {"12xlarge": 4, "metal": 8},
    "g5": {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8},
    "g5g": {"16xlarge": 2, "metal": 2},
    "g6": {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8},
    "g6e": {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8},
    "g7": {"12xlarge": 2, "24xlarge": 4, "48xlarge": 8},
    "g7e": {"12xlarge": 2, "24xlarge": 4, "48xlarge": 8},
    "gr6": {},
    "p3": {"8xlarge": 4, "16xlarge": 8},
    "p3dn": {"24xlarge": 8},
    "p4d": {"24xlarge": 8},
    "p4de": {"24xlarge": 8},
    "p5": {"48xlarge": 8},
    "p5e": {"48xlarge": 8},
    "p5en": {"48xlarge": 8},
    "p6-b200": {"48xlarge": 8},
    "p6-b300": {"48xlarge": 8},
    "p6e-gb200": {"36xlarge": 4},
}


def gpu_count(instance_type: str) -> int | None:
    """Return the number of GPUs of an instance type, or None if this table does not contain the type's family."""
    family, _dot, size = instance_type.partition(".")
    return FAMILIES[family].get(size, 1) if family in FAMILIES else None


def has_nvlinks(instance_type: str) -> bool | None:
    """Return whether NVLinks connect the GPUs of an instance type, or None if the type is unknown. These are the types with several GPUs in
    the families whose names begin with `p`.
    """
    count = gpu_count(instance_type)
    return None if count is None else count > 1 and instance_type.startswith("p")


def read_configured_gpus(node: CheckedNode) -> int | None:
    """Return the number of GPUs that jobs use according to the worker metadata, or None if the host is not configured."""
    try:
        with open(os.path.join(node.metadata_directory, "metadata.json"), encoding="utf-8") as file:
            count: Any = json.load(file)["gpu_count"]
        return int(count)
    except (OSError, ValueError, KeyError, TypeError):
        return None
