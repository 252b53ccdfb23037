# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The common way of all modules that provision: validate, read, plan, apply, report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import validation
from ._aws import IMAGE_TAG, AnsibleAWSModule, Cloud, CloudError, error_code, fail, is_missing
from ._file_system import definition as file_system_definition
from ._file_system import resources as file_system
from ._instance_role import definition as instance_role_definition
from ._instance_role import resources as instance_role
from ._network import addresses
from ._network import definition as network_definition
from ._network import resources as network
from ._nodes import definition as nodes_definition
from ._nodes import resources as nodes
from ._plan.execute import ApplyError, apply_plan
from ._plan.plan import Action, Change, ForbiddenChange, make_plan
from ._plan.resources import KNOWN_AFTER_APPLY, Address, Found, Wanted, printable, references

try:
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError:
    pass  # AnsibleAWSModule reports it

NETWORK, FILE_SYSTEM, INSTANCE_ROLE, NODES = network.COMPONENT, file_system.COMPONENT, instance_role.COMPONENT, nodes.COMPONENT
ALL_UNITS = (NETWORK, FILE_SYSTEM, INSTANCE_ROLE, NODES)
UNIT_KINDS = {unit.COMPONENT: unit.KINDS for unit in (network, file_system, instance_role, nodes)}
KINDS = {kind.name: kind for kinds in UNIT_KINDS.values() for kind in kinds}


def run(argument_spec: Mapping[str, Any], units: Sequence[str]) -> None:
    """The main function of a module that provisions C(units); of the nodes only one group if it has the option C(group)."""
    module = AnsibleAWSModule(argument_spec=dict(argument_spec), supports_check_mode=True, mutually_exclusive=_exclusive(argument_spec))
    try:
        Provisioning(module, units).run()
    except (CloudError, ForbiddenChange, addresses.AddressPlanError, BotoCoreError, ClientError) as error:
        fail(module, error)


def _exclusive(argument_spec: Mapping[str, Any]) -> list[tuple[str, ...]]:
    pair = ("image_id", "image_parameter")
    return [pair] if set(pair) <= argument_spec.keys() else []


def read_all(cloud: Cloud, file_system_id: str | None = None, *, search: bool = True) -> list[Found]:
    """Everything of the cluster that exists, and the file system that it adopts; with C(search) also one that is not named."""
    with ThreadPoolExecutor(3) as pool:
        network_found = pool.submit(network.read, cloud)
        others = [pool.submit(instance_role.read, cloud), pool.submit(nodes.read, cloud)]
        found = network_found.result()
        found += file_system.read(cloud, file_system_id, found, search=search)
        for other in others:
            found += other.result()
    return found


class Provisioning:
    """One run of one module."""

    def __init__(self, module: AnsibleAWSModule, units: Sequence[str]) -> None:
        self.module, self.units = module, units
        self.options: dict[str, Any] = module.params
        group = self.options.get("group")
        self.groups = [group] if group else [nodes_definition.MASTER, nodes_definition.WORKERS]
        self.present = self.options["state"] == "present"
        self.tags = {name: str(value) for name, value in self.options["tags"].items()}
        self._validate()
        self.cloud = Cloud(module, self.options["cluster"], wait_timeout=self.options["wait_timeout"], tags=self.tags)

    def run(self) -> None:
        # Only a definition that speaks of the file system can say that there is to be another one
        search = not self.present or FILE_SYSTEM not in self.units
        found = read_all(self.cloud, self.options.get("file_system_id"), search=search)
        wanted = list(self._wanted(found)) if self.present else []
        plan = make_plan(wanted, found, KINDS, keep=self._keeps)
        if self.present:
            self._refuse_missing(wanted, found)
            _refuse_inhabited(plan, found)
        else:
            self._refuse_used(plan, found)
        result: dict[str, Any] = {
            "changed": bool(plan),
            "changes": [change.describe() for change in plan],
            "diff": [_difference(change) for change in plan],
        }
        if self.module.check_mode:
            self.module.exit_json(**result, resources=_predicted(plan, found))
        try:
            after = apply_plan(self.cloud, plan, found, KINDS, wait_for_all=self.options["wait"])
        except ApplyError as error:
            self._fail_applying(error)
        data = [item.id for item in after.values() if item.address == file_system_definition.FILE_SYSTEM and not item.adopted]
        self.module.exit_json(**result, resources=_ids(after.values()), kept=[] if self.present else data)

    # Validation that needs nothing but the options

    def _validate(self) -> None:
        options = self.options
        findings = list(validation.cluster_name(options["cluster"]))
        if self.present:
            findings += validation.tags(self.tags)
        if self.present and NETWORK in self.units:
            findings += validation.network_cidr(options["network_cidr"])
            findings += validation.ssh_cidrs(options["ssh_cidrs"], options["allow_ssh_from_anywhere"])
        if self.present and INSTANCE_ROLE in self.units:
            findings += validation.buckets("read_buckets", options["read_buckets"])
            findings += validation.buckets("write_buckets", options["write_buckets"])
        if self.present and NODES in self.units:
            findings += validation.nodes(options)
        if findings:
            raise CloudError(" ".join(findings))

    # What is wanted

    def _wanted(self, found: Sequence[Found]) -> Iterator[Wanted]:
        zones = self._zones(found)
        options, cloud = self.options, self.cloud
        if NETWORK in self.units:
            existing = {item.address.key: item.properties["cidr"] for item in found if item.address.kind == "subnet"}
            network_cidr = validation.normal_cidr(options["network_cidr"])
            subnets = addresses.subnets(network_cidr, zones, existing)
            ssh_cidrs = [validation.normal_cidr(cidr) for cidr in options["ssh_cidrs"]]
            yield from network_definition.wanted(
                network_cidr, subnets, ssh_cidrs, cloud.region, self._tags(NETWORK), nat_subnet=_nat_subnet(found)
            )
        if FILE_SYSTEM in self.units:
            file_system.refuse_elsewhere(found)
            yield from file_system_definition.wanted(
                zones, self._tags(FILE_SYSTEM), encrypted=options["encrypted"], performance_mode=options["performance_mode"]
            )
        if INSTANCE_ROLE in self.units:
            yield from instance_role_definition.wanted(
                cloud.cluster, cloud.region, options["read_buckets"], options["write_buckets"], self._tags(INSTANCE_ROLE)
            )
        if NODES in self.units:
            yield from self._wanted_nodes(found, zones)

    def _wanted_nodes(self, found: Sequence[Found], zones: Sequence[str]) -> Iterator[Wanted]:
        options = self.options
        with ThreadPoolExecutor(3) as pool:
            checks = [pool.submit(self._check_key_pair), pool.submit(self._check_offered, zones)]
            image = pool.submit(self._image, found)
            for check in checks:
                check.result()
        mounts = FILE_SYSTEM in self.units or any(item.address == file_system_definition.FILE_SYSTEM for item in found)
        settings = nodes_definition.NodeSettings(
            instance_type=options["instance_type"],
            image=image.result(),
            key_name=options["key_name"],
            root_volume_size=options["root_volume_size"],
            login_user=options["login_user"],
            mount_point=options["mount_point"],
            mounts_file_system=mounts,
        )
        image_tag = {IMAGE_TAG: options["image_parameter"] or options["image_id"]}

        def tags(address: Address) -> dict[str, str]:
            own = self._tags(NODES)(address)
            return {**own, **image_tag} if address.kind == "launch_template" else own

        for group in self.groups:
            yield from nodes_definition.wanted(
                group, settings, options["worker_count"], zones, self.cloud.cluster, self.cloud.region, tags, wait=options["wait"]
            )

    def _tags(self, component: str) -> Any:
        cluster = self.cloud.cluster

        def tags(address: Address) -> dict[str, str]:
            name = cluster if address.key == "main" else f"{cluster}-{address.key}"
            return self.cloud.tags(component, address.key, name)

        return tags

    def _zones(self, found: Sequence[Found]) -> list[str]:
        """The zones that the user names, else those that the network has, else one that AWS offers."""
        named = self.options.get("zones")
        existing = sorted(
            item.properties["zone"] for item in found if item.address.kind == "subnet" and item.address.key.startswith("private-")
        )
        if not named and existing:
            return existing
        available = {
            zone["ZoneName"]
            for zone in self.cloud.ec2.describe_availability_zones(Filters=[{"Name": "zone-type", "Values": ["availability-zone"]}])[
                "AvailabilityZones"
            ]
        }
        unknown = [zone for zone in named or [] if zone not in available]
        if unknown:
            raise CloudError(f"zones: {', '.join(unknown)} not in {self.cloud.region}, which has {', '.join(sorted(available))}.")
        if named:
            return sorted(set(named))
        offered = self._offered_zones() & available if self.options.get("instance_type") else available
        if not offered:
            raise CloudError(f"instance_type: {self.options['instance_type']} is not offered in {self.cloud.region}.")
        return [min(offered)]

    def _offered_zones(self) -> set[str]:
        offerings = self.cloud.retrieve(
            "ec2",
            "describe_instance_type_offerings",
            "InstanceTypeOfferings",
            LocationType="availability-zone",
            Filters=[{"Name": "instance-type", "Values": [self.options["instance_type"]]}],
        )
        return {offering["Location"] for offering in offerings}

    def _check_offered(self, zones: Sequence[str]) -> None:
        offered = self._offered_zones()
        missing = [zone for zone in zones if zone not in offered]
        if missing:
            where = (
                f"It is offered in {', '.join(sorted(offered))}."
                if offered
                else f"No zone of {self.cloud.region} offers it; check the name."
            )
            raise CloudError(f"instance_type: {self.options['instance_type']} is not offered in {', '.join(missing)}. {where}")

    def _check_key_pair(self) -> None:
        name = self.options["key_name"]
        try:
            self.cloud.ec2.describe_key_pairs(KeyNames=[name])
        except ClientError as error:
            if not is_missing(error):
                raise
            raise CloudError(
                f"key_name: there is no key pair '{name}' in {self.cloud.region}. Create or import it, or give another name."
            ) from error

    def _image(self, found: Iterable[Found]) -> nodes_definition.Image:
        """The image that the user names; one that was once looked up by its parameter stays, so that a run does not roll the cluster."""
        options, parameter = self.options, self.options["image_parameter"]
        for item in found:
            if parameter and item.address.kind == "launch_template" and item.attributes["image_source"] == parameter:
                return nodes_definition.Image(item.properties["image_id"], item.properties["root_device"])
        image = nodes.find_image(self.cloud, options["image_id"] or self._image_of(parameter))
        smallest = nodes.root_volume_size(image)
        if options["root_volume_size"] < smallest:
            raise CloudError(f"root_volume_size: {options['root_volume_size']} GiB cannot hold {image['ImageId']}, which needs {smallest}.")
        return nodes_definition.Image(image["ImageId"], image["RootDeviceName"])

    def _image_of(self, parameter: str) -> str:
        try:
            return str(self.cloud.ssm.get_parameter(Name=parameter)["Parameter"]["Value"])
        except ClientError as error:
            if not is_missing(error) and error_code(error) != "ValidationException":
                raise
            raise CloudError(f"image_parameter: there is no SSM parameter {parameter} in {self.cloud.region}.") from error

    # What is refused

    def _keeps(self, item: Found) -> bool:
        """Whether a resource that is not wanted stays all the same."""
        if item.address.kind not in self._managed_kinds():
            return True
        if item.address.kind in {kind.name for kind in nodes.KINDS}:
            return item.address.key not in self.groups or (self.present and item.address.kind == "nodes")
        return item.address == file_system_definition.FILE_SYSTEM and not self.options["delete_data"]

    def _managed_kinds(self) -> set[str]:
        return {kind.name for unit in self.units for kind in UNIT_KINDS[unit]}

    def _refuse_missing(self, wanted: Sequence[Wanted], found: Sequence[Found]) -> None:
        """What this module's resources refer to must exist, unless this is only a prediction."""
        known = {item.address for item in wanted} | {item.address for item in found}
        missing = sorted({str(address) for item in wanted for address in references(item.properties) if address not in known})
        if missing and not self.module.check_mode:
            raise CloudError(
                f"The cluster {self.cloud.cluster} has no {', '.join(missing)} yet. Create its network, file system and role first."
            )

    def _refuse_used(self, plan: Sequence[Change], found: Sequence[Found]) -> None:
        """What other units still build on stays."""
        users = {
            str(item.address)
            for change in plan
            for item in found
            if item.address.kind in set(KINDS[change.address.kind].deleted_after) - self._managed_kinds() and not item.adopted
        }
        if users:
            raise CloudError(f"Still in use by {', '.join(sorted(users))} of cluster {self.cloud.cluster}. Delete those first.")

    def _fail_applying(self, error: ApplyError) -> None:
        applied = [change.describe() for change in error.applied]
        done = ", ".join(f"{change.action.value} {change.address}" for change in error.applied) or "nothing"
        message = CloudError(f"{str(error).rstrip('.')}. Applied so far: {done}. The next run carries on from there.")
        fail(self.module, message, changed=bool(applied), changes=applied)


def _refuse_inhabited(plan: Iterable[Change], found: Iterable[Found]) -> None:
    """A zone goes only without nodes: they keep its subnets from going, and would lose the file system first."""
    inhabited = {subnet for item in found if item.address.kind == "nodes" for subnet in item.attributes["subnets"]}
    subnets = sorted(
        change.address.key for change in plan if change.action is Action.DELETE and change.found and change.found.id in inhabited
    )
    if subnets:
        raise CloudError(
            f"zones: nodes run in {', '.join(subnets)}. Keep their zones, or delete the cluster, which keeps the data, and create it again."
        )


def _nat_subnet(found: Sequence[Found]) -> str | None:
    """The key of the subnet in which the NAT gateway is: it cannot move to another one."""
    subnet = next((item.properties["subnet"] for item in found if item.address == network_definition.NAT_GATEWAY), None)
    return next((item.address.key for item in found if item.address.kind == "subnet" and item.id == subnet), None)


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
