"""A package that installs quickly."""

from __future__ import annotations

TEXT = "hello"
