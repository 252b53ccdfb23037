"""EFS access points. Source: EFS User Guide, "Working with Amazon EFS access points"."""

from __future__ import annotations

import json
from typing import Any

from moto.efs import models
from moto.efs.exceptions import AccessPointNotFound, BadRequest
from moto.efs.models import AccessPoint, EFSBackend
from moto.efs.responses import EFSResponse

from ..context import CLOUD
from ..lifecycle import LifeCycle
from ..override import override
from .file_systems import JSON, efs_error, find_file_system, incorrect_state

PAGE = 100
moto_create_access_point = EFSBackend.create_access_point
moto_delete_access_point = EFSBackend.delete_access_point


class DelayedAccessPoint(LifeCycle, AccessPoint):
    """An access point that takes time to become available and to be deleted."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.start_creation(CLOUD.delays.mount_target)

    def finish_deletion(self) -> None:
        moto_delete_access_point(self.context, self.access_point_id)

    def info_json(self) -> dict[str, Any]:
        return super().info_json() | {"LifeCycleState": self.life_cycle_state}


models.AccessPoint = DelayedAccessPoint  # type: ignore[misc]


@override(EFSBackend)
def create_access_point(
    self: EFSBackend,
    client_token: str,
    tags: list[dict[str, str]],
    file_system_id: str,
    posix_user: dict[str, Any],
    root_directory: dict[str, Any],
) -> AccessPoint:
    file_system = find_file_system(self, file_system_id)
    for known in self.access_points.values():
        if known.client_token == client_token:
            text = f"Access point '{known.access_point_id}' already exists with client token '{client_token}'"
            raise efs_error(409, "AccessPointAlreadyExists", text, AccessPointId=known.access_point_id)
    if file_system.life_cycle_state not in ("available", "updating"):
        raise incorrect_state(file_system)
    return moto_create_access_point(self, client_token, tags, file_system_id, posix_user, root_directory)


@override(EFSBackend)
def delete_access_point(self: EFSBackend, access_point_id: str) -> None:
    if access_point_id not in self.access_points:
        raise AccessPointNotFound(access_point_id)
    found: Any = self.access_points[access_point_id]
    found.start_deletion(CLOUD.delays.mount_target)


@override(EFSBackend)
def describe_access_points(self: EFSBackend, access_point_id: str | None, file_system_id: str | None) -> list[AccessPoint]:
    if access_point_id and file_system_id:
        raise BadRequest("FileSystemId and AccessPointId are mutually exclusive.")
    if access_point_id and access_point_id not in self.access_points:
        raise AccessPointNotFound(access_point_id)
    if file_system_id:
        find_file_system(self, file_system_id)
    return [
        each
        for each in self.access_points.values()
        if access_point_id in (None, each.access_point_id) and file_system_id in (None, each.file_system_id)
    ]


@override(EFSResponse)
def describe_access_points_page(self: EFSResponse) -> tuple[str, dict[str, str]]:
    found = self.efs_backend.describe_access_points(self._get_param("AccessPointId"), self._get_param("FileSystemId"))
    first, size = int(self._get_param("NextToken") or 0), self._get_int_param("MaxResults", PAGE)
    answer: dict[str, Any] = {"AccessPoints": [each.info_json() for each in found[first : first + size]]}
    if first + size < len(found):
        answer["NextToken"] = str(first + size)
    return json.dumps(answer), JSON


EFSResponse.describe_access_points = describe_access_points_page  # type: ignore[assignment]
