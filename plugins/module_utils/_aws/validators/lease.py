# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators for the lease of a cluster's nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..component import Request
from ..lease import definition
from ..lease.component import has_ended, lease_in
from ..plan.resources import Found
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


VALIDATORS = (Lease(),)
