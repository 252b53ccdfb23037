"""Tests of the findings about EFA on a host."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import CheckedNode
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health.efa import decide, missing_for_efa


@pytest.mark.parametrize(
    ("device", "installed", "status", "message"),
    [
        ("rdmap0s6", False, 0, ""),
        ("efa_0", True, 0, ""),
        ("rdmap0s6", True, 61, "fi_info -p efa: No data available"),
        ("mlx5_0", False, 0, "the image lacks the EFA driver"),
        (None, True, 0, "there is no EFA device"),
    ],
)
def test_what_a_host_lacks_to_use_efa(tmp_path, device, installed, status, message):
    sysfs, fi_info = tmp_path / "infiniband", tmp_path / "fi_info"
    if device:
        (sysfs / device).mkdir(parents=True)
    if installed:
        fi_info.touch(mode=0o755)
    missing = missing_for_efa(lambda command: (status, "", "No data available\n" if status else ""), str(sysfs), str(fi_info))
    assert message in missing
    assert bool(missing) == bool(message)


@pytest.mark.parametrize(
    ("found", "severities"),
    [
        ((32, ""), []),
        ((33, ""), []),
        ((31, ""), ["replace"]),
        ((0, "there is no EFA device"), ["restart"]),
        ((32, "no provider"), ["restart"]),
    ],
)
def test_all_adapters_of_the_instance_must_be_there(found, severities):
    assert [severity for severity, _message in decide(found, CheckedNode("ubuntu", efa_devices=32))] == severities
