"""Private and public IP addresses of instances."""

from __future__ import annotations

import ipaddress
from functools import partial

from local_cloud.testing import wait_until

from ..conftest import Account, Hosts
from .conftest import all_running


def test_addresses_are_unique_inside_the_subnet_and_not_the_reserved_ones(account: Account) -> None:
    addresses = [each["PrivateIpAddress"] for each in account.run(account.subnets("a", size=28)[0], 11)]
    assert addresses == [f"10.7.0.{number}" for number in range(4, 15)]


def test_an_address_rests_before_it_comes_again(account: Account) -> None:
    subnet = account.subnets("a")[0]
    first = account.run(subnet)[0]
    account.ec2.terminate_instances(InstanceIds=[first["InstanceId"]])
    wait_until(lambda: account.state(first["InstanceId"]) == "terminated")
    assert account.run(subnet)[0]["PrivateIpAddress"] != first["PrivateIpAddress"]


def test_public_addresses_are_loopback_and_unique(account: Account, elsewhere: Account, hosts: Hosts) -> None:
    found = []
    for place in (account, elsewhere):
        subnet = place.subnets("a")[0]
        place.ec2.modify_subnet_attribute(SubnetId=subnet, MapPublicIpOnLaunch={"Value": True})
        identifiers = [each["InstanceId"] for each in place.run(subnet, 2)]
        wait_until(partial(all_running, place, identifiers))
        found += [place.instance(each)["PublicIpAddress"] for each in identifiers]
        assert [hosts.specs[each].public_ip for each in identifiers] == found[-2:]
        found.append(place.ec2.allocate_address(Domain="vpc")["PublicIp"])
    assert len(set(found)) == 6
    assert all(ipaddress.ip_address(each) in ipaddress.ip_network("127.83.0.0/16") for each in found)
