# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What AWS charges for by the hour: products, and how much of them a resource uses. Performs no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Mapping

from ..plan.planning import Action, Change
from ..plan.resources import KNOWN_AFTER_APPLY, Address, Found
from .instance_prices import REGION

HOURS_PER_MONTH = 730  # as in the AWS Pricing Calculator


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
        """Return the number of hours that a price of the unit is for."""
        return HOURS_PER_MONTH if self.unit.lower().endswith("mo") else 1


@dataclass(frozen=True)
class Charge:
    """A resource's use of a product. `quantity` is the number of units, such as instances, GB or IOPS."""

    address: Address
    product: Product
    quantity: float


Resources = Mapping[Address, Found]


def dated(price: Mapping[str, Any]) -> str:
    """Return the end of a phrase with an amount: from where and when the prices are, if not all are the current ones of the region."""
    if price["published"]:
        return f"{', partly' if price['read_at'] else ''} at prices of {REGION} of {price['published']}"
    read_at = price["read_at"] if price["problem"] else None
    return f" at prices of {datetime.fromtimestamp(read_at, timezone.utc):%Y-%m-%d}" if read_at else ""


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
