# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What a run removes of that which ends the nodes, such as because a colleague's definition lacks the options for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..idle import component as idle
from ..idle.definition import TERMINATE
from ..lease import component as lease
from ..plan.planning import Action, Change
from .context import Run


def removed_ends(run: Run, changes: Sequence[Change]) -> dict[str, Any]:
    """Return the lease, the end of idle nodes and the topic that changes remove, and whether nothing else ends the nodes.

    Return an empty dictionary if they remove nothing. What has already ended the nodes does not count.
    """
    request = run.request
    if not request.present:
        return {}
    deleted = [change.found for change in changes if change.action is Action.DELETE and change.found]
    former = lease.describe(request, deleted)
    found = {
        "lease": former if former and former["seconds"] > 0 else None,
        "idle": None if idle.has_ended(run.before) else idle.describe(request, deleted),
        "topic": _removed_topic(changes),
    }
    if not any(found.values()):
        return {}
    return {**found, "endless": _is_endless(found, request.options)}


def _is_endless(removed: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Return whether something that ends the nodes is removed, and nothing else ends them. Notifications about idle nodes do not."""
    ended = removed["lease"] or (removed["idle"] and removed["idle"]["then"] == TERMINATE)
    ends = options.get("lease") or (options.get("idle_after") and options["idle_then"] == TERMINATE)
    return bool(ended and not ends)


def _removed_topic(changes: Sequence[Change]) -> str | None:
    """Return the topic of the Auto Scaling groups, if the changes remove it."""
    updated = [change for change in changes if change.after.get("notifications") == {}]
    return next((topic for change in updated for topic in change.before.get("notifications", ())), None)
