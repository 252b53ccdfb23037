# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tells which parts of a URL say what it leads to, and which parts are only credentials."""

from __future__ import annotations

import re

URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<user>[^/?#\s'\"]*@)?(?P<place>[^?#\s'\"]*)(?:\?(?P<query>[^#\s'\"]*))?(?P<rest>#[^\s'\"]*)?"
)

# Query parameters that contain credentials: presigned URLs of S3, Google Cloud Storage and OSS, Akamai's and other tokens.
TOKEN = re.compile(
    r"x-(amz|goog|oss)-.*|signature|sig|((access|auth|deploy|id|job|private|security|session)[-_]?)?token|__token__|hdn(ts|tl|ea)|jwt"
    r"|api[-_]?key",
    re.IGNORECASE,
)
# A signature, and the parameters that belong to it and that other URLs may use for something else: S3 and Google Cloud Storage (version 2),
# CloudFront and Cloud CDN; Azure Storage (shared access signatures).
SIGNED = {
    "signature": re.compile(
        r"expires|awsaccesskeyid|googleaccessid|ossaccesskeyid|key-pair-id|keyname|policy|hash-algorithm|urlprefix", re.IGNORECASE
    ),
    "sig": re.compile(r"s[vrtpe]|ss|srt|spr|sip|sdd|saoid|suoid|scid|ses|sk(oid|tid|t|e|s|v)", re.IGNORECASE),
}


def without_credentials(text: str, *, has_query: bool = True) -> str:
    """Return a text whose URLs have no user information and no query parameters for signatures and tokens.

    If `has_query` is false, they have no query at all. The result may contain secrets in other places, so it is never shown or written.
    """

    def reduced(found: re.Match[str]) -> str:
        query = _without_signature(found["query"] or "") if has_query else ""
        return "".join((found["scheme"], found["place"], "?" if query else "", query, found["rest"] or ""))

    return URL.sub(reduced, text)


def _without_signature(query: str) -> str:
    parts = [(part, part.partition("=")[0]) for part in query.split("&")]
    names = {name.lower() for _part, name in parts}
    patterns = [TOKEN, *(pattern for signature, pattern in SIGNED.items() if signature in names)]
    return "&".join(part for part, name in parts if not any(pattern.fullmatch(name) for pattern in patterns))
