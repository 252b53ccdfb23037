# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The tags on nodes and their groups that describe the mounted bucket."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.tags import StorageTag
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.shared_storage import mounts

BUCKET_MOUNT_TAG = "deeplearning:bucket-mount"
BUCKET_MOUNT_POINT_TAG = "deeplearning:bucket-mount-point"

TAGS = (
    StorageTag(BUCKET_MOUNT_TAG, "source", check=mounts.check_bucket_source),
    StorageTag(BUCKET_MOUNT_POINT_TAG, "path", check=mounts.check_mount_point),
)
