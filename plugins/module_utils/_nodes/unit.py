# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Master and workers as one lifecycle unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .._aws import IMAGE_TAG
from .._file_system.definition import FILE_SYSTEM
from .._file_system.resources import COMPONENT as FILE_SYSTEM_COMPONENT
from .._network.zones import zones
from .._plan.resources import Address, Found, Wanted
from ..unit import Request, Unit
from . import definition, images, resources


def _read(request: Request, _network: Sequence[Found]) -> list[Found]:
    return resources.read(request.cloud)


def _groups(request: Request) -> list[str]:
    """The groups that this run is about."""
    group = request.options.get("group")
    return [group] if group else [definition.MASTER, definition.WORKERS]


def _wanted(request: Request, found: Sequence[Found]) -> Iterator[Wanted]:
    options = request.options
    image = images.choose(request, found)
    settings = definition.NodeSettings(
        instance_type=options["instance_type"],
        image=image,
        key_name=options["key_name"],
        root_volume_size=options["root_volume_size"],
        login_user=options["login_user"],
        mount_point=options["mount_point"],
        mounts_file_system=request.manages(FILE_SYSTEM_COMPONENT) or any(item.address == FILE_SYSTEM for item in found),
    )

    def tags(address: Address) -> dict[str, str]:
        own = request.tags(definition.COMPONENT)(address)
        return {**own, IMAGE_TAG: image.source} if address.kind == "launch_template" else own

    cloud, places = request.cloud, zones(request, found)
    for group in _groups(request):
        yield from definition.wanted(
            group, settings, options["worker_count"], places, cloud.cluster, cloud.region, tags, wait=options["wait"]
        )


def _keeps(request: Request, item: Found) -> bool:
    return item.address.key not in _groups(request) or (request.present and item.address.kind == "nodes")


UNIT = Unit(definition.COMPONENT, resources.KINDS, _read, _wanted, _keeps)
