"""The instance metadata service (version 2) of hosts, with the credentials of the instance's role."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

from moto.core.utils import iso_8601_datetime_without_milliseconds
from moto.sts.models import sts_backends

from ..context import ACCOUNT, CLOUD, instances
from ..iam.trust_policies import may_assume

TOKEN_PATH = "/latest/api/token"
LONGEST_TOKEN = 21600  # seconds
SESSION = timedelta(hours=6)
# Credentials are renewed when they expire within this time.
RENEWAL_MARGIN = timedelta(minutes=15)

ROLE_PROBLEMS = "https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_iam-ec2.html#troubleshoot_iam-ec2_errors-info-doc"
Tree = dict[str, Any]


class InstanceMetadata:
    """A WSGI application that implements the metadata service of one instance."""

    def __init__(self, instance_id: str) -> None:
        self._instance_id = instance_id
        self._tokens: set[str] = set()
        self._credentials: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        status, text = self._answer(environ)
        headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(text.encode())))]
        seconds = environ.get("HTTP_X_AWS_EC2_METADATA_TOKEN_TTL_SECONDS")
        if seconds and status is HTTPStatus.OK:
            headers.append(("X-aws-ec2-metadata-token-ttl-seconds", seconds))  # SDKs for Go do not accept a token without this header
        start(f"{status.value} {status.phrase}", headers)
        return [text.encode()]

    def _answer(self, environ: dict[str, Any]) -> tuple[HTTPStatus, str]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if method == "PUT" and path == TOKEN_PATH:
            return self._token(environ.get("HTTP_X_AWS_EC2_METADATA_TOKEN_TTL_SECONDS", ""))
        if method != "GET":
            return HTTPStatus.METHOD_NOT_ALLOWED, ""
        if environ.get("HTTP_X_AWS_EC2_METADATA_TOKEN") not in self._tokens:
            return HTTPStatus.UNAUTHORIZED, ""
        with self._lock, CLOUD.lock:
            found: Any = self._documents()
            for name in filter(None, path.split("/")):
                found = found.get(name) if isinstance(found, dict) else None
            found = found() if callable(found) else found
        if found is None:
            return HTTPStatus.NOT_FOUND, ""
        return HTTPStatus.OK, _listing(found) if isinstance(found, dict) else str(found)

    def _token(self, seconds: str) -> tuple[HTTPStatus, str]:
        if not (seconds.isdecimal() and 1 <= int(seconds) <= LONGEST_TOKEN):
            return HTTPStatus.BAD_REQUEST, ""
        token = secrets.token_urlsafe(40)
        self._tokens.add(token)
        return HTTPStatus.OK, token

    def _documents(self) -> Tree:
        instance = next((each for each in instances() if each.id == self._instance_id), None)
        return {"latest": self._tree(instance)} if instance else {}

    def _tree(self, instance: Any) -> Tree:
        """Return the metadata as nested dictionaries. Values that are expensive to compute are functions."""
        hostname = f"ip-{instance.private_ip.replace('.', '-')}.ec2.internal"
        metadata: Tree = {
            "ami-id": instance.image_id,
            "hostname": hostname,
            "instance-id": instance.id,
            "instance-life-cycle": instance.lifecycle or "on-demand",
            "instance-type": instance.instance_type,
            "local-hostname": hostname,
            "local-ipv4": instance.private_ip,
            "placement": {"availability-zone": instance.availability_zone, "region": instance.region_name},
        }
        if instance.interruption_time:
            when = iso_8601_datetime_without_milliseconds(instance.interruption_time)
            metadata["spot"] = spot_notice(when)
        if instance.public_ip:
            metadata["public-ipv4"] = instance.public_ip
        association = instance.ec2_backend.iam_instance_profile_associations.get(instance.id)
        if association:
            profile = association.iam_instance_profile
            roles = {role.name: lambda role=role: json.dumps(self._session(role, instance.region_name)) for role in profile.roles}
            info = {"Code": "Success", "InstanceProfileArn": profile.arn, "InstanceProfileId": profile.id}
            metadata["iam"] = {"info": json.dumps(info), "security-credentials": roles}
        return {"meta-data": metadata, "dynamic": {"instance-identity": {"document": json.dumps(_identity(instance))}}}

    def _session(self, role: Any, region: str) -> dict[str, str]:
        """Return credentials for the role, or an error if EC2 may not assume the role. The session name is the instance ID."""
        known, now = self._credentials.get(role.arn), datetime.now(UTC)
        if not may_assume("ec2.amazonaws.com", role):
            message = f"EC2 cannot assume the role {role.name}. Please see documentation at {ROLE_PROBLEMS}."
            updated = iso_8601_datetime_without_milliseconds(now)
            return {"Code": "AssumeRoleUnauthorizedAccess", "Message": message, "LastUpdated": updated}
        renew = iso_8601_datetime_without_milliseconds(now + RENEWAL_MARGIN)
        if known is None or known["Expiration"] <= renew:
            session: Any = sts_backends[ACCOUNT]["aws"].assume_role(
                region_name=region,
                role_session_name=self._instance_id,
                role_arn=role.arn,
                policy="",
                duration=int(SESSION.total_seconds()),
                external_id="",
            )
            known = {
                "Code": "Success",
                "LastUpdated": iso_8601_datetime_without_milliseconds(now),
                "Type": "AWS-HMAC",
                "AccessKeyId": session.access_key_id,
                "SecretAccessKey": session.secret_access_key,
                "Token": session.session_token,
                "Expiration": iso_8601_datetime_without_milliseconds(now + SESSION),
            }
            self._credentials[role.arn] = known
        return known


def _identity(instance: Any) -> dict[str, Any]:
    return {
        "accountId": ACCOUNT,
        "architecture": "x86_64",
        "availabilityZone": instance.availability_zone,
        "imageId": instance.image_id,
        "instanceId": instance.id,
        "instanceType": instance.instance_type,
        "privateIp": instance.private_ip,
        "region": instance.region_name,
        "version": "2017-09-30",
    }


def spot_notice(when: str) -> Tree:
    """Return the metadata that announces the interruption of a Spot Instance. `when` is the time of the interruption in UTC."""
    return {"instance-action": json.dumps({"action": "terminate", "time": when}), "termination-time": when}


def _listing(folder: Tree) -> str:
    return "\n".join(f"{name}/" if isinstance(value, dict) else name for name, value in sorted(folder.items()))
