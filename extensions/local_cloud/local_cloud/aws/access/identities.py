"""Callers by their access keys: the administrator, users, sessions of roles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from moto.core.utils import utcnow
from moto.iam.models import iam_backends
from moto.sts.models import sts_backends

from ..context import ACCOUNT, CLOUD

PARTITION = "aws"


@dataclass(frozen=True)
class Identity:
    """Who calls."""

    secret: str
    arn: str
    user_id: str = ""
    token: str = ""
    expired: bool = False
    user: str = ""
    """The name of an IAM user."""
    role: str = ""
    """The name of the role of a session."""
    role_arn: str = ""
    """Its ARN, with its path, which that of the session lacks."""
    administrator: bool = False
    """Who is not subject to policies: the root user, and roles of other accounts in what is theirs."""


def identify(access_key_id: str) -> Identity | None:
    """Return the caller with this access key, None for an unknown one."""
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
        expired=session.expiration <= utcnow(),
        role=session.role_arn.rpartition("/")[2],
        role_arn=session.role_arn,
        administrator=foreign,
    )
