"""Tests of the policies of EFS file systems, and of the addresses that hosts mount."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.efs import definition

ALLOW, DENY = definition.policy_document(tls_required=True)["Statement"]


@pytest.mark.parametrize(
    ("statements", "same"),
    [
        ([ALLOW, DENY], True),
        ([DENY, ALLOW], True),
        ([{**ALLOW, "Action": ALLOW["Action"][::-1], "Resource": "arn:aws:elasticfilesystem:us-east-1:1:file-system/fs-1"}, DENY], True),
        ([ALLOW, {**DENY, "Principal": "*", "Action": ["*"], "Condition": {"Bool": {"aws:securetransport": [False]}}}], True),
        ([{**ALLOW, "Sid": "mine"}, {**DENY, "Sid": "2"}], True),
        ([ALLOW], False),
        ([{**ALLOW, "Action": ALLOW["Action"][:2]}, DENY], False),
        ([{**ALLOW, "Principal": {"AWS": "arn:aws:iam::1:root"}}, DENY], False),
        ([{**ALLOW, "Condition": {}}, DENY], False),
        ([ALLOW, {**DENY, "Condition": {"Bool": {"aws:SecureTransport": "true"}}}], False),
        ([ALLOW, {**DENY, "Effect": "Allow"}], False),
        ([ALLOW, DENY, {**ALLOW, "NotPrincipal": {"AWS": "1"}}], False),
    ],
)
def test_policies_are_compared_by_what_they_mean(statements, same):
    wanted = definition.comparable_policy({"Statement": [ALLOW, DENY]})
    assert (definition.comparable_policy({"Version": "2008-10-17", "Statement": statements}) == wanted) is same
    assert definition.comparable_policy({"Statement": ALLOW}) == definition.comparable_policy({"Statement": [ALLOW]})


@pytest.mark.parametrize(
    ("targets", "same_vpc", "one_zone", "address"),
    [
        ({"a": "10.0.0.1", "b": "10.0.0.2"}, True, None, ""),
        ({}, False, None, ""),
        ({"a": "10.0.0.1", "b": "10.0.0.2"}, False, None, "10.0.0.2"),
        ({"c": "10.0.0.3", "a": "10.0.0.1"}, False, None, "10.0.0.1"),
        ({"a": "10.0.0.1"}, True, "a", "10.0.0.1"),
        ({"b": "10.0.0.2"}, True, "b", ""),
    ],
)
def test_host_address(targets, same_vpc, one_zone, address):
    assert definition.host_address(targets, ["b"], same_vpc=same_vpc, one_zone=one_zone) == address
