"""EFS file system policies, and the actions that they allow clients to perform."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from local_cloud.testing import wait_until

from ..conftest import Account, refused
from .conftest import ALL, ALLOW, CLIENT, access, put

DENY = {"Effect": "Deny", "Principal": "*", "Action": "*", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}


def policy(account: Account, file_system: str) -> dict[str, Any] | None:
    with contextlib.suppress(account.efs.exceptions.PolicyNotFound):
        return dict(json.loads(account.efs.describe_file_system_policy(FileSystemId=file_system)["Policy"]))
    return None


def test_life_of_a_policy(account: Account, file_system: str) -> None:
    assert policy(account, file_system) is None
    assert access(file_system) == {"plain": ALL, "tls": ALL, "access_points": {}}
    put(account, file_system, ALLOW, DENY)
    assert policy(account, file_system) is None, "the policy becomes visible a moment later"
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


def test_a_file_system_that_is_being_created_takes_no_policy_and_no_access_point(account: Account) -> None:
    made = str(account.efs.create_file_system(CreationToken=account.name("token"))["FileSystemId"])
    refused(lambda: put(account, made, ALLOW), "IncorrectFileSystemLifeCycleState")
    refused(lambda: account.efs.create_access_point(FileSystemId=made), "IncorrectFileSystemLifeCycleState")


def test_policies_that_are_refused(account: Account, file_system: str) -> None:
    call = account.efs.put_file_system_policy
    elsewhere = {**ALLOW, "Resource": "arn:aws:elasticfilesystem:us-east-1:1:file-system/fs-00000000"}
    documents = ["no JSON", "[]", "{}", json.dumps({"Statement": [elsewhere]}), json.dumps({"Statement": [], "Owner": "me"})]
    for document in documents:
        refused(lambda document=document: call(FileSystemId=file_system, Policy=document), "InvalidPolicyException")
    lockout = {"Effect": "Deny", "Principal": "*", "Action": "elasticfilesystem:Put*"}
    refused(lambda: put(account, file_system, lockout), "InvalidPolicyException", "lock out")
    put(account, file_system, lockout, BypassPolicyLockoutSafetyCheck=True)
    refused(lambda: put(account, "fs-00000000", ALLOW), "FileSystemNotFound")
    refused(lambda: account.efs.describe_file_system_policy(FileSystemId="fs-00000000"), "FileSystemNotFound")
