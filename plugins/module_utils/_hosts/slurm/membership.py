# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Decides which nodes to keep, drain and remove when the members of a cluster change."""

from __future__ import annotations

import re
from typing import Collection, Mapping, NamedTuple

# The reason that this collection sets when it drains a node. The collection resumes only nodes that it has drained.
REASON = "deeplearning.cluster: leaves the cluster"
# States of nodes on which a job may be running.
BUSY = frozenset(("ALLOCATED", "MIXED", "COMPLETING"))
# States of nodes that cannot run jobs because they have not registered with slurmctld.
ABSENT = frozenset(("DOWN", "NOT_RESPONDING", "UNKNOWN", "INVAL", "FUTURE"))


class NodeState(NamedTuple):
    """The state and the flags of a node, such as IDLE and DRAIN, and the reason for its state."""

    flags: frozenset[str]
    reason: str

    @property
    def is_registered(self) -> bool:
        """Whether slurmd runs on the node and slurmctld accepts the node."""
        return not self.flags & ABSENT

    @property
    def is_leaving(self) -> bool:
        """Whether this collection, and not an operator, has drained the node."""
        return "DRAIN" in self.flags and self.reason == REASON


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
        reason = re.search(r" Reason=(.*?)(?: \[[^\]]*\])?\s*$", line)
        # In older versions, an asterisk marks nodes that do not respond.
        flags = frozenset(found[2].replace("*", "+NOT_RESPONDING").split("+"))
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
    """Return the IDs of jobs from the output of `squeue --noheader --format=%i`."""
    return [word for word in listing.split() if re.fullmatch(r"\d+(_\d+|_\[[\d,%-]+\])?(\+\d+)?", word)]
