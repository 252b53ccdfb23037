"""Tests of the data that a host reports about itself."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.worker_metadata.metadata import metadata_file
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import host
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition.job_parameters import RefusalError


def test_the_loopback_interface_has_the_loopback_address():
    assert host.interface_address("lo") == "127.0.0.1"
    assert host.interface_address("none0") == ""


def test_the_metadata_is_read_where_the_role_has_written_it(tmp_path):
    with pytest.raises(RefusalError, match=f"{tmp_path}/metadata.json: .*No such file"):
        host.read_metadata(str(tmp_path), "")
    worker = {"number": 2, "name": "deeplearning-worker2", "address": "10.0.0.2"}
    (tmp_path / "metadata.json").write_text(metadata_file("demo", 2, [worker], 8))
    assert host.read_metadata(str(tmp_path), "")["gpu_count"] == 8
    with pytest.raises(RefusalError, match="the inventory has 123456789abc"):
        host.read_metadata(str(tmp_path), "123456789abc")


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (0, r"gpus: \[1\] do not exist on this host, which has no GPUs\. Choose an instance type with GPUs, or remove this option\."),
        (1, r"gpus: \[1\] do not exist on this host, which has only the GPUs \[0\]\. Choose from these, or remove this option\."),
    ],
)
def test_gpus_that_the_host_does_not_have(count, message):
    with pytest.raises(RefusalError, match=message):
        host.describe_host({"gpu_count": count}, [1], False)


@pytest.mark.parametrize(
    ("variable", "value", "exists"),
    [
        ("NCCL_SOCKET_IFNAME", "eth0", False),
        ("NCCL_SOCKET_IFNAME", "eth,ens", True),
        ("NCCL_SOCKET_IFNAME", "=ens", False),
        ("NCCL_SOCKET_IFNAME", "=ens5:4000", True),
        ("NCCL_SOCKET_IFNAME", "^docker0,lo", True),
        ("NCCL_SOCKET_IFNAME", "", True),
        ("GLOO_SOCKET_IFNAME", "ens", False),
        ("GLOO_SOCKET_IFNAME", "ens5", True),
        ("NCCL_DEBUG", "eth0", True),
    ],
)
def test_network_interfaces_that_the_host_does_not_have_are_refused(variable, value, exists):
    if exists:
        host.check_interfaces({variable: value}, ["lo", "ens5"])
    else:
        with pytest.raises(RefusalError, match=f"^environment: {variable} selects '{value}', but .* are lo, ens5. Remove"):
            host.check_interfaces({variable: value}, ["lo", "ens5"])
