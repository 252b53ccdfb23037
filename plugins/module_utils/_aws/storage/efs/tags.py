# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The tags on nodes and their groups that describe the mounted EFS file system."""

from __future__ import annotations

from ...._common.shared_storage import mounts
from ..tags import StorageTag

FILE_SYSTEM_TAG = "deeplearning:file-system"
FILE_SYSTEM_ADDRESS_TAG = "deeplearning:file-system-address"  # for nodes that cannot resolve the file system's DNS name
FILE_SYSTEM_TLS_TAG = "deeplearning:file-system-tls"  # whether nodes mount the file system with TLS. The value is a key of `TLS`
ACCESS_POINT_TAG = "deeplearning:file-system-access-point"  # the access point of nodes that mount only a directory
# Maps tag values to values of the option `encrypt_in_transit`. With `preferred`, hosts that have the TLS client use TLS.
TLS = {"true": True, "false": False, "preferred": None}

TAGS = (
    StorageTag(FILE_SYSTEM_TAG, "source", "file_system_id", mounts.check_file_system_id, kept=True),
    StorageTag(FILE_SYSTEM_ADDRESS_TAG, "address", "file_system_address", mounts.check_address),
    StorageTag(FILE_SYSTEM_TLS_TAG, "encrypt_in_transit", "file_system_tls", values=TLS),
    StorageTag(ACCESS_POINT_TAG, "access_point", "file_system_access_point", mounts.check_access_point_id),
)


def tls_tag(encrypt_in_transit: bool | None) -> str:
    return next(text for text, option in TLS.items() if option is encrypt_in_transit)
