"""Lookups and errors of FSx."""

from __future__ import annotations

import json
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.fsx.exceptions import FileSystemNotFound
from moto.fsx.models import FSxBackend
from moto.s3.models import s3_backends


def find_repeated(request: dict[str, Any], others: Any) -> Any:
    """Return the resource that an earlier request with the same client token created, or None. Raises `IncompatibleParameterError`."""
    token = request.get("ClientRequestToken")
    for known in others:
        earlier = getattr(known, "request", {})
        if token and earlier.get("ClientRequestToken") == token:
            different = [key for key in {**request, **earlier} if request.get(key) != earlier.get(key)]
            if different:
                text = f"The client request token '{token}' was used before with a different value of {different[0]}."
                raise fsx_error("IncompatibleParameterError", text, Parameter=different[0])
            return known
    return None


def bucket_name(path: str) -> str:
    return path.removeprefix("s3://").partition("/")[0]


def bucket_exists(backend: FSxBackend, path: str) -> bool:
    return path.startswith("s3://") and bucket_name(path) in s3_backends[backend.account_id][backend.partition].buckets


def find_file_system(backend: FSxBackend, identifier: str) -> Any:
    try:
        return backend.file_systems[identifier]
    except KeyError:
        raise FileSystemNotFound(identifier) from None


def find_lustre_file_system(backend: FSxBackend, identifier: str) -> Any:
    file_system = find_file_system(backend, identifier)
    if file_system.file_system_type != "LUSTRE":
        raise fsx_error("UnsupportedOperation", f"File system '{identifier}' is of type {file_system.file_system_type}.")
    return file_system


def fsx_error(code: str, message: str, **members: str) -> JsonRESTError:
    error = JsonRESTError(code, message)
    error.description = json.dumps({"__type": code, "message": message, **members})
    return error
