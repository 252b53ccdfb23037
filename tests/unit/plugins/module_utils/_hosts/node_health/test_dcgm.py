"""Tests of the findings that are derived from the output of dcgmi."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from functools import partial

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common import gpus
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import DEEP, CheckedNode
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import dcgm
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health.run import run
from gpu_tools import (
    FAULTY_MEMORY,
    LOW_BANDWIDTH,
    NO_DRIVER,
    NO_HOST_ENGINE,
    NO_PERSISTENCE,
    NOUVEAU,
    PENDING_REMAP,
    dcgm_3,
    dcgm_4,
    driver,
    process,
    program,
    smi,
)

P5 = CheckedNode("ubuntu", instance_type="p5.48xlarge", metadata_directory="/nonexistent")
CPU = CheckedNode("ubuntu", instance_type="c5.large", metadata_directory="/nonexistent")
HEALTHY = smi(8)


def found(output):
    return dcgm.decide(dcgm.Diagnosis(output), P5)


@pytest.mark.parametrize("output", [dcgm_3(), dcgm_4(), "Warning: CUDA_VISIBLE_DEVICES is set.\n" + dcgm_4()])
def test_healthy_gpus_have_no_findings(output):
    assert found(output) == []


@pytest.mark.parametrize("write", [dcgm_3, dcgm_4])
@pytest.mark.parametrize(
    ("fault", "severity"),
    [(FAULTY_MEMORY, "replace"), (PENDING_REMAP, "reboot"), (LOW_BANDWIDTH, "restart"), (NO_PERSISTENCE, "monitor")],
)
def test_a_failed_test_names_the_gpu(write, fault, severity):
    ((worst, message),) = found(write(fault))
    assert worst == severity
    assert message.startswith(f"GPU {fault.gpu}: DCGM test ")
    assert message.endswith(f" failed: {fault.message}")


@pytest.mark.parametrize(("write", "subject"), [(dcgm_3, "GPUs: DCGM test 'Denylist'"), (dcgm_4, "GPUs: DCGM test 'software'")])
def test_a_fault_of_the_host_belongs_to_no_gpu(write, subject):
    assert found(write(NOUVEAU)) == [("monitor", f"{subject} failed: {NOUVEAU.message}")]


def test_gpus_with_the_same_fault_are_not_confused():
    other = PENDING_REMAP._replace(gpu=6, message="GPU 6 had memory errors and row remappings are pending")
    assert [message for _severity, message in found(dcgm_4(PENDING_REMAP, other))] == [
        f"GPU {fault.gpu}: DCGM test 'software' failed: {fault.message}" for fault in (PENDING_REMAP, other)
    ]
    # DCGM 3 has only one result for both GPUs.
    assert [message for _severity, message in found(dcgm_3(PENDING_REMAP, other))] == [
        f"GPUs: DCGM test 'Page Retirement/Row Remap' failed: {fault.message}" for fault in (PENDING_REMAP, other)
    ]


@pytest.mark.parametrize("write", [dcgm_3, dcgm_4])
def test_the_worst_comes_first(write):
    problems = found(write(NO_PERSISTENCE, LOW_BANDWIDTH, FAULTY_MEMORY))
    assert [(severity, message[:5]) for severity, message in problems] == [("replace", "GPU 3"), ("restart", "GPU 0"), ("monitor", "GPU 1")]


def of(**result):
    """Return output with one result of one test."""
    return json.dumps({"DCGM GPU Diagnostic": {"test_categories": [{"category": "x", "tests": [{"name": "t", "results": [result]}]}]}})


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        (of(gpu_ids="3", status="Fail", warnings="text of DCGM 2"), ("restart", "GPU 3: DCGM test 't' failed: text of DCGM 2")),
        (of(gpu_id="3", status="Fail"), ("restart", "GPU 3: DCGM test 't' failed.")),
        (
            of(gpu_id="3", status="Fail", warnings=[None, {"warning": "new", "error_severity": 99}]),
            ("restart", "GPU 3: DCGM test 't' failed: new"),
        ),
        (of(entity_group="CPU", entity_id=1, status="Fail"), ("restart", "CPU 1: DCGM test 't' failed.")),
        (of(gpu_id="3", status="Broken"), ("monitor", "GPU 3: DCGM test 't' has the unknown status 'Broken'.")),
        (
            of(gpu_id="3", status="Warn", warnings=[{"warning": "warm", "error_severity": 2}]),
            ("monitor", "GPU 3: DCGM test 't' warns: warm"),
        ),
        (
            of(gpu_id="3", status="Pass", warnings=[{"warning": "no memory", "error_severity": 2}]),
            ("monitor", "GPU 3: DCGM test 't' passed with a warning: no memory"),
        ),
    ],
)
def test_other_formats_and_severities(output, problem):
    assert found(output) == [problem]


@pytest.mark.parametrize("status", ["Skip", "Not Run", "Pass"])
def test_a_test_that_does_not_apply_is_no_finding(status):
    assert found(of(gpu_id="3", status=status)) == []
    assert found(of(gpu_id="3", status=status, warnings=[])) == []


def error_of(version, text):
    return json.dumps({version: {"version": "4.4.1", "runtime_error": text}})


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (NO_HOST_ENGINE, "the specified host: localhost."),
        (
            NO_HOST_ENGINE.splitlines()[1],
            "Host engine connection invalid/disconnected. To restart the DCGM daemon, run: systemctl restart nvidia-dcgm",
        ),
        # A daemon that was started before the driver answers, but knows no GPUs. Sources: dcgm_errors.c and Diag.cpp of DCGM.
        (
            error_of("DCGM Diagnostic", "Error: No GPUs found."),
            "No GPUs found. To restart the DCGM daemon, run: systemctl restart nvidia-dcgm",
        ),
        (
            "Cannot perform the requested operation because NVML doesn't exist on this system.\n",
            "this system. To restart the DCGM daemon, run: ",
        ),
        (error_of("DCGM Diagnostic", "Error: another instance is running."), "did not run: Error: another instance is running."),
        (error_of("DCGM GPU Diagnostic", "Error: no"), "did not run: Error: no."),
        (json.dumps({"DCGM Diagnostic": {"version": "4.4.1"}}), "the output contains no results"),
        (json.dumps({"another": "document"}), "did not run: "),
        ('{"DCGM Diagnostic": {"test_categories": [', "did not run: {"),
        ("{", "did not run: {"),
        ("{}", "did not run: {}"),
        ("\n", "no output"),
        ("[1]", "did not run: [1]"),
    ],
)
def test_tests_that_did_not_run_are_a_finding(output, words):
    ((severity, message),) = found(output)
    assert severity == "monitor"
    assert message.startswith("dcgmi diag: the tests did not run: ")
    assert words in message


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Return a function that installs programs on a host with GPUs, and reads the result of dcgmi."""
    monkeypatch.setattr(gpus, "DIRECTORIES", f"{tmp_path}:/usr/bin:/bin")

    def read(dcgmi, smi_text=HEALTHY, status=0, node=P5, seconds=20):
        for name, text in {"nvidia-smi": program(*driver(smi_text, status)), "dcgmi": dcgmi}.items():
            if text:
                (tmp_path / name).write_text(text)
                (tmp_path / name).chmod(0o755)
        return dcgm.read(2, seconds, node)

    return read


def test_the_level_is_an_argument_of_the_program(host):
    assert host(program(("'diag --run 2 --json'", dcgm_4(), 0))) == dcgm.Diagnosis(dcgm_4())


@pytest.mark.parametrize(
    ("text", "status", "diagnosis"),
    [
        (dcgm_3(FAULTY_MEMORY), 226, dcgm.Diagnosis(dcgm_3(FAULTY_MEMORY), status=226)),
        (NO_HOST_ENGINE, 255, dcgm.Diagnosis(NO_HOST_ENGINE, status=255)),
        ("", 139, dcgm.Diagnosis(error="exit status 139. Read /var/log/nvidia-dcgm/nvvs.log")),
    ],
)
def test_a_failed_run(host, text, status, diagnosis):
    assert host(program(("diag*", text, status))) == diagnosis


@pytest.mark.parametrize(("dcgmi", "node"), [(None, P5), (program(("diag*", NO_HOST_ENGINE, 255)), CPU)])
def test_the_check_does_not_apply_without_dcgmi_or_gpus(host, dcgmi, node):
    diagnosis = host(dcgmi, node=node)
    assert (diagnosis, dcgm.decide(diagnosis, node)) == (dcgm.Diagnosis(), [])


def test_gpus_that_are_in_use_are_not_tested(host):
    diagnosis = host("#!/bin/sh\nexit 1\n", smi(8, processes=process(os.getpid(), "/usr/bin/python3")))
    ((severity, message),) = dcgm.decide(diagnosis, P5)
    assert severity == "monitor"
    assert f"the GPUs are in use by process {os.getpid()} (/usr/bin/python3)" in message


def test_a_driver_that_fails_does_not_prevent_the_tests(host):
    assert host(program(("diag*", dcgm_4(), 0)), NO_DRIVER, 9) == dcgm.Diagnosis(dcgm_4())


def test_a_program_that_hangs_is_a_finding(host):
    diagnosis = host("#!/bin/sh\nexec sleep 600\n", seconds=1)
    assert dcgm.decide(diagnosis, P5) == [("monitor", "dcgmi diag: the tests did not run: no result within 1 s.")]


@pytest.mark.parametrize(("trap", "status"), [("exit 7", 7), ("true", -signal.SIGKILL)], ids=["stops", "hangs"])
def test_a_program_that_hangs_is_told_to_stop_the_tests(tmp_path, monkeypatch, trap, status):
    """If the program does not end, it is killed."""
    monkeypatch.setattr(dcgm, "GRACE", 30 if status > 0 else 0.5)
    script = f"trap '{trap}' INT; touch {tmp_path}/ready; while :; do read -t 0.1 <> <(:); done"
    # A shell that begins with SIGINT ignored, as in a background job, cannot catch the signal.
    default = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, preexec_fn=default)
    while not (tmp_path / "ready").exists():
        time.sleep(0.01)
    dcgm._stop(process)
    with process:
        assert process.wait() == status


def test_the_check_runs_as_a_health_check(host):
    host(program(("diag*", dcgm_4(FAULTY_MEMORY), 226)))
    check = dcgm.check(2, 20)
    assert (check.contexts, check.limit) == ((DEEP,), 80)
    (finding,) = run([check], P5)
    assert (finding.check, finding.severity) == ("dcgm", "replace")


@pytest.mark.parametrize("write", [dcgm_3, dcgm_4])
def test_a_failure_in_an_incomplete_document_is_found(write):
    """The output of dcgmi can end anywhere after a result."""
    text = write(FAULTY_MEMORY)
    end = text.index("]", text.index(FAULTY_MEMORY.message)) + 1
    end = text.index("}", end) + 1
    for length in range(end, len(text) - 2, 97):
        problems = dcgm.decide(dcgm.Diagnosis(text[:length], status=226), P5)
        assert [severity for severity, _message in problems] == ["replace", "monitor"], text[:length]
        assert problems[1][1] == (
            "dcgmi diag: the tests did not end: the output is incomplete (exit status 226). Read /var/log/nvidia-dcgm/nvvs.log."
        )


def test_lines_beside_the_document_hide_nothing(host):
    noise = "echo 'Error: {unexpected}' >&2\necho 'Warning: done }'\n"
    script = program(("diag*", dcgm_4(FAULTY_MEMORY), 226)).replace("exit 226;;", f"{noise} exit 226;;")
    assert [severity for severity, _message in dcgm.decide(host(script), P5)] == ["replace"]


@pytest.mark.parametrize(("instance_type", "severity"), [("g5.12xlarge", "monitor"), ("p4d.24xlarge", "restart"), ("", "restart")])
def test_links_that_are_down_are_no_failure_where_there_are_none(instance_type, severity):
    output = of(gpu_ids="0,1", status="Fail", warnings="GPU 0's NvLink link 0 is currently down Run a field diagnostic on the GPU.")
    ((found, _message),) = dcgm.decide(dcgm.Diagnosis(output), CheckedNode("ubuntu", instance_type=instance_type))
    assert found == severity
