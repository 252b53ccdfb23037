"""Security group rules are compared and described in the same way as on AWS."""

from __future__ import annotations

from typing import Any

from ..conftest import Account, refused
from .conftest import Network


def test_rules_are_the_same_whatever_their_description(account: Account, network: Network) -> None:
    ec2 = account.ec2
    group = ec2.create_security_group(GroupName="one", Description="d", VpcId=network.vpc)["GroupId"]

    def permissions(description: str) -> list[list[dict[str, Any]]]:
        return [
            [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group, "Description": description}]}],
            [{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "10.0.0.0/8", "Description": description}]}],
        ]

    for permission in permissions("first"):
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=permission)
    for permission in permissions("second"):
        refused(
            lambda permission=permission: ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=permission),  # type: ignore[misc]
            "InvalidPermission.Duplicate",
        )
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=permissions("out")[0])
    found = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"]
    described = {each["IpProtocol"]: each for each in found}
    assert described["-1"]["UserIdGroupPairs"][0]["GroupId"] == group
    assert described["tcp"]["IpRanges"] == [{"CidrIp": "10.0.0.0/8", "Description": "first"}]
    for permission in permissions("third"):
        ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=permission)
    assert ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"] == []


def test_rule_descriptions(account: Account, network: Network) -> None:
    ec2 = account.ec2
    group = ec2.create_security_group(GroupName="one", Description="d", VpcId=network.vpc)["GroupId"]

    def permissions(description: str) -> list[dict[str, Any]]:
        return [{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "10.0.0.0/8", "Description": description}]}]

    for direction, key in (("ingress", "IpPermissions"), ("egress", "IpPermissionsEgress")):
        getattr(ec2, f"authorize_security_group_{direction}")(GroupId=group, IpPermissions=permissions("before"))
        update = getattr(ec2, f"update_security_group_rule_descriptions_{direction}")
        assert update(GroupId=group, IpPermissions=permissions("after"))["Return"] is True
        found = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0][key]
        assert [each["IpRanges"] for each in found if each["IpProtocol"] == "tcp"] == [permissions("after")[0]["IpRanges"]]
