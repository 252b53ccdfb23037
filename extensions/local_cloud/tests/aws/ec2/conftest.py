"""A VPC for network tests."""

from __future__ import annotations

import pytest

from ..conftest import Account


class Network:
    """A VPC with an internet gateway and one subnet."""

    def __init__(self, account: Account) -> None:
        ec2 = account.ec2
        self.vpc = account.vpc()
        self.subnet = account.subnets("a", self.vpc)[0]
        self.gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        ec2.attach_internet_gateway(InternetGatewayId=self.gateway, VpcId=self.vpc)


@pytest.fixture
def network(account: Account) -> Network:
    return Network(account)


def all_running(account: Account, identifiers: list[str]) -> bool:
    return {account.state(each) for each in identifiers} == {"running"}
