"""Like AWS, rejects filters that the API reference does not list for an operation, except for those in `UNLISTED`.

botocore contains the API reference. If the reference lists no filters for an operation (most of IPAM, for example), the operation accepts
all filters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from typing import Any

from botocore.model import OperationModel, Shape

TAG = "tag:"
ALIAS = re.compile(r"also use <code>([\w.-]+)</code> as the filter name")
IN_A_SENTENCE = re.compile(r"use the <code>([\w.-]+)</code> filter\b|supported names are (.+)")
CODE = re.compile(r"<code>([\w.-]+)</code>")
# Filters that AWS accepts although the API reference lists them only for other operations, by service and operation. The module
# ec2_vpc_net of amazon.aws uses them.
UNLISTED = {("ec2", "DescribeVpcs"): frozenset({"cidr-block"})}
# Results of `documented` by service and operation.
DOCUMENTED: dict[tuple[str, str], dict[str, frozenset[str]]] = {}


def find_unknown(operation: OperationModel, parameters: dict[str, Any]) -> str | None:
    """Return the name of the first filter in a request that the operation does not support."""
    place = (operation.service_model.service_name, operation.name)
    if place not in DOCUMENTED:
        DOCUMENTED[place] = documented(operation)
    for member, allowed in DOCUMENTED[place].items():
        for each in parameters.get(member) or []:
            name = str(each.get("Name", "null"))
            kind = TAG if name.startswith(TAG) else name
            if kind not in allowed | UNLISTED.get(place, frozenset()) or name == TAG:
                return name
    return None


def documented(operation: OperationModel) -> dict[str, frozenset[str]]:
    """Return the names of filters for each parameter. `tag:` stands for `tag:KEY` with any key."""
    shape = operation.input_shape
    found = {name: frozenset(_names(operation, member)) for name, member in (shape.members if shape else {}).items() if _is_filters(member)}
    return {member: names for member, names in found.items() if names}


def _is_filters(shape: Shape) -> bool:
    members = shape.member.members if shape.type_name == "list" and shape.member.type_name == "structure" else {}
    return "ilter" in shape.name and "Name" in members and ("Values" in members or "Value" in members)


def _names(operation: OperationModel, shape: Any) -> Iterable[str]:
    """Return the names listed in the documentation of the parameter, of the filter's name, or of the operation."""
    name = shape.member.members["Name"]
    about_this = re.search(rf"API_{operation.name}\.html(.*?)(?:API_\w+\.html\"|$)", name.documentation, re.DOTALL)
    return (
        [*_listed(shape.documentation), *ALIAS.findall(shape.documentation)]
        or (_listed(about_this.group(1)) if about_this else [])
        or list(_in_sentences(shape.documentation))
        or list(_in_sentences(operation.documentation))
    )


def _listed(documentation: str) -> list[str]:
    items = _Items()
    items.feed(documentation)
    return [TAG if each == "tag" or each.startswith(TAG) else each for each in items.names]


def _in_sentences(documentation: str) -> Iterator[str]:
    for single, several in IN_A_SENTENCE.findall(documentation):
        yield from [single] if single else CODE.findall(several)


class _Items(HTMLParser):
    """Collects the first code element in each item of the first list. Nested lists do not count."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self._depth = 0
        self._over = False
        self._awaited = self._within = False

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "ul":
            self._depth += 1
        elif tag == "li" and self._depth == 1 and not self._over:
            self._awaited = True
        elif tag == "code" and self._awaited:
            self._awaited, self._within = False, True
            self.names.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "ul":
            self._depth -= 1
            self._over = self._over or not self._depth
        elif tag == "code" and self._within:
            self._within = False
            self.names[-1] = self.names[-1].strip()

    def handle_data(self, data: str) -> None:
        if self._within:
            self.names[-1] += data
