"""Tests of the table of checks."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import (
    AFTER_FAILURE,
    BEFORE_JOB,
    BETWEEN_NODES,
    BOOT,
    CONTEXTS,
    NAMES,
    ON_DEMAND,
    PERIODIC,
    REBOOT,
    REPLACE,
    SEVERITIES,
    is_unhealthy,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health.registry import CHECKS, checks_for
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health.shared_storage import MountedStorage


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_row_is_complete(check):
    assert check.severities == tuple(each for each in SEVERITIES if each in check.severities), "severities are in ascending order"
    assert {*check.contexts} <= {*CONTEXTS}
    assert check.hanging in SEVERITIES
    assert check.limit > 0
    assert not check.description.endswith(".")
    assert "|" not in check.description


def test_names_are_unique_and_the_controller_knows_them():
    assert sorted(check.name for check in CHECKS) == sorted(NAMES)


@pytest.mark.parametrize(("context", "names"), [(ON_DEMAND, {"disks", "efa"}), (BEFORE_JOB, {"disks", "xid"}), (BETWEEN_NODES, set())])
def test_each_mount_has_a_check(context, names):
    checks = checks_for(context, [MountedStorage("/efs"), MountedStorage("/fsx")])
    assert names <= {check.name for check in checks}
    assert [check.subject for check in checks if check.name.startswith("storage")] == ["/efs", "/fsx"]
    assert all(check.read is not None for check in checks)
    assert {check.name for check in checks} == {check.name for check in CHECKS if context in check.contexts and check.read}


def test_a_check_after_a_failure_can_require_another_host():
    """Other findings do not prevent the next attempt. The supervisors cannot decide anything without the shared storage."""
    expected = [
        check.name
        for check in CHECKS
        if BEFORE_JOB in check.contexts and not check.per_mount and {REBOOT, REPLACE} & {*check.severities, check.hanging}
    ]
    for context in (AFTER_FAILURE, BOOT):
        assert [check.name for check in checks_for(context, [MountedStorage("/efs")])] == expected
    assert expected


def test_the_checks_while_jobs_run_do_not_use_the_driver_of_the_gpus():
    checks = checks_for(PERIODIC, [MountedStorage("/efs")])
    assert [check.name for check in checks] == ["root", "storage_hang", "xid"]


def test_who_only_needs_to_be_watched_is_healthy():
    assert [is_unhealthy(each) for each in SEVERITIES] == [False, True, True, True]
