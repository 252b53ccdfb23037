# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Options of the EFS file system. Its module is called `file_system`."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.option import (
    COPY_DATA,
    DELETE_AND_CREATE,
    NODE_GROUP,
    REPLACES_NODES,
    Option,
    Policy,
    Update,
    forbidden,
    in_place,
)

MODULE = "file_system"
SWITCH = "efs"
"""The option that gives a cluster a file system of its own."""

OPTIONS = (
    Option(
        SWITCH,
        {"type": "bool", "default": True},
        (MODULE,),
        forbidden(DELETE_AND_CREATE, details="while nodes run that mount it"),
        ("Whether the nodes share an EFS file system.",),
    ),
    Option(
        "file_system_id",
        {"type": "str"},
        (MODULE, NODE_GROUP),
        forbidden(DELETE_AND_CREATE, details="while nodes run that mount another one"),
        (
            "An existing EFS file system to use. It is never changed or deleted. Mount targets that it lacks in the cluster's zones are"
            " added, and deleted with the cluster. One that has its mount targets in another VPC is mounted by address if there is a route"
            " to it.",
            "By default the cluster gets one of its own.",
            "M(deeplearning.cluster.node_group) finds it by the cluster's mount targets, and has to be told where it has others.",
        ),
        former_variables=("deeplearning_file_system",),
    ),
    Option(
        "encrypted",
        {"type": "bool", "default": True},
        (MODULE,),
        forbidden(COPY_DATA),
        ("Whether a new EFS file system is encrypted at rest.",),
    ),
    Option(
        "performance_mode",
        {"type": "str", "choices": ["generalPurpose", "maxIO"], "default": "generalPurpose"},
        (MODULE,),
        forbidden(COPY_DATA),
        ("Performance mode of a new EFS file system.",),
    ),
    Option(
        "throughput_mode",
        {"type": "str", "choices": ["bursting", "elastic", "provisioned"], "default": "bursting"},
        (MODULE,),
        in_place("and AWS lets a day pass before it is lowered again"),
        (
            "Throughput of the EFS file system. V(bursting) grows with the amount of data, V(elastic) follows the load and costs by the"
            " gigabyte, V(provisioned) is what O(provisioned_throughput) says.",
        ),
    ),
    Option(
        "provisioned_throughput",
        {"type": "float"},
        (MODULE,),
        in_place("and AWS lets a day pass before it is lowered again"),
        ("Throughput in MiB/s. Required with O(throughput_mode=provisioned), and only possible with it.",),
    ),
    Option(
        "file_system_directory",
        {"type": "str"},
        (MODULE, NODE_GROUP),
        Update(Policy.REPLACES_NODES, advice="The old access point goes once no node uses it"),
        (
            "Directory of the file system O(file_system_id) that the nodes see in place of the whole, such as V(/teams/bert). It has up"
            " to four names. They mount it through an access point that the cluster makes and deletes with itself. The directory stays.",
            "EFS makes the directory if it is missing, and gives it to the user with the id 1000. It needs TLS.",
        ),
    ),
    Option(
        "encrypt_in_transit",
        {"type": "bool"},
        (MODULE, NODE_GROUP),
        REPLACES_NODES,
        (
            "Whether the nodes mount EFS through TLS. They need C(amazon-efs-utils), which is installed where the distribution has it.",
            "Left out, each node does whose image has that package, and the others use plain NFS. A cluster that was launched for plain"
            " NFS keeps that.",
            "With V(true), the policy of a file system of the cluster's own refuses plain NFS, as soon as no node of any cluster is"
            " without TLS.",
        ),
    ),
    Option(
        "mount_point",
        {"type": "str", "default": "/efs"},
        (NODE_GROUP,),
        REPLACES_NODES,
        (
            "Where the nodes mount the cluster's EFS file system at boot, and where jobs are. Without EFS, set it to the mount"
            " point of the storage that jobs are on.",
        ),
    ),
)
