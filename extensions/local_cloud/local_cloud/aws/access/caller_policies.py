"""Finds the policies that apply to a caller."""

from __future__ import annotations

from typing import Any

from moto.iam.models import iam_backends

from ..context import ACCOUNT
from .identities import PARTITION, Identity


def policies(identity: Identity) -> tuple[list[str], str | None]:
    """Return the policy documents of a user or role session, and the document of the role's permissions boundary, if it has one."""
    iam: Any = iam_backends[ACCOUNT][PARTITION]
    if identity.user:
        user = iam.users[identity.user]
        groups = [group for group in iam.groups.values() if user in group.users]
        documents = [document for owner in (user, *groups) for document in _documents(owner)]
        return documents, None
    role = next((each for each in iam.roles.values() if each.name == identity.role), None)
    if role is None:
        return [], None
    boundary = getattr(role, "permissions_boundary_arn", None) or (role.permissions_boundary or {}).get("PermissionsBoundaryArn")
    return _documents(role), _default(iam.managed_policies[boundary]) if boundary else None


def _documents(owner: Any) -> list[str]:
    inline = owner.policies.values() if isinstance(owner.policies, dict) else owner.policies
    return [*map(str, inline), *map(_default, owner.managed_policies.values())]


def _default(policy: Any) -> str:
    """Return the document of a managed policy's default version."""
    return str(next(each.document for each in policy.versions if each.version_id == policy.default_version_id))
