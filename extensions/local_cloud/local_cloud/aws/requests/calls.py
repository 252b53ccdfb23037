"""Parses AWS requests (service, action, parameters) and formats errors in the service's protocol."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote
from uuid import uuid4
from xml.sax.saxutils import escape

from botocore.exceptions import UnknownServiceError
from botocore.model import OperationModel, OperationNotFoundError, ServiceModel
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import Request, determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.utils import get_service_model

ACTION = re.compile(rb"(?:^|&)Action=(\w+)")
CREDENTIAL = re.compile(r"Credential=[^/]+/\d+/([^/]+)/([^/,]+)/")
# botocore's names for services that have a different name in signatures.
MODEL_NAMES = {
    "elasticfilesystem": "efs",
    "elasticloadbalancing": "elbv2",
    "elasticmapreduce": "emr",
    "email": "ses",
    "monitoring": "cloudwatch",
    "servicequotas": "service-quotas",
    "tagging": "resourcegroupstaggingapi",
}
READ_ONLY_PREFIXES = ("Describe", "Get", "List", "Head", "Lookup", "Search", "Select", "Scan", "Query", "BatchGet", "Simulate")
# The size in bytes of bodies that are read before the signature of their request is checked.
BODY_LIMIT = 16 << 20
Environ = dict[str, Any]
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class ReceivedRequest(Request):
    """A request that a server has received."""

    from_wsgi_server = True


@dataclass(frozen=True)
class Call:
    """The service, region, and action of a request. `service` is the name that signatures use, such as ec2 or elasticfilesystem."""

    service: str
    region: str
    action: str

    @property
    def read_only(self) -> bool:
        return self.action.startswith(READ_ONLY_PREFIXES)


def identify(environ: Environ) -> Call:
    """Return the API call of a request. The body can be read again afterward."""
    found = CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", "")) or CREDENTIAL.search(unquote(environ.get("QUERY_STRING", "")))
    region, service = found.groups() if found else ("", "")
    return Call(service, region, _action(environ, service))


def is_too_large(environ: Environ) -> bool:
    """Return whether the body is too large, or may be, to be read before the signature is checked."""
    length = environ.get("CONTENT_LENGTH")
    return not 0 <= int(length) <= BODY_LIMIT if length else bool(environ.get("wsgi.input_terminated"))


def read_body(environ: Environ) -> bytes:
    """Read the body from the connection. The body can be read again afterward."""
    chunked = environ.get("wsgi.input_terminated") and not environ.get("CONTENT_LENGTH")
    body: bytes = environ["wsgi.input"].read() if chunked else environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def request(environ: Environ) -> ReceivedRequest:
    """Return the request as an object that everything shares, so that the content is parsed once."""
    if "local_cloud.request" not in environ:
        environ["local_cloud.request"] = ReceivedRequest(environ)
    shared: ReceivedRequest = environ["local_cloud.request"]
    return shared


def parameters(environ: Environ, call: Call) -> tuple[OperationModel, dict[str, Any]] | None:
    """Return the operation of a request, and the parameters of the request by their names in botocore.

    Returns None for operations that botocore does not know, and for S3, whose requests are mostly data.
    """
    operation = None if call.service == "s3" else operation_model(call.service, call.action)
    if operation is None:
        return None
    model = operation.service_model
    read_body(environ)
    shared = request(environ)
    protocol = determine_request_protocol(model, shared.content_type)
    parser = PROTOCOL_PARSERS[protocol](operation, map_type=dict)
    parsed = parser.parse(
        {
            "method": shared.method,
            "values": shared.values,
            "headers": shared.headers,
            "body": shared.data,
            "url_path": shared.path,
            "url_params": _path_parameters(shared, call.service) if protocol.startswith("rest") else {},
        }
    )
    environ["wsgi.input"].seek(0)
    return operation, parsed


def operation_model(service: str, action: str) -> OperationModel | None:
    """Return botocore's model of an action, or None if botocore does not know the action."""
    try:
        return _model(service).operation_model(action)
    except (UnknownServiceError, OperationNotFoundError):
        return None


@cache
def _model(service: str) -> ServiceModel:
    return get_service_model(MODEL_NAMES.get(service, service))


def _path_parameters(request: Request, service: str) -> dict[str, Any]:
    _operation, found = get_service_router(MODEL_NAMES.get(service, service)).match(request)
    return dict(found)


def _action(environ: Environ, service: str) -> str:
    target: str | None = environ.get("HTTP_X_AMZ_TARGET")
    if target:
        return target.rpartition(".")[2]
    if is_too_large(environ) and not service.startswith("s3"):
        return f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
    if "urlencoded" in environ.get("CONTENT_TYPE", "") and not is_too_large(environ):
        action = ACTION.search(read_body(environ))
        if action:
            return action[1].decode()
    return _routed(environ, service)


def _routed(environ: Environ, service: str) -> str:
    try:
        operation, _parameters = get_service_router(MODEL_NAMES.get(service, service)).match(request(environ))
    except Exception:  # an unknown service, or an unknown path of the service
        return f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
    return str(operation.name)


def error(environ: Environ, service: str, code: str, message: str, status: int) -> tuple[str, list[tuple[str, str]], bytes]:
    """Return an error, encoded in the service's wire protocol: status line, headers, and body."""
    request_id = str(uuid4())
    kind = protocol(environ, service)
    sender = "Receiver" if status >= 500 else "Sender"
    if kind == "json":
        content, body = "application/x-amz-json-1.1", json.dumps({"__type": code, "message": message})
    else:
        content, body = "text/xml", _xml(kind, escape(code), escape(message), sender, request_id)
    encoded = body.encode()
    phrase = next((each.phrase for each in HTTPStatus if each.value == status), "Error")
    headers = [
        ("Content-Type", content),
        ("Content-Length", str(len(encoded))),
        ("x-amzn-RequestId", request_id),
        ("x-amzn-ErrorType", code),
    ]
    return f"{status} {phrase}", headers, encoded


def _xml(kind: str, code: str, message: str, sender: str, request_id: str) -> str:
    inner = f"<Code>{code}</Code><Message>{message}</Message>"
    if kind == "ec2":
        return f"<Response><Errors><Error>{inner}</Error></Errors><RequestID>{request_id}</RequestID></Response>"
    if kind == "rest-xml":
        return f"<Error>{inner}<RequestId>{request_id}</RequestId></Error>"
    return f"<ErrorResponse><Error><Type>{sender}</Type>{inner}</Error><RequestId>{request_id}</RequestId></ErrorResponse>"


def protocol(environ: Environ, service: str) -> str:
    """Return the protocol of a service's errors: ec2, query, json, or rest-xml."""
    if environ.get("HTTP_X_AMZ_TARGET") or "json" in environ.get("CONTENT_TYPE", ""):
        return "json"
    try:
        name = str(_model(service).metadata["protocol"])
    except Exception:  # botocore does not know the service
        return "query"
    return "json" if "json" in name else name
