# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Options of the FSx for Lustre file system."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.option import (
    COPY_DATA,
    DELETE_AND_CREATE,
    IN_PLACE,
    NETWORK,
    NODE_GROUP,
    REPLACES_NODES,
    Option,
    Policy,
    Suboption,
    Update,
    forbidden,
    in_place,
)

MODULE = "lustre_file_system"
SWITCH = "lustre"
"""The option that gives a cluster a file system of its own."""
BOUND_TO_NETWORK = "A Lustre file system keeps its network, so copy its data and delete it as well"

OPTIONS = (
    Option(
        SWITCH,
        {"type": "bool", "default": False},
        (NETWORK, MODULE),
        Update(Policy.REPLACES_NODES, advice=f"{DELETE_AND_CREATE} to switch it off while nodes run that mount it"),
        (
            "Whether the nodes share a file system of FSx for Lustre. Security groups let its ports in only then, or with"
            " O(lustre_file_system_id).",
            "Switching it on makes the file system at once, and nodes mount it from their launch on.",
        ),
    ),
    Option(
        "lustre_file_system_id",
        {"type": "str"},
        (NETWORK, MODULE, NODE_GROUP),
        forbidden(DELETE_AND_CREATE, details="while nodes run that mount another one"),
        (
            "An existing file system of FSx for Lustre to use, which is never changed or deleted. It is mounted by address if it is in"
            " another VPC and there is a route to it.",
        ),
    ),
    Option(
        "lustre_capacity",
        {"type": "int", "default": 1200},
        (MODULE,),
        in_place("at most once in six hours, and only upwards", "Copy the data to a smaller file system and adopt that"),
        ("Size of a new Lustre file system in GiB, 1200 or a multiple of 2400.",),
    ),
    Option(
        "lustre_deployment",
        {"type": "str", "choices": ["SCRATCH_2", "PERSISTENT_2"], "default": "PERSISTENT_2"},
        (MODULE,),
        forbidden(COPY_DATA),
        ("V(PERSISTENT_2) keeps several copies of the data, V(SCRATCH_2) one that is lost with a disk.",),
    ),
    Option(
        "lustre_throughput",
        {"type": "int", "choices": [125, 250, 500, 1000], "default": 250},
        (MODULE,),
        IN_PLACE,
        ("Throughput in MB/s for every TiB of a PERSISTENT_2 file system. One of SCRATCH_2 has 200.",),
    ),
    Option(
        "lustre_compression",
        {"type": "str", "choices": ["NONE", "LZ4"], "default": "LZ4"},
        (MODULE,),
        in_place("for what is written from then on"),
        ("How data on the Lustre file system is compressed.",),
    ),
    Option(
        "lustre_data_repositories",
        {"type": "list", "elements": "dict", "default": []},
        (MODULE,),
        in_place(
            "and what was imported stays on the file system",
            "Take a path away first, and give it another prefix in the next run",
        ),
        ("Prefixes in S3 that appear as directories of a new Lustre file system.",),
        (
            Suboption(
                "path",
                {"type": "str", "default": "/"},
                "The directory on the file system, which must not lie in another one that is linked.",
            ),
            Suboption(
                "s3",
                {"type": "str", "required": True},
                "The bucket or prefix, such as C(s3://bucket/prefix). For another one, take the path away first.",
            ),
            Suboption(
                "import_changes",
                {"type": "bool", "default": True},
                "Whether objects appear as files, those that are there and those that come, change or go. It changes in place.",
            ),
            Suboption(
                "export_changes",
                {"type": "bool", "default": False},
                "Whether files that come, change or go are written back to S3. It changes in place.",
            ),
        ),
    ),
    Option(
        "lustre_mount_point",
        {"type": "str", "default": "/fsx"},
        (NODE_GROUP,),
        REPLACES_NODES,
        ("Where the nodes mount the Lustre file system at boot.",),
    ),
)
