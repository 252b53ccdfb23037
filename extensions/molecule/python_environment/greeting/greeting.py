"""A package that is quickly installed."""

from __future__ import annotations

TEXT = "hello"
