"""FSx for Lustre: file systems that take their time and their place in a subnet, and their links to S3.

What lies in a linked bucket does not appear on the file system: there is the association, and its states.
"""

from __future__ import annotations

import json
import random
import secrets
import string
import time
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.ec2.exceptions import InvalidSubnetIdError
from moto.ec2.models import ec2_backends
from moto.fsx import models
from moto.fsx.exceptions import FileSystemNotFound
from moto.fsx.models import FSxBackend
from moto.fsx.responses import FSxResponse
from moto.s3.models import s3_backends
from moto.utilities.paginator import paginate

from ..context import CLOUD
from ..kms.keys import usable_key
from ..override import override

THROUGHPUT: dict[tuple[str, str], tuple[int | None, ...]] = {
    ("SCRATCH_1", "SSD"): (None,),
    ("SCRATCH_2", "SSD"): (None,),
    ("PERSISTENT_1", "SSD"): (50, 100, 200),
    ("PERSISTENT_1", "HDD"): (12, 40),
    ("PERSISTENT_2", "SSD"): (125, 250, 500, 1000),
}
"""PerUnitStorageThroughput, MB/s/TiB, by deployment type and storage type."""
CAPACITY_STEPS = {12: 6000, 40: 1800}
"""Step of StorageCapacity in GiB of disks, by their throughput; it is 2400 for SSD."""
REPOSITORY = ("ImportPath", "ExportPath", "ImportedFileChunkSize", "AutoImportPolicy")
"""Members of a request's LustreConfiguration that are described as DataRepositoryConfiguration."""
LINKABLE = ("2.12", "2.15")
"""Lustre versions whose file systems can have data repository associations."""
MODEL = {**models.PAGINATION_MODEL, "describe_associations": {**models.PAGINATION_MODEL["describe_file_systems"], "limit_default": 25}}

moto_create_file_system = FSxResponse.create_file_system


class LustreFileSystem:
    """A file system for Lustre clients: creating at first, with a network interface in its subnet."""

    file_system_type = "LUSTRE"

    def __init__(self, backend: FSxBackend, request: dict[str, Any], key: str | None) -> None:
        self.backend = backend
        self.request = request
        self.file_system_id = f"fs-0{secrets.token_hex(8)}"
        self.resource_arn = f"arn:aws:fsx:{backend.region_name}:{backend.account_id}:file-system/{self.file_system_id}"
        self.dns_name = f"{self.file_system_id}.fsx.{backend.region_name}.amazonaws.com"
        self.created = time.time()
        self.lifecycle = "CREATING"
        self.storage_capacity: int = request["StorageCapacity"]
        self.key = key
        self.version, self.lustre = _lustre(request)
        self.actions: list[dict[str, Any]] = []
        self._attach(request)
        backend.tagger.tag_resource(self.resource_arn, request.get("Tags", []))
        CLOUD.clock.after(CLOUD.delays.file_system, self.become_available)

    @property
    def mount_name(self) -> str:
        return str(self.lustre["MountName"])

    def become_available(self) -> None:
        """End being created or updated."""
        if self.lifecycle == "DELETING":
            return
        self.lifecycle = "AVAILABLE"
        for action in self.actions:
            if action["Status"] == "IN_PROGRESS":
                target = action["TargetFileSystemValues"]
                self.storage_capacity = target.get("StorageCapacity", self.storage_capacity)
                self.lustre.update(target.get("LustreConfiguration", {}))
                action["Status"] = "COMPLETED"

    def change(self, target: dict[str, Any]) -> None:
        """Begin an update: the new values hold once it is done."""
        self.lifecycle = "UPDATING"
        action = {"AdministrativeActionType": "FILE_SYSTEM_UPDATE", "RequestTime": time.time(), "Status": "IN_PROGRESS"}
        self.actions.insert(0, {**action, "TargetFileSystemValues": target})
        CLOUD.clock.after(CLOUD.delays.file_system, self.become_available)

    def start_deletion(self) -> None:
        """Begin to be deleted."""
        if self.lifecycle != "DELETING":
            self.lifecycle = "DELETING"
            CLOUD.clock.after(CLOUD.delays.file_system, self.finish_deletion)

    def finish_deletion(self) -> None:
        """Give back interface and address, and end the associations."""
        self._ec2.delete_network_interface(self.interface_id)
        for association in list(associations(self.backend).values()):
            if association.file_system is self:
                association.start_deletion()
        del self.backend.file_systems[self.file_system_id]
        self.backend.tagger.delete_all_tags_for_resource(self.resource_arn)

    def to_dict(self) -> dict[str, Any]:
        described = {
            "OwnerId": self.backend.account_id,
            "CreationTime": self.created,
            "FileSystemId": self.file_system_id,
            "FileSystemType": "LUSTRE",
            "FileSystemTypeVersion": self.version,
            "Lifecycle": self.lifecycle,
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


class Association:
    """A link between a directory of a file system and a bucket or a prefix of it."""

    def __init__(self, file_system: LustreFileSystem, request: dict[str, Any]) -> None:
        self.file_system = file_system
        self.backend = file_system.backend
        self.request = request
        self.association_id = f"dra-0{secrets.token_hex(8)}"
        place = f"{self.backend.region_name}:{self.backend.account_id}"
        self.resource_arn = f"arn:aws:fsx:{place}:association/{file_system.file_system_id}/{self.association_id}"
        self.created = time.time()
        self.lifecycle = "CREATING"
        self.backend.tagger.tag_resource(self.resource_arn, request.get("Tags", []))
        CLOUD.clock.after(CLOUD.delays.file_system, self.become_available)

    @property
    def path(self) -> str:
        return _folder(self.request.get("FileSystemPath", "/"))

    def become_available(self) -> None:
        if self.lifecycle in ("CREATING", "UPDATING"):
            self.lifecycle = "AVAILABLE"

    def change(self, policies: dict[str, Any]) -> None:
        """Take over the policies that are named."""
        self.request["S3"] = {**self.request.get("S3", {}), **policies}
        self.lifecycle = "UPDATING"
        CLOUD.clock.after(CLOUD.delays.file_system, self.become_available)

    def start_deletion(self) -> None:
        """Begin to be deleted."""
        if self.lifecycle != "DELETING":
            self.lifecycle = "DELETING"
            CLOUD.clock.after(CLOUD.delays.file_system, self.finish_deletion)

    def finish_deletion(self) -> None:
        del associations(self.backend)[self.association_id]
        self.backend.tagger.delete_all_tags_for_resource(self.resource_arn)

    def to_dict(self) -> dict[str, Any]:
        return {
            "AssociationId": self.association_id,
            "ResourceARN": self.resource_arn,
            "FileSystemId": self.file_system.file_system_id,
            "Lifecycle": self.lifecycle,
            "FileSystemPath": self.request.get("FileSystemPath", "/"),
            "DataRepositoryPath": self.request["DataRepositoryPath"],
            "BatchImportMetaDataOnCreate": self.request.get("BatchImportMetaDataOnCreate", False),
            "ImportedFileChunkSize": self.request.get("ImportedFileChunkSize", 1024),
            "S3": self.request.get("S3", {}),
            "Tags": self.backend.list_tags_for_resource(self.resource_arn),
            "CreationTime": self.created,
        }


def associations(backend: FSxBackend) -> dict[str, Association]:
    """The data repository associations of an account and region, by id."""
    found: dict[str, Association] = backend.__dict__.setdefault("associations", {})
    return found


@override(FSxResponse)
def create_file_system(self: FSxResponse) -> str:
    """Create a file system, unless this request has been here before. Types other than LUSTRE are moto's."""
    request = json.loads(self.body)
    if request["FileSystemType"] != "LUSTRE":
        return moto_create_file_system(self)
    known = _repeated(request, self.fsx_backend.file_systems.values())
    if known is None:
        _check(self.fsx_backend, request)
        known = LustreFileSystem(self.fsx_backend, request, _key(self.fsx_backend, request))
        self.fsx_backend.file_systems[known.file_system_id] = known  # type: ignore[assignment]
    return json.dumps({"FileSystem": known.to_dict()})


@override(FSxBackend)
@paginate(pagination_model=MODEL)
def describe_file_systems(self: FSxBackend, file_system_ids: list[str] | None) -> list[Any]:
    if file_system_ids:
        return [_file_system(self, identifier) for identifier in file_system_ids]
    return list(self.file_systems.values())


@override(FSxResponse)
def update_file_system(self: FSxResponse) -> str:
    request = json.loads(self.body)
    file_system = _lustre_file_system(self.fsx_backend, request["FileSystemId"])
    if file_system.lifecycle != "AVAILABLE":
        raise _error("BadRequest", f"File system '{file_system.file_system_id}' is {file_system.lifecycle}: it cannot be updated now.")
    target = {"LustreConfiguration": request.get("LustreConfiguration", {})}
    if "StorageCapacity" in request:
        _check_growth(file_system, request["StorageCapacity"])
        target["StorageCapacity"] = request["StorageCapacity"]
    throughput = target["LustreConfiguration"].get("PerUnitStorageThroughput")
    if throughput:
        _check_throughput({**file_system.request, "LustreConfiguration": {**file_system.lustre, "PerUnitStorageThroughput": throughput}})
    file_system.change(target)
    return json.dumps({"FileSystem": file_system.to_dict()})


@override(FSxResponse)
def delete_file_system(self: FSxResponse) -> str:
    file_system = _file_system(self.fsx_backend, json.loads(self.body)["FileSystemId"])
    if file_system.file_system_type == "LUSTRE":
        file_system.start_deletion()
    else:
        del self.fsx_backend.file_systems[file_system.file_system_id]
    return json.dumps({"FileSystemId": file_system.file_system_id, "Lifecycle": "DELETING"})


@override(FSxResponse)
def create_data_repository_association(self: FSxResponse) -> str:
    backend, request = self.fsx_backend, json.loads(self.body)
    file_system = _lustre_file_system(backend, request["FileSystemId"])
    known = _repeated(request, associations(backend).values())
    if known is None:
        _check_link(backend, file_system, request)
        known = Association(file_system, request)
        associations(backend)[known.association_id] = known
    return json.dumps({"Association": known.to_dict()})


@override(FSxResponse)
def describe_data_repository_associations(self: FSxResponse) -> str:
    request = json.loads(self.body)
    found, token = describe_associations(
        self.fsx_backend,
        association_ids=request.get("AssociationIds"),
        filters=request.get("Filters", []),
        max_results=request.get("MaxResults"),
        next_token=request.get("NextToken"),
    )
    return json.dumps({"Associations": [each.to_dict() for each in found], "NextToken": token})


@paginate(pagination_model=MODEL)
def describe_associations(backend: FSxBackend, association_ids: list[str] | None, filters: list[dict[str, Any]]) -> list[Any]:
    """One page of the associations with these ids, or of all, that pass all filters."""
    found = [_association(backend, identifier) for identifier in association_ids or associations(backend)]
    values = {each["Name"]: each["Values"] for each in filters}
    return [
        each
        for each in found
        if each.file_system.file_system_id in values.get("file-system-id", [each.file_system.file_system_id])
        and "S3" in values.get("data-repository-type", ["S3"])
    ]


@override(FSxResponse)
def update_data_repository_association(self: FSxResponse) -> str:
    request = json.loads(self.body)
    association = _association(self.fsx_backend, request["AssociationId"])
    if association.lifecycle != "AVAILABLE":
        raise _error("BadRequest", f"Data repository association '{association.association_id}' is {association.lifecycle}.")
    association.change(request.get("S3", {}))
    return json.dumps({"Association": association.to_dict()})


@override(FSxResponse)
def delete_data_repository_association(self: FSxResponse) -> str:
    request = json.loads(self.body)
    association = _association(self.fsx_backend, request["AssociationId"])
    association.start_deletion()
    deletes = request.get("DeleteDataInFileSystem", False)
    return json.dumps({"AssociationId": association.association_id, "Lifecycle": "DELETING", "DeleteDataInFileSystem": deletes})


def _guard_tags(action: str) -> None:
    """Let a tag call refuse what does not exist."""
    moto_call = getattr(FSxResponse, action)

    def call(self: FSxResponse) -> Any:
        backend, arn = self.fsx_backend, json.loads(self.body)["ResourceARN"]
        tagged: tuple[Any, ...] = (*backend.file_systems.values(), *associations(backend).values(), *backend.backups.values())
        if not any(each.resource_arn == arn for each in tagged):
            raise _error("ResourceNotFound", f"The resource '{arn}' does not exist.", ResourceARN=arn)
        return moto_call(self)

    call.__name__ = action
    override(FSxResponse)(call)


for _action in ("tag_resource", "untag_resource", "list_tags_for_resource"):
    _guard_tags(_action)


def _repeated(request: dict[str, Any], others: Any) -> Any:
    """What an earlier request with the same token made, None without one."""
    token = request.get("ClientRequestToken")
    for known in others:
        earlier = getattr(known, "request", {})
        if token and earlier.get("ClientRequestToken") == token:
            different = [key for key in {**request, **earlier} if request.get(key) != earlier.get(key)]
            if different:
                text = f"The client request token '{token}' was used before with another value of {different[0]}."
                raise _error("IncompatibleParameterError", text, Parameter=different[0])
            return known
    return None


def _lustre(request: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Lustre's version and the described configuration of a new file system."""
    given = request.get("LustreConfiguration", {})
    deployment = _deployment(request)
    defaults = {"WeeklyMaintenanceStartTime": "2:05:00", "DataCompressionType": "NONE", "CopyTagsToBackups": False}
    lustre = {**defaults, **{name: value for name, value in given.items() if name not in REPOSITORY}, "DeploymentType": deployment}
    # Those of the first deployment type share a name.
    unique = "".join(random.choices(string.ascii_lowercase + string.digits, k=8))
    lustre["MountName"] = "fsx" if deployment == "SCRATCH_1" else unique
    if deployment.startswith("PERSISTENT"):
        lustre.setdefault("AutomaticBackupRetentionDays", 0)
    if "ImportPath" in given:
        repository = {name: given[name] for name in REPOSITORY if name in given}
        lustre["DataRepositoryConfiguration"] = {"Lifecycle": "AVAILABLE", "ImportedFileChunkSize": 1024, **repository}
    version = "2.15" if "MetadataConfiguration" in given else "2.12"
    return request.get("FileSystemTypeVersion", version if deployment == "PERSISTENT_2" else "2.10"), lustre


def _deployment(request: dict[str, Any]) -> str:
    return str(request.get("LustreConfiguration", {}).get("DeploymentType", "SCRATCH_1"))


def _check(backend: FSxBackend, request: dict[str, Any]) -> None:
    """Refuse what cannot be created."""
    deployment = _deployment(request)
    if deployment == "PERSISTENT_2" and request.get("FileSystemTypeVersion") == "2.10":
        raise _error("BadRequest", "Lustre version 2.10 is not supported by the deployment type PERSISTENT_2.")
    _check_throughput(request)
    _check_capacity(request)
    _check_import(backend, request)
    _check_place(backend, request)


def _check_throughput(request: dict[str, Any]) -> None:
    deployment, throughput = _deployment(request), request.get("LustreConfiguration", {}).get("PerUnitStorageThroughput")
    if throughput not in THROUGHPUT.get((deployment, request.get("StorageType", "SSD")), ()):
        text = (
            "Invalid Lustre deployment configuration: the provided throughput is invalid or does not meet the storage capacity requirement"
        )
        raise _error("BadRequest", text)


def _check_capacity(request: dict[str, Any]) -> None:
    capacity, deployment = request.get("StorageCapacity"), _deployment(request)
    if capacity is None:
        text = "1 validation error detected: Value null at 'storageCapacity' failed to satisfy constraint: Member must not be null"
        raise _error("BadRequest", text)
    if request.get("StorageType") == "HDD":
        step = CAPACITY_STEPS[request["LustreConfiguration"]["PerUnitStorageThroughput"]]
        allowed, valid = f"a multiple of {step}", capacity % step == 0
    elif deployment == "SCRATCH_1":
        allowed, valid = "1200, 2400 or a multiple of 3600", capacity in (1200, 2400) or capacity % 3600 == 0
    else:
        allowed, valid = "1200 or a multiple of 2400", capacity == 1200 or capacity % 2400 == 0
    if not valid or not capacity:
        raise _error("BadRequest", f"Invalid Lustre FS storage capacity: {capacity}. Must be {allowed}.")


def _check_growth(file_system: LustreFileSystem, capacity: int) -> None:
    if file_system.lustre["DeploymentType"] == "SCRATCH_1":
        raise _error("BadRequest", "The storage capacity of a SCRATCH_1 file system cannot be increased.")
    if capacity <= file_system.storage_capacity:
        raise _error("BadRequest", f"Storage capacity must be greater than the current one, {file_system.storage_capacity} GiB.")
    _check_capacity({**file_system.request, "StorageCapacity": capacity})


def _check_import(backend: FSxBackend, request: dict[str, Any]) -> None:
    given = request.get("LustreConfiguration", {})
    source, target = given.get("ImportPath"), given.get("ExportPath")
    if (source or target) and _deployment(request) == "PERSISTENT_2":
        raise _error("BadRequest", "ImportPath and ExportPath are not supported by the deployment type PERSISTENT_2.")
    if source and not _bucket_exists(backend, source):
        raise _error("InvalidImportPath", f"The import path {source} is not valid: there is no such bucket.")
    if target and (not source or _bucket(source) != _bucket(target)):
        raise _error("InvalidExportPath", f"The export path {target} is not valid: it must use the bucket of the import path.")


def _check_place(backend: FSxBackend, request: dict[str, Any]) -> None:
    ec2, subnets = ec2_backends[backend.account_id][backend.region_name], request["SubnetIds"]
    if len(subnets) != 1:
        raise _error("BadRequest", "Exactly one subnet ID must be given for a Lustre file system.")
    try:
        subnet = ec2.get_subnet(subnets[0])
    except InvalidSubnetIdError:
        text = f"The subnet ID '{subnets[0]}' does not exist"
        raise _error("InvalidNetworkSettings", text, InvalidSubnetId=subnets[0]) from None
    for identifier in request.get("SecurityGroupIds", []):
        group = ec2.get_security_group_from_id(identifier)
        if group is None or group.vpc_id != subnet.vpc_id:
            text = f"The security group '{identifier}' does not exist in VPC '{subnet.vpc_id}'"
            raise _error("InvalidNetworkSettings", text, InvalidSecurityGroupId=identifier)


def _key(backend: FSxBackend, request: dict[str, Any]) -> str | None:
    """The key that a persistent file system is encrypted with; those of the others are Amazon's own."""
    given = request.get("KmsKeyId")
    if not _deployment(request).startswith("PERSISTENT"):
        if given:
            raise _error("BadRequest", f"KmsKeyId is not supported by the deployment type {_deployment(request)}.")
        return None
    arn = usable_key(backend.account_id, backend.region_name, given or "alias/aws/fsx")
    if arn is None:
        raise _error("BadRequest", f"The KMS key '{given}' does not exist or cannot be used.")
    return arn


def _check_link(backend: FSxBackend, file_system: LustreFileSystem, request: dict[str, Any]) -> None:
    """Refuse an association that cannot be."""
    if file_system.lifecycle != "AVAILABLE":
        raise _error("BadRequest", f"File system '{file_system.file_system_id}' is {file_system.lifecycle}: it cannot be linked now.")
    if file_system.version not in LINKABLE or file_system.lustre["DeploymentType"] == "SCRATCH_1":
        text = (
            "Data repository associations are only supported on Lustre 2.12 and 2.15 file systems, excluding the SCRATCH_1 deployment type."
        )
        raise _error("UnsupportedOperation", text)
    path, source = request.get("FileSystemPath", "/"), request["DataRepositoryPath"]
    if not path.startswith("/"):
        raise _error("BadRequest", f"The file system path '{path}' must begin with a slash.")
    if not _bucket_exists(backend, source):
        raise _error("BadRequest", f"The data repository path '{source}' does not lead to an S3 bucket that exists.")
    for other in associations(backend).values():
        if other.file_system is file_system:
            _check_overlap(other, _folder(path), _folder(source))


def _check_overlap(other: Association, path: str, source: str) -> None:
    if path.startswith(other.path) or other.path.startswith(path):
        raise _error("BadRequest", f"The file system path '{path}' overlaps with '{other.path}' of {other.association_id}.")
    if source == _folder(other.request["DataRepositoryPath"]):
        raise _error("BadRequest", f"The data repository path '{source}' is linked by {other.association_id} already.")


def _folder(path: str) -> str:
    return path.rstrip("/") + "/"


def _bucket(path: str) -> str:
    return path.removeprefix("s3://").partition("/")[0]


def _bucket_exists(backend: FSxBackend, path: str) -> bool:
    return path.startswith("s3://") and _bucket(path) in s3_backends[backend.account_id][backend.partition].buckets


def _file_system(backend: FSxBackend, identifier: str) -> Any:
    try:
        return backend.file_systems[identifier]
    except KeyError:
        raise FileSystemNotFound(identifier) from None


def _lustre_file_system(backend: FSxBackend, identifier: str) -> LustreFileSystem:
    file_system = _file_system(backend, identifier)
    if file_system.file_system_type != "LUSTRE":
        raise _error("UnsupportedOperation", f"File system '{identifier}' is of type {file_system.file_system_type}.")
    found: LustreFileSystem = file_system
    return found


def _association(backend: FSxBackend, identifier: str) -> Association:
    try:
        return associations(backend)[identifier]
    except KeyError:
        raise _error("DataRepositoryAssociationNotFound", f"Data repository association '{identifier}' does not exist.") from None


def _error(code: str, message: str, **members: str) -> JsonRESTError:
    error = JsonRESTError(code, message)
    error.description = json.dumps({"__type": code, "message": message, **members})
    return error
