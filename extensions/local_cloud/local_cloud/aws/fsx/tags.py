"""API calls for tags of FSx resources."""

from __future__ import annotations

import json
from typing import Any

from moto.fsx.responses import FSxResponse

from ..override import check_before
from .data_repository_associations import associations
from .lookup import fsx_error


def _check_resource(response: FSxResponse) -> None:
    backend, arn = response.fsx_backend, json.loads(response.body)["ResourceARN"]
    tagged: tuple[Any, ...] = (*backend.file_systems.values(), *associations(backend).values(), *backend.backups.values())
    if not any(each.resource_arn == arn for each in tagged):
        raise fsx_error("ResourceNotFound", f"The resource '{arn}' does not exist.", ResourceARN=arn)


for _action in ("tag_resource", "untag_resource", "list_tags_for_resource"):
    check_before(FSxResponse, _action, _check_resource)
