# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators for what ends a cluster's nodes without a run: the lease, and the end of idle nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..component import Request
from ..idle.definition import TERMINATE, parse
from ..message_parts import P
from ..node_group import instance_types
from ..plan.resources import Found
from ..storage.registry import mounts
from ..tags import END_TAGS, IDLE_COMPONENT, LEASE_COMPONENT
from ..validator import Validator

ENDS = {LEASE_COMPONENT: "at the end of the lease", IDLE_COMPONENT: "when they are idle"}


def ends(request: Request) -> Iterator[tuple[str, str]]:
    """Yield the options that end the nodes, and when that is."""
    for option in END_TAGS:
        if request.options[option] and (option, request.options["idle_then"]) != (IDLE_COMPONENT, "notify"):
            yield option, ENDS[option]


class Idle(Validator):
    name = "idle"
    components = frozenset({IDLE_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        if not request.options["idle_after"]:
            return
        try:
            parse(request.options["idle_after"])
        except ValueError as error:
            yield f"{P}idle_after: {error}."
        if request.options["idle_then"] != TERMINATE and not request.options["notify_topic"]:
            yield f"{P}idle_then: notify tells the topic in {P}notify_topic, which is not set. Set it, or set {P}idle_then: terminate."
        for each in instance_types.in_definition(request):
            if not each.shows_console:
                yield (
                    f"{P}idle_after: AWS shows no current console output of {each.name}, on which nodes report that they are idle. Choose "
                    "an instance type of the Nitro System, or set lease instead."
                )


class KeptFiles(Validator):
    """Checks that the end of the nodes does not delete the only copy of the jobs' files."""

    name = "kept_files"
    components = frozenset({LEASE_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        has_copy = request.options["export_destinations"] or any(mount.holds_jobs for mount in mounts(request, found))
        for option, when in () if has_copy else ends(request):
            yield (
                f"{P}{option}: the cluster has no shared storage, so the files of jobs are deleted with the nodes {when}. Set "
                f"{P}export_destinations and export each job, use shared storage, or accept the loss with kept_files in "
                f"{P}suppress_validators."
            )


class DeletionProtection(Validator):
    name = "deletion_protection"
    components = frozenset({LEASE_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        protected = [item.id for item in found if item.attributes.get("deletion_protection", "none") != "none"]
        for option, when in ends(request) if protected else ():
            yield (
                f"{P}{option}: the deletion protection of {' and '.join(sorted(protected))} prevents that AWS terminates the nodes {when}. "
                f"Turn it off (aws autoscaling update-auto-scaling-group --deletion-protection none), or remove {P}{option}."
            )


VALIDATORS = (Idle(), KeptFiles(), DeletionProtection())
