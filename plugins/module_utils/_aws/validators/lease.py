# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators for the lease of a cluster's nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..component import Request
from ..lease import definition
from ..lease.component import has_ended, lease_in
from ..plan.resources import Found
from ..storage.registry import mounts
from ..tags import LEASE_COMPONENT
from ..validator import Validator


class Lease(Validator):
    name = "lease"
    components = frozenset({LEASE_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        if not request.options["lease"]:
            return
        try:
            terms = definition.parse(request.options["lease"])
        except ValueError as error:
            yield f"lease: {error}."
            return
        existing = lease_in(found)
        if terms.fixed_end and terms.fixed_end <= request.cloud.now and not (existing and has_ended(request, existing)):
            yield f"lease: {definition.iso(terms.fixed_end)} is in the past. Specify a later time."


class LeaseData(Validator):
    """Checks that the end of the lease does not delete the only copy of the jobs' files."""

    name = "lease_data"
    components = frozenset({LEASE_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        has_copy = request.options["export_destinations"] or any(mount.holds_jobs for mount in mounts(request, found))
        if request.options["lease"] and not has_copy:
            yield (
                "lease: the cluster has no shared storage, so the files of jobs are deleted with the nodes at the end of the lease. Set "
                "export_destinations and export each job, use shared storage, or accept the loss with lease_data in suppress_validators."
            )


class LeaseProtection(Validator):
    name = "lease_protection"
    components = frozenset({LEASE_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        protected = [item.id for item in found if item.attributes.get("deletion_protection", "none") != "none"]
        if request.options["lease"] and protected:
            yield (
                f"lease: the deletion protection of {' and '.join(sorted(protected))} prevents that AWS terminates the nodes at the end of "
                "the lease. Turn it off (aws autoscaling update-auto-scaling-group --deletion-protection none), or remove lease."
            )


VALIDATORS = (Lease(), LeaseData(), LeaseProtection())
