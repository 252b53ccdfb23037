# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests that check how tools replace the generated tables on a page."""

from __future__ import annotations

import pytest
from generated_tables import start, with_tables, write

END = "<!-- End of what tools/colors.py writes -->\n"


def test_only_the_tables_are_replaced(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Colors\n{start('colors', 'reds')}old\n{END}Between\n{start('colors', 'blues')}{END}Last\n")
    text = with_tables(page, "colors", {"reds": "| red |\n", "blues": "| \\1 |\n"})
    assert text == f"# Colors\n{start('colors', 'reds')}\n| red |\n\n{END}Between\n{start('colors', 'blues')}\n| \\1 |\n\n{END}Last\n"


@pytest.mark.parametrize("text", ["# Colors\n", END + start("colors", "reds")], ids=["no start", "no end"])
def test_a_page_without_place_for_a_table_is_an_error(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match="the table of reds"):
        with_tables(page, "colors", {"reds": ""})


def test_only_a_changed_page_is_written(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("old")
    write(page, "old")
    assert capsys.readouterr().out == ""
    write(page, "new")
    assert (page.read_text(), capsys.readouterr().out) == ("new", f"{page}\n")
