"""Objects in S3 to which clusters refer."""

from __future__ import annotations

from moto.s3.models import s3_backends


def is_missing(account: str, path: str) -> bool:
    """Return whether a path refers to an S3 object that does not exist. Other paths are files on the nodes and never count as missing."""
    scheme, separator, rest = path.partition("://")
    if not separator or scheme.lower() not in ("s3", "s3a", "s3n"):
        return False
    bucket, _slash, key = rest.partition("/")
    found = s3_backends[account]["aws"].buckets.get(bucket)
    return found is None or key not in found.keys
