"""The products of the price list, with the attributes that AWS documents for them.

The prices are fictitious, but similar to those of AWS. Attributes of products: AWS Billing User Guide, "Finding services and products using
AWS Price List Query API", and the offer files of the services.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from botocore.loaders import Loader
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES

# Dollars per hour, or per GB and month.
PER_VCPU, PER_GPU = 0.05, 2.5
NAT_GATEWAY, ADDRESS, ENDPOINT = 0.045, 0.005, 0.01
VOLUMES = {"gp2": 0.1, "gp3": 0.08, "io1": 0.125, "io2": 0.125}
IOPS = {"gp3": 0.005, "io1": 0.065, "io2": 0.065}
IO2_TIERS = {2: 0.7, 3: 0.49}  # the price above 32,000 and 64,000 IOPS, as a share of that below
THROUGHPUT = 40.96  # per GiB/s and month
EFS, EFS_ONE_ZONE, EFS_THROUGHPUT = 0.3, 0.16, 6.0
LUSTRE = {
    ("SCRATCH", 200): 0.14,
    **{("PERSISTENT_1", throughput): price for throughput, price in ((50, 0.14), (100, 0.19), (200, 0.29))},
    **{("PERSISTENT_2", throughput): price for throughput, price in ((125, 0.145), (250, 0.21), (500, 0.34), (1000, 0.6))},
}
LUSTRE_HDD = {12: 0.025, 40: 0.083}  # by throughput. The price list here contains only SSD storage
EMR_SHARE = 0.25  # of the price of the instance
CHEAPEST = "us-east-1"
ELSEWHERE = 1.1  # the factor in all other regions
# The first part of usage types. AWS uses these codes in bills.
REGION_CODES = {
    "ap-northeast-1": "APN1",
    "ap-south-1": "APS3",
    "ap-southeast-1": "APS1",
    "ap-southeast-2": "APS2",
    "ca-central-1": "CAN1",
    "eu-central-1": "EUC1",
    "eu-west-1": "EU",
    "eu-west-2": "EUW2",
    "us-east-2": "USE2",
    "us-west-1": "USW1",
    "us-west-2": "USW2",
}


class Product(NamedTuple):
    """A product: its service, its attributes, its unit and its price in that unit, in dollars."""

    service: str
    attributes: dict[str, str]
    unit: str
    price: float
    family: str = ""


def factor(region: str) -> float:
    """Return the factor by which prices in a region differ from those in the cheapest region."""
    return 1.0 if region == CHEAPEST else ELSEWHERE


def instance_price(instance_type: str, region: str) -> float:
    """Return the price of an On-Demand Instance, in dollars per hour."""
    record = INSTANCE_TYPES[instance_type]
    gpus = sum(each["Count"] for each in (record.get("GpuInfo") or {}).get("Gpus", []))
    return float((record["VCpuInfo"]["DefaultVCpus"] * PER_VCPU + gpus * PER_GPU) * factor(region))


def lustre_price(deployment: str, throughput: int | None, region: str) -> float:
    """Return the price of a Lustre file system, in dollars per GiB and month."""
    if throughput in LUSTRE_HDD:
        return LUSTRE_HDD[throughput] * factor(region)
    scratch = deployment.startswith("SCRATCH")
    return LUSTRE["SCRATCH" if scratch else deployment, 200 if scratch else int(throughput or 0)] * factor(region)


def products(service: str, terms: Mapping[str, str]) -> Iterator[Product]:
    """Yield the products of a service. To save time, leave out products of other regions and instance types than those in `terms`."""
    regions = [terms["regionCode"]] if "regionCode" in terms else [*descriptions()]
    for region in regions:
        if region in descriptions():
            yield from _SERVICES[service](region, terms.get("instanceType"))


def services() -> list[str]:
    return [*_SERVICES]


@cache
def descriptions() -> dict[str, str]:
    """Return the names of the regions of the partition `aws`, such as "US East (N. Virginia)"."""
    partition = next(each for each in Loader().load_data("endpoints")["partitions"] if each["partition"] == "aws")
    return {region: about["description"] for region, about in partition["regions"].items()}


def _usage(region: str, usage: str, code: str = "") -> dict[str, str]:
    prefix = code or REGION_CODES.get(region, "" if region == CHEAPEST else region.upper().replace("-", ""))
    return {
        "location": descriptions()[region],
        "locationType": "AWS Region",
        "regionCode": region,
        "usagetype": f"{prefix}-{usage}" if prefix else usage,
    }


def _ec2(region: str, wanted: str | None) -> Iterator[Product]:
    offered = {each["InstanceType"] for each in INSTANCE_TYPE_OFFERINGS["region"].get(region, [])}
    for instance_type in sorted(offered if wanted is None else offered & {wanted}):
        yield from _instances(region, instance_type)
    if wanted is None:
        yield from _volumes(region)
        for usage, unit, price in (("NatGateway-Hours", "Hrs", NAT_GATEWAY), ("NatGateway-Bytes", "GB", NAT_GATEWAY)):
            attributes = {**_usage(region, usage), "group": "NGW:NatGateway", "operation": "NatGateway"}
            yield Product("AmazonEC2", attributes, unit, price * factor(region), "NAT Gateway")


def _instances(region: str, instance_type: str) -> Iterator[Product]:
    """Yield the products for an instance type. They differ in many attributes, so that a filter with too few terms finds several."""
    price = instance_price(instance_type, region)
    usual = {
        "instanceType": instance_type,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "licenseModel": "No License required",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "operation": "RunInstances",
    }
    variants: list[tuple[str, float, dict[str, str]]] = [
        ("BoxUsage", 1, {}),
        ("BoxUsage", 1.5, {"operatingSystem": "Windows", "operation": "RunInstances:0002"}),
        ("BoxUsage", 3, {"preInstalledSw": "SQL Std", "operation": "RunInstances:0004"}),
        ("DedicatedUsage", 1.1, {"tenancy": "Dedicated"}),
        ("UnusedBox", 1, {"capacitystatus": "UnusedCapacityReservation"}),
        ("Reservation", 0, {"capacitystatus": "AllocatedCapacityReservation"}),
        ("BoxUsage", 0, {"marketoption": "CapacityBlock", "operation": "RunInstances:CB"}),
    ]
    for usage, share, different in variants:
        attributes = {**_usage(region, f"{usage}:{instance_type}"), **usual, **different}
        yield Product("AmazonEC2", attributes, "Hrs", price * share, "Compute Instance")


def _volumes(region: str) -> Iterator[Product]:
    names = {"io1": "piops"}
    for volume, price in VOLUMES.items():
        usage = _usage(region, f"EBS:VolumeUsage.{names.get(volume, volume)}")
        unit = "GB-month" if volume == "io2" else "GB-Mo"  # as in the list of AWS
        yield Product("AmazonEC2", {**usage, "volumeApiName": volume}, unit, price * factor(region), "Storage")
    for volume, price in IOPS.items():
        usage = _usage(region, f"EBS:VolumeP-IOPS.{names.get(volume, volume)}")
        attributes = {**usage, "volumeApiName": volume, "group": "EBS IOPS"}
        yield Product("AmazonEC2", attributes, "IOPS-Mo", price * factor(region), "System Operation")
        for tier, share in IO2_TIERS.items() if volume == "io2" else ():
            attributes = {**attributes, "usagetype": f"{usage['usagetype']}.tier{tier}", "group": f"EBS IOPS Tier {tier}"}
            yield Product("AmazonEC2", attributes, "IOPS-Mo", price * share * factor(region), "System Operation")
    attributes = {**_usage(region, "EBS:VolumeP-Throughput.gp3"), "volumeApiName": "gp3", "group": "EBS Throughput"}
    yield Product("AmazonEC2", attributes, "GiBps-mo", THROUGHPUT * factor(region), "Provisioned Throughput")


def _vpc(region: str, _instance_type: str | None) -> Iterator[Product]:
    """Yield the products of Amazon VPC. Public addresses have no product family, and cost the same in all regions."""
    code = REGION_CODES.get(region, "USE1" if region == CHEAPEST else "")
    for usage in ("InUseAddress", "IdleAddress"):
        attributes = {**_usage(region, f"PublicIPv4:{usage}", code), "group": "VPCPublicIPv4Address"}
        yield Product("AmazonVPC", attributes, "Hrs", ADDRESS)
    for usage, unit, price in (("VpcEndpoint-Hours", "Hrs", ENDPOINT), ("VpcEndpoint-Bytes", "GB", ENDPOINT)):
        attributes = {**_usage(region, usage, code), "operation": "VpcEndpoint"}
        yield Product("AmazonVPC", attributes, unit, price * factor(region), "VpcEndpoint")
    attributes = {**_usage(region, "VpcEndpoint-GWLBE-Hours", code), "operation": "VpcEndpoint"}
    yield Product("AmazonVPC", attributes, "Hrs", ENDPOINT * factor(region), "VpcEndpoint")


def _efs(region: str, _instance_type: str | None) -> Iterator[Product]:
    classes = (("General Purpose", "TimedStorage-ByteHrs", EFS), ("One Zone-General Purpose", "TimedStorage-Z-ByteHrs", EFS_ONE_ZONE))
    for name, usage, price in (*classes, ("Infrequent Access", "IATimedStorage-ByteHrs", EFS / 12)):
        yield Product("AmazonEFS", {**_usage(region, usage), "storageClass": name}, "GB-Mo", price * factor(region), "Storage")
    yield Product(
        "AmazonEFS", _usage(region, "ProvisionedTP-MiBpsHrs"), "MiBps-Mo", EFS_THROUGHPUT * factor(region), "Provisioned Throughput"
    )


def _fsx(region: str, _instance_type: str | None) -> Iterator[Product]:
    for (deployment, throughput), price in LUSTRE.items():
        attributes = {
            **_usage(region, f"Lustre.{deployment.title().replace('_', '')}.SSD.{throughput}"),
            "fileSystemType": "Lustre",
            "deploymentOption": "Single-AZ",
            "storageType": "SSD",
            "throughputCapacity": str(throughput),
        }
        yield Product("AmazonFSx", attributes, "GB-Mo", price * factor(region), "Storage")
    backup = {**_usage(region, "BackupUsage"), "fileSystemType": "Lustre", "storageType": "NA"}
    yield Product("AmazonFSx", backup, "GB-Mo", 0.05 * factor(region), "Storage")


def _emr(region: str, wanted: str | None) -> Iterator[Product]:
    offered = {each["InstanceType"] for each in INSTANCE_TYPE_OFFERINGS["region"].get(region, [])}
    for instance_type in sorted(offered if wanted is None else offered & {wanted}):
        attributes = {**_usage(region, f"BoxUsage:{instance_type}"), "instanceType": instance_type, "softwareType": "EMR"}
        price = instance_price(instance_type, region) * EMR_SHARE
        yield Product("ElasticMapReduce", attributes, "Hrs", price, "Elastic Map Reduce Instance")
        yield Product("ElasticMapReduce", {**attributes, "softwareType": "MapR"}, "Hrs", 2 * price, "Elastic Map Reduce Instance")


_SERVICES: dict[str, Any] = {"AmazonEC2": _ec2, "AmazonEFS": _efs, "AmazonFSx": _fsx, "AmazonVPC": _vpc, "ElasticMapReduce": _emr}
