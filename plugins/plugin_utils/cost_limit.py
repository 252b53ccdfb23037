# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Turns the maximum cost of a job into a time limit, which the hosts enforce without the controller. All functions are pure."""

from __future__ import annotations

from ._output.prices import Price, amount, hourly_of_nodes, is_prepaid
from .job_formatting import duration, plural

# The minimum time in seconds that the maximum cost must pay for.
LEAST_SECONDS = 60


def limited_seconds(max_cost: float, time_limit: int, price: Price | None, hosts: int) -> int:
    """Return the time limit of a job on `hosts` nodes in seconds. A `time_limit` of 0 means no other limit.

    Raises ValueError if the price of a node is not known, if nodes are paid in advance, or if the maximum cost pays for less than a minute.
    """
    if price and is_prepaid(price):
        raise ValueError("max_cost: nodes in a Capacity Block are paid in advance. Limit the duration of the job with time_limit.")
    cost = hourly(price, hosts)
    if not price or not cost:
        raise ValueError(
            "max_cost: the price of the nodes is not known in this run. Start the job with the playbook train and with "
            "deeplearning_prices: true, or limit its duration with time_limit."
        )
    seconds = int(max_cost / cost * 3600)
    if seconds < LEAST_SECONDS:
        least = cost * LEAST_SECONDS / 3600
        raise ValueError(
            f"max_cost: {amount(max_cost, price['currency'])} pay for only {seconds} s of {plural(hosts, 'node', 'nodes')}, at "
            f"{amount(cost, price['currency'])} per hour. Set it to more than {amount(least, price['currency'])}."
        )
    return min(seconds, time_limit) if time_limit else seconds


def told(max_cost: float, seconds: int, price: Price, hosts: int) -> str:
    """Return a line about the time limit that follows from the maximum cost."""
    cost, currency = amount(hourly(price, hosts), price["currency"]), price["currency"]
    return (
        f"training_job_max_cost: {amount(max_cost, currency)} for {plural(hosts, 'node', 'nodes')} at {cost} per hour, so the job is "
        f"stopped after {duration(seconds)}"
    )


def hourly(price: Price | None, hosts: int) -> float:
    """Return what `hosts` nodes cost per hour, or 0 if that is not known."""
    return hosts * (hourly_of_nodes(price) if price else 0.0)
