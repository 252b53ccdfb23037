"""Roles that services assume, and their sessions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from moto.iam.models import iam_backends
from moto.sts.models import sts_backends

from ..context import CLOUD


def find_role(backend: Any, arn: str) -> Any:
    """Return the role with this ARN in the account of a moto backend, or None."""
    roles: Any = iam_backends[backend.account_id][backend.partition].roles
    return next((each for each in roles.values() if each.arn == arn), None)


@contextmanager
def role_session(backend: Any, role: str, name: str, seconds: int) -> Iterator[Any]:
    """Yield a session of a role, which ends with the context. `backend` is moto's backend of the service. The caller checks the role."""
    sessions: Any = sts_backends[backend.account_id][backend.partition]
    with CLOUD.lock:
        session = sessions.assume_role(backend.region_name, name[:64], role, "", seconds, "")
    try:
        yield session
    finally:
        with CLOUD.lock:
            if session in sessions.assumed_roles:
                sessions.assumed_roles.remove(session)
