"""Trust policies, in which IAM accepts only the service principals that exist in the partition."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from botocore.loaders import Loader
from moto.iam.exceptions import MalformedPolicyDocument
from moto.iam.models import IAMBackend, Role

from ..override import override

# The suffixes of service principals. In all partitions, principals end with `amazonaws.com`, and China also has its own principals.
#
# Sources: the IAM classes of the AWS CDK, which derive no principal from a region or from the suffix of its endpoints; pulumi-eks #2341
# for `ec2.amazonaws.eu`, which IAM rejects.
SUFFIXES = {"aws-cn": ("amazonaws.com", "amazonaws.com.cn")}
UNIVERSAL = ("amazonaws.com",)

moto_create_role = IAMBackend.create_role
moto_update_assume_role_policy = IAMBackend.update_assume_role_policy


@override(IAMBackend)
def create_role(self: IAMBackend, role_name: str, assume_role_policy_document: str, *arguments: Any, **options: Any) -> Role:
    _check(self.partition, assume_role_policy_document)
    return moto_create_role(self, role_name, assume_role_policy_document, *arguments, **options)


@override(IAMBackend)
def update_assume_role_policy(self: IAMBackend, role_name: str, policy_document: str) -> None:
    _check(self.partition, policy_document)
    moto_update_assume_role_policy(self, role_name, policy_document)


@cache
def _services() -> frozenset[str]:
    """Return the names of services in endpoints."""
    partitions = Loader().load_data("endpoints")["partitions"]
    return frozenset(name for partition in partitions for name in partition["services"])


def _check(partition: str, document: str) -> None:
    """Raise `MalformedPolicyDocument` for an unknown service principal."""
    statements = json.loads(document).get("Statement", [])
    for statement in statements if isinstance(statements, list) else [statements]:
        principal = statement.get("Principal", {})
        services = principal.get("Service", []) if isinstance(principal, dict) else []
        for service in [services] if isinstance(services, str) else services:
            name, _dot, suffix = service.partition(".")
            if name not in _services() or suffix not in SUFFIXES.get(partition, UNIVERSAL):
                raise MalformedPolicyDocument(f'Invalid principal in policy: "SERVICE":"{service}"')
