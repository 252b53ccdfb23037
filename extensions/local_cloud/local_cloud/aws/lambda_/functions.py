"""Functions, whose code and configuration take effect some time after a change.

Sources: AWS Lambda Developer Guide, "Lambda function states", "Lambda quotas", "Using tags on Lambda functions" and "Working with Lambda
environment variables"; responses of the service that users have published.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import uuid4

from moto.awslambda.models import LambdaBackend

from ..context import CLOUD
from ..iam.role_sessions import find_role
from ..iam.trust_policies import may_assume
from ..iam.visibility import age
from ..override import override
from .errors import LambdaError, conflict, invalid, unavailable, unknown

SERVICE = "lambda.amazonaws.com"
RUNTIMES = tuple(f"python3.{minor}" for minor in range(10, 15))
DEFAULTS: dict[str, Any] = {"Description": "", "Timeout": 3, "MemorySize": 128}
SETTINGS = ("Description", "Environment", "Handler", "MemorySize", "Role", "Runtime", "Timeout")
# Bytes.
LARGEST_ENVIRONMENT = 4096
LARGEST_CODE = 262_144_000
# Variables that Lambda sets itself.
RESERVED = re.compile(
    r"_HANDLER|_X_AMZN_TRACE_ID|LAMBDA_(TASK_ROOT|RUNTIME_DIR)|AWS_(DEFAULT_REGION|REGION|EXECUTION_ENV|ACCESS_KEY|ACCESS_KEY_ID"
    r"|SECRET_ACCESS_KEY|SESSION_TOKEN|LAMBDA_(FUNCTION_(NAME|MEMORY_SIZE|VERSION)|INITIALIZATION_TYPE|LOG_(GROUP|STREAM)_NAME|RUNTIME_API))"
)
MOST_TAGS = 50
NAME = re.compile(r"(?:(?:arn:[\w-]+:lambda:)?(?:([a-z0-9-]+):)?(?:\d{12}:)?function:|\d{12}:)?([\w-]+)(?::(.+))?")


class Version(NamedTuple):
    """The code and the configuration that an invocation uses."""

    configuration: dict[str, Any]
    code: bytes


class Function:
    """A function without published versions."""

    concurrency: int | None = None
    """The reserved concurrency. With 0, the function is not invoked. Other numbers have no effect."""

    def __init__(self, backend: Any, request: Mapping[str, Any], code: bytes) -> None:
        self.backend, self.name = backend, parse_name(request["FunctionName"])[1]
        self.arn = f"arn:{backend.partition}:lambda:{backend.region_name}:{backend.account_id}:function:{self.name}"
        self.configuration = DEFAULTS | {name: request[name] for name in SETTINGS if name in request}
        self.architectures = request.get("Architectures") or ["x86_64"]
        self.code = code
        self.tags: dict[str, str] = {}
        self.created = CLOUD.clock.now()
        self.version: Version | None = None
        """What invocations use, or None while the function is pending."""
        check_configuration(backend, self.configuration)
        self.role_id = find_role(backend, self.configuration["Role"]).id
        """The ID of the role that can decrypt the environment variables: the one that had this ARN when the function got it."""
        self.add_tags(request.get("Tags") or {})
        self._begin()

    @property
    def state(self) -> str:
        return "Active" if self.version else "Pending"

    def update(self, settings: Mapping[str, Any], code: bytes | None = None) -> None:
        """Change the code or the configuration. Until the change takes effect, invocations use the former ones."""
        if self.state == "Pending":
            raise self.not_active()
        if self._updating:
            raise conflict(f"The operation cannot be performed at this time. An update is in progress for resource: {self.arn}")
        configuration = self.configuration | {name: settings[name] for name in SETTINGS if name in settings}
        check_configuration(self.backend, configuration)
        if configuration["Role"] != self.configuration["Role"]:
            self.role_id = find_role(self.backend, configuration["Role"]).id
        self.configuration, self.code = configuration, self.code if code is None else code
        self.architectures = settings.get("Architectures") or self.architectures
        self._begin()

    def check_revision(self, revision: str | None) -> None:
        if revision not in (None, self.revision):
            message = "The Revision Id provided does not match the latest Revision Id. Call the GetFunction API to retrieve it"
            raise LambdaError("PreconditionFailedException", message, 412)

    def not_active(self) -> LambdaError:
        """Return the error for a request that needs an active function."""
        return conflict(f"The operation cannot be performed at this time. The function is currently in the following state: {self.state}")

    def add_tags(self, tags: Mapping[str, str]) -> None:
        """Add or replace tags. Raises `InvalidParameterValueException`."""
        for key in tags:
            if key.lower().startswith("aws:"):
                raise invalid("System tags cannot be added or updated by requester")
        if len({**self.tags, **tags}) > MOST_TAGS:
            raise invalid("Number of tags exceeds resource tag limit.")
        self.tags.update(tags)

    def describe(self) -> dict[str, Any]:
        """Return the configuration as in responses."""
        changed = datetime.fromtimestamp(self.changed, UTC)
        found = {
            **{name: value for name, value in self.configuration.items() if value != {"Variables": {}}},
            "FunctionName": self.name,
            "FunctionArn": self.arn,
            "CodeSize": len(self.code),
            "CodeSha256": base64.b64encode(hashlib.sha256(self.code).digest()).decode(),
            "LastModified": f"{changed:%Y-%m-%dT%H:%M:%S}.{changed.microsecond // 1000:03}+0000",
            "Version": "$LATEST",
            "RevisionId": self.revision,
            "PackageType": "Zip",
            "Architectures": self.architectures,
            "TracingConfig": {"Mode": "PassThrough"},
            "EphemeralStorage": {"Size": 512},
            "SnapStart": {"ApplyOn": "None", "OptimizationStatus": "Off"},
            "LoggingConfig": {"LogFormat": "Text", "LogGroup": f"/aws/lambda/{self.name}"},
            "State": self.state,
        }
        reason = "The function is being created."
        if self.state == "Pending":
            return found | {"StateReason": reason, "StateReasonCode": "Creating"}
        if self._updating:
            found |= {"LastUpdateStatusReason": reason, "LastUpdateStatusReasonCode": "Creating"}
        return found | {"LastUpdateStatus": "InProgress" if self._updating else "Successful"}

    def _begin(self) -> None:
        self._updating, self.changed, self.revision = True, CLOUD.clock.now(), str(uuid4())
        CLOUD.clock.after(CLOUD.delays.lambda_function, self._finish)

    def _finish(self) -> None:
        self._updating, self.version = False, Version(self.configuration, self.code)


@override(LambdaBackend)
def __reduce__(self: Any) -> tuple[Any, ...]:
    """Save only the functions. Objects of moto, which the local cloud does not use, cannot be pickled."""
    return type(self), (self.region_name, self.account_id), {"functions": functions(self)}


def functions(backend: Any) -> dict[str, Function]:
    """Return the functions of an account and region by name."""
    found: dict[str, Function] = backend.__dict__.setdefault("functions", {})
    return found


def parse_name(text: str) -> tuple[str, str, str]:
    """Return the region, the name and the qualifier in a name or ARN of a function. What is missing is ''."""
    found = NAME.fullmatch(text)
    if found is None:
        raise invalid(f"The function name {text} is not valid.")
    region, name, qualifier = found.groups()
    return region or "", name, qualifier or ""


def find(backend: Any, text: str, qualifier: str | None = None) -> Function:
    """Return the function with this name or ARN. Raises `ResourceNotFoundException`."""
    region, name, included = parse_name(text)
    if region not in ("", backend.region_name):
        raise unknown(f"Functions from '{region}' are not reachable in this region ('{backend.region_name}')")
    arn = f"arn:{backend.partition}:lambda:{backend.region_name}:{backend.account_id}:function:{name}"
    version = qualifier or included or "$LATEST"
    if name not in functions(backend) or version != "$LATEST":
        raise unknown(f"Function not found: {arn if version == '$LATEST' else f'{arn}:{version}'}")
    return functions(backend)[name]


def check_role(backend: Any, arn: str) -> None:
    """Raise `InvalidParameterValueException` for a role that Lambda may not assume, or that is too new."""
    role = find_role(backend, arn)
    if role is None or age(role) < CLOUD.delays.lambda_role or not may_assume(SERVICE, role):
        raise invalid("The role defined for the function cannot be assumed by Lambda.")


def check_environment(function: Function, configuration: Mapping[str, Any]) -> None:
    """Raise `KMSAccessDeniedException` if the role that can decrypt the environment variables has been deleted and created anew."""
    variables = (configuration.get("Environment") or {}).get("Variables")
    if variables and find_role(function.backend, configuration["Role"]).id != function.role_id:
        raise LambdaError(
            "KMSAccessDeniedException",
            "Lambda was unable to decrypt the environment variables because KMS access was denied. Please check the function's KMS key "
            "settings. KMS Exception: AccessDeniedException KMS Message: The ciphertext refers to a customer master key that does not "
            "exist, does not exist in this region, or you are not allowed to access.",
            502,
        )


def check_configuration(backend: Any, configuration: Mapping[str, Any]) -> None:
    """Raise the error for a configuration that Lambda does not accept."""
    runtime = configuration.get("Runtime", "")
    if not runtime.startswith("python"):
        raise unavailable(f"the runtime {runtime or 'of the request'}")
    if runtime not in RUNTIMES:
        raise invalid(
            f"The runtime parameter of {runtime} is no longer supported for creating or updating AWS Lambda functions. We recommend you "
            f"use a supported runtime while creating or updating functions."
        )
    if not configuration.get("Handler"):
        raise invalid("Runtime and Handler are mandatory parameters for functions created with deployment packages.")
    reason = "Lambda was unable to configure your environment variables because the environment variables you have provided"
    variables = (configuration.get("Environment") or {}).get("Variables") or {}
    reserved = sorted(filter(RESERVED.fullmatch, variables))
    if reserved:
        raise invalid(
            f"{reason} contains reserved keys that are currently not supported for modification. Reserved keys used in this request: "
            f"{', '.join(reserved)}"
        )
    measured = json.dumps(variables, separators=(",", ":"))
    if len(measured.encode()) > LARGEST_ENVIRONMENT:
        raise invalid(f"{reason} exceeded the 4KB limit. String measured: {measured}")
    check_role(backend, configuration["Role"])


def unpacked(encoded: str) -> bytes:
    """Return the deployment package in a request. Raises `InvalidParameterValueException`."""
    code = base64.b64decode(encoded)
    try:
        with zipfile.ZipFile(io.BytesIO(code)) as archive:
            size = sum(each.file_size for each in archive.infolist())
    except zipfile.BadZipFile:
        raise invalid("Could not unzip uploaded file. Please check your file, then try to upload again.") from None
    if not size:
        raise invalid("Uploaded file must be a non-empty zip")
    if size >= LARGEST_CODE:
        raise invalid(f"Unzipped size must be smaller than {LARGEST_CODE} bytes")
    return code
