"""Lustre file systems of FSx, each with a network interface in its subnet."""

from __future__ import annotations

import json
import random
import secrets
import string
from typing import Any

from moto.ec2.models import ec2_backends
from moto.fsx import models
from moto.fsx.models import FSxBackend
from moto.fsx.responses import FSxResponse
from moto.utilities.paginator import paginate

from ..context import CLOUD
from ..lifecycle import LifeCycle
from ..override import override
from .checks import check_creation, check_growth, check_throughput, deployment_type, encryption_key
from .data_repository_associations import associations
from .lookup import find_file_system, find_lustre_file_system, find_repeated, fsx_error

# Members of LustreConfiguration in requests that are members of DataRepositoryConfiguration in descriptions.
REPOSITORY = ("ImportPath", "ExportPath", "ImportedFileChunkSize", "AutoImportPolicy")

moto_create_file_system = FSxResponse.create_file_system


class LustreFileSystem(LifeCycle):
    """A Lustre file system that takes time to become available and to be deleted."""

    file_system_type = "LUSTRE"

    def __init__(self, backend: FSxBackend, request: dict[str, Any], key: str | None) -> None:
        self.backend = backend
        self.request = request
        self.file_system_id = f"fs-0{secrets.token_hex(8)}"
        self.resource_arn = f"arn:aws:fsx:{backend.region_name}:{backend.account_id}:file-system/{self.file_system_id}"
        self.dns_name = f"{self.file_system_id}.fsx.{backend.region_name}.amazonaws.com"
        self.created = CLOUD.now()
        self.storage_capacity: int = request["StorageCapacity"]
        self.key = key
        self.version, self.lustre = _lustre(request)
        self.actions: list[dict[str, Any]] = []
        self._attach(request)
        backend.tagger.tag_resource(self.resource_arn, request.get("Tags", []))
        self.start_creation(CLOUD.delays.file_system)

    @property
    def mount_name(self) -> str:
        return str(self.lustre["MountName"])

    def become_available(self) -> None:
        """Complete the creation or the update, and apply the updated values."""
        super().become_available()
        for action in self.actions:
            if self.life_cycle_state == "available" and action["Status"] == "IN_PROGRESS":
                target = action["TargetFileSystemValues"]
                self.storage_capacity = target.get("StorageCapacity", self.storage_capacity)
                self.lustre.update(target.get("LustreConfiguration", {}))
                action["Status"] = "COMPLETED"

    def change(self, target: dict[str, Any]) -> None:
        """Start an update. The new values apply when the update is complete."""
        action = {"AdministrativeActionType": "FILE_SYSTEM_UPDATE", "RequestTime": CLOUD.now(), "Status": "IN_PROGRESS"}
        self.actions.insert(0, {**action, "TargetFileSystemValues": target})
        self.start_update(CLOUD.delays.file_system)

    def finish_deletion(self) -> None:
        """Remove the file system and its network interface, and start the deletion of its associations."""
        self._ec2.delete_network_interface(self.interface_id)
        for association in list(associations(self.backend).values()):
            if association.file_system is self:
                association.start_deletion(CLOUD.delays.file_system)
        del self.backend.file_systems[self.file_system_id]
        self.backend.tagger.delete_all_tags_for_resource(self.resource_arn)

    def to_dict(self) -> dict[str, Any]:
        described = {
            "OwnerId": self.backend.account_id,
            "CreationTime": self.created,
            "FileSystemId": self.file_system_id,
            "FileSystemType": "LUSTRE",
            "FileSystemTypeVersion": self.version,
            "Lifecycle": self.life_cycle_state.upper(),
            "StorageCapacity": self.storage_capacity,
            "StorageType": self.request.get("StorageType", "SSD"),
            "VpcId": self.vpc_id,
            "SubnetIds": self.request["SubnetIds"],
            "NetworkInterfaceIds": [self.interface_id],
            "DNSName": self.dns_name,
            "KmsKeyId": self.key,
            "ResourceARN": self.resource_arn,
            "Tags": self.backend.list_tags_for_resource(self.resource_arn),
            "LustreConfiguration": self.lustre,
            "AdministrativeActions": self.actions,
        }
        return {key: value for key, value in described.items() if value not in (None, [])}

    @property
    def _ec2(self) -> Any:
        return ec2_backends[self.backend.account_id][self.backend.region_name]

    def _attach(self, request: dict[str, Any]) -> None:
        interface = self._ec2.create_network_interface(
            request["SubnetIds"][0],
            None,
            group_ids=request.get("SecurityGroupIds"),
            description=f"Created by Amazon FSx {self.file_system_id}",
        )
        interface.status, interface.requester_managed = "in-use", True
        interface.add_tags({"AmazonFSx.FileSystemId": self.file_system_id})
        self.interface_id, self.vpc_id = interface.id, interface.subnet.vpc_id


@override(FSxResponse)
def create_file_system(self: FSxResponse) -> str:
    """Create a file system. A request with a known token returns the earlier file system. moto handles types other than LUSTRE."""
    request = json.loads(self.body)
    if request["FileSystemType"] != "LUSTRE":
        return moto_create_file_system(self)
    known = find_repeated(request, self.fsx_backend.file_systems.values())
    if known is None:
        check_creation(self.fsx_backend, request)
        known = LustreFileSystem(self.fsx_backend, request, encryption_key(self.fsx_backend, request))
        self.fsx_backend.file_systems[known.file_system_id] = known  # type: ignore[assignment]
    return json.dumps({"FileSystem": known.to_dict()})


@override(FSxBackend)
@paginate(pagination_model=models.PAGINATION_MODEL)
def describe_file_systems(self: FSxBackend, file_system_ids: list[str] | None) -> list[Any]:
    if file_system_ids:
        return [find_file_system(self, identifier) for identifier in file_system_ids]
    return list(self.file_systems.values())


@override(FSxResponse)
def update_file_system(self: FSxResponse) -> str:
    request = json.loads(self.body)
    file_system = find_lustre_file_system(self.fsx_backend, request["FileSystemId"])
    if file_system.life_cycle_state != "available":
        raise fsx_error(
            "BadRequest", f"File system '{file_system.file_system_id}' is {file_system.life_cycle_state.upper()}: it cannot be updated now."
        )
    target = {"LustreConfiguration": request.get("LustreConfiguration", {})}
    if "StorageCapacity" in request:
        check_growth(file_system, request["StorageCapacity"])
        target["StorageCapacity"] = request["StorageCapacity"]
    throughput = target["LustreConfiguration"].get("PerUnitStorageThroughput")
    if throughput:
        check_throughput({**file_system.request, "LustreConfiguration": {**file_system.lustre, "PerUnitStorageThroughput": throughput}})
    file_system.change(target)
    return json.dumps({"FileSystem": file_system.to_dict()})


@override(FSxResponse)
def delete_file_system(self: FSxResponse) -> str:
    file_system = find_file_system(self.fsx_backend, json.loads(self.body)["FileSystemId"])
    if file_system.file_system_type == "LUSTRE":
        file_system.start_deletion(CLOUD.delays.file_system)
    else:
        del self.fsx_backend.file_systems[file_system.file_system_id]
    return json.dumps({"FileSystemId": file_system.file_system_id, "Lifecycle": "DELETING"})


def _lustre(request: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the Lustre version of a new file system, and its configuration in the format of descriptions."""
    given = request.get("LustreConfiguration", {})
    deployment = deployment_type(request)
    defaults = {"WeeklyMaintenanceStartTime": "2:05:00", "DataCompressionType": "NONE", "CopyTagsToBackups": False}
    lustre = {**defaults, **{name: value for name, value in given.items() if name not in REPOSITORY}, "DeploymentType": deployment}
    # All SCRATCH_1 file systems have the same mount name.
    unique = "".join(random.choices(string.ascii_lowercase + string.digits, k=8))
    lustre["MountName"] = "fsx" if deployment == "SCRATCH_1" else unique
    if deployment.startswith("PERSISTENT"):
        lustre.setdefault("AutomaticBackupRetentionDays", 0)
    if "ImportPath" in given:
        repository = {name: given[name] for name in REPOSITORY if name in given}
        lustre["DataRepositoryConfiguration"] = {"Lifecycle": "AVAILABLE", "ImportedFileChunkSize": 1024, **repository}
    version = "2.15" if "MetadataConfiguration" in given else "2.12"
    return request.get("FileSystemTypeVersion", version if deployment == "PERSISTENT_2" else "2.10"), lustre
