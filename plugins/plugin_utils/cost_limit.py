# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Turns the maximum cost of a job into a time limit, which the hosts enforce without the controller. All functions are pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ..module_utils._words import plural
from ._output.prices import GROUP, INSTANCES, Price, amount, dated, hourly_of_nodes, is_prepaid, name_of, source
from ._output.words import duration
from .node_variables import UNKNOWN, NodeVariables

# The minimum time in seconds that the maximum cost must pay for.
LEAST_SECONDS = 60


def read(max_cost: Any) -> float:
    """Return a maximum cost, or 0 if there is none. Raises ValueError if it is not an amount of money."""
    try:
        value = float(max_cost or 0)
    except (TypeError, ValueError):
        raise ValueError(f"max_cost: {max_cost!r} is not a number. Specify an amount such as 250, or 0 for no limit.") from None
    if not 0 <= value < math.inf:
        raise ValueError(f"max_cost: {value:g} is not valid. Specify an amount such as 250, or 0 for no limit.")
    return value


def before_launch(nodes: NodeVariables | None, price: Price | None, show: Callable[[str], None] | None = None) -> tuple[int, int]:
    """Return the time limit of the job that is to run on a cluster, and the one that its maximum cost makes of it, in seconds.

    Both are the same without a maximum cost, or if the controller does not know the options of the job. `show` shows the limit.
    Raises ValueError like limited_seconds().
    """
    given = {name: nodes and nodes.get(f"training_job_{name}") for name in ("max_cost", "time_limit", "host_count", "hosts")}
    if UNKNOWN in given.values() or not _are_numbers(given) or not (max_cost := read(given["max_cost"])):
        return 0, 0
    # It is not known how many nodes a pattern of hosts means
    hosts = int(given["host_count"] or 0) or (_count(price) if given["hosts"] in (None, "", "trainers") else 1)
    time_limit = int(given["time_limit"] or 0)
    seconds = limited_seconds(max_cost, time_limit, price, hosts)
    if price and show:
        show(f"{told(max_cost, seconds, time_limit, price, hosts)}, if no earlier attempt has cost anything")
    return time_limit, seconds


def _are_numbers(given: Mapping[str, Any]) -> bool:
    """Return whether the options of a job are numbers. Other checks tell the user if they are not."""
    try:
        float(given["max_cost"] or 0), int(given["time_limit"] or 0), int(given["host_count"] or 0)
    except (TypeError, ValueError):
        return False
    return True


def lease_minimum(arguments: Mapping[str, Any], time_limit: int, seconds: int) -> int:
    """Return how long a lease must last: no longer than the maximum cost allows. The limits are those of `before_launch`."""
    return max(int(arguments.get("lease_minimum") or 0) - max(time_limit - seconds, 0), 0)


def _count(price: Price | None) -> int:
    charges = price["charges"] if price else []
    return sum(int(each["quantity"]) for each in charges if each["kind"] == GROUP and each["product"] in INSTANCES)


def limited_seconds(max_cost: float, time_limit: int, price: Price | None, hosts: int) -> int:
    """Return the time limit of a job on `hosts` nodes in seconds. A `time_limit` of 0 means no other limit.

    Raises ValueError if the price of a node in its region is not known, if nodes are paid in advance, or if the maximum cost pays for less
    than a minute.
    """
    price, cost = _known(price, hosts)
    seconds = int(max_cost / cost * 3600)
    if seconds < LEAST_SECONDS:
        least = cost * LEAST_SECONDS / 3600
        raise ValueError(
            f"max_cost: {amount(max_cost, price['currency'])} pay for only {seconds} s of {plural(hosts, 'node', 'nodes')}, at "
            f"{amount(cost, price['currency'])} per hour{dated(price)}. Set it to more than {amount(least, price['currency'])}."
        )
    return min(seconds, time_limit) if time_limit else seconds


def _known(price: Price | None, hosts: int) -> tuple[Price, float]:
    """Return the price, and what `hosts` nodes cost per hour. Raises ValueError if this is not known."""
    if price and is_prepaid(price):
        raise ValueError(
            "max_cost: nodes in a Capacity Block are paid in advance. Limit the duration of the job with training_job_time_limit."
        )
    if price and any(each.get("foreign") for each in price["charges"] if each["kind"] == GROUP and each["product"] in INSTANCES):
        raise ValueError(
            "max_cost: AWS has not told the price of the nodes in their region. Allow pricing:GetProducts, or limit the duration of the "
            "job with training_job_time_limit."
        )
    cost = hourly(price, hosts)
    if not price or not cost:
        what = _unpriced(price)
        why = " in this run. Start the job with the playbook train and with deeplearning_prices: true, or limit"
        if price:
            why = f". {source(price)} {'Correct this, or limit' if price['problem'] else 'Limit'}"
        raise ValueError(f"max_cost: the price of {what} is not known{why} the duration of the job with training_job_time_limit.")
    return price, cost


def _unpriced(price: Price | None) -> str:
    """Return what AWS charges for the nodes at a price that is not known."""
    charges = price["charges"] if price else []
    return ", ".join(name_of(each) for each in charges if each["kind"] == GROUP and each["hourly"] is None) or "the nodes"


def spent(max_cost: float, node_seconds: float, price: Price | None, hosts: int) -> float:
    """Return how much of a maximum cost a job has used up that has run for `node_seconds` in total, at the present price of a node.

    Raises ValueError if the rest does not pay for the job on `hosts` nodes. `node_seconds` comes from a host, so it can be any number.
    """
    cost = max(0.0, node_seconds) / 3600 * hourly(price, 1)
    least = cost + hourly(price, hosts) * LEAST_SECONDS / 3600
    if price and cost and least > max_cost:
        limit, used, rest, more = (amount(each, price["currency"]) for each in (max_cost, cost, max_cost - cost, least))
        what = f"the rest of {rest} does not pay for a minute of {plural(hosts, 'node', 'nodes')}" if cost < max_cost else "it is used up"
        raise ValueError(
            f"max_cost: earlier attempts of the job, and jobs that it continues, have cost about {used} of {limit}, at the present price, "
            f"so {what}. Set it to more than {more}."
        )
    return cost


def told(max_cost: float, seconds: int, time_limit: int, price: Price, hosts: int) -> str:
    """Return a line about the time limit that follows from the maximum cost. `seconds` is the shorter of both limits."""
    cost, currency = amount(hourly(price, hosts), price["currency"]), price["currency"]
    follows = "so the job is stopped after {}" if seconds != time_limit else "which pays for more than the time limit of the job ({})"
    nodes = f"{plural(hosts, 'node', 'nodes')} at {cost} per hour{dated(price)}"
    return f"training_job_max_cost: {amount(max_cost, currency)} for {nodes}, {follows.format(duration(seconds))}"


def hourly(price: Price | None, hosts: int) -> float:
    """Return what `hosts` nodes cost per hour, or 0 if that is not known."""
    return hosts * (hourly_of_nodes(price) if price else 0.0)
