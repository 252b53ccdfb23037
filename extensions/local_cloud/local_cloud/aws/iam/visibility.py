"""The age of roles and instance profiles, which other services do not see at first."""

from __future__ import annotations

import time
from datetime import UTC
from typing import Any


def age(found: Any) -> float:
    """Return the age of a role or an instance profile in seconds."""
    return float(time.time() - found.create_date.replace(tzinfo=UTC).timestamp())
