"""Functions are created, changed, tagged and deleted as on AWS."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest
from local_cloud.aws.app import AwsApi
from moto.core.base_backend import BackendDict

from ..conftest import Account, refused
from .conftest import ECHO, Functions, packed


def test_a_function_is_pending_and_then_active(functions: Functions, account: Account) -> None:
    account.control.set_delays(lambda_function=60)
    code, tags = packed(ECHO), {"team": "research"}
    environment = {"Variables": {"MODE": "fast"}}
    role = functions.role()
    request = functions.request(Role=role, Code={"ZipFile": code}, Tags=tags, Environment=environment, Description="Echoes its input.")
    created = functions.client.create_function(**request)
    name = request["FunctionName"]
    arn = f"arn:aws:lambda:us-east-1:123456789012:function:{name}"
    expected = {
        "FunctionArn": arn,
        "Runtime": "python3.12",
        "Role": role,
        "Handler": "main.handler",
        "Timeout": 30,
        "MemorySize": 128,
        "CodeSize": len(code),
        "CodeSha256": base64.b64encode(hashlib.sha256(code).digest()).decode(),
        "Version": "$LATEST",
        "Environment": environment,
        "Architectures": ["x86_64"],
        "State": "Pending",
        "StateReasonCode": "Creating",
    }
    assert {name: created[name] for name in expected} == expected
    assert "LastUpdateStatus" not in created
    change = {"FunctionName": name, "Timeout": 5}
    for call in (functions.client.update_function_configuration, lambda **_: functions.invoke(name)):
        refused(lambda call=call: call(**change), "ResourceConflictException", "currently in the following state: Pending")
    account.control.advance(60)
    found = functions.client.get_function(FunctionName=arn)
    assert found["Tags"] == tags
    assert (found["Configuration"]["State"], found["Configuration"]["LastUpdateStatus"]) == ("Active", "Successful")
    assert found["Configuration"]["LastModified"][10:] == created["LastModified"][10:]
    assert [each["FunctionName"] for each in functions.client.list_functions()["Functions"]] == [name]
    refused(lambda: functions.client.create_function(**request), "ResourceConflictException", f"Function already exist: {name}")
    functions.client.delete_function(FunctionName=name)
    refused(lambda: functions.configuration(name), "ResourceNotFoundException", f"Function not found: {arn}")


def test_an_update_takes_effect_later(functions: Functions, account: Account) -> None:
    name = functions.create("def handler(event, context):\n    return 1\n")
    account.control.set_delays(lambda_function=60)
    code = packed("def handler(event, context):\n    return 2\n")
    before = functions.configuration(name)
    answer = functions.client.update_function_code(FunctionName=name, ZipFile=code)
    assert (answer["LastUpdateStatus"], answer["State"]) == ("InProgress", "Active")
    assert answer["CodeSha256"] == base64.b64encode(hashlib.sha256(code).digest()).decode() != before["CodeSha256"]
    refused(
        lambda: functions.client.update_function_configuration(FunctionName=name, Timeout=9),
        "ResourceConflictException",
        f"An update is in progress for resource: {answer['FunctionArn']}",
    )
    functions.client.tag_resource(Resource=answer["FunctionArn"], Tags={"during": "update"})
    assert functions.invoke(name) == 1
    account.control.advance(60)
    assert functions.configuration(name)["LastUpdateStatus"] == "Successful"
    assert functions.invoke(name) == 2
    old = {"FunctionName": name, "Timeout": 9, "RevisionId": before["RevisionId"]}
    refused(lambda: functions.client.update_function_configuration(**old), "PreconditionFailedException")
    assert functions.client.update_function_configuration(FunctionName=name, Timeout=9, Description="new")["Timeout"] == 9
    assert functions.configuration(name)["Handler"] == "main.handler"


def test_tags(functions: Functions) -> None:
    name = functions.create(Tags={"a": "1", "b": "2"})
    arn = functions.configuration(name)["FunctionArn"]
    functions.client.tag_resource(Resource=arn, Tags={"b": "3", "c": "4"})
    functions.client.untag_resource(Resource=arn, TagKeys=["a"])
    assert functions.client.list_tags(Resource=arn)["Tags"] == {"b": "3", "c": "4"}
    for tags in ({"aws:a": "1"}, {f"key-{number}": "" for number in range(50)}):
        refused(lambda tags=tags: functions.client.tag_resource(Resource=arn, Tags=tags), "InvalidParameterValueException")


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"Code": {"ZipFile": b"text"}}, "InvalidParameterValueException", "Could not unzip uploaded file"),
        ({"Code": {"S3Bucket": "bucket", "S3Key": "key"}}, "UnsupportedOperation", "Code.ZipFile"),
        ({"Environment": {"Variables": {"AWS_REGION": "x"}}}, "InvalidParameterValueException", "reserved keys"),
        ({"Environment": {"Variables": {"KEY": "x" * 4096}}}, "InvalidParameterValueException", "exceeded the 4KB limit"),
        ({"Runtime": "python3.8"}, "InvalidParameterValueException", "no longer supported"),
        ({"Runtime": "nodejs22.x"}, "UnsupportedOperation", "the runtime nodejs22.x"),
        ({"Layers": ["arn:aws:lambda:us-east-1:123456789012:layer:x:1"]}, "UnsupportedOperation", "Layers"),
        ({"Publish": True}, "UnsupportedOperation", "Publish"),
        ({"Timeout": 100_000}, "ValidationException", "timeout"),
        ({"Role": "arn:aws:iam::123456789012:role/missing"}, "InvalidParameterValueException", "cannot be assumed by Lambda."),
    ],
)
def test_requests_that_are_refused(functions: Functions, change: dict[str, Any], code: str, words: str) -> None:
    request = functions.request(**change)
    refused(lambda: functions.client.create_function(**request), code, words)


def test_a_role_must_trust_lambda_and_not_be_new(functions: Functions, account: Account) -> None:
    request = functions.request(Role=functions.role(service="ec2"))
    words = "The role defined for the function cannot be assumed by Lambda."
    refused(lambda: functions.client.create_function(**request), "InvalidParameterValueException", words)
    account.control.set_delays(lambda_role=60)
    request["Role"] = functions.role()
    refused(lambda: functions.client.create_function(**request), "InvalidParameterValueException", words)
    account.control.set_delays(lambda_role=0)
    name = functions.create(Role=request["Role"])
    refused(
        lambda: functions.client.update_function_configuration(FunctionName=name, Role=functions.role(service="ec2")),
        "InvalidParameterValueException",
        words,
    )


@pytest.mark.parametrize(
    ("lacks", "action", "allowed"),
    [
        ("", "", True),
        ("lambda:CreateFunction", "lambda:CreateFunction", False),
        ("lambda:TagResource", "lambda:TagResource", False),
        ("iam:PassRole", "iam:PassRole", False),
    ],
)
def test_permissions_of_a_creation(functions: Functions, account: Account, lacks: str, action: str, allowed: bool) -> None:
    request = functions.request(Tags={"team": "research"})
    passed = {"StringEquals": {"iam:PassedToService": "lambda.amazonaws.com"}}
    resource = f"arn:aws:lambda:us-east-1:123456789012:function:{request['FunctionName']}"
    statements = [
        {"Effect": "Allow", "Action": each, "Resource": resource, "Condition": {"StringEquals": {"aws:RequestTag/team": "research"}}}
        for each in ("lambda:CreateFunction", "lambda:TagResource")
    ]
    statements.append({"Effect": "Allow", "Action": "iam:PassRole", "Resource": request["Role"], "Condition": passed})
    client = account.user(*(each for each in statements if each["Action"] != lacks)).client("lambda")
    if allowed:
        client.create_function(**request)
    else:
        refused(lambda: client.create_function(**request), "AccessDeniedException", action)


def test_policies_name_functions_and_their_tags(functions: Functions, account: Account) -> None:
    account.control.set_delays(tag_visibility=0)
    mine, other = functions.create(Tags={"team": "research"}), functions.create()
    condition = {"StringEquals": {"aws:ResourceTag/team": "research"}}
    client = account.user({"Effect": "Allow", "Action": "lambda:*", "Resource": "*", "Condition": condition}).client("lambda")
    assert client.get_function_configuration(FunctionName=mine)
    assert client.invoke(FunctionName=mine)["StatusCode"] == 200
    refused(lambda: client.invoke(FunctionName=other), "AccessDeniedException", "lambda:InvokeFunction")


def test_code_and_environment_are_not_in_the_trail(functions: Functions, account: Account) -> None:
    name = functions.create(Environment={"Variables": {"WORD": "hidden-word"}})
    trail = account.client("cloudtrail")
    found = trail.lookup_events(LookupAttributes=[{"AttributeKey": "EventName", "AttributeValue": "CreateFunction"}])["Events"][0]
    assert name in found["CloudTrailEvent"]
    assert "hidden-word" not in found["CloudTrailEvent"]


def test_functions_come_back(functions: Functions, account: Account, cloud: AwsApi, tmp_path: Path) -> None:
    account.control.set_delays(lambda_function=60)
    request = functions.request()
    functions.client.create_function(**request)
    cloud.save(tmp_path / "state")
    BackendDict.reset()
    cloud.load(tmp_path / "state")
    account.control.advance(60)
    assert functions.invoke(request["FunctionName"], {"a": 1}) == {"a": 1}
    functions.client.delete_function(FunctionName=request["FunctionName"])
