# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Options that several modules share; their documentation is in the doc fragment of the same name."""

from __future__ import annotations

from typing import Any

DEFAULT_NETWORK_CIDR = "10.0.0.0/16"

COMMON: dict[str, Any] = {
    "cluster": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "tags": {"type": "dict", "default": {}},
    "suppress_validators": {"type": "list", "elements": "str", "default": []},
    "wait": {"type": "bool", "default": True},
    "wait_timeout": {"type": "int", "default": 900},
}
NETWORK: dict[str, Any] = {
    "network_cidr": {"type": "str", "default": DEFAULT_NETWORK_CIDR},
    "zones": {"type": "list", "elements": "str", "default": []},
    "ssh_cidrs": {"type": "list", "elements": "str", "default": []},
    "allow_ssh_from_anywhere": {"type": "bool", "default": False},
}
FILE_SYSTEM: dict[str, Any] = {
    "file_system_id": {"type": "str"},
    "encrypted": {"type": "bool", "default": True},
    "performance_mode": {"type": "str", "choices": ["generalPurpose", "maxIO"], "default": "generalPurpose"},
    "delete_data": {"type": "bool", "default": False},
}
INSTANCE_ROLE: dict[str, Any] = {
    "read_buckets": {"type": "list", "elements": "str", "default": []},
    "write_buckets": {"type": "list", "elements": "str", "default": []},
}
NODES: dict[str, Any] = {
    "instance_type": {"type": "str"},
    "worker_count": {"type": "int"},
    "image_id": {"type": "str"},
    "image_parameter": {"type": "str"},
    "key_name": {"type": "str"},
    "root_volume_size": {"type": "int", "default": 100},
    "login_user": {"type": "str", "default": "ubuntu"},
    "mount_point": {"type": "str", "default": "/efs"},
}
