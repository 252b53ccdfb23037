"""Tests of the number of GPUs for the worker metadata and the queues."""

from __future__ import annotations

import json
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common import gpus
from gpu_tools import LOST, NO_DRIVER, driver, program, smi

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\n"


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Return a function that installs nvidia-smi, or none, on a host."""
    monkeypatch.setattr(gpus, "DIRECTORIES", f"{tmp_path}:/usr/bin:/bin")

    def install(text, status=0, pause=0):
        if text is not None:
            (tmp_path / "nvidia-smi").write_text(program(*driver(text, status), pause=pause))
            (tmp_path / "nvidia-smi").chmod(0o755)

    return install


def counted(known):
    warnings = []
    return gpus.count(known, warnings.append), warnings


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        pytest.param(smi(7), 0, "GPUs: nvidia-smi lists 7. ", id="one is missing"),
        pytest.param(LOST + smi(7), 0, f"nvidia-smi: {LOST.strip()}. ", id="one is lost, status 0"),
        pytest.param(LOST + smi(7), 255, f"nvidia-smi: {LOST.strip()}. ", id="one is lost"),
        pytest.param(MISMATCH, 18, f"nvidia-smi: {MISMATCH.strip()}. ", id="libraries of another version"),
        pytest.param(NO_DRIVER, 9, "nvidia-smi: NVIDIA-SMI has failed", id="no driver"),
        pytest.param(smi(8)[:-40], 0, "nvidia-smi: the output of nvidia-smi is incomplete. ", id="cut off"),
        pytest.param(None, 0, "nvidia-smi: is not installed. ", id="not installed"),
    ],
)
def test_a_sick_host_keeps_its_number_of_gpus(host, text, status, said):
    host(text, status)
    number, (warning,) = counted(8)
    assert number == 8
    assert warning.startswith(said)
    assert "This host had 8 GPUs when it was configured, and keeps this number." in warning


@pytest.mark.parametrize(("text", "number"), [(smi(8), 8), (None, 0), (smi(2), 2)])
def test_a_healthy_host_has_what_is_listed(host, text, number):
    host(text)
    assert counted(0) == (number, [])
    assert counted(number) == (number, [])


def test_more_gpus_than_before_are_used(host):
    host(smi(8))
    assert counted(4) == (8, [])


def test_a_failure_at_the_first_configuration_is_not_silent(host):
    host(NO_DRIVER, 9)
    number, (warning,) = counted(0)
    assert number == 0
    assert "Jobs are started as if this host has no GPUs." in warning


def test_a_program_that_hangs_ends(host, monkeypatch):
    host(smi(8), pause=60)
    monkeypatch.setattr(gpus, "PATIENCE", 0.5)
    start = time.monotonic()
    number, (warning,) = counted(8)
    assert number == 8
    assert warning.startswith("nvidia-smi: no answer within 0.5 s. ")
    assert time.monotonic() - start < 30


def test_devices_of_mig_are_no_gpus():
    listing = "GPU 0: NVIDIA A100 (UUID: GPU-1)\n  MIG 1g.5gb     Device  0: (UUID: MIG-1)\nGPU 1: NVIDIA A100 (UUID: GPU-2)\n"
    assert gpus.count_listed(listing) == 2
    assert gpus.count_listed("No devices found.\n") == 0


METADATA = {"number": 2, "workers": [{"number": 1, "address": "10.0.0.4"}, {"number": 2, "address": "10.0.0.5"}], "gpu_count": 8}


@pytest.mark.parametrize(
    ("text", "address", "count"),
    [
        (json.dumps(METADATA), "", 8),
        (json.dumps(METADATA), "10.0.0.5", 8),
        (json.dumps(METADATA), "10.0.0.9", 0),
        (None, "10.0.0.5", 0),
        ("{", "", 0),
        ("[]", "", 0),
    ],
)
def test_only_metadata_of_the_same_host_counts(text, address, count):
    """An image of a node contains the metadata of this node."""
    assert gpus.known_count(text, address) == count


def test_the_metadata_of_this_host(tmp_path, monkeypatch):
    monkeypatch.setattr(gpus, "METADATA", str(tmp_path / "metadata.json"))
    assert gpus.configured_count() == 0
    (tmp_path / "metadata.json").write_text(json.dumps(METADATA))
    assert gpus.configured_count() == 8
