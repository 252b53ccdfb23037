"""Injected faults: throttling, server errors, lost responses, latency, and held calls."""

from __future__ import annotations

import random
import re
import threading
from dataclasses import asdict, dataclass, fields
from typing import Any

from .calls import Call

ALIASES = {"efs": "elasticfilesystem", "emr": "elasticmapreduce"}
STAGES = ("", "before", "after")


@dataclass
class Rule:
    """A rule that injects one kind of fault. A rule with an error code makes calls fail. Any rule can delay or hold calls."""

    # The service's name in signatures (for example ec2, autoscaling or elasticfilesystem), or `*` for any service.
    service: str = "*"
    # A regular expression that matches the whole name of the action.
    action: str = ".*"
    # Restricts the rule to calls that only read (true) or to calls that write (false).
    read_only: bool | None = None
    # The error code, such as RequestLimitExceeded or Throttling.
    code: str = ""
    message: str = "Rate exceeded"
    status: int = 503
    # Whether the call is executed, and only its response is lost.
    after: bool = False
    # The delay of a call in seconds.
    latency: float = 0.0
    # `before` holds a call before its execution; `after` holds its response. See `held_calls.HeldCalls`.
    pause: str = ""
    # The maximum number of calls to which the rule applies, or None for no limit.
    times: int | None = None
    # Restricts the rule to the n-th matching call, counted from 1.
    nth: int | None = None
    probability: float = 1.0
    # Whether the rule applies at most once to each action of a service.
    each_call_once: bool = False
    hits: int = 0

    def __post_init__(self) -> None:
        re.compile(self.action)
        if self.pause not in STAGES:
            raise ValueError(f"Fault: pause {self.pause!r} is not 'before' or 'after'.")
        self.service = ALIASES.get(self.service, self.service)
        self._seen: set[tuple[str, str]] = set()
        self._matches = 0

    def applies_to(self, call: Call) -> bool:
        """Return whether the rule applies to this call, and count the call."""
        if not self._matches_call(call):
            return False
        self._matches += 1
        if self.nth not in (None, self._matches):
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

    def _matches_call(self, call: Call) -> bool:
        return (
            self.service in ("*", call.service)
            and self.read_only in (None, call.read_only)
            and re.fullmatch(self.action, call.action) is not None
        )


class Faults:
    """The active rules."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []
        self._lock = threading.Lock()

    def set(self, rules: list[dict[str, Any]]) -> None:
        """Replace all rules. Raises `ValueError` for an invalid rule."""
        known = {field.name for field in fields(Rule)}
        for rule in rules:
            unknown = set(rule) - known
            if unknown:
                raise ValueError(f"Fault: unknown field {sorted(unknown)[0]!r}. Known fields: {', '.join(sorted(known))}.")
        try:
            built = [Rule(**rule) for rule in rules]
        except re.error as error:
            raise ValueError(f"Fault: action is not a regular expression: {error}.") from None
        with self._lock:
            self._rules = built

    def as_list(self) -> list[dict[str, Any]]:
        """Return the rules, with the number of calls to which each rule applied (`hits`)."""
        with self._lock:
            return [asdict(rule) for rule in self._rules]

    def find(self, call: Call) -> Rule | None:
        with self._lock:
            return next((rule for rule in self._rules if rule.applies_to(call)), None)
