"""Tests that check which security group rules EMR's block public access setting forbids."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Request
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr import network_validators
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr.definition import CLUSTER
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.options.registry import argument_spec
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Found

DEFAULTS = {name: spec.get("default") for name, spec in argument_spec("emr").items()}
EVERYBODY = {"IpRanges": [{"CidrIp": "0.0.0.0/0"}]}


def rule(protocol, first=None, last=None, **sources):
    ports = {} if first is None else {"FromPort": first, "ToPort": last}
    return {"IpProtocol": protocol, **ports, **(sources or EVERYBODY)}


@pytest.mark.parametrize(
    ("permission", "expected"),
    [
        (rule("tcp", 22, 22), [(22, 22)]),
        (rule("udp", 8000, 9000), [(8000, 9000)]),
        (rule("-1"), [(0, 65535)]),
        (rule("tcp", 443, 443, Ipv6Ranges=[{"CidrIpv6": "::/0"}]), [(443, 443)]),
        (rule("icmp", -1, -1), []),
        (rule("tcp", 22, 22, IpRanges=[{"CidrIp": "10.0.0.0/8"}]), []),
        (rule("tcp", 22, 22, UserIdGroupPairs=[{"GroupId": "sg-1"}]), []),
    ],
)
def test_open_ports(permission, expected):
    assert network_validators.open_ports({"IpPermissions": [permission]}) == expected


@pytest.mark.parametrize(
    ("found", "replace", "permitted", "enabled", "blocked"),
    [
        ([], False, [], True, True),
        ([], False, [{"MinRange": 8888}], True, False),
        ([], False, [{"MinRange": 0, "MaxRange": 8887}], True, True),
        ([], False, [], False, False),
        ([Found(CLUSTER, "j-1")], False, [], True, False),
        ([Found(CLUSTER, "j-1")], True, [], True, True),
    ],
)
def test_public_access(found, replace, permitted, enabled, blocked):
    """Block public access applies only to clusters that start."""
    settings = {"BlockPublicSecurityGroupRules": enabled, "PermittedPublicSecurityGroupRuleRanges": permitted}
    group = {"GroupId": "sg-1", "IpPermissions": [rule("tcp", 8888, 8888)]}
    cloud = SimpleNamespace(
        retrieve_once=lambda *_names, **_arguments: [group],
        emr=SimpleNamespace(get_block_public_access_configuration=lambda: {"BlockPublicAccessConfiguration": settings}),
    )
    options = {**DEFAULTS, "emr_additional_security_group_ids": {"workers": ["sg-1"]}, "emr_replace": replace}
    messages = list(network_validators.EmrPublicAccess().check(Request(cloud, options), found))
    assert len(messages) == blocked
    assert all("ids.workers: sg-1 allows traffic from all addresses on ports 8888" in message for message in messages)
