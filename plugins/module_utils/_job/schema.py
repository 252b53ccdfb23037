# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Schemas of a job's JSON files, and functions that read and write files.

The files that are read are untrusted: any user of a host may have written them.
"""

from __future__ import annotations

import json
import os
import re
import stat
from typing import Any, BinaryIO, Callable, Dict, Mapping, NamedTuple

from .._files import replace_file

Document = Dict[str, Any]

# Maximum number of bytes in a file, characters in a string, and elements in a list.
FILE_LIMIT, TEXT_LIMIT, LIST_LIMIT = 1 << 20, 1 << 14, 1 << 17
# Maximum number of digits in an integer. Python parses longer integers in quadratic time, or rejects them.
DIGITS = 18
# In count_values(), an object or a list counts as this number of values, because it takes longer to copy.
CONTAINER = 4
# The latest valid time, in the year 2106, in seconds since 1970.
TIME_LIMIT = 1 << 32


class SchemaError(ValueError):
    """A document does not conform to its schema. The message names the invalid part."""


class Field(NamedTuple):
    """One key of a document: a check of its value, a description of valid values, and whether the value may be missing or null.

    If `is_lenient` is true, a value that is not valid counts as missing. `known` returns the part of a value that the schema defines.
    """

    accepts: Callable[[Any], bool]
    words: str
    is_optional: bool = False
    is_lenient: bool = False
    known: Callable[[Any], Any] | None = None

    def problem(self, value: Any) -> str:
        """Return the end of a sentence about a value that is not valid."""
        return f"is {_excerpt(value)}, not {self.words}"


Schema = Mapping[str, Field]


def open_regular(path: str) -> BinaryIO:
    """Open a regular file for reading. Raises OSError for any other kind of file, or if the file or its directory is a symbolic link.

    A link could point to a file that this user can read but the link's author cannot. Opening a FIFO would block.
    """
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        descriptor = os.open(os.path.basename(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return open(descriptor, "rb")


def replace_document(path: str, document: Mapping[str, Any]) -> None:
    """Replace a JSON file atomically, and create its directory. Everyone can read the file."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    replace_file(path, json.dumps(document).encode(), 0o644)


def parse_json(content: bytes) -> Any:
    """Parse a JSON text and return its value. Raises ValueError if the text is invalid or nested too deeply for Python."""
    try:
        return json.loads(content.decode("utf-8"), parse_int=_number)
    except RecursionError:
        raise ValueError("the JSON text is nested too deeply") from None


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) <= DIGITS else float(digits)


def read_document(path: str) -> Document:
    """Return the JSON object in a file. Raises OSError, or ValueError if the file does not contain a JSON object."""
    return parse_document(read_content(path))


def read_content(path: str, limit: int = FILE_LIMIT) -> bytes:
    """Return the contents of a file. If the file is too long, return just enough for parse_document() to reject it. Raises OSError."""
    with open_regular(path) as file:
        return file.read(limit + 1)


def parse_document(content: bytes, limit: int = FILE_LIMIT) -> Document:
    """Return the JSON object in a file's contents. Raises ValueError if the contents are too long or not a JSON object."""
    if len(content) > limit:
        raise SchemaError(f"the JSON text has more than {limit} bytes")
    document = parse_json(content)
    if not isinstance(document, dict):
        raise SchemaError("the JSON text is not an object")
    return document


def count_values(value: Any, limit: int) -> int:
    """Return the number of values of which a JSON value consists or, if there are more than `limit`, any number above `limit`."""
    found, waiting = 1, [value]
    while waiting and found <= limit:
        one = waiting.pop()
        if isinstance(one, (dict, list)):
            found += len(one) + CONTAINER - 1
            members = one.values() if isinstance(one, dict) else one
            waiting += [member for member in members if isinstance(member, (dict, list))]
    return found


def conform(document: Mapping[str, Any], schema: Schema) -> Document:
    """Return the part of a document that the schema defines, without optional values that are null. Raises SchemaError."""
    found = {}
    for name, field in schema.items():
        value = document.get(name)
        if (value is None and field.is_optional) or (field.is_lenient and not field.accepts(value)):
            continue
        if name not in document:
            raise SchemaError(f"it has no {name!r}")
        if not field.accepts(value):
            raise SchemaError(f"its {name!r} {field.problem(value)}")
        found[name] = field.known(value) if field.known else value
    return found


def _excerpt(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    return ascii(value if not isinstance(value, str) else value[:40])


def optional(field: Field) -> Field:
    """Return the same field, but optional: its value may be missing or null."""
    return field._replace(is_optional=True)


def lenient(field: Field) -> Field:
    """Return the same field, but lenient: a value that is missing, null or not valid is left out, and the rest of the document is kept."""
    return field._replace(is_optional=True, is_lenient=True)


def text(limit: int = TEXT_LIMIT, pattern: str = "", words: str = "") -> Field:
    """Return a field for text of at most `limit` characters. If a pattern is specified, the text must match it."""
    expression = re.compile(pattern or r"(?s).*")

    def accepts(value: Any) -> bool:
        return isinstance(value, str) and len(value) <= limit and expression.fullmatch(value) is not None

    return Field(accepts, words or f"text of up to {limit} characters")


def integer(least: int, most: int) -> Field:
    def accepts(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

    return Field(accepts, f"an integer from {least} to {most}")


def seconds(most: float = TIME_LIMIT) -> Field:
    def accepts(value: Any) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= most

    return Field(accepts, "a number of seconds")


def number(most: float = 1e15) -> Field:
    """Return a field for a number that is not negative."""
    return seconds(most)._replace(words=f"a number from 0 to {most:.6g}")


def flag() -> Field:
    return Field(lambda value: isinstance(value, bool), "true or false")


def one_of(*values: str) -> Field:
    return Field(lambda value: isinstance(value, str) and value in values, "one of " + ", ".join(values))


def list_of(element: Field, limit: int = LIST_LIMIT) -> Field:
    def accepts(value: Any) -> bool:
        return isinstance(value, list) and len(value) <= limit and all(map(element.accepts, value))

    known, words = element.known, f"a list of up to {limit} elements, each of them {element.words}"
    return Field(accepts, words, known=(lambda value: list(map(known, value))) if known else None)


def mapping(schema: Schema | None = None) -> Field:
    """Return a field for an object that conforms to a schema, or for any object if there is no schema."""

    def accepts(value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        try:
            conform(value, schema or {})
        except SchemaError:
            return False
        return True

    if schema is None:
        return Field(accepts, "an object")
    return Field(accepts, "an object with valid values", known=lambda value: conform(value, schema))
