"""Tests that check how tools replace the generated tables on a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from generated_tables import start, with_tables, write

END = "<!-- End of what tools/colors.py writes -->\n"


def test_only_the_tables_are_replaced(tmp_path):
    page = tmp_path / "page.md"
    reds, blues = start(page, "colors", "reds"), start(page, "colors", "blues")
    page.write_text(f"# Colors\n{reds}old\n{END}Between\n{blues}{END}Last\n")
    text = with_tables(page, "colors", {"reds": "| red |\n", "blues": "| \\1 |\n"})
    assert text == f"# Colors\n{reds}\n| red |\n\n{END}Between\n{blues}\n| \\1 |\n\n{END}Last\n"


def test_a_part_of_a_yaml_file_keeps_its_indentation(tmp_path):
    page = tmp_path / "colors.yml"
    page.write_text(
        "colors:\n  # The reds below are written by tools/colors.py\n  red: 1\n  # End of what tools/colors.py writes\n  blue: 2\n"
    )
    assert with_tables(page, "colors", {"reds": "  crimson: 3\n"}) == page.read_text().replace("red: 1", "crimson: 3")


@pytest.mark.parametrize("text", ["# Colors\n", END + start(Path("page.md"), "colors", "reds")], ids=["no start", "no end"])
def test_a_page_without_place_for_a_table_is_an_error(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match="the markers of the reds"):
        with_tables(page, "colors", {"reds": ""})


def test_only_a_changed_page_is_written(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("old")
    write(page, "old")
    assert capsys.readouterr().out == ""
    write(page, "new")
    assert (page.read_text(), capsys.readouterr().out) == ("new", f"{page}\n")
