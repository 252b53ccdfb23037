# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Options of the FSx for Lustre file system."""

from ...option import (
    COPY_DATA,
    DELETE_AND_CREATE,
    IN_PLACE,
    REPLACES_NODES,
    Option,
    Suboption,
    UnusedRule,
    Update,
    UpdatePolicy,
    forbidden,
    in_place,
)
from ...tags import NETWORK_COMPONENT, NODES_COMPONENT

NAME = "lustre"
# The option that gives the cluster its own file system.
SWITCH = "lustre"
# The option that makes the cluster use an existing file system.
ADOPTED = "lustre_file_system_id"
# The options of a new file system.
NEW = ("lustre_capacity", "lustre_deployment", "lustre_throughput", "lustre_compression")
# The rules that an existing security group for storage must have.
GROUP_RULES = "For a Lustre file system, the group must also allow traffic to and from the nodes and itself on TCP ports 988 and 1018-1023."
BOUND_TO_NETWORK = "A Lustre file system cannot move to a different network, so copy its data elsewhere and delete the file system as well"

OPTIONS = (
    Option(
        SWITCH,
        {"type": "bool", "default": False},
        (NETWORK_COMPONENT, NAME),
        Update(
            UpdatePolicy.REPLACES_NODES,
            advice="To disable this option while the file system is mounted on running nodes, delete the cluster (the data is kept) and"
            " create it again",
        ),
        (
            "Whether the nodes share an FSx for Lustre file system. Security groups allow traffic on the Lustre ports only with this"
            " option or O(lustre_file_system_id).",
            "If you set this option, the run creates the file system immediately. Nodes mount the file system when they are launched.",
        ),
    ),
    Option(
        ADOPTED,
        {"type": "str"},
        (NETWORK_COMPONENT, NAME, NODES_COMPONENT),
        forbidden(DELETE_AND_CREATE, details="while a different file system is mounted on running nodes"),
        (
            "ID of an existing FSx for Lustre file system to use. A run never changes or deletes the file system. If the file system is in"
            " a different VPC, there must be a route to the file system, and nodes mount the file system by its address.",
        ),
    ),
    Option(
        "lustre_capacity",
        {"type": "int", "default": 1200},
        (NAME,),
        in_place(
            "but at most once every six hours, and only to a larger size",
            "To reduce the size, copy the data to a smaller file system, then adopt that file system",
        ),
        ("Size of the cluster's own Lustre file system in GiB: 1200 or a multiple of 2400.",),
    ),
    Option(
        "lustre_deployment",
        {"type": "str", "choices": ["SCRATCH_2", "PERSISTENT_2"], "default": "PERSISTENT_2"},
        (NAME,),
        forbidden(COPY_DATA),
        ("V(PERSISTENT_2) replicates the data. V(SCRATCH_2) keeps one copy, which is lost if its disk fails.",),
    ),
    Option(
        "lustre_throughput",
        {"type": "int", "choices": [125, 250, 500, 1000], "default": 250},
        (NAME,),
        IN_PLACE,
        ("Throughput of a PERSISTENT_2 file system in MB/s per TiB. SCRATCH_2 file systems have 200 MB/s per TiB.",),
    ),
    Option(
        "lustre_compression",
        {"type": "str", "choices": ["NONE", "LZ4"], "default": "LZ4"},
        (NAME,),
        in_place("but the change applies only to data that is written afterwards"),
        ("Data compression on the Lustre file system.",),
    ),
    Option(
        "lustre_data_repositories",
        {"type": "list", "elements": "dict", "default": []},
        (NAME,),
        in_place(
            "but imported files stay on the file system",
            "To change the prefix of a path, remove the path in one run, and add it with the new prefix in the next run",
        ),
        ("S3 prefixes that appear as directories of the cluster's own Lustre file system.",),
        (
            Suboption(
                "path",
                {"type": "str", "default": "/"},
                "Directory on the file system in which the objects appear. Linked directories must not contain each other.",
            ),
            Suboption(
                "s3",
                {"type": "str", "required": True},
                "The S3 bucket or prefix, such as C(s3://bucket/prefix). To change the prefix, remove the path first.",
            ),
            Suboption(
                "import_changes",
                {"type": "bool", "default": True},
                "Whether existing objects, and later changes and deletions of objects, are imported. This setting can be changed in place.",
            ),
            Suboption(
                "export_changes",
                {"type": "bool", "default": False},
                "Whether new, changed and deleted files are exported to S3. This setting can be changed in place.",
            ),
        ),
    ),
    Option(
        "lustre_mount_point",
        {"type": "str", "default": "/fsx"},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        ("Directory where the nodes mount the Lustre file system at boot.",),
    ),
)

# Arguments of the module `shared_storage`, and the options that set them on hosts whose tags do not.
SETTINGS = {"path": "lustre_mount_point"}

UNUSED_RULES = (
    UnusedRule(
        (*NEW, "lustre_data_repositories", "lustre_mount_point"),
        lambda get: not get(SWITCH) and not get(ADOPTED),
        "deeplearning_lustre is false. Set deeplearning_lustre: true, or remove this variable.",
    ),
    UnusedRule(
        NEW,
        lambda get: bool(get(ADOPTED)),
        "deeplearning_lustre_file_system_id is set, and a run does not change an adopted file system. Remove this variable.",
    ),
    UnusedRule(
        ("lustre_throughput",),
        lambda get: get("lustre_deployment") == "SCRATCH_2",
        "the throughput of a SCRATCH_2 file system is fixed. Remove this variable.",
    ),
)
