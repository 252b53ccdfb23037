# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The messages that AWS publishes to an SNS topic before and at the end of a lease, even without a controller. Performs no I/O.

Schedules publish them once. The universal target of EventBridge Scheduler is used, because the templated target for SNS has no subject.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ..._job.failure_causes import ANNOUNCED_BEFORE
from ..policy_documents import listed

WARNING, ENDED = "warning", "ended"
# The messages, which have the names of their schedules, and how long before the end of the lease AWS publishes them.
BEFORE = {WARNING: timedelta(seconds=ANNOUNCED_BEFORE), ENDED: timedelta()}
SID = "TellPeople"


def statements(topic: str | None) -> list[dict[str, Any]]:
    return [{"Sid": SID, "Effect": "Allow", "Action": "sns:Publish", "Resource": topic}] if topic else []


def topic_in(policy: Mapping[str, Any] | None) -> str | None:
    """Return the topic to which the policy of an existing lease allows messages, or None. There are no messages without this permission."""
    allowed = [each for each in listed((policy or {}).get("Statement")) if each.get("Sid") == SID]
    return next((str(topic) for each in allowed for topic in listed(each.get("Resource"))), None)


def at(moment: datetime) -> str:
    """Return the schedule expression for a time in UTC. Of two such expressions, that of the earlier time is less."""
    return f"at({moment:%Y-%m-%dT%H:%M:%S})"


def is_over(name: str, expression: str, now: datetime) -> bool:
    """Return whether a schedule is that of a message whose time has passed. It then makes no more calls, whatever it contains."""
    return name in BEFORE and expression <= at(now)


def inputs(cluster: str, region: str, end: datetime, is_fixed: bool, topic: str) -> dict[str, dict[str, str]]:
    """Return the arguments of `Publish` for each message. `is_fixed` is whether the definition specifies the end.

    The nodes can have ended before, such as because they were idle, and schedules cannot know it.
    """
    time, minutes = f"{end:%Y-%m-%d %H:%M} UTC", round(ANNOUNCED_BEFORE / 60)
    kept = "What else belongs to it, such as the network and the file systems with all data, is kept and continues to cost money."
    change, playbook = ("change deeplearning_lease, and ", "provision") if is_fixed else ("", "configure")
    texts = {
        WARNING: (
            f"the lease of the nodes ends at {time}",
            f"The lease of the nodes of cluster {cluster} ({region}) ends at {time}. If any node still runs, AWS then terminates it. Jobs "
            f"get SIGTERM {minutes} minutes before, so that they can save checkpoints. {kept} To keep nodes that run, {change}run: "
            f"{_command(playbook)}",
        ),
        ENDED: (
            f"the lease of the nodes has ended at {time}",
            f"The lease of the nodes of cluster {cluster} ({region}) has ended at {time}. If any node still runs, AWS "
            f"terminates it. {kept} To see what still exists and what it costs, run: {_command('info')}",
        ),
    }
    return {name: {"TopicArn": topic, "Subject": f"{cluster}: {subject}", "Message": text} for name, (subject, text) in texts.items()}


def _command(playbook: str) -> str:
    return f"ansible-playbook -i nodes.yml deeplearning.cluster.{playbook}"
