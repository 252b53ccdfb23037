# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The nodes' role and instance profile as one lifecycle unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .._plan.resources import Found, Wanted
from ..unit import Request, Unit
from . import definition, resources


def _read(request: Request, _network: Sequence[Found]) -> list[Found]:
    return resources.read(request.cloud)


def _wanted(request: Request, _found: Sequence[Found]) -> Iterable[Wanted]:
    cloud, options = request.cloud, request.options
    return definition.wanted(
        cloud.cluster, cloud.region, options["read_buckets"], options["write_buckets"], request.tags(resources.COMPONENT)
    )


UNIT = Unit(resources.COMPONENT, resources.KINDS, _read, _wanted)
