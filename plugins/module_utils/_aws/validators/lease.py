# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators for the lease of a cluster's nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import timedelta

from ..component import Request
from ..lease import definition
from ..lease.component import has_ended, lease_in
from ..message_parts import P
from ..plan.resources import Found
from ..tags import LEASE_COMPONENT
from ..validator import Level, Validator


class Lease(Validator):
    name = "lease"
    components = frozenset({LEASE_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        if not request.options["lease"]:
            return
        try:
            terms = definition.parse(request.options["lease"])
        except ValueError as error:
            yield f"{P}lease: {error}."
            return
        existing = lease_in(found)
        if terms.duration:
            yield from _too_long(request.options.get("lease_minimum", 0))
        if not terms.fixed_end or (existing and has_ended(request, existing)):
            return
        end, left = definition.iso(terms.fixed_end), terms.fixed_end - request.cloud.now
        is_new = existing is None or existing.properties["lease"] != str(terms)
        if left <= timedelta():
            yield f"{P}lease: {end} is in the past. Specify a later time."
        elif is_new and not definition.LEAST <= left <= definition.MOST:
            yield f"{P}lease: {end} is not from 15m to 365d from now. Specify another time."


def _too_long(least: int) -> Iterator[str]:
    if least > definition.MOST.total_seconds():
        yield f"{P}lease: the job needs {least} s, but the longest lease is 365d. Reduce training_job_time_limit, or use no lease."


class ShortLease(Validator):
    """Checks that a fixed end, which no run prolongs, does not come before a job has to end."""

    name, level = "short_lease", Level.WARNING
    components = frozenset({LEASE_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        with contextlib.suppress(ValueError):  # the validator above reports it
            end = definition.parse(request.options["lease"] or "").fixed_end
            minutes = request.options["lease_minimum"] // 60
            if end and timedelta() < end - request.cloud.now < timedelta(minutes=minutes):
                yield (
                    f"{P}lease: {definition.iso(end)} is too early for the time limit of the job, which needs {minutes} minutes with the "
                    "configuration of the nodes. Specify a later time, or a shorter time limit."
                )


VALIDATORS = (Lease(), ShortLease())
