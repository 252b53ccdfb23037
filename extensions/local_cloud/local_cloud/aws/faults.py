"""Injected faults: throttling, server errors, latency."""

from __future__ import annotations

import random
import re
import threading
from dataclasses import asdict, dataclass, fields
from typing import Any

from .requests import Call

ALIASES = {"efs": "elasticfilesystem"}


@dataclass
class Rule:
    """One kind of fault. A rule with a code makes calls fail, any rule can make them slow."""

    service: str = "*"
    """As in signatures (ec2, autoscaling, elasticfilesystem, iam, ssm ...) or * for any."""
    action: str = ".*"
    """A regular expression for the whole name of the action."""
    code: str = ""
    """The error's code, such as RequestLimitExceeded or Throttling."""
    message: str = "Rate exceeded"
    status: int = 503
    latency: float = 0.0
    """Seconds by which a call is held up."""
    times: int | None = None
    """How many calls it befalls; None for all."""
    probability: float = 1.0
    each_call_once: bool = False
    """Whether it befalls every action of a service only the first time."""
    hits: int = 0

    def __post_init__(self) -> None:
        re.compile(self.action)
        self.service = ALIASES.get(self.service, self.service)
        self._seen: set[tuple[str, str]] = set()

    def befalls(self, call: Call) -> bool:
        """Whether the rule applies to this call, and count it."""
        if self.service not in ("*", call.service) or not re.fullmatch(self.action, call.action):
            return False
        if self.times is not None and self.hits >= self.times:
            return False
        if self.each_call_once and (call.service, call.action) in self._seen:
            return False
        if random.random() >= self.probability:
            return False
        self._seen.add((call.service, call.action))
        self.hits += 1
        return True


class Faults:
    """The rules in force, and the first of them that befalls a call."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []
        self._lock = threading.Lock()

    def set(self, rules: list[dict[str, Any]]) -> None:
        """Replace all rules. Raises ValueError for a rule that makes no sense."""
        known = {field.name for field in fields(Rule)}
        for rule in rules:
            unknown = set(rule) - known
            if unknown:
                raise ValueError(f"a fault has no {sorted(unknown)[0]!r}, but {', '.join(sorted(known))}")
        try:
            built = [Rule(**rule) for rule in rules]
        except re.error as error:
            raise ValueError(f"the action of a fault is no regular expression: {error}") from None
        with self._lock:
            self._rules = built

    def as_list(self) -> list[dict[str, Any]]:
        """The rules and how often each applied (hits)."""
        with self._lock:
            return [asdict(rule) for rule in self._rules]

    def find(self, call: Call) -> Rule | None:
        with self._lock:
            return next((rule for rule in self._rules if rule.befalls(call)), None)
