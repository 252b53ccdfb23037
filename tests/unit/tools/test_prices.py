"""Tests of the program that writes the published prices."""

from __future__ import annotations

import prices
import pytest

SOURCE = """
// generated at 2026-07-20T13:44:30Z for us-east-1
var x = {
    "us-east-1": {
        "a1.large": 0.051000, "p5.48xlarge": 55.040000, "p5.4xlarge": 6.880000, "g6f.large": 0.202000,
        "c5.large": 0.085000, "c5n.large": 0.108000, "c5ad.large": 0.1,
    },
}
"""


def test_only_the_numbers_of_some_families_are_taken():
    made = {}
    exec(prices.render(SOURCE), made)
    assert (made["DATE"], made["REGION"]) == ("2026-07-20", "us-east-1")
    assert made["TABLE"].splitlines() == ["c5 large=0.085", "c5n large=0.108", "g6f large=0.202", "p5 48xlarge=55.04 4xlarge=6.88"]


@pytest.mark.parametrize("source", ["", SOURCE.replace("generated at", ""), "// generated at 2026-07-20T13:44:30Z for us-east-1"])
def test_another_file_is_refused(source):
    with pytest.raises(ValueError, match="no line 'generated at"):
        prices.render(source)


def test_the_published_prices_have_this_form():
    assert prices.HEADER.split("{date}")[0] in prices.TARGET.read_text()
