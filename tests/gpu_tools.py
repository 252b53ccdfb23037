# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Output of NVIDIA's tools and driver messages in the documented formats, and programs that print this output on hosts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

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
BUSES = ("53", "64", "75", "86", "97", "a8", "b9", "ca")
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)
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


def kernel_log(*lines: str) -> str:
    """Return kernel messages in the format of `journalctl --output=cat`."""
    return "".join(f"{line}\n" for line in ("Linux version 6.8.0-1021-aws", "nvidia: module license 'NVIDIA' taints kernel.", *lines))


def driver(text: str, status: int = 0, links: str = "", links_status: int = 0) -> Sequence[tuple[str, str, int]]:
    """Return the (pattern, output, exit status) tuples from which program() creates a stub of nvidia-smi."""
    return (
        ("'-q -x'", text, status),
        ("'nvlink --status'", links, links_status),
        ("-L", "".join(f"GPU {n}: X\n" for n in range(text.count("<gpu id"))), 0),
    )
