"""Output of NVIDIA's tools and driver messages in the documented formats, and programs that print this output on hosts."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

# The health-related parts of an H100's entry, in the order and format of driver 550 (nvsmi_device_v12.dtd).
H100 = """\
  <gpu id="00000000:{bus}:00.0">
    <product_name>NVIDIA H100 80GB HBM3</product_name>
    <product_brand>NVIDIA</product_brand>
    <product_architecture>Hopper</product_architecture>
    <persistence_mode>Enabled</persistence_mode>
    <uuid>GPU-5f2d7c1a-0000-0000-0000-0000000000{bus}</uuid>
    <minor_number>{index}</minor_number>
    <gpu_reset_status>
      <reset_required>No</reset_required>
      <drain_and_reset_recommended>No</drain_and_reset_recommended>
    </gpu_reset_status>
    <gpu_recovery_action>None</gpu_recovery_action>
    <ecc_mode>
      <current_ecc>Enabled</current_ecc>
      <pending_ecc>Enabled</pending_ecc>
    </ecc_mode>
    <ecc_errors>
      <volatile>
        <sram_correctable>0</sram_correctable>
        <sram_uncorrectable_parity>0</sram_uncorrectable_parity>
        <sram_uncorrectable_secded>0</sram_uncorrectable_secded>
        <dram_correctable>0</dram_correctable>
        <dram_uncorrectable>0</dram_uncorrectable>
      </volatile>
      <aggregate>
        <sram_correctable>0</sram_correctable>
        <sram_uncorrectable_parity>0</sram_uncorrectable_parity>
        <sram_uncorrectable_secded>0</sram_uncorrectable_secded>
        <dram_correctable>0</dram_correctable>
        <dram_uncorrectable>0</dram_uncorrectable>
        <sram_threshold_exceeded>No</sram_threshold_exceeded>
      </aggregate>
    </ecc_errors>
    <retired_pages>
      <multiple_single_bit_retirement>
        <retired_count>N/A</retired_count>
        <retired_pagelist>N/A</retired_pagelist>
      </multiple_single_bit_retirement>
      <double_bit_retirement>
        <retired_count>N/A</retired_count>
        <retired_pagelist>N/A</retired_pagelist>
      </double_bit_retirement>
      <pending_blacklist>N/A</pending_blacklist>
      <pending_retirement>N/A</pending_retirement>
    </retired_pages>
    <remapped_rows>
      <remapped_row_corr>0</remapped_row_corr>
      <remapped_row_unc>0</remapped_row_unc>
      <remapped_row_pending>No</remapped_row_pending>
      <remapped_row_failure>No</remapped_row_failure>
    </remapped_rows>
    <processes>
{processes}    </processes>
    <fabric>
      <state>Completed</state>
      <status>Success</status>
    </fabric>
  </gpu>
"""
# The health-related parts of a V100's entry, whose counters have different names from those of an H100.
V100 = """\
  <gpu id="00000000:{bus}:00.0">
    <product_name>Tesla V100-SXM2-16GB</product_name>
    <ecc_errors>
      <volatile>
        <single_bit><device_memory>0</device_memory><total>0</total></single_bit>
        <double_bit><device_memory>0</device_memory><total>0</total></double_bit>
      </volatile>
    </ecc_errors>
    <retired_pages>
      <pending_retirement>No</pending_retirement>
    </retired_pages>
    <remapped_rows>N/A</remapped_rows>
    <processes>
{processes}    </processes>
  </gpu>
"""
PROCESS = """\
      <process_info>
        <gpu_instance_id>N/A</gpu_instance_id>
        <compute_instance_id>N/A</compute_instance_id>
        <pid>{pid}</pid>
        <type>{type}</type>
        <process_name>{name}</process_name>
        <used_memory>{memory} MiB</used_memory>
      </process_info>
"""
# The socket of the persistence daemon. Without this daemon, nvidia-smi may be slow.
PERSISTENCE = "/run/nvidia-persistenced/socket"
BUSES = ("53", "64", "75", "86", "97", "a8", "b9", "ca")
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)
# The first messages of a kernel log.
BOOT_MESSAGES = ("Linux version 6.8.0-1021-aws", "nvidia: module license 'NVIDIA' taints kernel.")
LOST = "Unable to determine the device handle for GPU0000:64:00.0: GPU is lost.  Reboot the system to recover this GPU\n"


def process(pid: int, name: str = "/opt/pytorch/bin/python", memory: int = 71234, type: str = "C") -> str:
    return PROCESS.format(pid=pid, name=name, memory=memory, type=type)


def smi(count: int, *changes: tuple[str, str], gpu: str = H100, processes: str = "") -> str:
    """Return the output of `nvidia-smi -q -x` for `count` GPUs. Each change replaces one text with another in the last GPU's entry."""
    gpus = [gpu.format(bus=bus, index=index, processes="") for index, bus in enumerate(BUSES[:count])]
    for before, after in changes:
        assert before in gpus[-1], before
        gpus[-1] = gpus[-1].replace(before, after)
    if processes:
        gpus[0] = gpu.format(bus=BUSES[0], index=0, processes=processes)
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
        "\t<timestamp>Mon Nov 23 08:00:00 2026</timestamp>\n\t<driver_version>550.163.01</driver_version>\n"
        f"\t<cuda_version>12.4</cuda_version>\n\t<attached_gpus>{count}</attached_gpus>\n{''.join(gpus)}</nvidia_smi_log>\n"
    )


def nvlink(*active: int, links: int = 18) -> str:
    """Return the output of `nvidia-smi nvlink --status` for GPUs with these numbers of active links."""
    text = ""
    for index, count in enumerate(active):
        text += f"GPU {index}: NVIDIA H100 80GB HBM3 (UUID: GPU-5f2d7c1a-0000-0000-0000-0000000000{BUSES[index]})\n"
        text += "".join(f"\t Link {link}: {'26.562 GB/s' if link < count else '<inactive>'}\n" for link in range(links))
    return text


def program(*answers: tuple[str, str, int], pause: int = 0) -> str:
    """Return a shell program that prints the text and returns the exit status for the first pattern that its arguments match."""
    cases = "".join(f"  {pattern}) printf '%s' {shlex.quote(text)}; exit {status};;\n" for pattern, text, status in answers)
    return f'#!/bin/sh\nsleep {pause}\ncase "$*" in\n{cases}esac\nexit 2\n'


def kernel_log(*messages: str | bytes, **fields: str) -> str:
    """Return kernel messages in the format of `journalctl --dmesg --output=json`. `fields` replaces fields of the given messages."""
    records = [_record(each, number, fields if number > 1 else {}) for number, each in enumerate((*BOOT_MESSAGES, *messages))]
    return "".join(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n" for record in records)


def _record(message: str | bytes, number: int, fields: Mapping[str, str]) -> dict[str, object]:
    """Return a record of the journal. A message that is not printable UTF-8 becomes a list of bytes."""
    encoded = message if isinstance(message, bytes) else message.encode()
    text = encoded.decode("utf-8", "replace")
    is_printable = text.encode() == encoded and all(each.isprintable() or each in "\t\n\u2028\u2029" for each in text)
    return {
        "MESSAGE": text if is_printable else list(encoded),
        "_TRANSPORT": "kernel",
        "__REALTIME_TIMESTAMP": str(1795600000000000 + number),
        "__CURSOR": f"s=0d4f3b2a;i={number:x};b=8a6f0f6c4f5e4b0b9a52b6c1e2f4a7d3;m={number:x};t=6611b0a58c1ba;x=5c3e6f",
        "_BOOT_ID": "8a6f0f6c4f5e4b0b9a52b6c1e2f4a7d3",
        "SYSLOG_FACILITY": "0",
        "__MONOTONIC_TIMESTAMP": str(number),
        **fields,
    }


def driver(text: str, status: int = 0, links: str = "", links_status: int = 0) -> Sequence[tuple[str, str, int]]:
    """Return the (pattern, output, exit status) tuples from which program() creates a stub of nvidia-smi."""
    return (
        ("'-q -x'", text, status),
        ("'nvlink --status'", links, links_status),
        ("-L", "".join(f"GPU {n}: X\n" for n in range(text.count("<gpu id"))), 0),
    )


class Fault(NamedTuple):
    """A fault that a test of DCGM finds. `gpu` is None for a fault of the host. The numbers are those of dcgmlib/dcgm_errors.h."""

    test: str
    gpu: int | None
    message: str
    error: int
    category: int
    severity: int


FAULTY_MEMORY = Fault("memory", 3, "Found 12 faulty memory elements on GPU 3", 52, 8, 2)
PENDING_REMAP = Fault("software", 5, "GPU 5 had memory errors and row remappings are pending", 85, 8, 6)
LOW_BANDWIDTH = Fault(
    "pcie", 0, "Bandwidth of GPU 0 in direction h2d of 3.41 did not exceed minimum required bandwidth of 14.00.", 30, 10, 4
)
NO_PERSISTENCE = Fault("software", 1, "Persistence mode for GPU 1 is disabled.", 29, 3, 5)
NOUVEAU = Fault("software", None, "Found driver on the denylist: nouveau", 23, 3, 5)

# What DCGM 3.3 calls the tests of level 2, by category, and which of them find errors, by the errors' numbers.
TESTS_3 = {
    "Deployment": (
        "Denylist",
        "NVML Library",
        "CUDA Main Library",
        "Permissions and OS Blocks",
        "Persistence Mode",
        "Environment Variables",
        "Page Retirement/Row Remap",
        "Graphics Processes",
        "Inforom",
    ),
    "Integration": ("PCIe",),
    "Hardware": ("GPU Memory",),
}
NAMES_3 = {52: "GPU Memory", 85: "Page Retirement/Row Remap", 30: "PCIe", 29: "Persistence Mode", 23: "Denylist"}
NO_HOST_ENGINE = (
    "Error: unable to establish a connection to the specified host: localhost\n"
    "Error: Unable to connect to host engine. Host engine connection invalid/disconnected.\n"
)


def dcgm_3(*faults: Fault, count: int = 8) -> str:
    """Return the output of `dcgmi diag --run 2 --json` of DCGM 3.3. Tests of the category Deployment have one result for all GPUs."""

    def test(name: str, category: str) -> dict:
        found = [fault for fault in faults if NAMES_3[fault.error] == name]
        if category == "Deployment":
            result: dict = {"status": "Fail" if found else "Pass"}
            for fault in found:
                result["gpu_id"] = -1 if fault.gpu is None else fault.gpu
                result.setdefault("warnings", []).append(_warning(fault, "warnings"))
            return {"name": name, "results": [result]}
        results = []
        for gpu in range(count):
            own = [_warning(fault) for fault in found if fault.gpu == gpu]
            results.append({"gpu_id": str(gpu), "status": "Fail" if own else "Pass", **({"warnings": own} if own else {})})
        return {"name": name, "results": results}

    categories = [{"category": category, "tests": [test(name, category) for name in names]} for category, names in TESTS_3.items()]
    document = {
        "DCGM GPU Diagnostic": {"test_categories": categories},
        "Driver Version Detected": "550.163.01",
        "GPU Device IDs": ["2330"] * count,
        "GPU Device Serials": {str(gpu): f"165302305910{gpu}" for gpu in range(count)},
        "version": "3.3.9",
    }
    return json.dumps(document, indent=3) + "\n"


def dcgm_4(*faults: Fault, count: int = 8) -> str:
    """Return the output of `dcgmi diag --run 2 --json` of DCGM 4. Only the summary of a test mentions faults of the host."""

    def test(name: str) -> dict:
        found = [fault for fault in faults if fault.test == name]
        results = []
        for gpu in range(count):
            own = [_warning(fault) for fault in found if fault.gpu == gpu]
            entity = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu}
            results.append({**entity, "status": "Fail" if own else "Pass", **({"warnings": own} if own else {})})
        warnings = {"warnings": [_warning(fault) for fault in found]} if found else {}
        return {"name": name, "results": results, "test_summary": {"status": "Fail" if found else "Pass", **warnings}}

    entities = [{"device_id": "2330", "entity_id": gpu, "serial_num": f"165302305910{gpu}"} for gpu in range(count)]
    document = {
        "DCGM Diagnostic": {
            "test_categories": [
                {"category": category, "tests": [test(name)]}
                for category, name in (("Deployment", "software"), ("Hardware", "memory"), ("Integration", "pcie"))
            ]
        },
        "entity_groups": [{"entities": entities, "entity_group": "GPU", "entity_group_id": 1}],
        "metadata": {"Driver Version Detected": "570.172.08", "version": "4.4.1"},
    }
    return json.dumps(document, indent=2) + "\n"


def _warning(fault: Fault, key: str = "warning") -> dict:
    return {key: fault.message, "error_id": fault.error, "error_category": fault.category, "error_severity": fault.severity}
