"""Caches values that moto would compute in every call, and replaces searches with lookups."""

from __future__ import annotations

from functools import cache
from typing import Any

from moto import backends
from moto.core import responses
from moto.core.constants import MISSING
from moto.core.serialize import AttributePickerContext, XFormedAttributePicker
from moto.core.utils import get_value
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, get_prefix
from moto.iam.models import IAMBackend

from .override import override

moto_pick = XFormedAttributePicker.__call__
moto_possible_keys = XFormedAttributePicker.get_possible_keys
moto_modules = tuple(backends.list_of_moto_modules())
POSSIBLE_KEYS: dict[tuple[Any, ...], tuple[str, ...]] = {}
moto_aws_policies = IAMBackend._init_aws_policies

for name in ("method_names_from_class", "get_service_model"):
    setattr(responses, name, cache(getattr(responses, name)))


@override(backends)
def list_of_moto_modules() -> tuple[str, ...]:
    return moto_modules


@override(XFormedAttributePicker)
def get_possible_keys(self: Any, context: AttributePickerContext) -> tuple[str, ...]:
    """Return the possible names of an attribute, cached by class and position in the response."""
    parent = getattr(context.shape, "parent", None)
    service = context.service_model.service_name if context.service_model else None
    place = (service, parent.name if parent else None, context.key, context.shape.name, type(context.obj))
    keys = POSSIBLE_KEYS.get(place)
    if keys is None:
        keys = POSSIBLE_KEYS[place] = tuple(dict.fromkeys(moto_possible_keys(self, context)))
    return keys


@override(XFormedAttributePicker)
def __call__(self: Any, context: AttributePickerContext) -> Any:
    """Return an attribute. The name of an attribute is compared with the paths of all transformers only if one of the paths ends with the
    name.
    """
    transformed = self.__dict__.get("_transformed")
    if transformed is None:
        transformed = self._transformed = {path.rpartition(".")[2] for path in self.response_transformers}
    if context.key in transformed:
        return moto_pick(self, context)
    for key in self.get_possible_keys(context):
        value = get_value(context.obj, key, MISSING)
        if value is not MISSING:
            return value
    return None


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
