"""Checks of requests to create or change a Lustre file system."""

from __future__ import annotations

from typing import Any

from moto.ec2.exceptions import InvalidSubnetIdError
from moto.ec2.models import ec2_backends
from moto.fsx.models import FSxBackend

from ..kms.keys import usable_key
from .lookup import bucket_exists, bucket_name, fsx_error

# Valid PerUnitStorageThroughput in MB/s/TiB, by deployment type and storage type.
THROUGHPUT: dict[tuple[str, str], tuple[int | None, ...]] = {
    ("SCRATCH_1", "SSD"): (None,),
    ("SCRATCH_2", "SSD"): (None,),
    ("PERSISTENT_1", "SSD"): (50, 100, 200),
    ("PERSISTENT_1", "HDD"): (12, 40),
    ("PERSISTENT_2", "SSD"): (125, 250, 500, 1000),
}
# Increment of StorageCapacity in GiB for HDD, by throughput. For SSD, the increment is 2400.
CAPACITY_STEPS = {12: 6000, 40: 1800}
# The TCP port on which Lustre servers and clients connect to each other.
LNET_PORT = 988


def deployment_type(request: dict[str, Any]) -> str:
    return str(request.get("LustreConfiguration", {}).get("DeploymentType", "SCRATCH_1"))


def check_creation(backend: FSxBackend, request: dict[str, Any]) -> None:
    """Raise the FSx error for a file system that cannot be created."""
    deployment = deployment_type(request)
    if deployment == "PERSISTENT_2" and request.get("FileSystemTypeVersion") == "2.10":
        raise fsx_error("BadRequest", "Lustre version 2.10 is not supported by the deployment type PERSISTENT_2.")
    check_throughput(request)
    _check_capacity(request)
    _check_import(backend, request)
    _check_network(backend, request)


def check_throughput(request: dict[str, Any]) -> None:
    deployment, throughput = deployment_type(request), request.get("LustreConfiguration", {}).get("PerUnitStorageThroughput")
    if throughput not in THROUGHPUT.get((deployment, request.get("StorageType", "SSD")), ()):
        text = (
            "Invalid Lustre deployment configuration: the provided throughput is invalid or does not meet the storage capacity requirement"
        )
        raise fsx_error("BadRequest", text)


def _check_capacity(request: dict[str, Any]) -> None:
    capacity, deployment = request.get("StorageCapacity"), deployment_type(request)
    if capacity is None:
        text = "1 validation error detected: Value null at 'storageCapacity' failed to satisfy constraint: Member must not be null"
        raise fsx_error("BadRequest", text)
    if request.get("StorageType") == "HDD":
        step = CAPACITY_STEPS[request["LustreConfiguration"]["PerUnitStorageThroughput"]]
        allowed, valid = f"a multiple of {step}", capacity % step == 0
    elif deployment == "SCRATCH_1":
        allowed, valid = "1200, 2400 or a multiple of 3600", capacity in (1200, 2400) or capacity % 3600 == 0
    else:
        allowed, valid = "1200 or a multiple of 2400", capacity == 1200 or capacity % 2400 == 0
    if not valid or not capacity:
        raise fsx_error("BadRequest", f"Invalid Lustre FS storage capacity: {capacity}. Must be {allowed}.")


def check_growth(file_system: Any, capacity: int) -> None:
    if file_system.lustre["DeploymentType"] == "SCRATCH_1":
        raise fsx_error("BadRequest", "The storage capacity of a SCRATCH_1 file system cannot be increased.")
    if capacity <= file_system.storage_capacity:
        raise fsx_error("BadRequest", f"Storage capacity must be greater than the current one, {file_system.storage_capacity} GiB.")
    _check_capacity({**file_system.request, "StorageCapacity": capacity})


def _check_import(backend: FSxBackend, request: dict[str, Any]) -> None:
    given = request.get("LustreConfiguration", {})
    source, target = given.get("ImportPath"), given.get("ExportPath")
    if (source or target) and deployment_type(request) == "PERSISTENT_2":
        raise fsx_error("BadRequest", "ImportPath and ExportPath are not supported by the deployment type PERSISTENT_2.")
    if source and not bucket_exists(backend, source):
        raise fsx_error("InvalidImportPath", f"The import path {source} is not valid: the bucket does not exist.")
    if target and (not source or bucket_name(source) != bucket_name(target)):
        raise fsx_error("InvalidExportPath", f"The export path {target} is not valid: it must use the bucket of the import path.")


def _check_network(backend: FSxBackend, request: dict[str, Any]) -> None:
    ec2, subnets = ec2_backends[backend.account_id][backend.region_name], request["SubnetIds"]
    if len(subnets) != 1:
        raise fsx_error("BadRequest", "Exactly one subnet ID must be given for a Lustre file system.")
    try:
        subnet = ec2.get_subnet(subnets[0])
    except InvalidSubnetIdError:
        text = f"The subnet ID '{subnets[0]}' does not exist"
        raise fsx_error("InvalidNetworkSettings", text, InvalidSubnetId=subnets[0]) from None
    groups: list[Any] = []
    for identifier in request.get("SecurityGroupIds", []):
        group = ec2.get_security_group_from_id(identifier)
        if group is None or group.vpc_id != subnet.vpc_id:
            text = f"The security group '{identifier}' does not exist in VPC '{subnet.vpc_id}'"
            raise fsx_error("InvalidNetworkSettings", text, InvalidSecurityGroupId=identifier)
        groups.append(group)
    # A file system without security groups gets the VPC's default group, which permits all traffic between its members. moto omits the rule
    # for this traffic
    if groups and not all(any(_permits(rule, LNET_PORT) for rule in rules) for rules in _rules_of(groups)):
        text = (
            "The file system cannot be created because the default security group in the subnet provided or the provided security groups "
            f"do not permit Lustre LNET network traffic on port {LNET_PORT}"
        )
        raise fsx_error("InvalidNetworkSettings", text)


def _rules_of(groups: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the inbound and the outbound rules of all security groups."""
    return [rule for group in groups for rule in group.ingress_rules], [rule for group in groups for rule in group.egress_rules]


def _permits(rule: Any, port: int) -> bool:
    return rule.ip_protocol == "-1" or (rule.ip_protocol == "tcp" and int(rule.from_port) <= port <= int(rule.to_port))


def encryption_key(backend: FSxBackend, request: dict[str, Any]) -> str | None:
    """Return the ARN of a persistent file system's KMS key. Return None for a scratch file system, because it uses Amazon's key."""
    given = request.get("KmsKeyId")
    if not deployment_type(request).startswith("PERSISTENT"):
        if given:
            raise fsx_error("BadRequest", f"KmsKeyId is not supported by the deployment type {deployment_type(request)}.")
        return None
    arn = usable_key(backend.account_id, backend.region_name, given or "alias/aws/fsx")
    if arn is None:
        raise fsx_error("BadRequest", f"The KMS key '{given}' does not exist or cannot be used.")
    return arn
