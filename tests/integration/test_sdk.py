"""An SDK that is older than the required version is refused before the first API call."""

from __future__ import annotations

from unittest.mock import MagicMock

import boto3
import botocore
import botocore.session
import pytest
from ansible.errors import AnsibleParserError
from ansible_collections.deeplearning.cluster.plugins.inventory import nodes
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws import client

from .conftest import ModuleFailed


@pytest.mark.parametrize(("sdk", "version", "refused"), [(botocore, "1.43.40", True), (boto3, "1.34.46", True), (boto3, "1.44.0", False)])
def test_an_old_sdk_is_refused(cloud, run, name, monkeypatch, sdk, version, refused):
    monkeypatch.setattr(sdk, "__version__", version)
    assert bool(client.sdk_problem()) == refused
    if not refused:
        return
    cloud.control.forget_calls()
    message = rf"{sdk.__name__} {version}.*, but .* needs version 1\.44\.0 or newer of both\. Upgrade them: .* 'boto3>=1\.44\.0'"
    with pytest.raises(ModuleFailed, match=message):
        run("cluster_info", cluster=name)
    with pytest.raises(ModuleFailed, match=message):
        run("host_keys_info", instance_ids=["i-0123456789abcdef0"])
    assert cloud.control.calls() == []


def test_the_inventory_refuses_an_old_sdk(monkeypatch):
    monkeypatch.setattr(botocore, "__version__", "1.43.40")
    monkeypatch.setattr(nodes.AWSInventoryBase, "parse", lambda *_arguments, **_options: None)
    with pytest.raises(AnsibleParserError, match=r"botocore 1\.43\.40, but .* needs version"):
        nodes.InventoryModule().parse(MagicMock(), MagicMock(), "nodes.yml")


def test_the_needed_sdk_is_documented(repository):
    assert f"boto3>={client.LEAST_SDK.rsplit('.', 1)[0]}'" in (repository / "README.md").read_text()


def test_what_a_client_of_s3_does_to_its_model_does_not_reach_others(cloud):
    """S3 clients remove the bucket from the paths of operations. A local cloud in this process routes requests by these paths."""
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket="models")
    assert s3.meta.service_model.operation_model("CreateBucket").http["requestUri"] == ""
    model = botocore.session.get_session().get_service_model("s3")
    assert model.operation_model("CreateBucket").http["requestUri"] == "/{Bucket}"
