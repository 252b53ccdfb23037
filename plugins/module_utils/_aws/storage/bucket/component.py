# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The component for a bucket or prefix that nodes mount with Mountpoint for Amazon S3. The component never creates or changes resources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...._common.shared_storage import mounts
from ...component import Component, Mount, Request
from ...iam_actions import IamActions
from ...plan.resources import Computed, Found
from ...regions import Partition, partition_of
from .tags import BUCKET_MOUNT_POINT_TAG, BUCKET_MOUNT_TAG

NAME = "bucket_mount"


def _mounts(request: Request, _found: Sequence[Found]) -> list[Mount]:
    source, mount_point = request.options.get("bucket_mount"), request.options.get("bucket_mount_point", "")
    if not source:
        return []
    return [
        Mount(
            "bucket",
            mount_point,
            "bucket_mount_point",
            {BUCKET_MOUNT_TAG: source, BUCKET_MOUNT_POINT_TAG: mount_point},
            Computed(lambda: mounts.bucket(source, mount_point), ()),
            holds_jobs=False,
            statements=tuple(statements(source, partition_of(request.cloud.region))),
        )
    ]


def statements(source: str, partition: Partition) -> list[dict[str, Any]]:
    """Return the policy statements that allow nodes to list and read the mounted objects.

    https://github.com/awslabs/mountpoint-s3/blob/main/doc/CONFIGURATION.md#iam-permissions
    """
    bucket, prefix = mounts.bucket_and_prefix(source)
    below = {"Condition": {"StringLike": {"s3:prefix": f"{prefix}*"}}} if prefix else {}
    return [
        {"Sid": "ListMountedBucket", "Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [partition.arn("s3", bucket)], **below},
        {
            "Sid": "ReadMountedBucket",
            "Effect": "Allow",
            "Action": ["s3:GetObject"],
            "Resource": [partition.arn("s3", f"{bucket}/{prefix}*")],
        },
    ]


BUCKET_MOUNT = Component(NAME, (), IamActions(), lambda *_: [], lambda *_: [], mounts=_mounts)
