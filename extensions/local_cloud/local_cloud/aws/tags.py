"""Checks of tags in requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

RESERVED = "aws:"
# Names of parameters that contain tags. Filters are in parameters with different names, so requests can filter by reserved tags.
MEMBERS = ("Tag", "Tags", "TagList", "TagSet", "tags")


def find_reserved(parameters: Any) -> str | None:
    """Return the first tag key in a request, at any depth, that is reserved for AWS."""
    return next((key for key in _keys(parameters) if key.lower().startswith(RESERVED)), None)


def find_misplaced(parameters: Any, created: tuple[str, ...]) -> str | None:
    """Return the first resource type in a request's TagSpecifications that the action does not create."""
    types = (str(each.get("ResourceType")) for each in parameters.get("TagSpecifications") or [])
    return next((each for each in types if each not in created), None)


def _keys(value: Any, of_tags: bool = False) -> Iterator[str]:
    if isinstance(value, dict):
        if of_tags and "Key" in value:
            yield str(value["Key"])
        for name, each in value.items():
            yield from _keys(each, name in MEMBERS)
    elif isinstance(value, list):
        for each in value:
            yield from _keys(each, of_tags)
