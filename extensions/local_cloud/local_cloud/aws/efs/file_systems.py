"""EFS file systems and mount targets, and API calls that moto lacks."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from moto.ec2.exceptions import InvalidSubnetIdError
from moto.efs import models, urls
from moto.efs.exceptions import BadRequest, EFSError, FileSystemInUse, FileSystemNotFound, MountTargetNotFound, SubnetNotFound
from moto.efs.models import EFSBackend, FileSystem, MountTarget
from moto.efs.responses import EFSResponse

from ..context import CLOUD
from ..ec2.availability_zones import is_availability_zone
from ..kms.keys import usable_key
from ..lifecycle import LifeCycle
from ..override import override

JSON = {"Content-Type": "application/json"}
# The quota for provisioned throughput in MiB/s. This is the value in the regions with the highest quota.
MOST_THROUGHPUT = 3414
# The minimum time between changes of the throughput mode or decreases of the provisioned throughput.
THROUGHPUT_CHANGE_INTERVAL = timedelta(hours=24)

# The first generation of the API for tags, which older clients still use.
for call in ("create-tags", "delete-tags", "tags"):
    urls.url_paths[f"/2015-02-01/{call}/<file_system_id>"] = urls.response.dispatch
    urls.url_paths[f"/2015-02-01/{call}/<file_system_id>/"] = urls.response.dispatch

moto_create_file_system = EFSBackend.create_file_system
moto_create_mount_target = EFSBackend.create_mount_target
moto_delete_mount_target = EFSBackend.delete_mount_target
moto_delete_file_system = EFSBackend.delete_file_system


class DelayedFileSystem(LifeCycle, FileSystem):
    """A file system that takes time to become available and to be deleted."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._backup_status = "ENABLED" if self._backup else "DISABLED"
        self._may_change_at = datetime.min
        self.start_creation(CLOUD.delays.file_system)

    def set_throughput(self, mode: str, provisioned: float | None) -> None:
        """Start an update of the throughput. Raises `TooManyRequests` if the previous change of the mode, or the previous decrease of the
        throughput, is too recent.
        """
        before = self.provisioned_throughput_in_mibps
        if mode != self.throughput_mode or (before and provisioned and provisioned < before):
            now = CLOUD.utcnow()
            if now < self._may_change_at:
                text = (
                    "You have reached the maximum number of throughput mode changes or provisioned throughput value decreases. "
                    f"Wait until {self._may_change_at:%Y-%m-%dT%H:%M:%SZ} UTC and try again."
                )
                raise efs_error(429, "TooManyRequests", text)
            self._may_change_at = now + THROUGHPUT_CHANGE_INTERVAL
        self.throughput_mode, self.provisioned_throughput_in_mibps = mode, provisioned  # type: ignore[assignment]
        self.start_update(CLOUD.delays.file_system)

    def finish_deletion(self) -> None:
        moto_delete_file_system(self._context, self.file_system_id)

    @property
    def backup_policy(self) -> dict[str, str]:
        return {"Status": self._backup_status}


class DelayedMountTarget(LifeCycle, MountTarget):
    """A mount target that takes time to become available and to be deleted."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.start_creation(CLOUD.delays.mount_target)

    def finish_deletion(self) -> None:
        """Remove the mount target, its network interface, and its address."""
        moto_delete_mount_target(self._file_system._context, self.mount_target_id)


models.FileSystem, models.MountTarget = DelayedFileSystem, DelayedMountTarget  # type: ignore[misc]


@override(EFSBackend)
def create_file_system(self: EFSBackend, creation_token: str, **wanted: Any) -> FileSystem:
    for known in self.file_systems_by_id.values():
        if known.creation_token == creation_token:
            raise efs_error(
                409,
                "FileSystemAlreadyExists",
                f"File system '{known.file_system_id}' already exists with creation token '{creation_token}'",
                FileSystemId=known.file_system_id,
            )
    mode, zone = wanted["throughput_mode"] or "bursting", wanted["availability_zone_name"]
    _check_throughput(mode, wanted["provisioned_throughput_in_mibps"], wanted["performance_mode"])
    if zone and wanted["performance_mode"] == "maxIO":
        raise BadRequest("The maxIO performance mode is not supported by One Zone file systems.")
    if zone and zone not in [each.name for each in self.ec2_backend.describe_availability_zones()]:
        raise efs_error(400, "UnsupportedAvailabilityZone", f"The Availability Zone '{zone}' is not available in this Region.")
    if wanted["encrypted"]:
        wanted["kms_key_id"] = usable_key(self.account_id, self.region_name, wanted["kms_key_id"] or "alias/aws/elasticfilesystem")
        if wanted["kms_key_id"] is None:
            raise BadRequest("The request was rejected because the specified key could not be found. [error=NotFoundException]")
    return moto_create_file_system(self, creation_token, **wanted)


@override(EFSBackend)
def delete_file_system(self: EFSBackend, file_system_id: str) -> None:
    file_system = find_file_system(self, file_system_id)
    if file_system.number_of_mount_targets:
        raise FileSystemInUse(f"File system '{file_system_id}' has mount targets and cannot be deleted.")
    file_system.start_deletion(CLOUD.delays.file_system)


@override(EFSBackend)
def create_mount_target(
    self: EFSBackend,
    file_system_id: str,
    subnet_id: str,
    ip_address: str | None = None,
    security_groups: list[str] | None = None,
) -> MountTarget:
    file_system = find_file_system(self, file_system_id)
    if file_system.life_cycle_state not in ("available", "updating"):
        raise incorrect_state(file_system)
    zone, zone_of_target = file_system.availability_zone_name, _zone(self, subnet_id)
    if not is_availability_zone(self.ec2_backend.get_subnet(subnet_id)._availability_zone):
        raise efs_error(400, "UnsupportedAvailabilityZone", f"Amazon EFS is not available in {zone_of_target}.")
    if zone and zone_of_target != zone:
        raise efs_error(400, "AvailabilityZonesMismatch", f"File system '{file_system_id}' can only have a mount target in {zone}.")
    target = moto_create_mount_target(self, file_system_id, subnet_id, ip_address, security_groups)
    interface = self.ec2_backend.get_network_interface(target.network_interface_id)
    interface.status, interface.interface_type, interface.requester_managed = "in-use", "efs", True
    interface.description = f"EFS mount target for {file_system_id} ({target.mount_target_id})"
    if not security_groups:
        target.security_groups = [group.id for group in interface.group_set]
    return target


@override(EFSBackend)
def delete_mount_target(self: EFSBackend, mount_target_id: str) -> None:
    if mount_target_id not in self.mount_targets_by_id:
        raise MountTargetNotFound(mount_target_id)
    target: Any = self.mount_targets_by_id[mount_target_id]
    target.start_deletion(CLOUD.delays.mount_target)


@override(EFSBackend)
def describe_backup_policy(self: EFSBackend, file_system_id: str) -> dict[str, str]:
    policy: dict[str, str] = find_file_system(self, file_system_id).backup_policy
    return policy


@override(EFSResponse)
def put_backup_policy(self: EFSResponse) -> tuple[str, dict[str, str]]:
    file_system = find_file_system(self.efs_backend, self._get_param("FileSystemId"))
    file_system._backup_status = json.loads(self.body)["BackupPolicy"]["Status"]
    return json.dumps({"BackupPolicy": file_system.backup_policy}), JSON


@override(EFSResponse)
def update_file_system(self: EFSResponse) -> tuple[str, dict[str, Any]]:
    file_system = find_file_system(self.efs_backend, self._get_param("FileSystemId"))
    wanted = json.loads(self.body or "{}")
    if file_system.life_cycle_state != "available":
        raise incorrect_state(file_system)
    mode = wanted.get("ThroughputMode", file_system.throughput_mode)
    default = file_system.provisioned_throughput_in_mibps if mode == file_system.throughput_mode else None
    provisioned = wanted.get("ProvisionedThroughputInMibps", default)
    _check_throughput(mode, provisioned, file_system.performance_mode)
    file_system.set_throughput(mode, provisioned)
    return json.dumps(file_system.info_json()), {**JSON, "status": 202}


@override(EFSResponse)
def describe_tags(self: EFSResponse) -> tuple[str, dict[str, str]]:
    file_system = find_file_system(self.efs_backend, self._get_param("FileSystemId"))
    return json.dumps({"Tags": self.efs_backend.list_tags_for_resource(file_system.file_system_id)}), JSON


@override(EFSResponse)
def create_tags(self: EFSResponse) -> tuple[str, dict[str, Any]]:
    file_system = find_file_system(self.efs_backend, self._get_param("FileSystemId"))
    self.efs_backend.tag_resource(file_system.file_system_id, {tag["Key"]: tag["Value"] for tag in json.loads(self.body)["Tags"]})
    return "", {**JSON, "status": 204}


@override(EFSResponse)
def delete_tags(self: EFSResponse) -> tuple[str, dict[str, Any]]:
    file_system = find_file_system(self.efs_backend, self._get_param("FileSystemId"))
    self.efs_backend.untag_resource(file_system.file_system_id, json.loads(self.body)["TagKeys"])
    return "", {**JSON, "status": 204}


def find_file_system(backend: EFSBackend, identifier: str) -> Any:
    """Return the file system with this ID. Raises `FileSystemNotFound`."""
    try:
        return backend.file_systems_by_id[identifier]
    except KeyError:
        raise FileSystemNotFound(identifier) from None


def _zone(backend: EFSBackend, subnet_id: str) -> str:
    try:
        return str(backend.ec2_backend.get_subnet(subnet_id).availability_zone)
    except InvalidSubnetIdError:
        raise SubnetNotFound(subnet_id) from None


def _check_throughput(mode: str, provisioned: float | None, performance_mode: str | None) -> None:
    """Raise the EFS error for incompatible throughput settings."""
    if mode == "elastic" and performance_mode == "maxIO":
        raise BadRequest("The elastic throughput mode is not supported by file systems with the maxIO performance mode.")
    if mode == "provisioned" and not provisioned:
        raise BadRequest("ProvisionedThroughputInMibps must be set when the throughput mode is provisioned.")
    if mode != "provisioned" and provisioned:
        raise BadRequest(f"ProvisionedThroughputInMibps cannot be set when the throughput mode is {mode}.")
    if provisioned and provisioned > MOST_THROUGHPUT:
        text = f"The throughput limit of {MOST_THROUGHPUT} MiB/s has been reached."
        raise efs_error(400, "ThroughputLimitExceeded", text)


def incorrect_state(file_system: Any) -> EFSError:
    """Return the error for a file system that is not available."""
    text = f"File system '{file_system.file_system_id}' is in state '{file_system.life_cycle_state}', not in state 'available'."
    return efs_error(409, "IncorrectFileSystemLifeCycleState", text)


def efs_error(status: int, code: str, message: str, **members: str) -> EFSError:
    """Return an error in the format of EFS."""
    error = EFSError(code, message)
    error.code = status
    error.description = json.dumps({"__type": code, "ErrorCode": code, "message": message, **members})
    return error
