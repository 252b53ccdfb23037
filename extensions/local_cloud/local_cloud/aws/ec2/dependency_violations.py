"""Deletions of resources in use, which AWS refuses but moto allows."""

from __future__ import annotations

from typing import Any

from moto.ec2.exceptions import DependencyViolationError, EC2ClientError
from moto.ec2.models import EC2Backend
from moto.ec2.responses import EC2Response

from ..override import override

moto_delete_subnet = EC2Backend.delete_subnet


def _guarded(action: str, parameter: str, check: Any) -> None:
    """Call `check(backend, id)` before an API call, and delete the tags of the deleted resource afterward."""
    moto_call = getattr(EC2Response, action)

    def call(self: EC2Response) -> Any:
        identifier = self._get_param(parameter)
        if identifier:
            check(self.ec2_backend, identifier)
        result = moto_call(self)
        if action.startswith(("delete_", "release_")):
            self.ec2_backend.tags.pop(identifier, None)
        return result

    call.__name__ = action
    override(EC2Response)(call)


def _subnet(backend: EC2Backend, identifier: str) -> None:
    backend.get_subnet(identifier)
    if any(interface.subnet.id == identifier for interface in backend.enis.values()):
        raise _violation("subnet", identifier)


def _security_group(backend: EC2Backend, identifier: str) -> None:
    group = backend.get_security_group_from_id(identifier)
    if group and group.is_default:
        raise EC2ClientError("CannotDelete", f'the specified group: "{identifier}" name: "default" cannot be deleted by a user')
    used = any(each.id == identifier for interface in backend.enis.values() for each in interface.group_set)
    if used or _is_referenced(backend, identifier):
        raise DependencyViolationError(f"resource {identifier} has a dependent object")


def _is_referenced(backend: EC2Backend, identifier: str) -> bool:
    return any(
        rule.source_group.get("GroupId") == identifier
        for groups in backend.groups.values()
        for group in groups.values()
        if group.id != identifier
        for rule in (*group.ingress_rules, *group.egress_rules)
    )


def _vpc(backend: EC2Backend, identifier: str) -> None:
    backend.get_vpc(identifier)
    groups = [group for group in backend.groups.get(identifier, {}).values() if not group.is_default]
    gateways = [each for each in backend.internet_gateways.values() if each.vpc and each.vpc.id == identifier]
    endpoints = [each for each in backend.vpc_end_points.values() if each.vpc_id == identifier and each.state != "deleted"]
    if groups or gateways or endpoints:
        raise _violation("vpc", identifier)


def _detach_internet_gateway(backend: EC2Backend, vpc: str) -> None:
    if any(interface.public_ip or _has_address(backend, interface) for interface in backend.enis.values() if interface.vpc_id == vpc):
        raise DependencyViolationError(
            f"Network {vpc} has some mapped public address(es). Please unmap those public address(es) before detaching the gateway."
        )


def _has_address(backend: EC2Backend, interface: Any) -> bool:
    return any(address.eni is interface for address in backend.addresses)


def _address(backend: EC2Backend, allocation: str) -> None:
    address = backend.address_by_allocation([allocation])[0]
    if address.association_id:
        raise EC2ClientError("InvalidIPAddress.InUse", f"Address {address.public_ip} is in use.")


def _network_interface(backend: EC2Backend, identifier: str) -> None:
    if backend.get_network_interface(identifier).status == "in-use":
        raise EC2ClientError("InvalidNetworkInterface.InUse", f"The network interface '{identifier}' is currently in use.")


def _violation(kind: str, identifier: str) -> DependencyViolationError:
    return DependencyViolationError(f"The {kind} '{identifier}' has dependencies and cannot be deleted.")


@override(EC2Backend)
def delete_subnet(self: EC2Backend, subnet_id: str) -> Any:
    """Delete a subnet and its association with a route table."""
    subnet = moto_delete_subnet(self, subnet_id)
    for table in self.route_tables.values():
        table._associations = {each: associated for each, associated in table._associations.items() if associated != subnet_id}
    return subnet


def _no_check(_backend: EC2Backend, _identifier: str) -> None:
    """Do nothing, because these deletions need no check. `_guarded` deletes the tags afterward."""


for _action, _parameter, _check in (
    ("delete_subnet", "SubnetId", _subnet),
    ("delete_security_group", "GroupId", _security_group),
    ("delete_vpc", "VpcId", _vpc),
    ("detach_internet_gateway", "VpcId", _detach_internet_gateway),
    ("release_address", "AllocationId", _address),
    ("delete_network_interface", "NetworkInterfaceId", _network_interface),
    ("delete_internet_gateway", "InternetGatewayId", _no_check),
    ("delete_route_table", "RouteTableId", _no_check),
    ("delete_launch_template", "LaunchTemplateId", _no_check),
):
    _guarded(_action, _parameter, _check)
