# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Security groups and their rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Mapping

from ..client import AwsClient
from ..plan.resources import Address, Found
from . import leftovers
from .definition import SELF, SecurityRule
from .tagged import Properties, network_kind, read_tagged, tag_specifications, update_tags


def read(cloud: AwsClient) -> Iterator[Found]:
    return read_tagged(cloud, _found, "describe_security_groups", ("SecurityGroups", "GroupId"))


def _found(cloud: AwsClient, key: str, group: Mapping[str, Any]) -> Found:
    return Found(Address("security_group", key), group["GroupId"], security_group_properties(cloud, group))


def security_group_properties(cloud: AwsClient, group: Mapping[str, Any]) -> Properties:
    return {
        "vpc": group["VpcId"],
        "description": group["Description"],
        "ingress": frozenset(rules(group["IpPermissions"], group["GroupId"])),
        "egress": frozenset(rules(group["IpPermissionsEgress"], group["GroupId"])),
        "tags": cloud.comparable_tags(group.get("Tags", [])),
    }


def rules(permissions: Iterable[Mapping[str, Any]], group_id: str | None = None) -> Iterator[SecurityRule]:
    """Return the rules of a security group. In the rules, `self` refers to the group with the ID `group_id`."""
    for item in permissions:
        ports = (item["IpProtocol"], item.get("FromPort", -1), item.get("ToPort", -1))
        for ip_range in item.get("IpRanges", []):
            yield (*ports, ip_range["CidrIp"])
        for ip_range in item.get("Ipv6Ranges", []):
            yield (*ports, ip_range["CidrIpv6"])
        for pair in item.get("UserIdGroupPairs", []):
            yield (*ports, SELF if pair["GroupId"] == group_id else pair["GroupId"])
        for prefix_list in item.get("PrefixListIds", []):
            yield (*ports, prefix_list["PrefixListId"])


def _permission(group_id: str, rule: SecurityRule) -> dict[str, Any]:
    protocol, first, last, source = rule
    permission: dict[str, Any] = {"IpProtocol": protocol}
    if protocol != "-1":
        permission |= {"FromPort": first, "ToPort": last}
    if source == SELF or source.startswith("sg-"):
        return {**permission, "UserIdGroupPairs": [{"GroupId": group_id if source == SELF else source}]}
    if source.startswith("pl-"):
        return {**permission, "PrefixListIds": [{"PrefixListId": source}]}
    if ":" in source:
        return {**permission, "Ipv6Ranges": [{"CidrIpv6": source}]}
    return {**permission, "IpRanges": [{"CidrIp": source}]}


def _create(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    group_id = cloud.create(
        "ec2",
        "create_security_group",
        GroupName=properties["tags"]["Name"],
        Description=properties["description"],
        VpcId=properties["vpc"],
        TagSpecifications=tag_specifications("security-group", properties["tags"]),
    )["GroupId"]
    # AWS adds rules that allow all outbound traffic to every new group, for IPv6 too if the VPC has an IPv6 range
    (group,) = cloud.once_visible(cloud.ec2.describe_security_groups, GroupIds=[group_id])["SecurityGroups"]
    found = Found(address, group_id, {**properties, **security_group_properties(cloud, group)})
    _update(cloud, found, properties, frozenset({"ingress", "egress"} & properties.keys()))
    return found


def _update(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> None:
    for direction in ("ingress", "egress"):
        if direction in changed:
            before, after = found.properties[direction], properties[direction]
            _change_rules(cloud, f"authorize_security_group_{direction}", found.id, after - before)
            _change_rules(cloud, f"revoke_security_group_{direction}", found.id, before - after)
    if "tags" in changed:
        update_tags(cloud, found, properties)


def _change_rules(cloud: AwsClient, operation: str, group_id: str, rules: frozenset[SecurityRule]) -> None:
    if rules:
        permissions = [_permission(group_id, rule) for rule in sorted(rules)]
        cloud.once_visible(getattr(cloud.ec2, operation), GroupId=group_id, IpPermissions=permissions)


def delete(cloud: AwsClient, found: Found) -> None:
    leftovers.delete(cloud, cloud.ec2.delete_security_group, ("group-id", found.id), found.properties["vpc"], GroupId=found.id)


KIND = network_kind(
    "security_group",
    _create,
    delete,
    update=_update,
    updatable=("ingress", "egress"),
    deleted_after=("auto_scaling_group", "vpc_endpoint"),
)
