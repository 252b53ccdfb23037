"""VPC endpoints of the types Interface and Gateway, and endpoints for VPC Lattice, which have no service."""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import cache, partial
from typing import Any

from moto.core.base_backend import BaseBackend
from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError, InvalidSecurityGroupNotFoundError, InvalidVpcEndPointIdError
from moto.ec2.models import EC2Backend
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from moto.ec2.models.vpcs import AWS_ENDPOINT_SERVICES, VPCBackend, VPCEndPoint
from moto.ec2.responses import EC2Response
from moto.ec2.utils import random_resource_id, random_vpc_ep_id
from moto.utilities.utils import get_partition

from ..context import CLOUD
from ..override import override
from .availability_zones import is_availability_zone

# Services that also have endpoints of type Gateway.
WITH_GATEWAY = ("s3", "dynamodb")

# The prefixes of service names. In China, only gateways have the common prefix. In the European Sovereign Cloud, some services have its own
# prefix (aws-cdk #36471), and the local cloud assumes this prefix for all services.
COMMON, IN_CHINA = "com.amazonaws", "cn.com.amazonaws"
PREFIXES = {"aws-cn": IN_CHINA, "aws-eusc": "eu.amazonaws"}

moto_create_vpc_endpoint = EC2Response.create_vpc_endpoint
moto_filter_services = VPCBackend._filter_endpoint_services


class Endpoint(VPCEndPoint):
    """An endpoint whose deletion takes time. An Interface endpoint is pending at first, and its network interfaces are deleted last."""

    def __init__(self, backend: EC2Backend, vpc_id: str, kind: str, service: dict[str, Any], token: str | None, policy: str | None) -> None:
        super().__init__(backend, random_vpc_ep_id(), vpc_id, service["ServiceName"], kind, policy, [], [], client_token=token)
        self.vpc_endpoint_id = self.id
        self.service = service
        self.private_dns_enabled = False
        self.interfaces: dict[str, str] = {}
        """Network interface IDs by subnet ID."""
        self.destination_prefix_list_id = None
        if kind == "Gateway":
            own_part = self.service_name[self.service_name.index(f".{backend.region_name}.") :]
            lists = backend.managed_prefix_lists.values()
            self.destination_prefix_list_id = next(each.id for each in lists if each.prefix_list_name.endswith(own_part))
        else:
            self._name = f"{self.id}-{random_resource_id(8)}.{service['BaseEndpointDnsNames'][0]}"
            self.dns_entries = [{"dns_name": self._name}]
            self.state = "pending"

    def become_available(self) -> None:
        if self.state == "pending":
            self.state = "available"

    def start_deletion(self) -> None:
        """Start the deletion. The routes are removed immediately."""
        self.remove_routes(list(self.route_table_ids))
        self.state = "deleting"
        CLOUD.clock.after(CLOUD.delays.nat_gateway, self.finish_deletion)

    def finish_deletion(self) -> None:
        """Remove the endpoint. The endpoint's network interfaces are deleted later."""
        del self.ec2_backend.vpc_end_points[self.id]
        self.ec2_backend.tags.pop(self.id, None)
        self.remove_interfaces(list(self.interfaces))

    def check_route_tables(self, tables: list[str]) -> None:
        """Raise `RouteAlreadyExists` for a route table that has another route to the service."""
        prefix_list = self.destination_prefix_list_id
        for table in tables:
            if any(route.destination_prefix_list_id == prefix_list for route in self.ec2_backend.get_route_table(table).routes):
                text = f"route table {table} already has a route with destination-prefix-list-id {prefix_list}"
                raise EC2ClientError("RouteAlreadyExists", text)

    def add_routes(self, tables: list[str]) -> None:
        """Add a route to the service to each of these route tables."""
        for table in tables:
            self.ec2_backend.create_route(table, None, gateway_id=self.id, destination_prefix_list_id=self.destination_prefix_list_id)
            self.route_table_ids.append(table)

    def remove_routes(self, tables: Collection[str]) -> None:
        for table in set(tables) & set(self.route_table_ids):
            if table in self.ec2_backend.route_tables:  # endpoints do not prevent the deletion of a route table
                self.ec2_backend.delete_route(table, None, destination_prefix_list_id=self.destination_prefix_list_id)
            self.route_table_ids.remove(table)

    def check_subnets(self, subnets: Collection[str], leaving: Collection[str] = ()) -> None:
        """Raise the EC2 error for a subnet of another VPC, in a zone without the service, or in a zone that already has an interface."""
        taken = {self._zone(each): each for each in self.interfaces if each not in leaving}
        for identifier in subnets:
            zone = self._zone(identifier)
            if self.ec2_backend.get_subnet(identifier).vpc_id != self.vpc_id:
                raise _invalid(f"Subnet {identifier} does not belong to VPC {self.vpc_id}.")
            if zone not in self.service["AvailabilityZones"]:
                text = f"The VPC endpoint service {self.service_name} does not support the availability zone of the subnet: {identifier}."
                raise _invalid(text)
            if taken.setdefault(zone, identifier) != identifier:
                text = f"Found another VPC endpoint subnet in the availability zone of {identifier}"
                raise EC2ClientError("DuplicateSubnetsInSameZone", text)

    def add_interfaces(self, subnets: Collection[str]) -> None:
        for identifier in subnets:
            if identifier not in self.interfaces:
                interface = self.ec2_backend.create_network_interface(
                    identifier, None, group_ids=self.security_group_ids, description=f"VPC Endpoint Interface {self.id}"
                )
                interface.status, interface.interface_type, interface.requester_managed = "in-use", "vpc_endpoint", True
                self.interfaces[identifier] = interface.id
        self._list_interfaces()

    def remove_interfaces(self, subnets: Collection[str]) -> None:
        """Delete the network interfaces in these subnets after a delay."""
        for identifier in set(subnets) & set(self.interfaces):
            interface = self.interfaces.pop(identifier)
            CLOUD.clock.after(CLOUD.delays.nat_gateway, partial(self.ec2_backend.delete_network_interface, interface))
        self._list_interfaces()

    def set_security_groups(self, groups: list[str]) -> None:
        """Set the security groups of all network interfaces of the endpoint. Raises `InvalidGroup.NotFound`."""
        for identifier in groups:
            group = self.ec2_backend.get_security_group_from_id(identifier)
            if group is None or group.vpc_id != self.vpc_id:
                raise InvalidSecurityGroupNotFoundError(identifier)
        self.security_group_ids = groups
        for interface in self.interfaces.values():
            self.ec2_backend.modify_network_interface_attribute(interface, groups)

    def set_private_dns(self, enabled: bool) -> None:
        """Enable or disable the service's private DNS name in the VPC. Raises `InvalidParameter`."""
        vpc, name = self.ec2_backend.get_vpc(self.vpc_id), self.service["PrivateDnsName"]
        if enabled and not (vpc.enable_dns_support and vpc.enable_dns_hostnames):
            text = (
                f"Enabling private DNS requires both enableDnsSupport and enableDnsHostnames VPC attributes set to true for {self.vpc_id}"
            )
            raise _invalid(text)
        others = [each for each in self.ec2_backend.vpc_end_points.values() if each is not self and each.vpc_id == self.vpc_id]
        if enabled and any(each.private_dns_enabled and each.service["PrivateDnsName"] == name for each in others):
            text = (
                f"private-dns-enabled cannot be set because there is already a conflicting DNS domain for {name} in the VPC {self.vpc_id}"
            )
            raise _invalid(text)
        self.private_dns_enabled = enabled
        self.dns_entries = [{"dns_name": self._name}, *([{"dns_name": name}] if enabled else [])]

    def _zone(self, subnet: str) -> str:
        return str(self.ec2_backend.get_subnet(subnet).availability_zone)

    def _list_interfaces(self) -> None:
        self.subnet_ids, self.network_interface_ids = list(self.interfaces), list(self.interfaces.values())


class LatticeEndpoint(VPCEndPoint):
    """An endpoint of the type Resource or ServiceNetwork. It is available and deleted immediately, and has no network interfaces."""

    def __init__(self, backend: EC2Backend, vpc_id: str, kind: str, subnets: list[str]) -> None:
        super().__init__(backend, random_vpc_ep_id(), vpc_id, None, kind, None, [], subnets)  # type: ignore[arg-type]
        self.vpc_endpoint_id = self.id
        self.resource_configuration_arn: str | None = None
        self.service_network_arn: str | None = None

    def start_deletion(self) -> None:
        del self.ec2_backend.vpc_end_points[self.id]


@override(EC2Backend)
def create_vpc_endpoint(
    self: Any,
    vpc_id: str,
    service_name: str,
    endpoint_type: str | None,
    policy_document: str | None,
    route_table_ids: list[str],
    subnet_ids: list[str] | None = None,
    client_token: str | None = None,
    security_group_ids: list[str] | None = None,
    tags: dict[str, str] | None = None,
    private_dns_enabled: bool | None = None,
) -> VPCEndPoint:
    """Create an endpoint. A request with a known client token returns the earlier endpoint."""
    self.get_vpc(vpc_id)
    for known in self.vpc_end_points.values():
        if client_token and known.client_token == client_token:
            return known  # type: ignore[no-any-return]
    kind = endpoint_type or "Gateway"
    _check_kind(kind, interface=subnet_ids or security_group_ids, gateway=route_table_ids)
    service = _service(self, service_name, kind)
    endpoint = Endpoint(self, vpc_id, kind, service, client_token, policy_document)  # type: ignore[abstract]  # for CloudFormation
    endpoint.check_route_tables(route_table_ids)
    if kind == "Interface":
        endpoint.check_subnets(subnet_ids or [])
        endpoint.set_security_groups(security_group_ids or [self.get_default_security_group(vpc_id).id])
        endpoint.set_private_dns(private_dns_enabled is not False)
        endpoint.add_interfaces(subnet_ids or [])
        CLOUD.clock.after(CLOUD.delays.nat_gateway, endpoint.become_available)
    self.vpc_end_points[endpoint.id] = endpoint
    endpoint.add_routes(route_table_ids)
    endpoint.add_tags(tags or {})
    return endpoint


def _create_vpc_endpoint(self: EC2Response) -> ActionResult:
    kind = self._get_param("VpcEndpointType")
    if kind not in ("Resource", "ServiceNetwork"):
        return moto_create_vpc_endpoint(self)
    backend: Any = self.ec2_backend
    subnets = self._get_param("SubnetIds", [])
    endpoint = LatticeEndpoint(backend, backend.get_vpc(self._get_param("VpcId")).id, kind, subnets)  # type: ignore[abstract]
    endpoint.resource_configuration_arn = self._get_param("ResourceConfigurationArn")
    endpoint.service_network_arn = self._get_param("ServiceNetworkArn")
    backend.vpc_end_points[endpoint.id] = endpoint
    return ActionResult({"VpcEndpoint": endpoint})


EC2Response.create_vpc_endpoint = _create_vpc_endpoint  # type: ignore[method-assign]


@override(EC2Response)
def modify_vpc_endpoint(self: EC2Response) -> ActionResult:
    endpoint = _endpoint(self.ec2_backend, self._get_param("VpcEndpointId"))
    lists = {
        name: self._get_param(f"{name}Ids", [])
        for verb in ("Add", "Remove")
        for name in (f"{verb}Subnet", f"{verb}SecurityGroup", f"{verb}RouteTable")
    }
    interface = [each for name in lists if not name.endswith("RouteTable") for each in lists[name]]
    _check_kind(endpoint.vpc_endpoint_type, interface, lists["AddRouteTable"] + lists["RemoveRouteTable"])
    self.error_on_dryrun()
    endpoint.check_route_tables(lists["AddRouteTable"])
    endpoint.check_subnets(lists["AddSubnet"], leaving=lists["RemoveSubnet"])
    kept = [each for each in endpoint.security_group_ids if each not in lists["RemoveSecurityGroup"]]
    endpoint.set_security_groups(list(dict.fromkeys([*kept, *lists["AddSecurityGroup"]])))
    if (private := self._get_bool_param("PrivateDnsEnabled")) is not None:
        endpoint.set_private_dns(private)
    endpoint.remove_routes(lists["RemoveRouteTable"])
    endpoint.add_routes(lists["AddRouteTable"])
    endpoint.remove_interfaces(lists["RemoveSubnet"])
    endpoint.add_interfaces(lists["AddSubnet"])
    policy = json.dumps(VPCEndPoint.DEFAULT_POLICY) if self._get_bool_param("ResetPolicy") else self._get_param("PolicyDocument")
    endpoint.policy_document = policy or endpoint.policy_document
    return ActionResult({"Return": True})


@override(EC2Response)
def delete_vpc_endpoints(self: EC2Response) -> ActionResult:
    unsuccessful = []
    for identifier in self._get_param("VpcEndpointIds", []):
        endpoint: Any = self.ec2_backend.vpc_end_points.get(identifier)
        if endpoint is None:
            error = {"Code": "InvalidVpcEndpoint.NotFound", "Message": f"The Vpc Endpoint Id '{identifier}' does not exist"}
            unsuccessful.append({"ResourceId": identifier, "Error": error})
        elif endpoint.state != "deleting":
            endpoint.start_deletion()
    return ActionResult({"Unsuccessful": unsuccessful})


def _filter_endpoint_services(names: list[str], filters: list[dict[str, Any]], services: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Filter endpoint services. moto reads the values of a filter from a key that no client sends."""
    return moto_filter_services(names, [{**each, "Value": each["Values"]} for each in filters], services)


@cache
def _collect_default_endpoint_services(_account: str, region: str) -> list[dict[str, Any]]:
    """Return the endpoint services of AWS. moto's own method would load backends that require additional packages."""
    zones = [zone.name for zone in RegionsAndZonesBackend.zones[region] if is_availability_zone(zone)]
    services, own = [], PREFIXES.get(get_partition(region), COMMON)
    for name in dict.fromkeys(AWS_ENDPOINT_SERVICES):
        for kind in ("Interface", "Gateway") if name in WITH_GATEWAY else ("Interface",):
            service = BaseBackend.default_vpc_endpoint_service_factory(region, zones, name, kind, private_dns_names=False)[0]
            # The DNS name has the parts of a service name in reverse order: api.ecr for ecr.api.
            dns_name = f"{'.'.join(reversed(name.split('.')))}.{region}.amazonaws.com"
            full_name = f"{COMMON if kind == 'Gateway' and own == IN_CHINA else own}.{region}.{name}"
            services.append(
                {**service, "ServiceName": full_name, "PrivateDnsName": dns_name, "PrivateDnsNames": [{"PrivateDnsName": dns_name}]}
            )
    return services


VPCBackend._collect_default_endpoint_services = staticmethod(_collect_default_endpoint_services)  # type: ignore[method-assign]
VPCBackend._filter_endpoint_services = staticmethod(_filter_endpoint_services)  # type: ignore[method-assign, assignment]


def _service(backend: Any, name: str, kind: str) -> dict[str, Any]:
    """Return the service for this type of endpoint. Raises `InvalidServiceName` or `InvalidParameter`."""
    found = backend.describe_vpc_endpoint_services([name], [], None, None, backend.region_name)["servicesDetails"]
    kinds = {each["ServiceType"][0]["ServiceType"]: each for each in found}
    if kind not in kinds:
        raise _invalid(f"Endpoint type ({kind}) does not match available service types ([{', '.join(kinds)}]).")
    service: dict[str, Any] = kinds[kind]
    return service


def _endpoint(backend: EC2Backend, identifier: str) -> Any:
    endpoint = backend.vpc_end_points.get(identifier)
    if endpoint is None or endpoint.state == "deleting":
        raise InvalidVpcEndPointIdError(identifier)
    return endpoint


def _check_kind(kind: str | None, interface: Any, gateway: Any) -> None:
    if kind == "Gateway" and interface:
        raise _invalid("Subnet IDs and security group IDs are not supported for Gateway type VPC Endpoints.")
    if kind != "Gateway" and gateway:
        raise _invalid("Route table IDs are only supported for Gateway type VPC Endpoint.")


def _invalid(text: str) -> EC2ClientError:
    return EC2ClientError("InvalidParameter", text)
