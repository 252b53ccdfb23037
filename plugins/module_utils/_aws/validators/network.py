# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators for the zones, the adopted network, the endpoints and the address ranges."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..client import AwsClient, ClientError
from ..component import Request
from ..error_codes import DENIED, error_code
from ..message_parts import P
from ..network import adopted, endpoint_services
from ..network.definition import NFS, NODES_GROUP, SELF, SSH, SSH_GROUP, STORAGE_GROUP, VPC
from ..network.zones import available, zones
from ..plan.resources import Address, Found
from ..storage.registry import STORAGE_NAMES
from ..tags import NETWORK_COMPONENT, NODES_COMPONENT
from ..validator import Level, Validator

EVERY_NETWORK_USER = STORAGE_NAMES | {NETWORK_COMPONENT, NODES_COMPONENT}
ALL_TCP = ("tcp", 1, 65535)
NEEDED_SERVICES = ("s3", "ec2", "autoscaling")  # The services that the nodes' role always allows nodes to use
SESSION_SERVICES = ("ssm", "ssmmessages")
# Error codes of API calls that the credentials may not make, or that the region does not support
UNREADABLE = (*DENIED, "InvalidAction", "UnsupportedOperation")
ADVICE = "delete the cluster (the data is kept) and create it again"


def _one(found: Iterable[Found], address: Address) -> Found | None:
    return next((item for item in found if item.address == address), None)


class Zones(Validator):
    name = "zones"
    components = frozenset({NETWORK_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, named = request.cloud, request.options["zones"]
        known = available(cloud) if named else set()
        unknown = [zone for zone in named if zone not in known]
        if unknown:
            yield f"{P}zones: there is no zone {', '.join(unknown)} in {cloud.region}. Choose from {', '.join(sorted(known))}."


class AdoptedNetwork(Validator):
    """Checks that the adopted VPC, subnets and security groups exist, and that the definition specifies all required subnets."""

    name = "adopted_network"
    components = EVERY_NETWORK_USER

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        vpc_id = request.options["vpc_id"]
        subnets = {f"{side}_subnet_ids": adopted.subnet_ids(request, side) for side in adopted.SIDES}
        groups = adopted.group_ids(request)
        if not vpc_id:
            for option in [name for name, ids in {**subnets, "security_group_ids": groups}.items() if ids]:
                yield f"{P}{option}: adopted subnets and security groups require an adopted VPC. Set {P}vpc_id, or remove this option."
            return
        if not adopted.vpcs(request.cloud, vpc_id):
            region = request.cloud.region
            yield f"{P}vpc_id: there is no VPC '{vpc_id}' in {region}. Specify an existing VPC. To create a VPC, remove this option."
            return
        yield from _check_existence(request.cloud, vpc_id, subnets, groups.values())
        yield from _check_completeness(request, vpc_id, subnets)


def _check_existence(cloud: AwsClient, vpc_id: str, subnets: Mapping[str, Collection[str]], groups: Collection[str]) -> Iterator[str]:
    """Check that the subnets and security groups exist. `subnets` maps option names to subnet IDs."""
    for option, ids in subnets.items():
        missing = _missing(ids, {item["SubnetId"] for item in adopted.subnets(cloud, ids)})
        if missing:
            yield f"{P}{option}: there is no subnet {missing} in {cloud.region}. Specify the IDs of subnets in {vpc_id}."
    missing = _missing(groups, {item["GroupId"] for item in adopted.groups(cloud, groups)})
    if missing:
        yield (
            f"{P}security_group_ids: there is no security group {missing} in {cloud.region}. Specify the IDs of security groups in "
            f"{vpc_id}."
        )


def _check_completeness(request: Request, vpc_id: str, subnets: Mapping[str, Collection[str]]) -> Iterator[str]:
    if not subnets["private_subnet_ids"]:
        yield f"{P}private_subnet_ids: missing. Specify one subnet of {vpc_id} for every zone of the cluster."
    if not subnets["public_subnet_ids"] and request.options["master_public_address"]:
        yield (
            f"{P}public_subnet_ids: missing, but the master has a public address. Specify one subnet of {vpc_id} for every zone, "
            f"or set {P}master_public_address: false."
        )


def _missing(ids: Iterable[str], known: set[str]) -> str:
    return ", ".join(repr(item) for item in ids if item not in known)


class AdoptedSubnets(Validator):
    """Checks that the subnets are in the VPC, and that each zone has one private subnet.

    If the master has a public address, each zone must also have one public subnet.
    """

    name = "adopted_subnets"
    components = EVERY_NETWORK_USER

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        options = request.options
        if not options["vpc_id"]:
            return
        sides: dict[str, set[str]] = {}
        for side in adopted.SIDES:
            subnets = adopted.subnets(request.cloud, adopted.subnet_ids(request, side))
            yield from self._places(f"{side}_subnet_ids", options["vpc_id"], subnets)
            sides[side] = {item["AvailabilityZone"] for item in subnets}
        named = set(options.get("zones") or sides["private"])
        if not sides["private"]:
            return
        for zone in sorted(named - sides["private"]):
            yield f"{P}zones: {zone} has no subnet in {P}private_subnet_ids. Add a subnet, or remove the zone."
        for zone in sorted(sides["private"] - named):
            yield (
                f"{P}private_subnet_ids: a subnet is in {zone}, which is missing from {P}zones. Add the zone to {P}zones, or remove the "
                "subnet."
            )
        if options["master_public_address"] and sides["public"]:
            for zone in sorted(named & sides["private"] - sides["public"]):
                yield (
                    f"{P}public_subnet_ids: {zone} has a private subnet, but no public subnet. Add a public subnet, or remove the private "
                    "subnet."
                )

    @staticmethod
    def _places(option: str, vpc_id: str, subnets: Sequence[dict[str, Any]]) -> Iterator[str]:
        first: dict[str, str] = {}
        for item in subnets:
            subnet_id, zone = item["SubnetId"], item["AvailabilityZone"]
            if item["VpcId"] != vpc_id:
                yield f"{P}{option}: {subnet_id} is in {item['VpcId']}, not in {vpc_id}. Specify subnets of {vpc_id}."
            elif not item.get("CidrBlock"):
                yield f"{P}{option}: {subnet_id} has only IPv6 addresses, but nodes use IPv4. Specify a subnet with an IPv4 range."
            elif zone in first:
                yield f"{P}{option}: {first[zone]} and {subnet_id} are both in {zone}. Specify one subnet for each zone."
            else:
                first[zone] = subnet_id


class AdoptedDns(Validator):
    """Checks that DNS is enabled in the VPC, because nodes find file systems and interface endpoints by name."""

    name = "adopted_dns"
    components = EVERY_NETWORK_USER

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        network = _one(found, VPC)
        if not network or not network.adopted:
            return
        attributes = {"dns_support": "enable-dns-support", "dns_hostnames": "enable-dns-hostnames"}
        off = [option for name, option in attributes.items() if not network.properties[name]]
        if off:
            yield (
                f"{P}vpc_id: {network.id} has {' and '.join(off)} disabled, so nodes could not resolve the names of file systems. "
                f"Enable DNS in this VPC, for example with 'aws ec2 modify-vpc-attribute --vpc-id {network.id} --{off[0]}'."
            )


class PublicRoutes(Validator):
    name = "public_routes"
    components = frozenset({NETWORK_COMPONENT, NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        if not request.options["master_public_address"]:
            return
        for item in adopted.found_subnets(request, found, "public"):
            table = adopted.route_table(request.cloud, request.options["vpc_id"], item.id)
            if not adopted.leads_to_the_internet(table):
                yield (
                    f"{P}public_subnet_ids: {item.id} has no route to an internet gateway in its route table {table['RouteTableId']}, so "
                    f"the master would not be reachable. Add a route, specify another subnet, or set {P}master_public_address: false."
                )


class BlockPublicAccess(Validator):
    """Warns if VPC Block Public Access separates the cluster's own VPC from the internet.

    Source: Amazon VPC User Guide, "Block public access to VPCs and subnets".
    """

    name = "block_public_access"
    level = Level.WARNING
    components = frozenset({NETWORK_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        if request.options["vpc_id"]:
            return
        try:
            yield from self._check(request, found)
        except ClientError as error:
            if error_code(error) not in UNREADABLE:
                raise
            yield (
                f"VPC Block Public Access in {request.cloud.region} is not checked ({error_code(error)}), because the credentials are not "
                "allowed to read it or the region does not support it. Allow ec2:DescribeVpcBlockPublicAccessOptions and "
                "ec2:DescribeVpcBlockPublicAccessExclusions."
            )

    @staticmethod
    def _check(request: Request, found: Sequence[Found]) -> Iterator[str]:
        options, own = request.options, _one(found, VPC)
        settings = request.cloud.ec2.describe_vpc_block_public_access_options()["VpcBlockPublicAccessOptions"]
        mode = settings["InternetGatewayBlockMode"]
        if mode == "off":
            return
        excluded = _exclusions(request.cloud, {item.id for item in found if item.address.kind in ("vpc", "subnet")})
        where = f"VPC Block Public Access ({mode}) blocks {own.id if own else 'the new VPC'} in {request.cloud.region}"
        advice = "Create an exclusion for the VPC with aws ec2 create-vpc-block-public-access-exclusion, or set"
        if settings.get("ExclusionsAllowed") == "not-allowed":
            advice = "The organization allows no exclusions. Set"
        if options["nat"] != "none" and mode == "block-bidirectional" and not excluded:
            yield f"{P}nat: {where}, so the nodes cannot reach the internet. {advice} {P}nat: none."
        if options["master_public_address"] and "allow-bidirectional" not in excluded:
            yield f"{P}master_public_address: {where}, so SSH cannot reach the master. {advice} {P}master_public_address: false."


def _exclusions(cloud: AwsClient, ids: Collection[str]) -> set[str]:
    listed = cloud.retrieve("ec2", "describe_vpc_block_public_access_exclusions", "VpcBlockPublicAccessExclusions")
    active = (item for item in listed if not item["State"].startswith(("delete-", "disable-")))
    return {item["InternetGatewayExclusionMode"] for item in active if item["ResourceArn"].rpartition("/")[2] in ids}


class PrivateRoutes(Validator):
    """Checks that private subnets have a route to the internet, or endpoints for the required services."""

    name = "private_routes"
    level = Level.WARNING
    components = frozenset({NETWORK_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        for item in adopted.found_subnets(request, found, "private"):
            missing = _unreachable(request, item, NEEDED_SERVICES)
            if missing:
                yield (
                    f"{P}private_subnet_ids: {item.id} has no default route to a NAT, transit or virtual private gateway, and "
                    f"{item.properties['vpc']} has no endpoint for {', '.join(missing)}. Nodes in this subnet cannot reach these services. "
                    "Add a route or the endpoints."
                )


def _unreachable(request: Request, subnet: Found, services: Iterable[str]) -> list[str]:
    """Return the services that nodes in an adopted subnet can reach neither through a route nor through an endpoint."""
    cloud, vpc_id = request.cloud, subnet.properties["vpc"]
    table = adopted.route_table(cloud, vpc_id, subnet.id)
    if adopted.leads_out(table):
        return []
    reached = set(request.options.get("interface_endpoints") or [])
    for endpoint in adopted.endpoints(cloud, vpc_id):
        if endpoint["VpcEndpointType"] != "Gateway" or table["RouteTableId"] in endpoint.get("RouteTableIds", []):
            reached.add(endpoint_services.service_of(endpoint, cloud.region))
    return [name for name in services if name not in reached]


class SessionManagerReach(Validator):
    """Checks that nodes without a route to the internet have endpoints for Session Manager."""

    name = "session_manager_reach"
    components = frozenset({NETWORK_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        options = request.options
        if not options.get("session_manager"):
            return
        missing: set[str] = set()
        if options["vpc_id"]:
            for item in adopted.found_subnets(request, found, "private"):
                missing.update(_unreachable(request, item, SESSION_SERVICES))
        elif options["nat"] == "none":
            missing = set(SESSION_SERVICES) - set(options["interface_endpoints"])
        if missing:
            yield (
                f"{P}session_manager: nodes in private subnets cannot reach {', '.join(sorted(missing))}, which Session Manager needs. "
                f"Add these services to {P}interface_endpoints, or add a NAT gateway."
            )


class AdoptedGroups(Validator):
    """Checks that adopted security groups allow the cluster's traffic. The validator does not read the contents of prefix lists."""

    name = "adopted_groups"
    components = EVERY_NETWORK_USER

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        vpc_id = request.options["vpc_id"]
        if not vpc_id:
            return
        groups = [item for item in found if item.adopted and item.address.kind == "security_group"]
        for group in groups:
            if group.properties["vpc"] != vpc_id:
                yield (
                    f"{P}security_group_ids: {group.id} ({group.address.key}) is in {group.properties['vpc']}, not in {vpc_id}. "
                    f"Specify a security group in {vpc_id}."
                )
        here = {item.address: item for item in groups if item.properties["vpc"] == vpc_id}
        cidrs = adopted.node_cidrs(request, found)
        if NODES_GROUP in here:
            yield from _check_nodes_group(here[NODES_GROUP], cidrs, efa=bool(request.options.get("efa")))
        if SSH_GROUP in here:
            yield from _check_ssh_group(here[SSH_GROUP])
        if STORAGE_GROUP in here:
            yield from _check_storage_group(here[STORAGE_GROUP], _one(found, NODES_GROUP), cidrs)


def _check_ssh_group(group: Found) -> Iterator[str]:
    if not any(adopted.covers(rule, SSH) for rule in group.properties["ingress"]):
        yield f"{P}security_group_ids: {group.id} (ssh) does not allow inbound traffic on TCP port 22, so SSH would be blocked. Add a rule."


def _check_storage_group(group: Found, nodes: Found | None, cidrs: Sequence[str]) -> Iterator[str]:
    sources = {nodes.id} if nodes else set()
    if nodes and nodes.id == group.id:
        sources.add(SELF)
    if not adopted.lets_in(group.properties["ingress"], NFS, sources, cidrs):
        yield (
            f"{P}security_group_ids: {group.id} (storage) does not allow inbound traffic from the nodes on TCP port 2049. "
            "Add a rule for the nodes' security group or subnets."
        )


def _check_nodes_group(group: Found, cidrs: Sequence[str], *, efa: bool) -> Iterator[str]:
    if efa:
        both = [("-1", -1, -1, SELF) in group.properties[direction] for direction in ("ingress", "egress")]
        if not all(both):
            yield (
                f"{P}security_group_ids: {group.id} (nodes) does not allow all traffic to and from itself, "
                "which EFA requires. Add the missing rules."
            )
    elif not adopted.lets_in(group.properties["ingress"], ALL_TCP, {SELF}, cidrs):
        yield (f"{P}security_group_ids: {group.id} (nodes) does not allow all TCP traffic from itself, which nodes require. Add a rule.")


class NetworkKept(Validator):
    """Checks that the cluster keeps its VPC and its security groups."""

    name = "network_kept"
    components = EVERY_NETWORK_USER

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        vpc_id, network = request.options["vpc_id"], _one(found, VPC)
        if network and not network.adopted:
            if vpc_id and adopted.vpcs(request.cloud, vpc_id):
                yield f"{P}vpc_id: the cluster has its own VPC {network.id} and cannot move to {vpc_id}. Remove this option, or {ADVICE}."
            return
        before = self._lies_in(request, found)
        if before and vpc_id != before:
            wish = f"cannot move to {vpc_id}" if vpc_id else "cannot get a VPC of its own"
            yield f"{P}vpc_id: the cluster is in {before} and {wish}. Specify {before}, or {ADVICE}."
            return
        yield from self._check_groups(request, found, before)

    @staticmethod
    def _check_groups(request: Request, found: Sequence[Found], adopted_vpc: str | None) -> Iterator[str]:
        own = {item.address.key for item in found if item.address.kind == "security_group" and not item.adopted}
        named = adopted.group_ids(request)
        for name in sorted(own & named.keys()):
            yield (
                f"{P}security_group_ids: the cluster has its own group for {name}, which cannot be replaced with {named[name]}. "
                f"Remove {name} from this option, or {ADVICE}."
            )
        if adopted_vpc and NODES_GROUP.key not in {*own, *named} and groups_of_nodes(found):
            yield (
                f"{P}security_group_ids: the nodes are in a security group that is not the cluster's own. "
                f"Specify that group in {P}security_group_ids.nodes, or {ADVICE}."
            )

    @staticmethod
    def _lies_in(request: Request, found: Sequence[Found]) -> str | None:
        """Return the VPC of the cluster's own security groups or, without such groups, the VPC of its Auto Scaling groups."""
        own = [item.properties["vpc"] for item in found if item.address.kind == "security_group" and not item.adopted]
        subnets = [subnet for item in groups_of_nodes(found) for subnet in item.properties["subnets"]]
        return next(iter([*own, *(item["VpcId"] for item in adopted.subnets(request.cloud, subnets))]), None)


def groups_of_nodes(found: Sequence[Found]) -> list[Found]:
    return [item for item in found if item.address.kind == "auto_scaling_group"]


class InterfaceEndpoints(Validator):
    name = "interface_endpoints"
    components = frozenset({NETWORK_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, names = request.cloud, request.options["interface_endpoints"]
        if not names:
            return
        offered = endpoint_services.offered(cloud)
        zone_names = zones(request, found)
        for name in dict.fromkeys(names):
            if name == "s3":
                yield f"{P}interface_endpoints: s3 is not supported, because gateway endpoints for S3 are free of charge. Remove s3."
            elif name not in offered:
                yield (
                    f"{P}interface_endpoints: {cloud.region} has no interface endpoint for '{name}'. "
                    "Specify the last part of a service name, such as ssm."
                )
            else:
                lacking = [zone for zone in zone_names if zone not in offered[name]["AvailabilityZones"]]
                if lacking:
                    yield f"{P}interface_endpoints: {name} is not available in {', '.join(lacking)}. Remove it, or choose other zones."
        yield from self._taken(request, found)

    @staticmethod
    def _taken(request: Request, found: Sequence[Found]) -> Iterator[str]:
        """Check that the VPC has no other endpoints for the requested services.

        A VPC can have only one endpoint with private DNS names for each service.
        """
        if not request.options["vpc_id"]:
            return
        own = {item.id for item in found if item.address.kind == "vpc_endpoint"}
        for endpoint in adopted.endpoints(request.cloud, request.options["vpc_id"]):
            name = endpoint_services.service_of(endpoint, request.cloud.region)
            foreign = endpoint.get("PrivateDnsEnabled") and endpoint["VpcEndpointId"] not in own
            if foreign and name in request.options["interface_endpoints"]:
                yield (
                    f"{P}interface_endpoints: {endpoint['VpcId']} already has {endpoint['VpcEndpointId']} for {name}. Remove this service."
                )
