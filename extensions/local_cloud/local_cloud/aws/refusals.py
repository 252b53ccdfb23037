"""What AWS refuses about a request before it looks at anything in the account, and moto lets through."""

from __future__ import annotations

from typing import Any

from . import filters, requests, tags

CODES = {
    "autoscaling": "ValidationError",
    "ec2": "InvalidParameterValue",
    "elasticfilesystem": "BadRequest",
    "fsx": "BadRequest",
    "iam": "InvalidInput",
    "sts": "ValidationError",
}
"""The error code for a bad parameter, by service."""
USUAL_CODE = "ValidationException"
Refusal = tuple[str, str, int]
"""Error code, message and HTTP status."""


def find(environ: dict[str, Any], call: requests.Call) -> Refusal | None:
    """The first thing that is wrong with a request by itself."""
    parsed = requests.parameters(environ, call)
    if parsed is None:
        return None
    operation, parameters = parsed
    name = filters.unknown(operation, parameters)
    if name is not None:
        return CODES.get(call.service, USUAL_CODE), f"The filter '{name}' is invalid", 400
    key = tags.reserved(parameters)
    if key is not None:
        message = f"Value ( {key} ) for parameter key is invalid. Tag keys starting with 'aws:' are reserved for internal use"
        return CODES.get(call.service, USUAL_CODE), message, 400
    return None
