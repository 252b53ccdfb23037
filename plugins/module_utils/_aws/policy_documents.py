# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Compares policies by their meaning, because AWS returns them in other forms than those in which they were sent.

IAM and S3 return the elements of lists in any order, and AWS services may replace a list of one element with the element. Sources:
terraform-provider-aws #2432, #25967 and #30870; boto3 #1178.
"""

from __future__ import annotations

import json
from typing import Any, Collection, Dict, Mapping


class PolicyDocument(Dict[str, Any]):
    """A policy that equals all policies with the same meaning."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and comparable(self) == comparable(other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def comparable(document: Mapping[str, Any], without: Collection[str] = ()) -> str:
    """Return a policy as normalized JSON. `without` contains elements of statements to leave out."""
    statements = [comparable_statement(each, without) for each in listed(document.get("Statement"))]
    return json.dumps(sorted(statements))


def comparable_statement(statement: Mapping[str, Any], without: Collection[str] = ()) -> str:
    return json.dumps({name: _comparable(name, value) for name, value in statement.items() if name not in without}, sort_keys=True)


def _comparable(name: str, value: Any) -> Any:
    if name == "Condition":
        return {operator: {key.lower(): sorted(map(_text, listed(each))) for key, each in keys.items()} for operator, keys in value.items()}
    if name in ("Principal", "NotPrincipal"):
        return {kind: sorted(listed(each)) for kind, each in ({"AWS": value} if isinstance(value, str) else value).items()}
    return sorted(listed(value))


def listed(value: Any) -> list[Any]:
    """Return the elements of a list in a policy, which may be written as one element."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
