"""Authentication and authorization of requests: signatures, identities, and policies."""

from __future__ import annotations

from .check import check

__all__ = ["check"]
