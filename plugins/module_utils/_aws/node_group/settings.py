# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Determines the settings of nodes from the options and the properties of the instance type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..client import ClusterError
from ..component import Alternative, Request
from ..message_parts import P
from ..node_names import MASTER
from ..plan.resources import Found
from ..storage.registry import mounts
from . import capacity, images, instance_types
from .definition import NodeSettings, RootVolume, clustered


def settings_of(group: str, settings: NodeSettings, master_market: str | None) -> NodeSettings:
    """Return the settings of the nodes of one group. If `master_market` is set, only the master is in that market."""
    if group != MASTER or not master_market:
        return settings
    return replace(settings, market=master_market, spot_max_price="", capacity_reservation="")


def node_settings(request: Request, alternative: Alternative, found: Sequence[Found]) -> NodeSettings:
    """Return the settings of all nodes. Raises ClusterError if the instance type or the image does not exist."""
    options = request.options
    instance_type = instance_types.find(request.cloud, alternative.instance_type)
    if instance_type is None:
        raise ClusterError(f"{P}instance_type: {alternative.instance_type} is not offered in {request.cloud.region}. Choose another type.")
    return NodeSettings(
        instance_type=instance_type.name,
        image=images.choose(request, found, instance_type.architecture),
        key_name=options["key_name"],
        root_volume=RootVolume(
            size=options["root_volume_size"],
            type=options["root_volume_type"],
            iops=options["root_volume_iops"] or 0,
            throughput=options["root_volume_throughput"] or 0,
            kms_key=options["root_volume_kms_key"] or "",
        ),
        ebs_optimized=instance_type.ebs_optimized,
        interfaces=instance_types.interfaces(instance_type, efa=options["efa"]),
        clustered=clustered(
            options,
            reserved=alternative.capacity_reservation is not None,
            suitable=capacity.suits_placement_group(request, alternative, instance_type.placement_strategies, found),
        ),
        market=alternative.market,
        spot_max_price=capacity.without_zeros(alternative.spot_max_price or ""),
        capacity_reservation=alternative.capacity_reservation or "",
        login_user=options["login_user"],
        mounts=tuple(mounts(request, found)),
        metadata_hop_limit=options["metadata_hop_limit"],
        additional_groups=tuple(options["additional_security_group_ids"]),
    )
