# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Options of shared storage: the common options, and the options that each kind of storage declares."""

from __future__ import annotations

from ..option import COPY_DATA, NOT_STORED, Option, forbidden
from ..storage.kinds import COMPONENTS
from ..storage.kinds import OPTIONS as OPTIONS_OF_KINDS

OPTIONS: tuple[Option, ...] = (
    Option(
        "kms_key_id",
        {"type": "str"},
        COMPONENTS,
        forbidden(COPY_DATA),
        (
            "ID or ARN of the KMS key that encrypts new file systems. SCRATCH_2 file systems always use a key that Amazon FSx manages.",
            "The default is the account's AWS managed key for the service.",
        ),
    ),
    Option(
        "delete_data",
        {"type": "bool", "default": False},
        COMPONENTS,
        NOT_STORED,
        (
            "Whether O(state=absent) deletes the cluster's file systems and all data on them.",
            "A file system is not deleted while nodes of a different cluster use it.",
        ),
    ),
    *OPTIONS_OF_KINDS,
)
