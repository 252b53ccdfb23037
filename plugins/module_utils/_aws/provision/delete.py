# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Plans and applies the deletion for `state: absent`, and checks for leftover resources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NoReturn

from ..client import WaitTimeout
from ..error_codes import error_code
from ..network import leftovers
from ..network.definition import VPC
from ..plan.errors import ApplyError
from ..plan.planning import Change
from ..plan.resources import Found
from . import report
from .apply import converge
from .components import ALL_COMPONENTS, DATA_KINDS
from .context import Run
from .plan import plan_deletion, predict
from .read import read_all

SWEEP_TIMEOUT = 30  # seconds during which AWS may still list deleted resources


def delete(run: Run) -> NoReturn:
    """Delete the cluster's resources that the module manages, and exit the module."""
    found = run.before
    if run.module.check_mode:
        plan = plan_deletion(run, found)
        after = predict(plan, found)
        report.succeed(run, plan, found=after, kept=_kept(after))
    try:
        changes, after = converge(run, partial(plan_deletion, run), found)
    except ApplyError as error:
        report.fail_applying(run, error, error.applied, _foreign_resources(run, error))
    left = _leftovers(run, changes) if run.components == ALL_COMPONENTS else []
    report.succeed(run, changes, found=after, kept=_kept(after), left=left)


def _kept(found: Iterable[Found]) -> list[str]:
    return [item.id for item in found if item.address.kind in DATA_KINDS and not item.adopted]


def _foreign_resources(run: Run, error: ApplyError) -> str:
    """Return a sentence about resources that prevent the deletion of the VPC, or an empty string if there are no such resources."""
    vpc = next((item for item in run.before if item.address == VPC), None)
    if vpc is None or error_code(error.cause) != "DependencyViolation":
        return ""
    ours = {item.id for item in run.before}
    foreign = [text for text in leftovers.in_vpc(run.request.cloud, vpc.id) if not any(id_ in text.split("(")[-1] for id_ in ours)]
    return (
        f" {vpc.id} still contains resources that do not belong to the cluster or that AWS has not deleted yet: {'; '.join(foreign)}."
        if foreign
        else ""
    )


def _leftovers(run: Run, plan: Sequence[Change]) -> list[str]:
    deleted = {change.address: change.found for change in plan if change.found}
    left: list[str] = []

    def is_deleted(item: Found) -> bool:
        return item.address in deleted and deleted[item.address].id == item.id

    def gone() -> bool:
        cloud, present = run.request.cloud, read_all(run.request)
        found = [item for item in present if not item.adopted and is_deleted(item)]
        # Without resources that have just been deleted, and without the network of file systems that are kept
        used = [] if found else leftovers.used(cloud, deleted.values(), kept={item.id for item in present})
        left[:] = [*(f"{item.address} ({item.id})" for item in found), *leftovers.tagged(cloud), *used]
        return not left

    try:
        run.request.cloud.wait_until("AWS to remove the deleted resources", gone, timeout=SWEEP_TIMEOUT)
    except WaitTimeout:
        run.module.warn(
            f"Cluster {run.request.cloud.cluster}: AWS still lists these resources after the deletion: {', '.join(left)}. "
            "Repeat the deletion. Delete resources that remain yourself, for example because they no longer have the tags of the cluster."
        )
    return left
