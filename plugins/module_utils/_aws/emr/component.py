# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The component for an EMR cluster, which the module `emr_cluster` provisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ..client import ClusterError
from ..component import Component, Request
from ..message_parts import P
from ..plan.planning import Action, Change
from ..plan.resources import Found, Wanted, printable
from ..tags import EMR_COMPONENT
from . import definition, resources
from .charges import charges
from .definition import CLUSTER
from .iam_actions import IAM_ACTIONS
from .volumes import volumes


def _read(request: Request, _found: Sequence[Found]) -> list[Found]:
    return resources.read(request)


def _wanted(request: Request, found: Sequence[Found]) -> Iterator[Wanted]:
    options = request.options
    roles = definition.wanted_roles(options, request.cloud.region) if options["emr_create_default_roles"] else []
    cluster = next((item for item in found if item.address == CLUSTER), None)
    has_task_group = cluster is not None and "TASK" in cluster.attributes["groups"]
    yield from roles
    after = [role.address for role in roles]
    wanted = definition.wanted_cluster(options, request.tags(EMR_COMPONENT), has_task_group=has_task_group, after=after)
    before = cluster.properties if cluster else {}
    changed = {name: value for name, value in wanted.properties.items() if value not in (None, before.get(name))}
    stays = before and not definition.needs_replacement(before, changed)
    yield replace(wanted, parameters={**wanted.parameters, "volumes": before["volumes"] if stays else volumes(request)})
    yield from definition.wanted_steps(options)


def _keeps(_request: Request, item: Found) -> bool:
    """Return whether to keep a resource.

    Only the cluster is deleted, because EMR keeps steps, and because all EMR clusters in the account share the default roles.
    """
    return item.address.kind != CLUSTER.kind


def _predict(_request: Request, plan: Sequence[Change], found: Sequence[Found]) -> list[Found]:
    """Return `found`. If the plan replaces the cluster, omit the former steps, because the new cluster runs all steps again."""
    replaces = any(_replaced(change) for change in plan)
    return [item for item in found if not replaces or item.address.kind != "emr_step"]


def _replaced(change: Change) -> list[str]:
    """Return the names of the changed properties that require a replacement of the cluster."""
    updates = change.address == CLUSTER and change.action is Action.UPDATE
    return definition.needs_replacement(change.before, change.after) if updates else []


def _refuse(request: Request, plan: Sequence[Change], _found: Sequence[Found]) -> None:
    """Refuse a replacement that the definition does not allow, and the termination of a protected cluster."""
    for change in plan:
        names = _replaced(change)
        if names and not request.options["emr_replace"]:
            raise ClusterError(_describe_replacement(change, names))
        ends = names or (change.address == CLUSTER and change.action is Action.DELETE)
        protected = change.found is not None and change.found.properties.get("termination_protection")
        if ends and protected and request.options.get("emr_termination_protection") is not False:
            raise ClusterError(
                f"{P}emr_termination_protection: EMR cluster {change.found.id if change.found else ''} is protected against termination. "
                "To allow its termination, set this option to false."
            )


def _describe_replacement(change: Change, names: Iterable[str]) -> str:
    differences = "; ".join(f"{name} is {printable(change.before[name])!r}, not {printable(change.after[name])!r}" for name in names)
    return (
        f"EMR cluster {change.found.id if change.found else ''} differs from the definition in settings that EMR cannot change in place: "
        f"{differences}. Restore the former values, or set {P}emr_replace: true. The run then replaces the cluster, and the data on HDFS "
        "is lost."
    )


EMR = Component(EMR_COMPONENT, resources.KINDS, IAM_ACTIONS, _read, _wanted, _keeps, refuse=_refuse, predict=_predict, charges=charges)
