"""Tests of the permissions that the nodes' role gets for a mounted bucket."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.regions import partition_of
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.bucket import component as bucket_component


@pytest.mark.parametrize(
    ("source", "listed", "read"),
    [
        ("s3://sets", None, "arn:aws-cn:s3:::sets/*"),
        ("s3://sets/images", {"StringLike": {"s3:prefix": "images/*"}}, "arn:aws-cn:s3:::sets/images/*"),
    ],
)
def test_the_role_of_the_nodes_may_read_what_is_mounted_and_no_more(source, listed, read):
    listing, reading = bucket_component.statements(source, partition_of("cn-north-1"))
    assert (listing["Action"], listing["Resource"]) == (["s3:ListBucket"], ["arn:aws-cn:s3:::sets"])
    assert listing.get("Condition") == listed
    assert (reading["Action"], reading["Resource"]) == (["s3:GetObject"], [read])
