# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The properties of instance types, and the network interfaces of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..client import AwsClient, ClusterError
from ..component import Request
from ..message_parts import P
from .definition import EFA, EFA_ONLY, PLAIN, Interface


class NetworkCard(NamedTuple):
    """A network card: its index, the maximum number of interfaces, and the possible types of interfaces.

    `types` is empty if EC2 does not list the types.
    """

    number: int
    capacity: int
    types: frozenset[str]


# The lists of accelerators in a DescribeInstanceTypes response. Entries of NeuronInfo have no manufacturer.
ACCELERATORS = {
    "GpuInfo": "Gpus",
    "NeuronInfo": "NeuronDevices",
    "InferenceAcceleratorInfo": "Accelerators",
    "FpgaInfo": "Fpgas",
    "MediaAcceleratorInfo": "Accelerators",
}
ONE_INTERFACE: tuple[Interface, ...] = ((0, 0, PLAIN),)


@dataclass(frozen=True)
class InstanceType:
    """The properties of an instance type that determine how nodes are launched.

    `most_adapters` is the maximum number of EFA adapters, or 0 without EFA support. `accelerators` contains the manufacturers and names of
    GPUs and other accelerators, such as `NVIDIA H100`.
    """

    name: str
    architectures: frozenset[str]
    placement_strategies: frozenset[str]
    ebs_optimized: bool
    has_disks: bool
    most_adapters: int
    network_cards: tuple[NetworkCard, ...]
    accelerators: tuple[str, ...] = ()
    # Whether AWS shows the current console output of instances.
    shows_console: bool = True

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    @property
    def architecture(self) -> str:
        """Return the architecture of the images for this type. Old x86_64 types also support i386."""
        return "arm64" if "arm64" in self.architectures else "x86_64"


def parse(description: Mapping[str, Any]) -> InstanceType:
    network = description["NetworkInfo"]
    has_efa = network.get("EfaSupported", False)
    # If a type supports EFA and has only one network card, that card supports EFA, even if EC2 does not report it
    only = (PLAIN, EFA) if has_efa and len(network["NetworkCards"]) == 1 else ()
    return InstanceType(
        name=description["InstanceType"],
        architectures=frozenset(description["ProcessorInfo"]["SupportedArchitectures"]),
        placement_strategies=frozenset(description["PlacementGroupInfo"]["SupportedStrategies"]),
        # Amazon EC2 API Reference, GetConsoleOutput: the latest output is "supported on all instance types on the Nitro System"
        shows_console=description.get("Hypervisor") != "xen",
        has_disks=description.get("InstanceStorageSupported", False),
        ebs_optimized=description["EbsInfo"]["EbsOptimizedSupport"] != "unsupported",
        most_adapters=network["EfaInfo"]["MaximumEfaInterfaces"] if has_efa else 0,
        network_cards=tuple(
            NetworkCard(card["NetworkCardIndex"], card["MaximumNetworkInterfaces"], frozenset(card.get("InterfaceTypes") or only))
            for card in sorted(network["NetworkCards"], key=lambda card: int(card["NetworkCardIndex"]))
        ),
        accelerators=tuple(
            f"{device.get('Manufacturer', 'AWS')} {device['Name']}"
            for info, devices in ACCELERATORS.items()
            for device in description.get(info, {}).get(devices, [])
        ),
    )


def find(cloud: AwsClient, name: str) -> InstanceType | None:
    filters = [{"Name": "instance-type", "Values": [name]}]
    return next((parse(item) for item in cloud.retrieve_once("ec2", "describe_instance_types", "InstanceTypes", Filters=filters)), None)


def in_definition(request: Request) -> list[InstanceType]:
    named = [request.options["instance_type"], *(item["instance_type"] for item in request.options["alternatives"])]
    return [found for name in dict.fromkeys(named) if name and (found := find(request.cloud, name))]


def with_efa(cloud: AwsClient, name: str) -> list[str]:
    """Return the names of the types in the same family as `name` that support an Elastic Fabric Adapter, smaller types first."""
    filters = [
        {"Name": "instance-type", "Values": [name.split(".")[0] + ".*"]},
        {"Name": "network-info.efa-supported", "Values": ["true"]},
    ]
    found = cloud.retrieve_once("ec2", "describe_instance_types", "InstanceTypes", Filters=filters)
    return [item["InstanceType"] for item in sorted(found, key=lambda item: (item["VCpuInfo"]["DefaultVCpus"], item["InstanceType"]))]


def interfaces(instance_type: InstanceType, *, efa: bool) -> tuple[Interface, ...]:
    """Return the network interfaces of an instance.

    If `efa` is false, there is only one interface. If `efa` is true, every network card that supports EFA has an EFA adapter.

    Device 0 of card 0 is the primary interface. If a type supports only one adapter, the adapter is the primary interface. If a type
    supports several adapters, adapters without an IP address are used where possible, so that a node uses only one address of its subnet.
    An adapter without an IP address is device 1 on card 0, and device 0 on any other card. See
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html. Raises ClusterError for a type with several cards if EC2
    does not list their interface types.
    """
    if not efa:
        return ONE_INTERFACE
    first, *others = instance_type.network_cards
    if not all(card.types for card in instance_type.network_cards):
        raise ClusterError(
            f"{P}efa: EC2 does not report which of the {len(instance_type.network_cards)} network cards of {instance_type.name} support an "
            f"Elastic Fabric Adapter. Set {P}efa: false, or choose another instance type."
        )
    if instance_type.most_adapters == 1 and EFA in first.types:
        return ((first.number, 0, EFA),)
    result = _on_first_card(first)
    adapters = sum(interface_type != PLAIN for _card, _device, interface_type in result)
    more = [interface for card in others if (interface := _on_further_card(card))]
    return (*result, *more[: max(instance_type.most_adapters - adapters, 0)])


def _on_first_card(card: NetworkCard) -> list[Interface]:
    """Return the primary interface and, if the card supports one, an EFA adapter without an IP address."""
    if EFA_ONLY in card.types and card.capacity > 1:
        return [(card.number, 0, PLAIN), (card.number, 1, EFA_ONLY)]
    return [(card.number, 0, EFA if EFA in card.types else PLAIN)]


def _on_further_card(card: NetworkCard) -> Interface | None:
    """Return the EFA adapter on a network card other than the first one, or None if the card does not support EFA."""
    if EFA_ONLY in card.types:
        return (card.number, 0, EFA_ONLY)
    if EFA in card.types:
        # An adapter with an IP address is also an IP interface, which must be device 1 on all cards except the first one
        return (card.number, 0 if card.capacity == 1 else 1, EFA)
    return None
