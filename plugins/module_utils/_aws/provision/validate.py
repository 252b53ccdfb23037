# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Second stage: run the validators."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import capacity
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Found
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision.context import Run
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.tags import NODES_COMPONENT
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validator import Finding, Level, find_all
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validators.registry import VALIDATORS


def validate(run: Run, found: Sequence[Found]) -> list[Finding]:
    """Show warnings and return all findings. If there are errors, exit the module with one message that contains all of them."""
    request = run.request
    launches = request.manages(NODES_COMPONENT) and capacity.launches_nodes(request, found)
    findings = find_all(VALIDATORS, request, found, suppressed=request.options["suppress_validators"], launches=launches)
    for finding in findings:
        if finding.level is Level.WARNING:
            run.module.warn(f"{finding.message} (validator {finding.validator})")
    errors = [finding.message for finding in findings if finding.level is Level.ERROR]
    if errors:
        run.module.fail_json(msg="\n".join(errors), valid=False, findings=[finding.as_dict() for finding in findings])
    return findings
