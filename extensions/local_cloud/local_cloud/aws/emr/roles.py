"""Roles of clusters: the service role, and the instance profile of the nodes."""

from __future__ import annotations

import json
from typing import Any

from moto.iam.models import iam_backends

from .errors import invalid

SERVICE = "elasticmapreduce.amazonaws.com"


def check_service_role(account: str, name: str, error: type[Exception]) -> None:
    """Raise `error` for a role that does not exist or that EMR is not allowed to assume."""
    iam: Any = iam_backends[account]["aws"]
    found = next((each for each in iam.roles.values() if name in (each.name, each.arn)), None)
    if found is None or not _trusts(found.assume_role_policy_document, SERVICE):
        arn = name if name.startswith("arn:") else f"arn:aws:iam::{account}:role/{name}"
        raise error(f"EMR service role {arn} is invalid")


def check_profile(account: str, name: str) -> None:
    """Raise the EMR error for an instance profile that does not exist or contains no role."""
    iam: Any = iam_backends[account]["aws"]
    found = next((each for each in iam.instance_profiles.values() if name in (each.name, each.arn)), None)
    if found is None or not found.roles:
        raise invalid(f"Invalid InstanceProfile: {name}.")


def _trusts(document: Any, service: str) -> bool:
    policy = json.loads(document) if isinstance(document, str) else document
    statements = policy.get("Statement", [])
    for statement in statements if isinstance(statements, list) else [statements]:
        services = (statement.get("Principal") or {}).get("Service", [])
        if statement.get("Effect") == "Allow" and service in ([services] if isinstance(services, str) else services):
            return True
    return False
