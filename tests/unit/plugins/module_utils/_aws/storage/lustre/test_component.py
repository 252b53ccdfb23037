"""Tests that check which servers of Lustre file systems may connect to the nodes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Request
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Found
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.lustre.component import LUSTRE

SUBNETS = {"private-a": "10.0.0.0/19", "public-a": "10.0.128.0/19"}
PRIVATE = Found(Address("subnet", "private-a"), "subnet-a", {"cidr": "10.0.0.0/19"})
NEITHER = {"lustre": False, "lustre_file_system_id": None}
OWN = {"lustre": True, "lustre_file_system_id": None}
ADOPTED = {"lustre": False, "lustre_file_system_id": "fs-1"}


def file_system(subnet, key="main", **more):
    return Found(Address("lustre_file_system", key), "fs-1", {"subnet": subnet}, {"address": "10.9.0.4"}, **more)


class AwsClient(SimpleNamespace):
    """An AWS client whose account can describe one subnet of another account."""

    def retrieve_once(self, _service, _operation, _key, **arguments):
        return [{"CidrBlock": "10.9.0.0/24"}] if arguments["Filters"][0]["Values"] == ["subnet-shared"] else []


@pytest.mark.parametrize(
    ("options", "found", "cidrs"),
    [
        (NEITHER, [], set()),
        (OWN, [], {"10.0.0.0/19"}),
        (OWN, [PRIVATE, file_system("subnet-a")], {"10.0.0.0/19"}),
        (ADOPTED, [PRIVATE, file_system("subnet-a", adopted=True)], {"10.0.0.0/19"}),
        (ADOPTED, [PRIVATE, file_system("subnet-shared", adopted=True)], {"10.9.0.0/24"}),
        (ADOPTED, [PRIVATE, file_system("subnet-hidden", adopted=True)], {"10.9.0.4/32"}),
        (NEITHER, [PRIVATE, file_system("subnet-a", key="former")], {"10.0.0.0/19"}),
    ],
)
def test_servers_reach_the_nodes_from_their_subnets(options, found, cidrs):
    rules = LUSTRE.server_rules(Request(AwsClient(), options), found, SUBNETS)
    assert rules == {(*ports, cidr) for ports in (("tcp", 988, 988), ("tcp", 1018, 1023)) for cidr in cidrs}
