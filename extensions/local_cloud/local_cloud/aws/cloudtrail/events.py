"""Records management events, and describes them as CloudTrail does.

Source: AWS CloudTrail User Guide, "CloudTrail record contents for management, data, and network activity events", "CloudTrail userIdentity
element" and "Viewing event history", and the examples of events in the guides of EC2, Auto Scaling, EFS and FSx.
"""

from __future__ import annotations

import json
import pickle
import re
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from botocore.model import ListShape, Shape, StructureShape
from botocore.parsers import create_parser
from moto.cloudtrail.models import cloudtrail_backends

from ..context import ACCOUNT, CLOUD
from ..requests import calls

if TYPE_CHECKING:
    from ..access.identities import Identity

KEPT = 100_000  # per account and region. AWS keeps all events of 90 days
DAYS_90 = 90 * 24 * 3600
MOST_BYTES = 100 * 1024  # of the parameters and of the response. CloudTrail omits what is longer
ACCESS_KEY = re.compile(r"Credential=([^/]+)/")
# Data events and calls that CloudTrail does not record. Calls to S3 are mostly data events.
WITHOUT_EVENTS = ("s3", "ssmmessages")
# The EC2 resources that the event history finds by their IDs. CloudTrail User Guide, "Resource types supported by CloudTrail".
EC2_RESOURCES = {
    "ami": "Ami",
    "eipalloc": "EIP",
    "eni": "NetworkInterface",
    "i": "Instance",
    "igw": "InternetGateway",
    "rtb": "RouteTable",
    "sg": "SecurityGroup",
    "subnet": "Subnet",
    "vol": "Volume",
    "vpc": "VPC",
}
EC2_ID = re.compile(rf"({'|'.join(EC2_RESOURCES)})-[0-9a-f]{{8,17}}")
# Members whose values CloudTrail does not record.
SENSITIVE = ("userdata", "secretaccesskey", "sessiontoken", "zipfile")
SENSITIVE_OF_SERVICE = (("ssm", "Value"), ("lambda", "Environment"))
HIDDEN = "HIDDEN_DUE_TO_SECURITY_REASONS"
# Actions whose parameters EC2 records as they are in the request, within an element named after the request.
WRAPPED = re.compile(r"(?:Create|Delete|Modify)(?:CapacityReservation|Fleet|LaunchTemplate\w*|NatGateway|VpcEndpoints?)")


class Entry(NamedTuple):
    """An event, as it was recorded. `request` and `response` are in CloudTrail's form if AWS itself has made the call."""

    id: str
    time: float
    recorded_at: float
    service: str
    region: str
    action: str
    identity: dict[str, Any]
    username: str
    access_key: str
    request: Any
    response: Any
    error: tuple[str, str] | None = None
    kind: str = "AwsApiCall"

    @property
    def source(self) -> str:
        return f"{self.service}.amazonaws.com"

    @property
    def read_only(self) -> bool:
        return calls.Call(self.service, self.region, self.action).read_only


def _entries(account: str, region: str) -> deque[bytes]:
    """Return the recorded events, oldest first. They are pickles, because each snapshot of the account contains all of them."""
    state = cloudtrail_backends[account][region].__dict__
    kept: deque[bytes] = state.setdefault("events", deque(maxlen=KEPT))
    return kept


def visible(account: str, region: str) -> Iterator[Entry]:
    """Yield the events of 90 days, newest first, without those that CloudTrail has not delivered yet."""
    now = CLOUD.clock.now()
    for pickled in reversed(_entries(account, region)):
        entry: Entry = pickle.loads(pickled)
        if CLOUD.delays.trail <= now - entry.recorded_at <= DAYS_90:
            yield entry


def record(environ: calls.Environ, call: calls.Call, identity: Identity, parameters: Any, status: str, body: bytes) -> None:
    """Record a call of a user. IAM and other global services have their events in us-east-1."""
    if call.service in WITHOUT_EVENTS or (call.service, call.action) == ("lambda", "Invoke") or not call.region:
        return
    account = identity.arn.split(":")[4]
    found = ACCESS_KEY.search(environ.get("HTTP_AUTHORIZATION", ""))
    key = found[1] if found else ""
    error = None if status.startswith("2") else _error(body)
    response = body if not call.read_only and not error else None
    described, username = _of_caller(identity, account, key)
    with CLOUD.lock:
        entry = Entry(
            str(uuid4()),
            CLOUD.now(),
            CLOUD.clock.now(),
            call.service,
            call.region,
            call.action,
            described,
            username,
            key,
            _without_secrets(parameters, call.service),
            response,
            error,
        )
        _entries(account, call.region).append(pickle.dumps(entry))


def record_of_auto_scaling(region: str, action: str, request: dict[str, Any], response: dict[str, Any]) -> None:
    """Record a call that Auto Scaling makes with its service-linked role."""
    role = "AWSServiceRoleForAutoScaling"
    issuer = {
        "type": "Role",
        "principalId": "AROAAUTOSCALING00000A",
        "arn": f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/autoscaling.amazonaws.com/{role}",
        "accountId": ACCOUNT,
        "userName": role,
    }
    identity = {
        "type": "AssumedRole",
        "principalId": f"{issuer['principalId']}:AutoScaling",
        "arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/{role}/AutoScaling",
        "accountId": ACCOUNT,
        "sessionContext": {"sessionIssuer": issuer},
        "invokedBy": "autoscaling.amazonaws.com",
    }
    _record_of_service(region, action, identity, "AutoScaling", request, response)


def record_interruption(region: str, instance: str) -> None:
    """Record that EC2 has interrupted a Spot Instance."""
    identity = {"accountId": ACCOUNT, "invokedBy": "ec2.amazonaws.com"}
    _record_of_service(region, "BidEvictedEvent", identity, "", None, {"instanceIdSet": [instance]}, "AwsServiceEvent")


def _record_of_service(
    region: str, action: str, identity: dict[str, Any], username: str, request: Any, response: Any, kind: str = "AwsApiCall"
) -> None:
    entry = Entry(
        str(uuid4()), CLOUD.now(), CLOUD.clock.now(), "ec2", region, action, identity, username, "", request, response, None, kind
    )
    _entries(ACCOUNT, region).append(pickle.dumps(entry))


def _without_secrets(value: Any, service: str = "") -> Any:
    """Return parameters or a response without values that must stay secret."""
    if isinstance(value, dict):
        secret = {name for name in value if name.lower() in SENSITIVE or (service, name) in SENSITIVE_OF_SERVICE}
        return {name: HIDDEN if name in secret else _without_secrets(each) for name, each in value.items()}
    return [_without_secrets(each) for each in value] if isinstance(value, list) else value


def _error(body: bytes) -> tuple[str, str]:
    text = body.decode(errors="replace")
    code = re.search(r'"__type": ?"([^"]+)"|<Code>([^<]+)</Code>', text)
    message = re.search(r'"[mM]essage": ?"((?:[^"\\]|\\.)*)"|<Message>([^<]*)</Message>', text)
    return tuple(next(filter(None, found.groups()), "") if found else "" for found in (code, message))  # type: ignore[return-value]


def _of_caller(identity: Identity, account: str, key: str) -> tuple[dict[str, Any], str]:
    common = {"principalId": identity.user_id or account, "arn": identity.arn, "accountId": account, "accessKeyId": key}
    if identity.user:
        return {"type": "IAMUser", **common, "userName": identity.user}, identity.user
    if not identity.role:
        return {"type": "Root", **common}, "root"
    issuer = {
        "type": "Role",
        "principalId": identity.user_id.partition(":")[0],
        "arn": identity.role_arn,
        "accountId": account,
        "userName": identity.role,
    }
    return {"type": "AssumedRole", **common, "sessionContext": {"sessionIssuer": issuer}}, identity.arn.rpartition("/")[2]


def describe(entry: Entry) -> dict[str, Any]:
    """Return an event as LookupEvents does."""
    request, response = _elements(entry)
    record: dict[str, Any] = {
        "eventVersion": "1.11",
        "userIdentity": entry.identity,
        "eventTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(entry.time)),
        "eventSource": entry.source,
        "eventName": entry.action,
        "awsRegion": entry.region,
        "sourceIPAddress": entry.identity.get("invokedBy", "127.0.0.1"),
        "userAgent": entry.identity.get("invokedBy", "local-cloud"),
        "requestParameters": request,
        "responseElements": None if entry.kind == "AwsServiceEvent" else response,
        "eventID": entry.id,
        "readOnly": entry.read_only,
        "eventType": entry.kind,
        "managementEvent": True,
        "recipientAccountId": entry.identity["accountId"],
        "eventCategory": "Management",
    }
    for name in ("requestParameters", "responseElements"):
        size = len(json.dumps(record[name], default=str))
        if size > MOST_BYTES:
            record[name] = {"omitted": True, "originalSize": size, "reason": f"{name} too large"}
    if entry.kind == "AwsServiceEvent":
        record["serviceEventDetails"] = response
    if entry.error:
        record["errorCode"], record["errorMessage"] = entry.error
        if entry.service == "ec2":
            record["errorCode"] = f"Client.{entry.error[0]}"
    found: dict[str, Any] = {
        "EventId": entry.id,
        "EventName": entry.action,
        "ReadOnly": "true" if entry.read_only else "false",
        "EventTime": int(entry.time),
        "EventSource": entry.source,
        "Resources": [{"ResourceType": kind, "ResourceName": name} for kind, name in resources(entry, request, response)],
        "CloudTrailEvent": json.dumps(record, default=str),
    }
    found |= {"Username": entry.username} if entry.username else {}
    return found | ({"AccessKeyId": entry.access_key} if entry.access_key else {})


def resources(entry: Entry, *elements: Any) -> list[tuple[str, str]]:
    """Return the types and names of the resources by which the event history finds an event."""
    texts = list(_texts([*(elements or _elements(entry))]))
    if entry.service == "ec2":
        found = dict.fromkeys(match for _name, text in texts if (match := EC2_ID.fullmatch(text)))
        return list(dict.fromkeys((f"AWS::EC2::{EC2_RESOURCES[match[1]]}", match[0]) for match in found))
    if entry.service == "autoscaling":
        kinds = {"autoScalingGroupName": "AWS::AutoScaling::AutoScalingGroup", "instanceId": "AWS::EC2::Instance"}
        return list(dict.fromkeys((kinds[name], text) for name, text in texts if name in kinds))
    if entry.service == "iam":
        kinds = {"roleName": "AWS::IAM::Role", "instanceProfileName": "AWS::IAM::InstanceProfile", "userName": "AWS::IAM::User"}
        return list(dict.fromkeys((kinds[name], text) for name, text in texts if name in kinds))
    return []


def _texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield all texts in an element, each with the name of its member."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _texts(each, key)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each, name)
    elif isinstance(value, str):
        yield name, value


def _elements(entry: Entry) -> tuple[Any, Any]:
    """Return the request parameters and the response elements."""
    if not isinstance(entry.response, bytes):
        return (entry.request if "invokedBy" in entry.identity else _request(entry)), entry.response
    model = calls.operation_model(entry.service, entry.action)
    if model is None or not isinstance(model.output_shape, Shape):
        return _request(entry), None
    protocol = model.service_model.resolved_protocol
    parsed = create_parser(protocol).parse({"status_code": 200, "headers": {}, "body": entry.response}, model.output_shape)
    parsed.pop("ResponseMetadata", None)
    response = _named(model.output_shape, _without_secrets(parsed, entry.service), entry.service == "ec2")
    if entry.service == "ec2" and WRAPPED.fullmatch(entry.action):
        response = {f"{entry.action}Response": response}
    return _request(entry), response or None


def _request(entry: Entry) -> Any:
    if not entry.request:
        return None
    if entry.service != "ec2":
        return _lowered(entry.request)
    if WRAPPED.fullmatch(entry.action):
        return {f"{entry.action}Request": entry.request}
    return {key: value for name, given in entry.request.items() for key, value in (_ec2_parameter(name, given),)}


def _ec2_parameter(name: str, value: Any) -> tuple[str, Any]:
    """Return a parameter in the form that most EC2 actions have, in which lists are sets of items."""
    lower = name[0].lower() + name[1:]
    if name == "InstanceIds":
        return "instancesSet", {"items": [{"instanceId": each} for each in value]}
    if name == "TagSpecifications":
        return "tagSpecificationSet", {"items": _lowered(value)}
    return (f"{lower}Set", {"items": _lowered(value)}) if isinstance(value, list) else (lower, _lowered(value))


def _lowered(value: Any) -> Any:
    """Return a value with names that begin with lower case letters."""
    if isinstance(value, dict):
        return {name[0].lower() + name[1:]: _lowered(each) for name, each in value.items()}
    return [_lowered(each) for each in value] if isinstance(value, list) else value


def _named(shape: Any, value: Any, sets: bool) -> Any:
    """Return a response with the names that members have on the wire, and with lists as EC2 records them if `sets` is true."""
    if isinstance(shape, StructureShape) and isinstance(value, dict):
        result = {}
        for name, each in value.items():
            member = shape.members[name]
            wire = member.serialization.get("name", name) if sets else name
            result[wire[0].lower() + wire[1:]] = _named(member, each, sets)
        return result
    if isinstance(shape, ListShape):
        found = [_named(shape.member, each, sets) for each in value]
        return {"items": found} if sets else found
    return value if isinstance(value, (str, int, float, bool, dict, type(None))) else str(value)
