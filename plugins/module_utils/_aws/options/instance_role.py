# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Options for the instance role of the nodes."""

from ..option import IN_PLACE, REPLACES_NODES, Option, in_place
from ..tags import IDLE_COMPONENT, INSTANCE_ROLE_COMPONENT, LEASE_COMPONENT, NODES_COMPONENT

OPTIONS = (
    Option(
        "instance_profile",
        {"type": "str"},
        (INSTANCE_ROLE_COMPONENT, NODES_COMPONENT),
        REPLACES_NODES,
        (
            "Name of an existing instance profile for the nodes. The profile must contain a role. A run never changes or deletes the"
            " profile, and the profile's owner controls the permissions of the role.",
            "By default, a run creates a profile for the cluster.",
        ),
    ),
    Option(
        "read_buckets",
        {"type": "list", "elements": "str", "default": []},
        (INSTANCE_ROLE_COMPONENT,),
        IN_PLACE,
        ("S3 buckets that the nodes are allowed to read.",),
    ),
    Option(
        "write_buckets",
        {"type": "list", "elements": "str", "default": []},
        (INSTANCE_ROLE_COMPONENT,),
        IN_PLACE,
        (
            "S3 buckets that the nodes are allowed to read and write. The nodes can also replace and delete objects, so that jobs can"
            " remove old checkpoints. The nodes cannot delete object versions. To protect data, enable versioning on the bucket.",
        ),
    ),
    Option(
        "export_destinations",
        {"type": "list", "elements": "str", "default": []},
        (INSTANCE_ROLE_COMPONENT, LEASE_COMPONENT),
        IN_PLACE,
        (
            "S3 buckets or prefixes to which jobs are exported, such as C(s3://bucket/prefix). The nodes are allowed to add, replace and"
            " list objects in these locations, but not to read or delete objects.",
        ),
    ),
    Option(
        "additional_policy_statements",
        {"type": "list", "elements": "dict", "default": []},
        (INSTANCE_ROLE_COMPONENT,),
        IN_PLACE,
        (
            "Statements to add to the policy of the nodes' role, in IAM policy format, for example for a KMS key or an ECR repository.",
            "The policy always denies access to the SSH certificate authorities of clusters.",
        ),
    ),
    Option(
        "permissions_boundary",
        {"type": "str"},
        (INSTANCE_ROLE_COMPONENT, IDLE_COMPONENT, LEASE_COMPONENT),
        in_place(
            "but a role keeps its permissions boundary if you remove the option",
            "To delete the permissions boundary, use C(aws iam delete-role-permissions-boundary)",
        ),
        (
            "ARN of the IAM policy to use as the permissions boundary of the nodes' role.",
            "By default, a new role has no permissions boundary, and an existing role keeps its own.",
        ),
    ),
    Option(
        "session_manager",
        {"type": "bool", "default": False},
        (INSTANCE_ROLE_COMPONENT,),
        IN_PLACE,
        (
            "Whether the role allows connections to the nodes through Session Manager.",
            "The image must include the SSM Agent, and every node must be able to reach the services C(ssm) and C(ssmmessages).",
        ),
    ),
)
