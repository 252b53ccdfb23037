"""Replaces the generated parts of a documentation page or a YAML file, such as tables, with current ones."""

from __future__ import annotations

from pathlib import Path


def comment(path: Path, text: str) -> str:
    """Return a line with a comment in the syntax of the file."""
    return f"<!-- {text} -->\n" if path.suffix == ".md" else f"# {text}\n"


def start(path: Path, tool: str, name: str) -> str:
    """Return the line before a generated part."""
    return comment(path, f"The {name} below are written by tools/{tool}.py")


def with_tables(path: Path, tool: str, tables: dict[str, str]) -> str:
    """Return the text of a file with its generated parts replaced.

    `tables` maps names to contents. Raises ValueError if the file lacks the markers of a part.
    """
    text = path.read_text(encoding="utf-8")
    end = comment(path, f"End of what tools/{tool}.py writes")
    gap = "\n" if path.suffix == ".md" else ""
    for name, table in tables.items():
        before, marker, rest = text.partition(start(path, tool, name))
        if end not in rest:
            raise ValueError(f"{path} does not contain the markers of the {name}")
        indent = before[len(before.rstrip(" ")) :]
        text = f"{before}{marker}{gap}{table}{gap}{indent}{end}{rest.partition(end)[2]}"
    return text


def write(path: Path, text: str) -> None:
    """If the text of the file has changed, write the file and print its path."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
        print(path)
