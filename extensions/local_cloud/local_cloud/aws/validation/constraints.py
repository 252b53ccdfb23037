"""Checks the enumerations, ranges, lengths, and patterns of values against the API's models. SDKs check only some of these constraints.

botocore contains the models. The module checks neither S3 requests, which are mostly data, nor the enumerations in OPEN_ENUMERATIONS, nor
patterns that `expression` cannot translate. Source of the messages: responses of services, and Smithy's "Constraint traits".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sized
from functools import cache
from typing import Any

from botocore.model import OperationModel

# Shapes to which AWS adds values before SDKs know the new values. `instance_type_offerings` checks instance types.
OPEN_ENUMERATIONS = {"InstanceType"}
# The error code for each protocol. JSON protocols use USUAL_CODE.
CODES = {"ec2": "InvalidParameterValue", "query": "ValidationError"}
USUAL_CODE = "ValidationException"
# Notations in the models, and their Python equivalents: characters outside of the Basic Multilingual Plane, and Unicode classes.
SPELLINGS = (
    (r"\uD800\uDC00-\uDBFF\uDFFF", "\U00010000-\U0010ffff"),
    (r"\p{L}", r"\w"),
    (r"\p{N}", r"\w"),
    (r"\p{Z}", "\u0020\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"),
)


def find_violation(operation: OperationModel, parameters: dict[str, Any]) -> tuple[str, str] | None:
    """Return the error code and the message for the first invalid value of a request."""
    shape = operation.input_shape
    found = next(_violations(shape, parameters, ""), None) if shape else None
    if found is None:
        return None
    place, value, rule = found
    value = "".join(character if character.isprintable() else "?" for character in str(value))
    protocol = str(operation.service_model.metadata["protocol"])
    if protocol == "ec2":
        return CODES[protocol], f"Value ({value}) for parameter {place} is invalid. {rule}"
    message = f"1 validation error detected: Value '{value}' at '{place}' failed to satisfy constraint: {rule}"
    return CODES.get(protocol, USUAL_CODE), message


def _violations(shape: Any, value: Any, place: str) -> Iterator[tuple[str, Any, str]]:
    rule = _broken_rule(shape, value)
    if rule:
        yield place, value, rule
    if isinstance(value, dict) and shape.type_name == "structure":
        for name, each in value.items():
            if name in shape.members:
                yield from _violations(shape.members[name], each, f"{place}.{_lower(name)}".lstrip("."))
    elif isinstance(value, dict) and shape.type_name == "map":
        for key, each in value.items():
            yield from _violations(shape.key, key, f"{place}.key")
            yield from _violations(shape.value, each, f"{place}.{key}.member")
    elif isinstance(value, list) and shape.type_name == "list":
        for number, each in enumerate(value, start=1):
            yield from _violations(shape.member, each, f"{place}.{number}.member")


def _lower(name: str) -> str:
    return name[:1].lower() + name[1:]


def _broken_rule(shape: Any, value: Any) -> str | None:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    kind, size = "value", value
    if isinstance(value, Sized):
        kind, size = "length", len(value)
    if value is None or isinstance(size, bool) or not isinstance(size, (int, float)):
        return None
    if least is not None and size < least:
        return f"Member must have {kind} greater than or equal to {least}"
    if most is not None and size > most:
        return f"Member must have {kind} less than or equal to {most}"
    return _broken_text_rule(shape, value) if isinstance(value, str) else None


def _broken_text_rule(shape: Any, value: str) -> str | None:
    values = getattr(shape, "enum", None)
    if values and value not in values and shape.name not in OPEN_ENUMERATIONS:
        return f"Member must satisfy enum value set: [{', '.join(values)}]"
    pattern = shape.metadata.get("pattern")
    written = expression(pattern) if pattern else None
    if written and not written.fullmatch(value):
        return f"Member must satisfy regular expression pattern: {pattern}"
    return None


@cache
def expression(pattern: str) -> re.Pattern[str] | None:
    """Return a pattern from the models as a Python pattern, or None if it cannot be translated. Without Unicode classes, `\\w` is ASCII."""
    # The pattern for ARNs of placement groups contains `^` at the start of the name, where it cannot match
    text = pattern.replace("placement-group/^", "placement-group/")
    for theirs, ours in SPELLINGS:
        text = text.replace(theirs, ours)
    try:
        return re.compile(text, 0 if r"\p{" in pattern else re.ASCII)
    except re.error:
        return None
