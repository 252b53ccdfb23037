"""A volume with an unusable KMS key disappears."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError
from local_cloud.testing import wait_until

from ..conftest import Account


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
