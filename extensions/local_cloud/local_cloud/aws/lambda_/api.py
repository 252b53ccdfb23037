"""The API of functions."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

from moto.awslambda.responses import LambdaResponse

from ..context import CLOUD, WITHOUT_TAGS
from ..override import override
from . import invocations
from .errors import LambdaError, conflict, invalid, unavailable
from .functions import SETTINGS, Function, find, functions, parse_name, unpacked

Answer = tuple[int, dict[str, Any], str]
CREATION = {*SETTINGS, "Architectures", "Code", "FunctionName", "PackageType", "Publish", "Tags"}
CODE = {"Architectures", "DryRun", "Publish", "RevisionId", "ZipFile"}
CONFIGURATION = {*SETTINGS, "RevisionId"}
# Functions per page, the largest payloads in bytes, and the end of the log that a response contains.
PAGE = 50
PAYLOADS = {"Event": 1 << 20, "RequestResponse": 6_291_556, "DryRun": 6_291_556}
LOG_TAIL = 4096


@override(LambdaResponse)
def create_function(self: LambdaResponse) -> Answer:
    request = _request(self, CREATION)
    if set(request["Code"]) != {"ZipFile"} or request.get("PackageType", "Zip") != "Zip":
        raise unavailable("code other than Code.ZipFile")
    name = parse_name(request["FunctionName"])[1]
    if name in functions(self.backend):
        raise conflict(f"Function already exist: {name}")
    function = Function(self.backend, request, unpacked(request["Code"]["ZipFile"]))
    functions(self.backend)[name] = function
    return _answer(function.describe(), 201)


@override(LambdaResponse)
def get_function(self: LambdaResponse) -> Answer:
    function = _function(self)
    location = f"https://awslambda-{self.region}-tasks.s3.{self.region}.amazonaws.com/snapshots/{function.revision}"
    found = {"Configuration": function.describe(), "Code": {"RepositoryType": "S3", "Location": location}}
    if function.concurrency is not None:
        found["Concurrency"] = {"ReservedConcurrentExecutions": function.concurrency}
    if WITHOUT_TAGS.get():
        denied = "is not authorized to perform: lambda:ListTags because no identity-based policy allows the lambda:ListTags action"
        return _answer(found | {"TagsError": {"ErrorCode": "AccessDeniedException", "Message": f"The caller {denied}"}})
    return _answer(found | ({"Tags": function.tags} if function.tags else {}))


@override(LambdaResponse)
def get_function_configuration(self: LambdaResponse) -> Answer:
    return _answer(_function(self).describe())


@override(LambdaResponse)
def list_functions(self: LambdaResponse) -> Answer:
    """Return a page of functions. The marker is the name of the last function on the previous page."""
    marker, size = self._get_param("Marker") or "", int(self._get_param("MaxItems") or PAGE)
    names = sorted(name for name in functions(self.backend) if name > marker)
    page = names[: min(size, PAGE)]
    more = {"NextMarker": page[-1]} if len(page) < len(names) else {}
    return _answer({"Functions": [functions(self.backend)[name].describe() for name in page], **more})


@override(LambdaResponse)
def update_function_code(self: LambdaResponse) -> Answer:
    function, request = _function(self), _request(self, CODE)
    function.check_revision(request.get("RevisionId"))
    if "ZipFile" not in request or request.get("DryRun"):
        raise unavailable("updates without ZipFile, and DryRun")
    function.update({"Architectures": request.get("Architectures")}, unpacked(request["ZipFile"]))
    return _answer(function.describe())


@override(LambdaResponse)
def update_function_configuration(self: LambdaResponse) -> Answer:
    function, request = _function(self), _request(self, CONFIGURATION)
    function.check_revision(request.get("RevisionId"))
    function.update(request)
    return _answer(function.describe())


@override(LambdaResponse)
def delete_function(self: LambdaResponse) -> Answer:
    del functions(self.backend)[_function(self).name]
    return 204, {"status": 204}, ""


@override(LambdaResponse)
def put_function_concurrency(self: LambdaResponse) -> Answer:
    request = _request(self, {"ReservedConcurrentExecutions"})
    _function(self).concurrency = request["ReservedConcurrentExecutions"]
    return _answer(request)


@override(LambdaResponse)
def delete_function_concurrency(self: LambdaResponse) -> Answer:
    _function(self).concurrency = None
    return 204, {"status": 204}, ""


@override(LambdaResponse)
def list_tags(self: LambdaResponse) -> Answer:
    return _answer({"Tags": _tagged(self).tags})


@override(LambdaResponse)
def tag_resource(self: LambdaResponse) -> Answer:
    _tagged(self).add_tags(_request(self, {"Tags"})["Tags"])
    return 204, {"status": 204}, ""


@override(LambdaResponse)
def untag_resource(self: LambdaResponse) -> Answer:
    function = _tagged(self)
    for key in self.querystring.get("tagKeys", []):
        function.tags.pop(key, None)
    return 204, {"status": 204}, ""


@override(LambdaResponse)
def invoke(self: LambdaResponse) -> Answer:
    """Invoke the function. This method runs without the local cloud's lock, because functions make API calls."""
    with CLOUD.lock:
        function, kind = _function(self), self.headers.get("X-Amz-Invocation-Type") or "RequestResponse"
        event = _event(self.body or "", kind)
        if function.version is None:
            raise function.not_active()
        if kind == "DryRun":
            return 204, {"status": 204}, ""
        if kind == "Event":
            invocations.Event(function, event).attempt()
            return 202, {"status": 202}, ""
    result = invocations.invoke(function, event, str(uuid4()))
    headers = {"Content-Type": "application/json", "X-Amz-Executed-Version": "$LATEST"}
    if result.failed:
        headers["X-Amz-Function-Error"] = "Unhandled"
    if self.headers.get("X-Amz-Log-Type") == "Tail":
        headers["X-Amz-Log-Result"] = base64.b64encode(result.log.encode()[-LOG_TAIL:]).decode()
    return 200, headers, json.dumps(result.value)


def _event(body: str | bytes, kind: str) -> Any:
    text = body if isinstance(body, str) else body.decode(errors="replace")
    size, most = len(text.encode()), PAYLOADS[kind]
    if size > most:
        message = f"{size} byte payload is too large for the {kind} invocation type (limit {most} bytes)"
        raise LambdaError("RequestTooLargeException", message, 413)
    try:
        return json.loads(text or "{}")
    except ValueError as error:
        raise LambdaError("InvalidRequestContentException", f"Could not parse request body into json: {error}", 400) from None


def _answer(content: dict[str, Any], status: int = 200) -> Answer:
    return status, {"status": status, "Content-Type": "application/json"}, json.dumps(content)


def _request(response: LambdaResponse, implemented: set[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(response.body or "{}")
    others = sorted(name for name in found if name not in implemented)
    if others or found.get("Publish"):
        raise unavailable(f"the parameter {(others or ['Publish'])[0]}")
    return found


def _function(response: LambdaResponse) -> Function:
    name = unquote(response.uri.partition("?")[0]).partition("/functions/")[2].partition("/")[0]
    return find(response.backend, name, response._get_param("Qualifier"))


def _tagged(response: LambdaResponse) -> Function:
    arn = unquote(response.uri.partition("?")[0]).partition("/tags/")[2]
    if not arn.startswith("arn:"):
        raise invalid(f"{arn} is not the ARN of a function.")
    return find(response.backend, arn)


def _not_implemented(action: str) -> Callable[[LambdaResponse], Answer]:
    def call(self: LambdaResponse) -> Answer:
        raise unavailable(action)

    call.__name__ = action
    return call


for _action in (
    *("add_permission", "create_alias", "create_event_source_mapping", "create_function_url_config", "invoke_async"),
    *("list_versions_by_function", "publish_layer_version", "publish_version", "get_function_concurrency"),
    "put_function_event_invoke_config",
):
    override(LambdaResponse)(_not_implemented(_action))
