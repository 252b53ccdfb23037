"""Tests of regions and partitions, and of names that contain them."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws import regions
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.dataset_bucket import bucket
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instance_role import definition


@pytest.mark.parametrize(
    ("region", "partition", "suffix", "currency"),
    [
        ("us-east-1", "aws", "amazonaws.com", "USD"),
        ("cn-northwest-1", "aws-cn", "amazonaws.com.cn", "CNY"),
        ("us-gov-east-1", "aws-us-gov", "amazonaws.com", "USD"),
        ("eusc-de-east-1", "aws-eusc", "amazonaws.eu", "EUR"),
        ("us-iso-east-1", "aws-iso", "c2s.ic.gov", "USD"),
    ],
)
def test_names_of_a_partition(region, partition, suffix, currency):
    found = regions.partition_of(region)
    assert (found.name, found.dns_suffix, found.currency) == (partition, suffix, currency)
    objects = definition.policy(region, ["data"], [])["Statement"][2]["Resource"]
    assert objects == [f"arn:{partition}:s3:::data/*"]
    assert bucket._tls_only("data", region)["Resource"] == [f"arn:{partition}:s3:::data", f"arn:{partition}:s3:::data/*"]


@pytest.mark.parametrize("region", ["aws-global", "aws-cn-global", "aws-us-gov-global", "us-east-9", "mars"])
def test_what_is_no_region_is_refused(region):
    with pytest.raises(ValueError, match=f"region: '{region}' is not an AWS region. Did you mean one of "):
        regions.valid_region(region)
