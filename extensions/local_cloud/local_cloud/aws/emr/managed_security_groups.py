"""The security groups that EMR manages.

EMR creates each security group that the request does not name, and adds EMR's own rules to the security groups of the nodes.

If a request names a service access security group, EMR does not add rules to that group. Source: Amazon EMR Management Guide, "Working with
Amazon EMR-managed security groups".
"""

from __future__ import annotations

from typing import NamedTuple

from moto.ec2.exceptions import InvalidPermissionDuplicateError, InvalidSecurityGroupNotFoundError
from moto.ec2.models import EC2Backend
from moto.ec2.models.subnets import Subnet

from .roles import SCOPED_TAG

# The names of the groups for the master and for the other nodes, in public (True) and in private subnets.
NAMES = {
    True: ("ElasticMapReduce-master", "ElasticMapReduce-slave"),
    False: ("ElasticMapReduce-Master-Private", "ElasticMapReduce-Slave-Private"),
}
SERVICE_NAME = "ElasticMapReduce-ServiceAccess"
# The port on which nodes accept connections from the service, and the port on which the service accepts connections from the master.
CONTROL_PORT, SECURE_CONTROL_PORT = 8443, 9443
EVERYTHING = (("tcp", 0, 65535), ("udp", 0, 65535), ("icmp", -1, -1))
ANYWHERE = "0.0.0.0/0"


class ManagedGroups(NamedTuple):
    """The IDs of a cluster's security groups. Only clusters in private subnets have a service access security group."""

    master: str
    slave: str
    service: str | None


def is_public(backend: EC2Backend, subnet: Subnet) -> bool:
    """Return whether the subnet's route table has a route to an internet gateway. Default subnets count as public."""
    own = backend.describe_route_tables(filters={"association.subnet-id": [subnet.id]})
    main = backend.describe_route_tables(filters={"vpc-id": [subnet.vpc_id], "association.main": ["true"]})
    routes = [route for table in (own or main)[:1] for route in table.routes if route.destination_cidr_block == ANYWHERE]
    return bool(subnet.default_for_az) or any(str(route.gateway_id).startswith("igw-") for route in routes)


def manage(backend: EC2Backend, subnet: Subnet, named: ManagedGroups | None) -> ManagedGroups:
    """Return the security groups of a cluster, with EMR's rules. Raises the EC2 error for a named security group that does not exist."""
    if named is None:
        return _manage_own(backend, subnet)
    for identifier in filter(None, named):
        found = backend.get_security_group_from_id(identifier)
        if found is None or found.vpc_id != subnet.vpc_id:
            raise InvalidSecurityGroupNotFoundError(identifier)
    _add_rules(backend, named, subnet.vpc_id)
    return named


def _manage_own(backend: EC2Backend, subnet: Subnet) -> ManagedGroups:
    public = is_public(backend, subnet)
    master, slave = (_own_group(backend, subnet.vpc_id, name) for name in NAMES[public])
    groups = ManagedGroups(master, slave, None if public else _own_group(backend, subnet.vpc_id, SERVICE_NAME))
    _add_rules(backend, groups, subnet.vpc_id)
    if groups.service:
        _allow(backend, subnet.vpc_id, groups.service, ("tcp", SECURE_CONTROL_PORT, SECURE_CONTROL_PORT), [master])
    return groups


def lets_master_in(backend: EC2Backend, groups: ManagedGroups) -> bool:
    """Return whether the service access security group has a rule for the master.

    If the cluster has no service access security group, return True.
    """
    service = groups.service and backend.get_security_group_from_id(groups.service)
    return not service or any(
        rule.source_group.get("GroupId") == groups.master
        and (rule.ip_protocol == "-1" or (rule.ip_protocol == "tcp" and rule.from_port <= SECURE_CONTROL_PORT <= rule.to_port))
        for rule in service.ingress_rules
    )


def _own_group(backend: EC2Backend, vpc_id: str, name: str) -> str:
    found = backend.get_security_group_from_name(name, vpc_id)
    return str((found or backend.create_security_group(name, f"{name} of Amazon EMR", vpc_id, {SCOPED_TAG: "true"})).id)


def _add_rules(backend: EC2Backend, groups: ManagedGroups, vpc_id: str) -> None:
    nodes = list(dict.fromkeys([groups.master, groups.slave]))
    for group in nodes:
        for ports in EVERYTHING:
            _allow(backend, vpc_id, group, ports, nodes)
        if groups.service:
            _allow(backend, vpc_id, group, ("tcp", CONTROL_PORT, CONTROL_PORT), [groups.service])


def _allow(backend: EC2Backend, vpc_id: str, group: str, ports: tuple[str, int, int], sources: list[str]) -> None:
    protocol, first, last = ports
    for source in sources:
        try:
            backend.authorize_security_group_ingress(
                group,
                protocol,
                first,
                last,
                [],
                source_groups=[{"GroupId": source}],
                vpc_id=vpc_id,  # type: ignore[arg-type]
            )
        except InvalidPermissionDuplicateError:
            continue
