"""Values that the API's models do not allow are rejected with the error of the service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.session import get_session
from local_cloud.aws.validation.constraints import expression

from ..conftest import Account

VALIDATION = "ValidationException"
CALLED = ("autoscaling", "ec2", "efs", "fsx", "iam", "kms", "service-quotas", "sts")
# Patterns that are not checked: FSx uses them for SVMs and OpenZFS.
UNTRANSLATED = {r"^(?i)(true|false)$"}


@pytest.mark.parametrize(
    ("service", "ask", "code", "words"),
    [
        ("ec2", lambda ec2: ec2.allocate_address(Domain="moon"), "InvalidParameterValue", r"\(moon\) for parameter domain"),
        ("ec2", lambda ec2: ec2.describe_route_tables(MaxResults=2000), "InvalidParameterValue", "maxResults is invalid"),
        (
            "autoscaling",
            lambda groups: groups.describe_auto_scaling_groups(AutoScalingGroupNames=["x" * 256]),
            "ValidationError",
            r"'autoScalingGroupNames.1.member' failed.*length less than or equal to 255",
        ),
        (
            "autoscaling",
            lambda groups: groups.delete_auto_scaling_group(AutoScalingGroupName="a\x00"),
            "ValidationError",
            r"'a\?'.*pattern",
        ),
        ("efs", lambda efs: efs.create_file_system(CreationToken="x", PerformanceMode="fast"), VALIDATION, r"enum value set: \[general"),
        ("efs", lambda efs: efs.delete_file_system(FileSystemId="fake-id"), VALIDATION, "'fake-id' at 'fileSystemId' .* pattern: "),
        ("fsx", lambda fsx: fsx.describe_file_systems(FileSystemIds=["fs-not-hexadecimal"]), VALIDATION, "pattern"),
        ("iam", lambda iam: iam.get_role(RoleName="no role"), "ValidationError", r"'no role' at 'roleName'"),
        ("kms", lambda kms: kms.create_key(KeySpec="TRIPLE"), VALIDATION, "enum"),
        ("kms", lambda kms: kms.schedule_key_deletion(KeyId="x", PendingWindowInDays=400), VALIDATION, "value less than or equal to 365"),
        ("ssm", lambda ssm: ssm.put_parameter(Name="x", Value="x", Type="Secret"), VALIDATION, "enum"),
    ],
)
def test_values_outside_of_the_model_are_refused(account: Account, service: str, ask: Callable[..., Any], code: str, words: str) -> None:
    with pytest.raises(ClientError, match=words) as caught:
        ask(account.client(service))
    assert caught.value.response["Error"]["Code"] == code


def test_types_that_sdks_may_not_know_yet_are_for_the_service_to_judge(account: Account) -> None:
    with pytest.raises(ClientError, match="p9000"):
        account.run(account.subnets("a")[0], InstanceType="p9000.large")


def test_patterns_that_are_not_looked_at_are_known() -> None:
    session, patterns = get_session(), set()
    for service in CALLED:
        shapes = session.get_service_model(service)._shape_resolver._shape_map.values()
        patterns |= {shape["pattern"] for shape in shapes if "pattern" in shape}
    assert {each for each in patterns if expression(each) is None} == UNTRANSLATED


@pytest.mark.parametrize("text", ["K\u00f6ln 1_.:/=+-@", "\u6771\u4eac"])
def test_tags_may_have_letters_of_all_alphabets(account: Account, text: str) -> None:
    made = account.efs.create_file_system(CreationToken=account.name("token"), Tags=[{"Key": text, "Value": text}])
    assert made["Tags"] == [{"Key": text, "Value": text}]


@pytest.mark.parametrize("call", ["create_vpc", "create_internet_gateway", "allocate_address"])
def test_a_call_tags_nothing_but_what_it_makes(account: Account, call: str) -> None:
    wrong = [{"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "b"}]}]
    more = {"CidrBlock": "10.0.0.0/16"} if call == "create_vpc" else {}
    with pytest.raises(ClientError, match=r"InvalidParameterValue.*'instance' is not a valid taggable resource type"):
        getattr(account.ec2, call)(TagSpecifications=wrong, **more)


def test_only_nitro_instances_tell_the_latest_of_their_console(account: Account) -> None:
    subnet = account.subnets("a")[0]
    (xen,), (nitro,) = account.run(subnet, InstanceType="m4.large"), account.run(subnet, InstanceType="m5.large")
    account.ec2.get_console_output(InstanceId=nitro["InstanceId"], Latest=True)
    account.ec2.get_console_output(InstanceId=xen["InstanceId"])
    with pytest.raises(ClientError, match="UnsupportedOperation"):
        account.ec2.get_console_output(InstanceId=xen["InstanceId"], Latest=True)


def test_an_association_goes_with_its_subnet(account: Account) -> None:
    vpc = account.vpc()
    (subnet,) = account.subnets("a", vpc)
    table = account.ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    association = account.ec2.associate_route_table(SubnetId=subnet, RouteTableId=table)["AssociationId"]
    account.ec2.delete_subnet(SubnetId=subnet)
    with pytest.raises(ClientError, match="InvalidAssociationID"):
        account.ec2.disassociate_route_table(AssociationId=association)
    account.ec2.delete_route_table(RouteTableId=table)
