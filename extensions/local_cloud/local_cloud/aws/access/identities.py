"""Callers by access key: the administrator, users, and role sessions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from moto.iam.models import iam_backends
from moto.sts.models import sts_backends

from ..context import ACCOUNT, CLOUD

PARTITION = "aws"


@dataclass(frozen=True)
class Identity:
    """The caller of a request."""

    secret: str
    arn: str
    user_id: str = ""
    token: str = ""
    expired: bool = False
    # Name of the IAM user.
    user: str = ""
    # Name of the role, for a role session.
    role: str = ""
    # ARN of the role with its path, which the ARN of the session lacks.
    role_arn: str = ""
    # Whether the caller has all permissions in its account: true for the root user, and for roles that belong to other accounts.
    administrator: bool = False


def identify(access_key_id: str) -> Identity | None:
    """Return the caller with this access key, or None for an unknown key."""
    administrator = CLOUD.settings.administrator
    if access_key_id == administrator.access_key_id:
        return Identity(administrator.secret_access_key, f"arn:{PARTITION}:iam::{ACCOUNT}:root", ACCOUNT, administrator=True)
    session: Any = _session(access_key_id)
    if session is not None:
        return _of_session(session)
    iam = iam_backends[ACCOUNT][PARTITION]
    for user in iam.users.values():
        for key in user.access_keys:
            if key.access_key_id == access_key_id and key.status == "Active":
                return Identity(key.secret_access_key, user.arn, user.id, user=user.name)
    return None


def _session(access_key_id: str) -> Any:
    for partitions in list(sts_backends.values()):
        for backend in list(partitions.values()):
            found = backend.get_assumed_role_from_access_key(access_key_id)
            if found is not None:
                return found
    return None


def _of_session(session: Any) -> Identity:
    foreign = session.account_id != ACCOUNT
    return Identity(
        session.secret_access_key,
        session.arn,
        "" if foreign else session.user_id,
        token=session.session_token,
        expired=session.expiration.replace(tzinfo=UTC) <= datetime.now(UTC),
        role=session.role_arn.rpartition("/")[2],
        role_arn=session.role_arn,
        administrator=foreign,
    )
