"""Tests of the errors that the validators find in the options of an EFS file system."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Request
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.efs import validators

OPTIONS = {
    "efs": True,
    "file_system_id": None,
    "file_system_directory": None,
    "encrypt_in_transit": None,
    "throughput_mode": "bursting",
    "provisioned_throughput": None,
    "performance_mode": "generalPurpose",
    "kms_key_id": None,
    "encrypted": True,
}
ADOPTED = {"file_system_id": "fs-1"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        (ADOPTED, []),
        ({**ADOPTED, "efs": False}, ["file_system_id: fs-1 is not used with efs: false"]),
        ({**ADOPTED, "file_system_directory": "/teams/bert"}, []),
        ({**ADOPTED, "file_system_directory": "/a/b/c/d/e"}, ["'/a/b/c/d/e' is not a valid directory for an access point"]),
        ({**ADOPTED, "file_system_directory": "/a" + "b" * 100}, ["is not a valid directory for an access point"]),
        ({"file_system_directory": "/teams"}, ["file_system_directory: '/teams' requires an adopted file system"]),
        ({**ADOPTED, "file_system_directory": "/a", "encrypt_in_transit": False}, ["encrypt_in_transit: false cannot be combined"]),
        ({"encrypt_in_transit": False}, []),
        ({"throughput_mode": "provisioned"}, ["provisioned_throughput: missing or too small"]),
        ({"throughput_mode": "provisioned", "provisioned_throughput": 0.5}, ["provisioned_throughput: missing or too small"]),
        ({"throughput_mode": "provisioned", "provisioned_throughput": 1}, []),
        ({"provisioned_throughput": 1}, ["provisioned_throughput: 1 MiB/s cannot be combined with throughput_mode: bursting"]),
        ({"throughput_mode": "elastic"}, []),
        ({"throughput_mode": "elastic", "performance_mode": "maxIO"}, ["throughput_mode: elastic cannot be combined"]),
        ({"performance_mode": "maxIO"}, []),
        ({"kms_key_id": "key", "encrypted": False}, ["kms_key_id: key cannot be combined with encrypted: false"]),
        ({"kms_key_id": "key", "encrypted": False, "efs": False}, []),
    ],
)
def test_options(change, expected):
    found = list(validators.FileSystemOptions().check(Request(None, {**OPTIONS, **change}), []))
    assert len(found) == len(expected)
    assert all(text in finding for text, finding in zip(expected, found))
