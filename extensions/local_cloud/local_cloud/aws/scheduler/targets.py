"""Targets of schedules: which universal targets exist, and the API call that a target describes.

Sources: EventBridge Scheduler User Guide, "Using universal targets in EventBridge Scheduler" and "Adding context attributes"; responses of
the service to targets that it refuses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from botocore.loaders import Loader
from botocore.model import OperationModel, ServiceModel

from .errors import invalid, unavailable

FUNCTION = re.compile(r"arn:aws[a-z-]*:lambda:[a-z0-9-]+:\d{12}:function:[\w-]+(?::[\w$-]+)?")
UNIVERSAL = re.compile(r"arn:aws[a-z-]*:scheduler:::aws-sdk:([a-z0-9]+):(\w+)")
TEMPLATED = (
    "codebuild",
    "codepipeline",
    "ecs",
    "events",
    "firehose",
    "inspector",
    "kinesis",
    "sagemaker",
    "sns",
    "sqs",
    "states",
)
# Actions whose names begin with these prefixes only read, or are not supported for other reasons.
UNSUPPORTED = (
    *("get", "describe", "list", "poll", "receive", "search", "scan", "query", "select", "read", "lookup", "discover", "validate"),
    *("batchGet", "batchDescribe", "batchRead", "transactGet", "adminGet", "adminList", "testMigration", "retrieve", "testConnection"),
    *("translateDocument", "isAuthorized", "isAuthorizedWithToken", "invokeModel"),
)
IMPLEMENTED = {"Arn", "RoleArn", "Input", "RetryPolicy"}
RETRY_POLICY = {"MaximumEventAgeInSeconds": 86400, "MaximumRetryAttempts": 185}
Call = tuple[str, str, dict[str, Any]]


def checked(target: Mapping[str, Any]) -> dict[str, Any]:
    """Return a target with its retry policy. Raises `ValidationException` for a target that Scheduler does not accept."""
    for name in sorted(set(target) - IMPLEMENTED):
        raise unavailable(f"the parameter {name} of targets")
    if "Input" not in target and UNIVERSAL.fullmatch(target["Arn"]):
        raise invalid("You must provide an input to set this target for your schedule.")
    call(target["Arn"], target.get("Input", ""))
    return {**target, "RetryPolicy": RETRY_POLICY | target.get("RetryPolicy", {})}


def call(arn: str, text: str) -> Call:
    """Return botocore's names of the service and the operation that a target calls, and the parameters of the call.

    Raises `ValidationException` for an unknown service or action, and for an input that lacks a required parameter.
    """
    if FUNCTION.fullmatch(arn):
        return "lambda", "Invoke", {"FunctionName": arn, "InvocationType": "Event", "Payload": text}
    found = UNIVERSAL.fullmatch(arn)
    if found is None:
        raise _other_target(arn)
    service, action = found.groups()
    model = _model(service)
    if model is None:
        raise invalid(f"{service} is not a supported service for a target.")
    operation = _operation(model, action)
    if operation is None or action.startswith(UNSUPPORTED):
        raise invalid(f"{action} API is not supported.")
    return model.service_name, operation.name, _parameters(operation, text)


def _other_target(arn: str) -> Exception:
    parts = arn.split(":")
    if len(parts) < 6 or parts[0] != "arn":
        return invalid("Provided Arn is not in correct format.")
    if parts[2] in TEMPLATED:
        return unavailable(f"templated targets ({parts[2]})")
    return invalid(f"{parts[2]} is not a supported service for a target.")


@cache
def _model(service: str) -> ServiceModel | None:
    """Return the model of a service. Services whose name in botocore differs from the name of the SDKs are not found."""
    loader = Loader()
    name = next((each for each in loader.list_available_services("service-2") if each.replace("-", "") == service), None)
    return ServiceModel(loader.load_service_model(name, "service-2"), name) if name else None


def _operation(model: ServiceModel, action: str) -> OperationModel | None:
    name = action[:1].upper() + action[1:]
    return model.operation_model(name) if name != action and name in model.operation_names else None


def _parameters(operation: OperationModel, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise invalid("Invalid RequestJson provided. Reason The input is not a well-formed JSON object.")
    missing = [name for name in getattr(operation.input_shape, "required_members", ()) if name not in found]
    if missing:
        raise invalid(
            f"Invalid RequestJson provided. Reason Request payload is missing the following field(s): {', '.join(sorted(missing))}."
        )
    return found
