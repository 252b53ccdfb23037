# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The tags on nodes and their groups that describe the mounted bucket."""

from ...._common.shared_storage import mounts
from ..tags import StorageTag

BUCKET_MOUNT_TAG = "deeplearning:bucket-mount"
BUCKET_MOUNT_POINT_TAG = "deeplearning:bucket-mount-point"

TAGS = (
    StorageTag(BUCKET_MOUNT_TAG, "source", check=mounts.check_bucket_source),
    StorageTag(BUCKET_MOUNT_POINT_TAG, "path", check=mounts.check_mount_point),
)
