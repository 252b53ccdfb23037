# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The pipeline of all provisioning modules: read, validate, plan, apply, report. Each stage has its own file in this folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from .. import message_parts
from ..client import SDK_ERRORS, AnsibleAWSModule, ClusterError, Interrupted
from ..component import Component
from ..error_messages import fail
from ..idle import component as idle
from ..lease import component as lease
from ..network.addresses import AddressPlanError
from ..node_ends import NodesEnded
from ..node_group import capacity, images
from ..node_names import WORKERS
from ..plan.errors import ForbiddenChange
from ..validator import Finding, Level, Validator
from . import report
from .attempts import provision, refuse
from .components import register
from .context import Run, make_run
from .delete import delete
from .interrupt import interruptible
from .plan import plan_changes, predict
from .price import forbidden_price, price_after, price_warning
from .read import read_all
from .removed_ends import removed_ends
from .validate import outdated_nodes, validate


def run(
    argument_spec: Mapping[str, Any], components: Sequence[Component], *, validators: Sequence[Validator] = (), only_validate: bool = False
) -> None:
    """Run a module that provisions `components` or, if it has the option `components`, those that the option chooses.

    `validators` contains the validators of components that only this module manages. With `only_validate`, the module runs the
    validators and does nothing else.
    """
    module = AnsibleAWSModule(argument_spec={**argument_spec, **message_parts.ARGUMENT_SPEC}, supports_check_mode=True)
    message_parts.use(module.params)
    register(*components)
    try:
        images.check_exclusive(module.params)
        this = make_run(module, components, validators)
        try:
            with interruptible(this.request.cloud):
                if only_validate:
                    _validate_only(this)
                _converge(this)
        except Interrupted:
            report.fail_interrupted(this)
    except NodesEnded as error:
        price = price_after(this, (), this.before, None)
        fail(module, error, nodes_ended=True, price=price and price.describe())
    except (ClusterError, *SDK_ERRORS, ForbiddenChange, AddressPlanError) as error:
        fail(module, error)


def _converge(this: Run) -> NoReturn:
    this.before = read_all(this.request)
    if not this.request.present:
        delete(this)
    validate(this, this.before)
    this.before = lease.prolonged(this.request, this.before, writes=not this.module.check_mode)
    provision(this)


def _validate_only(this: Run) -> NoReturn:
    """Exit the module with the validators' findings. With `state: absent`, the list of findings is empty."""
    this.before = found = read_all(this.request)
    findings, more = list[Finding](), dict[str, Any](price=None)
    if this.request.present:
        findings = validate(this, found)
        this.before = found = lease.prolonged(this.request, found, writes=False)
        request = replace(this.request, chosen=capacity.choices(this.request, found)[0])
        plan, deferred = plan_changes(this, request, found)
        findings += outdated_nodes(this, deferred)
        launched = capacity.launched(request, found, WORKERS)
        refuse(this, plan, forbidden_price(this, plan, found, launched))
        price, after = price_after(this, plan, found, launched), predict(plan, found)
        warning = price_warning(this, price) if price else ""
        findings += [Finding("price_warning", Level.WARNING, warning)] if warning else []
        more = {
            "price": price and price.describe(),
            "lease": lease.describe(request, after),
            "idle": idle.describe(request, after),
            "removed_ends": removed_ends(this, plan),
        }
    this.module.exit_json(changed=False, valid=True, findings=[finding.as_dict() for finding in findings], **more)
    raise AssertionError("exit_json returned")
