"""Caches values that moto would compute in every call, and replaces searches with lookups."""

from __future__ import annotations

import re
import secrets
from functools import cache
from typing import Any

from moto import backends
from moto.core import responses, utils
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.instance_types import InstanceTypeBackend, InstanceTypeOfferingBackend
from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, get_prefix
from moto.iam.models import IAMBackend

from .override import override

moto_modules = tuple(backends.list_of_moto_modules())
moto_offerings = InstanceTypeOfferingBackend.describe_instance_type_offerings
moto_types = InstanceTypeBackend.describe_instance_types
TYPES: dict[str, list[Any]] = {}
OFFERINGS: dict[tuple[str, str | None, str], list[Any]] = {}
REQUEST_ID = re.compile("(?<=<RequestId>).*(?=</RequestId>)")
moto_aws_policies = IAMBackend._init_aws_policies

for name in ("method_names_from_class", "get_service_model"):
    setattr(responses, name, cache(getattr(responses, name)))
utils.create_loader = cache(utils.create_loader)  # a loader lists all files of botocore before it loads the first one


@override(backends)
def list_of_moto_modules() -> tuple[str, ...]:
    return moto_modules


@override(InstanceTypeBackend)
def describe_instance_types(self: Any, instance_types: list[str] | None = None, filters: Any = None) -> list[Any]:
    """Return the instance types, cached by names and filters. They never change."""
    place = repr((instance_types, filters))
    if place not in TYPES:
        TYPES[place] = moto_types(self, instance_types, filters)
    return TYPES[place]


@override(InstanceTypeOfferingBackend)
def describe_instance_type_offerings(self: Any, location_type: str | None = None, filters: dict[str, list[str]] | None = None) -> list[Any]:
    """Return the offerings, cached by filters. They never change, and a region has thousands."""
    place = (self.region_name, location_type, repr(filters))
    if place not in OFFERINGS:
        OFFERINGS[place] = moto_offerings(self, location_type, filters)
    return OFFERINGS[place]


@override(responses.BaseResponse)
@staticmethod
def _enrich_response(headers: dict[str, Any], body: Any) -> tuple[dict[str, Any], Any]:
    """Add a request ID. moto makes one of 52 random choices, and searches all of each body for an ID that it could replace."""
    request_id = headers["x-amzn-requestid"] = secrets.token_hex(26).upper()
    if "status" in headers:
        headers["status"] = str(headers["status"])
    if isinstance(body, str) and "<RequestId>" in body:
        body = REQUEST_ID.sub(request_id, body)
    return headers, body


@override(TaggedEC2Resource)
def get_tags(self: Any) -> list[dict[str, str]]:
    if not self.id or self.id not in self.ec2_backend.tags:
        return []
    kind = EC2_PREFIX_TO_RESOURCE.get(get_prefix(self.id), "")
    return [
        {"resource_id": self.id, "key": key, "value": value, "resource_type": kind} for key, value in self.ec2_backend.tags[self.id].items()
    ]


@override(IAMBackend)
def _init_aws_policies(self: Any) -> list[Any]:
    """Return the AWS managed policies of the partition `aws` only. Loading the policies of all partitions takes a second."""
    return moto_aws_policies(self) if self.region_name == "aws" else []
