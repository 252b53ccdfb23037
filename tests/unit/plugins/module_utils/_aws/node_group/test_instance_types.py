# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests that network interfaces are derived from the description of an instance type."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import ClusterError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import instance_types

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
