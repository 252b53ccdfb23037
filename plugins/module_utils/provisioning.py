# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The common way of all modules that provision: read, validate, plan, apply, report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import validation
from ._aws import AnsibleAWSModule, Cloud, CloudError, fail
from ._file_system import definition as file_system_definition
from ._file_system.unit import UNIT as FILE_SYSTEM
from ._instance_role.unit import UNIT as INSTANCE_ROLE
from ._network import addresses
from ._network.unit import UNIT as NETWORK
from ._nodes.unit import UNIT as NODES
from ._plan.execute import ApplyError, apply_plan
from ._plan.plan import Action, Change, ForbiddenChange, make_plan
from ._plan.resources import KNOWN_AFTER_APPLY, Found, Wanted, printable, references
from ._validators.base import Level, find_all
from ._validators.registry import VALIDATORS
from .unit import Request, Unit

try:
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError:
    pass  # AnsibleAWSModule reports it

ALL_UNITS = (NETWORK, FILE_SYSTEM, INSTANCE_ROLE, NODES)
KINDS = {kind.name: kind for unit in ALL_UNITS for kind in unit.kinds}
UNIT_OF_KIND = {kind.name: unit for unit in ALL_UNITS for kind in unit.kinds}


def run(argument_spec: Mapping[str, Any], units: Sequence[Unit]) -> None:
    """The main function of a module that provisions C(units); of the nodes only one group if it has the option C(group)."""
    module = AnsibleAWSModule(argument_spec=dict(argument_spec), supports_check_mode=True, mutually_exclusive=_exclusive(argument_spec))
    try:
        Provisioning(module, units).run()
    except (CloudError, ForbiddenChange, addresses.AddressPlanError, BotoCoreError, ClientError) as error:
        fail(module, error)


def _exclusive(argument_spec: Mapping[str, Any]) -> list[tuple[str, ...]]:
    pair = ("image_id", "image_parameter")
    return [pair] if set(pair) <= argument_spec.keys() else []


def read_all(request: Request) -> list[Found]:
    """Everything of the cluster that exists, and what it adopts."""
    with ThreadPoolExecutor(len(ALL_UNITS)) as pool:
        network = pool.submit(NETWORK.read, request, ())
        others = [pool.submit(unit.read, request, ()) for unit in (INSTANCE_ROLE, NODES)]
        found = network.result()
        found += FILE_SYSTEM.read(request, tuple(found))
        for other in others:
            found += other.result()
    return found


class Provisioning:
    """One run of one module."""

    def __init__(self, module: AnsibleAWSModule, units: Sequence[Unit]) -> None:
        self.module, self.units = module, units
        options = {**module.params, "tags": {name: str(value) for name, value in module.params["tags"].items()}}
        findings = list(validation.cluster_name(options["cluster"]))
        if findings:
            raise CloudError(" ".join(findings))
        cloud = Cloud(module, options["cluster"], wait_timeout=options["wait_timeout"], tags=options["tags"])
        self.request = Request(cloud, options, frozenset(unit.component for unit in units))

    def run(self) -> None:
        request = self.request
        found = read_all(request)
        if request.present:
            self._validate(found)
        wanted = [item for unit in self.units for item in unit.wanted(request, found)] if request.present else []
        plan = make_plan(wanted, found, KINDS, keep=self._keeps)
        if request.present:
            self._refuse_missing(wanted, found)
        else:
            self._refuse_used(plan, found)
        for unit in self.units:
            unit.refuse(request, plan, found)
        result: dict[str, Any] = {
            "changed": bool(plan),
            "changes": [change.describe() for change in plan],
            "diff": [_difference(change) for change in plan],
        }
        if self.module.check_mode:
            self.module.exit_json(**result, resources=_predicted(plan, found))
        try:
            after = apply_plan(request.cloud, plan, found, KINDS, wait_for_all=request.options["wait"])
        except ApplyError as error:
            self._fail_applying(error)
        data = [item.id for item in after.values() if item.address == file_system_definition.FILE_SYSTEM and not item.adopted]
        self.module.exit_json(**result, resources=_ids(after.values()), kept=[] if request.present else data)

    def _validate(self, found: Sequence[Found]) -> None:
        findings = find_all(VALIDATORS, self.request, found, suppressed=self.request.options["suppress_validators"])
        for finding in findings:
            if finding.level is Level.WARNING:
                self.module.warn(f"{finding.message} (validator {finding.validator})")
        errors = [finding.message for finding in findings if finding.level is Level.ERROR]
        if errors:
            self.module.fail_json(msg=" ".join(errors), findings=[finding.as_dict() for finding in findings])

    # What is refused

    def _keeps(self, item: Found) -> bool:
        """Whether a resource that is not wanted stays all the same."""
        unit = UNIT_OF_KIND[item.address.kind]
        return unit not in self.units or unit.keeps(self.request, item)

    def _refuse_missing(self, wanted: Sequence[Wanted], found: Sequence[Found]) -> None:
        """What this module's resources refer to must exist, unless this is only a prediction."""
        known = {item.address for item in wanted} | {item.address for item in found}
        missing = sorted({str(address) for item in wanted for address in references(item.properties) if address not in known})
        if missing and not self.module.check_mode:
            raise CloudError(
                f"The cluster {self.request.cloud.cluster} has no {', '.join(missing)} yet. Create its network, file system and role first."
            )

    def _refuse_used(self, plan: Sequence[Change], found: Sequence[Found]) -> None:
        """What other units still build on stays."""
        managed = {kind.name for unit in self.units for kind in unit.kinds}
        users = {
            str(item.address)
            for change in plan
            for item in found
            if item.address.kind in set(KINDS[change.address.kind].deleted_after) - managed and not item.adopted
        }
        if users:
            raise CloudError(f"Still in use by {', '.join(sorted(users))} of cluster {self.request.cloud.cluster}. Delete those first.")

    def _fail_applying(self, error: ApplyError) -> None:
        applied = [change.describe() for change in error.applied]
        done = ", ".join(f"{change.action.value} {change.address}" for change in error.applied) or "nothing"
        message = CloudError(f"{str(error).rstrip('.')}. Applied so far: {done}. The next run carries on from there.")
        fail(self.module, message, changed=bool(applied), changes=applied)


def _difference(change: Change) -> dict[str, Any]:
    header = f"{change.action.value} {change.address}"
    before, after = printable(change.before), printable(change.after)
    return {"before_header": header, "after_header": header, "before": before or "", "after": after or ""}


def _ids(found: Iterable[Found]) -> dict[str, dict[str, str]]:
    result: dict[str, dict[str, str]] = {}
    for item in sorted(found, key=lambda item: item.address):
        result.setdefault(item.address.kind, {})[item.address.key] = item.id
    return result


def _predicted(plan: Iterable[Change], found: Iterable[Found]) -> dict[str, dict[str, str]]:
    items = {item.address: item for item in found}
    for change in plan:
        if change.action is Action.DELETE:
            del items[change.address]
        elif change.action is Action.CREATE:
            items[change.address] = Found(change.address, KNOWN_AFTER_APPLY)
    return _ids(items.values())
