"""EFS file system policies, and the actions that they allow NFS clients to perform.

Sources: EFS API Reference; EFS User Guide, "Using IAM to control file system data access" and "Working with Amazon EFS access points".
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from moto.efs.exceptions import BadRequest, PolicyNotFound
from moto.efs.models import EFSBackend
from moto.efs.responses import EFSResponse

from ..context import CLOUD
from ..override import override
from ..policies import Effect, Permission, Unsupported, decide, statements_for
from .file_systems import JSON, efs_error, find_file_system, incorrect_state

ACTIONS = ("ClientMount", "ClientWrite", "ClientRootAccess")
LONGEST_POLICY = 20000
POLICY_ELEMENTS = {"Version", "Id", "Statement"}
MOUNT_CONTEXT: dict[str, str | tuple[str, ...]] = {"elasticfilesystem:accessedviamounttarget": "true"}


@override(EFSBackend)
def put_file_system_policy(self: EFSBackend, file_system_id: str, policy: str, bypass_policy_lockout_safety_check: bool) -> None:
    file_system = find_file_system(self, file_system_id)
    if file_system.life_cycle_state != "available":
        raise incorrect_state(file_system)
    if len(policy) > LONGEST_POLICY:
        raise BadRequest(f"The policy has more than {LONGEST_POLICY} characters.")
    kept = _normalize(policy, file_system.file_system_arn)
    required = Permission("elasticfilesystem:PutFileSystemPolicy", file_system.file_system_arn, {"aws:securetransport": "true"})
    if not bypass_policy_lockout_safety_check and _decide(kept, required) is Effect.DENIED:
        raise efs_error(400, "InvalidPolicyException", "The policy would lock out the caller from future changes of the policy.")
    _set_policy(file_system, kept)


@override(EFSBackend)
def describe_file_system_policy(self: EFSBackend, file_system_id: str) -> str:
    policy: str | None = getattr(find_file_system(self, file_system_id), "_shown_policy", None)
    if policy is None:
        raise PolicyNotFound(f"Policy for file system '{file_system_id}' does not exist.")
    return policy


@override(EFSResponse)
def delete_file_system_policy(self: EFSResponse) -> tuple[str, dict[str, str]]:
    file_system = find_file_system(self.efs_backend, self._get_param("FileSystemId"))
    if file_system.life_cycle_state != "available":
        raise incorrect_state(file_system)
    _set_policy(file_system, None)
    return "", JSON


def client_access(backend: EFSBackend, file_system: Any) -> dict[str, Any]:
    """Return the actions that anonymous clients may perform: without TLS, with TLS, and by access point.

    For an access point, the result also contains its root directory and, if EFS may create it, the owner, group, and mode to set.
    """
    policy, resource = file_system.file_system_policy, file_system.file_system_arn

    def allowed(transport: str, **more: str) -> list[str]:
        context = MOUNT_CONTEXT | {"aws:securetransport": transport} | {f"elasticfilesystem:{key}": value for key, value in more.items()}
        permissions = {action: Permission(f"elasticfilesystem:{action}", resource, context) for action in ACTIONS}
        return [action for action, required in permissions.items() if policy is None or _decide(policy, required) is Effect.ALLOWED]

    points: list[Any] = [each for each in backend.access_points.values() if each.file_system_id == file_system.file_system_id]
    return {
        "plain": allowed("false"),
        "tls": allowed("true"),
        "access_points": {
            each.access_point_id: {
                "path": each.root_directory["Path"],
                "creation": each.root_directory.get("CreationInfo"),
                "allowed": allowed("true", accesspointarn=each.access_point_arn),
            }
            for each in points
            if each.life_cycle_state == "available"
        },
    }


def _decide(policy: str, required: Permission) -> Effect:
    return decide([statements_for(policy, {"*"})], required).effect


def _set_policy(file_system: Any, policy: str | None) -> None:
    """Apply the policy immediately. Reads return the new policy only after a delay, because EFS reads are eventually consistent."""
    file_system.file_system_policy = policy
    CLOUD.clock.after(CLOUD.delays.file_system_policy, partial(_show_policy, file_system))


def _show_policy(file_system: Any) -> None:
    file_system._shown_policy = file_system.file_system_policy


def _normalize(policy: str, resource: str) -> str:
    """Return an equivalent policy in another form, because EFS guarantees neither the order nor the form of keys and values."""
    try:
        document = json.loads(policy)
        statements = document["Statement"] if isinstance(document["Statement"], list) else [document["Statement"]]
        kept = [_normalize_statement(statement, resource) for statement in statements]
        text = json.dumps({"Statement": kept, **{key: document[key] for key in ("Id", "Version") if key in document}})
        _decide(text, Permission("elasticfilesystem:ClientMount", resource, MOUNT_CONTEXT))
    except (ValueError, KeyError, TypeError, AttributeError, Unsupported) as error:
        raise efs_error(400, "InvalidPolicyException", f"The policy is malformed: {error}") from error
    if set(document) - POLICY_ELEMENTS:
        raise efs_error(400, "InvalidPolicyException", f"The policy has unknown elements: {sorted(set(document) - POLICY_ELEMENTS)}")
    return text


def _normalize_statement(statement: dict[str, Any], resource: str) -> dict[str, Any]:
    actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
    principal = {"AWS": "*"} if statement["Principal"] == "*" else statement["Principal"]
    if statement.get("Resource", resource) not in ("*", resource, [resource]):
        raise ValueError(f"the resource {statement['Resource']} is not the file system")
    kept = {key: statement[key] for key in reversed(statement)}
    return kept | {"Resource": resource, "Principal": principal, "Action": sorted(actions) if len(actions) > 1 else actions[0]}
