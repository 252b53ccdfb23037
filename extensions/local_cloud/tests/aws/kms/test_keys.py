"""KMS keys are found by ID, ARN, alias, and alias ARN."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from ..conftest import Account


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
