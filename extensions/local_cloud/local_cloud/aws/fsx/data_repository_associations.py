"""Data repository associations: links between directories of Lustre file systems and S3 buckets. No data is transferred."""

from __future__ import annotations

import json
import secrets
import time
from typing import Any

from moto.fsx import models
from moto.fsx.models import FSxBackend
from moto.fsx.responses import FSxResponse
from moto.utilities.paginator import paginate

from ..context import CLOUD
from ..lifecycle import LifeCycle
from ..override import override
from .lookup import bucket_exists, find_lustre_file_system, find_repeated, fsx_error

# Lustre versions with support for data repository associations.
LINKABLE = ("2.12", "2.15")
MODEL = {**models.PAGINATION_MODEL, "describe_associations": {**models.PAGINATION_MODEL["describe_file_systems"], "limit_default": 5}}


class Association(LifeCycle):
    """A link between a directory of a file system and an S3 bucket or a prefix in a bucket.

    FSx works on the requests for the associations of a file system one after another. Source: FSx for Lustre User Guide, "Linking your file
    system to an Amazon S3 bucket".
    """

    def __init__(self, file_system: Any, request: dict[str, Any]) -> None:
        self.file_system = file_system
        self.backend = file_system.backend
        self.request = request
        self.association_id = f"dra-0{secrets.token_hex(8)}"
        place = f"{self.backend.region_name}:{self.backend.account_id}"
        self.resource_arn = f"arn:aws:fsx:{place}:association/{file_system.file_system_id}/{self.association_id}"
        self.created = CLOUD.now()
        self.backend.tagger.tag_resource(self.resource_arn, request.get("Tags", []))
        self.start_creation(self._seconds_in_queue())

    @property
    def path(self) -> str:
        return _folder(self.request.get("FileSystemPath", "/"))

    def change(self, policies: dict[str, Any]) -> None:
        """Set the given policies and keep all other policies."""
        self.request["S3"] = {**self.request.get("S3", {}), **policies}
        self.start_update(self._seconds_in_queue())

    def delete(self) -> None:
        """Start the deletion, unless it has started."""
        if self.life_cycle_state != "deleting":
            self.start_deletion(self._seconds_in_queue())

    def finish_deletion(self) -> None:
        del associations(self.backend)[self.association_id]
        self.backend.tagger.delete_all_tags_for_resource(self.resource_arn)

    def _seconds_in_queue(self) -> float:
        """Add a request to the queue of the file system, and return the seconds until FSx has completed it."""
        now = time.time()
        queued_until = max(now, getattr(self.file_system, "queued_until", now)) + CLOUD.delays.data_repository_association
        self.file_system.queued_until = queued_until
        return queued_until - now

    def to_dict(self) -> dict[str, Any]:
        return {
            "AssociationId": self.association_id,
            "ResourceARN": self.resource_arn,
            "FileSystemId": self.file_system.file_system_id,
            "Lifecycle": self.life_cycle_state.upper(),
            "FileSystemPath": self.request.get("FileSystemPath", "/"),
            "DataRepositoryPath": self.request["DataRepositoryPath"],
            "BatchImportMetaDataOnCreate": self.request.get("BatchImportMetaDataOnCreate", False),
            "ImportedFileChunkSize": self.request.get("ImportedFileChunkSize", 1024),
            "S3": self.request.get("S3", {}),
            "Tags": self.backend.list_tags_for_resource(self.resource_arn),
            "CreationTime": self.created,
        }


def associations(backend: FSxBackend) -> dict[str, Association]:
    """Return the data repository associations of an account and region by ID."""
    found: dict[str, Association] = backend.__dict__.setdefault("associations", {})
    return found


@override(FSxResponse)
def create_data_repository_association(self: FSxResponse) -> str:
    backend, request = self.fsx_backend, json.loads(self.body)
    file_system = find_lustre_file_system(backend, request["FileSystemId"])
    known = find_repeated(request, associations(backend).values())
    if known is None:
        _check_association(backend, file_system, request)
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
    """Return a page of the associations that match the filters. If `association_ids` is set, return only the associations with these
    IDs.
    """
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
    if association.life_cycle_state != "available":
        raise fsx_error(
            "BadRequest", f"Data repository association '{association.association_id}' is {association.life_cycle_state.upper()}."
        )
    association.change(request.get("S3", {}))
    return json.dumps({"Association": association.to_dict()})


@override(FSxResponse)
def delete_data_repository_association(self: FSxResponse) -> str:
    request = json.loads(self.body)
    association = _association(self.fsx_backend, request["AssociationId"])
    association.delete()
    deletes = request.get("DeleteDataInFileSystem", False)
    return json.dumps({"AssociationId": association.association_id, "Lifecycle": "DELETING", "DeleteDataInFileSystem": deletes})


def _check_association(backend: FSxBackend, file_system: Any, request: dict[str, Any]) -> None:
    """Raise the FSx error for an association that cannot be created."""
    if file_system.life_cycle_state != "available":
        raise fsx_error(
            "BadRequest", f"File system '{file_system.file_system_id}' is {file_system.life_cycle_state.upper()}: it cannot be linked now."
        )
    if file_system.version not in LINKABLE or file_system.lustre["DeploymentType"] == "SCRATCH_1":
        text = (
            "Data repository associations are only supported on Lustre 2.12 and 2.15 file systems, excluding the SCRATCH_1 deployment type."
        )
        raise fsx_error("UnsupportedOperation", text)
    path, source = request.get("FileSystemPath", "/"), request["DataRepositoryPath"]
    if not path.startswith("/"):
        raise fsx_error("BadRequest", f"The file system path '{path}' must begin with a slash.")
    if not bucket_exists(backend, source):
        raise fsx_error("BadRequest", f"The data repository path '{source}' does not lead to an S3 bucket that exists.")
    for other in associations(backend).values():
        if other.file_system is file_system:
            _check_overlap(other, _folder(path), _folder(source))


def _check_overlap(other: Association, path: str, source: str) -> None:
    if path.startswith(other.path) or other.path.startswith(path):
        raise fsx_error("BadRequest", f"The file system path '{path}' overlaps with '{other.path}' of {other.association_id}.")
    if source == _folder(other.request["DataRepositoryPath"]):
        raise fsx_error("BadRequest", f"The data repository path '{source}' is already linked by {other.association_id}.")


def _folder(path: str) -> str:
    return path.rstrip("/") + "/"


def _association(backend: FSxBackend, identifier: str) -> Association:
    try:
        return associations(backend)[identifier]
    except KeyError:
        raise fsx_error("DataRepositoryAssociationNotFound", f"Data repository association '{identifier}' does not exist.") from None
