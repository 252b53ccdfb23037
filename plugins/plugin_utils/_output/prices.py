# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Describes what a cluster costs, from the facts that provisioning modules return. All functions are pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from ...module_utils._aws.pricing.charges import GROUP, HOURS_PER_MONTH, INSTANCES, PREPAID, dated, known_sum
from .kinds import kind_name

# The result `price` of a provisioning module.
Price = Mapping[str, Any]

LEFT_OUT = "traffic, requests, taxes and discounts"
# The names of charges. `count` is the quantity, `type` the variant, and `resource` the name of the resource.
NAMES = {
    "capacity_block": "{count} x {type} ({resource}) in a Capacity Block, paid in advance",
    "data": "{count} GB of data in {resource}",
    "emr": "EMR on {count} x {type} ({resource})",
    "endpoint": "{resource}, {count} {zones}",
    "instance": "{count} x {type} ({resource})",
    "nat_gateway": "{resource}",
    "public_ipv4": "public address, {resource}",
    "spot_instance": "{count} x {type} (Spot, {resource})",
    "storage": "{count} GB in {resource}",
    "throughput": "{count} MiB/s in {resource}",
    "volume": "{count} GB in {type} volumes, {resource}",
    "volume_iops": "{count} IOPS of {type} volumes, {resource}",
    "volumes": "volumes of {count} x {type} ({resource})",
    "volume_throughput": "{count} GiB/s of {type} volumes, {resource}",
}


def of_run(variables: Mapping[str, Any]) -> Price | None:
    """Return the price of the cluster that this run has provisioned, or None if it has not read a price."""
    found: Price | None = variables["hostvars"].get("localhost", {}).get("provision_result", {}).get("price")
    return found


def amount(value: float, currency: str) -> str:
    """Return an amount of money, such as `1,234.50 USD`. Amounts below 1 have three decimals, because many prices per hour are small.

    Amounts that would be shown as 0 have as many decimals as they need.
    """
    decimals = 2 if abs(value) >= 1 else 3 if not 0 < abs(value) < 0.0005 else -math.floor(math.log10(abs(value)))
    return f"{value:,.{decimals}f} {currency}"


def is_known(price: Price | None) -> bool:
    """Return whether the run has read at least one price, or has found that nothing costs money."""
    return bool(price and price["hourly"] is not None)


def per_hour(price: Price) -> str:
    """Return the price per hour and per day, such as `2.00 USD per hour (48.00 USD per day)`, from when it is, and what it leaves out.

    It must be known.
    """
    missing = _missing(price)
    return f"{sums(price)}{dated(price)}, without traffic and taxes{f'; the price of {missing} is not known' if missing else ''}"


def sums(price: Price) -> str:
    """Return the price per hour and per day, for a sentence next to one with `per_hour`."""
    hourly, currency = price["hourly"], price["currency"]
    return f"{'at least ' if _missing(price) else ''}{amount(hourly, currency)} per hour ({amount(24 * hourly, currency)} per day)"


def _missing(price: Price) -> str:
    return ", ".join(name_of(each) for each in price["charges"] if each["hourly"] is None)


def without_nodes(price: Price) -> Price:
    charges = [each for each in price["charges"] if each["kind"] != GROUP]
    return {**price, "charges": charges, "hourly": known_sum(charges)}


def difference(hourly: float | None, currency: str) -> str:
    """Return by how much a change increases or reduces the price, such as `+0.045 USD per hour`. Return an empty string for no change."""
    if not hourly:
        return ""
    return f"{'+' if hourly > 0 else ''}{amount(hourly, currency)} per hour"


def sentence(price: Price) -> str:
    """Return a sentence about the price of a cluster: how much it is, what it leaves out, and how old it is."""
    if not is_known(price):
        return f"The price of the cluster is not known. {source(price)}"
    monthly = amount(HOURS_PER_MONTH * price["hourly"], price["currency"])
    missing = _missing(price)
    without = f"without {LEFT_OUT}{f', and without {missing}, whose price is not known' if missing else ''}"
    return f"The cluster costs {sums(price)}, {monthly} per month, {without}.{_data(price)} {source(price)}"


def lines(price: Price) -> list[str]:
    """Return a line for each charge, with its price per hour, and a sentence about the sum. If nothing costs money, there are no lines."""
    if not price["charges"]:
        return []
    told = [
        f"  {name_of(each):48} {'not known' if each['hourly'] is None else amount(each['hourly'], price['currency']) + ' per hour'}"
        for each in price["charges"]
        if each["quantity"] or each["product"] == "data"
    ]
    return [*told, sentence(price)]


def hourly_of_nodes(price: Price, group: str = "") -> float:
    """Return what a node of `group`, or of the most expensive group, costs per hour on average, with its volumes and addresses.

    Return 0 if that is not known, or if nodes are paid in advance.
    """
    groups = defaultdict[str, list[Mapping[str, Any]]](list)
    for each in price["charges"]:
        if each["kind"] == GROUP and each["quantity"] and group in ("", each["key"]):
            groups[each["key"]].append(each)
    costs = [_hourly_of_group(each) for each in groups.values()]
    return max(costs, default=0.0) if all(costs) and not is_prepaid(price, group) else 0.0


def _hourly_of_group(charges: Sequence[Mapping[str, Any]]) -> float:
    """Return what a node of a group costs per hour on average, or 0 if that is not known."""
    count = sum(each["quantity"] for each in charges if each["product"] in INSTANCES)
    known = [each["hourly"] for each in charges if each["hourly"] is not None]
    return float(sum(known) / count) if count and len(known) == len(charges) else 0.0


def is_prepaid(price: Price, group: str = "") -> bool:
    """Return whether nodes, or the nodes of `group`, are in a Capacity Block. By the hour, AWS then charges only for their volumes."""
    return any(each["product"] == PREPAID and each["quantity"] and group in ("", each["key"]) for each in price["charges"])


def since_launch(price: Price, nodes: Iterable[Mapping[str, Any]], now: float) -> str:
    """Return a sentence about what running nodes have cost so far, or an empty string if a price is not known.

    `nodes` are the nodes that cluster_info returns. `now` is in seconds since 1970.
    """
    paid = [node for node in nodes if not is_prepaid(price, node["group"])]
    costs = [hourly_of_nodes(price, node["group"]) * max(now - node["launched_at"], 0) / 3600 for node in paid]
    if not costs or not all(costs):
        return ""
    without = ", without the Capacity Block, which is paid in advance" if is_prepaid(price) else ""
    return f"Since they were launched, the running nodes have cost {amount(sum(costs), price['currency'])} at these prices{without}."


def name_of(charge: Mapping[str, Any]) -> str:
    """Return what is charged for, such as `3 x p4d.24xlarge (workers)`."""
    # A charge for nodes has the name of their group
    resource = charge["key"] if charge["kind"] == GROUP else f"{kind_name(charge['kind'])} {charge['key']}"
    count, zones = f"{charge['quantity']:,g}", kind_name("zone", charge["quantity"])
    return NAMES[charge["product"]].format(count=count, type=charge["variant"], resource=resource, zones=zones)


def _data(price: Price) -> str:
    """Return a sentence about the price of data in a file system that grows, or an empty string."""
    known = [each for each in price["data"] if each["monthly"] is not None]
    if not known:
        return ""
    monthly = amount(known[0]["monthly"], price["currency"])
    return f" Each GB of data in {kind_name(known[0]['kind'])} {known[0]['key']} costs {monthly} per month."


def source(price: Price) -> str:
    read_at = price["read_at"] and datetime.fromtimestamp(price["read_at"], timezone.utc)
    where = f"the endpoint {price['endpoint']}" if price["endpoint"] else "AWS Price List"
    listed = f"Prices: {where}, read on {read_at:%Y-%m-%d}." if read_at else ""
    reason = price["problem"].rstrip(".")
    if not price["published"]:
        if listed:
            return f"{listed} AWS has not told all of them anew: {reason}." if reason else listed
        return f"AWS has told no prices{f': {reason}' if reason else ''}."
    why = f" AWS has not told them: {reason}." if reason else ""
    return f"{listed}{' Some are' if listed else 'Prices are'} those that AWS published for us-east-1 on {price['published']}.{why}"
