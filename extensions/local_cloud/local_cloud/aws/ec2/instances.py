"""EC2 instances. Their states follow the states of their hosts."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2 import utils
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend, instances
from moto.ec2.models.instances import Instance, InstanceState, StateReason
from moto.ec2.responses import EC2Response

from ..capacity import ON_DEMAND
from ..cloudtrail import events
from ..context import CLOUD
from ..override import override
from . import guardduty

CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}
ENDING = ("shutting-down", "terminated")
BY_USER = StateReason("Client.UserInitiatedShutdown: User initiated shutdown", "Client.UserInitiatedShutdown")

INTERRUPTED = StateReason("Server.SpotInstanceTermination: Spot instance termination", "Server.SpotInstanceTermination")


class HostedInstance(Instance):
    """An instance that is pending until its host has booted, and shutting down until its host is removed."""

    def __init__(self, ec2_backend: Any, image_id: str, *args: Any, **kwargs: Any) -> None:
        self.public_keys: tuple[str, ...] = ()
        self.capacity_reservation_id: str | None = None
        self.capacity_reservation_specification: dict[str, Any] = {"CapacityReservationPreference": "open"}
        self.spot_instance_request_id: str | None = None
        self.interruption_time: datetime | None = None
        """The time at which AWS interrupts this Spot Instance, as the clock of its host shows it, according to its interruption notice."""
        super().__init__(ec2_backend, image_id, *args, **kwargs)
        self._become("pending")

    def launch(self) -> None:
        """Start the host, unless a test has requested that this launch fail."""
        if CLOUD.failing_launches[self.instance_type]:
            CLOUD.failing_launches[self.instance_type] -= 1
            CLOUD.clock.after(CLOUD.settings.tick, self.fail)
            return
        key_pair = self.ec2_backend.key_pairs.get(self.key_name)
        self.public_keys = (key_pair.public_key.strip(),) if key_pair else ()
        CLOUD.lifecycle.start(self)

    def start(self) -> InstanceState:
        before = copy.copy(self._state)
        if self.state == "stopped":
            super().start()
            self._become("pending")
            CLOUD.lifecycle.start(self)
        elif self.state not in ("pending", "running"):
            raise _incorrect_state(self, "started")
        return before

    def stop(self) -> InstanceState:
        before = copy.copy(self._state)
        if self.state in ("pending", "running"):
            super().stop()
            self._become("stopping")
            CLOUD.lifecycle.stop(self)
        elif self.state not in ("stopping", "stopped"):
            raise _incorrect_state(self, "stopped")
        return before

    def reboot(self) -> None:
        if self.state in ("pending", "running"):
            CLOUD.lifecycle.reboot(self)
        else:
            raise _incorrect_state(self, "rebooted")

    def terminate(self) -> InstanceState:
        before = copy.copy(self._state)
        self._end(f"User initiated ({CLOUD.utcnow():%Y-%m-%d %H:%M:%S} GMT)", BY_USER)
        return before

    def fail(self) -> None:
        """Terminate the pending instance."""
        self.lose("Internal error on launch")

    def lose(self, reason: str) -> None:
        """Terminate the instance because its host did not start or is lost."""
        self._end("Server.InternalError", StateReason(f"Server.InternalError: {reason}", "Server.InternalError"))

    def announce_interruption(self, seconds: float) -> None:
        """Give the Spot Instance an interruption notice, and interrupt the instance after `seconds`."""
        self.interruption_time = datetime.now(UTC) + timedelta(seconds=seconds)
        CLOUD.clock.after(seconds, self.interrupt)

    def interrupt(self) -> None:
        """Terminate a Spot Instance because AWS reclaims the capacity."""
        events.record_interruption(self.region_name, self.id)
        self._end(f"Service initiated ({CLOUD.utcnow():%Y-%m-%d %H:%M:%S} GMT)", INTERRUPTED)

    def become_running(self) -> None:
        if self.state == "pending":
            self._become("running")
            guardduty.protect(self)

    def become_stopped(self) -> None:
        if self.state == "stopping":
            self._become("stopped")

    def become_terminated(self) -> None:
        """Release the instance's addresses, interfaces, and volumes."""
        if self.state != "shutting-down":
            return
        reason, state_reason = self._reason, self.state_reason
        for interface in self.nics.values():
            _disassociate_addresses(interface)
        super().terminate()
        for interface in self.nics.values():
            interface.instance = interface.attachment_id = None
            interface.status = "available"
        self._reason, self.state_reason = reason, state_reason
        # As on AWS, a terminated instance has no subnet and no address. moto also releases addresses on garbage collection.
        self._private_ips, self._subnet_id, self.nics, self.security_groups = set(), None, {}, []
        CLOUD.clock.after(CLOUD.delays.forget, self.forget)

    def forget(self) -> None:
        """Remove the instance from all lists."""
        reservations = self.ec2_backend.reservations
        for number in [key for key, each in reservations.items() if self in each.instances]:
            reservations[number].instances.remove(self)
            if not reservations[number].instances:
                del reservations[number]
        self.ec2_backend.tags.pop(self.id, None)

    @property
    def market(self) -> str:
        return self.lifecycle or ON_DEMAND

    @property
    def holds_capacity(self) -> bool:
        return self.state not in (*ENDING, "stopped")

    @property
    def private_ip(self) -> str | None:
        return self.nics[0].private_ip_address if self.nics else None

    @property
    def private_ip_address(self) -> str | None:
        return self.private_ip

    @property
    def private_dns_name(self) -> str:
        return super().private_dns_name if self.nics else ""

    @property
    def public_ip(self) -> str | None:
        return self.nics[0].public_ip if self.nics else None

    @property
    def public_ip_address(self) -> str | None:
        return self.public_ip

    def attach_eni(self, eni: Any, device_index: int) -> str:
        """Attach an interface. Interfaces on different network cards may have the same device index."""
        slot = int(device_index)
        while slot in self.nics:
            slot += 1
        attachment: str = super().attach_eni(eni, slot)
        eni.device_index = int(device_index)
        return attachment

    def _end(self, reason: str, state_reason: StateReason) -> None:
        if self.state in ENDING:
            return
        self._become("shutting-down")
        self._reason, self.state_reason = reason, state_reason
        CLOUD.lifecycle.remove(self)

    def _become(self, state: str) -> None:
        self._state = InstanceState(state, CODES[state])


utils.filter_dict_attribute_mapping.update(
    {
        "capacity-reservation-id": "capacity_reservation_id",
        "client-token": "client_token",
        "placement-group-name": "placement.group_name",
        "iam-instance-profile.arn": "iam_instance_profile.Arn",
        "instance-lifecycle": "lifecycle",
        "root-device-type": "root_device_type",
        "spot-instance-request-id": "spot_instance_request_id",
        "tenancy": "placement.tenancy",
    }
)
instances.Instance = HostedInstance  # type: ignore[misc]


def _disassociate_addresses(interface: Any) -> None:
    for address in interface.ec2_backend.addresses:
        if address.eni is interface:
            interface.ec2_backend.disassociate_address(address=address.public_ip)


def _incorrect_state(instance: HostedInstance, wish: str) -> EC2ClientError:
    return EC2ClientError("IncorrectInstanceState", f"The instance '{instance.id}' is not in a state from which it can be {wish}.")


@override(EC2Backend)
def get_instance_by_id(self: EC2Backend, instance_id: str) -> Instance | None:
    for reservation in self.reservations.values():
        for instance in reservation.instances:
            if instance.id == instance_id:
                return instance
    return None


@override(EC2Response)
def start_instances(self: EC2Response) -> ActionResult:
    return _state_changes(self, "StartingInstances", self.ec2_backend.start_instances)


@override(EC2Response)
def stop_instances(self: EC2Response) -> ActionResult:
    return _state_changes(self, "StoppingInstances", self.ec2_backend.stop_instances)


@override(EC2Response)
def terminate_instances(self: EC2Response) -> ActionResult:
    return _state_changes(self, "TerminatingInstances", self.ec2_backend.terminate_instances)


def _state_changes(response: EC2Response, result: str, change: Any) -> ActionResult:
    identifiers = response._get_param("InstanceIds", [])
    response.error_on_dryrun()
    return ActionResult(
        {
            result: [
                {"InstanceId": instance.id, "CurrentState": copy.copy(instance._state), "PreviousState": before}
                for instance, before in change(identifiers)
            ]
        }
    )
