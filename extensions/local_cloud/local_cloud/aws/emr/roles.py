"""Roles of clusters: the service role, and the instance profile of the nodes."""

from __future__ import annotations

from typing import Any

from moto.iam.models import iam_backends

from ..context import CLOUD
from ..iam.trust_policies import may_assume
from ..iam.visibility import age
from .errors import invalid

SERVICE = "elasticmapreduce.amazonaws.com"
# The AWS managed policy for service roles that allows EMR to use only resources with this tag, whose value is `true`.
#
# Source: Amazon EMR Management Guide, "Amazon EMR managed policies".
SCOPED_POLICY, SCOPED_TAG = "AmazonEMRServicePolicy_v2", "for-use-with-amazon-emr-managed-policies"


def check_service_role(account: str, name: str, error: type[Exception]) -> None:
    """Raise `error` for a role that does not exist or that EMR is not allowed to assume."""
    found = _role(account, name)
    if found is None or not may_assume(SERVICE, found):
        arn = name if name.startswith("arn:") else f"arn:aws:iam::{account}:role/{name}"
        raise error(f"EMR service role {arn} is invalid")


def check_effective(account: str, name: str, error: type[Exception]) -> None:
    """Raise `error` for a new service role, whose policies EC2 does not apply yet. EMR notices this only when it launches nodes."""
    found = _role(account, name)
    if found is not None and age(found) < CLOUD.delays.emr_service_role:
        raise error(f"Service role {found.arn} has insufficient EC2 permissions")


def needs_tags(account: str, name: str) -> bool:
    """Return whether the only policy of a service role is `SCOPED_POLICY`. Other policies might allow more."""
    found = _role(account, name)
    return bool(found) and not found.policies and [each.name for each in found.managed_policies.values()] == [SCOPED_POLICY]


def _role(account: str, name: str) -> Any:
    iam: Any = iam_backends[account]["aws"]
    return next((each for each in iam.roles.values() if name in (each.name, each.arn)), None)


def check_profile(account: str, name: str) -> None:
    """Raise the EMR error for an instance profile that does not exist or contains no role."""
    iam: Any = iam_backends[account]["aws"]
    found = next((each for each in iam.instance_profiles.values() if name in (each.name, each.arn)), None)
    if found is None or not found.roles or age(found) < CLOUD.delays.instance_profile:
        raise invalid(f"Invalid InstanceProfile: {name}.")
