"""Signs requests to the control API with the local cloud's token.

The token itself is never sent. After the local cloud has stopped, another user of this machine can listen on its port.
"""

from __future__ import annotations

import hashlib
import hmac
import time

SCHEME = "HMAC-SHA256"
# Seconds for which a signature is valid.
VALIDITY = 60


def signature(token: str, method: str, name: str, body: bytes, now: float) -> str:
    """Return the value of the header `Authorization` for a request at this time in seconds. `name` is the path below the control API."""
    signed = f"{method} {name} {int(now)}\n".encode() + body
    return f"{SCHEME} {int(now)} {hmac.new(token.encode(), signed, hashlib.sha256).hexdigest()}"


def is_signed(token: str, method: str, name: str, body: bytes, authorization: str) -> bool:
    """Return whether the header `Authorization` contains a valid signature of the request."""
    _scheme, _space, rest = authorization.partition(" ")
    signed_at = rest.partition(" ")[0]
    if not signed_at.isdecimal() or len(signed_at) > 12 or abs(time.time() - int(signed_at)) > VALIDITY:
        return False
    return hmac.compare_digest(authorization.encode(), signature(token, method, name, body, int(signed_at)).encode())
