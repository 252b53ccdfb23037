# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Which jobs use EFA, and what a host lacks to use it."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.efa import fabric_environment, missing_for_efa
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Host, LaunchError

FABRIC = {"FI_PROVIDER": "efa", "NCCL_NET": "AWS Libfabric"}


def hosts(*efa):
    return [Host(f"worker{number}", f"10.0.0.{number}", number, 8, "ens5", has) for number, has in enumerate(efa, start=1)]


@pytest.mark.parametrize(("efa", "expected"), [((True, True), FABRIC), ((True,), {}), ((False, False), {}), ((), {})])
def test_the_environment_forbids_tcp_where_all_have_efa(efa, expected):
    assert fabric_environment(hosts(*efa)) == expected


def test_a_host_without_efa_among_others_is_refused():
    with pytest.raises(LaunchError, match=r"EFA is available on worker1, worker3 but not on worker2, so .*replace_nodes"):
        fabric_environment(hosts(True, False, True))


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
