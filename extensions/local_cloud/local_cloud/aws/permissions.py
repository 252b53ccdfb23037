"""S3 for hosts: what the policies of their role do not allow is denied. Whoever else calls may do everything."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from moto.core.authorization import ActionAuthenticatorMixin
from moto.iam.models import iam_backends
from moto.s3.exceptions import BucketAccessDeniedError, S3AccessDeniedError
from moto.s3.responses import S3Response
from moto.sts.models import sts_backends

from .context import ACCOUNT
from .patching import override

INSTANCE = re.compile(r"i-[0-9a-f]+")
ACCESS_KEY = re.compile(r"Credential=([^/]+)/")


@override(ActionAuthenticatorMixin)
def _authenticate_and_authorize_s3_action(self: S3Response, bucket_name: str | None = None, key_name: str | None = None) -> None:
    role = _instance_role(self.headers.get("Authorization", ""))
    if role is None:
        return
    found = self._get_action()
    actions = [f"s3:{each}" for each in ([found] if isinstance(found, str) else found)]
    resource = f"arn:aws:s3:::{bucket_name or '*'}{'/' + key_name if key_name else ''}"
    statements = list(_statements(role))
    if not all(permits(statements, action, resource) for action in actions):
        raise BucketAccessDeniedError(bucket_name) if bucket_name else S3AccessDeniedError()


def permits(statements: Iterable[dict[str, Any]], action: str, resource: str) -> bool:
    """Whether statements allow something and none denies it. Conditions are taken to hold."""
    effects = {
        each["Effect"]
        for each in statements
        if any(fnmatchcase(action.lower(), pattern.lower()) for pattern in _as_list(each.get("Action", [])))
        and any(fnmatchcase(resource, pattern) for pattern in _as_list(each.get("Resource", [])))
    }
    return effects == {"Allow"}


def _instance_role(authorization: str) -> str | None:
    """The name of the role whose credentials of an instance signed a request."""
    found = ACCESS_KEY.search(authorization)
    session: Any = sts_backends[ACCOUNT]["aws"].get_assumed_role_from_access_key(found.group(1)) if found else None
    if session is None or not INSTANCE.fullmatch(session.session_name):
        return None
    return str(session.role_arn.rpartition("/")[2])


def _statements(role: str) -> Iterable[dict[str, Any]]:
    found = iam_backends[ACCOUNT]["aws"].get_role(role)
    for document in (*found.policies.values(), *(policy.document for policy in found.managed_policies.values())):
        yield from _as_list(json.loads(document)["Statement"])


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
