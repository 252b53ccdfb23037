"""Tests of the comparison of policies, with the forms in which AWS returns them."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.policy_documents import PolicyDocument

STATEMENT = {"Effect": "Allow", "Principal": {"Service": ["ec2.a", "ec2.b"]}, "Action": ["sts:AssumeRole"], "Resource": ["a", "b"]}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"Principal": {"Service": ["ec2.b", "ec2.a"]}},
        {"Action": "sts:AssumeRole"},
        {"Resource": ["b", "a"]},
    ],
)
def test_lists_have_no_order_and_one_element_needs_no_list(changes):
    found = PolicyDocument({"Version": "2012-10-17", "Statement": {**STATEMENT, **changes}})
    wanted = {"Version": "2012-10-17", "Statement": [STATEMENT]}
    assert found == wanted
    assert not found != wanted  # noqa: SIM202  # pylint: disable=unnecessary-negation
    assert wanted == found


@pytest.mark.parametrize(
    "changes",
    [
        {"Effect": "Deny"},
        {"Principal": "*"},
        {"Principal": {"Service": "ec2.a"}},
        {"Resource": "a"},
        {"Condition": {"Bool": {"x": "true"}}},
    ],
)
def test_a_different_meaning_is_different(changes):
    assert PolicyDocument({"Statement": [{**STATEMENT, **changes}]}) != {"Statement": [STATEMENT]}
    assert PolicyDocument({"Statement": [STATEMENT, STATEMENT]}) != {"Statement": [STATEMENT]}
    assert PolicyDocument({"Statement": [STATEMENT]}) != "a text"


def test_conditions_are_compared_as_text():
    one = PolicyDocument({"Statement": {"Condition": {"Bool": {"aws:SecureTransport": False}}}})
    assert one == {"Statement": {"Condition": {"Bool": {"AWS:securetransport": ["false"]}}}}
