"""KMS keys are found by all their names, and volumes without a usable key disappear."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from local_cloud.testing import wait_until

from ..conftest import Account


@pytest.fixture
def key(account: Account) -> dict[str, Any]:
    created: dict[str, Any] = account.client("kms").create_key()["KeyMetadata"]
    return created


def test_names_and_states(account: Account, elsewhere: Account, key: dict[str, Any]) -> None:
    kms, alias = account.client("kms"), f"alias/{account.name('key')}"
    kms.create_alias(AliasName=alias, TargetKeyId=key["KeyId"])
    for name in (key["KeyId"], key["Arn"], alias, key["Arn"].rpartition(":")[0] + f":{alias}"):
        assert kms.describe_key(KeyId=name)["KeyMetadata"]["Arn"] == key["Arn"]
    kms.disable_key(KeyId=key["KeyId"])
    assert kms.describe_key(KeyId=alias)["KeyMetadata"]["KeyState"] == "Disabled"
    kms.schedule_key_deletion(KeyId=key["KeyId"])
    assert kms.describe_key(KeyId=alias)["KeyMetadata"]["KeyState"] == "PendingDeletion"
    for name, words in (
        ("alias/none", "is not found"),
        ("00000000-0000-0000-0000-000000000000", "does not exist"),
        ("none", "Invalid keyId"),
    ):
        with pytest.raises(kms.exceptions.NotFoundException, match=words):
            kms.describe_key(KeyId=name)
    with pytest.raises(ClientError, match="NotFoundException"):
        elsewhere.client("kms").describe_key(KeyId=key["KeyId"])


def test_volumes(account: Account, key: dict[str, Any]) -> None:
    def create(name: str) -> dict[str, Any]:
        request = {"AvailabilityZone": "us-east-1a", "Size": 1, "Encrypted": True, "KmsKeyId": name}
        created: dict[str, Any] = account.ec2.create_volume(**request)
        return created

    def state(volume: dict[str, Any]) -> str:
        try:
            return str(account.ec2.describe_volumes(VolumeIds=[volume["VolumeId"]])["Volumes"][0]["State"])
        except ClientError as error:
            return str(error.response["Error"]["Code"])

    bad, good = create("alias/none"), create(key["KeyId"])
    assert (bad["State"], good["State"]) == ("creating", "available")
    assert good["KmsKeyId"] == key["Arn"]
    wait_until(lambda: state(bad) == "InvalidVolume.NotFound")
    assert state(good) == "available"
