"""Makes the serialization of moto's responses faster, which would take more than a third of the time of a request.

The names under which moto looks for the members of a structure are computed once for each class of objects. XML is written without
xmltodict.
"""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape, quoteattr

from moto.core.constants import MISSING
from moto.core.serialize import AttributePickerContext, BaseXMLSerializer, EC2Serializer, ResponseSerializer

from .override import override

DECLARATION = '<?xml version="1.0" encoding="utf-8"?>\n'

moto_value = ResponseSerializer.get_value


@override(ResponseSerializer)
def get_value(self: Any, value: Any, key: str, shape: Any) -> Any:
    """Return a member of a structure. The name of the member is compared with the paths of all transformers only if a path ends with it."""
    if key in _transformed(self._value_picker):
        return moto_value(self, value, key, shape)
    by_class = shape.__dict__.setdefault("names_by_class", {})
    names = by_class.get(type(value))
    if names is None:
        context = AttributePickerContext(value, key, shape, self.operation_model, self.service_model)
        names = by_class[type(value)] = tuple(dict.fromkeys(self._value_picker.get_possible_keys(context)))
    if not hasattr(value, "__getitem__"):
        return next((found for name in names if (found := getattr(value, name, MISSING)) is not MISSING), None)
    for name in names:
        try:
            return value[name]
        except (KeyError, IndexError, TypeError, AttributeError):
            continue
    return None


def _transformed(picker: Any) -> set[str]:
    """Return the names with which the paths of the picker's transformers end."""
    if "transformed" not in picker.__dict__:
        picker.transformed = {path.rpartition(".")[2] for path in picker.response_transformers}
    return picker.transformed


@override(BaseXMLSerializer)
def _serialize_body(_self: object, body: dict[str, Any]) -> str:
    return "".join(element(name, value) for name, value in body.items())


def _serialize_document(_self: object, body: dict[str, Any]) -> str:
    return DECLARATION + "".join(element(name, value) for name, value in body.items())


EC2Serializer._serialize_body = _serialize_document  # type: ignore[method-assign, assignment]


def element(name: str, value: Any) -> str:
    """Return an XML element, or one for each item of a list. Keys that start with `@` are attributes."""
    attributes, content = "", ""
    if isinstance(value, dict):
        for key, each in value.items():
            if key.startswith("@"):
                attributes += f" {key[1:]}={quoteattr(str(each))}"
            else:
                content += element(key, each)
    elif isinstance(value, list):
        return "".join([element(name, each) for each in value])
    elif value is not None:
        content = escape(str(value).lower() if isinstance(value, bool) else str(value))
    return f"<{name}{attributes}>{content}</{name}>" if content else f"<{name}{attributes}/>"
