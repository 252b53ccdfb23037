"""Records which parameters requests contain, and which of them neither moto nor its overrides read.

Recording is off until the control API starts it, and then stays on. Any lookup counts as reading, even if the value is only returned in a
description. Requests to S3 are not recorded.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

from moto.core.responses import BaseResponse

from .calls import Call

_current = threading.local()
_loads = json.loads
_setup = BaseResponse.setup_class
_serialize = BaseResponse.serialized
PAGING = {"Marker", "MaxItems", "MaxRecords", "MaxResults", "NextToken"}


class Record:
    """The parameters sent and the parameters read, by API call, such as `LaunchTemplateData.ImageId` of `ec2:CreateLaunchTemplate`."""

    def __init__(self) -> None:
        self.on = False
        self.sent: set[tuple[str, str]] = set()
        self.read: set[tuple[str, str]] = set()

    def start(self) -> None:
        """Clear the record, and start recording."""
        self.sent.clear()
        self.read.clear()
        if not self.on:
            self.on = True
            BaseResponse.setup_class = _watched_setup  # type: ignore[method-assign]
            BaseResponse.serialized = _watched_serialize  # type: ignore[method-assign]
            json.loads = _watched_loads

    def begin(self, call: Call, shape: Any, parameters: dict[str, Any]) -> None:
        """Record the parameters of a request. Later reads in this thread are attributed to this call."""
        _current.call = f"{call.service}:{call.action}"
        _current.names = {member.serialization.get("name", name): name for name, member in shape.members.items()} if shape else {}
        self.sent |= {(_current.call, place) for place in _places(shape, parameters, "")}

    def as_dict(self) -> dict[str, list[str]]:
        """Return the parameters that were sent, and those that were not read, as `service:Action Parameter`.

        If a structure was not read, the second list contains the structure without its members.
        """
        ignored = self.sent - self.read
        topmost = {(call, place) for call, place in ignored if not any((call, above) in ignored for above in _above(place))}
        return {"sent": sorted(map(" ".join, self.sent)), "ignored": sorted(map(" ".join, topmost))}


RECORD = Record()


def mark_read(name: str) -> None:
    """Record that this parameter of the current call was read."""
    if RECORD.on:
        RECORD.read.add((_current.call, name))


def _places(shape: Any, value: Any, place: str) -> Iterator[str]:
    if shape is not None and shape.type_name == "structure" and isinstance(value, dict):
        for name, each in value.items():
            if name in shape.members:
                below = f"{place}.{name}".lstrip(".")
                yield below
                yield from _places(shape.members[name], each, below)
    elif shape is not None and shape.type_name == "list" and isinstance(value, list):
        for each in value:
            yield from _places(shape.member, each, place)


def _above(place: str) -> Iterator[str]:
    while "." in place:
        place = place.rpartition(".")[0]
        yield place


class Watched(dict[str, Any]):
    """A structure in a request that records lookups in itself, in nested structures, and in copies."""

    def __init__(self, content: dict[str, Any], call: str, place: str) -> None:
        super().__init__({name: _watched(value, call, f"{place}.{name}".lstrip(".")) for name, value in content.items()})
        self._call, self._place = call, place

    def _mark(self, name: Any) -> None:
        if getattr(_current, "is_answering", False) and name not in PAGING:
            return
        RECORD.read.add((self._call, f"{self._place}.{name}".lstrip(".")))

    def __getitem__(self, name: str) -> Any:
        self._mark(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._mark(name)
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        for name in super().__iter__():
            self._mark(name)
            yield name

    def get(self, name: str, default: Any = None) -> Any:
        self._mark(name)
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        self._mark(name)
        return super().pop(name, *default)

    def keys(self) -> Any:
        return list(self)

    def values(self) -> Any:
        return [self[name] for name in self]

    def items(self) -> Any:
        return [(name, self[name]) for name in self]

    def copy(self) -> Watched:
        return Watched(dict(dict.items(self)), self._call, self._place)

    def __deepcopy__(self, _memo: object) -> Watched:
        return Watched(_plain(self), self._call, self._place)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return dict, (list(dict.items(self)),)


def _watched(value: Any, call: str, place: str) -> Any:
    if isinstance(value, dict):
        return Watched(value, call, place)
    if isinstance(value, list):
        return [_watched(each, call, place) for each in value]
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in dict.items(value)}
    return [_plain(each) for each in value] if isinstance(value, list) else value


class Body(str):
    """A JSON request body that records lookups."""

    call = ""


def _watched_loads(text: Any, *arguments: Any, **options: Any) -> Any:
    found = _loads(text, *arguments, **options)
    return Watched(found, text.call, "") if isinstance(text, Body) and isinstance(found, dict) else found


def _watched_setup(self: BaseResponse, *arguments: Any, **options: Any) -> None:
    _setup(self, *arguments, **options)
    call = getattr(_current, "call", "")
    if self.service_name == "s3" or not call:
        return
    if self.automated_parameter_parsing:
        self.params = Watched(self.params, call, "")
        return
    if isinstance(self.body, str):
        self.body = Body(self.body)
        self.body.call = call
    for place in ("querystring", "uri_match"):
        named = {_current.names.get(name, name): name for name in getattr(self, place)}
        setattr(self, place, _Renamed(getattr(self, place), {ours: theirs for theirs, ours in named.items()}, call))


def _watched_serialize(self: BaseResponse, result: Any) -> Any:
    """Serialize a response. The serializer looks up all request parameters, so only lookups of pagination parameters count as reading."""
    _current.is_answering = True
    try:
        return _serialize(self, result)
    finally:
        _current.is_answering = False


class _Renamed(Watched):
    """The query or the path of a request. In botocore, the parameters have different names."""

    def __init__(self, content: dict[str, Any], names: dict[str, str], call: str) -> None:
        self._names = names
        super().__init__(content, call, "")

    def _mark(self, name: Any) -> None:
        super()._mark(self._names.get(name, name))
