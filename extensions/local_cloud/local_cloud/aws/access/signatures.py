"""Verifies the Signature Version 4 of requests, in headers and in presigned URLs.

Source: IAM User Guide, "AWS Signature Version 4 for API requests"; Amazon S3 API Reference, "Authenticating Requests".
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from urllib.parse import parse_qsl, quote, unquote

from botocore.utils import normalize_url_path

from ..requests.calls import Environ, is_too_large, read_body

ALGORITHM = "AWS4-HMAC-SHA256"
TIMESTAMP = "%Y%m%dT%H%M%SZ"
UNSIGNED = "UNSIGNED-PAYLOAD"
UNSIGNED_CHUNKS = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
MAX_CLOCK_SKEW = timedelta(minutes=15)
MAX_LIFETIME = timedelta(days=7)
HEX = re.compile(r"[0-9a-f]{64}")
FIELDS = re.compile(r"(Credential|SignedHeaders|Signature)=([^,\s]+)")


class Defect(Enum):
    """The kinds of invalid signatures."""

    MISSING = "missing"
    UNSUPPORTED = "unsupported"
    INCOMPLETE = "incomplete"
    MISMATCH = "mismatch"
    EXPIRED = "expired"
    PAYLOAD = "payload"


class BadSignature(Exception):
    """A request has no valid signature."""

    def __init__(self, defect: Defect) -> None:
        super().__init__(defect.value)
        self.defect = defect


@dataclass(frozen=True)
class Claim:
    """The unverified signature of a request, and the parameters of the signature."""

    access_key_id: str
    # Date, region, service, and "aws4_request".
    scope: tuple[str, ...]
    signed_headers: tuple[str, ...]
    signature: str
    timestamp: str
    token: str
    # Lifetime of a presigned URL in seconds.
    expires: int | None

    @property
    def service(self) -> str:
        return self.scope[2]

    @property
    def presigned(self) -> bool:
        return self.expires is not None


def claim(environ: Environ) -> Claim:
    """Return the unverified signature of a request. Raises `BadSignature`."""
    header = environ.get("HTTP_AUTHORIZATION", "")
    query = dict(_query(environ))
    if header.startswith(ALGORITHM):
        fields = dict(FIELDS.findall(header))
        token, timestamp, expires = environ.get("HTTP_X_AMZ_SECURITY_TOKEN", ""), environ.get("HTTP_X_AMZ_DATE", ""), None
    elif query.get("X-Amz-Algorithm") == ALGORITHM and not header:
        fields = {name: query.get(f"X-Amz-{name}", "") for name in ("Credential", "SignedHeaders", "Signature")}
        token, timestamp, expires = query.get("X-Amz-Security-Token", ""), query.get("X-Amz-Date", ""), _seconds(query)
    elif header or "Signature" in query or "X-Amz-Algorithm" in query:
        raise BadSignature(Defect.UNSUPPORTED)
    else:
        raise BadSignature(Defect.MISSING)
    key, *scope = fields.get("Credential", "").split("/")
    headers = tuple(filter(None, fields.get("SignedHeaders", "").split(";")))
    if len(scope) != 4 or scope[3] != "aws4_request" or not timestamp.startswith(scope[0]) or "host" not in headers:
        raise BadSignature(Defect.INCOMPLETE)
    return Claim(key, tuple(scope), headers, fields.get("Signature", ""), timestamp, token, expires)


def verify(environ: Environ, made: Claim, secret: str, now: datetime | None = None) -> None:
    """Raise `BadSignature` unless the signature is recent and was made with the secret. The body can be read again afterward."""
    payload = _payload(environ, made)
    canonical = "\n".join(
        (
            environ["REQUEST_METHOD"],
            _canonical_path(environ, made.service),
            _canonical_query(environ),
            *(f"{name}:{_header(environ, name)}" for name in made.signed_headers),
            "",
            ";".join(made.signed_headers),
            payload,
        )
    )
    text = "\n".join((ALGORITHM, made.timestamp, "/".join(made.scope), hashlib.sha256(canonical.encode()).hexdigest()))
    expected = hmac.new(_signing_key(secret, *made.scope), text.encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected, made.signature):
        raise BadSignature(Defect.MISMATCH)
    _check_time(made, now or datetime.now(UTC))
    if HEX.fullmatch(payload) and payload != hashlib.sha256(read_body(environ)).hexdigest():
        raise BadSignature(Defect.PAYLOAD)


@functools.lru_cache(maxsize=256)
def _signing_key(secret: str, *scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope:
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def _check_time(made: Claim, now: datetime) -> None:
    try:
        signed = datetime.strptime(made.timestamp, TIMESTAMP).replace(tzinfo=UTC)
    except ValueError:
        raise BadSignature(Defect.INCOMPLETE) from None
    until = signed + (MAX_CLOCK_SKEW if made.expires is None else timedelta(seconds=made.expires))
    if not signed - MAX_CLOCK_SKEW <= now <= until:
        raise BadSignature(Defect.EXPIRED)


def _seconds(query: dict[str, str]) -> int:
    text = query.get("X-Amz-Expires", "")
    if not (text.isdecimal() and int(text) <= MAX_LIFETIME.total_seconds()):
        raise BadSignature(Defect.INCOMPLETE)
    return int(text)


def _uri(environ: Environ) -> tuple[str, str]:
    path, _, query = str(environ["REQUEST_URI"]).partition("?")
    return path, query


def _query(environ: Environ) -> list[tuple[str, str]]:
    return parse_qsl(_uri(environ)[1], keep_blank_values=True)


def _canonical_path(environ: Environ, service: str) -> str:
    path = _uri(environ)[0]
    if service.startswith("s3"):
        return quote(unquote(path), safe="/-_.~")
    return quote(normalize_url_path(path), safe="/~")


def _canonical_query(environ: Environ) -> str:
    # A plus sign is literal, and %20 stands for a space
    pairs = [pair.partition("=")[::2] for pair in _uri(environ)[1].split("&") if pair]
    encoded = sorted((_encoded(name), _encoded(value)) for name, value in pairs if name != "X-Amz-Signature")
    return "&".join(f"{name}={value}" for name, value in encoded)


def _encoded(text: str) -> str:
    return quote(unquote(text), safe="-_.~")


def _header(environ: Environ, name: str) -> str:
    key = name.upper().replace("-", "_")
    value = environ.get(key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}", "")
    # HTTP headers are bytes, which WSGI decodes as Latin-1
    return " ".join(str(value).split()).encode("latin-1", "replace").decode("utf-8", "replace")


def _payload(environ: Environ, made: Claim) -> str:
    """Return what the signature covers instead of the body. Bodies for S3, which can be large, are read after the signature is checked."""
    stated = str(environ.get("HTTP_X_AMZ_CONTENT_SHA256", ""))
    if made.service.startswith("s3"):
        if made.presigned:
            return stated or UNSIGNED
        if stated in (UNSIGNED, UNSIGNED_CHUNKS):
            return stated
        if not HEX.fullmatch(stated):
            raise BadSignature(Defect.UNSUPPORTED)
        return stated
    if is_too_large(environ):
        raise BadSignature(Defect.PAYLOAD)
    actual = hashlib.sha256(read_body(environ)).hexdigest()
    if stated and stated != actual:
        raise BadSignature(Defect.PAYLOAD)
    return actual
