"""Tests that read, create and change Lustre file systems and their links to S3."""

from __future__ import annotations

from types import SimpleNamespace

import botocore.session
import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Request
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Found
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.lustre import resources as lustre_resources
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.lustre.definition import EVENTS, data_repository
from botocore.stub import Stubber

FAILED = {
    "FileSystemId": "fs-0123456789abcdef0",
    "FileSystemType": "LUSTRE",
    "Lifecycle": "FAILED",
    "StorageCapacity": 1200,
    "VpcId": "vpc-1",
    "SubnetIds": ["subnet-1"],
    "NetworkInterfaceIds": ["eni-1"],
    "DNSName": "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
    "ResourceARN": "arn:aws:fsx:us-east-1:123456789012:file-system/fs-0123456789abcdef0",
    "LustreConfiguration": {"DeploymentType": "SCRATCH_2", "MountName": "abcdefgh"},
}


def test_a_lustre_file_system_that_has_failed_may_have_lost_its_interfaces():
    class AwsClient:
        cluster = "bert"

        def retrieve(self, service, _operation, _key, **arguments):
            if service == "ec2":
                assert arguments.keys() == {"Filters"}, "outside filters, an id that no longer exists is an error"
            return [FAILED] if service == "fsx" else []

        def comparable_tags(self, _tags):
            return {}

    (found,) = lustre_resources.read(Request(AwsClient(), {"lustre_file_system_id": FAILED["FileSystemId"]}), [])
    assert (found.attributes["address"], found.attributes["state"]) == (None, "FAILED")


def test_the_policies_of_a_link_change_in_place():
    """The stub checks the request against the model of the API."""
    client = botocore.session.get_session().create_client("fsx", region_name="us-east-1")
    found = Found(data_repository("/train"), "dra-0123456789abcdef0", {}, {"arn": "arn:aws:fsx:us-east-1:123456789012:association/a/b"})
    policies = {"AutoImportPolicy": {"Events": []}, "AutoExportPolicy": {"Events": ["CHANGED", "DELETED", "NEW"]}}
    properties = {"imports": frozenset(), "exports": EVENTS}
    with Stubber(client) as stub:
        stub.add_response("update_data_repository_association", {}, {"AssociationId": found.id, "S3": policies})
        lustre_resources.KINDS[1].update(SimpleNamespace(client=lambda _service: client), found, properties, frozenset({"exports"}))
        stub.assert_no_pending_responses()


@pytest.mark.parametrize(
    ("imports", "exports", "sent"),
    [
        (EVENTS, frozenset(), {"S3": {"AutoImportPolicy": {"Events": sorted(EVENTS)}}}),
        (frozenset(), frozenset(), {}),
    ],
)
def test_a_new_link_names_only_what_it_carries_over(imports, exports, sent):
    assert lustre_resources._created_policies({"imports": imports, "exports": exports}) == sent


def test_another_run_has_another_token():
    """If a request contains the client token of a deleted resource, FSx may return the deleted resource."""
    runs = [SimpleNamespace(cluster="bert", run_id=run_id) for run_id in ("a", "a", "b")]
    first, again, other = (lustre_resources._token(run, {"FileSystemPath": "/train"}) for run in runs)
    assert first == again != other
