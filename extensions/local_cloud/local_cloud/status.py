"""The status of a local cloud as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import boto3

INSTANCES = ("name", "instance", "type", "state", "private address", "public address")
GROUPS = ("group", "desired", "in service")
FILE_SYSTEMS = ("file system", "name", "state", "mount targets")


def table(environment: dict[str, str]) -> str:
    """Return tables of the instances, groups, and file systems in the region that the environment selects."""
    session = boto3.Session(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"], region_name=environment["AWS_REGION"])
    clients = {name: session.client(name, endpoint_url=environment["AWS_ENDPOINT_URL"]) for name in ("ec2", "autoscaling", "efs")}
    parts = (
        columns(INSTANCES, _instances(clients["ec2"])),
        columns(GROUPS, _groups(clients["autoscaling"])),
        columns(FILE_SYSTEMS, _file_systems(clients["efs"])),
    )
    return "\n\n".join(parts)


def columns(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table with aligned columns. '-' stands for an empty cell."""
    cells = [list(titles), *([cell or "-" for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells)


def _instances(ec2: Any) -> list[tuple[str, ...]]:
    pages = ec2.get_paginator("describe_instances").paginate()
    found = [instance for page in pages for reservation in page["Reservations"] for instance in reservation["Instances"]]
    return sorted(
        (
            next((tag["Value"] for tag in instance.get("Tags", []) if tag["Key"] == "Name"), ""),
            *(instance["InstanceId"], instance["InstanceType"], instance["State"]["Name"]),
            *(instance.get("PrivateIpAddress", ""), instance.get("PublicIpAddress", "")),
        )
        for instance in found
    )


def _groups(autoscaling: Any) -> list[tuple[str, ...]]:
    pages = autoscaling.get_paginator("describe_auto_scaling_groups").paginate()
    return [
        (
            *(group["AutoScalingGroupName"], str(group["DesiredCapacity"])),
            str(sum(instance["LifecycleState"] == "InService" for instance in group["Instances"])),
        )
        for page in pages
        for group in page["AutoScalingGroups"]
    ]


def _file_systems(efs: Any) -> list[tuple[str, ...]]:
    pages = efs.get_paginator("describe_file_systems").paginate()
    return [
        (each["FileSystemId"], each.get("Name", ""), each["LifeCycleState"], str(each["NumberOfMountTargets"]))
        for page in pages
        for each in page["FileSystems"]
    ]
