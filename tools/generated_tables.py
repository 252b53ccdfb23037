"""Replaces the generated tables on a documentation page with current ones."""

from __future__ import annotations

from pathlib import Path


def start(tool: str, name: str) -> str:
    """Return the line before a generated table."""
    return f"<!-- The {name} below are written by tools/{tool}.py -->\n"


def with_tables(path: Path, tool: str, tables: dict[str, str]) -> str:
    """Return the text of a page with its tables replaced.

    `tables` maps names to contents. Raises ValueError if the page lacks a table's markers.
    """
    text = path.read_text(encoding="utf-8")
    end = f"<!-- End of what tools/{tool}.py writes -->\n"
    for name, table in tables.items():
        before, marker, rest = text.partition(start(tool, name))
        if end not in rest:
            raise ValueError(f"{path} does not contain the markers of the table of {name}")
        text = f"{before}{marker}\n{table}\n{end}{rest.partition(end)[2]}"
    return text


def write(path: Path, text: str) -> None:
    """If the text of the page has changed, write the page and print its path."""
    if path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
        print(path)
