"""The cost per hour of everything that exists, computed from the state of the local cloud as a meter of AWS would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moto.ec2.models import ec2_backends
from moto.efs.models import efs_backends
from moto.emr.models import emr_backends
from moto.fsx.models import fsx_backends

from ..capacity import CAPACITY_BLOCK, SPOT
from ..context import ACCOUNT, instances
from ..ec2 import spot
from ..emr.clusters import clusters
from . import products

HOURS = 730  # of a month: AWS Pricing Calculator
GIB = 1 << 30
RUNNING = ("pending", "running")


def cost(region: str) -> dict[str, float]:
    """Return the cost per hour of the account's resources in a region, by kind, in dollars. Data and requests are not included."""
    lines = [*_instances(region), *_network(region), *_storage(region)]
    return {kind: sum(price for name, price in lines if name == kind) for kind, _price in lines}


def _instances(region: str) -> Iterator[tuple[str, float]]:
    elastic = {address.public_ip for address in ec2_backends[ACCOUNT][region].addresses}
    for instance in instances():
        if instance.region_name != region or instance.state not in RUNNING:
            continue
        yield "instance", _instance(instance, region)
        # An address that the subnet or the launch template assigned
        if instance.public_ip and instance.public_ip not in elastic:
            yield "address", products.ADDRESS
    for cluster in clusters(emr_backends[ACCOUNT][region]).values():
        for node in cluster.nodes:
            if node.is_live:
                yield "emr", products.instance_price(node.instance.instance_type, region) * products.EMR_SHARE


def _instance(instance: Any, region: str) -> float:
    if instance.market == CAPACITY_BLOCK:
        return 0.0  # paid when it was reserved
    if instance.market == SPOT:
        return spot.price(instance.instance_type)
    return products.instance_price(instance.instance_type, region)


def _network(region: str) -> Iterator[tuple[str, float]]:
    backend, factor = ec2_backends[ACCOUNT][region], products.factor(region)
    for gateway in backend.nat_gateways.values():
        if gateway.state in ("pending", "available"):
            yield "nat_gateway", products.NAT_GATEWAY * factor
    for _address in backend.addresses:
        yield "address", products.ADDRESS
    for endpoint in backend.vpc_end_points.values():
        if endpoint.vpc_endpoint_type == "Interface" and endpoint.state != "deleted":
            yield "endpoint", products.ENDPOINT * factor * len(endpoint.subnet_ids or [])


def _storage(region: str) -> Iterator[tuple[str, float]]:
    factor = products.factor(region) / HOURS
    for volume in ec2_backends[ACCOUNT][region].volumes.values():
        yield "volume", volume.size * products.VOLUMES[volume.volume_type] * factor
        if volume.volume_type != "gp2":
            extra = (volume.iops or 0) - (3000 if volume.volume_type == "gp3" else 0)
            yield "volume", _priced_iops(volume.volume_type, extra) * products.IOPS[volume.volume_type] * factor
        extra = (volume.throughput or 0) - 125 if volume.volume_type == "gp3" else 0
        yield "volume", max(extra, 0) / 1024 * products.THROUGHPUT * factor
    for system in efs_backends[ACCOUNT][region].file_systems_by_id.values():
        price = products.EFS_ONE_ZONE if system.availability_zone_name else products.EFS
        size = system.size_in_bytes["Value"] / GIB
        yield "efs", size * price * factor
        # The price of the data includes 1 MiB/s for 20 GiB
        yield "efs", max((system.provisioned_throughput_in_mibps or 0) - size / 20, 0) * products.EFS_THROUGHPUT * factor
    for lustre in fsx_backends[ACCOUNT][region].file_systems.values():
        about = lustre.lustre
        price = products.lustre_price(about["DeploymentType"], about.get("PerUnitStorageThroughput"), region)
        yield "lustre", lustre.storage_capacity * price / HOURS


def _priced_iops(volume_type: str, iops: int) -> float:
    """Return the number of IOPS that cost the full price, if the others cost nothing."""
    high, highest = (max(iops - limit, 0) if volume_type == "io2" else 0 for limit in (32000, 64000))
    return max(iops, 0) - high * (1 - products.IO2_TIERS[2]) - highest * (products.IO2_TIERS[2] - products.IO2_TIERS[3])
