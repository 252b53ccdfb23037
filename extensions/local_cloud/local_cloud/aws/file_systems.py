"""EFS: file systems and mount targets that take their time, and the calls that moto lacks."""

from __future__ import annotations

import json
from typing import Any

from moto.efs import models, urls
from moto.efs.exceptions import EFSError, FileSystemInUse, FileSystemNotFound, MountTargetNotFound
from moto.efs.models import EFSBackend, FileSystem, MountTarget
from moto.efs.responses import EFSResponse

from .context import CLOUD
from .patching import override

JSON = {"Content-Type": "application/json"}

# The first generation of tag calls, which older clients still make.
for call in ("create-tags", "delete-tags", "tags"):
    urls.url_paths[f"/2015-02-01/{call}/<file_system_id>"] = urls.response.dispatch
    urls.url_paths[f"/2015-02-01/{call}/<file_system_id>/"] = urls.response.dispatch

moto_create_file_system = EFSBackend.create_file_system
moto_create_mount_target = EFSBackend.create_mount_target
moto_delete_mount_target = EFSBackend.delete_mount_target
moto_delete_file_system = EFSBackend.delete_file_system


class SlowFileSystem(FileSystem):
    """A file system that is creating at first."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._backup_status = "ENABLED" if self._backup else "DISABLED"
        self.life_cycle_state = "creating"
        CLOUD.clock.after(CLOUD.delays.file_system, self.come_up)

    def come_up(self) -> None:
        if self.life_cycle_state == "creating":
            self.life_cycle_state = "available"

    def be_deleted(self) -> None:
        moto_delete_file_system(self._context, self.file_system_id)

    @property
    def backup_policy(self) -> dict[str, str]:
        return {"Status": self._backup_status}


class SlowMountTarget(MountTarget):
    """A mount target that is creating at first."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.life_cycle_state = "creating"
        CLOUD.clock.after(CLOUD.delays.mount_target, self.come_up)

    def come_up(self) -> None:
        if self.life_cycle_state == "creating":
            self.life_cycle_state = "available"

    def be_deleted(self) -> None:
        """Leave the file system, and give back interface and address."""
        moto_delete_mount_target(self._file_system._context, self.mount_target_id)


models.FileSystem, models.MountTarget = SlowFileSystem, SlowMountTarget  # type: ignore[misc]


@override(EFSBackend)
def create_file_system(self: EFSBackend, creation_token: str, *args: Any, **kwargs: Any) -> FileSystem:
    for known in self.file_systems_by_id.values():
        if known.creation_token == creation_token:
            raise _error(
                409,
                "FileSystemAlreadyExists",
                f"File system '{known.file_system_id}' already exists with creation token '{creation_token}'",
                FileSystemId=known.file_system_id,
            )
    return moto_create_file_system(self, creation_token, *args, **kwargs)


@override(EFSBackend)
def delete_file_system(self: EFSBackend, file_system_id: str) -> None:
    file_system = _file_system(self, file_system_id)
    if file_system.number_of_mount_targets:
        raise FileSystemInUse(f"File system '{file_system_id}' has mount targets and cannot be deleted.")
    if file_system.life_cycle_state != "deleting":
        file_system.life_cycle_state = "deleting"
        CLOUD.clock.after(CLOUD.delays.file_system, file_system.be_deleted)


@override(EFSBackend)
def create_mount_target(
    self: EFSBackend,
    file_system_id: str,
    subnet_id: str,
    ip_address: str | None = None,
    security_groups: list[str] | None = None,
) -> MountTarget:
    file_system = _file_system(self, file_system_id)
    if file_system.life_cycle_state not in ("available", "updating"):
        raise _error(
            409,
            "IncorrectFileSystemLifeCycleState",
            f"File system '{file_system_id}' is in state '{file_system.life_cycle_state}', not in state 'available'.",
        )
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
    if target.life_cycle_state != "deleting":
        target.life_cycle_state = "deleting"
        CLOUD.clock.after(CLOUD.delays.mount_target, target.be_deleted)


@override(EFSBackend)
def describe_backup_policy(self: EFSBackend, file_system_id: str) -> dict[str, str]:
    policy: dict[str, str] = _file_system(self, file_system_id).backup_policy
    return policy


@override(EFSResponse)
def put_backup_policy(self: EFSResponse) -> tuple[str, dict[str, str]]:
    file_system = _file_system(self.efs_backend, self._get_param("FileSystemId"))
    file_system._backup_status = json.loads(self.body)["BackupPolicy"]["Status"]
    return json.dumps({"BackupPolicy": file_system.backup_policy}), JSON


@override(EFSResponse)
def update_file_system(self: EFSResponse) -> tuple[str, dict[str, Any]]:
    file_system = _file_system(self.efs_backend, self._get_param("FileSystemId"))
    wanted = json.loads(self.body or "{}")
    file_system.throughput_mode = wanted.get("ThroughputMode", file_system.throughput_mode)
    file_system.provisioned_throughput_in_mibps = wanted.get("ProvisionedThroughputInMibps")
    return json.dumps(file_system.info_json()), {**JSON, "status": 202}


@override(EFSResponse)
def describe_tags(self: EFSResponse) -> tuple[str, dict[str, str]]:
    file_system = _file_system(self.efs_backend, self._get_param("FileSystemId"))
    return json.dumps({"Tags": self.efs_backend.list_tags_for_resource(file_system.file_system_id)}), JSON


@override(EFSResponse)
def create_tags(self: EFSResponse) -> tuple[str, dict[str, Any]]:
    file_system = _file_system(self.efs_backend, self._get_param("FileSystemId"))
    self.efs_backend.tag_resource(file_system.file_system_id, {tag["Key"]: tag["Value"] for tag in json.loads(self.body)["Tags"]})
    return "", {**JSON, "status": 204}


@override(EFSResponse)
def delete_tags(self: EFSResponse) -> tuple[str, dict[str, Any]]:
    file_system = _file_system(self.efs_backend, self._get_param("FileSystemId"))
    self.efs_backend.untag_resource(file_system.file_system_id, json.loads(self.body)["TagKeys"])
    return "", {**JSON, "status": 204}


def _file_system(backend: EFSBackend, identifier: str) -> Any:
    try:
        return backend.file_systems_by_id[identifier]
    except KeyError:
        raise FileSystemNotFound(identifier) from None


def _error(status: int, code: str, message: str, **members: str) -> EFSError:
    error = EFSError(code, message)
    error.code = status
    error.description = json.dumps({"__type": code, "ErrorCode": code, "message": message, **members})
    return error
