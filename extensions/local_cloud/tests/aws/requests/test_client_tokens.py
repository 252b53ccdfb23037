"""A repeated request with the same client token is executed once."""

from __future__ import annotations

import pytest

from ..conftest import Account


def test_a_token_makes_one_resource(account: Account) -> None:
    vpc = account.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    tables = [account.ec2.create_route_table(VpcId=vpc, ClientToken=token)["RouteTable"]["RouteTableId"] for token in ("a", "a", "b")]
    assert tables[0] == tables[1] != tables[2]
    filters = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "route-table-id", "Values": tables}]
    assert len(account.ec2.describe_route_tables(Filters=filters)["RouteTables"]) == 2


def test_a_failure_is_not_remembered(account: Account) -> None:
    def create(vpc: str) -> str:
        answer = account.ec2.create_route_table(VpcId=vpc, ClientToken="c")
        return str(answer["RouteTable"]["RouteTableId"])

    with pytest.raises(account.ec2.exceptions.ClientError, match=r"InvalidVpcID.NotFound"):
        create("vpc-0123456789abcdef0")
    assert create(account.vpc()).startswith("rtb-")
