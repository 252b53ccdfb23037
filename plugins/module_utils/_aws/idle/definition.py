# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""How AWS ends a cluster's idle nodes. Performs no I/O.

EventBridge Scheduler calls an AWS Lambda function every 5 minutes. If all nodes report on their consoles that they are idle, the function
deletes the nodes' Auto Scaling groups with all their instances, as the lease does at its end. The metrics of CloudWatch cannot replace the
reports: docs/cost.md says why. Sources: EventBridge Scheduler User Guide, "Using templated targets"; Amazon EC2 API Reference,
"GetConsoleOutput".
"""

from __future__ import annotations

import base64
import hashlib
import inspect
import io
import zipfile
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from ..instances import GROUP_TAG
from ..lease.definition import CORRECT, INTERVAL, RETRIED, duration, role_in
from ..node_names import NODE_TYPES, group_name
from ..plan.resources import Address, Wanted
from ..regions import partition_of
from . import function, messages

IDLE = Address("idle_end", "main")
# Nodes report every 10 minutes, and the function looks every 5 minutes.
LEAST, MOST = "15m", "1d"
SCHEDULE = "check"
TERMINATE = "terminate"
# The environment variable with the ID that the role had when the function was created. The environment is encrypted for that role: a role
# of the same name that is created later cannot decrypt it, even if the function's configuration is updated.
ROLE_ID = "ROLE_ID"
# The tags that the function sets or removes itself.
OWN_TAGS = ["deeplearning:idle-*", f"{function.HOLD}*"]


def parse(text: str, least: str = LEAST, most: str = MOST) -> timedelta:
    """Return the time that a text such as `30m` or `1h30m` describes. Raises ValueError if it is not from `least` to `most`."""
    after = _duration(text)
    if not _duration(least) <= after <= _duration(most):
        raise ValueError(f"{text!r} is not from {least} to {most}. Choose another duration")
    return after


def _duration(text: str) -> timedelta:
    found = duration(text)
    if found is None:
        raise ValueError(f"{text!r} is not a duration such as 30m or 1h30m. {CORRECT}")
    return found


def name_of(cluster: str) -> str:
    return f"{cluster}-nodes-idle"


def role_name(cluster: str, region: str) -> str:
    """Return the name of the role. It begins like the name of the nodes' role, for which operators have permissions."""
    return f"{name_of(cluster)}-{region}"


def wanted(
    after: timedelta,
    then: str,
    cluster: str,
    region: str,
    tags: Callable[[Address], dict[str, str]],
    *,
    topic: str | None,
    permissions_boundary: str | None,
    since: str,
) -> Wanted:
    """Return the role, the function and the schedule. `since` is the time since which AWS has found the nodes idle, if any."""
    environment = {
        "CLUSTER": cluster,
        "GROUPS": ",".join(group_name(cluster, group) for group in NODE_TYPES),
        "IDLE_SECONDS": f"{after.total_seconds():.0f}",
        "THEN": then,
        **({"TOPIC": topic} if topic else {}),
    }
    return Wanted(
        IDLE,
        {
            "name": role_name(cluster, region),
            "trust": trust_policy(cluster, region),
            "permissions_boundary": permissions_boundary,
            "policy": policy(cluster, region, then, topic),
            "tags": tags(IDLE),
            "function": {
                "code": code_digest(),
                "runtime": "python3.13",
                "handler": "idle.function.handler",
                "timeout": 300,
                "memory": 512,
                "role": role_name(cluster, region),
                "environment": environment,
            },
            "schedule": schedule_settings(cluster, region),
            "since": since,
        },
    )


def schedule_settings(cluster: str, region: str) -> dict[str, Any]:
    return {
        "state": "ENABLED",
        "expression": f"rate({INTERVAL // timedelta(minutes=1)} minutes)",
        "window": {"Mode": "OFF"},
        "retry": {"MaximumEventAgeInSeconds": round(RETRIED.total_seconds()), "MaximumRetryAttempts": 3},
        "target": name_of(cluster),
        "role": role_name(cluster, region),
        "more": [],
    }


def found_schedule(schedule: Mapping[str, Any] | None, function_arn: str | None) -> dict[str, Any] | None:
    """Return the settings of an existing schedule. `function_arn` is that of the existing function. `more` names what should not be set."""
    if schedule is None:
        return None
    target = schedule["Target"]
    return {
        "state": schedule["State"],
        "expression": schedule["ScheduleExpression"],
        "window": schedule["FlexibleTimeWindow"],
        "retry": target.get("RetryPolicy"),
        "target": target["Arn"].rpartition(":")[2] if target["Arn"] == function_arn else target["Arn"],
        "role": role_in(target["RoleArn"]),
        "more": sorted((schedule.keys() & {"StartDate", "EndDate", "KmsKeyArn"}) | (target.keys() - {"Arn", "RetryPolicy", "RoleArn"})),
    }


def schedule(cluster: str, settings: Mapping[str, Any], function_arn: str, role_arn: str) -> dict[str, Any]:
    """Return the schedule for the API. AWS replaces the whole schedule, so each request contains everything."""
    return {
        "GroupName": name_of(cluster),
        "Name": SCHEDULE,
        "Description": f"Looks whether the nodes of the training cluster {cluster} are idle",
        "ScheduleExpression": settings["expression"],
        "State": settings["state"],
        "FlexibleTimeWindow": settings["window"],
        "Target": {"Arn": function_arn, "RoleArn": role_arn, "RetryPolicy": settings["retry"]},
    }


def found_function(configuration: Mapping[str, Any], role_id: str | None) -> dict[str, Any]:
    """Return the settings of an existing function. `role_id` is the ID that its role has now."""
    variables, role = dict(configuration.get("Environment", {}).get("Variables", {})), role_in(configuration["Role"])
    return {
        "code": configuration["CodeSha256"],
        "runtime": configuration.get("Runtime"),
        "handler": configuration.get("Handler"),
        "timeout": configuration["Timeout"],
        "memory": configuration["MemorySize"],
        "role": role if variables.pop(ROLE_ID, None) == role_id else f"a former {role}",
        "environment": variables,
    }


def code() -> bytes:
    """Return the function's code as a ZIP file. The same code always gives the same bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        # A package, in which relative imports work as they do here
        for name, source in (("__init__", ""), *((each.__name__.split(".")[-1], inspect.getsource(each)) for each in (function, messages))):
            entry = zipfile.ZipInfo(f"idle/{name}.py")  # from 1980, so that the digest depends only on the code
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, source)
    return file.getvalue()


def code_digest() -> str:
    return base64.b64encode(hashlib.sha256(code()).digest()).decode()


def trust_policy(cluster: str, region: str) -> dict[str, Any]:
    """Return the trust policy, which lets only functions and the cluster's schedule use the role."""
    source = partition_of(region).arn("scheduler", f"schedule-group/{name_of(cluster)}", region, "*")
    allowed = {"Effect": "Allow", "Action": "sts:AssumeRole"}
    return {
        "Version": "2012-10-17",
        "Statement": [
            {**allowed, "Principal": {"Service": "lambda.amazonaws.com"}},
            {**allowed, "Principal": {"Service": "scheduler.amazonaws.com"}, "Condition": {"ArnLike": {"aws:SourceArn": source}}},
        ],
    }


def policy(cluster: str, region: str, then: str, topic: str | None) -> dict[str, Any]:
    """Return the policy, which allows only to read what nodes report, to delete the cluster's own groups and to send to the topic."""
    partition = partition_of(region)
    own = partition.arn("lambda", f"function:{name_of(cluster)}", region, "*")
    names = [group_name(cluster, group) for group in NODE_TYPES]
    # By a tag that only AWS sets and removes: whoever removes another one must not keep all nodes
    consoles = {"StringEquals": {f"aws:ResourceTag/{GROUP_TAG}": names}}
    # A request without keys would fulfil the second condition
    own_tags = {"Null": {"aws:TagKeys": "false"}, "ForAllValues:StringLike": {"aws:TagKeys": OWN_TAGS}}
    statements: list[dict[str, Any]] = [
        {"Sid": "FindNodes", "Action": "ec2:DescribeInstances", "Resource": "*"},
        {"Sid": "ReadConsoles", "Action": "ec2:GetConsoleOutput", "Resource": "*", "Condition": consoles},
        {"Sid": "OwnFunction", "Action": ["lambda:InvokeFunction", "lambda:ListTags"], "Resource": own},
        {"Sid": "OwnTags", "Action": ["lambda:TagResource", "lambda:UntagResource"], "Resource": own, "Condition": own_tags},
    ]
    if then == TERMINATE:
        ends = [partition.arn("autoscaling", f"autoScalingGroup:*:autoScalingGroupName/{name}", region, "*") for name in names]
        statements.append({"Sid": "EndNodes", "Action": "autoscaling:DeleteAutoScalingGroup", "Resource": ends})
    if topic:
        statements.append({"Sid": "Notify", "Action": "sns:Publish", "Resource": topic})
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **each} for each in statements]}
