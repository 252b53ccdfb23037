# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Options that all kinds of shared storage have in common."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.option import (
    COPY_DATA,
    EFS,
    LUSTRE,
    NOT_STORED,
    Option,
    forbidden,
)

OPTIONS = (
    Option(
        "kms_key_id",
        {"type": "str"},
        (EFS, LUSTRE),
        forbidden(COPY_DATA),
        (
            "Id or ARN of the KMS key that encrypts new file systems; those of SCRATCH_2 have a key of Amazon's.",
            "By default AWS's own key for the service.",
        ),
    ),
    Option(
        "delete_data",
        {"type": "bool", "default": False},
        (EFS, LUSTRE),
        NOT_STORED,
        (
            "Whether O(state=absent) deletes the cluster's file systems and all data on them.",
            "A file system that nodes of other clusters use is not deleted.",
        ),
    ),
)
