"""Rejects requests that moto accepts, but that are invalid in every state of the account."""

from __future__ import annotations

from typing import Any

from botocore.model import OperationModel

from .. import tags
from ..access.required_permissions import EC2
from ..requests import calls
from ..requests.parameter_usage import RECORD
from ..requests.refusal import Refusal
from . import constraints, filters

# The error code for an invalid parameter, for each service.
CODES = {
    "autoscaling": "ValidationError",
    "ec2": "InvalidParameterValue",
    "elasticfilesystem": "BadRequest",
    "fsx": "BadRequest",
    "iam": "InvalidInput",
    "sts": "ValidationError",
}
USUAL_CODE = "ValidationException"


def validate(call: calls.Call, operation: OperationModel, parameters: dict[str, Any]) -> Refusal | None:
    """Return the error for the first invalid parameter of a request, or None if all parameters are valid."""
    if RECORD.on:
        RECORD.begin(call, operation.input_shape, parameters)
    broken = constraints.find_violation(operation, parameters)
    if broken is not None:
        return Refusal(*broken, 400)
    name = filters.find_unknown(operation, parameters)
    if name is not None:
        return Refusal(CODES.get(call.service, USUAL_CODE), f"The filter '{name}' is invalid", 400)
    created = EC2[call.action][0] if call.service == "ec2" and call.action in EC2 else ()
    misplaced = tags.find_misplaced(parameters, created) if created else None
    if misplaced is not None:
        return Refusal(CODES["ec2"], f"'{misplaced}' is not a valid taggable resource type for this operation.", 400)
    key = tags.find_reserved(parameters)
    if key is not None:
        message = f"Value ( {key} ) for parameter key is invalid. Tag keys starting with 'aws:' are reserved for internal use"
        return Refusal(CODES.get(call.service, USUAL_CODE), message, 400)
    return None
