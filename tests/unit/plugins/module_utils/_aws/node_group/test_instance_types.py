"""Tests that network interfaces are derived from the description of an instance type."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import ClusterError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network.zones import zones
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import images, instance_types
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES

BOTH = ("interface", "efa", "efa-only")


def described(cards, most, **network):
    """Return an entry of DescribeInstanceTypes whose network cards have these capacities and interface types."""
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
        # The first card may support only ENA, as on P6-B300
        ([(4, ["interface"]), (4, BOTH), (4, BOTH)], 2, [(0, 0, "interface"), (1, 0, "efa-only"), (2, 0, "efa-only")]),
        # A card with one interface cannot have the adapter in addition to the primary interface
        ([(1, BOTH), (1, BOTH)], 2, [(0, 0, "efa"), (1, 0, "efa-only")]),
        # Two cards and one adapter, as on I7ie
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
        ClusterError, match=r"efa: EC2 does not report which of the 2 network cards of x\.large support an Elastic Fabric Adapter"
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


# All types that EC2 described in one region when moto recorded them
REAL = [instance_types.parse(description) for description in INSTANCE_TYPES.values()]
CARDS = {name: {card["NetworkCardIndex"]: card for card in item["NetworkInfo"]["NetworkCards"]} for name, item in INSTANCE_TYPES.items()}


def test_the_adapters_of_all_types_fit_their_network_cards():
    """Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html."""
    for instance_type in [item for item in REAL if item.most_adapters]:
        made = instance_types.interfaces(instance_type, efa=True)
        cards = CARDS[instance_type.name]
        assert made[0][:2] == (0, 0), instance_type.name
        assert len({place[:2] for place in made}) == len(made), instance_type.name
        assert sum(kind != "interface" for _card, _device, kind in made) == instance_type.most_adapters, instance_type.name
        for number, count in Counter(card for card, _device, _kind in made).items():
            assert count <= cards[number]["MaximumNetworkInterfaces"], instance_type.name
        for card, device, kind in made:
            assert kind in cards[card].get("InterfaceTypes", ["interface", "efa"]), instance_type.name
            ip_interface = 0 if cards[card]["MaximumNetworkInterfaces"] == 1 else 1
            assert device in ((0, 1) if card == 0 or kind != "efa" else (ip_interface,)), instance_type.name


def test_the_architecture_of_all_types_except_those_with_macos():
    for instance_type in REAL:
        assert instance_type.architecture in instance_type.architectures or instance_type.family.startswith("mac"), instance_type.name


def test_each_type_has_accelerators_of_one_kind():
    for instance_type in REAL:
        without = images.without_driver(instance_type.accelerators)
        assert without in ([], list(dict.fromkeys(instance_type.accelerators))), instance_type.name


# From AWS's documentation of accelerated instance types
WITH_DRIVER = {
    "g4dn",
    "g5",
    "g5g",
    "g6",
    "g6e",
    "g6f",
    "g7",
    "g7e",
    "gr6",
    "gr6f",
    "p4d",
    "p4de",
    "p5",
    "p5e",
    "p5en",
    "p6-b200",
    "p6-b300",
}
WITHOUT_DRIVER = {"dl2q", "f2", "inf1", "inf2", "p3dn", "trn1", "trn1n", "trn2", "vt1"}


def test_families_whose_accelerators_have_a_driver():
    accelerated = [item for item in REAL if item.accelerators]
    assert {item.family for item in accelerated if not images.without_driver(item.accelerators)} == WITH_DRIVER
    assert {item.family for item in accelerated if images.without_driver(item.accelerators)} == WITHOUT_DRIVER


@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1", "ap-northeast-1"])
def test_the_zone_of_a_cluster_offers_its_type(region):
    """The offerings are those of EC2 when moto recorded them."""
    offered = {}
    for item in INSTANCE_TYPE_OFFERINGS["availability-zone"][region]:
        offered.setdefault(item["InstanceType"], set()).add(item["Location"])
    names = set().union(*offered.values())

    def retrieve_once(_service, operation, _key, Filters, **_arguments):  # noqa: N803
        if operation == "describe_availability_zones":
            return [{"ZoneName": name} for name in names]
        return [{"Location": zone} for zone in offered[Filters[0]["Values"][0]]]

    cloud = SimpleNamespace(region=region, retrieve_once=retrieve_once)
    for name, places in offered.items():
        (zone,) = zones(SimpleNamespace(cloud=cloud, options={"instance_type": name}), [])
        assert zone in places
