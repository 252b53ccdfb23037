# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Second stage: run the validators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..client import ClusterError
from ..component import Request
from ..node_group import capacity
from ..node_group.component import NODE_GROUP
from ..plan.planning import Change, make_plan
from ..plan.resources import Found
from ..tags import NODES_COMPONENT
from ..validator import Finding, Level, find_all
from . import report
from .components import KINDS
from .context import Run

OUTDATED_NODES = "outdated_nodes"


def validate(run: Run, found: Sequence[Found]) -> list[Finding]:
    """Show warnings and return all findings. If there are errors, exit the module with one message that contains only the errors."""
    request = run.request
    launches = request.manages(NODES_COMPONENT) and (capacity.launches_nodes(request, found) or _changes_launch_template(request, found))
    findings = find_all(run.validators, request, found, suppressed=request.options["suppress_validators"], launches=launches)
    errors = [finding.message for finding in findings if finding.level is Level.ERROR]
    if errors:
        run.module.fail_json(msg="\n".join(errors), valid=False, findings=[finding.as_dict() for finding in findings])
    for finding in findings:
        if finding.level is Level.WARNING:
            run.module.warn(f"{finding.message} (validator {finding.validator})")
    return findings


def outdated_nodes(run: Run, deferred: Sequence[Change]) -> list[Finding]:
    """Show and return a warning if a run would leave outdated nodes, whose replacement is deferred.

    Only validation runs need this function, because a provisioning run finds outdated nodes in its own plan.
    """
    message = report.describe_outdated(run.request.cloud.cluster, deferred)
    if not message or OUTDATED_NODES in run.request.options["suppress_validators"]:
        return []
    run.module.warn(f"{message} (validator {OUTDATED_NODES})")
    return [Finding(OUTDATED_NODES, Level.WARNING, message)]


def _changes_launch_template(request: Request, found: Sequence[Found]) -> bool:
    """Return True if the definition of new nodes has changed or cannot be determined.

    If the definition has changed, the resources that new nodes need must exist even if the run does not launch nodes. AWS then performs a
    test launch with the changed template.
    """
    try:
        wanted = [*NODE_GROUP.wanted(replace(request, chosen=capacity.choices(request, found)[0]), found)]
    except (ClusterError, ValueError):
        return True
    return bool(make_plan([item for item in wanted if item.address.kind == "launch_template"], found, KINDS, keep=lambda _item: True))
