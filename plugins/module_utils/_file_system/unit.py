# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Shared storage on EFS as one lifecycle unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .._network.zones import zones
from .._plan.resources import Found, Wanted
from ..unit import Request, Unit
from . import definition, resources


def _read(request: Request, network: Sequence[Found]) -> list[Found]:
    # Only a definition that speaks of the file system can say that there is to be another one
    search = not (request.present and request.manages(resources.COMPONENT))
    return resources.read(request.cloud, request.options.get("file_system_id"), network, search=search)


def _wanted(request: Request, found: Sequence[Found]) -> Iterable[Wanted]:
    resources.refuse_elsewhere(found)
    options, tags = request.options, request.tags(resources.COMPONENT)
    return definition.wanted(zones(request, found), tags, encrypted=options["encrypted"], performance_mode=options["performance_mode"])


def _keeps(request: Request, item: Found) -> bool:
    return item.address == definition.FILE_SYSTEM and not request.options["delete_data"]


UNIT = Unit(resources.COMPONENT, resources.KINDS, _read, _wanted, _keeps)
