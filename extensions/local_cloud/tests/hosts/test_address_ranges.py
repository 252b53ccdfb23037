"""Selection of address ranges that nothing else on this machine uses."""

from __future__ import annotations

import pytest
from local_cloud.hosts.address_ranges import free_range, overlaps


@pytest.mark.parametrize(
    ("used", "overlapping"),
    [([], False), (["10.41.0.0/16"], True), (["10.41.7.0/24"], True), (["10.0.0.0/8"], True), (["10.42.0.0/16", "fd00::/8"], False)],
)
def test_ranges_overlap(used: list[str], overlapping: bool) -> None:
    assert overlaps("10.41.0.0/16", used) == overlapping


def test_the_first_free_range_is_chosen() -> None:
    candidates = ["10.41.0.0/16", "10.42.0.0/16", "10.43.0.0/16"]
    assert free_range(candidates, ["10.41.3.0/24", "10.43.0.0/16"]) == "10.42.0.0/16"
    assert free_range(candidates, iter(["10.0.0.0/8"])) is None
