# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Options of the EFS file system."""

from ...option import (
    COPY_DATA,
    DELETE_AND_CREATE,
    REPLACES_NODES,
    Option,
    UnusedRule,
    Update,
    UpdatePolicy,
    forbidden,
    in_place,
)
from ...tags import NODES_COMPONENT

NAME = "file_system"
# The option that gives the cluster its own file system.
SWITCH = "efs"
# The option that makes the cluster use an existing file system.
ADOPTED = "file_system_id"
# The options of a new file system.
NEW = ("encrypted", "performance_mode", "throughput_mode", "provisioned_throughput")
DEFAULT_MOUNT_POINT = "/efs"
# The rules that an existing security group for storage must have.
GROUP_RULES = "The group must allow inbound traffic from the nodes on TCP port 2049."

OPTIONS = (
    Option(
        SWITCH,
        {"type": "bool", "default": True},
        (NAME,),
        forbidden(DELETE_AND_CREATE, details="while the file system is mounted on running nodes"),
        (
            "Whether the nodes share an EFS file system.",
            "With V(false) and without another file system, the cluster has no shared storage. Jobs then run only on the master, and are"
            " stored in O(mount_point) on the master's own disk. The jobs are lost when the master is terminated.",
        ),
    ),
    Option(
        ADOPTED,
        {"type": "str"},
        (NAME, NODES_COMPONENT),
        forbidden(DELETE_AND_CREATE, details="while a different file system is mounted on running nodes"),
        (
            "ID of an existing EFS file system to use. A run never changes or deletes the file system, but adds missing mount targets in"
            " the cluster's zones. The added mount targets are deleted together with the cluster. If the file system has mount targets in"
            " a different VPC, there must be a route to these mount targets, and nodes mount the file system by its address.",
            "By default, a run creates a file system for the cluster.",
            "A run that does not manage the file system finds it by the cluster's mount targets, and needs this option if the mount targets"
            " do not belong to the cluster.",
        ),
    ),
    Option(
        "encrypted",
        {"type": "bool", "default": True},
        (NAME,),
        forbidden(COPY_DATA),
        ("Whether a new EFS file system is encrypted at rest.",),
    ),
    Option(
        "performance_mode",
        {"type": "str", "choices": ["generalPurpose", "maxIO"], "default": "generalPurpose"},
        (NAME,),
        forbidden(COPY_DATA),
        ("Performance mode of a new EFS file system.",),
    ),
    Option(
        "throughput_mode",
        {"type": "str", "choices": ["bursting", "elastic", "provisioned"], "default": "bursting"},
        (NAME,),
        in_place("but AWS may require you to wait 24 hours before you change the mode again"),
        (
            "Throughput mode of the EFS file system. With V(bursting), the throughput grows with the amount of data. With V(elastic), the"
            " throughput follows the load and is billed per gigabyte. With V(provisioned), the throughput is O(provisioned_throughput).",
        ),
    ),
    Option(
        "provisioned_throughput",
        {"type": "float"},
        (NAME,),
        in_place("but AWS may require you to wait 24 hours after a change before you decrease the throughput"),
        ("Throughput in MiB/s. Required with O(throughput_mode=provisioned), and valid only in this mode.",),
    ),
    Option(
        "file_system_directory",
        {"type": "str"},
        (NAME, NODES_COMPONENT),
        Update(UpdatePolicy.REPLACES_NODES, advice="A run deletes the old access point once no node uses it"),
        (
            "Directory of the file system O(file_system_id) that the nodes mount instead of the whole file system, such as V(/teams/bert)."
            " The directory can be at most four levels deep. Nodes mount the directory over TLS through an access point, which is created"
            " and deleted together with the cluster. The directory itself is never deleted.",
            "If the directory does not exist, EFS creates it with UID 1000 as the owner.",
        ),
    ),
    Option(
        "encrypt_in_transit",
        {"type": "bool"},
        (NAME, NODES_COMPONENT),
        REPLACES_NODES,
        (
            "Whether the nodes mount EFS over TLS. TLS requires C(amazon-efs-utils), which is installed if the distribution provides it.",
            "By default, nodes whose image includes C(amazon-efs-utils) use TLS, and other nodes use plain NFS. A cluster that was"
            " launched with plain NFS keeps using plain NFS.",
            "With V(true), the policy of the cluster's own file system denies plain NFS once no node of any cluster uses plain NFS.",
        ),
    ),
    Option(
        "mount_point",
        {"type": "str", "default": DEFAULT_MOUNT_POINT},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        (
            "Directory where the nodes mount the EFS file system at boot. This directory contains the jobs. Without EFS, set this option"
            " to the mount point of the storage that contains the jobs. Without shared storage, set this option to a directory on the"
            " master's own disk, such as V(/data).",
        ),
    ),
)

# Arguments of the module `shared_storage`, and the options that set them on hosts whose tags do not.
SETTINGS = {"path": "mount_point", "encrypt_in_transit": "encrypt_in_transit", "directory": "file_system_directory"}

UNUSED_RULES = (
    UnusedRule(NEW, lambda get: get(SWITCH) is False, "deeplearning_efs is false. Remove this variable."),
    UnusedRule(
        NEW,
        lambda get: bool(get(ADOPTED)),
        "deeplearning_file_system_id is set, and a run does not change an adopted file system. Remove this variable.",
    ),
    UnusedRule(("encrypt_in_transit",), lambda get: get(SWITCH) is False, "deeplearning_efs is false. Remove this variable."),
)
