# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Options that several modules share; their documentation is in the doc fragment of the same name."""

from __future__ import annotations

from typing import Any

DEFAULT_NETWORK_CIDR = "10.0.0.0/16"
DEFAULT_WAIT_TIMEOUT = 900  # seconds

COMMON: dict[str, Any] = {
    "cluster": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "tags": {"type": "dict", "default": {}},
    "suppress_validators": {"type": "list", "elements": "str", "default": []},
    "wait": {"type": "bool", "default": True},
    "wait_timeout": {"type": "int", "default": DEFAULT_WAIT_TIMEOUT},
}
ADOPTED_NETWORK: dict[str, Any] = {
    "vpc_id": {"type": "str"},
    "public_subnet_ids": {"type": "list", "elements": "str", "default": []},
    "private_subnet_ids": {"type": "list", "elements": "str", "default": []},
    "security_group_ids": {"type": "dict", "options": {"nodes": {"type": "str"}, "ssh": {"type": "str"}, "storage": {"type": "str"}}},
    "master_public_address": {"type": "bool", "default": True},
}
LUSTRE_USE: dict[str, Any] = {
    "lustre": {"type": "bool", "default": False},
    "lustre_file_system_id": {"type": "str"},
}
NETWORK: dict[str, Any] = {
    **ADOPTED_NETWORK,
    **LUSTRE_USE,
    "network_cidr": {"type": "str", "default": DEFAULT_NETWORK_CIDR},
    "zones": {"type": "list", "elements": "str", "default": []},
    "ssh_cidrs": {"type": "list", "elements": "str", "default": []},
    "allow_ssh_from_anywhere": {"type": "bool", "default": False},
    "nat": {"type": "str", "choices": ["single", "per_zone", "none"], "default": "single"},
    "interface_endpoints": {"type": "list", "elements": "str", "default": []},
}
ADOPTED_STORAGE: dict[str, Any] = {
    "file_system_id": {"type": "str"},
    "lustre_file_system_id": {"type": "str"},
}
STORAGE: dict[str, Any] = {
    "kms_key_id": {"type": "str"},
    "delete_data": {"type": "bool", "default": False},
}
MOUNT: dict[str, Any] = {
    "file_system_directory": {"type": "str"},
    "encrypt_in_transit": {"type": "bool"},
}
FILE_SYSTEM: dict[str, Any] = {
    **STORAGE,
    **MOUNT,
    "efs": {"type": "bool", "default": True},
    "file_system_id": {"type": "str"},
    "encrypted": {"type": "bool", "default": True},
    "performance_mode": {"type": "str", "choices": ["generalPurpose", "maxIO"], "default": "generalPurpose"},
    "throughput_mode": {"type": "str", "choices": ["bursting", "elastic", "provisioned"], "default": "bursting"},
    "provisioned_throughput": {"type": "float"},
}
LUSTRE: dict[str, Any] = {
    **STORAGE,
    **LUSTRE_USE,
    "lustre_capacity": {"type": "int", "default": 1200},
    "lustre_deployment": {"type": "str", "choices": ["SCRATCH_2", "PERSISTENT_2"], "default": "PERSISTENT_2"},
    "lustre_throughput": {"type": "int", "choices": [125, 250, 500, 1000], "default": 250},
    "lustre_compression": {"type": "str", "choices": ["NONE", "LZ4"], "default": "LZ4"},
    "lustre_data_repositories": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "path": {"type": "str", "default": "/"},
            "s3": {"type": "str", "required": True},
            "import_changes": {"type": "bool", "default": True},
            "export_changes": {"type": "bool", "default": False},
        },
    },
}
ADOPTED_ROLE: dict[str, Any] = {
    "instance_profile": {"type": "str"},
}
INSTANCE_ROLE: dict[str, Any] = {
    **ADOPTED_ROLE,
    "read_buckets": {"type": "list", "elements": "str", "default": []},
    "write_buckets": {"type": "list", "elements": "str", "default": []},
    "permissions_boundary": {"type": "str"},
    "session_manager": {"type": "bool", "default": False},
}
MARKETS = ["on-demand", "spot", "capacity-reservation", "capacity-block"]
NODES: dict[str, Any] = {
    "instance_type": {"type": "str"},
    "worker_count": {"type": "int"},
    "worker_minimum": {"type": "int"},
    "market": {"type": "str", "choices": MARKETS, "default": "on-demand"},
    "spot_max_price": {"type": "str"},
    "capacity_reservation_id": {"type": "str"},
    "alternatives": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "instance_type": {"type": "str"},
            "zone": {"type": "str"},
            "market": {"type": "str", "choices": MARKETS},
            "spot_max_price": {"type": "str"},
            "capacity_reservation_id": {"type": "str"},
        },
    },
    "capacity_timeout": {"type": "int", "default": 600},
    "grow": {"type": "bool", "default": False},
    "replace_nodes": {"type": "bool", "default": False},
    "progress_file": {"type": "path"},
    "image_id": {"type": "str"},
    "image_parameter": {"type": "str"},
    "image_framework": {"type": "str"},
    "image_os": {"type": "str"},
    "image_update": {"type": "bool", "default": False},
    "key_name": {"type": "str"},
    "root_volume_size": {"type": "int", "default": 100},
    "root_volume_type": {"type": "str", "choices": ["gp3", "gp2", "io1", "io2"], "default": "gp3"},
    "root_volume_iops": {"type": "int"},
    "root_volume_throughput": {"type": "int"},
    "root_volume_kms_key": {"type": "str", "no_log": False},
    "metadata_hop_limit": {"type": "int", "default": 1},
    "efa": {"type": "bool", "default": False},
    "placement": {"type": "str", "choices": ["auto", "cluster", "none"], "default": "auto"},
    "placement_group": {"type": "str"},
    "login_user": {"type": "str", "default": "ubuntu"},
    "mount_point": {"type": "str", "default": "/efs"},
    **MOUNT,
    "lustre_mount_point": {"type": "str", "default": "/fsx"},
}
CLUSTER: dict[str, Any] = {**COMMON, **NETWORK, **FILE_SYSTEM, **LUSTRE, **INSTANCE_ROLE, **NODES}
