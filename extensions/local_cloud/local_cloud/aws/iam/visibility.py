"""The age of roles and instance profiles, which other services do not see at first."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from ..context import CLOUD


def age(found: Any) -> float:
    """Return the age of a role or an instance profile in seconds."""
    return CLOUD.age(found.create_date.replace(tzinfo=UTC).timestamp())
