"""Network interfaces: network cards and Elastic Fabric Adapters of instance types."""

from __future__ import annotations

from collections import Counter
from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.elastic_network_interfaces import Attachment
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.responses import EC2Response

from ..override import override

moto_modify_network_interface_attribute = EC2Response.modify_network_interface_attribute
moto_attachment = Attachment.__init__

# A network interface in the format of a RunInstances request.
Interface = dict[str, Any]
EFA = ("efa", "efa-only")


@override(EC2Response)
def modify_network_interface_attribute(self: EC2Response) -> ActionResult:
    """Change the attributes that moto supports, and whether the interface is deleted with its instance."""
    attachment = self._get_param("Attachment")
    if not attachment:
        return moto_modify_network_interface_attribute(self)
    interface = self.ec2_backend.get_network_interface(self._get_param("NetworkInterfaceId"))
    if attachment.get("AttachmentId") != interface.attachment_id:
        raise EC2ClientError("InvalidAttachmentID.NotFound", f"The attachment ID '{attachment.get('AttachmentId')}' does not exist")
    self.error_on_dryrun()
    interface.delete_on_termination = attachment["DeleteOnTermination"]
    return EmptyResult()


def position(interface: Interface) -> tuple[int, int]:
    """Return the network card and the device index."""
    return int(interface.get("NetworkCardIndex") or 0), int(interface["DeviceIndex"])


def is_addressless(interface: Interface) -> bool:
    """Return whether the interface carries only EFA traffic and has no IP address."""
    return interface.get("InterfaceType") == "efa-only"


def check_interfaces(instance_type: str, interfaces: list[Interface]) -> None:
    """Raise the EC2 error for interfaces that an instance of the type cannot have."""
    if any(each.get("DeviceIndex") is None for each in interfaces):
        raise EC2ClientError("MissingParameter", "Each network interface requires a device index.")
    if len(interfaces) > 1 and any(each.get("AssociatePublicIpAddress") for each in interfaces):
        raise EC2ClientError(
            "InvalidParameterCombination",
            "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces.",
        )
    _check_positions(instance_type, interfaces)
    _check_efas(instance_type, [each for each in interfaces if each.get("InterfaceType") in EFA])


def _check_positions(instance_type: str, interfaces: list[Interface]) -> None:
    positions = [position(each) for each in interfaces]
    cards = _cards(instance_type)
    for card, count in Counter(card for card, _device in positions).items():
        if card not in cards:
            raise EC2ClientError(
                "InvalidParameterValue",
                f"Value ({card}) for parameter networkCardIndex is invalid. {instance_type} has network cards 0 to {max(cards)}.",
            )
        if count > cards[card]["MaximumNetworkInterfaces"]:
            raise EC2ClientError("AttachmentLimitExceeded", f"Interface count {count} exceeds the limit for {instance_type}")
    if len(set(positions)) < len(positions):
        raise EC2ClientError("InvalidParameterValue", "Each network interface requires a unique device index.")
    if positions and (0, 0) not in positions:
        raise EC2ClientError(
            "InvalidParameterCombination", "A network interface with device index 0 on network card 0 is required as the primary one."
        )


def _check_efas(instance_type: str, adapters: list[Interface]) -> None:
    network = INSTANCE_TYPES[instance_type]["NetworkInfo"]
    if not adapters:
        return
    if not network["EfaSupported"]:
        raise EC2ClientError("InvalidParameterCombination", f"{instance_type} instances do not support Elastic Fabric Adapters.")
    most = network["EfaInfo"]["MaximumEfaInterfaces"]
    crowded = len({position(each)[0] for each in adapters}) < len(adapters)
    if len(adapters) > most or crowded:
        raise EC2ClientError(
            "AttachmentLimitExceeded",
            f"EFA interface count {len(adapters)} exceeds the limit for {instance_type}: {most}, one on a network card",
        )
    for each in adapters:
        card, _device = position(each)
        if each["InterfaceType"] not in _cards(instance_type)[card]["InterfaceTypes"] or (
            each["InterfaceType"] == "efa-only" and position(each) == (0, 0)
        ):
            raise EC2ClientError(
                "InvalidParameterCombination", f"The interface type {each['InterfaceType']} is not supported at {position(each)}."
            )


def _cards(instance_type: str) -> dict[int, dict[str, Any]]:
    """Return the network cards by index."""
    return {card["NetworkCardIndex"]: card for card in INSTANCE_TYPES[instance_type]["NetworkInfo"]["NetworkCards"]}


@override(Attachment)
def __init__(self: Any, eni: Any) -> None:
    moto_attachment(self, eni)
    self.network_card_index = getattr(eni, "network_card_index", 0)
