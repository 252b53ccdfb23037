# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators for the S3 locations to which jobs are exported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..._common.shared_storage import mounts
from ..client import AwsClient, ClientError
from ..component import Request
from ..error_codes import error_code
from ..instance_role.definition import INSTANCE_PROFILE
from ..message_parts import P
from ..plan.resources import Found
from ..regions import partition_of
from ..tags import INSTANCE_ROLE_COMPONENT
from ..validator import Level, Validator
from .iam import DENIED, is_allowed

REGION_HEADER = "x-amz-bucket-region"


class ExportDestinations(Validator):
    """Checks that the buckets exist. The controller may lack permission to read the buckets, because their owners control access."""

    name = "export_destinations"
    components = frozenset({INSTANCE_ROLE_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        for destination in request.options["export_destinations"]:
            try:
                mounts.check_bucket_source(destination)
            except ValueError as error:
                yield f"{P}export_destinations: {error}."
        for bucket in buckets(request):
            if _region(request.cloud, bucket) is None:
                partition = partition_of(request.cloud.region).name
                yield (
                    f"{P}export_destinations: there is no bucket {bucket} in the partition {partition}. Create this bucket, or specify "
                    "another bucket."
                )


class ExportRegion(Validator):
    name = "export_region"
    level = Level.WARNING
    components = frozenset({INSTANCE_ROLE_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        own = request.cloud.region
        for bucket in buckets(request):
            region = _region(request.cloud, bucket) or own
            if region != own:
                yield (
                    f"{P}export_destinations: bucket {bucket} is in {region}, but the cluster is in {own}. AWS charges for the transfer, "
                    "and nodes in private subnets need a NAT gateway to reach the bucket. Use a bucket in the cluster's region."
                )


class ExportAllowed(Validator):
    """Warns if the policies of an adopted role do not allow the role to write exports.

    The bucket's own policy may still allow this access.
    """

    name = "export_allowed"
    level = Level.WARNING
    components = frozenset({INSTANCE_ROLE_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, name = request.cloud, request.options["instance_profile"]
        profile = next((item for item in found if item.address == INSTANCE_PROFILE and item.adopted), None)
        role = profile.attributes["role_arn"] if profile and name else None
        if not role:
            return
        for destination in request.options["export_destinations"]:
            bucket, prefix = mounts.bucket_and_prefix(destination)
            resource = partition_of(cloud.region).arn("s3", f"{bucket}/{prefix}job.json")
            try:
                allowed = not bucket or is_allowed(cloud, role, "s3:PutObject", resource)
            except ClientError as error:
                if error_code(error) not in DENIED:
                    raise
                return
            if not allowed:
                yield (
                    f"{P}export_destinations: the role of {name} is not allowed to write to {destination}. Grant it s3:PutObject and "
                    f"s3:AbortMultipartUpload for {bucket}/{prefix}*, and s3:ListBucket for {bucket}."
                )


def buckets(request: Request) -> list[str]:
    return sorted({mounts.bucket_and_prefix(destination)[0] for destination in request.options["export_destinations"]} - {""})


def _region(cloud: AwsClient, bucket: str) -> str | None:
    """Return the region of a bucket, an empty string if it is unknown, or None if the bucket does not exist."""
    try:
        answer: Any = cloud.client("s3").head_bucket(Bucket=bucket)
    except ClientError as error:
        if error_code(error) in ("404", "NoSuchBucket"):
            return None
        answer = error.response  # the response to a denied request also contains the region
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return str(answer.get("BucketRegion") or headers.get(REGION_HEADER, ""))


VALIDATORS = (ExportDestinations(), ExportRegion(), ExportAllowed())
