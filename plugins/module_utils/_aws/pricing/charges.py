# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What AWS charges for by the hour: products, and how much of them a resource uses. Performs no I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Mapping

from ..plan.planning import Action, Change
from ..plan.resources import KNOWN_AFTER_APPLY, Address, Found
from .instance_prices import REGION

HOURS_PER_MONTH = 730  # as in the AWS Pricing Calculator
# The kind of resource in the charges for nodes, and the products of which a node uses one.
GROUP = "auto_scaling_group"
PREPAID = "capacity_block"  # paid in advance, so no hour costs more
INSTANCES = (PREPAID, "instance", "spot_instance")


@dataclass(frozen=True, order=True)
class Product:
    """A product of the AWS Price List: its service, the end of its usage type, and further attributes.

    Usage types begin with a code of the region, except in some regions. `name` and `variant` describe the product in results. `unit` is
    AWS's name of the unit. `published` is the price of a unit in dollars in us-east-1, which is used if AWS tells none. Sources:
    https://aws.amazon.com/ec2/pricing/, /ebs/pricing/, /vpc/pricing/, /privatelink/pricing/, /efs/pricing/ and /fsx/lustre/pricing/.
    """

    name: str
    variant: str
    service: str
    usage: str
    unit: str = "Hrs"
    attributes: tuple[tuple[str, str], ...] = ()
    published: float | None = field(default=None, compare=False)

    @property
    def hours(self) -> int:
        return HOURS_PER_MONTH if self.unit.lower().endswith("mo") else 1


@dataclass(frozen=True)
class Charge:
    """A resource's use of a product. `quantity` is the number of units, such as instances, GB or IOPS."""

    address: Address
    product: Product
    quantity: float


Resources = Mapping[Address, Found]


def dated(price: Mapping[str, Any]) -> str:
    """Return the end of a phrase with an amount: from where and when the prices are."""
    if price["published"]:
        return f"{', partly' if price['read_at'] else ''} at prices of {REGION} of {price['published']}"
    read_at = price["read_at"]
    return f" at prices of {datetime.fromtimestamp(read_at, timezone.utc):%Y-%m-%d}" if read_at else ""


def of_nodes(price: Mapping[str, Any], groups: Iterable[str]) -> dict[str, Any]:
    """Return the price of a cluster whose running nodes are in `groups`, which contains a name for each node.

    An Auto Scaling group can have fewer nodes than its size, if AWS has ended a node or lacks capacity.
    """
    running, sizes = Counter(groups), Counter[str]()
    for each in price["charges"]:
        if each["kind"] == GROUP and each["product"] in INSTANCES:
            sizes[each["key"]] += each["quantity"]  # nodes of EMR clusters have several instance types
    shares = {group: running[group] / size for group, size in sizes.items() if size}
    found = [(each, shares.get(each["key"], 1.0) if each["kind"] == GROUP else 1.0) for each in price["charges"]]
    charges = [
        {**each, "quantity": each["quantity"] * share, "hourly": None if each["hourly"] is None else each["hourly"] * share}
        for each, share in found
        if share
    ]
    return {**price, "charges": charges, "hourly": known_sum(charges)}


def known_sum(charges: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the sum of the known prices. Return None if there are charges, but no price is known."""
    prices = [each["hourly"] for each in charges]
    known = [each for each in prices if each is not None]
    return sum(known) if known or not prices else None


def resources_after(plan: Iterable[Change], found: Iterable[Found]) -> dict[Address, Found]:
    """Return the resources that exist after a plan is applied, without adopted ones.

    Properties of new resources can contain references, so that the number of their subnets is known before the subnets exist.
    Parameters of wanted resources are among the properties, as when a resource has been created.
    """
    result = {item.address: item for item in found if not item.adopted}
    for change in plan:
        if change.action is Action.DELETE:
            result.pop(change.address, None)
            continue
        before = result.get(change.address, Found(change.address, KNOWN_AFTER_APPLY))
        new: dict[str, Any] = {**change.wanted.parameters, **{name: change.wanted.properties[name] for name in change.after}}
        result[change.address] = Found(change.address, before.id, {**before.properties, **new}, before.attributes)
    return result
