# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What the components share with which AWS ends a cluster's nodes: the lease, and the end of idle nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, Iterable

from .client import AwsClient, ClientError, ClusterError
from .component import Request
from .error_codes import DENIED, error_code
from .error_messages import denial
from .plan.planning import Action, Change
from .plan.resources import Found
from .tags import END_TAGS


class NodesEnded(ClusterError):
    """The run would launch nodes again that AWS has ended."""


Reads = Callable[[AwsClient], Iterable[Found]]


def read(request: Request, nodes: Sequence[Found], component: str, reads: Reads, reads_without_role: Reads) -> list[Found]:
    """Return the resource of a component whose option has the same name.

    If the option is not set, make no request if the groups have no tag that says that there is a resource. If there are no groups, AWS
    may have ended them. If its role has been deleted, look for the rest of it where there should or may be one.
    """
    groups = [item for item in nodes if item.address.kind == "auto_scaling_group"]
    tagged = any(END_TAGS[component] in item.properties["tags"] for item in groups)
    is_needed = tagged or bool(request.present and request.options.get(component))
    if not _may_exist(request, component, bool(groups) and not tagged):
        return []
    found = _allowed(request, component, reads, "GetRole", is_needed)
    if not found and (is_needed or (request.options.get("state") == "absent" and not groups)):
        found = _allowed(request, component, reads_without_role, "", is_needed)
    return found


def _allowed(request: Request, component: str, reads: Reads, optional: str, is_needed: bool) -> list[Found]:
    """Return what `reads` returns, or nothing if the run has no permission for it and need not have it.

    Without permissions for it, a run can change clusters that have none. A role that can be read shows that there is one, so only the
    operation `optional` may be denied, or any if it is empty. A run that only shows what there is warns instead of failing.
    """
    try:
        return list(reads(request.cloud))
    except ClientError as error:
        if "state" not in request.options and error_code(error) in DENIED:  # the run only shows what there is
            request.cloud.module.warn(f"{component}: cannot be read: {denial(error)}")
            request.unread.add(component)
            return []
        if is_needed or error.operation_name != (optional or error.operation_name) or error_code(error) not in DENIED:
            raise
        return []


def _may_exist(request: Request, component: str, has_none: bool) -> bool:
    """Return whether the run manages a resource that may exist. `has_none` says that there are groups, and that none has the tag."""
    if "state" in request.options and not request.manages(component):
        return False
    return not has_none or bool(request.options.get(component)) or request.options.get("state") == "absent"


def launches(change: Change) -> bool:
    """Return whether a change creates or enlarges a group. Until AWS has deleted the groups, they still exist."""
    grows = change.after.get("size", 0) > change.before.get("size", 0)
    return change.address.kind == "auto_scaling_group" and (change.action is Action.CREATE or grows)
