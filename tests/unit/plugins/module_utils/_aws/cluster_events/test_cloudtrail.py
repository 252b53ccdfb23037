"""Tests of what events of CloudTrail's history mean. The records have the forms that AWS documents."""

from __future__ import annotations

import gzip
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import botocore
import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.cluster_events import cloudtrail
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.cluster_events.scaling_activities import LifeOfNode

NODE, VPC, NAT = "i-0123456789abcdef0", "vpc-0123456789abcdef0", "nat-0123456789abcdef0"
SINCE = datetime(2026, 9, 21, tzinfo=UTC)
NOW = datetime(2026, 9, 28, tzinfo=UTC)
ACCOUNT = "123456789012"
ALICE = {"type": "IAMUser", "arn": "arn:aws:iam::123456789012:user/alice"}
GROUPS = ("c-master", "c-workers")


LEASE_OF_WORKERS = {"groupName": "c-nodes-lease", "name": "workers"}


def record(name, request=None, response=None, source="ec2", **more):
    common = {"eventID": f"{name}-{len(str((request, response, more)))}", "eventTime": "2026-09-21T14:13:20Z", "readOnly": False}
    elements = {"requestParameters": request, "responseElements": response}
    return {**common, "eventName": name, "eventSource": f"{source}.amazonaws.com", "userIdentity": ALICE, **elements, **more}


def tags(value, key="deeplearning:cluster"):
    return {"tagSpecificationSet": {"items": [{"resourceType": "vpc", "tags": [{"key": key, "value": value}]}]}}


def read(*records, nodes=(NODE,)):
    """Return the events and the nodes for a history that returns all records to each look-up."""
    pages = [{"Events": [{"CloudTrailEvent": json.dumps(each)} for each in records]}]
    client = MagicMock()
    client.get_paginator.return_value.paginate.side_effect = lambda **_arguments: iter(pages)
    found = {name: LifeOfNode(name, "workers") for name in nodes}
    return trail(client).read(GROUPS, found, SINCE, {}), found


def trail(client):
    return cloudtrail.Trail(SimpleNamespace(cluster="c", region="us-east-1", now=NOW, cloudtrail=client))


@pytest.mark.parametrize(
    ("one", "resources"),
    [
        (record("TerminateInstances", {"instancesSet": {"items": [{"instanceId": NODE}, {"instanceId": "i-00000001"}]}}), [NODE]),
        (record("TerminateInstanceInAutoScalingGroup", {"instanceId": NODE}, source="autoscaling"), [NODE]),
        (record("BidEvictedEvent", serviceEventDetails={"instanceIdSet": [NODE]}), [NODE]),
        (record("UpdateAutoScalingGroup", {"autoScalingGroupName": "c-workers"}, source="autoscaling"), ["c-workers"]),
        (record("CreateVpc", tags("c"), {"vpc": {"vpcId": VPC}}), [VPC]),
        (
            record(
                "CreateNatGateway",
                {"CreateNatGatewayRequest": {"TagSpecification": {"Tag": [{"Key": "deeplearning:cluster", "Value": "c"}]}}},
                {"CreateNatGatewayResponse": {"natGateway": {"natGatewayId": NAT}}},
            ),
            [NAT],
        ),
        (
            record("CreateFileSystem", {"tags": [{"key": "deeplearning:cluster", "value": "c"}]}, {"fileSystemId": "fs-1"}, "fsx"),
            ["fs-1"],
        ),
    ],
)
def test_an_event_of_the_cluster(one, resources):
    (event,), _nodes = read(one)
    assert (event.action, event.resources, event.caller, event.error) == (one["eventName"], resources, ALICE["arn"], "")
    assert event.time == datetime(2026, 9, 21, 14, 13, 20, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "one",
    [
        # Others' resources, with names and tags of the cluster's
        record("TerminateInstances", {"instancesSet": {"items": [{"instanceId": "i-00000001"}]}}),
        record("CreateVpc", tags("c-2"), {"vpc": {"vpcId": VPC}}),
        record("CreateVpc", tags("c", "Name"), {"vpc": {"vpcId": VPC}}),
        record("CreateVpc", tags(NODE, "Name"), {"vpc": {"vpcId": VPC}}),
        record("CreateVpc", tags("c-workers", "Name"), {"vpc": {"vpcId": VPC}}),
        record("CreateRole", {"roleName": "c-workers"}, source="iam"),
        record("CreateThing", {"autoScalingGroupName": "c-workers"}, source="other"),
        record("UpdateAutoScalingGroup", {"autoScalingGroupName": "c-workers-2"}, source="autoscaling"),
        record("UpdateAutoScalingGroup", {"autoScalingGroupName": "x", "vPCZoneIdentifier": "c-workers"}, source="autoscaling"),
        record("UpdateSchedule", {"groupName": "c-nodes-lease-2", "name": "workers"}, source="scheduler"),
        record("UpdateSchedule", {"groupName": "c-nodes-lease", "name": "x"}, source="scheduler"),
        record("UpdateSchedule", {"groupName": "c-nodes-lease", "name": "workers"}, source="other"),
        record("UpdateSchedule", {"groupName": "x", "name": "workers", "description": "c-nodes-lease/workers"}, source="scheduler"),
        # Attempts that runs repeat until they succeed
        record("UpdateSchedule", LEASE_OF_WORKERS, source="scheduler", errorCode="ResourceNotFoundException"),
        # Not changes, or known from scaling activities, or too early
        record("DescribeInstances", {"instancesSet": {"items": [{"instanceId": NODE}]}}, readOnly=True),
        record("RunInstances", {}, {"instancesSet": {"items": [{"instanceId": NODE}]}}),
        record("TerminateInstances", {"x": NODE}, userIdentity={"arn": "arn:x", "invokedBy": "autoscaling.amazonaws.com"}),
        record(
            "DeleteAutoScalingGroup",
            {"autoScalingGroupName": "c-workers"},
            source="autoscaling",
            errorCode="ValidationException",
            errorMessage="AutoScalingGroup name not found - null",
        ),
        record("TerminateInstances", {"x": NODE}, eventTime="2026-09-20T00:00:00Z"),
        record("TerminateInstances", None, None),
    ],
)
def test_what_is_no_event_of_the_cluster(one):
    assert read(one)[0] == []


def services_with(names):
    """Return the pairs of a service of AWS and one of its operations with one of the names."""
    operation = re.compile(rf'"({"|".join(names)})":\s*\{{\s*"name"'.encode())
    models = [gzip.decompress(path.read_bytes()) for path in Path(botocore.__file__).parent.glob("data/*/*/service-2.json.gz")]
    named = [(found, model) for model in models if (found := operation.findall(model))]
    return {(re.search(rb'"endpointPrefix":\s*"([^"]+)"', model)[1].decode(), name.decode()) for found, model in named for name in found}


def test_events_of_other_services_with_the_same_names_are_ignored():
    names = {*cloudtrail.ENDS, *cloudtrail.CREATIONS, *cloudtrail.DELETIONS, *cloudtrail.SCHEDULES, cloudtrail.RUN, cloudtrail.TAG}
    shared = services_with(names)
    others = [(service, name) for service, name in shared if service not in cloudtrail.SERVICES.get(name, ("autoscaling", "ec2"))]
    assert {("databrew", "CreateSchedule"), ("medialive", "DeleteSchedule"), ("redshift", "CreateTags")} <= {*others}
    assert {name for _service, name in shared - {*others}} == names - {"BidEvictedEvent"}
    number = {"tagSet": [{"key": "deeplearning:number", "value": "9"}]}
    named = {"name": NODE, "resourcesSet": {"items": [{"resourceId": NODE}]}, **tags("c"), **number}
    for service, name in others:
        for more in ({}, {"errorCode": "AccessDenied"}):
            events, nodes = read(record(name, named, {"fileSystemId": "fs-1", "x": NODE}, service, **more))
            assert (events, nodes[NODE].name) == ([], ""), (service, name)


def test_the_adopted_vpc_of_a_nat_gateway_is_not_the_clusters_own():
    made = {"natGateway": {"natGatewayId": NAT, "vpcId": VPC}}
    gateway, subnet = record("CreateNatGateway", tags("c"), made), record("CreateSubnet", {"vpcId": VPC}, {"subnet": {"vpcId": VPC}})
    assert [event.resources for event in read(gateway, subnet)[0]] == [[NAT]]


def test_a_call_that_failed_has_its_error_and_a_service_is_a_caller():
    failed, evicted = (
        record("TerminateInstances", {"x": NODE}, errorCode="Client.UnauthorizedOperation"),
        record("BidEvictedEvent", userIdentity={"invokedBy": "ec2.amazonaws.com"}, serviceEventDetails={"instanceIdSet": [NODE]}),
    )
    first, second = read(failed, evicted)[0]
    assert (first.error, second.caller) == ("Client.UnauthorizedOperation", "ec2.amazonaws.com")


def of_role(name="c-nodes-lease-us-east-1", account=ACCOUNT, path="/deeplearning/", session="x"):
    issuer = {"type": "Role", "arn": f"arn:aws:iam::{account}:role{path}{name}", "accountId": account, "userName": name}
    arn = f"arn:aws:sts::{account}:assumed-role/{name}/{session}"
    return {"type": "AssumedRole", "arn": arn, "accountId": account, "sessionContext": {"sessionIssuer": issuer}}


def deletion(identity, **more):
    request = {"autoScalingGroupName": "c-workers", "forceDelete": True}
    return record("DeleteAutoScalingGroup", request, source="autoscaling", recipientAccountId=ACCOUNT, userIdentity=identity, **more)


@pytest.mark.parametrize(("role", "ended_by"), [("c-nodes-lease-us-east-1", "lease"), ("c-nodes-idle-us-east-1", "idle")])
def test_the_role_of_a_deletion_tells_why_aws_has_ended_the_nodes(role, ended_by):
    assert [event.ended_by for event in read(deletion(of_role(role)))[0]] == [ended_by]


@pytest.mark.parametrize(
    "identity",
    [
        ALICE,
        {"type": "IAMUser", "arn": f"arn:aws:iam::{ACCOUNT}:user/deeplearning/c-nodes-lease-us-east-1"},
        of_role("operators", session="c-nodes-lease-us-east-1"),
        of_role("c-nodes-us-east-1"),
        of_role("c-nodes-lease-us-east-1-2"),
        of_role("x-c-nodes-lease-us-east-1"),
        of_role("c-nodes-lease-eu-west-1"),
        of_role("c-2-nodes-lease-us-east-1"),
        of_role(account="210987654321"),
        of_role(path="/"),
        of_role(path="/deeplearning/x/"),
    ],
)
def test_no_other_caller_ends_the_lease(identity):
    assert [event.ended_by for event in read(deletion(identity))[0]] == [""]


def test_a_denied_deletion_has_ended_nothing():
    assert [event.ended_by for event in read(deletion(of_role(), errorCode="AccessDenied"))[0]] == [""]


@pytest.mark.parametrize(
    ("request_", "schedule", "ended_by"),
    [
        (LEASE_OF_WORKERS, "c-nodes-lease/workers", "lease"),
        ({"GroupName": "c-nodes-lease", "Name": "master"}, "c-nodes-lease/master", "lease"),
        ({"groupName": "c-nodes-idle", "name": "check"}, "c-nodes-idle/check", "idle"),
    ],
)
def test_changes_of_the_schedules_that_end_the_nodes(request_, schedule, ended_by):
    (event,) = read(record("UpdateSchedule", request_, source="scheduler"))[0]
    assert (event.resources, event.ended_by, event.caller, event.error) == ([schedule], ended_by, ALICE["arn"], "")
    (denied,) = read(record("DeleteSchedule", request_, source="scheduler", errorCode="AccessDeniedException"))[0]
    assert denied.error == "AccessDeniedException"


def test_launches_tell_the_types_of_nodes_that_are_gone():
    items = [
        {"instanceId": NODE, "instanceType": "g5.xlarge", "placement": {"availabilityZone": "us-east-1a"}},
        {"instanceId": "i-00000001", "instanceType": "p5.48xlarge", "instanceLifecycle": "spot"},
        {"instanceId": "i-00000002", "instanceType": "t3.micro"},
    ]
    nodes = read(record("RunInstances", {}, {"instancesSet": {"items": items}}), nodes=(NODE, "i-00000001"))[1]
    assert (nodes[NODE].instance_type, nodes[NODE].market, nodes[NODE].zone) == ("g5.xlarge", "on-demand", "us-east-1a")
    assert (nodes["i-00000001"].instance_type, nodes["i-00000001"].market) == ("p5.48xlarge", "spot")
    assert "i-00000002" not in nodes


OMITTED = {"omitted": True, "originalSize": 149893, "reason": "responseElements too large"}
DATA = {"ImageId": "ami-1", "InstanceType": "p5.48xlarge", "InstanceMarketOptions": {"MarketType": "capacity-block"}}


def version(number, data):
    request = {"CreateLaunchTemplateVersionRequest": {"LaunchTemplateId": "lt-1", "LaunchTemplateData": data}}
    made = {"launchTemplateVersion": {"launchTemplateId": "lt-1", "versionNumber": number, "defaultVersion": False}}
    return record("CreateLaunchTemplateVersion", request, {"CreateLaunchTemplateVersionResponse": made})


def launched(group="c-workers", response=OMITTED, **asked):
    """Return a call of Auto Scaling, which has launched several instances with version 2 of a launch template."""
    tag = {"resourceType": "instance", "tags": [{"key": "aws:autoscaling:groupName", "value": group}]}
    template = {"launchTemplate": {"launchTemplateId": "lt-1", "version": "2"}, "availabilityZone": "us-east-1d"}
    request = {"instancesSet": {"items": [{"minCount": 1, "maxCount": 8}]}, "tagSpecificationSet": {"items": [tag]}, **template, **asked}
    return record("RunInstances", request, response, userIdentity={"arn": "arn:x", "invokedBy": "autoscaling.amazonaws.com"})


def described(*records, launched_at=-30.0):
    node = LifeOfNode(NODE, "workers", launched_at=datetime(2026, 9, 21, 14, 13, 20, tzinfo=UTC).timestamp() + launched_at)

    def pages(**asked):
        name = asked["LookupAttributes"][0]["AttributeValue"]
        yield {"Events": [{"CloudTrailEvent": json.dumps(each)} for each in records if each["eventName"] == name]}

    client = MagicMock()
    client.get_paginator.return_value.paginate.side_effect = pages
    history = trail(client)
    assert history.read(GROUPS, {NODE: node}, SINCE, {}) == []
    is_said = not node.instance_type and "c-workers" in map(cloudtrail._omitted_group, records)
    assert history.problems == [{"kind": "omitted", "message": NODE}] * is_said
    return node.instance_type, node.market, node.zone


def test_the_launch_template_tells_the_type_if_the_answer_was_too_long():
    block = ("p5.48xlarge", "capacity-block", "us-east-1d")
    templates = [version(1, {"InstanceType": "g5.xlarge"}), version(2, DATA), version(3, {"InstanceType": "t3.micro"})]
    assert described(*templates, launched()) == block
    assert described(*templates, {**launched(response=None), "omitted": True}) == block
    created = {"launchTemplate": {"launchTemplateId": "lt-2", "latestVersionNumber": 1}}
    first = record("CreateLaunchTemplate", {"CreateLaunchTemplateRequest": {"LaunchTemplateData": {"InstanceType": "g5.xlarge"}}}, created)
    asked = launched(launchTemplate={"launchTemplateId": "lt-2", "version": "1"})
    assert described(first, asked) == ("g5.xlarge", "on-demand", "us-east-1d")
    assert described(*templates, launched(instanceType="p5en.48xlarge"))[0] == "p5en.48xlarge"


def test_what_does_not_tell_the_type_of_a_node():
    for other in (launched("c-master"), launched(response={}), launched("c-workers-2")):
        assert described(version(2, DATA), other)[0] == ""
    assert described(version(2, DATA), launched(), launched_at=-90.0)[0] == ""
    assert described(version(3, DATA), launched())[0] == ""


def tagged(value, key="deeplearning:number", node=NODE, **more):
    items = {"items": [{"resourceId": node}]}
    return record("CreateTags", {"resourcesSet": items, "tagSet": {"items": [{"key": key, "value": value}]}}, {"_return": True}, **more)


def test_a_node_has_the_name_that_it_was_given_last():
    other = record("CreateTags", {"resourcesSet": {"items": [{"resourceId": "i-00000001"}]}}, {"_return": True})
    events, nodes = read(tagged("9", errorCode="Client.UnauthorizedOperation"), tagged("x", "Name"), other, tagged("3"), tagged("2"))
    assert (nodes[NODE].name, events) == ("c-worker3", [])
    assert read(tagged("03"), record("CreateTags"))[1][NODE].name == ""


def test_repeated_deletions_do_not_hide_the_first_one():
    """The groups were deleted four days ago because the nodes were idle, and every five minutes since then."""
    end, minute = NOW - timedelta(days=4), timedelta(minutes=1)
    missing = {"errorCode": "ValidationException", "errorMessage": "AutoScalingGroup name not found - null"}
    times = [f"{end + 5 * minute * number:%Y-%m-%dT%H:%M:%SZ}" for number in range(4 * 288)]
    role = of_role("c-nodes-idle-us-east-1")
    records = [deletion(role, eventTime=time, eventID=time, **(missing if time != times[0] else {})) for time in reversed(times)]
    looked_up = []

    def pages(**asked):
        looked_up.append(asked["LookupAttributes"][0]["AttributeValue"])
        first, last = (f"{asked.get(name, NOW):%Y-%m-%dT%H:%M:%SZ}" for name in ("StartTime", "EndTime"))
        found = [each for each in records if first <= each["eventTime"] <= last]
        for first in range(0, len(found), 50) if looked_up[-1] == "c-workers" else ():
            events = [{"CloudTrailEvent": json.dumps(each)} for each in found[first : first + 50]]
            yield {"Events": events, "NextToken": "x" if first + 50 < len(found) else ""}

    client, ids = MagicMock(), [f"i-{number}" for number in range(100)]
    client.get_paginator.return_value.paginate.side_effect = pages
    history = trail(client)
    nodes = {name: LifeOfNode(name, "workers", name, "g5.xlarge") for name in ids}
    events = history.read(GROUPS, nodes, SINCE, {name: (end + minute).timestamp() + int(name[2:]) for name in nodes})
    assert [(event.time, event.ended_by) for event in events] == [(end.timestamp(), "idle")]
    assert [(each["kind"], each["message"]) for each in history.problems] == [("truncated", "ResourceName c-workers")]
    assert (looked_up.count("c-workers"), {*looked_up} & {*ids}) == (2, set())


@pytest.mark.parametrize(
    ("asked", "until"),
    [
        ({"StartDate": 1790000000}, 1790000000.0),
        ({"startDate": "2026-09-21T14:13:20Z"}, 1790000000.0),
        ({"startDate": "Sep 21, 2026, 2:13:20 PM"}, 1790000000.0),
        ({"startDate": "HIDDEN"}, None),
        (None, None),
    ],
)
def test_the_history_may_tell_when_a_lease_ends(asked, until):
    assert cloudtrail._until({"requestParameters": asked}) == until
