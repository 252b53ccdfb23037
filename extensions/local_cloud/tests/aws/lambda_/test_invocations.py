"""Functions run with the permissions of their role, within their timeout, and with the time of the local cloud."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest
from local_cloud.testing import Control, wait_until

from ..conftest import Account, refused
from ..scheduler.conftest import Scheduler
from ..scheduler.conftest import scheduler as scheduler
from .conftest import Functions

HOUR = 3600
DESCRIBE = """
import boto3

def handler(event, context):
    return len(boto3.client("ec2").describe_instances()["Reservations"])
"""
TAG = """
import boto3

def handler(event, context):
    boto3.client("lambda").tag_resource(Resource=context.invoked_function_arn, Tags={"runs": str(event["run"])})
"""


def test_the_environment(functions: Functions) -> None:
    code = """
import os, sys, time

def handler(event, context):
    print("running")
    names = ("AWS_REGION", "AWS_LAMBDA_FUNCTION_NAME", "MODE", "TZ")
    rest = [context.function_name, context.memory_limit_in_mb, context.get_remaining_time_in_millis() > 20000, bool(context.aws_request_id)]
    return [event, *map(os.environ.get, names), *rest, "local_cloud" in sys.modules]
"""
    name = functions.create(code, Environment={"Variables": {"MODE": "fast"}})
    answer = functions.client.invoke(FunctionName=name, Payload=b'{"a": 1}', LogType="Tail")
    assert json.load(answer["Payload"]) == [{"a": 1}, "us-east-1", name, "fast", ":UTC", name, "128", True, True, False]
    assert (answer["StatusCode"], answer["ExecutedVersion"]) == (200, "$LATEST")
    log = base64.b64decode(answer["LogResult"]).decode()
    assert log.startswith("START RequestId: ")
    assert "running\nEND" in log


def test_a_function_without_concurrency_is_not_invoked(functions: Functions, control: Control) -> None:
    name = functions.create()
    functions.client.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    assert functions.client.get_function(FunctionName=name)["Concurrency"] == {"ReservedConcurrentExecutions": 0}
    refused(lambda: functions.invoke(name), "TooManyRequestsException", "Rate Exceeded")
    functions.client.invoke(FunctionName=name, InvocationType="Event")
    control.advance(HOUR)
    functions.client.delete_function_concurrency(FunctionName=name)
    assert "Concurrency" not in functions.client.get_function(FunctionName=name)
    assert functions.invoke(name, 1) == 1
    assert [each["value"] for each in control.invocations(name)] == [1]


@pytest.mark.parametrize(("action", "result"), [("ec2:DescribeInstances", "reservations"), ("ec2:DescribeVpcs", "error")])
def test_the_policy_of_the_role_decides(functions: Functions, account: Account, action: str, result: str) -> None:
    role = functions.role({"Effect": "Allow", "Action": action, "Resource": "*"})
    name = functions.create(DESCRIBE, Role=role)
    answer = functions.client.invoke(FunctionName=name)
    found = json.load(answer["Payload"])
    if result == "error":
        assert answer["FunctionError"] == "Unhandled"
        assert found["errorType"] == "ClientError"
        assert f"assumed-role/{role.rpartition('/')[2]}/{name} is not authorized to perform: ec2:DescribeInstances" in found["errorMessage"]
    else:
        assert found == len(account.ec2.describe_instances()["Reservations"])


@pytest.mark.parametrize(
    ("code", "handler", "kind", "words"),
    [
        ("def handler(event, context):\n    raise ValueError('bad value')\n", "main.handler", "ValueError", "bad value"),
        ("def other(event, context):\n    pass\n", "main.handler", "Runtime.HandlerNotFound", "Handler 'handler' missing"),
        ("import missing_module\n", "main.handler", "Runtime.ImportModuleError", "Unable to import module 'main'"),
        ("def handler(event, context):\n    return {1}\n", "main.handler", "Runtime.MarshalError", "set is not JSON serializable"),
        ("def handler(event, context):\n    import os; os._exit(3)\n", "main.handler", "Runtime.ExitError", "exit status 3"),
        ("def handler(event, context):\n    import time; time.sleep(60)\n", "main.handler", "Sandbox.Timedout", "timed out after 1.00 s"),
        ("", "handler", "Runtime.MalformedHandlerName", "Bad handler 'handler'"),
    ],
)
def test_errors(functions: Functions, account: Account, code: str, handler: str, kind: str, words: str) -> None:
    name = functions.create(code or "pass", Handler=handler, Timeout=1)
    answer = functions.client.invoke(FunctionName=name)
    found = json.load(answer["Payload"])
    assert (answer["StatusCode"], answer["FunctionError"], found["errorType"]) == (200, "Unhandled", kind)
    assert words in found["errorMessage"]
    (recorded,) = account.control.invocations(name)
    assert (recorded["failed"], recorded["value"]) == (True, found)


def test_no_process_is_left(functions: Functions, tmp_path: Path) -> None:
    code = f"""
import subprocess

def handler(event, context):
    child = subprocess.Popen(["sleep", "1000"])
    open({str(tmp_path / "child")!r}, "w").write(str(child.pid))
"""
    functions.invoke(functions.create(code))
    process = Path("/proc", (tmp_path / "child").read_text(), "stat")
    wait_until(lambda: not process.exists() or process.read_text().split()[2] == "Z", 10)


def test_the_clock_of_the_local_cloud_applies(functions: Functions, account: Account) -> None:
    code = """
import time
from datetime import datetime, timezone
import boto3

def handler(event, context):
    boto3.client("ec2").describe_instances()
    now = datetime.now(timezone.utc)
    return [time.time(), now.timestamp(), isinstance(now, datetime), time.strftime("%Y-%m-%d %H"), now.strftime("%Y-%m-%d %H")]
"""
    name = functions.create(code, Role=functions.role({"Effect": "Allow", "Action": "ec2:DescribeInstances", "Resource": "*"}))
    account.control.advance(30 * HOUR)
    first, second, is_date, one, other = functions.invoke(name)
    assert [first, second] == pytest.approx([time.time() + 30 * HOUR] * 2, abs=60)
    assert is_date
    assert one == other


def test_payloads_and_dry_runs(functions: Functions, account: Account) -> None:
    name = functions.create()
    assert functions.client.invoke(FunctionName=name, InvocationType="DryRun")["StatusCode"] == 204
    assert json.load(functions.client.invoke(FunctionName=name)["Payload"]) == {}
    refused(lambda: functions.client.invoke(FunctionName=name, Payload=b"{"), "InvalidRequestContentException")
    large = json.dumps("x" * (1 << 20)).encode()
    refused(lambda: functions.client.invoke(FunctionName=name, Payload=large, InvocationType="Event"), "RequestTooLargeException")
    assert len(account.control.invocations(name)) == 1


def test_asynchronous_invocations_are_repeated_twice(functions: Functions, account: Account) -> None:
    name = functions.create("def handler(event, context):\n    raise ValueError('bad value')\n")
    assert functions.client.invoke(FunctionName=name, InvocationType="Event", Payload=b'{"a": 1}')["StatusCode"] == 202
    wait_until(lambda: len(account.control.invocations(name)) == 1, 30)
    account.control.advance(59)
    assert len(account.control.invocations(name)) == 1
    account.control.advance(2)
    assert len(account.control.invocations(name)) == 2
    account.control.advance(24 * HOUR)
    found = account.control.invocations(name)
    assert [each["event"] for each in found] == [{"a": 1}] * 3
    assert len({each["request_id"] for each in found}) == 1
    assert "ValueError: bad value" in found[0]["log"]


def test_a_schedule_invokes_a_function(functions: Functions, scheduler: Scheduler, account: Account) -> None:
    name = account.name("function")
    arn = f"arn:aws:lambda:us-east-1:123456789012:function:{name}"
    functions.create(TAG, FunctionName=name, Role=functions.role({"Effect": "Allow", "Action": "lambda:TagResource", "Resource": arn}))
    request: dict[str, Any] = scheduler.request("rate(5 minutes)", scheduler.allowed("lambda:InvokeFunction", arn), given={"run": 1})
    request["Target"]["Arn"] = arn
    scheduler.client.create_schedule(**request)
    wait_until(lambda: len(account.control.invocations(name)) == 1, 30)
    account.control.advance(15 * 60)
    found = account.control.invocations(name)
    assert [each["failed"] for each in found] == [False] * 4, found[-1]["log"]
    assert functions.client.list_tags(Resource=arn)["Tags"] == {"runs": "1"}
    scheduler.client.delete_schedule(Name=request["Name"])
    assert found[3]["time"] - found[1]["time"] == pytest.approx(600, abs=30)


@pytest.mark.parametrize("variables", [{}, {"MODE": "fast"}])
def test_only_the_role_that_a_function_was_created_with_decrypts_its_environment(functions: Functions, variables: dict[str, str]) -> None:
    request: dict[str, Any] = {"Role": functions.role(), "Environment": {"Variables": variables}}
    name, role = functions.create(**request), request["Role"].rpartition("/")[2]
    iam = functions.account.client("iam")
    trust = iam.get_role(RoleName=role)["Role"]["AssumeRolePolicyDocument"]
    iam.delete_role(RoleName=role)
    iam.create_role(RoleName=role, AssumeRolePolicyDocument=json.dumps(trust))
    functions.client.update_function_configuration(FunctionName=name, **request)
    functions.updated(name)
    if not variables:
        assert functions.invoke(name, {"a": 1}) == {"a": 1}
        return
    refused(lambda: functions.invoke(name), "KMSAccessDeniedException", "unable to decrypt the environment variables")
    for other in (functions.role(), request["Role"]):
        functions.client.update_function_configuration(FunctionName=name, Role=other)
        functions.updated(name)
        assert functions.invoke(name, {"a": 1}) == {"a": 1}


def test_a_schedule_needs_permission_to_invoke(functions: Functions, scheduler: Scheduler, account: Account) -> None:
    name = functions.create()
    role = scheduler.role()
    request = scheduler.request("rate(5 minutes)", role)
    request["Target"] = {"Arn": functions.configuration(name)["FunctionArn"], "RoleArn": role}
    scheduler.client.create_schedule(**request)
    wait_until(lambda: any(each["action"] == "lambda:InvokeFunction" for each in account.control.decisions()), 30)
    assert not account.control.invocations(name)
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "lambda:InvokeFunction", "Resource": "*"}]}
    account.client("iam").put_role_policy(RoleName=role.rpartition("/")[2], PolicyName="policy", PolicyDocument=json.dumps(policy))
    account.control.advance(240)
    scheduler.client.delete_schedule(Name=request["Name"])
    (found,) = account.control.invocations(name)
    assert found["event"]["detail-type"] == "Scheduled Event"
