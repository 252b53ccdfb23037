# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Writes the IAM policies that operators need, one for each playbook, or several if one would be too long."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .iam_account import Account
from .iam_playbook_actions import playbooks
from .iam_resources_and_conditions import Scope, scopes

WITHOUT_REGION = ("iam:", "pricing:", "route53:", "sts:")
LONGEST = 6144  # the maximum number of characters in a managed policy, without white space


def statements(actions: set[str], account: Account) -> Iterator[dict[str, Any]]:
    """Return statements that allow the actions, as narrowly as AWS supports."""
    for statement in _everywhere(actions, account):
        yield from _in_region(statement, account.region) if account.region else (statement,)


def _in_region(statement: dict[str, Any], region: str) -> Iterator[dict[str, Any]]:
    """Return the statement for one region, and a separate statement without the region for global services."""
    regional = [action for action in statement["Action"] if not action.startswith(WITHOUT_REGION)]
    others = [action for action in statement["Action"] if action.startswith(WITHOUT_REGION)]
    if regional:
        condition = statement.get("Condition", {})
        equal = {**condition.get("StringEquals", {}), "aws:RequestedRegion": region}
        yield {**statement, "Action": regional, "Condition": {**condition, "StringEquals": equal}}
    if others:
        yield {**statement, "Sid": f"{statement['Sid']}{'Everywhere' if regional else ''}", "Action": others}


def _everywhere(actions: set[str], account: Account) -> Iterator[dict[str, Any]]:
    narrow = [scope for scope in scopes(account) if (not scope.because or actions & {*scope.because}) and not actions & {*scope.unless}]
    rest = actions - {action for scope in narrow for action in scope.actions}
    if rest:
        yield Scope("Read", ()).statement(rest)
    for scope in narrow:
        allowed = actions & set(scope.actions)
        if allowed and scope.resources:
            yield scope.statement(allowed)


def policies(account: Account) -> dict[str, dict[str, Any]]:
    """Return the policies by file name. A policy that is too long is split."""
    result = {}
    for name, actions in playbooks().items():
        parts: list[list[dict[str, Any]]] = [[]]
        for statement in statements(actions, account):
            if len(json.dumps(_policy([*parts[-1], statement]), separators=(",", ":"))) > LONGEST:
                parts.append([])
            parts[-1].append(statement)
        for number, part in enumerate(parts, start=1):
            result[name if len(parts) == 1 else f"{name}-{number}"] = _policy(part)
    return result


def _policy(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": parts}


def text(policy: dict[str, Any]) -> str:
    return json.dumps(policy, indent=2) + "\n"
