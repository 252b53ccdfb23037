"""Token buckets, with which EC2 throttles requests per action, account and region. Source: EC2 Developer Guide, "Request throttling"."""

from __future__ import annotations

import threading

from ..context import CLOUD
from .calls import Call

# The size of the bucket of an action, and the tokens per second that refill it. Other actions are not throttled.
BUCKETS = {("ec2", "GetConsoleOutput"): (100, 20)}


class Throttling:
    """The tokens of each bucket, and since when there are so many."""

    def __init__(self) -> None:
        self._tokens: dict[Call, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def refuses(self, call: Call) -> bool:
        """Return whether there have been too many such calls, and count the call."""
        if (call.service, call.action) not in BUCKETS:
            return False
        size, refill = BUCKETS[call.service, call.action]
        with self._lock:
            now = CLOUD.clock.now()
            tokens, since = self._tokens.get(call, (size, now))
            tokens = min(size, tokens + refill * max(0.0, now - since))
            self._tokens[call] = tokens - (tokens >= 1), now
            return tokens < 1
