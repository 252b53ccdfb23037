"""Refused requests."""

from __future__ import annotations

from typing import NamedTuple


class Refusal(NamedTuple):
    """The code, message, and HTTP status of an error."""

    code: str
    message: str
    status: int = 403
