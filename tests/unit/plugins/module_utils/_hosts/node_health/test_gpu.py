"""Tests of the findings that are derived from the output of nvidia-smi."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common import gpus
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import CheckedNode
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import gpu
from gpu_tools import LOST, NO_DRIVER, V100, driver, nvlink, process, program, smi

from .problems import severities

P5 = CheckedNode("ubuntu", instance_type="p5.48xlarge")
CPU = CheckedNode("ubuntu", instance_type="c5.large")
UNKNOWN = CheckedNode("ubuntu", instance_type="p99.48xlarge")


def parse(text):
    return [gpu.describe(element) for element in gpus.interpret(text, "", 0).elements]


def listed(count, configured=None):
    return gpu.Gpus(True, "", parse(smi(count)), configured)


def errors(text, node=P5, uptime=gpu.REGISTRATION):
    return gpu.decide_errors(gpu.Gpus(True, "", parse(text), None, uptime=uptime), node)


@pytest.mark.parametrize(
    ("found", "node", "severity"),
    [
        pytest.param(listed(8, 8), P5, None, id="all are there"),
        pytest.param(listed(8), P5, None, id="not configured yet"),
        pytest.param(listed(7, 8), P5, "replace", id="one is missing"),
        pytest.param(listed(7, 7), P5, "replace", id="one has been missing since configuration"),
        pytest.param(listed(7, 8), UNKNOWN, "replace", id="one is missing on an unknown type"),
        pytest.param(listed(8, 8), UNKNOWN, None, id="all are there on an unknown type"),
        pytest.param(listed(8, 7), P5, "monitor", id="more than configured"),
        pytest.param(gpu.Gpus(False, "", [], 0), CPU, None, id="no GPUs"),
        pytest.param(gpu.Gpus(False, "", [], None), CPU, None, id="no GPUs and not configured"),
        pytest.param(gpu.Gpus(False, "", [], 0), P5, "monitor", id="never had a driver"),
        pytest.param(gpu.Gpus(False, "", [], 8), P5, "restart", id="driver is gone"),
        pytest.param(gpu.Gpus(True, NO_DRIVER, [], 8), P5, "reboot", id="driver does not answer"),
        pytest.param(gpu.Gpus(True, NO_DRIVER, [], 0), CPU, "monitor", id="a driver without GPUs"),
        pytest.param(gpu.Gpus(True, LOST, [], 8), P5, "replace", id="one is lost"),
    ],
)
def test_how_many_gpus_there_are(found, node, severity):
    assert severities(gpu.decide_count(found, node)) == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("change", "severity", "words"),
    [
        (("<dram_uncorrectable>0", "<dram_uncorrectable>2"), "reboot", "uncorrectable memory errors"),
        (("<remapped_row_pending>No", "<remapped_row_pending>Yes"), "reboot", "until the GPU is reset"),
        (("<remapped_row_failure>No", "<remapped_row_failure>Yes"), "replace", "could not be remapped"),
        (("<sram_threshold_exceeded>No", "<sram_threshold_exceeded>Yes"), "replace", "threshold"),
        (("<reset_required>No", "<reset_required>Yes"), "reboot", "needs a reset"),
        (("action>None<", "action>Reboot<"), "reboot", "'Reboot'"),
        (("</fabric>", "<health><summary>Unhealthy</summary></health></fabric>"), "reboot", "fabric is 'unhealthy'"),
        (("</fabric>", "<health><summary>Limited Capacity</summary></health></fabric>"), "monitor", "fabric is 'limited capacity'"),
        (("action>None<", "action>Bus Reset<"), "reboot", "'Bus Reset'"),
        (("action>None<", "action>Drain P2P<"), "monitor", "'Drain P2P'"),
        (("<status>Success", "<status>Initialization Failure"), "reboot", "Initialization Failure"),
        (("<fabric>", "<mig_mode><current_mig>Enabled</current_mig></mig_mode><fabric>"), "monitor", "nvidia-smi -mig 0"),
    ],
)
def test_what_a_gpu_reports(change, severity, words):
    ((found, message),) = gpu.decide_errors(gpu.Gpus(True, "", parse(smi(8, change)), 8), P5)
    assert found == severity
    assert message.startswith("GPU 00000000:ca:00.0: ")
    assert words in message


@pytest.mark.parametrize(
    "change",
    [
        ("<dram_correctable>0", "<dram_correctable>900"),
        ("<sram_uncorrectable_parity>0", "<sram_uncorrectable_parity>N/A"),
        ("<remapped_row_corr>0", "<remapped_row_corr>3"),
        ("<state>Completed</state>\n      <status>Success", "<state>N/A</state>\n      <status>N/A"),
    ],
)
def test_what_a_gpu_corrects_itself_or_does_not_know_is_no_error(change):
    assert gpu.decide_errors(gpu.Gpus(True, "", parse(smi(8, change)), 8), P5) == []


def test_the_worst_condition_of_a_gpu_is_told():
    text = smi(2, ("<remapped_row_pending>No", "<remapped_row_pending>Yes"), ("<remapped_row_failure>No", "<remapped_row_failure>Yes"))
    assert severities(gpu.decide_errors(gpu.Gpus(True, "", parse(text), 8), P5)) == ["replace"]


def test_a_condition_that_needs_no_action_hides_no_other():
    text = smi(1, ("action>None<", "action>Drain P2P<"), ("</fabric>", "<health><summary>Unhealthy</summary></health></fabric>"))
    assert severities(gpu.decide_errors(gpu.Gpus(True, "", parse(text), 1), UNKNOWN)) == ["reboot"]


def test_a_healthy_gpu_has_no_problem():
    """The output was recorded with driver 580.159.04, without the list of clocks and with other serial numbers."""
    text = Path(__file__).with_name("nvidia_smi_h100.xml").read_text()
    assert parse(text) == [
        gpu.Gpu(
            "00000000:00:06.0",
            recovery="None",
            fabric_state="N/A",
            fabric_status="N/A",
            fabric_health="n/a",
            unreadable=[],
            absent=[],
            unknown=[],
            processes=[],
        )
    ]
    assert gpu.decide_errors(gpu.Gpus(True, "", parse(text), 1), UNKNOWN) == []


def test_older_gpus_have_other_counters():
    assert parse(smi(1, gpu=V100)) == [gpu.Gpu(bus="00000000:53:00.0", unreadable=[], absent=[*gpu.COMPARED], unknown=[], processes=[])]
    broken = smi(
        1, ("<double_bit><device_memory>0</device_memory><total>0", "<double_bit><device_memory>1</device_memory><total>1"), gpu=V100
    )
    assert [each.uncorrectable for each in parse(broken)] == [1]
    retiring = smi(1, ("<pending_retirement>No", "<pending_retirement>Yes"), gpu=V100)
    assert [each.remap_pending for each in parse(retiring)] == [True]


@pytest.mark.parametrize("text", [smi(8)[:-30], smi(8)[:900]])
def test_output_that_is_cut_off_is_an_error_of_the_check(text):
    with pytest.raises(ValueError, match="the output of nvidia-smi is incomplete"):
        parse(text)


def of_processes(*units):
    found = [gpu.GpuProcess(number, "/usr/bin/python3", "bob", "10 MiB", unit) for number, unit in enumerate(units, 100)]
    return gpu.decide_processes(gpu.Gpus(True, "", [gpu.Gpu("53", processes=found), gpu.Gpu("64", processes=found)], 8), P5)


def test_processes_of_jobs_may_use_gpus():
    job = "0::/deeplearning.slice/deeplearning-digits.slice/deeplearning-digits-rank0.service\n"
    assert of_processes(job) == []
    assert of_processes("") == [], "the process has ended in the meantime"
    ((severity, message),) = of_processes(job, "0::/user.slice/user-1000.slice/session-3.scope\n")
    assert severity == "monitor"
    assert "process 101: python3 of user bob belongs to no job and uses 10 MiB of GPU 53." in message
    assert severities(of_processes("0::/mydeeplearning.slice/x.service\n")) == ["monitor"]


def test_processes_that_only_draw_are_no_processes_of_jobs():
    (found,) = parse(smi(1, processes=process(os.getpid()) + process(1, type="G")))
    assert [each.pid for each in found.processes] == [os.getpid()]
    assert found.processes[0].memory == "71234 MiB"
    assert found.processes[0].unit


@pytest.mark.parametrize(
    ("text", "broken"),
    [(nvlink(18, 18, 18), []), (nvlink(18, 17, 18), ["1"]), ("", []), (nvlink(18, 0), ["1"])],
)
def test_a_gpu_with_fewer_links_than_others(text, broken):
    found = gpu.decide_links(gpu.LinkStatus(text), P5)
    assert set(severities(found)) <= {"reboot"}
    assert [message.partition(":")[0] for _severity, message in found] == [f"GPU {index}" for index in broken]


@pytest.mark.parametrize(
    ("text", "status", "error", "count"),
    [
        (smi(8), 0, "", 8),
        (NO_DRIVER, 9, NO_DRIVER.strip(), 0),
        (LOST, 15, LOST.strip(), 0),
        (LOST + smi(7), 0, LOST.strip(), 7),
        ("", 3, "exit status 3", 0),
    ],
)
def test_what_the_program_prints(tmp_path, monkeypatch, text, status, error, count):
    (tmp_path / "nvidia-smi").write_text(program(*driver(text, status, nvlink(18))))
    (tmp_path / "nvidia-smi").chmod(0o755)
    (tmp_path / "metadata.json").write_text('{"gpu_count": 8}')
    monkeypatch.setattr(gpus, "DIRECTORIES", f"{tmp_path}:/usr/bin:/bin")
    found = gpu.read_gpus(CheckedNode("ubuntu", metadata_directory=str(tmp_path)))
    assert (found.is_installed, found.error, len(found.gpus), found.configured) == (True, error, count, 8)
    assert [each.active for each in gpu.parse_links(gpu.read_links(P5).text)] == [18]


FORGED = "/var/lib/deeplearning-jobs/GPU is lost"


@pytest.mark.parametrize(
    ("text", "status", "error"),
    [
        (smi(8, processes=process(7, FORGED)), 0, ""),
        (smi(8, processes=process(7, FORGED)) + "another error\n", 15, "exit status 15"),
        (smi(8, processes=process(7, FORGED)) + LOST, 15, LOST.strip()),
        (LOST + smi(8, processes=process(7, FORGED)), 0, LOST.strip()),
        (smi(8, processes=process(7, f"<{FORGED}\n</processes>\n{FORGED}")) + "another error\n", 15, "exit status 15"),
        (smi(8, processes=process(7, FORGED)).partition("GPU is lost")[0] + "GPU is lost", 15, "exit status 15"),
    ],
    ids=["name", "name and error", "name and lost GPU", "lost GPU first", "name that ends the processes", "cut off"],
)
def test_the_name_of_a_process_says_nothing_about_a_gpu(tmp_path, monkeypatch, text, status, error):
    (tmp_path / "nvidia-smi").write_text(program(("'-q -x'", text, status)))
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setattr(gpus, "DIRECTORIES", f"{tmp_path}:/usr/bin:/bin")
    found = gpu.read_gpus(P5)
    assert (found.error, FORGED in found.error) == (error, False)
    assert [each for each in severities(gpu.decide_count(found, P5)) if each != "monitor"] == (
        ["replace" if error == LOST.strip() else "reboot"] if error else []
    )


def test_a_host_without_the_program(tmp_path, monkeypatch):
    monkeypatch.setattr(gpus, "DIRECTORIES", str(tmp_path))
    found = gpu.read_gpus(CheckedNode("ubuntu", metadata_directory=str(tmp_path)))
    assert (found.is_installed, found.error, list(found.gpus), found.configured) == (False, "", [], None)
    assert gpu.read_links(P5) == gpu.LinkStatus("")


NONE_ACTIVE = "GPU 0: NVIDIA A10G (UUID: GPU-1)\nNVML: Unable to retrieve NVLink information as all links are inActive\n"


@pytest.mark.parametrize(
    ("text", "status", "node", "error"),
    [
        (NO_DRIVER, 9, P5, NO_DRIVER.strip()),
        ("", 255, P5, "exit status 255"),
        (NO_DRIVER, 9, CPU, ""),
        (NONE_ACTIVE, 255, CheckedNode("ubuntu", instance_type="g5.xlarge"), ""),
        (nvlink(18), 0, P5, ""),
    ],
)
def test_links_whose_status_cannot_be_read_are_a_finding_on_hosts_with_gpus(tmp_path, monkeypatch, text, status, node, error):
    (tmp_path / "nvidia-smi").write_text(program(("'nvlink --status'", text, status)))
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setattr(gpus, "DIRECTORIES", f"{tmp_path}:/usr/bin:/bin")
    found = gpu.read_links(node)
    assert found.error == error
    assert gpu.decide_links(found, node) == (
        [("monitor", f"nvidia-smi nvlink: the status of the NVLinks could not be read: {error}")] if error else []
    )


@pytest.mark.parametrize(("configured", "instance_type", "expected"), [(8, "", True), (0, "g5.xlarge", True), (0, "c5.large", False)])
def test_the_metadata_or_the_instance_type_says_that_a_host_has_gpus(tmp_path, configured, instance_type, expected):
    (tmp_path / "metadata.json").write_text(f'{{"gpu_count": {configured}}}')
    assert gpu.has_gpus(CheckedNode("ubuntu", instance_type=instance_type, metadata_directory=str(tmp_path))) is expected


INFOROM = "WARNING: infoROM is corrupted at gpu 0000:53:00.0"
BROKEN = smi(8, ("<remapped_row_failure>No", "<remapped_row_failure>Yes"))


@pytest.mark.parametrize("status", [0, 14, 255])
@pytest.mark.parametrize(
    ("output", "error"),
    [(BROKEN + INFOROM + "\n", ""), (f"{INFOROM}\n{BROKEN}", ""), (BROKEN, INFOROM + "\n")],
    ids=["after the document", "before the document", "standard error"],
)
def test_a_warning_beside_the_document_hides_nothing(output, error, status):
    found = gpus.interpret(output, error, status)
    described = gpu.Gpus(True, found.error, [gpu.describe(each) for each in found.elements], 8, found.warnings)
    assert gpu.decide_count(described, P5) == [("monitor", f"nvidia-smi: {INFOROM}")]
    assert severities(gpu.decide_errors(described, P5)) == ["replace"]


def test_a_status_without_a_message_is_shown():
    found = gpus.interpret(smi(8), "", 14)
    assert gpu.decide_count(gpu.Gpus(True, found.error, parse(smi(8)), 8, found.warnings), P5) == [
        ("monitor", "nvidia-smi: exit status 14")
    ]


@pytest.mark.parametrize("words", ["ERR!", "Unknown Error", "[Unknown Error]", "GPU requires reset", "[GPU requires reset]"])
@pytest.mark.parametrize("field", ["dram_uncorrectable", "remapped_row_failure", "current_ecc"])
def test_a_gpu_whose_values_cannot_be_read_is_not_healthy(words, field):
    before = next(f"<{field}>{value}<" for value in ("0", "No", "Enabled") if f"<{field}>{value}<" in smi(1))
    ((severity, message),) = errors(smi(8, (before, f"<{field}>{words}<")))
    assert severity == "reboot"
    assert message.startswith("GPU 00000000:ca:00.0: ")


@pytest.mark.parametrize(
    ("change", "severity", "words"),
    [
        (("<persistence_mode>Enabled", "<persistence_mode>ERR!"), "monitor", "the driver cannot read persistence_mode."),
        (("<current_ecc>Enabled", "<current_ecc>GPU is lost"), "replace", "is lost."),
        (("<current_ecc>Enabled", "<current_ecc>N/A"), "monitor", "does not report ecc_mode/current_ecc, but other GPUs of this host do."),
        (("action>None<", "action>Something new<"), "monitor", "the driver recommends the action 'Something new'."),
        (("<remapped_row_pending>No", "<remapped_row_pending>Maybe"), "monitor", "unknown values: remapped_rows/remapped_row_pending."),
        (("<dram_uncorrectable>0", "<dram_uncorrectable>some"), "monitor", "unknown values: ecc_errors/volatile/dram_uncorrectable."),
        (("<state>Completed", "<state>Something new"), "monitor", "the state of the NVLink fabric is 'Something new'."),
        (
            ("<state>Completed</state>\n      <status>Success", "<state>In Progress</state>\n      <status>N/A"),
            "reboot",
            "fabric: In Progress.",
        ),
        (
            ("<state>Completed</state>\n      <status>Success", "<state>Not Started</state>\n      <status>N/A"),
            "reboot",
            "fabric: Not Started.",
        ),
        (("</fabric>", "<health><summary>Something new</summary></health></fabric>"), "monitor", "fabric is 'something new'"),
    ],
)
def test_states_that_are_not_healthy_or_not_known(change, severity, words):
    ((found, message),) = errors(smi(8, change))
    assert (found, words in message) == (severity, True), message


# What drivers 570 and 575 print in fields that they have deprecated.
DEPRECATED = "Requested functionality has been deprecated"
RESET_STATUS = f"<gpu_reset_status><reset_required>{DEPRECATED}</reset_required></gpu_reset_status></gpu>"


@pytest.mark.parametrize("words", [DEPRECATED, f"[{DEPRECATED}]", "[N/A]", "Not Supported"])
def test_a_value_that_the_driver_does_not_have_is_no_finding(words):
    assert errors(smi(8).replace("</gpu>", RESET_STATUS.replace(DEPRECATED, words))) == []
    for field, value in (("remapped_row_pending", "No"), ("gpu_recovery_action", "None"), ("state", "Completed"), ("status", "Success")):
        assert errors(smi(8).replace(f"<{field}>{value}<", f"<{field}>{words}<")) == [], field
    assert errors(smi(8).replace("</fabric>", f"<health><summary>{words}</summary></health></fabric>")) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("</fabric>", "<health><summary>Limited Capacity</summary></health></fabric>"), "fabric is 'limited capacity'"),
        (("<state>Completed", "<state>Something new"), "the state of the NVLink fabric is 'Something new'."),
        (("<fabric>", "<mig_mode><current_mig>Enabled</current_mig></mig_mode><fabric>"), "nvidia-smi -mig 0"),
        (("<current_ecc>Enabled", "<current_ecc>N/A"), "does not report ecc_mode/current_ecc"),
        (("<persistence_mode>Enabled", "<persistence_mode>ERR!"), "the driver cannot read persistence_mode."),
    ],
)
def test_unknown_values_hide_no_other_finding(change, words):
    text = smi(8, change).replace("</gpu>", RESET_STATUS.replace(DEPRECATED, "Maybe"))
    (message,) = (message for _severity, message in errors(text) if "unknown values" not in message)
    assert words in message


def test_a_gpu_has_some_minutes_after_a_boot_to_join_the_fabric():
    text = smi(1, ("<state>Completed", "<state>In Progress"))
    assert severities(errors(text, uptime=60.0)) == ["monitor"]
    assert severities(errors(text, uptime=3600.0)) == ["reboot"]


def test_a_value_that_no_gpu_reports_is_no_finding():
    assert errors(smi(8, gpu=V100)) == []


@pytest.mark.parametrize(("seconds", "persistent", "count"), [(24.0, False, 1), (24.0, True, 0), (1.0, False, 0)])
def test_a_slow_driver_without_the_persistence_daemon(tmp_path, monkeypatch, seconds, persistent, count):
    monkeypatch.setattr(gpu, "PERSISTENCE", "/proc/self" if persistent else str(tmp_path / "socket"))
    found = gpu.decide_count(listed(8)._replace(seconds=seconds), P5)
    assert severities(found) == ["monitor"] * count
    assert all("nvidia-smi: needed 24 s." in message and "nvidia-persistenced" in message for _severity, message in found)
    assert bool(gpu.why_slow()) is not persistent


ALL_INACTIVE = "".join(
    f"GPU {number}: NVIDIA H100 80GB HBM3 (UUID: GPU-{number})\nNVML: Unable to retrieve NVLink information as all links are inActive\n"
    for number in range(8)
)
G5 = CheckedNode("ubuntu", instance_type="g5.12xlarge")
OWN = CheckedNode("ubuntu")


@pytest.mark.parametrize(
    ("text", "switches", "node", "severity"),
    [
        pytest.param(nvlink(*[0] * 8), True, P5, "reboot", id="all links are down"),
        pytest.param(nvlink(*[0] * 8), False, P5, "reboot", id="all links are down, and no switch is left"),
        pytest.param(ALL_INACTIVE, False, P5, "reboot", id="no links are listed"),
        pytest.param(ALL_INACTIVE, True, OWN, "reboot", id="own host with switches"),
        pytest.param(nvlink(*[0] * 8), False, OWN, "monitor", id="own host, perhaps without bridges"),
        pytest.param(nvlink(*[17] * 8), True, P5, "monitor", id="one link less on all GPUs"),
        pytest.param(
            nvlink(*[4] * 4, links=6), False, CheckedNode("ubuntu", instance_type="p3.8xlarge"), None, id="links that lead nowhere"
        ),
        pytest.param(ALL_INACTIVE, False, OWN, None, id="own host without links"),
        pytest.param(ALL_INACTIVE, False, G5, None, id="type without links"),
        pytest.param(nvlink(0), False, CheckedNode("ubuntu", instance_type="p5.4xlarge"), None, id="single GPU"),
        pytest.param(nvlink(*[18] * 8), True, P5, None, id="all links are active"),
    ],
)
def test_links_that_are_inactive_on_all_gpus(text, switches, node, severity):
    assert severities(gpu.decide_links(gpu.LinkStatus(text, switches=switches), node)) == ([severity] if severity else [])


def test_one_gpu_without_links():
    text = "".join(ALL_INACTIVE.splitlines(True)[4:6]).replace("GPU 2", "GPU 1")
    found = gpu.decide_links(gpu.LinkStatus(nvlink(18) + text), P5)
    assert found == [("reboot", "GPU 1: 0 NVLinks are active, but other GPUs of this host have 18.")]
