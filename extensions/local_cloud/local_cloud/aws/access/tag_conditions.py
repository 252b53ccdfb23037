"""Pure functions that return the condition keys for tags in requests and on resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Context = dict[str, str | tuple[str, ...]]


def request_tags(tags: Mapping[str, str]) -> Context:
    """Return the condition keys for the tags in a request."""
    return {f"aws:requesttag/{key.lower()}": value for key, value in tags.items()} | ({"aws:tagkeys": tuple(tags)} if tags else {})


def resource_tags(tags: Mapping[str, str], prefix: str = "aws") -> Context:
    """Return the condition keys for the tags on a resource."""
    return {f"{each}:resourcetag/{key.lower()}": value for key, value in tags.items() for each in {"aws", prefix}}


def tag_pairs(listed: Any) -> dict[str, str]:
    """Return the tags of a request as a dictionary. Requests contain tags as a list or as a map."""
    if isinstance(listed, Mapping):
        return dict(listed)
    return {tag.get("Key", tag.get("TagKey")): tag.get("Value", tag.get("TagValue")) or "" for tag in listed or []}
