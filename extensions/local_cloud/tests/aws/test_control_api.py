"""The control API sets faults, limits, and delays, and returns recorded calls."""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.request
from typing import Any

import pytest
from botocore.exceptions import ClientError
from local_cloud.control_signature import signature
from local_cloud.testing import wait_until

from .conftest import TOKEN, Account


class Control:
    """A client of the control API."""

    def __init__(self, url: str) -> None:
        self._url = url + "/_local_cloud/"

    def __call__(self, method: str, name: str, data: Any = None) -> Any:
        body = None if data is None else json.dumps(data).encode()
        headers = {"Authorization": signature(TOKEN, method, name, body or b"", time.time()), "Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(self._url + name, body, headers, method=method)) as answer:
            return json.load(answer)


@pytest.fixture
def control(account: Account) -> Control:
    return Control(account.url)


@pytest.mark.parametrize(
    ("service", "call"),
    [
        ("ec2", "describe_vpcs"),
        ("autoscaling", "describe_auto_scaling_groups"),
        ("efs", "describe_file_systems"),
        ("iam", "list_roles"),
        ("ssm", "describe_parameters"),
        ("s3", "list_buckets"),
    ],
)
def test_throttling_and_server_errors(account: Account, control: Control, service: str, call: str) -> None:
    client = account.client(service)
    for status, code in ((400, "Throttling"), (500, "InternalFailure")):
        control("PUT", "faults", [{"service": client.meta.service_model.signing_name, "code": code, "status": status, "times": 1}])
        with pytest.raises(ClientError) as caught:
            getattr(client, call)()
        assert caught.value.response["Error"]["Code"] == code
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
        getattr(client, call)()
        assert control("GET", "faults")[0]["hits"] == 1


def test_a_client_that_retries_gets_through(account: Account, control: Control) -> None:
    control("PUT", "faults", [{"code": "RequestLimitExceeded", "each_call_once": True}])
    client = account.client("ec2", attempts=3)
    client.describe_vpcs()
    client.describe_subnets()
    assert control("GET", "faults")[0]["hits"] == 2


def test_a_rule_is_for_some_actions(account: Account, control: Control) -> None:
    control("PUT", "faults", [{"service": "efs", "action": "Describe(File|Mount).*", "code": "ThrottlingException", "status": 429}])
    account.ec2.describe_vpcs()
    account.efs.create_file_system(CreationToken=account.name("token"))
    with pytest.raises(ClientError, match="ThrottlingException"):
        account.efs.describe_file_systems()
    control("DELETE", "faults")
    account.efs.describe_file_systems()


def test_latency(account: Account, control: Control) -> None:
    control("PUT", "faults", [{"service": "ec2", "action": "DescribeSubnets", "latency": 0.3}])
    start = time.monotonic()
    account.ec2.describe_subnets()
    assert time.monotonic() - start >= 0.3


@pytest.mark.parametrize(("probability", "hits"), [(0, range(1)), (0.5, range(1, 40)), (1, range(40, 41))])
def test_probability(account: Account, control: Control, probability: float, hits: range) -> None:
    control("PUT", "faults", [{"code": "UnauthorizedOperation", "status": 403, "probability": probability}])
    for _call in range(40):
        with contextlib.suppress(ClientError):
            account.ec2.describe_vpcs()
    assert control("GET", "faults")[0]["hits"] in hits


def test_capacity(account: Account, control: Control) -> None:
    control("PUT", "capacity", {"p4d.24xlarge": {"us-east-1a": 0, "us-east-1b": 0}})
    assert control("GET", "capacity") == {"p4d.24xlarge": {"us-east-1a": {"on-demand": 0}, "us-east-1b": {"on-demand": 0}}}
    group = account.group(1)
    wait_until(lambda: account.activities(group))
    control("PUT", "capacity", {"p4d.24xlarge": {"us-east-1b": None}})
    wait_until(lambda: account.members(group))


def test_capacity_is_not_for_the_stopped_and_the_ended(account: Account, control: Control) -> None:
    control("PUT", "capacity", {"g5.12xlarge": {"us-east-1a": 2}})
    subnet = account.subnets("a")[0]
    first = account.run(subnet, 2, InstanceType="g5.12xlarge")[0]["InstanceId"]
    with pytest.raises(ClientError, match=r"InsufficientInstanceCapacity.*g5.12xlarge.*us-east-1a"):
        account.run(subnet, InstanceType="g5.12xlarge")
    account.ec2.terminate_instances(InstanceIds=[first])
    account.ec2.get_waiter("instance_terminated").wait(InstanceIds=[first], WaiterConfig={"Delay": 1})
    account.run(subnet, InstanceType="g5.12xlarge")


def test_as_many_as_there_are_between_minimum_and_maximum(account: Account, control: Control) -> None:
    control("PUT", "capacity", {"g5.2xlarge": {"us-east-1a": 2}})
    request = {"ImageId": account.image_id, "InstanceType": "g5.2xlarge", "SubnetId": account.subnets("a")[0]}
    assert len(account.ec2.run_instances(MinCount=1, MaxCount=5, **request)["Instances"]) == 2


def test_delays(account: Account, control: Control) -> None:
    control("PUT", "delays", {"file_system": 0})
    assert account.efs.create_file_system(CreationToken=account.name("token"))["LifeCycleState"] == "available"
    control("DELETE", "delays")
    assert account.efs.create_file_system(CreationToken=account.name("token"))["LifeCycleState"] == "creating"


def test_calls_are_recorded(account: Account, control: Control) -> None:
    control("POST", "reset")
    account.ec2.describe_vpcs()
    account.efs.create_file_system(CreationToken=account.name("token"))
    account.efs.describe_file_systems()
    account.client("iam").list_roles()
    account.client("ssm").put_parameter(Name=account.name("parameter"), Value="x", Type="String")
    account.client("sts").get_caller_identity()
    account.client("s3").create_bucket(Bucket=account.name("bucket"))
    found = [(each["service"], each["action"], each["read_only"]) for each in control("GET", "calls")]
    assert found == [
        ("ec2", "DescribeVpcs", True),
        ("elasticfilesystem", "CreateFileSystem", False),
        ("elasticfilesystem", "DescribeFileSystems", True),
        ("iam", "ListRoles", True),
        ("ssm", "PutParameter", False),
        ("sts", "GetCallerIdentity", True),
        ("s3", "CreateBucket", False),
    ]
    control("POST", "reset")
    assert control("GET", "calls") == []


def test_the_parameters_of_changes_are_recorded(account: Account, control: Control) -> None:
    control("POST", "reset")
    token = account.name("token")
    control("PUT", "faults", [{"action": "CreateFileSystem", "code": "ThrottlingException", "status": 429, "times": 1}])
    with pytest.raises(ClientError):
        account.efs.create_file_system(CreationToken=token)
    account.efs.create_file_system(CreationToken=token, Tags=[{"Key": "team", "Value": "speech"}])
    account.efs.describe_file_systems(MaxItems=5)
    assert [each["parameters"] for each in control("GET", "calls")] == [
        None,
        {"CreationToken": token, "Tags": [{"Key": "team", "Value": "speech"}]},
        None,
    ]


def test_reset_leaves_the_account_alone(account: Account, control: Control) -> None:
    control("PUT", "faults", [{"code": "Throttling"}])
    control("PUT", "delays", {"file_system": 9})
    control("PUT", "capacity", {"t3.micro": {"us-east-1a": 0}})
    control("PUT", "prices", {"t3.micro": 1})
    control("PUT", "failing", {"t3.micro": 1})
    control("PUT", "quotas", {"L-417A185B": 1})
    control("POST", "reset")
    assert [control("GET", each) for each in ("faults", "capacity", "prices", "failing")] == [[], {}, {}, {}]
    assert control("GET", "quotas")["L-417A185B"] > 1
    assert control("GET", "delays")["file_system"] == 0.15
    vpc = account.vpc()
    control("POST", "reset")
    account.ec2.describe_vpcs(VpcIds=[vpc])


@pytest.mark.parametrize(
    ("method", "name", "data", "status", "words"),
    [
        ("PUT", "faults", [{"colour": "red"}], 400, "colour"),
        ("PUT", "faults", [{"action": "("}], 400, "regular expression"),
        ("PUT", "faults", [{"pause": "lunch"}], 400, "'lunch'"),
        ("PUT", "delays", {"lunch": 1}, 400, "Unknown delay 'lunch'"),
        ("PUT", "delays", {"file_system": -1}, 400, "number of seconds"),
        ("PUT", "capacity", {"t3.micro": {"us-east-1a": "many"}}, 400, "'many'"),
        ("PUT", "capacity", None, 400, ""),
        ("PUT", "prices", {"p4d.23xlarge": 1}, 400, "'p4d.23xlarge'"),
        ("PUT", "prices", {"p4d.24xlarge": -1}, 400, "-1"),
        ("PUT", "quotas", {"L-417A185B": "many"}, 400, "'many'"),
        ("PUT", "failing", {"p4d.24xlarge": -1}, 400, "at least 0"),
        ("POST", "kill", {"instance": "i-0"}, 400, "'i-0'"),
        ("POST", "capacity_block", {"zone": "us-east-1a"}, 400, "lacks 'type'"),
        ("GET", "nonsense", None, 404, "nonsense"),
    ],
)
def test_nonsense_is_refused(control: Control, method: str, name: str, data: Any, status: int, words: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        control(method, name, data)
    assert caught.value.code == status
    assert words in json.load(caught.value)["error"]


def test_health(account: Account, control: Control) -> None:
    assert control("GET", "health")["status"] == "ok"
