"""Evaluates each request against the policies of its caller, and records the decisions."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from ..context import ACCOUNT, CLOUD, WITHOUT_TAGS
from ..policies import Decision, Effect, Permission, Unsupported, decide
from ..requests import calls
from ..requests.calls import Call, Environ
from ..requests.refusal import Refusal
from . import required_permissions, s3_permissions
from .caller_policies import policies
from .identities import Identity

LOG = logging.getLogger(__name__)
DENIED = {
    "ec2": ("UnauthorizedOperation", 403),
    "sns": ("AuthorizationError", 403),
    "query": ("AccessDenied", 403),
    "json": ("AccessDeniedException", 400),
    "rest-xml": ("AccessDenied", 403),
}
BECAUSE = {
    Effect.DENIED: "with an explicit deny in an identity-based policy",
    Effect.NOT_ALLOWED: "because no identity-based policy allows the {action} action",
    Effect.NOT_ALLOWED_BY_RESOURCE: "because no resource-based policy allows the {action} action",
}


def authorize(environ: Environ, call: Call, identity: Identity) -> Refusal | None:
    """Return the error for a request that the caller's policies do not allow, or None if they allow the request."""
    WITHOUT_TAGS.set(False)
    if identity.administrator:
        return None
    with CLOUD.lock:
        try:
            required = _required_permissions(environ, call)
            if required is not None:
                return _decide_all(environ, call, identity, required)
        except Unsupported as error:
            return Refusal("InternalFailure", f"The local cloud cannot evaluate the caller's policies: it does not implement {error}.", 500)
        except Exception as error:
            LOG.error("%s %s: The caller's policies could not be evaluated", call.service, call.action, exc_info=error)
            return Refusal("InternalFailure", f"An internal error has occurred: {type(error).__name__}: {error}", 500)
    text = (
        "because the local cloud does not know which permissions this action requires: see local_cloud/aws/access/required_permissions.py"
    )
    return _denied(environ, call, f"User: {identity.arn} is not authorized to perform: {call.service}:{call.action} {text}")


def _required_permissions(environ: Environ, call: Call) -> list[Permission] | None:
    if call.service == "s3":
        return s3_permissions.find(call, environ)
    parsed = calls.parameters(environ, call)
    return None if parsed is None else required_permissions.find(call, parsed[1])


def _decide_all(environ: Environ, call: Call, identity: Identity, required: Iterable[Permission]) -> Refusal | None:
    documents, boundary = policies(identity)
    common = _common_context(call, identity)
    new_service_roles = set()
    for permission in required:
        if (permission.action, call.action) == ("lambda:ListTags", "GetFunction"):
            whole = Permission(permission.action, permission.resource, common | dict(permission.context))
            decision = decide(documents, whole, boundary)
            WITHOUT_TAGS.set(decision.effect is not Effect.ALLOWED)
            _record(identity, call, permission, decision)
            continue
        whole = Permission(permission.action, permission.resource, common | dict(permission.context), permission.key_policy)
        decision = decide(documents, whole, boundary)
        _record(identity, call, permission, decision)
        if decision.effect is not Effect.ALLOWED and permission.action == "kms:PutKeyPolicy" and call.action == "CreateKey":
            text = "The new key policy will not allow you to update the key policy in the future."
            return Refusal("MalformedPolicyDocumentException", text, 400)
        if decision.effect is not Effect.ALLOWED:
            because = BECAUSE[decision.effect].format(action=permission.action)
            text = f"User: {identity.arn} is not authorized to perform: {permission.action} on resource: {permission.resource} {because}"
            return _denied(environ, call, _about_template(permission) or text)
        if permission.action == "iam:CreateServiceLinkedRole":
            new_service_roles.add(str(permission.context["iam:awsservicename"]))
    CLOUD.service_roles |= new_service_roles
    return None


def _record(identity: Identity, call: Call, permission: Permission, decision: Decision) -> None:
    CLOUD.decisions.append(
        {
            "caller": identity.arn,
            "call": f"{call.service}:{call.action}",
            "action": permission.action,
            "resource": permission.resource,
            "effect": decision.effect.value,
            "statements": list(decision.statements),
        }
    )


def _about_template(permission: Permission) -> str | None:
    """Return the message of Auto Scaling about a launch that it tested. The message names neither the action nor the resource."""
    template = str(permission.context.get("ec2:launchtemplate", ""))
    tested = "aws:calledvia" in permission.context and template
    return f"You are not authorized to use launch template: {template.rpartition('/')[2]}" if tested else None


def _common_context(call: Call, identity: Identity) -> dict[str, Any]:
    """Return the condition keys that every request has."""
    context: dict[str, Any] = {
        "aws:principalaccount": ACCOUNT,
        "aws:principalarn": identity.role_arn or identity.arn,
        "aws:requestedregion": call.region,
        "aws:resourceaccount": ACCOUNT,
        "aws:securetransport": "true",  # the local endpoint represents an endpoint with TLS
        "aws:userid": identity.user_id,
        "aws:viaawsservice": "false",
    }
    return context | ({"aws:username": identity.user} if identity.user else {})


def _denied(environ: Environ, call: Call, text: str) -> Refusal:
    code, status = DENIED.get(call.service) or DENIED.get(calls.protocol(environ, call.service), DENIED["query"])
    if code == "UnauthorizedOperation":
        text = f"You are not authorized to perform this operation. {text}"
    return Refusal(code, text, status)
