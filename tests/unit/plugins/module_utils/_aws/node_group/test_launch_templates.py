"""Tests that a launch template has the same properties when it is read as when it was created, and which nodes are outdated."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import launch_templates
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Found

PROPERTIES = {
    "instance_type": "p4d.24xlarge",
    "image_id": "ami-1",
    "root_device": "/dev/sda1",
    "root_volume_size": 100,
    "root_volume_type": "gp3",
    "root_volume_iops": 0,
    "root_volume_throughput": 0,
    "root_volume_kms_key": "",
    "ebs_optimized": False,
    "key_name": "k",
    "instance_profile": "p",
    "interfaces": ((0, 0, "interface"),),
    "security_groups": frozenset({"sg-2", "sg-1"}),
    "public_address": True,
    "placement_group": "",
    "market": "on-demand",
    "spot_max_price": "",
    "capacity_reservation": "",
    "user_data": "#cloud-config\n{}\n",
    "metadata_hop_limit": 1,
    "launched_tags": {"volume": {"Name": "bert-master"}, "network-interface": {"Name": "bert-master"}},
}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "root_volume_type": "io2",
            "root_volume_iops": 4000,
            "root_volume_throughput": 250,
            "root_volume_kms_key": "alias/x",
            "ebs_optimized": True,
        },
        {"interfaces": ((0, 0, "interface"), (0, 1, "efa-only"), (1, 0, "efa-only")), "public_address": False, "placement_group": "bert"},
        {"metadata_hop_limit": 2},
        {"market": "spot"},
        {"market": "spot", "spot_max_price": "0.5"},
        {"market": "capacity-reservation"},
        {"market": "capacity-reservation", "capacity_reservation": "cr-1"},
        {"market": "capacity-block", "capacity_reservation": "cr-1"},
    ],
)
def test_a_launch_template_reads_as_it_was_written(changes):
    properties = {**PROPERTIES, **changes}
    data = launch_templates._template_data(properties)
    assert launch_templates._template_properties(data) == properties
    assert properties.keys() == launch_templates.KIND.replacing | {"launched_tags"}


def test_only_spot_requests_have_tags():
    """AWS refuses tags of a Spot request without such a request, also in a version whose market waits until nodes are replaced."""
    for market in ("on-demand", "capacity-reservation", "spot"):
        data = launch_templates._template_data({**PROPERTIES, "market": market})
        kinds = [each["ResourceType"] for each in data["TagSpecifications"]]
        assert kinds == ["volume", "network-interface", *(["spot-instances-request"] if market == "spot" else [])]


@pytest.mark.parametrize(("returned", "expected"), [("40", "40"), ("40.000000", "40"), ("0.500000", "0.5"), ("12.50", "12.5"), ("", "")])
def test_a_price_is_the_same_with_any_number_of_zeros(returned, expected):
    data = launch_templates._template_data({**PROPERTIES, "market": "spot", "spot_max_price": returned})
    assert launch_templates._template_properties(data)["spot_max_price"] == expected


def test_the_order_of_interfaces_does_not_matter():
    interfaces = ((0, 0, "interface"), (0, 1, "efa-only"), (1, 0, "efa-only"), (2, 0, "efa-only"))
    data = launch_templates._template_data({**PROPERTIES, "interfaces": interfaces, "public_address": False})
    secondary = data["NetworkInterfaces"].pop()
    data["NetworkInterfaces"] = [{**secondary, "Groups": ["sg-3"]}, *data["NetworkInterfaces"][::-1]]
    found = launch_templates._template_properties(data)
    assert found["interfaces"] == interfaces
    assert found["security_groups"] == {"sg-1", "sg-2"}, "the groups come from the primary interface"


def test_on_demand_leaves_the_market_and_reservations_to_aws():
    data = launch_templates._template_data(PROPERTIES)
    assert not {"InstanceMarketOptions", "CapacityReservationSpecification", "Placement", "EbsOptimized"} & data.keys()
    assert data["BlockDeviceMappings"][0]["Ebs"].keys() == {"VolumeSize", "VolumeType", "Encrypted", "DeleteOnTermination"}


def test_several_interfaces_do_not_speak_of_a_public_address():
    interfaces = ((0, 0, "efa"), (1, 1, "efa-only"))
    data = launch_templates._template_data({**PROPERTIES, "interfaces": interfaces, "public_address": False})
    assert not any("AssociatePublicIpAddress" in item for item in data["NetworkInterfaces"])
    assert [item["Groups"] for item in data["NetworkInterfaces"]] == [["sg-1", "sg-2"]] * 2


TEMPLATE = Found(Address("launch_template", "workers"), "lt-new", PROPERTIES, {"version": "1"})


@pytest.mark.parametrize(
    ("template", "launched_from", "expected"),
    [
        (TEMPLATE, {"LaunchTemplateId": "lt-new", "Version": "1"}, ()),
        (TEMPLATE, {"LaunchTemplateId": "lt-former", "Version": "1"}, (2,)),
        (TEMPLATE, {"LaunchTemplateId": "lt-former", "Version": "3"}, (2,)),
        # AWS reports no launch template for an instance whose template was deleted
        (TEMPLATE, {}, (2,)),
        (None, {}, (2,)),
        (None, {"LaunchTemplateId": "lt-former", "Version": "1"}, (2,)),
        # The group does not list the instance
        (TEMPLATE, None, ()),
        (None, None, ()),
    ],
)
def test_nodes_of_a_deleted_launch_template_are_outdated(template, launched_from, expected):
    assert launch_templates.outdated(None, template, {2: launched_from}) == expected
