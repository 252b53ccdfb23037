# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""A job on hosts with EFA uses it or fails."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from ansible_collections.deeplearning.cluster.plugins.action.training_job import ActionModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import plan, prepare, specification
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.efa import fabric_environment, missing_for_efa
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Host, LaunchError, Process

FABRIC = {"FI_PROVIDER": "efa", "NCCL_NET": "AWS Libfabric"}


def hosts(*efa):
    return [Host(f"worker{number}", f"10.0.0.{number}", number, 8, "ens5", has) for number, has in enumerate(efa, start=1)]


@pytest.mark.parametrize(("efa", "expected"), [((True, True), FABRIC), ((True,), {}), ((False, False), {}), ((), {})])
def test_the_environment_forbids_tcp_where_all_have_efa(efa, expected):
    assert fabric_environment(hosts(*efa)) == expected


def test_a_host_without_efa_among_others_is_refused():
    with pytest.raises(LaunchError, match=r"worker1, worker3 and not worker2 of the job's hosts have EFA.*replace_nodes"):
        fabric_environment(hosts(True, False, True))


def test_the_users_environment_wins(tmp_path):
    params = {"name": "bert", "environment": {"NCCL_NET": "Socket"}, "secrets": {}}
    spec = plan.make_spec(params, records.Paths(str(tmp_path)), Process("worker1", 0, ["x"], {"NCCL_DEBUG": "INFO"}), FABRIC)
    assert {name: spec["environment"][name] for name in ("FI_PROVIDER", "NCCL_NET", "NCCL_DEBUG")} == {
        "FI_PROVIDER": "efa",
        "NCCL_NET": "Socket",
        "NCCL_DEBUG": "INFO",
    }


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


def test_a_host_that_cannot_use_its_efa_is_refused(tmp_path, monkeypatch):
    worker = {"number": 2, "name": "deeplearning-worker2", "address": "127.0.0.1"}
    monkeypatch.setattr(prepare, "read_metadata", lambda generation: {"number": 2, "workers": [worker], "gpu_count": 8})
    monkeypatch.setattr(prepare, "missing_for_efa", lambda run: "no driver")
    module = SimpleNamespace(params={"generation": "", "efa": True, "gpus": None}, run_command=None)
    with pytest.raises(specification.RefusalError, match="deeplearning-worker2 has EFA and cannot use it: no driver"):
        prepare.examine(module, records.Paths(str(tmp_path)), None)


@pytest.mark.parametrize(
    ("variables", "arguments", "efa"),
    [({"deeplearning_has_efa": True}, {}, True), ({"deeplearning_has_efa": True}, {"efa": False}, False), ({}, {}, False)],
)
def test_the_inventory_tells_which_hosts_have_efa(monkeypatch, variables, arguments, efa):
    task = SimpleNamespace(args={"state": "prepared", "generation": "g", **arguments}, async_val=0, check_mode=False)
    action = ActionModule(task, Mock(), Mock(), Mock(), Mock(), Mock())
    monkeypatch.setattr(action, "_execute_module", lambda *_, module_args, **__: module_args)
    monkeypatch.setattr("ansible_collections.deeplearning.cluster.plugins.action.training_job.is_first", lambda _: False)
    monkeypatch.setattr("ansible_collections.deeplearning.cluster.plugins.action.training_job.checked_identity", lambda answer, _: answer)
    assert action.run(task_vars=variables)["efa"] is efa
