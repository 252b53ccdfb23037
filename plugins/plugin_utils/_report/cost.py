# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Says what a job has cost.

AWS tells when it launched and terminated the nodes. The hosts of the job tell which nodes ran the job and when, and are not trusted: a node
costs nothing before its launch and after its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...module_utils._words import plural
from .._output import prices
from .._output.prices import Price
from .._output.words import node_time
from ..suggested_commands import playbook_command


def cost_of(
    report: Mapping[str, Any], nodes: Iterable[Mapping[str, Any]], former: Iterable[Mapping[str, Any]], price: Price | None, now: float
) -> str:
    """Return sentences about the cost of a job, or an empty string if no host of the job is an EC2 instance.

    `report` is the result of the `training_job_report` module. `nodes` contains the nodes in the inventory, and `former` is the return
    value `nodes` of the `former_nodes_info` module. `price` is the price of the nodes, if it is known.
    """
    instances = {*report["instances"]}
    launched = [each for each in (*nodes, *former) if each.get("launched_at") and each["instance_id"] in instances]
    known = {each["instance_id"]: (each["launched_at"], each.get("left_at") or now) for each in launched}
    # The order of the arguments matters: a value that is not a number does not replace the time that AWS tells
    hours = sum(_seconds(launch, end, report["runs"]) for launch, end in known.values()) / 3600
    unknown = len(instances) - len(known)
    if not instances:
        return ""
    timeline = f"What the nodes of the cluster did and cost: {playbook_command('events')}"
    left = f"{plural(unknown, 'node that is', 'nodes that are')} no longer in the cluster"
    if not known:
        return f"not known, because the job ran on {left}. {timeline}"
    time = f"{node_time(hours)} of {plural(len(known), 'node', 'nodes')}"
    return (
        f"{_amount(time, hours, price)}{f', without {left}' if unknown else ''}. AWS tells when the nodes were launched and terminated, "
        f"and the hosts reported when and where the job ran.{f' {prices.source(price)}' if price else ''} {timeline}"
    )


def _seconds(launch: float, end: float, runs: Iterable[Sequence[float]]) -> float:
    """Return for how long a node that ran from `launch` to `end` ran the job."""
    return min(sum(max(min(end, run[1]) - max(launch, run[0]), 0.0) for run in runs), max(end - launch, 0.0))


def _amount(time: str, hours: float, price: Price | None) -> str:
    hourly = prices.hourly_of_nodes(price) if price else 0.0
    if price and hourly:
        at = prices.amount(hourly, price["currency"])
        less = "" if any(each["product"] == "volume" for each in price["charges"]) else " without volumes"
        return f"{prices.amount(hours * hourly, price['currency'])} for {time}, at {at} per hour{less}"
    return f"{time}, {'paid in advance' if price and prices.is_prepaid(price) else 'whose price is not known'}"
