"""Tags in requests and on resources, as the context of policies. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Context = dict[str, str | tuple[str, ...]]


def request_tags(tags: Mapping[str, str]) -> Context:
    """The context of tags in a request."""
    return {f"aws:requesttag/{key.lower()}": value for key, value in tags.items()} | ({"aws:tagkeys": tuple(tags)} if tags else {})


def resource_tags(tags: Mapping[str, str], prefix: str = "aws") -> Context:
    """The context of tags that a resource has."""
    return {f"{each}:resourcetag/{key.lower()}": value for key, value in tags.items() for each in {"aws", prefix}}


def tag_pairs(listed: Any) -> dict[str, str]:
    """Tags of a request, which some services list and others map."""
    if isinstance(listed, Mapping):
        return dict(listed)
    return {tag.get("Key", tag.get("TagKey")): tag.get("Value", tag.get("TagValue")) or "" for tag in listed or []}
