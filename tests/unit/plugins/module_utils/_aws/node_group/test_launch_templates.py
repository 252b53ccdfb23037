# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Network interfaces follow from an instance type's facts, images from public parameters, and launch templates read as written."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import ClusterError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import images, instance_types, launch_templates, volumes

BOTH = ("interface", "efa", "efa-only")


def described(cards, most, **network):
    """An entry of DescribeInstanceTypes whose network cards have these capacities and interface types."""
    return {
        "InstanceType": "x.large",
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "PlacementGroupInfo": {"SupportedStrategies": ["cluster", "spread"]},
        "EbsInfo": {"EbsOptimizedSupport": "default"},
        "NetworkInfo": {
            "EfaSupported": most > 0,
            "EfaInfo": {"MaximumEfaInterfaces": most},
            "NetworkCards": [
                {"NetworkCardIndex": index, "MaximumNetworkInterfaces": capacity, **({"InterfaceTypes": list(types)} if types else {})}
                for index, (capacity, types) in enumerate(cards)
            ][::-1],
            **network,
        },
    }


@pytest.mark.parametrize(
    ("cards", "most", "expected"),
    [
        ([(15, BOTH)], 1, [(0, 0, "efa")]),
        ([(15, None)], 1, [(0, 0, "efa")]),
        ([(15, BOTH)] * 4, 4, [(0, 0, "interface"), (0, 1, "efa-only"), (1, 0, "efa-only"), (2, 0, "efa-only"), (3, 0, "efa-only")]),
        # The first card may be for ENA alone, as that of P6-B300 is
        ([(4, ["interface"]), (4, BOTH), (4, BOTH)], 2, [(0, 0, "interface"), (1, 0, "efa-only"), (2, 0, "efa-only")]),
        # A card that takes one interface cannot have the adapter beside the primary interface
        ([(1, BOTH), (1, BOTH)], 2, [(0, 0, "efa"), (1, 0, "efa-only")]),
        # Two cards and one adapter, as I7ie has it
        ([(15, BOTH), (15, BOTH)], 1, [(0, 0, "efa")]),
        ([(15, ["interface"]), (15, BOTH)], 1, [(0, 0, "interface"), (1, 0, "efa-only")]),
        ([(2, BOTH), (2, ["interface", "efa"])], 2, [(0, 0, "interface"), (0, 1, "efa-only"), (1, 1, "efa")]),
        ([(2, ["interface", "efa"]), (1, ["interface", "efa"])], 2, [(0, 0, "efa"), (1, 0, "efa")]),
    ],
    ids=[
        "one card",
        "one card of types unknown",
        "four cards",
        "ENA first",
        "single device",
        "one of two",
        "second of two",
        "efa",
        "no efa-only",
    ],
)
def test_an_adapter_on_every_card_that_takes_one(cards, most, expected):
    instance_type = instance_types.parse(described(cards, most))
    assert list(instance_types.interfaces(instance_type, efa=True)) == expected
    assert list(instance_types.interfaces(instance_type, efa=False)) == [(0, 0, "interface")]


def test_cards_of_unknown_types_are_not_guessed():
    instance_type = instance_types.parse(described([(2, BOTH), (2, None)], 2))
    with pytest.raises(
        ClusterError, match=r"efa: EC2 does not say which of the 2 network cards of x\.large take an Elastic Fabric Adapter"
    ):
        instance_types.interfaces(instance_type, efa=True)
    assert list(instance_types.interfaces(instance_type, efa=False)) == [(0, 0, "interface")]


def test_facts_of_a_type_without_adapters():
    entry = described([(3, ["interface"])], 0)
    del entry["NetworkInfo"]["EfaInfo"]
    entry["ProcessorInfo"]["SupportedArchitectures"] = ["i386", "x86_64"]
    entry["EbsInfo"]["EbsOptimizedSupport"] = "unsupported"
    found = instance_types.parse(entry)
    assert (found.most_adapters, found.architecture, found.ebs_optimized) == (0, "x86_64", False)


def test_images_by_framework_and_system():
    names = {
        "base-oss-nvidia-driver-gpu-ubuntu-22.04": ("base", "ubuntu-22.04"),
        "oss-nvidia-driver-gpu-pytorch-2.7-ubuntu-22.04": ("pytorch-2.7", "ubuntu-22.04"),
        "oss-nvidia-driver-gpu-tensorflow-2.18-amazon-linux-2023": ("tensorflow-2.18", "amazon-linux-2023"),
        "base-with-single-cuda-ubuntu-24.04": ("base-with-single-cuda", "ubuntu-24.04"),
    }
    of_amazon_linux_2 = "oss-nvidia-driver-gpu-pytorch-1.13-amazon-linux-2"
    parameters = [{"Name": f"/aws/service/deeplearning/ami/x86_64/{name}/latest/ami-id", "Value": name} for name in names]
    others = [{"Name": f"/aws/service/deeplearning/ami/x86_64/{of_amazon_linux_2}/latest/ami-id", "Value": "x"}]
    others += [{"Name": parameters[0]["Name"].replace("ami-id", "release-notes"), "Value": "x"}]
    assert images.catalog([*parameters, *others]) == {place: name for name, place in names.items()}


@pytest.mark.parametrize(
    ("image", "system"),
    [
        ({"Name": "amzn2-ami-hvm-2.0.20250101.0-x86_64-gp2"}, "Amazon Linux 2 or older"),
        ({"Name": "amzn-ami-hvm-2018.03.0.20230207.0-x86_64-gp2"}, "Amazon Linux 2 or older"),
        ({"Name": "Deep Learning AMI GPU PyTorch 1.13.1 (Amazon Linux 2) 20231103"}, "Amazon Linux 2 or older"),
        ({"Name": "Windows_Server-2022-English-Full-Base", "Platform": "windows"}, "Windows"),
        ({"Name": "Deep Learning Base OSS Nvidia Driver GPU AMI (Amazon Linux 2023) 20250601"}, None),
        ({"Name": "al2023-ami-2023.7.20250101.0-kernel-6.1-x86_64"}, None),
        ({"Name": "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-20250101"}, None),
        ({}, None),
    ],
)
def test_systems_that_nodes_cannot_have(image, system):
    assert images.unsupported_system(image) == system


def disk(**changes):
    options = {"root_volume_type": "gp3", "root_volume_size": 100, "root_volume_iops": None, "root_volume_throughput": None}
    return {**options, **{f"root_volume_{name}": value for name, value in changes.items()}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (disk(), ""),
        (disk(type="gp2"), ""),
        (disk(iops=6000, throughput=1000), ""),
        (disk(type="io2", iops=64000), ""),
        (disk(size=8, iops=3000), ""),
        (disk(type="io1"), "root_volume_iops: missing. io1 volumes need a number, from 100 to 64000"),
        (disk(iops=100), "root_volume_iops: 100 is not possible, gp3 volumes take 3000 to 80000"),
        (disk(type="gp2", iops=3000), "root_volume_iops: 3000 cannot be set for gp2 volumes"),
        (disk(type="io1", iops=6000), "root_volume_iops: 6000 are too many for 100 GiB, io1 volumes have 50 per GiB"),
        (disk(type="io2", iops=1000, throughput=500), "root_volume_throughput: 500 cannot be set for io2 volumes"),
        (disk(throughput=2500, iops=16000), "root_volume_throughput: 2500 is not possible"),
        (disk(throughput=1000), "root_volume_throughput: 1000 MiB/s need at least 4000 operations"),
        (disk(type="gp2", size=20000), "root_volume_size: 20000 GiB are too many for gp2 volumes, 16384 are possible"),
    ],
)
def test_root_volumes(options, message):
    found = " ".join(volumes.findings(options))
    assert bool(found) == bool(message)
    assert message in found


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


def test_the_order_of_interfaces_does_not_matter():
    interfaces = ((0, 0, "interface"), (0, 1, "efa-only"), (1, 0, "efa-only"), (2, 0, "efa-only"))
    data = launch_templates._template_data({**PROPERTIES, "interfaces": interfaces, "public_address": False})
    secondary = data["NetworkInterfaces"].pop()
    data["NetworkInterfaces"] = [{**secondary, "Groups": ["sg-3"]}, *data["NetworkInterfaces"][::-1]]
    found = launch_templates._template_properties(data)
    assert found["interfaces"] == interfaces
    assert found["security_groups"] == {"sg-1", "sg-2"}, "those of the primary interface"


def test_on_demand_leaves_the_market_and_reservations_to_aws():
    data = launch_templates._template_data(PROPERTIES)
    assert not {"InstanceMarketOptions", "CapacityReservationSpecification", "Placement", "EbsOptimized"} & data.keys()
    assert data["BlockDeviceMappings"][0]["Ebs"].keys() == {"VolumeSize", "VolumeType", "Encrypted", "DeleteOnTermination"}


def test_several_interfaces_do_not_speak_of_a_public_address():
    interfaces = ((0, 0, "efa"), (1, 1, "efa-only"))
    data = launch_templates._template_data({**PROPERTIES, "interfaces": interfaces, "public_address": False})
    assert not any("AssociatePublicIpAddress" in item for item in data["NetworkInterfaces"])
    assert [item["Groups"] for item in data["NetworkInterfaces"]] == [["sg-1", "sg-2"]] * 2
