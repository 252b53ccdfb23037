"""Errors that AWS answers instead of what was asked for."""

from __future__ import annotations

from typing import NamedTuple


class Refusal(NamedTuple):
    """Code, message and HTTP status of an error."""

    code: str
    message: str
    status: int = 403
