# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Decides which nodes to keep, drain and remove when the members of a cluster change."""

from __future__ import annotations

import re
from typing import Collection, Mapping, NamedTuple

# The reason that this collection sets when it drains a node. The collection resumes only nodes that it has drained.
REASON = "deeplearning.cluster: leaves the cluster"
# States of nodes on which a job may be running.
BUSY = frozenset(("ALLOCATED", "MIXED", "COMPLETING"))
# States of nodes that do not respond to slurmctld.
ABSENT = frozenset(("DOWN", "NOT_RESPONDING", "UNKNOWN", "FUTURE"))
# States of nodes that have registered. Nodes whose states are all unknown to this collection have not. Older versions show the last six
# instead of one of the first.
REGISTERED = frozenset(["IDLE", "ALLOCATED", "MIXED", "COMPLETING", "RESERVED", "MAINT", "PLANNED", "DRAINED", "DRAINING", "REBOOT"])
# States of nodes that have registered with less hardware than slurm.conf describes. sinfo and scontrol spell this state differently.
REJECTED = frozenset(("INVALID_REG", "INVAL"))
# The reasons for which slurmctld drains a node that registers with less hardware. The node stays drained when it has all of its hardware.
TOO_LITTLE = re.compile(r"Low (?:CPUs|RealMemory|TmpDisk|socket)|gres/\S+ count (?:reported lower|too low)")


class NodeState(NamedTuple):
    """The state and the flags of a node, such as IDLE and DRAIN, and the reason for its state."""

    flags: frozenset[str]
    reason: str

    @property
    def is_registered(self) -> bool:
        """Whether slurmd runs on the node and slurmctld accepts the node."""
        return bool(self.flags & REGISTERED) and not self.flags & (ABSENT | REJECTED)

    @property
    def is_leaving(self) -> bool:
        """Whether this collection, and not an operator, has drained the node."""
        return "DRAIN" in self.flags and self.reason == REASON

    @property
    def had_too_little(self) -> bool:
        """Whether slurmctld has drained the node, because it registered with too little hardware."""
        return "DRAIN" in self.flags and TOO_LITTLE.match(self.reason) is not None


class NodeStates(NamedTuple):
    """The names of the nodes to `keep`, the nodes to set to `down`, and the nodes to `drain`.

    Nodes in `down` no longer respond. The jobs on these nodes are requeued before the nodes are removed.
    """

    keep: list[str]
    down: list[str]
    drain: list[str]


def parse_states(listing: str) -> dict[str, NodeState]:
    """Return the states of nodes, keyed by name, from the output of `scontrol --oneliner show nodes`."""
    states = {}
    for line in listing.splitlines():
        found = re.match(r"NodeName=(\S+) .*?\bState=(\S+)", line)
        if not found:
            continue
        # Slurm appends who set the reason, and when. Other fields and other lines of the reason can follow.
        reason = re.search(r" Reason=(.*?)\s*(?: \[\S+@\S+\]|$)", line)
        # In older versions, an asterisk marks nodes that do not respond. Other marks, such as those for reservations, follow states too.
        flags = frozenset(re.findall(r"[A-Z_]+", found[2].replace("*", "+NOT_RESPONDING")))
        states[found[1]] = NodeState(flags, reason[1] if reason else "")
    return states


def decide(described: Collection[str], members: Collection[str], states: Mapping[str, NodeState]) -> NodeStates:
    """Return the changes after which the cluster consists of `members`. `described` contains the nodes in slurm.conf.

    A node that leaves the cluster while a job is running on the node is drained. A later playbook run removes the node. A node that no
    longer responds is removed immediately.
    """
    busy = {name for name in described if name not in members and name in states and states[name].flags & BUSY}
    down = {name for name in busy if states[name].flags & ABSENT}
    keep = busy - down
    return NodeStates(
        keep=sorted(keep),
        down=sorted(name for name in down if "DOWN" not in states[name].flags),
        drain=sorted(name for name in keep if "DRAIN" not in states[name].flags),
    )


def parse_jobs(listing: str) -> list[str]:
    """Return the IDs of jobs from the output of `squeue --noheader --format=%F`, without duplicates.

    squeue shows each element of an array under the ID of the array. Raises ValueError if the output contains anything else, because a job
    that is overlooked could be lost.
    """
    jobs = sorted(set(listing.split()), key=lambda job: (len(job), job))
    unknown = [job for job in jobs if not re.fullmatch(r"[0-9]{1,18}", job)]
    if unknown:
        raise ValueError(f"squeue returned {unknown[0][:70]!r} instead of the ID of a job. Check the version of Slurm.")
    return jobs
