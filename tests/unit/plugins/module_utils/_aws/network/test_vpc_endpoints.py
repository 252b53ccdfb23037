"""Tests that check which states of VPC endpoints count as available."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network import adopted, vpc_endpoints


@pytest.mark.parametrize(("state", "same"), [("Available", "available"), ("partial", "available"), ("Failed", "failed")])
def test_an_endpoint_that_works_in_part_counts_as_available(state, same):
    assert vpc_endpoints._endpoint_state({"State": state}) == same


@pytest.mark.parametrize("state", ["Partial", "partial", "available", "Pending", "pendingAcceptance"])
def test_an_endpoint_that_works_in_part_is_found_again(state):
    """If a partially working endpoint did not count, the next run would create a second one, and a deletion would keep the first one."""
    values = {"deeplearning:cluster": "bert", "deeplearning:component": "network", "deeplearning:key": "ssm"}
    tags = [{"Key": key, "Value": value} for key, value in values.items()]
    shared = {"VpcEndpointType": "Interface", "VpcId": "vpc-1", "ServiceName": "ssm", "Tags": tags}
    described = [
        {**shared, "VpcEndpointId": f"vpce-{each}", "State": each} for each in (state, "Deleting", "deleted", "Failed", "Rejected")
    ]

    class AwsClient:
        cluster = "bert"

        def filters(self, *more):
            return list(more)

        def comparable_tags(self, tags):
            return tags

        def retrieve(self, _service, _operation, _key, **arguments):
            return [item for item in described if all(item["State"].lower() in each["Values"] for each in arguments["Filters"])]

        def retrieve_once(self, _service, _operation, _key, **_arguments):
            return described

    assert [found.id for found in vpc_endpoints.read(AwsClient())] == [f"vpce-{state}"]
    assert [item["State"] for item in adopted.endpoints(AwsClient(), "vpc-1")] == [state]
