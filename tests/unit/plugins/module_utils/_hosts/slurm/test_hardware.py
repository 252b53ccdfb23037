"""Tests that check which hardware is detected on a host."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm import hardware


@pytest.mark.parametrize(
    ("cpus", "found"),
    [
        ([(0, 0), (0, 1)], (1, 2, 1)),
        ([(0, 0), (0, 1), (0, 0), (0, 1)], (1, 2, 2)),
        ([(socket, core) for socket in (0, 1) for core in range(24) for _thread in range(2)], (2, 24, 2)),
        ([(0, 0), (0, 0), (0, 1)], (0, 0, 0)),
        ([(0, 0), (0, 1), (1, 0)], (0, 0, 0)),
        ([], (0, 0, 0)),
    ],
)
def test_the_topology_is_that_of_the_usable_cpus(cpus, found):
    assert hardware.topology(cpus) == found


def test_jobs_get_most_of_the_memory():
    assert hardware.parse_memory("MemTotal:       16000000 kB\nMemFree: 1 kB\n") == 14843
    with pytest.raises(ValueError, match="MemTotal"):
        hardware.parse_memory("MemFree: 1 kB\n")


def test_this_host_has_plausible_hardware():
    warnings = []
    assert hardware.read_hardware(0, warnings.append).cpus > 0
    assert warnings == []


@pytest.mark.parametrize(
    ("devices", "gpus", "missing"), [("01", 2, []), ("1", 0, ["/dev/nvidia0"]), ("", 0, ["/dev/nvidia0, /dev/nvidia1"])]
)
def test_gpus_need_device_files(monkeypatch, devices, gpus, missing):
    warnings = []
    monkeypatch.setattr(hardware, "_is_device", lambda path: path[-1] in devices)
    assert hardware.read_hardware(2, warnings.append).gpus == gpus
    assert [warning.split("(")[1].partition("): ")[0] for warning in warnings] == missing


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        (["NVIDIA H100 80GB HBM3"] * 8, "h100"),
        (["NVIDIA A100-SXM4-80GB"], "a100"),
        (["NVIDIA A10G"], "a10g"),
        (["Tesla V100-SXM2-16GB"], "v100"),
        (["Tesla T4"], "t4"),
        (["NVIDIA L40S"], "l40s"),
        (["NVIDIA GB200"], "gb200"),
        (["NVIDIA B200", "NVIDIA B200"], "b200"),
        (["NVIDIA H100 80GB HBM3", "NVIDIA L4"], ""),
        (["Unknown"], ""),
        ([], ""),
    ],
)
def test_gpus_have_the_types_that_scripts_request(models, expected):
    assert hardware.gpu_type(models) == expected


def test_models_are_read_from_the_driver(monkeypatch, tmp_path):
    monkeypatch.setattr(hardware, "GPU_MODELS", str(tmp_path / "*" / "information"))
    assert hardware.read_models() == []
    (tmp_path / "0000:53:00.0").mkdir()
    (tmp_path / "0000:53:00.0" / "information").write_text("Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 4\nDevice Minor: \t 0\n")
    assert hardware.read_models() == ["NVIDIA H100 80GB HBM3"]


@pytest.mark.parametrize(
    ("controllers", "container", "plugin", "usable"),
    [
        ("cpuset cpu io memory pids", 1, True, True),
        ("cpuset cpu io memory pids", 0, True, False),
        ("cpuset cpu io memory pids", 1, False, False),
        ("cpu io", 1, True, False),
        (None, 1, True, False),
    ],
)
def test_control_groups_need_version_2_a_plugin_and_no_container(monkeypatch, tmp_path, controllers, container, plugin, usable):
    monkeypatch.setattr(hardware, "CONTROL_GROUPS", str(tmp_path / "controllers"))
    monkeypatch.setattr(hardware, "CGROUP_PLUGINS", (str(tmp_path / "*.so"),))
    if controllers:
        (tmp_path / "controllers").write_text(controllers)
    if plugin:
        (tmp_path / "cgroup_v2.so").touch()
    assert hardware.has_cgroups(lambda _command: (container, "", "")) is usable
