"""Roles of schedules, and schedules with usual values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from ..conftest import Account

TRUST: dict[str, Any] = {"Effect": "Allow", "Principal": {"Service": "scheduler.amazonaws.com"}, "Action": "sts:AssumeRole"}
SDK = "arn:aws:scheduler:::aws-sdk"


def at(moment: float) -> str:
    """Return the expression for a time in seconds since the epoch."""
    return f"at({datetime.fromtimestamp(moment, UTC):%Y-%m-%dT%H:%M:%S})"


class Scheduler:
    """A client of EventBridge Scheduler."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.client = account.client("scheduler")
        self._roles: list[str] = []

    def role(self, *statements: dict[str, Any], trust: dict[str, Any] = TRUST) -> str:
        """Create a role with a policy that has these statements, and return its ARN."""
        iam, name = self.account.client("iam"), self.account.name("role")
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        arn: str = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"]
        self._roles.append(name)
        if statements:
            policy = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
            iam.put_role_policy(RoleName=name, PolicyName="policy", PolicyDocument=policy)
        return arn

    def allowed(self, action: str, resource: str = "*", **condition: Any) -> str:
        """Create a role that may make one kind of call, and return its ARN."""
        return self.role({"Effect": "Allow", "Action": action, "Resource": resource, **({"Condition": condition} if condition else {})})

    def request(self, expression: str, role: str, target: str = "ec2:stopInstances", **changes: Any) -> dict[str, Any]:
        """Return the parameters of CreateSchedule. `given` contains the input of the target, `policy` its retry policy."""
        text = json.dumps(changes.pop("given", {"InstanceIds": ["i-0123456789abcdef0"]}))
        policy = changes.pop("policy", None)
        return {
            "Name": self.account.name("schedule"),
            "ScheduleExpression": expression,
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "Target": {"Arn": f"{SDK}:{target}", "RoleArn": role, "Input": text, **({"RetryPolicy": policy} if policy else {})},
            **changes,
        }

    def create(self, expression: str, role: str, target: str = "ec2:stopInstances", **changes: Any) -> str:
        """Create a schedule, and return its name."""
        request = self.request(expression, role, target, **changes)
        self.client.create_schedule(**request)
        return str(request["Name"])

    def names(self, **filters: str) -> list[str]:
        return [each["Name"] for page in self.client.get_paginator("list_schedules").paginate(**filters) for each in page["Schedules"]]

    def delete_roles(self) -> None:
        """Delete the roles, so that schedules that remain can make no calls during other tests."""
        iam = self.account.client("iam")
        for name in self._roles:
            for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
                iam.delete_role_policy(RoleName=name, PolicyName=policy)
            iam.delete_role(RoleName=name)

    def attempts(self, action: str) -> int:
        """Return how often an action was called."""
        return sum(each["action"] == action for each in self.account.control.calls())


@pytest.fixture
def scheduler(account: Account) -> Iterator[Scheduler]:
    found = Scheduler(account)
    yield found
    found.delete_roles()


@pytest.fixture
def elsewhere_scheduler(elsewhere: Account) -> Iterator[Scheduler]:
    found = Scheduler(elsewhere)
    yield found
    found.delete_roles()
