# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The messages about idle nodes that AWS publishes to an SNS topic, even without a controller. Performs no I/O.

This file is part of the function's code. Each message is a subject and a text. A subject has less than 100 characters (API Reference of
Amazon SNS, "Publish"), also with the longest name of a cluster, which has 30.
"""

from __future__ import annotations

from datetime import datetime

LOSES = "Files on the nodes' own disks, such as home directories, are deleted. Those on the shared storage are kept."

# What to know about a node that has never reported since its launch.
NEVER = "Its console shows no report, as before the first configuration."


def warning(cluster: str, region: str, count: int, since: datetime, end: datetime) -> tuple[str, str]:
    return f"{cluster}: AWS terminates the idle nodes at about {shown(end)}", (
        f"{_idle(cluster, count, since)}. If nobody uses the cluster, AWS terminates the nodes at about {shown(end)}. {LOSES} To keep the "
        "nodes for 4 hours, run ansible localhost -m deeplearning.cluster.idle_hold -a "
        f'"cluster={cluster} region={region} name=me duration=4h"'
    )


def ended(cluster: str, count: int, since: datetime) -> tuple[str, str]:
    return f"{cluster}: AWS terminates its idle nodes", (
        f"{_idle(cluster, count, since)}, and AWS terminates the nodes. {LOSES} To see what still costs money, run ansible-playbook "
        "deeplearning.cluster.info\nTo start nodes again, run ansible-playbook deeplearning.cluster.provision "
        "-e deeplearning_start_again=true"
    )


def trial(cluster: str, count: int, since: datetime) -> tuple[str, str]:
    return f"{cluster}: the nodes have been idle since {shown(since)}", (
        f"{_idle(cluster, count, since)}. With deeplearning_idle_then: terminate, AWS would terminate the nodes. To let it do so, remove "
        "deeplearning_idle_then from the definition, and run ansible-playbook deeplearning.cluster.provision"
    )


def silent(cluster: str, node: str, others: int, since: datetime, advice: str) -> tuple[str, str]:
    """Return the message about a node that reports nothing. `others` is the number of other such nodes, `advice` NEVER or `unreachable`."""
    more = f", and {others} more {'does' if others == 1 else 'do'} not report either" if others else ""
    return f"Cluster {cluster} does not report whether it is idle", (
        f"{node} of cluster {cluster} has not reported since {shown(since)} whether it is idle{more}. A node that says nothing counts as "
        "in use, so all nodes keep running and cost money, even if nobody uses them. To let the nodes report, run ansible-playbook "
        f"deeplearning.cluster.configure\n{advice}\nTo delete the cluster, run ansible-playbook deeplearning.cluster.destroy"
    )


def unreachable(node: str, instance_id: str, region: str) -> str:
    """Return what to do with a node that no run reaches."""
    return (
        f"If {node} does not answer, terminate it: aws autoscaling terminate-instance-in-auto-scaling-group "
        f"--no-should-decrement-desired-capacity --instance-id {instance_id} --region {region}"
    )


def shown(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _idle(cluster: str, count: int, since: datetime) -> str:
    return f"Cluster {cluster} ({count} {'node' if count == 1 else 'nodes'}) has been idle since {shown(since)}"
