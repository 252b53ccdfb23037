# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Uses scaling activities to determine why an Auto Scaling group launches too few nodes. Performs no I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ..._text import clean_line
from ..message_parts import P

FAILED = ("Failed", "Cancelled")
SUCCESSFUL = "Successful"

# The maximum length of a reason in characters. Activities contain names from the template, which can be long.
REASON_LIMIT = 2000
# The maximum length of the part of a reason that appears in a progress line.
SHORT_LIMIT = 200
CAUSE = "Termination Reason: "
LAUNCH_FAILED = " Launching EC2 instance failed"


class Advice(NamedTuple):
    """Advice for one reason why AWS does not launch nodes. `texts` contains error codes or parts of AWS messages that identify the reason.

    If `may_pass` is true, the problem can disappear without any action by the user. If `frees` is true, the problem can also disappear when
    a node is terminated, for example during a replacement.
    """

    texts: tuple[str, ...]
    advice: str
    may_pass: bool
    frees: bool = False


ADVICE: tuple[Advice, ...] = (
    Advice(
        ("SpotMaxPriceTooLow", "lower than the minimum required Spot request fulfillment price"),
        "The value of {P}spot_max_price is below the current Spot price. Increase {P}spot_max_price, or remove it to use the On-Demand "
        "price.",
        True,
    ),
    Advice(
        (
            "InsufficientInstanceCapacity",
            "Insufficient capacity",
            "do not have sufficient",
            "no Spot capacity available",
            "UnfulfillableCapacity",
            "Unable to fulfill capacity",
        ),
        "AWS has insufficient capacity for this launch at the moment. "
        "Try another zone, instance type or market ({P}alternatives), or run again later.",
        True,
    ),
    Advice(
        # A terminated instance still occupies its place in the reservation for several minutes
        ("ReservationCapacityExceeded", "sufficient compatible and available capacity"),
        "The reservation currently has no available capacity. Launch fewer nodes, or use a larger reservation.",
        True,
    ),
    Advice(
        ("VcpuLimitExceeded", "InstanceLimitExceeded", "current vCPU limit", "current instance limit"),
        "The account's quota is exhausted. Request an increase in Service Quotas, or launch fewer or smaller nodes.",
        False,
        frees=True,
    ),
    Advice(
        ("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"),
        "The account's quota for Spot Instances is exhausted. "
        "Request an increase in Service Quotas, launch fewer nodes, or choose another market.",
        False,
        frees=True,
    ),
    Advice(
        ("VolumeLimitExceeded", "Volume limit exceeded"),
        "The account's quota for EBS volumes is exhausted. Request an increase in Service Quotas, or set a smaller {P}root_volume_size.",
        False,
        frees=True,
    ),
    Advice(
        ("not eligible for Free Tier",),
        "The account is on the AWS Free plan, which excludes this instance type. "
        "Upgrade the account to the Paid plan, or choose another type.",
        False,
    ),
    Advice(
        ("PendingVerification", "is being validated"),
        "AWS is verifying the account, which takes up to four hours. Run again after AWS has sent the confirmation e-mail.",
        False,
    ),
    Advice(
        ("OptInRequired", "accept terms and subscribe"),
        "The image is an AWS Marketplace product. Subscribe to it with this account, or choose another image.",
        False,
    ),
    Advice(("Invalid IAM Instance Profile",), "The instance profile is not visible in AWS yet.", True),
    Advice(("Request limit exceeded", "RequestLimitExceeded", "Server.InternalError"), "AWS retries automatically.", True),
    Advice(
        ("Client.InternalError", "Client.InvalidKMSKey"),
        "A common cause is that Auto Scaling lacks access to the account's default KMS key for EBS. "
        "Allow AWSServiceRoleForAutoScaling to use that key.",
        False,
    ),
    Advice(("InvalidKeyPair.NotFound", "The key pair"), "Create the key pair in this region or change {P}key_name.", False),
    Advice(("InvalidAMIID", "The image id", "The AMI ID"), "Set {P}image_id to an image in this region.", False),
    Advice(
        ("InsufficientFreeAddressesInSubnet", "not enough free addresses"),
        "The subnet has no free addresses. Specify a larger {P}network_cidr or more zones.",
        False,
        frees=True,
    ),
    Advice(("Unsupported", "not supported"), "This instance type is not offered in the zone. Choose other zones or another type.", False),
    Advice(
        ("UnauthorizedOperation", "not authorized to perform", "You are not authorized"),
        "AWS does not allow the group to launch these instances. Check the account's policies, such as service control policies. "
        "Also check whether AWSServiceRoleForAutoScaling is allowed to use the image and its KMS keys.",
        False,
    ),
    Advice(
        ("account is currently blocked",),
        "AWS has blocked instance launches in this account. Contact AWS Support.",
        False,
    ),
    Advice(
        ("InvalidParameter", "MissingParameter", "InvalidBlockDeviceMapping"),
        "EC2 rejects the launch template. Change the option that the AWS message refers to.",
        False,
    ),
    Advice(
        ("security groups per interface", "SecurityGroupsPerInterface"),
        "The nodes have more security groups than the account's quota allows for a network interface. Remove groups "
        "from {P}additional_security_group_ids, or request an increase in Service Quotas.",
        False,
    ),
    Advice(
        ("LimitExceeded",),
        "A quota of the account is exhausted. Request an increase in Service Quotas, or launch fewer nodes.",
        False,
        frees=True,
    ),
)
UNKNOWN_REASON = Advice((), "", True)


@dataclass
class Launches:
    """The progress of an Auto Scaling group's launches after the time `since`. Activities with IDs in `past` are ignored."""

    since: datetime
    wanted: int
    past: Collection[str] = ()
    alternative: str = ""
    ready: int = 0
    reasons: list[str] = field(default_factory=list)
    # AWS's status message for the newest unfinished launch, or an empty string.
    unfinished: str = ""
    # Whether terminated nodes still occupy capacity and quota.
    leaving: bool = False
    replacing: bool = False

    def observe(self, ready: int, activities: Sequence[Mapping[str, Any]], *, leaving: bool = False, replacing: bool = False) -> None:
        """Record the number of ready nodes, the group's newest activities, and whether the termination of nodes will free capacity."""
        self.ready, self.leaving, self.replacing = ready, leaving, replacing
        recent = self.since - timedelta(seconds=60)  # the group may have tried to launch instances shortly before `since`
        failed = [
            activity
            for activity in activities
            if activity["StatusCode"] in FAILED and activity["StartTime"] >= recent and activity["ActivityId"] not in self.past
        ]
        self.reasons = list(dict.fromkeys(_reason(activity) for activity in failed))
        running = (activity for activity in activities if activity["StatusCode"] not in (*FAILED, SUCCESSFUL))
        self.unfinished = next((_reason(activity) for activity in running if activity.get("StatusMessage")), "")

    @property
    def hopeless(self) -> bool:
        """Return whether waiting is pointless because the newest problem is permanent."""
        if not self.reasons or self.leaving:
            return False
        newest = _advice(self.reasons[0])
        return not (newest.may_pass or (self.replacing and newest.frees))

    def newest_reason(self) -> str:
        """Return a short form of the newest reason, to be appended to a sentence, or an empty string if there is no reason."""
        newest = [*self.reasons[:1], *filter(None, [self.unfinished])]
        return f"; AWS reports: {short(newest[0])}" if newest else ""


def short(reason: str) -> str:
    """Return the sentence that states the cause in an AWS message, without a full stop and with at most SHORT_LIMIT characters."""
    cause = reason.partition(CAUSE)[2] or reason
    sentences = [sentence.rstrip(". ") for sentence in cause.partition(LAUNCH_FAILED)[0].split(". ")]
    texts = _advice(cause).texts
    sentence = next((each for each in sentences if any(text in each for text in texts)), sentences[0])
    return sentence if len(sentence) <= SHORT_LIMIT else f"{sentence[: SHORT_LIMIT - 3]}..."


def _reason(activity: Mapping[str, Any]) -> str:
    told = activity.get("StatusMessage") or activity.get("Description") or "AWS returned no reason"
    return clean_line(str(told)[:REASON_LIMIT]).strip()


def _advice(reason: str) -> Advice:
    return next((item for item in ADVICE if any(text in reason for text in item.texts)), UNKNOWN_REASON)


def explain(group: str, launches: Launches, prefix: str = "") -> str:
    """Return one message with the number of ready nodes, the reason from AWS, and advice."""
    message = f"{prefix}{launches.ready} of {launches.wanted} nodes of {group} are in service."
    for reason in launches.reasons[:2]:
        message += f" AWS reports: {reason.rstrip('.')}. {_advice(reason).advice.format(P=P)}".rstrip()
    return message
