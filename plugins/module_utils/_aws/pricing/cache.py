# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Prices that were read earlier, in a file on the controller, so that most runs ask AWS for no price."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..._files import replace_file
from .charges import Product
from .instance_products import SPOT
from .price_list import Price

# How long prices are used, in seconds. A price that AWS did not tell is not asked for again for a while, which is shorter after an error.
LONG, SHORT, RETRY = 7 * 24 * 3600, 3600, 300
# The maximum age of a Spot price, which changes all the time.
DAY = 24 * 3600


class Known(NamedTuple):
    """A price, or None if AWS has never told one, and when it was read, in seconds since the epoch.

    If AWS did not tell a newer price, `failed_at` says when that was, and `problem` why, if AWS has said so.
    """

    price: Price | None
    read_at: float
    failed_at: float = 0.0
    problem: str = ""

    def without_newer(self, problem: str) -> Known:
        """Return the same price, after AWS has not told a newer one."""
        now = time.time()
        return self._replace(read_at=self.read_at if self.price else now, failed_at=now, problem=problem)

    def is_recent(self, product: Product) -> bool:
        now, pause = time.time(), RETRY if self.problem else SHORT
        lifetime = pause if self.price is None else SHORT if product.name == SPOT else LONG
        return now - self.read_at <= lifetime or now - self.failed_at <= pause

    def is_usable(self, product: Product) -> bool:
        return product.name != SPOT or time.time() - self.read_at <= DAY


def path(region: str, endpoint: str) -> Path | None:
    """Return the file with the prices of a region, which are the same for all accounts and clusters.

    Return None if the run uses another `endpoint` than that of AWS, because its prices may be others.
    """
    if endpoint:
        return None
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(folder) / "deeplearning.cluster" / f"prices-{region}.json"


def read(file: Path | None, products: Iterable[Product]) -> dict[Product, Known]:
    """Return the prices of products, however old. A file that is missing or damaged contains none."""
    now, entries = time.time(), _entries(file)
    known = {product: _known(entries.get(_key(product))) for product in products}
    return {product: each for product, each in known.items() if each and max(each.read_at, each.failed_at) <= now}


def write(file: Path | None, known: Mapping[Product, Known]) -> None:
    """Add prices to the file of a region. If the file cannot be written, the next run asks AWS again."""
    if file is None:
        return
    entries = {**_entries(file), **{_key(product): each._asdict() for product, each in known.items()}}
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(file, json.dumps(entries).encode())
    except OSError:
        return


def _entries(file: Path | None) -> dict[str, Any]:
    try:
        entries = json.loads(file.read_text(encoding="utf-8")) if file else {}
    except (OSError, ValueError):
        return {}
    return entries if isinstance(entries, dict) else {}


def _key(product: Product) -> str:
    """Return the key of a product in the file, which changes with the place of the product in the price list."""
    return json.dumps([product.service, product.usage, product.unit, product.attributes, product.variant])


def _known(entry: Any) -> Known | None:
    """Return the price in an entry of the file, or None if the entry has another form."""
    try:
        price = Price(float(entry["price"][0]), str(entry["price"][1])) if entry["price"] else None
        known = Known(price, float(entry["read_at"]), float(entry.get("failed_at", 0)), str(entry.get("problem", "")))
    except (IndexError, KeyError, TypeError, ValueError):
        return None
    return known if price is None or (math.isfinite(price.hourly) and price.hourly >= 0) else None
