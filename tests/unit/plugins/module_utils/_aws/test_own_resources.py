"""Readers of the cluster's resources with descriptions of resources that others have tagged: nothing but an ID, and the tags."""

from __future__ import annotations

import types

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws import own_resources
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import ClusterError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Request
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network import resources as network
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import (
    auto_scaling_groups,
    launch_templates,
    master_elastic_ip,
    placement,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.efs import resources as efs
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.lustre import resources as lustre

TAGS = {"deeplearning:cluster": "bert", "deeplearning:key": "workers"}
STATES = {"LifeCycleState": "available", "Lifecycle": "AVAILABLE", "FileSystemType": "LUSTRE"}
IDS = (
    *("VpcId", "SubnetId", "PublicIp", "NatGatewayId", "InternetGatewayId", "GroupId", "RouteTableId", "VpcEndpointId"),
    *("LaunchTemplateId", "GroupName", "FileSystemId", "AccessPointId", "AssociationId"),
)


class AwsClient:
    """Returns the same description for each kind of resource."""

    cluster = "bert"

    def __init__(self, description, version=None):
        self._description = description
        versions = {"LaunchTemplateVersions": [version or {}]}
        calls = {"describe_launch_template_versions": versions, "describe_vpc_attribute": {}}
        self.ec2 = types.SimpleNamespace(**{name: lambda answer=answer, **_: answer for name, answer in calls.items()})

    def filters(self, *more):
        return list(more)

    def comparable_tags(self, tags):
        return {tag["Key"]: tag["Value"] for tag in tags}

    def retrieve(self, *_arguments, **_more):
        return [self._description]


def request(cloud):
    return Request(cloud, {"state": "absent"})


READERS = {
    **{part.__name__.rpartition(".")[2]: (part.read, "network") for part in network.PARTS},
    "launch_templates": (launch_templates.read, "nodes"),
    "placement": (lambda cloud: placement.read(cloud, None), "nodes"),
    "auto_scaling_groups": (auto_scaling_groups.read, "nodes"),
    "elastic_ip": (master_elastic_ip.read, "nodes"),
    "efs": (lambda cloud: efs.read(request(cloud), []), "file_system"),
    "access_points": (lambda cloud: efs._read_access_points(request(cloud), None), "file_system"),
    "lustre": (lambda cloud: lustre.read(request(cloud), []), "lustre"),
    "links": (lambda cloud: lustre._links(cloud, "theirs"), "lustre"),
}


def described(component, *left_out):
    tags = {**TAGS, "deeplearning:component": component}
    tag_list = [{"Key": key, "Value": value} for key, value in tags.items() if key not in left_out]
    return {**STATES, **dict.fromkeys(IDS, "theirs"), "AutoScalingGroupName": "bert-workers", "Tags": tag_list}


def test_the_key_of_a_resource_comes_from_its_tags():
    own = described("nodes")
    assert list(own_resources.with_keys(AwsClient({}), [own, described("nodes", "deeplearning:key"), {}], "nodes")) == [("workers", own)]


@pytest.mark.parametrize("reader", READERS)
def test_a_resource_without_one_of_the_three_tags_is_skipped(reader):
    read, component = READERS[reader]
    for missing in ("deeplearning:cluster", "deeplearning:component", "deeplearning:key"):
        assert list(read(AwsClient(described(component, missing)))) == [], missing
    assert list(read(AwsClient(described("other")))) == []


@pytest.mark.parametrize("reader", [name for name in READERS if name != "internet_gateway"])  # which has nothing but an ID and tags
def test_a_resource_of_others_with_the_tags_is_named(reader):
    read, component = READERS[reader]
    message = r"^(theirs|bert-workers): the tags assign this resource to bert, .*remove its tag deeplearning:cluster"
    with pytest.raises(ClusterError, match=message):
        list(read(AwsClient(described(component))))


@pytest.mark.parametrize(
    "data",
    [
        {"UserData": "H4sIAAAAAAAAAw=="},  # compressed
        {"UserData": "a"},
        {"NetworkInterfaces": [{"NetworkInterfaceId": "eni-1"}, {"NetworkInterfaceId": "eni-2"}]},
        {"TagSpecifications": [{"Tags": []}]},
    ],
)
def test_a_launch_template_that_no_cluster_has_is_named(data):
    cloud = AwsClient({**described("nodes"), "LaunchTemplateName": "theirs"}, {"LaunchTemplateData": data, "VersionNumber": 1})
    with pytest.raises(ClusterError, match=r"^theirs: the tags assign this resource to bert"):
        list(launch_templates.read(cloud))
