"""Trust policies: which policies IAM accepts, and which services may assume a role.

Source: IAM User Guide, "IAM JSON policy elements" and "How to use trust policies with IAM roles".
"""

from __future__ import annotations

import json
import re
from typing import Any

from moto.iam.exceptions import MalformedPolicyDocument
from moto.iam.models import IAMBackend, Role

from ..access.policies import Unsupported
from ..override import override

ASSUME_ROLE = "sts:AssumeRole"
ACTION = re.compile(r"sts:[A-Za-z*]+")

accepted_create_role = IAMBackend.create_role
accepted_update = IAMBackend.update_assume_role_policy


@override(IAMBackend)
def create_role(self: IAMBackend, role_name: str, assume_role_policy_document: str, *arguments: Any, **options: Any) -> Role:
    """Create the role. Raises `MalformedPolicyDocument`."""
    _check(assume_role_policy_document)
    return accepted_create_role(self, role_name, assume_role_policy_document, *arguments, **options)


@override(IAMBackend)
def update_assume_role_policy(self: IAMBackend, role_name: str, policy_document: str) -> None:
    """Replace the trust policy. Raises `MalformedPolicyDocument`."""
    _check(policy_document)
    accepted_update(self, role_name, policy_document)


def may_assume(service: str, role: Any) -> bool:
    """Return whether the trust policy of a role allows the service to assume the role. Raises `Unsupported` for conditions."""
    effects = {statement["Effect"] for statement in _statements(role.assume_role_policy_document) if _is_about(statement, service)}
    return effects == {"Allow"}


def _is_about(statement: dict[str, Any], service: str) -> bool:
    principal = statement["Principal"]
    services = ["*"] if principal == "*" else _listed(principal.get("Service"))
    if service not in services and "*" not in services:
        return False
    if not any(action.lower() in (ASSUME_ROLE.lower(), "sts:*") for action in _listed(statement["Action"])):
        return False
    if statement.get("Condition"):
        raise Unsupported("conditions in trust policies")
    return True


def _check(document: str) -> None:
    """Raise IAM's error for a document that is no trust policy."""
    try:
        statements = _statements(document)
    except ValueError:
        raise MalformedPolicyDocument("This policy contains invalid Json") from None
    if not statements:
        raise MalformedPolicyDocument("Could not parse the policy: Statement is empty!")
    for statement in statements:
        if statement.get("Effect") not in ("Allow", "Deny"):
            raise MalformedPolicyDocument(f"Invalid effect: {statement.get('Effect')}")
        if not isinstance(statement.get("Principal"), (dict, str)):
            raise MalformedPolicyDocument("Missing required field Principal cannot be blank!")
        if not all(ACTION.fullmatch(action) for action in _listed(statement.get("Action")) or [""]):
            raise MalformedPolicyDocument("AssumeRole policy may only specify STS AssumeRole actions.")
        if "Resource" in statement:
            raise MalformedPolicyDocument("Has prohibited field Resource")


def _statements(document: Any) -> list[dict[str, Any]]:
    policy = json.loads(document) if isinstance(document, str) else document
    return [dict(each) for each in _listed(policy.get("Statement"))]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []
