# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The common way of all modules that provision: read, validate, plan, apply, report."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import (
    SDK_ERRORS,
    AnsibleAWSModule,
    AwsClient,
    ClusterError,
    Interrupted,
    WaitTimeout,
    error_code,
    fail,
    worth_another_look,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Alternative, Component, Request
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instance_role.component import INSTANCE_ROLE
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instances import WORKERS, group_name
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network import addresses, leftovers
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network import definition as network_definition
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network.component import NETWORK
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import capacity, members
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.component import NODE_GROUP
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.definition import (
    auto_scaling_group,
    launch_template,
    nodes,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.launch_templates import foresee_versions
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.members import Shortage
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.execute import ApplyError, apply_plan
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import (
    Action,
    Change,
    ForbiddenChange,
    make_plan,
    split_replacing,
    users_of,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import (
    KNOWN_AFTER_APPLY,
    Found,
    Ref,
    Wanted,
    printable,
    references,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.registry import STORAGE
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validator import Finding, Level, find_all
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validators import rules
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validators.registry import VALIDATORS

ALL_COMPONENTS = (NETWORK, *STORAGE, INSTANCE_ROLE, NODE_GROUP)
# What AWS bills as long as it is there, whether nodes use it or not
BILLED = {
    "elastic_ip": "elastic IP address",
    "nat_gateway": "NAT gateway",
    "vpc_endpoint": "interface endpoint",
    **{kind: name for component in ALL_COMPONENTS for kind, name in component.billed.items()},
}
DESTROY = "ansible-playbook deeplearning.cluster.destroy, file systems with -e deeplearning_delete_data=true."
DATA = frozenset(kind for component in ALL_COMPONENTS for kind in component.data_kinds)
KINDS = {kind.name: kind for component in ALL_COMPONENTS for kind in component.kinds}
LOOKS = 3  # at AWS, when it is not as it seemed
LOOK_AGAIN_AFTER = 3  # seconds, within which AWS shows what it has just made
SWEEP_TIMEOUT = 30  # seconds for which AWS may show what is gone
COMPONENT_OF_KIND = {kind.name: component for component in ALL_COMPONENTS for kind in component.kinds}


def run(argument_spec: Mapping[str, Any], components: Sequence[Component], *, only_validate: bool = False) -> None:
    """The main function of a module that provisions C(components); of the nodes only one group if it has the option C(group).

    With C(only_validate) it asks the validators and nothing more.
    """
    module = AnsibleAWSModule(argument_spec=dict(argument_spec), supports_check_mode=True, mutually_exclusive=_exclusive(argument_spec))
    try:
        provisioning = Provisioning(module, components)
        with interruptible(provisioning.request.cloud):
            if only_validate:
                provisioning.validate()
            provisioning.run()
    except Interrupted:
        provisioning.fail_interrupted()
    except (ClusterError, *SDK_ERRORS, ForbiddenChange, addresses.AddressPlanError) as error:
        fail(module, error)


def _exclusive(argument_spec: Mapping[str, Any]) -> list[tuple[str, ...]]:
    ways = ("image_id", "image_parameter", "image_framework")
    return [ways] if set(ways) <= argument_spec.keys() else []


@contextlib.contextmanager
def interruptible(cloud: AwsClient) -> Iterator[None]:
    """Within this, the first SIGINT or SIGTERM lets calls to AWS end and starts no others. The second one ends the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    def interrupt(*_: Any) -> None:
        restore()
        cloud.interruption.set()

    for number in handlers:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        restore()


def read_all(request: Request) -> list[Found]:
    """Everything of the cluster that exists, and what it adopts."""
    results: dict[str, Future[list[Found]]] = {}

    def read(component: Component) -> list[Found]:
        return component.read(request, [item for name in component.reads_after for item in results[name].result()])

    with ThreadPoolExecutor(len(ALL_COMPONENTS)) as pool:
        for component in ALL_COMPONENTS:
            results[component.name] = pool.submit(read, component)
        return [item for result in results.values() for item in result.result()]


class Provisioning:
    """One run of one module."""

    def __init__(self, module: AnsibleAWSModule, components: Sequence[Component]) -> None:
        self.module, self.components = module, components
        options = {**module.params, "tags": {name: str(value) for name, value in module.params["tags"].items()}}
        findings = list(rules.cluster_name(options["cluster"]))
        if findings:
            raise ClusterError(" ".join(findings))
        cloud = AwsClient(module, options["cluster"], wait_timeout=options["wait_timeout"], tags=options["tags"])
        self.request = Request(cloud, options, frozenset(component.name for component in components), storage=STORAGE)
        self._before, self._applied = list[Found](), list[Change]()

    def run(self) -> None:
        found = self._before = read_all(self.request)
        if self.request.present:
            self._validate(found)
            self._make(found)
        else:
            self._delete(found)

    def _make(self, before: Sequence[Found]) -> NoReturn:
        """Brings the cluster to what is wanted, with the first alternative of which AWS has enough nodes."""
        ways = capacity.choices(self.request, before) if NODE_GROUP in self.components else [None]
        found, applied, shortages = before, list[Change](), list[str]()
        request = self.request
        for way in ways:
            request = replace(request, chosen=way)
            plan, deferred = self._plan(request, found)
            if self.request.options["wait"] and capacity.mixes(plan, found):
                request, found = self._without_nodes(request, found)
                plan, deferred = self._plan(request, found)
            if self.module.check_mode:
                self._exit(plan, found=_predicted(plan, found), deferred=deferred, alternative=way)
            if any(change.address.kind == "nodes" for change in plan):
                request.cloud.progress("AWS launches nodes from here on, also when this run is interrupted; the next run finds them")
            try:
                changes, after = self._converge(partial(self._plan_now, request), found)
            except ApplyError as error:
                applied += error.applied
                if not isinstance(error.cause, Shortage):
                    self._fail_applying(error, applied)
                shortages.append(f"{way}: {error.cause}")
                request.cloud.progress(shortages[-1])
                if way is not ways[-1]:
                    request, found = self._without_nodes(request, found, shortages)
            else:
                self._exit([*applied, *changes], found=after, deferred=deferred, alternative=way)
        self._step_back(before, shortages)
        message = f"AWS does not have the nodes. {' '.join(shortages)} The groups of nodes are as they were before."
        bill = _bill(before, applied)
        if bill:
            message += f"{bill} Run again when AWS may have nodes, or delete them with {DESTROY}"
        fail(self.module, ClusterError(message), changed=bool(applied), changes=[change.describe() for change in applied])

    def _plan(self, request: Request, found: Sequence[Found]) -> tuple[list[Change], list[Change]]:
        """The changes to apply, and those that wait until nodes may be replaced. Raises ClusterError for what would do harm."""
        wanted = [item for component in self.components for item in component.wanted(request, found)]
        plan = make_plan(wanted, found, KINDS, keep=self._keeper(found))
        foreseen = found
        for component in self.components:
            foreseen = component.foresee(request, plan, foreseen)
        plan = make_plan(wanted, foreseen, KINDS, keep=self._keeper(found))
        self._refuse_missing(wanted, found)
        for component in self.components:
            component.refuse(request, plan, found)
        return (plan, []) if NODE_GROUP not in self.components or capacity.is_moving(request, found) else split_replacing(plan, KINDS)

    def _plan_now(self, request: Request, found: Sequence[Found]) -> list[Change]:
        return self._plan(request, found)[0]

    def _plan_deletion(self, found: Sequence[Found]) -> list[Change]:
        plan = make_plan([], found, KINDS, keep=self._keeper(found))
        self._refuse_used(plan, found)
        for component in self.components:
            component.refuse(self.request, plan, found)
        return plan

    def _delete(self, found: Sequence[Found]) -> NoReturn:
        if self.module.check_mode:
            plan = self._plan_deletion(found)
            self._exit(plan, found=_predicted(plan, found))
        try:
            changes, after = self._converge(self._plan_deletion, found)
        except ApplyError as error:
            self._fail_applying(error, error.applied, self._in_the_way(error, found))
        data = [item.id for item in after if item.address.kind in DATA and not item.adopted]
        self._exit(changes, found=after, kept=data, left=self._leftovers(changes) if self.components == ALL_COMPONENTS else ())

    def _converge(self, make: Callable[[Sequence[Found]], list[Change]], found: Sequence[Found]) -> tuple[list[Change], list[Found]]:
        """Applies the plan that C(make) makes; when AWS is not as it seemed, looks at it again and goes on from there. Raises ApplyError.

        So an answer that was lost makes nothing twice: what the call has made is found by its tags.
        """
        applied = list[Change]()
        for looks_left in reversed(range(LOOKS)):
            plan = make(found)
            try:
                after = apply_plan(
                    self.request.cloud,
                    plan,
                    found,
                    KINDS,
                    wait_for_all=self.request.options["wait"],
                    before_each=partial(self.request.cloud.pause, 0),
                )
            except ApplyError as error:
                applied += error.applied
                self._applied += error.applied
                error.applied = applied
                if not looks_left or not worth_another_look(error.cause):
                    raise
                self.request.cloud.pause(LOOK_AGAIN_AFTER)
                found = read_all(self.request)
            else:
                self._applied += plan
                return [*applied, *plan], list(after.values())
        raise AssertionError("the last look returns or raises")

    def _in_the_way(self, error: ApplyError, found: Sequence[Found]) -> str:
        """What is in the VPC besides what was to go, when AWS says that something is."""
        vpc = next((item for item in found if item.address == network_definition.VPC), None)
        if vpc is None or error_code(error.cause) != "DependencyViolation":
            return ""
        ours = {item.id for item in found}
        foreign = [text for text in leftovers.in_vpc(self.request.cloud, vpc.id) if not any(id_ in text.split("(")[-1] for id_ in ours)]
        return f" Not of this cluster, or not gone yet, in {vpc.id}: {'; '.join(foreign)}." if foreign else ""

    def _leftovers(self, plan: Sequence[Change]) -> list[str]:
        """What AWS still shows of the cluster after all was deleted that was to be, in words."""
        deleted = {change.address: change.found.id for change in plan if change.found}
        left: list[str] = []

        def gone() -> bool:
            found = [item for item in read_all(self.request) if deleted.get(item.address) == item.id and not item.adopted]
            left[:] = [f"{item.address} ({item.id})" for item in found] + leftovers.tagged(self.request.cloud)
            return not left

        try:
            self.request.cloud.wait_until("A look at what is left", gone, timeout=SWEEP_TIMEOUT)
        except WaitTimeout:
            self.module.warn(f"Left in AWS after the deletion of {self.request.cloud.cluster}: {', '.join(left)}.")
        return left

    def _without_nodes(self, request: Request, found: Sequence[Found], shortages: Sequence[str] = ()) -> tuple[Request, list[Found]]:
        """The request, and what there is, once the nodes of a cluster have ended that has accepted none of them.

        What is tried next may need their capacity, their quota and the placement group, so they have to be gone.
        """
        if self.module.check_mode:
            return request, _predicted(_emptying(found), found)
        self._change_groups(_emptying, shortages)
        request.cloud.wait_until(
            "The end of the nodes that were too few",
            lambda: not members.leaving(request.cloud),
            timeout=max(request.cloud.wait_timeout, members.END_TIMEOUT),
            pause=members.END_PAUSE,
        )
        return replace(request, past_activities=capacity.activity_ids(request.cloud)), read_all(request)

    def _step_back(self, before: Sequence[Found], shortages: Sequence[str]) -> None:
        """Puts the groups of nodes back as they were. New ones go."""
        kinds = ("auto_scaling_group", "launch_template")
        properties = {item.address: item.properties for item in before if item.address.kind in kinds}
        for address in properties:
            template = launch_template(address.key)
            if address.kind == "auto_scaling_group" and template in properties:
                # The template gets its old content back by a new version
                properties[address] = {**properties[address], "template_version": Ref(template, "version")}
        wanted = [Wanted(address, each) for address, each in properties.items()]
        make = partial(make_plan, wanted, kinds=KINDS, keep=lambda item: item.address.kind not in kinds)
        self._change_groups(lambda found: make(foresee_versions(make(found), found, replacing=True)), shortages)

    def _change_groups(self, make: Callable[[Sequence[Found]], list[Change]], shortages: Sequence[str]) -> None:
        try:
            self._converge(make, NODE_GROUP.read(self.request, ()))
        except ApplyError as error:
            self._fail_applying(error, error.applied, "".join(f" Before that: {shortage}" for shortage in shortages))

    def _exit(
        self,
        changes: Sequence[Change],
        *,
        found: Iterable[Found],
        deferred: Sequence[Change] = (),
        alternative: Alternative | None = None,
        kept: Sequence[str] = (),
        left: Sequence[str] = (),
    ) -> NoReturn:
        found = list(found)
        if deferred:
            self.module.warn(_waiting(deferred))
        degraded = self._degraded(found)
        if degraded:
            self.module.warn(
                f"The cluster has {degraded['workers']} of {degraded['wanted']} workers, which worker_minimum allows. "
                f"{degraded['reason'] or ''} Set grow: true to try for the rest."
            )
        self.module.exit_json(
            changed=bool(changes),
            changes=[change.describe() for change in changes],
            diff=[difference(change) for change in changes],
            deferred=[change.describe() for change in deferred],
            resources=_ids(found),
            alternative=alternative and str(alternative),
            degraded=degraded,
            kept=list(kept),
            leftovers=list(left),
        )
        raise AssertionError("exit_json returned")

    def _degraded(self, found: Iterable[Found]) -> dict[str, Any] | None:
        """How many workers a smaller cluster was accepted with, and why."""
        known = {item.address: item for item in found if item.id != KNOWN_AFTER_APPLY}
        workers, group, wanted = known.get(nodes(WORKERS)), known.get(auto_scaling_group(WORKERS)), self.request.options.get("worker_count")
        if not self.request.present or workers is None or group is None or not wanted:
            return None
        # Who does not wait does not know yet how many come
        count: int = len(workers.properties["numbers"]) if self.request.options["wait"] else group.properties["size"]
        return None if count >= wanted else {"workers": count, "wanted": wanted, "reason": workers.attributes.get("shortage")}

    def validate(self) -> NoReturn:
        """Tells what the validators find. About a cluster that is to be deleted there is nothing to ask."""
        findings = self._validate(read_all(self.request)) if self.request.present else []
        self.module.exit_json(changed=False, valid=True, findings=[finding.as_dict() for finding in findings])
        raise AssertionError("exit_json returned")

    def _validate(self, found: Sequence[Found]) -> list[Finding]:
        """Ends the module if there are errors, all in one message, and returns the warnings that it gave."""
        findings = find_all(VALIDATORS, self.request, found, suppressed=self.request.options["suppress_validators"])
        for finding in findings:
            if finding.level is Level.WARNING:
                self.module.warn(f"{finding.message} (validator {finding.validator})")
        errors = [finding.message for finding in findings if finding.level is Level.ERROR]
        if errors:
            self.module.fail_json(msg="\n".join(errors), valid=False, findings=[finding.as_dict() for finding in findings])
        return findings

    # What is refused

    def _keeper(self, found: Sequence[Found]) -> Callable[[Found], bool]:
        """Tells what stays though it is not wanted. Data stays where it is: in its subnet, behind its security groups."""
        held = _referred_to([item for item in found if item.address.kind in DATA and self._keeps(item)], found)
        return lambda item: item.id in held or self._keeps(item)

    def _keeps(self, item: Found) -> bool:
        """Whether a resource that is not wanted stays all the same."""
        component = COMPONENT_OF_KIND[item.address.kind]
        return component not in self.components or component.keeps(self.request, item)

    def _refuse_missing(self, wanted: Sequence[Wanted], found: Sequence[Found]) -> None:
        """What this module's resources refer to must exist, unless this is only a prediction."""
        known = {item.address for item in wanted} | {item.address for item in found}
        missing = sorted({str(address) for item in wanted for address in references(item.properties) if address not in known})
        if missing and not self.module.check_mode:
            raise ClusterError(
                f"The cluster {self.request.cloud.cluster} has no {', '.join(missing)} yet. Create its network, file system and role first."
            )

    def _refuse_used(self, plan: Sequence[Change], found: Sequence[Found]) -> None:
        """What other components still build on stays."""
        managed = {kind.name for component in self.components for kind in component.kinds}
        users = {
            str(item.address)
            for change in plan
            for item in found
            if item.address.kind in users_of(change.address.kind, KINDS) - managed and not item.adopted
        }
        if users:
            raise ClusterError(f"Still in use by {', '.join(sorted(users))} of cluster {self.request.cloud.cluster}. Delete those first.")

    def _fail_applying(self, error: ApplyError, applied: Sequence[Change], more: str = "") -> NoReturn:
        if self.request.cloud.interruption.is_set():
            raise Interrupted from error
        message = ClusterError(f"{str(error).rstrip('.')}.{more} {_so_far(applied)}")
        fail(self.module, message, changed=bool(applied), changes=[change.describe() for change in applied])

    def fail_interrupted(self) -> NoReturn:
        """End the module with what is done, what AWS goes on with and what costs money."""
        cloud, applied = self.request.cloud, self._applied
        message = f"Interrupted. {_so_far(applied)}"
        costs = _launching(cloud.cluster, self._before, applied) + _bill(self._before, applied)
        if self.request.present and costs:
            message += f"{costs} To end that, delete the cluster with {DESTROY}"
        cloud.progress(f"Cluster {cloud.cluster}: {message}")
        fail(self.module, ClusterError(message), changed=bool(applied), changes=[change.describe() for change in applied])


def _so_far(applied: Iterable[Change]) -> str:
    done = ", ".join(f"{change.action.value} {change.address}" for change in applied) or "nothing"
    return f"Applied so far: {done}. The next run carries on from there."


def _launching(cluster: str, before: Iterable[Found], applied: Iterable[Change]) -> str:
    """Which groups launch nodes without the run. A sentence, or nothing."""
    there = {item.address for item in before} | {change.address for change in applied if change.action is Action.CREATE}
    names = [group_name(cluster, address.key) for address in sorted(there) if address.kind == "auto_scaling_group"]
    return f" AWS goes on launching the nodes of {' and '.join(names)}, which cost money." if names else ""


def _bill(before: Sequence[Found], applied: Iterable[Change]) -> str:
    """What stays and costs money though there are no nodes that use it. A sentence, or nothing."""
    made = {change.address for change in applied if change.action is Action.CREATE}
    if not any(item.address.kind == "auto_scaling_group" for item in before):
        made |= {item.address for item in before if not item.adopted}
    billed = [
        f"{BILLED[address.kind]} {address.key}" for address in sorted(made - {network_definition.S3_ENDPOINT}) if address.kind in BILLED
    ]
    return f" These stay and cost money: {', '.join(billed)}." if billed else ""


def _referred_to(items: Iterable[Found], found: Sequence[Found]) -> set[str]:
    """The ids of the resources that these, or those that they refer to, name in their properties."""
    known = {item.id: item for item in found}
    result: set[str] = set()
    waiting = list(items)
    while waiting:
        properties = {name: value for name, value in waiting.pop().properties.items() if name != "tags"}
        more = {text for text in _texts(properties) if text in known} - result
        result |= more
        waiting += [known[id_] for id_ in more]
    return result


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, Iterable):
        for item in value:
            yield from _texts(item)


def difference(change: Change) -> dict[str, Any]:
    """The change as Ansible shows it with C(--diff)."""
    header = f"{change.action.value} {change.address}"
    before, after = printable(change.before), printable(change.after)
    return {"before_header": header, "after_header": header, "before": before or "", "after": after or ""}


def _ids(found: Iterable[Found]) -> dict[str, dict[str, str]]:
    result: dict[str, dict[str, str]] = {}
    for item in sorted(found, key=lambda item: item.address):
        result.setdefault(item.address.kind, {})[item.address.key] = item.id
    return result


def _waiting(deferred: Iterable[Change]) -> str:
    """What would be different about which nodes."""
    templates = sorted({name for change in deferred if change.address.kind == "launch_template" for name in change.after})
    found = [change.before for change in deferred if change.address.kind == "nodes"]
    outdated, unhealthy = (sorted({number for before in found for number in before.get(name, ())}) for name in ("outdated", "unhealthy"))
    parts = []
    if templates or outdated:
        what = f"The nodes are to be launched otherwise ({', '.join(templates)})" if templates else "The launch template has changed"
        parts.append(f"{what}, which replaces nodes {', '.join(map(str, outdated))}." if outdated else f"{what}.")
    if unhealthy:
        parts.append(f"Status checks of EC2 have failed on nodes {', '.join(map(str, unhealthy))}, which are to be replaced.")
    return f"{' '.join(parts)} That waits until you run with replace_nodes: true, at a time when no job runs."


def _emptying(found: Sequence[Found]) -> list[Change]:
    """The plan that ends all nodes."""
    wanted = [Wanted(item.address, {"minimum": 0, "size": 0}) for item in found if item.address.kind == "auto_scaling_group"]
    return make_plan(wanted, found, KINDS, keep=lambda _item: True)


def _predicted(plan: Iterable[Change], found: Iterable[Found]) -> list[Found]:
    """What there would be; of what is made only its identity is told."""
    items = {item.address: item for item in found}
    for change in plan:
        if change.action is Action.DELETE:
            del items[change.address]
        elif change.action is Action.CREATE:
            items[change.address] = Found(change.address, KNOWN_AFTER_APPLY)
        else:
            item = items[change.address]
            items[change.address] = replace(item, properties={**item.properties, **change.after})
    return list(items.values())
