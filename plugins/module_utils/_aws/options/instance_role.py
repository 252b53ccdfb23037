# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Options of the nodes' instance role."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.option import (
    IN_PLACE,
    INSTANCE_ROLE,
    NODE_GROUP,
    REPLACES_NODES,
    Option,
    in_place,
)

OPTIONS = (
    Option(
        "instance_profile",
        {"type": "str"},
        (INSTANCE_ROLE, NODE_GROUP),
        REPLACES_NODES,
        (
            "Name of an existing instance profile for the nodes, which has to hold a role. It is never changed or deleted, and what its"
            " role allows is up to its owner.",
            "By default the cluster gets one of its own.",
        ),
    ),
    Option(
        "read_buckets",
        {"type": "list", "elements": "str", "default": []},
        (INSTANCE_ROLE,),
        IN_PLACE,
        ("S3 buckets that the nodes may read.",),
    ),
    Option(
        "write_buckets",
        {"type": "list", "elements": "str", "default": []},
        (INSTANCE_ROLE,),
        IN_PLACE,
        (
            "S3 buckets that the nodes may read and write. Writing also replaces and deletes objects, so that jobs can remove old"
            " checkpoints, but no versions of them. Switch on the versioning of a bucket in which nothing may be lost.",
        ),
    ),
    Option(
        "permissions_boundary",
        {"type": "str"},
        (INSTANCE_ROLE,),
        in_place(
            "and a role keeps the boundary that it has when the option is left out",
            "Delete the boundary with C(aws iam delete-role-permissions-boundary)",
        ),
        (
            "ARN of the IAM policy that bounds what the nodes' role can be allowed.",
            "By default a new role has no boundary, and an existing one keeps its own.",
        ),
    ),
    Option(
        "session_manager",
        {"type": "bool", "default": False},
        (INSTANCE_ROLE,),
        IN_PLACE,
        (
            "Whether the role lets nodes be reached by Session Manager.",
            "Needs the SSM agent on the image, and a way out to C(ssm) and C(ssmmessages) from every node.",
        ),
    ),
)
