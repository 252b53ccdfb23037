"""NAT gateways that take time to become available and to be deleted, and regional NAT gateways of other people."""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult
from moto.ec2 import utils
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend, nat_gateways
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.nat_gateways import NatGateway
from moto.ec2.responses import EC2Response
from moto.ec2.utils import generic_filter

from ..context import CLOUD
from ..override import override

utils.EC2_RESOURCE_TO_PREFIX["natgateway"] = "nat"
utils.EC2_PREFIX_TO_RESOURCE["nat"] = "natgateway"

moto_create_nat_gateway = EC2Response.create_nat_gateway


class DelayedNatGateway(NatGateway):
    """A NAT gateway that is `pending` at first, and `deleting` before it is `deleted`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.state = "pending"
        self.client_token: str | None = None
        self.failure_code: str | None = None
        self.failure_message: str | None = None
        interface = self._eni
        interface.status, interface.interface_type, interface.requester_managed = "in-use", "nat_gateway", True
        interface.description = f"Interface for NAT Gateway {self.id}"
        CLOUD.clock.after(CLOUD.delays.nat_gateway, self.become_available)

    def become_available(self) -> None:
        """Change the state to available, or to failed if the VPC has no internet gateway."""
        if self.state != "pending":
            return
        gateways = self.ec2_backend.internet_gateways.values()
        if self.connectivity_type == "private" or any(each.vpc and each.vpc.id == self.vpc_id for each in gateways):
            self.state = "available"
            return
        self.state = "failed"
        self.failure_code = "Gateway.NotAttached"
        self.failure_message = f"Network {self.vpc_id} has no Internet gateway attached"
        self._release_interface()

    def start_deletion(self) -> None:
        """Start the deletion. A failed gateway is deleted immediately."""
        if self.state in ("pending", "available"):
            self.state = "deleting"
            CLOUD.clock.after(CLOUD.delays.nat_gateway, self.finish_deletion)
        elif self.state == "failed":
            self.finish_deletion()

    def finish_deletion(self) -> None:
        """Release the interface and the address. The gateway stays listed for a while."""
        self._release_interface()
        self.state = "deleted"
        CLOUD.clock.after(CLOUD.delays.forget, self.forget)

    def forget(self) -> None:
        self.ec2_backend.nat_gateways.pop(self.id, None)
        self.ec2_backend.tags.pop(self.id, None)

    def get_filter_value(self, filter_name: str, method_name: str | None = None) -> Any:
        if filter_name == "nat-gateway-id":
            return self.id
        return super().get_filter_value(filter_name, "DescribeNatGateways")

    def _release_interface(self) -> None:
        backend = self.ec2_backend
        for address in backend.addresses:
            if address.eni is self._eni:
                backend.disassociate_address(address=address.public_ip)
        if self._eni.id in backend.enis:
            backend.delete_network_interface(self._eni.id)


class RegionalNatGateway(TaggedEC2Resource):
    """A NAT gateway of a VPC, which is in no subnet. It is available and deleted immediately."""

    connectivity_type, availability_mode, client_token = "public", "regional", None

    def __init__(self, backend: EC2Backend, vpc_id: str) -> None:
        self.ec2_backend: Any = backend
        self.id = self.nat_gateway_id = nat_gateways.random_nat_gateway_id()
        self.vpc_id, self.state, self.create_time = vpc_id, "available", CLOUD.utcnow()

    def start_deletion(self) -> None:
        self.state = "deleted"


nat_gateways.NatGateway = DelayedNatGateway  # type: ignore[misc]


@override(EC2Backend)
def describe_nat_gateways(self: EC2Backend, filters: Any, nat_gateway_ids: list[str] | None) -> list[Any]:
    gateways: list[Any] = list(self.nat_gateways.values())
    if nat_gateway_ids:
        gateways = [_nat_gateway(self, identifier) for identifier in nat_gateway_ids]
    return generic_filter(filters, gateways)


@override(EC2Backend)
def delete_nat_gateway(self: EC2Backend, nat_gateway_id: str) -> Any:
    gateway = _nat_gateway(self, nat_gateway_id)
    gateway.start_deletion()
    return gateway


@override(EC2Response)
def create_nat_gateway(self: EC2Response) -> ActionResult:
    """Create a gateway. A request with a known client token returns the earlier gateway."""
    token = self._get_param("ClientToken")
    for gateway in self.ec2_backend.nat_gateways.values():
        if token and gateway.client_token == token:
            return ActionResult({"NatGateway": gateway, "ClientToken": token})
    for address in self.ec2_backend.addresses:
        if address.allocation_id == self._get_param("AllocationId") and address.association_id:
            raise EC2ClientError("Resource.AlreadyAssociated", f"Elastic IP address [{address.allocation_id}] is already associated")
    if self._get_param("AvailabilityMode") == "regional":
        regional = RegionalNatGateway(self.ec2_backend, self.ec2_backend.get_vpc(self._get_param("VpcId")).id)
        self.ec2_backend.nat_gateways[regional.id] = regional
        return ActionResult({"NatGateway": regional, "ClientToken": token})
    result = moto_create_nat_gateway(self)
    list(self.ec2_backend.nat_gateways.values())[-1].client_token = token
    return result


def _nat_gateway(backend: EC2Backend, identifier: str) -> Any:
    try:
        return backend.nat_gateways[identifier]
    except KeyError:
        raise EC2ClientError("NatGatewayNotFound", f"The Nat Gateway {identifier} was not found") from None
