"""Lookup of KMS keys, for services that use KMS keys for encryption."""

from __future__ import annotations

from typing import Any

from moto.kms.models import kms_backends
from moto.kms.utils import RESERVED_ALIASES

# moto's list of AWS managed keys lacks the key of FSx.
RESERVED_ALIASES.append("alias/aws/fsx")


def find_key(account: str, region: str, identifier: str) -> Any:
    """Return the key with this ID, ARN, alias, or alias ARN, or None for an unknown key."""
    backend = kms_backends[account][region]
    name = backend.get_alias_name(identifier)
    return backend.keys.get((backend.get_key_id_from_alias(name) if name.startswith("alias/") else backend.get_key_id(name)) or "")


def usable_key(account: str, region: str, identifier: str) -> str | None:
    """Return the ARN of the enabled symmetric key with this ID, ARN, alias, or alias ARN, or None if there is no such key."""
    key = find_key(account, region, identifier)
    if key is None or key.key_state != "Enabled" or key.key_spec != "SYMMETRIC_DEFAULT":
        return None
    return str(key.arn)
