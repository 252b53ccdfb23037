"""EFS's file system policies and access points: their calls, and what clients may do by them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from local_cloud.exports import client_accesses
from local_cloud.testing import wait_until

from ..conftest import Account

CLIENT = ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite", "elasticfilesystem:ClientRootAccess"]
ALL = ["ClientMount", "ClientWrite", "ClientRootAccess"]
MOUNTED = {"Bool": {"elasticfilesystem:AccessedViaMountTarget": "true"}}
ALLOW = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": CLIENT, "Condition": MOUNTED}
DENY = {"Effect": "Deny", "Principal": "*", "Action": "*", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}


@pytest.fixture
def file_system(account: Account) -> str:
    made = str(account.efs.create_file_system(CreationToken=account.name("token"))["FileSystemId"])
    refuses("IncorrectFileSystemLifeCycleState", lambda: put(account, made, ALLOW))
    refuses("IncorrectFileSystemLifeCycleState", lambda: account.efs.create_access_point(FileSystemId=made))
    wait_until(lambda: account.efs.describe_file_systems(FileSystemId=made)["FileSystems"][0]["LifeCycleState"] == "available")
    return made


def refuses(code: str, call: Callable[[], Any]) -> ClientError:
    with pytest.raises(ClientError) as caught:
        call()
    assert caught.value.response["Error"]["Code"] == code
    return caught.value


def put(account: Account, file_system: str, *statements: dict[str, Any], **more: Any) -> None:
    document = {"Version": "2012-10-17", "Id": "mine", "Statement": list(statements)}
    account.efs.put_file_system_policy(FileSystemId=file_system, Policy=json.dumps(document), **more)


def policy(account: Account, file_system: str) -> dict[str, Any] | None:
    with contextlib.suppress(account.efs.exceptions.PolicyNotFound):
        return dict(json.loads(account.efs.describe_file_system_policy(FileSystemId=file_system)["Policy"]))
    return None


def access(file_system: str) -> dict[str, Any]:
    return client_accesses()[file_system]


def test_life_of_a_policy(account: Account, file_system: str) -> None:
    assert policy(account, file_system) is None
    assert access(file_system) == {"plain": ALL, "tls": ALL, "access_points": {}}
    put(account, file_system, ALLOW, DENY)
    assert policy(account, file_system) is None, "it is shown a moment later"
    wait_until(lambda: policy(account, file_system) is not None)
    found = policy(account, file_system)
    assert found
    assert (found["Id"], found["Version"]) == ("mine", "2012-10-17")
    assert found["Statement"] != [ALLOW, DENY], "EFS promises no form"
    assert [each["Effect"] for each in found["Statement"]] == ["Allow", "Deny"]
    assert found["Statement"][0]["Resource"].endswith(f":file-system/{file_system}")
    assert access(file_system) == {"plain": [], "tls": ALL, "access_points": {}}
    put(account, file_system, {**ALLOW, "Action": CLIENT[0]})
    assert access(file_system)["plain"] == ["ClientMount"]
    account.efs.delete_file_system_policy(FileSystemId=file_system)
    wait_until(lambda: policy(account, file_system) is None)
    assert access(file_system)["plain"] == ALL


def test_policies_that_are_refused(account: Account, file_system: str) -> None:
    call = account.efs.put_file_system_policy
    elsewhere = {**ALLOW, "Resource": "arn:aws:elasticfilesystem:us-east-1:1:file-system/fs-00000000"}
    documents = ["no JSON", "[]", "{}", json.dumps({"Statement": [elsewhere]}), json.dumps({"Statement": [], "Owner": "me"})]
    for document in documents:
        refuses("InvalidPolicyException", lambda document=document: call(FileSystemId=file_system, Policy=document))
    lockout = {"Effect": "Deny", "Principal": "*", "Action": "elasticfilesystem:Put*"}
    assert "lock out" in str(refuses("InvalidPolicyException", lambda: put(account, file_system, lockout)))
    put(account, file_system, lockout, BypassPolicyLockoutSafetyCheck=True)
    refuses("FileSystemNotFound", lambda: put(account, "fs-00000000", ALLOW))
    refuses("FileSystemNotFound", lambda: account.efs.describe_file_system_policy(FileSystemId="fs-00000000"))


def test_life_of_an_access_point(account: Account, file_system: str) -> None:
    efs = account.efs
    creation = {"OwnerUid": 1000, "OwnerGid": 1000, "Permissions": "0755"}
    place = {"Path": "/teams/bert", "CreationInfo": creation}
    tags = [{"Key": "Name", "Value": "bert"}]
    made = efs.create_access_point(FileSystemId=file_system, ClientToken="once", RootDirectory=place, Tags=tags)
    assert (made["LifeCycleState"], made["RootDirectory"], made["Tags"]) == ("creating", place, tags)
    identifier = made["AccessPointId"]
    again = refuses("AccessPointAlreadyExists", lambda: efs.create_access_point(FileSystemId=file_system, ClientToken="once"))
    assert again.response["AccessPointId"] == identifier
    assert access(file_system)["access_points"] == {}

    def states() -> list[str]:
        return [each["LifeCycleState"] for each in efs.describe_access_points(FileSystemId=file_system)["AccessPoints"]]

    wait_until(lambda: states() == ["available"])
    assert access(file_system)["access_points"] == {identifier: {"path": "/teams/bert", "creation": creation, "allowed": ALL}}
    through = {"StringEquals": {"elasticfilesystem:AccessPointArn": made["AccessPointArn"]}}
    put(account, file_system, {**ALLOW, "Condition": MOUNTED | through})
    found = access(file_system)
    assert (found["plain"], found["tls"], found["access_points"][identifier]["allowed"]) == ([], [], ALL)
    efs.delete_access_point(AccessPointId=identifier)
    assert states() == ["deleting"]
    assert access(file_system)["access_points"] == {}
    wait_until(lambda: states() == [])
    refuses("AccessPointNotFound", lambda: efs.delete_access_point(AccessPointId=identifier))
    refuses("AccessPointNotFound", lambda: efs.describe_access_points(AccessPointId=identifier))


def test_many_access_points_come_in_pages(account: Account, file_system: str) -> None:
    for _number in range(3):
        account.efs.create_access_point(FileSystemId=file_system)
    first = account.efs.describe_access_points(FileSystemId=file_system, MaxResults=2)
    rest = account.efs.describe_access_points(FileSystemId=file_system, NextToken=first["NextToken"])
    assert [len(first["AccessPoints"]), len(rest["AccessPoints"])] == [2, 1]
    assert "NextToken" not in rest


@pytest.mark.parametrize("path", ["relative", "/a/b/c/d/e", "/a b?", "/./a", "/" + "a" * 100])
def test_directories_that_are_refused(account: Account, file_system: str, path: str) -> None:
    refuses("ValidationException", lambda: account.efs.create_access_point(FileSystemId=file_system, RootDirectory={"Path": path}))
