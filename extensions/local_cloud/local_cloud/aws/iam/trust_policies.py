"""Trust policies: which policies IAM accepts, and which services may assume a role.

Sources: IAM User Guide, "IAM JSON policy elements" and "How to use trust policies with IAM roles"; the IAM classes of the AWS CDK, which
derive no service principal from a region or from the suffix of its endpoints; pulumi-eks #2341 for `ec2.amazonaws.eu`, which IAM rejects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from botocore.loaders import Loader
from moto.iam.exceptions import MalformedPolicyDocument
from moto.iam.models import IAMBackend, Role

from ..override import override
from ..policies import Permission, Unsupported, as_stored, conditions_hold

ASSUME_ROLE = "sts:AssumeRole"
ACTION = re.compile(r"sts:[A-Za-z*]+")
# The suffixes of service principals. In all partitions, principals end with `amazonaws.com`, and China also has its own principals.
SUFFIXES = {"aws-cn": ("amazonaws.com", "amazonaws.com.cn")}
UNIVERSAL = ("amazonaws.com",)

accepted_create_role = IAMBackend.create_role
accepted_update = IAMBackend.update_assume_role_policy


@override(IAMBackend)
def create_role(self: IAMBackend, role_name: str, assume_role_policy_document: str, *arguments: Any, **options: Any) -> Role:
    """Create the role. Raises `MalformedPolicyDocument`."""
    _check(self.partition, assume_role_policy_document)
    return accepted_create_role(self, role_name, as_stored(assume_role_policy_document), *arguments, **options)


@override(IAMBackend)
def update_assume_role_policy(self: IAMBackend, role_name: str, policy_document: str) -> None:
    """Replace the trust policy. Raises `MalformedPolicyDocument`."""
    _check(self.partition, policy_document)
    accepted_update(self, role_name, as_stored(policy_document))


def may_assume(service: str, role: Any, context: Mapping[str, str] | None = None) -> bool:
    """Return whether the trust policy of a role allows the service to assume the role. Raises `Unsupported` for conditions.

    `context` contains the condition keys of the service, if the local cloud knows them.
    """
    statements = _statements(role.assume_role_policy_document)
    return {statement["Effect"] for statement in statements if _is_about(statement, service, context)} == {"Allow"}


def _is_about(statement: dict[str, Any], service: str, context: Mapping[str, str] | None) -> bool:
    principal = statement["Principal"]
    services = ["*"] if principal == "*" else _listed(principal.get("Service"))
    if service not in services and "*" not in services:
        return False
    if not any(action.lower() in (ASSUME_ROLE.lower(), "sts:*") for action in _listed(statement["Action"])):
        return False
    if statement.get("Condition") and context is None:
        raise Unsupported("conditions in trust policies")
    return conditions_hold(statement, Permission(ASSUME_ROLE, "*", context or {}))


@cache
def _services() -> frozenset[str]:
    """Return the names of services in endpoints."""
    partitions = Loader().load_data("endpoints")["partitions"]
    return frozenset(name for partition in partitions for name in partition["services"])


def _check(partition: str, document: str) -> None:
    """Raise IAM's error for a document that is no trust policy, or whose service principals do not exist in the partition."""
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
        _check_services(partition, statement["Principal"])


def _check_services(partition: str, principal: Any) -> None:
    for service in _listed(principal.get("Service")) if isinstance(principal, dict) else []:
        name, _dot, suffix = service.partition(".")
        if name not in _services() or suffix not in SUFFIXES.get(partition, UNIVERSAL):
            raise MalformedPolicyDocument(f'Invalid principal in policy: "SERVICE":"{service}"')


def _statements(document: Any) -> list[dict[str, Any]]:
    policy = json.loads(document) if isinstance(document, str) else document
    return [dict(each) for each in _listed(policy.get("Statement"))]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []
