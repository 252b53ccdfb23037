# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads, creates, changes and deletes what ends a cluster's idle nodes: a role, a function and the schedule that calls it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..client import AwsClient, ClientError, ClusterError, WaitTimeout, if_exists, tag_list
from ..error_codes import error_code
from ..instance_role.own_role import ADVICE, OwnRole, refuse_foreign
from ..plan.errors import half_deleted
from ..plan.planning import Kind
from ..plan.resources import Address, Found, Properties
from ..schedules.schedules import delete_group, ensure_group, get_schedule, put_schedule
from . import definition, holds
from .definition import IDLE, SCHEDULE, name_of, role_name
from .function import FAILURE, IDLE_SINCE, NO_NODES, VERDICT, WARNED, Verdict, failure_in, verdict_in

# Seconds until AWS Lambda can use a new role, and until a new or changed function is ready.
ROLE_TIMEOUT, READY_TIMEOUT = 120, 120
# What AWS Lambda says as long as it, or its encryption of environment variables, does not know a new role.
NEW_ROLE = ("cannot be assumed by Lambda", "KMS key is invalid for CreateGrant")
ROLE = OwnRole(IDLE, "idle", "Ends idle nodes of the training cluster")


def read(cloud: AwsClient) -> Iterator[Found]:
    """Yield the role with its function and schedule if it exists. The role is created first and deleted last."""
    for role in ROLE.read(cloud, role_name(cloud.cluster, cloud.region)):
        yield _complete(cloud, role)


def read_without_role(cloud: AwsClient) -> Iterator[Found]:
    """Yield the function and the schedule if at least one of them exists although the role has been deleted."""
    name = role_name(cloud.cluster, cloud.region)
    found = _complete(cloud, ROLE.deleted(name, definition.trust_policy(cloud.cluster, cloud.region)))
    if found.properties["function"] or (found.properties["schedule"] or {}).get("role") == name:
        yield found


def _complete(cloud: AwsClient, role: Found) -> Found:
    found = read_function(cloud)
    tags = found.get("Tags", {}) if found else {}
    schedule = get_schedule(cloud, name_of(cloud.cluster), SCHEDULE)
    if found:
        refuse_foreign(cloud, f"function {name_of(cloud.cluster)}", tag_list(tags))
    properties = {
        **role.properties,
        "function": found and definition.found_function(found["Configuration"], role.attributes.get("id")),
        "schedule": definition.found_schedule(schedule, found["Configuration"]["FunctionArn"] if found else None),
        "since": tags.get(IDLE_SINCE, ""),
    }
    attributes = {
        **role.attributes,
        "holds": holds.held(tags, cloud.now),
        "verdict": verdict_in(tags, cloud.now),
        "warned": tags.get(WARNED, ""),
        "failure": failure_in(tags),
        "concurrency": (found or {}).get("Concurrency", {}).get("ReservedConcurrentExecutions"),
    }
    return replace(role, properties=properties, attributes=attributes)


def read_function(cloud: AwsClient) -> dict[str, Any] | None:
    found: dict[str, Any] | None = if_exists(cloud.client("lambda").get_function, FunctionName=name_of(cloud.cluster))
    if found and "TagsError" in found:
        raise ClusterError(
            f"The tags of function {name_of(cloud.cluster)} cannot be read ({found['TagsError'].get('ErrorCode')}). Allow lambda:ListTags, "
            "which the policies from docs/permissions.md contain."
        )
    return found


def is_complete(found: Found) -> bool:
    """Return whether AWS can end idle nodes: the role has permissions, the function has this role, and its schedule is on."""
    properties = found.properties
    calls = (properties["schedule"] or {}).get("state") == "ENABLED"
    return bool(calls and properties["policy"] and (properties["function"] or {}).get("role") == found.id and "arn" in found.attributes)


def _create(cloud: AwsClient, address: Address, properties: Properties) -> Found:
    role = ROLE.create(cloud, address, properties)
    _put(cloud, role, properties)
    return role


def _update(cloud: AwsClient, found: Found, properties: Properties, changed: frozenset[str]) -> Found:
    role = ROLE.ensure(cloud, found, properties, changed)
    attributes = {**found.attributes, **role.attributes}
    if role is not found or changed & {"function", "policy", "schedule", "since"}:
        _put(cloud, role, properties)
        attributes |= {"failure": None, "verdict": None}  # the last ones do not tell about the function as it is now
    return replace(found, properties={**found.properties, **properties}, attributes=attributes)


def _put(cloud: AwsClient, role: Found, properties: Properties) -> None:
    arn = _put_function(cloud, role, properties)
    # The messages may have got another topic
    former = [FAILURE] if properties["since"] else [FAILURE, IDLE_SINCE, WARNED]
    cloud.client("lambda").untag_resource(Resource=arn, TagKeys=former)
    # If the function never works, this verdict becomes old
    cloud.client("lambda").tag_resource(Resource=arn, Tags={VERDICT: str(Verdict(NO_NODES, cloud.now, cloud.now))})
    ensure_group(cloud, name_of(cloud.cluster), properties["tags"])
    put_schedule(cloud, "schedule", definition.schedule(cloud.cluster, properties["schedule"], arn, role.attributes["arn"]))


def _put_function(cloud: AwsClient, role: Found, properties: Properties) -> str:
    """Create or change the function, and return its ARN when it is ready. Create it anew if it belongs to a former role."""
    wanted, found, tags = properties["function"], read_function(cloud), properties["tags"]
    existing = found and definition.found_function(found["Configuration"], role.attributes["id"])
    code, settings = definition.code(), function_settings(cloud.cluster, wanted, role)
    name = name_of(cloud.cluster)
    if existing and existing["role"] != wanted["role"]:
        existing, tags = None, {**_delete_function_of_former_role(cloud, role), **tags}
    if existing is None:
        _once_ready(cloud, cloud.client("lambda").create_function, **settings, Code={"ZipFile": code}, Tags=tags)
    else:
        if existing["code"] != wanted["code"]:
            _once_ready(cloud, cloud.client("lambda").update_function_code, FunctionName=name, ZipFile=code)
        if {**existing, "code": ""} != {**wanted, "code": ""}:
            _once_ready(cloud, cloud.client("lambda").update_function_configuration, **settings)
    return str(cloud.wait_until(f"function {name}", lambda: _ready(cloud), READY_TIMEOUT, pause=0.5))


def _delete_function_of_former_role(cloud: AwsClient, role: Found) -> dict[str, str]:
    """Delete the function when AWS Lambda knows the new role, so that the new function follows at once. Return its tags."""
    name, client = name_of(cloud.cluster), cloud.client("lambda")
    _once_ready(cloud, client.update_function_configuration, FunctionName=name, Role=role.attributes["arn"])
    tags = (read_function(cloud) or {}).get("Tags", {})
    _delete_function(cloud)
    cloud.wait_until(f"the deletion of function {name}", lambda: read_function(cloud) is None, READY_TIMEOUT)
    return {key: value for key, value in tags.items() if not key.startswith("aws:")}


def function_settings(cluster: str, wanted: Properties, role: Found) -> dict[str, Any]:
    return {
        "FunctionName": name_of(cluster),
        "Description": f"Ends idle nodes of the training cluster {cluster}",
        "Runtime": wanted["runtime"],
        "Handler": wanted["handler"],
        "Timeout": wanted["timeout"],
        "MemorySize": wanted["memory"],
        "Role": role.attributes["arn"],
        "Environment": {"Variables": {**wanted["environment"], definition.ROLE_ID: role.attributes["id"]}},
    }


def _ready(cloud: AwsClient) -> str | None:
    found = read_function(cloud)
    if found is None:
        return None
    state, last = found["Configuration"].get("State", "Active"), found["Configuration"].get("LastUpdateStatus", "Successful")
    return str(found["Configuration"]["FunctionArn"]) if (state, last) == ("Active", "Successful") else None


def _once_ready(cloud: AwsClient, call: Any, **arguments: Any) -> None:
    """Create or change the function. Retry while Lambda cannot use a new role, or still applies an earlier change."""

    def accepted() -> bool:
        try:
            call(**arguments)
        except ClientError as error:
            refusals.append(error)
            if error_code(error) == "ResourceConflictException" and read_function(cloud) is not None and "Code" in arguments:
                return True  # created by an attempt whose response was lost
            if error_code(error) == "ResourceConflictException" or any(text in str(error) for text in NEW_ROLE):
                return False
            raise
        return True

    refusals: list[ClientError] = []
    try:
        cloud.wait_until("AWS Lambda to accept the function", accepted, ROLE_TIMEOUT, pause=1)
    except WaitTimeout as error:
        raise (refusals[-1] if refusals else error) from error


def _delete(cloud: AwsClient, found: Found) -> None:
    # Of all calls, those for roles are denied most often. If the first one is, AWS still ends idle nodes
    ROLE.delete_policies(cloud, found)
    with half_deleted():
        delete_group(cloud, name_of(cloud.cluster), [SCHEDULE])
        _delete_function(cloud)
        ROLE.delete(cloud, found)


def _delete_function(cloud: AwsClient) -> None:
    cloud.once_unused(cloud.client("lambda").delete_function, "ResourceConflictException", FunctionName=name_of(cloud.cluster))


KIND = Kind(
    IDLE.kind,
    _create,
    _delete,
    update=_update,
    updatable=frozenset({"function", "permissions_boundary", "policy", "schedule", "since", "tags"}),
    deleted_after=("auto_scaling_group",),
    deleted_first=True,
    advice=ADVICE,
)
