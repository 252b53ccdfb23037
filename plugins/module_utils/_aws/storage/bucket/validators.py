# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The validator for the bucket that nodes mount."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...._common.shared_storage import mounts
from ...client import ClientError
from ...component import Request
from ...error_codes import error_code
from ...message_parts import P
from ...plan.resources import Found
from ...regions import partition_of
from ...tags import INSTANCE_ROLE_COMPONENT, NODES_COMPONENT
from ...validator import Validator


class BucketMount(Validator):
    """Checks that the bucket exists in the cluster's partition. Permissions are not checked, because the bucket's owner controls them."""

    name = "bucket_mount"
    components = frozenset({INSTANCE_ROLE_COMPONENT, NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, source = request.cloud, request.options["bucket_mount"]
        if not source:
            return
        try:
            mounts.check_bucket_source(source)
        except ValueError as error:
            yield f"{P}bucket_mount: {error}."
            return
        bucket, _prefix = mounts.bucket_and_prefix(source)
        try:
            cloud.client("s3").head_bucket(Bucket=bucket)
        except ClientError as error:
            if error_code(error) in ("404", "NoSuchBucket"):
                partition = partition_of(cloud.region).name
                yield (
                    f"{P}bucket_mount: there is no bucket {bucket} in the partition {partition}. Specify another bucket, or remove the "
                    "option."
                )


VALIDATORS = (BucketMount(),)
