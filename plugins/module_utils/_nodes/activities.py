# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Why a group does not launch what it should, told from its scaling activities. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

FAILED = ("Failed", "Cancelled")

# What to do about a reason, by pieces of AWS's text, which has a code in it or not; reasons marked True may pass by themselves.
ADVICE: tuple[tuple[tuple[str, ...], str, bool], ...] = (
    (
        ("InsufficientInstanceCapacity", "Insufficient capacity", "do not have sufficient", "no Spot capacity available"),
        "AWS has no such instances there at the moment. Try another zone or instance type, or run again later.",
        True,
    ),
    (
        # An instance that has been ended holds its place for minutes
        ("ReservationCapacityExceeded", "sufficient compatible and available capacity"),
        "The reservation has no room, or not yet. Take fewer nodes, or a reservation for more.",
        True,
    ),
    (
        ("VcpuLimitExceeded", "InstanceLimitExceeded", "current vCPU limit", "current instance limit"),
        "The account's quota is used up. Ask for more in Service Quotas, or take fewer or smaller nodes.",
        False,
    ),
    (("Invalid IAM Instance Profile",), "AWS does not see the instance profile yet.", True),
    (("Request limit exceeded", "Server.InternalError"), "AWS tries again by itself.", True),
    (
        ("Client.InternalError", "Client.InvalidKMSKey"),
        "Often the group may not use the account's default key for volumes. Let AWSServiceRoleForAutoScaling use that key.",
        False,
    ),
    (("InvalidKeyPair.NotFound", "The key pair"), "Create the key pair in this region or change key_name.", False),
    (("InvalidAMIID", "The image id", "The AMI ID"), "Give an image of this region in image_id.", False),
    (
        ("InsufficientFreeAddressesInSubnet", "not enough free addresses"),
        "The subnet is full. Take a larger network_cidr or more zones.",
        False,
    ),
    (("Unsupported", "not supported"), "The zone does not offer this instance type. Choose other zones or another type.", False),
)


@dataclass
class Launches:
    """What has been seen of a group's launches since C(since), the activities whose ids are in C(past) left out."""

    since: datetime
    wanted: int
    past: Collection[str] = ()
    alternative: str = ""
    ready: int = 0
    reasons: list[str] = field(default_factory=list)

    def observe(self, ready: int, activities: Iterable[Mapping[str, Any]]) -> None:
        """Takes in how many nodes are ready and the group's newest activities as AWS describes them."""
        self.ready = ready
        recent = self.since - timedelta(seconds=60)  # the group may have tried just before we looked
        failed = [
            activity
            for activity in activities
            if activity["StatusCode"] in FAILED and activity["StartTime"] >= recent and activity["ActivityId"] not in self.past
        ]
        self.reasons = list(dict.fromkeys(_reason(activity) for activity in failed))

    @property
    def hopeless(self) -> bool:
        """Whether the newest reason is one that waiting does not mend."""
        return bool(self.reasons) and not _advice(self.reasons[0])[1]

    def newest_reason(self) -> str:
        """What AWS's newest reason means, as the end of a sentence, or nothing."""
        if not self.reasons:
            return ""
        meaning = _advice(self.reasons[0])[0] or self.reasons[0]
        return f"; {meaning.split('. ')[0].rstrip('.')}"


def _reason(activity: Mapping[str, Any]) -> str:
    return str(activity.get("StatusMessage") or activity.get("Description") or "AWS gives no reason").strip()


def _advice(reason: str) -> tuple[str, bool]:
    for texts, advice, may_pass in ADVICE:
        if any(text in reason for text in texts):
            return advice, may_pass
    return "", True


def explain(group: str, launches: Launches, prefix: str = "") -> str:
    """One message: how far the group came, AWS's reason, and what to do."""
    message = f"{prefix}{launches.ready} of {launches.wanted} nodes of {group} are in service."
    for reason in launches.reasons[:2]:
        message += f" AWS says: {reason.rstrip('.')}. {_advice(reason)[0]}".rstrip()
    return message
