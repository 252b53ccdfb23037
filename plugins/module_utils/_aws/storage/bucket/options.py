# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Options for mounting an S3 bucket on the nodes."""

from ...option import REPLACES_NODES, Option, UnusedRule
from ...tags import INSTANCE_ROLE_COMPONENT, NODES_COMPONENT

OPTIONS = (
    Option(
        "bucket_mount",
        {"type": "str"},
        (INSTANCE_ROLE_COMPONENT, NODES_COMPONENT),
        REPLACES_NODES,
        (
            "S3 bucket or prefix that the nodes mount, such as C(s3://bucket/prefix). The objects appear as read-only files at"
            " O(bucket_mount_point). Mountpoint for Amazon S3 uses the credentials of the nodes' role, which is allowed to read these"
            " objects.",
            "By default, no bucket is mounted.",
        ),
    ),
    Option(
        "bucket_mount_point",
        {"type": "str", "default": "/bucket"},
        (NODES_COMPONENT,),
        REPLACES_NODES,
        ("Directory where the nodes mount O(bucket_mount) at boot.",),
    ),
)

# Arguments of the module `shared_storage`, and the options that set them on hosts whose tags do not.
SETTINGS = {"path": "bucket_mount_point"}

UNUSED_RULES = (
    UnusedRule(
        ("bucket_mount_point",),
        lambda get: not get("bucket_mount"),
        "deeplearning_bucket_mount is not set. Set deeplearning_bucket_mount, or remove this variable.",
    ),
)
