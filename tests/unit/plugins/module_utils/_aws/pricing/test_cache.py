"""Tests of the prices that the controller keeps."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing import cache
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.instance_products import instance, spot_instance
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.price_list import Price

LISTED, SPOT = instance("p5.48xlarge"), spot_instance("p5.48xlarge", ["us-east-1a"])
DAY = 24 * 3600


@pytest.mark.parametrize(
    ("product", "price", "age", "is_used"),
    [
        (LISTED, Price(55.0, "USD"), 6 * DAY, True),
        (LISTED, Price(55.0, "USD"), 8 * DAY, False),
        (LISTED, None, 1800, True),
        (LISTED, None, 2 * 3600, False),
        (SPOT, Price(9.0, "USD"), 1800, True),
        (SPOT, Price(9.0, "USD"), 2 * 3600, False),
        (LISTED, Price(55.0, "USD"), -3600, False),
    ],
)
def test_prices_are_used_for_a_while(tmp_path, product, price, age, is_used):
    """A time in the future comes from a clock that was wrong."""
    file, known = tmp_path / "new" / "prices.json", cache.Known(price, time.time() - age)
    cache.write(file, {product: known})
    found = cache.read(file, [product])
    assert (found, any(each.is_recent(product) for each in found.values())) == ({product: known} if age > 0 else {}, is_used)


@pytest.mark.parametrize("price", [Price(55.0, "USD"), None])
def test_a_request_that_fails_keeps_the_price_and_is_not_repeated_for_a_while(tmp_path, monkeypatch, price):
    read_at = time.time() - 30 * DAY
    known = cache.Known(price, read_at).without_newer("denied")
    cache.write(tmp_path / "prices.json", {LISTED: known})
    assert cache.read(tmp_path / "prices.json", [LISTED]) == {LISTED: known}
    assert (known.price, known.problem, known.read_at == read_at, known.is_recent(LISTED)) == (price, "denied", price is not None, True)
    unlisted = cache.Known(price, read_at).without_newer("")
    for seconds, expected in ((200, (True, True)), (400, (False, True)), (2 * 3600, (False, False))):
        later = known.failed_at + seconds
        monkeypatch.setattr(cache.time, "time", lambda later=later: later)
        assert (known.is_recent(LISTED), unlisted.is_recent(LISTED)) == expected, "who has corrected an error need not wait for long"


def test_a_file_of_an_earlier_version_is_read(tmp_path):
    file, known = tmp_path / "prices.json", cache.Known(Price(1.0, "USD"), time.time())
    cache.write(file, {LISTED: known})
    entries = {key: {name: entry[name] for name in ("price", "read_at")} for key, entry in json.loads(file.read_text()).items()}
    file.write_text(json.dumps(entries))
    assert cache.read(file, [LISTED]) == {LISTED: known}


def test_prices_are_added_to_those_in_the_file(tmp_path):
    file, known = tmp_path / "prices.json", cache.Known(Price(1.0, "USD"), time.time())
    cache.write(file, {LISTED: known})
    cache.write(file, {SPOT: known})
    assert cache.read(file, [LISTED, SPOT]) == {LISTED: known, SPOT: known}
    assert cache.read(file, [instance("c5.large")]) == {}
    assert [each.name for each in tmp_path.iterdir()] == ["prices.json"]


@pytest.mark.parametrize("price", [[float("nan"), "USD"], [-1, "USD"], ["x", "USD"], [1], 5])
def test_what_is_no_price_is_ignored(tmp_path, price):
    file, known = tmp_path / "prices.json", cache.Known(Price(1.0, "USD"), time.time())
    cache.write(file, {LISTED: known})
    entries = {key: {**entry, "price": price} for key, entry in json.loads(file.read_text()).items()}
    file.write_text(json.dumps(entries))
    assert cache.read(file, [LISTED]) == {}


@pytest.mark.parametrize("content", ["", "[]", "5", "{", "\x00"])
def test_a_damaged_file_is_replaced(tmp_path, content):
    file, known = tmp_path / "prices.json", cache.Known(Price(1.0, "USD"), time.time())
    file.write_text(content)
    assert cache.read(file, [LISTED]) == {}
    cache.write(file, {LISTED: known})
    assert cache.read(file, [LISTED]) == {LISTED: known}


def test_a_folder_that_cannot_be_made_is_no_failure(tmp_path):
    (tmp_path / "file").write_text("")
    cache.write(tmp_path / "file" / "prices.json", {LISTED: cache.Known(None, time.time())})
    cache.write(None, {})
    assert cache.read(None, [LISTED]) == {}


def test_other_endpoints_have_other_prices(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache.path("us-east-1", "") == Path("/x/deeplearning.cluster/prices-us-east-1.json")
    assert cache.path("us-east-1", "http://127.0.0.1:1") is None
