"""Tests of the advice about VPC Block Public Access in an account whose organization decides about it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Request
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validators.network import BlockPublicAccess

OPTIONS = {"vpc_id": None, "nat": "single", "master_public_address": True}


@pytest.mark.parametrize(("allowed", "advises"), [("allowed", True), (None, True), ("not-allowed", False)])
def test_an_exclusion_is_advised_only_where_it_is_allowed(allowed, advises):
    settings = {"InternetGatewayBlockMode": "block-bidirectional", **({"ExclusionsAllowed": allowed} if allowed else {})}
    cloud = SimpleNamespace(
        region="us-east-1",
        retrieve=lambda *_names: [],
        ec2=SimpleNamespace(describe_vpc_block_public_access_options=lambda: {"VpcBlockPublicAccessOptions": settings}),
    )
    messages = list(BlockPublicAccess().check(Request(cloud, OPTIONS), []))
    assert [message.partition(":")[0] for message in messages] == ["nat", "master_public_address"]
    assert ["Create an exclusion" in message for message in messages] == [advises, advises]
    assert ["allows no exclusions. Set" in message for message in messages] == [not advises, not advises]
