"""Tests that errors in the tags of a cluster's instances are found."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.membership_tags import (
    MembershipError,
    check,
    problems,
    with_storage_tags,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.node_service import AUTO_SCALING

from .described import instance

STORAGE = {"deeplearning:file-system": "fs-1", "deeplearning:bucket-mount": "s3://bert"}


def test_all_that_is_wrong_is_said_at_once():
    tags = {"deeplearning:cluster": "theirs"}
    found = problems(
        "bert", [instance("i-a", "bert-workers", 1, "0", more=tags), instance("i-z", "other-workers", 1, "0", more=tags)], AUTO_SCALING
    )
    assert len(found) == 2
    assert all(text.startswith("Instance i-a") for text in found)


def test_an_instance_mounts_what_its_group_specifies():
    own = {"deeplearning:file-system": "fs-2", "deeplearning:bucket-mount-point": "/etc/cron.d", "team": "speech"}
    described = instance("i-a", "bert-workers", 1, 2, more=own)
    found = with_storage_tags(described, {**STORAGE, "deeplearning:number": "7", "Name": "bert-worker"})
    assert {tag["Key"]: tag["Value"] for tag in found["Tags"]} == {
        "aws:autoscaling:groupName": "bert-workers",
        "deeplearning:cluster": "bert",
        "deeplearning:number": "2",
        "team": "speech",
        **STORAGE,
    }
    assert {**found, "Tags": described["Tags"]} == described


def test_storage_tags_of_a_group_are_checked_once_per_group():
    bad = {"deeplearning:file-system": "fs-1 /etc", "deeplearning:file-system-address": "10.0.0.1\n"}
    workers = [with_storage_tags(instance(f"i-{number}", "bert-workers", number, number), bad) for number in (2, 3)]
    check("bert", [with_storage_tags(instance("i-1", "bert-master", 1, 1), STORAGE)], AUTO_SCALING)
    with pytest.raises(MembershipError) as error:
        check("bert", workers, AUTO_SCALING)
    first, second = str(error.value).splitlines()
    assert first.startswith("Auto Scaling group bert-workers, tag deeplearning:file-system: 'fs-1 /etc' is not a file system ID.")
    assert second.startswith("Auto Scaling group bert-workers, tag deeplearning:file-system-address: '10.0.0.1\\n' is not an IPv4 address.")
