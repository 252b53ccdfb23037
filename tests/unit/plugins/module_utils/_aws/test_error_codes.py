"""Tests of what error codes mean."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.error_codes import outcome_is_unknown
from botocore.exceptions import ClientError


@pytest.mark.parametrize(
    ("operation", "code", "unknown"),
    [
        ("AddRoleToInstanceProfile", "LimitExceeded", True),
        ("CreateRole", "LimitExceeded", False),
        ("CreateAutoScalingGroup", "LimitExceeded", False),
        ("CreateRole", "EntityAlreadyExists", True),
        ("AddRoleToInstanceProfile", "AccessDenied", False),
    ],
)
def test_an_exhausted_quota_is_not_a_call_that_was_made_before(operation, code, unknown):
    error = ClientError({"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 409}}, operation)
    assert outcome_is_unknown(error) is unknown
