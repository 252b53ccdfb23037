"""What the options of a Lustre file system can have wrong."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Request
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Found
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.lustre import validators
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.lustre.definition import LUSTRE

OPTIONS = {"lustre": True, "lustre_file_system_id": None, "lustre_capacity": 2400, "lustre_data_repositories": []}


def links(*paths, s3="s3://sets/images"):
    return {"lustre_data_repositories": [{"path": path, "s3": s3} for path in paths]}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"lustre_capacity": 1200}, []),
        ({"lustre_capacity": 4800}, []),
        ({"lustre_capacity": 0}, ["lustre_capacity: 0 GiB is not a valid size"]),
        ({"lustre_capacity": 3600}, ["lustre_capacity: 3600 GiB is not a valid size"]),
        ({"lustre_capacity": 3600, "lustre": False}, []),
        (links("/a", "/b"), []),
        (links("/"), []),
        (links("/a", "/ab"), []),
        (links("/a", "/a/b"), ["/a/b/ is in /a/"]),
        (links(*(f"/{number}" for number in range(8))), []),
        (links(*(f"/{number}" for number in range(9))), ["9 links are too many. Specify at most 8"]),
        (links("a"), ["'a' is not a valid directory"]),
        (links("/a", s3="sets"), ["'sets' is not a bucket or prefix"]),
        (links("/a", s3="s3://Sets"), ["'s3://Sets' is not a bucket or prefix"]),
        ({**links("/a"), "lustre_file_system_id": "fs-1"}, ["an adopted file system is never changed"]),
    ],
)
def test_options(change, expected):
    found = list(validators.LustreOptions().check(Request(None, {**OPTIONS, **change}), []))
    assert len(found) == len(expected)
    assert all(text in finding for text, finding in zip(expected, found))


@pytest.mark.parametrize(("capacity", "findings"), [(1200, 1), (2400, 0), (4800, 0)])
def test_a_file_system_does_not_shrink(capacity, findings):
    own = Found(LUSTRE, "fs-1", {"capacity": 2400})
    found = list(validators.LustreOptions().check(Request(None, {**OPTIONS, "lustre_capacity": capacity}), [own]))
    assert len(found) == findings
    assert all("fs-1 has 2400 GiB and cannot shrink to 1200. Specify 2400" in finding for finding in found)
