"""Pure functions that evaluate IAM policies.

Source: IAM User Guide, "Policy evaluation logic" and "IAM JSON policy elements". An element that is not implemented causes
`Unsupported`, so it is never treated as true or false.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

VARIABLE = re.compile(r"\$\{([^}]*)\}")
WILD = {"*": ".*", "?": "."}
LITERAL = re.compile(r"\[[*?$]\]")
ELEMENTS = {"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition"}
# The condition keys of requests. A policy with a different condition key is an error.
KEYS = re.compile(
    r"aws:(calledvia|principalaccount|principalarn|requestedregion|resourceaccount|securetransport|sourceaccount|sourcearn|tagkeys|userid"
    r"|username|viaawsservice)"
    r"|(aws|ec2|autoscaling|elasticmapreduce|iam):(request|resource)tag/.+"
    r"|autoscaling:(forcedelete|launchconfigurationname|launchtemplateversionspecified)"
    r"|ec2:(createaction|islaunchtemplateresource|launchtemplate)|elasticfilesystem:(accessedviamounttarget|accesspointarn|createaction)"
    r"|iam:(awsservicename|passedtoservice|permissionsboundary|policyarn)|s3:(prefix|resourceaccount)|ssm:sessiondocumentaccesscheck"
    r"|kms:(encryptioncontext:.+|keyspec|keyusage|resourcealiases|viaservice)",
    re.IGNORECASE,
)


def as_stored(document: str) -> str:
    """Return a policy in the form in which IAM and S3 return it: lists in another order, and lists of one element as the element.

    Sources: terraform-provider-aws #2432, #25967 and #30870; boto3 #1178.
    """
    return json.dumps(_as_stored(json.loads(document)))


def _as_stored(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: [*map(_as_stored, each)] if key == "Statement" and isinstance(each, list) else _as_stored(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return _as_stored(value[0]) if len(value) == 1 else [_as_stored(each) for each in reversed(value)]
    return value


class Unsupported(Exception):
    """A policy contains an element that is not implemented."""


class Effect(Enum):
    """The effect that policies have on a permission."""

    ALLOWED = "allowed"
    DENIED = "explicitDeny"
    NOT_ALLOWED = "implicitDeny"
    NOT_ALLOWED_BY_RESOURCE = "implicitDeny by the resource's policy"


@dataclass(frozen=True)
class Permission:
    """An action on a resource, with the condition keys of the request.

    Condition keys are lowercase. The value of a multivalued key is a tuple.
    """

    action: str
    resource: str
    context: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    # The key policy of a KMS key. IAM policies are effective only if the key policy allows the action.
    key_policy: str = ""


@dataclass(frozen=True)
class Decision:
    """The effect of policies, and the statements that cause this effect, by Sid or number."""

    effect: Effect
    statements: tuple[str, ...] = ()


@functools.lru_cache(maxsize=1024)
def parse(document: str) -> tuple[dict[str, Any], ...]:
    """Return the statements of a policy. Raises `Unsupported` for elements that identity-based policies do not have."""
    statements = _list(json.loads(document)["Statement"])
    for number, statement in enumerate(statements):
        if set(statement) - ELEMENTS:
            raise Unsupported(f"{sorted(set(statement) - ELEMENTS)[0]} in a statement of a policy")
        statement.setdefault("Sid", str(number))
    return tuple(statements)


def decide(documents: Iterable[str], permission: Permission, boundary: str | None = None) -> Decision:
    """Return the decision of the policies and the permissions boundary. An explicit deny overrides any allow. Raises `Unsupported`."""
    if permission.key_policy:
        return _decide_for_key(documents, permission, boundary)
    decision = _decide(documents, permission)
    if decision.effect is not Effect.ALLOWED or boundary is None:
        return decision
    bound = _decide([boundary], permission)
    return decision if bound.effect is Effect.ALLOWED else bound


def _decide_for_key(documents: Iterable[str], permission: Permission, boundary: str | None) -> Decision:
    """Return the decision for a KMS key. The key policy must allow the caller, or delegate the decision to IAM for the account.

    Source: AWS KMS Developer Guide, "Determining access to AWS KMS keys" and "Default key policy".
    """
    by_iam = decide(documents, replace(permission, key_policy=""), boundary)
    account = str(permission.context["aws:principalaccount"])
    everybody = {account, f"arn:aws:iam::{account}:root"}
    of_caller = _decide([statements_for(permission.key_policy, {"*", str(permission.context["aws:principalarn"])})], permission)
    of_account = _decide([statements_for(permission.key_policy, everybody)], permission)
    for decision in (by_iam, of_caller, of_account):
        if decision.effect is Effect.DENIED:
            return decision
    if of_caller.effect is Effect.ALLOWED:
        return of_caller
    return by_iam if of_account.effect is Effect.ALLOWED else Decision(Effect.NOT_ALLOWED_BY_RESOURCE)


def statements_for(document: str, principals: set[str]) -> str:
    """Return a resource policy with only the statements that name one of these principals."""
    statements = []
    for statement in _list(json.loads(document)["Statement"]):
        principal = statement.pop("Principal", None)
        named = {"*"} if principal == "*" else set(_list((principal or {}).get("AWS", [])))
        statements += [statement] if named & principals else []
    return json.dumps({"Statement": statements})


def _decide(documents: Iterable[str], permission: Permission) -> Decision:
    matching = [statement for document in documents for statement in parse(document) if _matches(statement, permission)]
    denying = tuple(each["Sid"] for each in matching if each["Effect"] == "Deny")
    if denying:
        return Decision(Effect.DENIED, denying)
    allowing = tuple(each["Sid"] for each in matching if each["Effect"] == "Allow")
    return Decision(Effect.ALLOWED, allowing) if allowing else Decision(Effect.NOT_ALLOWED)


def _matches(statement: Mapping[str, Any], permission: Permission) -> bool:
    return (
        _applies_to(statement, "Action", permission.action, lambda pattern, value: _matches_wildcards(pattern.lower(), value.lower()))
        and _applies_to(statement, "Resource", permission.resource, lambda pattern, value: _matches_resource(pattern, value, permission))
        and conditions_hold(statement, permission)
    )


def conditions_hold(statement: Mapping[str, Any], permission: Permission) -> bool:
    """Return whether the request meets all conditions of a statement. Raises `Unsupported`."""
    return all(
        _condition_holds(operator, key, _list(values), permission)
        for operator, keys in statement.get("Condition", {}).items()
        for key, values in keys.items()
    )


def _applies_to(statement: Mapping[str, Any], element: str, value: str, match: Callable[[str, str], bool]) -> bool:
    if element in statement:
        return any(match(pattern, value) for pattern in _list(statement[element]))
    if f"Not{element}" in statement:
        return not any(match(pattern, value) for pattern in _list(statement[f"Not{element}"]))
    raise Unsupported(f"a statement without {element} and Not{element}")


def _matches_resource(pattern: str, value: str, permission: Permission) -> bool:
    if pattern == "*":
        return True
    filled = _fill_variables(pattern, permission)
    return filled is not None and _matches_arn(filled, value)


def _matches_arn(pattern: str, value: str) -> bool:
    """Return whether an ARN matches a pattern. In the first five parts of an ARN, a wildcard does not match a colon."""
    patterns, values = pattern.split(":", 5), value.split(":", 5)
    return len(patterns) == len(values) and all(map(_matches_wildcards, patterns, values))


def _fill_variables(text: str, permission: Permission) -> str | None:
    """Return a pattern with its policy variables replaced by their values, or None if the request lacks a variable."""
    missing = False

    def fill(found: re.Match[str]) -> str:
        nonlocal missing
        name = found.group(1)
        if name in ("*", "?", "$"):
            return f"[{name}]"
        if not KEYS.fullmatch(name):
            raise Unsupported(f"the policy variable {name}")
        value = permission.context.get(name.lower())
        if not isinstance(value, str):
            missing = True
            return ""
        return re.sub(r"([*?])", r"[\1]", value)

    filled = VARIABLE.sub(fill, text)
    return None if missing else filled


@functools.lru_cache(maxsize=8192)
def _expression(pattern: str) -> re.Pattern[str]:
    """Return a wildcard pattern as a regular expression. `[*]`, `[?]`, and `[$]` match the literal characters."""
    parts = re.split(r"(\[[*?$]\]|[*?])", pattern)
    return re.compile("".join(WILD.get(part) or re.escape(part[1] if LITERAL.fullmatch(part) else part) for part in parts), re.DOTALL)


def _matches_wildcards(pattern: str, value: str) -> bool:
    return _expression(pattern).fullmatch(value) is not None


def _equal(pattern: str, value: str) -> bool:
    return pattern == value


# By operator: the comparison of a value, and whether the comparison is negated
OPERATORS: dict[str, tuple[Callable[[str, str], bool], bool]] = {
    "StringEquals": (_equal, False),
    "StringNotEquals": (_equal, True),
    "StringEqualsIgnoreCase": (lambda pattern, value: pattern.lower() == value.lower(), False),
    "StringNotEqualsIgnoreCase": (lambda pattern, value: pattern.lower() == value.lower(), True),
    "StringLike": (_matches_wildcards, False),
    "StringNotLike": (_matches_wildcards, True),
    "ArnEquals": (_matches_arn, False),
    "ArnLike": (_matches_arn, False),
    "ArnNotEquals": (_matches_arn, True),
    "ArnNotLike": (_matches_arn, True),
    "Bool": (lambda pattern, value: pattern.lower() == value.lower(), False),
}
OPERATOR = re.compile(r"(?:(ForAnyValue|ForAllValues):)?([A-Za-z]+?)(IfExists)?")


def _condition_holds(operator: str, key: str, wanted: list[Any], permission: Permission) -> bool:
    """Return whether the request meets one condition of a statement."""
    quantifier, name, if_exists = _parse_operator(operator)
    if not KEYS.fullmatch(key):
        raise Unsupported(f"the condition key {key}")
    texts = [str(each).lower() if isinstance(each, bool) else str(each) for each in wanted]
    value = permission.context.get(key.lower())
    if name == "Null":
        return any((value is None) is (text.lower() == "true") for text in texts)
    _compare, negated = OPERATORS[name]
    if value in (None, ()):
        return if_exists or quantifier == "ForAllValues" or (negated and not quantifier)
    each = _compare_values(name, [_fill_variables(text, permission) for text in texts], _list(value))
    return all(each) if quantifier != "ForAnyValue" else any(each)


def _parse_operator(operator: str) -> tuple[str, str, bool]:
    """Return the quantifier and the name of a condition operator, and whether it ends with `IfExists`. Raises `Unsupported`."""
    found = OPERATOR.fullmatch(operator)
    if not found or (found.group(2) not in OPERATORS and operator != "Null"):
        raise Unsupported(f"the condition operator {operator}")
    quantifier, name, if_exists = found.groups()
    return quantifier or "", name, bool(if_exists)


def _compare_values(name: str, patterns: list[str | None], values: list[str]) -> list[bool]:
    """For each value of the condition key in the request, return whether the value meets the condition. A pattern is None if it contains
    variables that the request does not set.
    """
    compare, negated = OPERATORS[name]
    return [any(_compare(compare, pattern, value) for pattern in patterns if pattern is not None) is not negated for value in values]


def _compare(compare: Callable[[str, str], bool], pattern: str, value: str) -> bool:
    # Other operators have no wildcards, so [*] is unescaped for them
    return (
        compare(pattern, value) if compare in (_matches_wildcards, _matches_arn) else compare(re.sub(r"\[([*?$])\]", r"\1", pattern), value)
    )


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
