"""Functions, and the roles that they need."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from local_cloud.testing import wait_until

from ..conftest import Account

ECHO = "def handler(event, context):\n    return event\n"


def packed(code: str, name: str = "main.py") -> bytes:
    """Return a deployment package with one file."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(name, code)
    return content.getvalue()


class Functions:
    """A client of Lambda."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.client = account.client("lambda")
        self._roles: list[str] = []
        self._names: list[str] = []

    def role(self, *statements: dict[str, Any], service: str = "lambda") -> str:
        """Create a role that a service may assume, with a policy that has these statements, and return its ARN."""
        iam, name = self.account.client("iam"), self.account.name("role")
        trust = {"Effect": "Allow", "Principal": {"Service": f"{service}.amazonaws.com"}, "Action": "sts:AssumeRole"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        arn: str = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"]
        self._roles.append(name)
        if statements:
            policy = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
            iam.put_role_policy(RoleName=name, PolicyName="policy", PolicyDocument=policy)
        return arn

    def request(self, code: str = ECHO, **changes: Any) -> dict[str, Any]:
        """Return the parameters of CreateFunction."""
        return {
            "FunctionName": self.account.name("function"),
            "Runtime": "python3.12",
            "Handler": "main.handler",
            "Code": {"ZipFile": packed(code)},
            "Timeout": 30,
            **changes,
            "Role": changes.get("Role") or self.role(),
        }

    def create(self, code: str = ECHO, **changes: Any) -> str:
        """Create a function, wait until it is active, and return its name."""
        request = self.request(code, **changes)
        self.client.create_function(**request)
        name: str = request["FunctionName"]
        self._names.append(name)
        wait_until(lambda: self.configuration(name)["State"] == "Active", 30)
        return name

    def configuration(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get_function_configuration(FunctionName=name)
        return found

    def updated(self, name: str) -> None:
        """Wait until the last update is complete."""
        wait_until(lambda: self.configuration(name)["LastUpdateStatus"] == "Successful", 30)

    def invoke(self, name: str, event: Any = None, **options: Any) -> Any:
        """Invoke a function, and return what it returns."""
        return json.load(self.client.invoke(FunctionName=name, Payload=json.dumps(event), **options)["Payload"])

    def delete(self) -> None:
        """Delete functions and roles, so that schedules that remain have no effect during other tests."""
        iam = self.account.client("iam")
        existing = {each["FunctionName"] for each in self.client.list_functions()["Functions"]}
        for name in existing & set(self._names):
            self.client.delete_function(FunctionName=name)
        for name in self._roles:
            for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
                iam.delete_role_policy(RoleName=name, PolicyName=policy)
            iam.delete_role(RoleName=name)


@pytest.fixture
def functions(account: Account) -> Iterator[Functions]:
    found = Functions(account)
    yield found
    found.delete()
