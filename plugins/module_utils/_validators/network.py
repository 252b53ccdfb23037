# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Whether the region has what the network is to lie in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .._network.resources import COMPONENT as NETWORK
from .._network.zones import available
from .._plan.resources import Found
from ..unit import Request
from .base import Validator


class Zones(Validator):
    name = "zones"
    components = frozenset({NETWORK})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, named = request.cloud, request.options["zones"]
        known = available(cloud) if named else set()
        unknown = [zone for zone in named if zone not in known]
        if unknown:
            yield f"zones: {', '.join(unknown)} not in {cloud.region}, which has {', '.join(sorted(known))}."
