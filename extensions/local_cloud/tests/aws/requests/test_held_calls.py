"""Calls can be held before and after their execution, so that a test can kill the client in the meantime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import ClientError
from local_cloud.testing import Control, wait_until

from ..conftest import Account

CREATE = {"service": "ec2", "action": "CreateVpc"}
CIDR = "10.7.0.0/16"


@pytest.fixture
def background() -> Iterator[Callable[..., Future[Any]]]:
    with ThreadPoolExecutor(8) as pool:
        yield pool.submit


def vpcs(account: Account) -> set[str]:
    return {each["VpcId"] for each in account.ec2.describe_vpcs()["Vpcs"]}


def send(account: Account, service: str, headers: dict[str, str], body: str) -> HTTPConnection:
    """Send a signed request and leave the connection open, like a client that is killed later."""
    request = AWSRequest("POST", account.url + "/", {**headers, "Host": urlsplit(account.url).netloc}, body)
    SigV4Auth(account.session.get_credentials(), service, account.region).add_auth(request)
    connection = HTTPConnection(urlsplit(account.url).netloc)
    connection.request("POST", "/", body, dict(request.headers))
    return connection


@pytest.mark.parametrize(("stage", "made"), [("before", 0), ("after", 1)])
def test_others_go_on_while_a_call_is_held(
    account: Account, control: Control, background: Callable[..., Future[Any]], stage: str, made: int
) -> None:
    before = vpcs(account)
    control.set_faults([{**CREATE, "pause": stage}])
    held = background(account.ec2.create_vpc, CidrBlock=CIDR)
    assert control.wait_until_paused() == [{"service": "ec2", "action": "CreateVpc", "stage": stage}]
    assert len(vpcs(account) - before) == made
    assert not held.done()
    control.resume()
    assert vpcs(account) - before == {held.result()["Vpc"]["VpcId"]}
    assert control.paused() == []


@pytest.mark.parametrize(("stage", "made"), [("before", 0), ("after", 1)])
def test_a_client_that_is_gone(account: Account, control: Control, stage: str, made: int) -> None:
    before = vpcs(account)
    control.set_faults([{**CREATE, "pause": stage}])
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    connection = send(account, "ec2", form, f"Action=CreateVpc&Version=2016-11-15&CidrBlock={CIDR}")
    control.wait_until_paused()
    connection.close()
    wait_until(lambda: control.paused() == [])
    assert len(vpcs(account) - before) == made


def test_a_client_that_is_gone_with_a_body_that_nobody_had_read(account: Account, control: Control) -> None:
    name = account.name("parameter")
    control.set_faults([{"service": "ssm", "pause": "before"}])
    headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "AmazonSSM.PutParameter"}
    connection = send(account, "ssm", headers, f'{{"Name": "{name}", "Value": "{"x" * 4000}", "Type": "String"}}')
    control.wait_until_paused()
    connection.close()
    wait_until(lambda: control.paused() == [])
    control.set_faults([])
    assert account.client("ssm").get_parameters(Names=[name])["InvalidParameters"] == [name]


def test_a_held_call_can_be_dropped(account: Account, control: Control, background: Callable[..., Future[Any]]) -> None:
    before = vpcs(account)
    control.set_faults([{**CREATE, "pause": "before"}])
    held = background(account.ec2.create_vpc, CidrBlock=CIDR)
    control.wait_until_paused()
    control.resume(execute=False)
    with pytest.raises(ClientError, match="InternalError"):
        held.result()
    assert vpcs(account) == before


def test_reset_lets_held_calls_go(account: Account, control: Control, background: Callable[..., Future[Any]]) -> None:
    control.set_faults([{**CREATE, "pause": "before"}])
    held = background(account.ec2.create_vpc, CidrBlock=CIDR)
    control.wait_until_paused()
    control.reset()
    assert held.result()["Vpc"]["VpcId"] in vpcs(account)


def test_an_answer_that_is_lost(account: Account, control: Control) -> None:
    before = vpcs(account)
    control.set_faults([{**CREATE, "code": "InternalError", "status": 500, "after": True}])
    with pytest.raises(ClientError, match="InternalError"):
        account.ec2.create_vpc(CidrBlock=CIDR)
    assert len(vpcs(account) - before) == 1


def test_only_the_nth_call_and_only_writing_ones(account: Account, control: Control) -> None:
    control.set_faults([{"service": "ec2", "code": "Throttling", "nth": 2, "read_only": False}])
    account.ec2.create_vpc(CidrBlock=CIDR)
    account.ec2.describe_vpcs()
    with pytest.raises(ClientError, match="Throttling"):
        account.ec2.create_vpc(CidrBlock=CIDR)
    account.ec2.create_vpc(CidrBlock=CIDR)
    control.set_faults([{"service": "ec2", "code": "Throttling", "read_only": True}])
    account.ec2.create_vpc(CidrBlock=CIDR)
    with pytest.raises(ClientError, match="Throttling"):
        account.ec2.describe_vpcs()


def test_calls_are_listed_in_the_order_in_which_they_came(
    account: Account, control: Control, background: Callable[..., Future[Any]]
) -> None:
    control.forget_calls()
    control.set_faults([{**CREATE, "pause": "before"}])
    background(account.ec2.create_vpc, CidrBlock=CIDR)
    control.wait_until_paused()
    account.ec2.describe_subnets()
    control.resume()
    assert [each["action"] for each in control.calls()] == ["CreateVpc", "DescribeSubnets"]
