"""Writes files for tests."""

from __future__ import annotations


def write(folder, **contents):
    for name, text in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
