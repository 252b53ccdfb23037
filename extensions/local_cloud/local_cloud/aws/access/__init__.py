"""Who calls, and whether they may: signatures, identities, policies."""

from __future__ import annotations

from .check import check

__all__ = ["check"]
