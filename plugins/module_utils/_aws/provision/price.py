# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What a cluster costs before and after a run."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..client import AwsClient
from ..component import Alternative
from ..message_parts import P
from ..node_group.capacity import zones_in_use
from ..plan.planning import Change
from ..plan.resources import Address, Found
from ..pricing.cache import RETRY
from ..pricing.charges import Charge, dated, resources_after
from ..pricing.estimate import Estimate, Place
from ..tags import EMR_COMPONENT
from .components import charges
from .context import Run


class Forbidden(NamedTuple):
    """Why the definition forbids the price of the cluster after the changes, and what to do."""

    reason: str
    advice: str


def price_after(run: Run, plan: Iterable[Change], found: Sequence[Found], alternative: Alternative | None) -> Estimate | None:
    """Return the price of the resources in `found` after a plan, compared with the price before the run.

    Return None if the definition sets `prices` to false. Show a warning if the price exceeds `price_warning` or is not known. The
    zones of `alternative`, or else those of the Auto Scaling groups, are the zones in which Spot Instances are launched.
    """
    if not run.request.options["prices"]:
        return None
    after = charges(resources_after(plan, found), alternative.zones if alternative else zones_in_use(found))
    estimate = Estimate(run.request.cloud, charges(resources_after((), run.before), zones_in_use(run.before)), after)
    warning = price_warning(run, estimate)
    if warning:
        run.module.warn(warning)
    return estimate


def price_warning(run: Run, estimate: Estimate) -> str:
    """Return that the price exceeds `price_warning` or is not known, or an empty string."""
    reason = " and ".join(each for each in (_excess(run, estimate.describe()), _unknown(run, estimate)) if each)
    playbooks = "emr with --check" if run.request.manages(EMR_COMPONENT) else "validate or info"
    return f"{P}price_warning: {reason}. To see what costs how much, run the playbook {playbooks}." if reason else ""


def forbidden_price(run: Run, plan: Sequence[Change], found: Sequence[Found], alternative: Alternative | None) -> Forbidden | None:
    """Return why the definition forbids the price of the cluster after the changes, or None if it does not."""
    estimate = price_after(run, plan, found, alternative) if plan and run.request.options["enforce_price_warning"] else None
    if not estimate:
        return None
    price, unknown = estimate.describe(), _unknown(run, estimate)
    rises = sum(estimate.difference(change.address) or 0 for change in plan) > 0
    if rises and (excess := _excess(run, price)):
        return Forbidden(excess, f"To make the changes, set {P}enforce_price_warning: false or a higher {P}price_warning.")
    return Forbidden(unknown, _advice(price["problem"])) if unknown else None


def _advice(problem: str) -> str:
    """Return what to do about a price that is not known. `problem` is why AWS has not told a price, or an empty string."""
    told = (
        f"AWS has not told all prices: {problem.rstrip('.')}. Allow pricing:GetProducts and, for Spot Instances, "
        f"ec2:DescribeSpotPriceHistory, and run again after {RETRY // 60} minutes. "
    )
    return f"{told if problem else ''}To make the changes although the price is not known, set {P}enforce_price_warning: false."


def price_of_billed(run: Run, applied: Iterable[Change], billed: Container[Address]) -> str:
    """Return a sentence about the price of these resources, after a run that fails. Sends no request to AWS."""
    if not run.request.options["prices"]:
        return ""
    after = [each for each in charges(resources_after(applied, run.before), ()) if each.address in billed]
    price = Estimate(Place(run.request.cloud.region), (), after).describe()
    return f" These resources cost {price['hourly']:.3f} {price['currency']} per hour{dated(price)}." if price["hourly"] else ""


def _unknown(run: Run, estimate: Estimate) -> str:
    """Return which prices that the changes add are not known and so can exceed `price_warning`, or an empty string."""
    unknown = estimate.unknown() if run.request.options["price_warning"] is not None else []
    return f"the price of {', '.join(unknown)} is not known" if unknown else ""


def _excess(run: Run, price: Mapping[str, Any]) -> str:
    """Return by how much the cluster costs more per day than the definition expects, or an empty string."""
    limit, daily = run.request.options["price_warning"], 24 * (price["hourly"] or 0)
    if limit is None or daily <= limit:
        return ""
    least = "at least " if any(each["hourly"] is None for each in price["charges"]) else ""
    return (
        f"cluster {run.request.cloud.cluster} costs {least}{daily:,.2f} {price['currency']} per day{dated(price)}, more than the "
        f"{limit:,.2f} that the definition expects"
    )


def price_of(cloud: AwsClient, found: Sequence[Found], others: Iterable[Charge]) -> Estimate:
    return Estimate(cloud, (), [*charges(resources_after((), found), zones_in_use(found)), *others])
