# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The tags on nodes and their groups that describe the mounted Lustre file system."""

from ...._common.shared_storage import mounts
from ..tags import StorageTag

LUSTRE_TAG = "deeplearning:lustre-file-system"
LUSTRE_SOURCE_TAG = "deeplearning:lustre-source"  # the source for mount(8)

TAGS = (
    StorageTag(LUSTRE_SOURCE_TAG, "source", "lustre_source", mounts.check_lustre_source),
    StorageTag(LUSTRE_TAG, "file_system_id", "lustre_file_system_id", mounts.check_file_system_id, kept=True),
)
