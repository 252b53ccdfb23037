"""Refuses requests without a valid signature, and responds with the service's errors."""

from __future__ import annotations

from ..requests.calls import Call, Environ, protocol
from ..requests.refusal import Refusal
from . import signatures
from .identities import Identity, identify
from .signatures import BadSignature, Claim, Defect

_TOKEN = "The security token included in the request is invalid."
_MISMATCH = (
    "The request signature we calculated does not match the signature you provided. "
    "Check your AWS Secret Access Key and signing method. Consult the service documentation for details."
)
# EC2 does not distinguish an unknown key from a wrong signature
_EC2 = Refusal("AuthFailure", "AWS was not able to validate the provided access credentials", 401)
UNKNOWN_KEY = {
    "ec2": _EC2,
    "query": Refusal("InvalidClientTokenId", _TOKEN),
    "json": Refusal("UnrecognizedClientException", _TOKEN, 400),
    "rest-xml": Refusal("InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records."),
}
DEFECTS = {
    Defect.MISMATCH: {
        "ec2": _EC2,
        "query": Refusal("SignatureDoesNotMatch", _MISMATCH),
        "json": Refusal("InvalidSignatureException", _MISMATCH),
        "rest-xml": Refusal("SignatureDoesNotMatch", _MISMATCH),
    },
    Defect.EXPIRED: {
        "ec2": Refusal("RequestExpired", "Request has expired.", 400),
        "query": Refusal("SignatureDoesNotMatch", "Signature expired: it was not created in the last 15 minutes."),
        "json": Refusal("InvalidSignatureException", "Signature expired: it was not created in the last 15 minutes."),
        "rest-xml": Refusal("RequestTimeTooSkewed", "The difference between the request time and the current time is too large."),
    },
    Defect.MISSING: {
        "rest-xml": Refusal("AccessDenied", "Access Denied"),
        "": Refusal("MissingAuthenticationToken", "Request is missing Authentication Token"),
    },
    Defect.INCOMPLETE: {
        "rest-xml": Refusal("AuthorizationHeaderMalformed", "The authorization header that you provided is not valid.", 400),
        "": Refusal("IncompleteSignature", "The request signature does not conform to AWS standards.", 400),
    },
    Defect.UNSUPPORTED: {
        "rest-xml": Refusal("InvalidRequest", "The authorization mechanism you have provided is not supported. Use AWS4-HMAC-SHA256.", 400),
        "": Refusal("IncompleteSignature", "The request signature does not conform to AWS standards.", 400),
    },
    Defect.PAYLOAD: {
        "rest-xml": Refusal("XAmzContentSHA256Mismatch", "The 'x-amz-content-sha256' header does not match what was computed.", 400),
        "": Refusal("SignatureDoesNotMatch", _MISMATCH),
    },
}
EXPIRED_TOKEN = {
    "ec2": Refusal("RequestExpired", "Request has expired.", 400),
    "rest-xml": Refusal("ExpiredToken", "The provided token has expired.", 400),
    "": Refusal("ExpiredTokenException", "The security token included in the request is expired", 400),
}


def authenticate(environ: Environ, call: Call) -> Identity | Refusal:
    """Return who has signed the request, or the error for a request without a valid signature."""
    kind = protocol(environ, call.service)
    try:
        made = signatures.claim(environ)
        identity = identify(made.access_key_id)
        if identity is None:
            return _of(UNKNOWN_KEY, kind)
        signatures.verify(environ, made, identity.secret)
    except BadSignature as error:
        return _of(DEFECTS[error.defect], kind)
    return _token_refused(identity, made, kind) or identity


def _token_refused(identity: Identity, made: Claim, kind: str) -> Refusal | None:
    if made.token != identity.token:
        return _of(UNKNOWN_KEY, kind)
    if identity.expired:
        return _of(EXPIRED_TOKEN, kind)
    return None


def _of(refusals: dict[str, Refusal], kind: str) -> Refusal:
    return refusals.get(kind) or refusals.get("") or refusals["query"]
