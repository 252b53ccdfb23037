"""Tests of the findings that are derived from NVIDIA driver messages in the kernel log."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import SEVERITIES, CheckedNode
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import xid
from gpu_tools import kernel_log, program

NODE = CheckedNode("ubuntu")
# The PID 4194999 in messages is above Linux's maximum, so no process has this PID.


def verdicts(*lines):
    return xid.decide(xid.KernelLog(xid.parse(kernel_log(*lines).encode())), NODE)


@pytest.mark.parametrize(
    ("line", "severity", "words"),
    [
        (
            "NVRM: Xid (PCI:0000:64:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            "replace",
            "Xid 79 (the GPU has fallen off",
        ),
        ("NVRM: Xid (PCI:0000:64:00): 64, pid=0, name=<unknown>, Row Remapper: Fatal error", "replace", "could not be remapped"),
        ("NVRM: Xid (PCI:0000:64:00): 48, pid=4194999, name=python, DBE (double bit error) on HBM3", "reboot", "double-bit"),
        (
            "NVRM: Xid (PCI:0000:64:00): 74, pid=4194999, name=python, NVLink: fatal error detected on link 6(0x10000, 0x0)",
            "reboot",
            "NVLink error",
        ),
        ("NVRM: Xid (PCI:0000:64:00): 95, pid=4194999, name=python, Uncontained: LTC TAG (0x2,0x0)", "reboot", "uncontained"),
        ("NVRM: Xid (PCI:0000:64:00): 119, pid=4194999, name=nvidia-smi, Timeout after 6s of waiting for RPC response", "reboot", "GSP"),
        ("NVRM: Xid (PCI:0000:64:00): 63, pid=0, name=<unknown>, Row Remapper: New row marked for remapping", "monitor", "was remapped"),
        ("NVRM: Xid (0000:64:00): 43, Ch 00000010, engmask 00000101", "monitor", "Xid 43"),
        # The next two messages were recorded on an H100 with driver 580.159.04, after a failed assertion and an illegal memory access.
        ("NVRM: Xid (PCI:0000:00:06): 43, pid=4194999, name=python3, channel 0x0000000a", "monitor", "Xid 43"),
        (
            "NVRM: Xid (PCI:0000:00:06): 31, pid=4194999, name=python3, channel 0x0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1"
            " GPCCLIENT_T1_8 faulted @ 0x83f7_e9e00000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE",
            "monitor",
            "GPU 0000:00:06: Xid 31 (GPU memory page fault",
        ),
        ("NVRM: Xid (PCI:0000:64:00): 31, pid=4194999, name=gone, Ch 00000008, MMU Fault", "monitor", "page fault"),
        ("NVRM: Xid (PCI:0000:64:00): 1234, pid=4194999, name=python, something new", "monitor", "Xid 1234. pid=4194999"),
        ("NVRM: Xid (PCI:0000:64:00): 58", "monitor", "Xid 58."),
        ("NVRM: Xid (PCI:0000:64:00): 145, RLW_REMAP Nonfatal XC0 i0 Link 02 (0x00000004 0x80000000)", "monitor", "Xid 145"),
        ("NVRM: Xid (PCI:0000:64:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)", "reboot", "Xid 149"),
        ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 22013, Non-fatal, Link 61 Minion Link DLREQ interrupt", "monitor", "NVSwitch"),
        ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", "reboot", "SXid 20034"),
    ],
)
def test_what_a_message_calls_for(line, severity, words):
    ((found, message),) = verdicts(line)
    assert found == severity
    assert words in message


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "reboot"),
        ("GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "reboot"),
        ("GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", "reboot"),
        ("GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)", "monitor"),
        # Version 610 of the driver writes other words. The numbers are those of nvmlDeviceGpuRecoveryAction_t.
        ("GPU recovery action changed from 0x0 (None) to 0x1 (PF FLR)", "reboot"),
        ("GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)", "reboot"),
        ("GPU recovery action changed from 0x0 (None) to 0x5 (Recover IMEX Domain)", "monitor"),
        ("GPU recovery action changed from 0x0 (None) to 0x6 (Bus Reset)", "reboot"),
        ("GPU recovery action changed from 0x0 (None) to 0x7 (System Reboot)", "reboot"),
        ("GPU recovery action changed from 0x0 (None) to 0x12 (Unknown)", "monitor"),
        ("GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", "monitor"),
        ("another text", "monitor"),
    ],
)
def test_the_driver_itself_says_what_is_needed(text, severity):
    ((found, _message),) = verdicts(f"NVRM: Xid (PCI:0000:64:00): 154, pid=4194999, name=python, {text}")
    assert found == severity


def test_an_error_of_an_application_matters_while_the_application_runs():
    fault = "NVRM: Xid (PCI:0000:64:00): 94, pid={}, name={}, Contained: CE User Channel (0x9)"
    own_name = Path("/proc/self/comm").read_text().strip()
    assert [severity for severity, _message in verdicts(fault.format(os.getpid(), own_name))] == ["restart"]
    ((severity, _message),) = verdicts(fault.format(os.getpid(), "somebody"))
    assert severity == "monitor", "the pid has been reused"


NVLINK_FATAL = "NVRM: Xid (PCI:0000:64:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)"
NVLINK_NONFATAL = "NVRM: Xid (PCI:0000:64:00): 149, NETIR Nonfatal XC1 i0 Link 05 (0x00000004 0x80000000)"
SWITCH_FATAL = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
SWITCH_NONFATAL = SWITCH_FATAL.replace("Fatal", "Non-fatal", 1)
LOST = "NVRM: Xid (PCI:0000:64:00): 79, pid=0, name=<unknown>, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("fatal", "later", "severity", "words"),
    [
        (NVLINK_FATAL, NVLINK_NONFATAL, "reboot", "Xid 149, 2 times since boot. NETIR_LINK_EVT Fatal"),
        (SWITCH_FATAL, SWITCH_NONFATAL, "reboot", "SXid 20034, 2 times since boot. Fatal"),
        (LOST, NVLINK_NONFATAL, "replace", "Xid 79"),
    ],
)
def test_a_later_error_that_is_less_severe_does_not_hide_a_fatal_one(fatal, later, severity, words):
    (found, message), *others = verdicts(fatal, later)
    assert (found, words in message) == (severity, True), message
    assert [other for other, _message in others] in ([], ["monitor"])


def test_a_program_that_is_running_counts_although_a_later_one_has_ended():
    fault = "NVRM: Xid (PCI:0000:64:00): 13, pid={}, name={}, Graphics Exception"
    running = fault.format(os.getpid(), Path("/proc/self/comm").read_text().strip())
    assert [severity for severity, _message in verdicts(running, fault.format(4194999, "gone"))] == ["restart"]


@pytest.mark.parametrize(
    ("actions", "severity"),
    [
        (("0x0 (None)", "0x2 (Node Reboot Required)", "0x0 (None)"), "monitor"),
        (("0x0 (None)", "0x3 (Drain P2P)", "0x1 (GPU Reset Required)"), "reboot"),
    ],
)
def test_a_recommendation_of_the_driver_replaces_the_one_before(actions, severity):
    text = "NVRM: Xid (PCI:0000:64:00): 154, GPU recovery action changed from {} to {}"
    ((found, message),) = verdicts(*(text.format(before, after) for before, after in itertools.pairwise(actions)))
    assert found == severity
    assert actions[-1] in message


@pytest.mark.parametrize("with_gpus", [True, False])
@pytest.mark.parametrize(
    ("answer", "events", "error"),
    [
        (None, 0, "journalctl is not installed"),
        (("No journal files were opened", 1), 0, "No journal files were opened"),
        (("", 3), 0, "journalctl ended with exit status 3"),
        (("Journal file is truncated", 1, kernel_log(LOST)), 1, "Journal file is truncated"),
        (("a warning", 0, kernel_log(LOST)), 1, ""),
    ],
    ids=["missing", "fails", "fails silently", "fails half-way", "warns"],
)
def test_a_kernel_log_that_cannot_be_read_is_a_finding_on_hosts_with_gpus(tmp_path, monkeypatch, answer, events, error, with_gpus):
    if answer:
        words, status, *text = answer
        journal = tmp_path / "journalctl"
        journal.write_text(program(("*", "".join(text), status)).replace("sleep 0", f"echo '{words}' >&2" if words else ""))
        journal.chmod(0o755)
    monkeypatch.setattr(xid, "DIRECTORIES", str(tmp_path))
    node = CheckedNode("ubuntu", instance_type="p5.48xlarge" if with_gpus else "c5.large", metadata_directory=str(tmp_path))
    log = xid.read(node)
    assert (len(log.events), log.error) == (events, error if with_gpus else "")
    unread = [(severity, message) for severity, message in xid.decide(log, node) if "could not be read" in message]
    assert unread == ([("monitor", f"the kernel log could not be read: {error}. Xid errors would not be found.")] if log.error else [])


def test_errors_are_counted_by_gpu_and_the_worst_comes_first():
    remapped = "NVRM: Xid (PCI:0000:64:00): 63, pid=0, name=<unknown>, Row Remapper"
    other = remapped.replace("64:00", "75:00")
    lost = "NVRM: Xid (PCI:0000:75:00): 79, pid=0, name=<unknown>, GPU has fallen off the bus."
    found = verdicts(remapped, other, remapped, lost, remapped)
    assert [severity for severity, _message in found] == ["replace", "monitor", "monitor"]
    assert [message.split(".")[0] for _severity, message in found[1:]] == [
        "GPU 0000:64:00: Xid 63 (a memory row was remapped), 3 times since boot",
        "GPU 0000:75:00: Xid 63 (a memory row was remapped)",
    ]


CRASH = "python[31497]: segfault at 0 ip 0000565285ac6132 sp 00007fffc5e739e0 error 6 in {}[1132,565285ac6000+1000] likely on CPU 1"
# What the kernel writes about a crashed program whose name begins like a driver message. Names of processes have at most 15 characters.
NAMED = "{}[31497]: segfault at 0 ip 0000565285ac6132 sp 00007fffc5e739e0 error 6 in {}[1132,565285ac6000+1000]"


@pytest.mark.parametrize("forged", [LOST, SWITCH_FATAL], ids=["Xid", "SXid"])
@pytest.mark.parametrize(
    "message",
    [
        CRASH,
        CRASH.replace("{}", "\n{}"),
        CRASH.replace("{}", "\n[ 4711.123456] {}"),
        CRASH.replace("{}", "\u2028{}"),
        CRASH.replace("{}", "\r{}"),
        CRASH.replace("{}", '"}}\n{{"MESSAGE":"{}","_TRANSPORT":"kernel","SYSLOG_FACILITY":"0"}}\n'),
        " {}",
    ],
)
def test_a_user_cannot_forge_an_error_with_the_name_of_a_file(message, forged):
    """The kernel writes the name of the file that a crashed program has executed, and a name can contain line breaks."""
    assert verdicts(message.format(forged)) == []
    assert verdicts(message.format(forged).encode() + b"\xff") == []


# What the kernel writes about an unknown option of a mount, which any user may request in a user namespace. Options can have 4096 bytes.
MOUNT = "tmpfs: Unknown parameter 'z{}'"


@pytest.mark.parametrize("forged", [LOST, SWITCH_FATAL], ids=["Xid", "SXid"])
@pytest.mark.parametrize(
    "option",
    ["{}", "\n{}", "\r\n{}\n", "\n[ 4711.123456] {}", "\n<0>{}", '"}}\n{{"MESSAGE":"{}","_TRANSPORT":"kernel","SYSLOG_FACILITY":"0"}}\n'],
)
def test_a_user_cannot_forge_an_error_with_a_mount_option(option, forged):
    message = MOUNT.format(option.format(forged))
    assert verdicts(message) == []
    assert verdicts(message.encode() + b"\xff") == []
    assert len(verdicts(message, forged)) == 1, "the message hides no other error"


@pytest.mark.parametrize("name", ["NVRM: Xid (1): 7", "NVRM: Xid (PCI:0", "nvidia-nvswitch", LOST, SWITCH_FATAL])
def test_a_user_cannot_forge_an_error_with_the_name_of_a_process(name):
    assert verdicts(NAMED.format(name[:15], name)) == []
    assert verdicts(f"{name[:15]}: page allocation failure: order:4") == []


@pytest.mark.parametrize("fields", [{"_TRANSPORT": "syslog"}, {"_TRANSPORT": "stdout"}, {"SYSLOG_FACILITY": "3"}])
def test_only_messages_of_the_kernel_itself_count(fields):
    assert len(xid.parse(kernel_log(LOST).encode())) == 1
    assert xid.parse(kernel_log(LOST, **fields).encode()) == []


def test_a_message_that_is_not_printable_is_read():
    ((severity, message),) = verdicts(LOST.replace("<unknown>", "caf\udce9").encode("utf-8", "surrogateescape"))
    assert severity == "replace"
    assert message.startswith("GPU 0000:64:00: Xid 79")
    assert xid.parse(b"[]\n7\n" + kernel_log(LOST).encode().replace(json.dumps(LOST).encode(), b"null")) == []
    assert xid.parse(kernel_log(LOST).encode().replace(json.dumps(LOST).encode(), b'["a","b"]')) == []


def test_a_record_that_is_not_complete_is_skipped():
    log = kernel_log(LOST, NVLINK_FATAL).encode()
    assert [event.code for event in xid.parse(log[:-40])] == [79]


def test_other_messages_are_not_errors():
    assert verdicts("NVRM: loading NVIDIA UNIX Open Kernel Module", "usb 1-1: Xid 79 on a stick") == []


def test_a_table_of_known_codes():
    assert {each.severity for each in xid.XIDS.values()} <= set(SEVERITIES)
    assert not set(xid.APPLICATION) & set(xid.HARDWARE) | set(xid.HARDWARE) & set(xid.INFORMATION), "each code is in one group"
    assert not {*xid.NVLINK5, xid.RECOVERY_CHANGED} & set(xid.XIDS)


FALLEN = (
    "NVRM: The NVIDIA GPU 0000:64:00.0",
    "NVRM: (PCI ID: 10de:2330) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
)
XID_79 = "NVRM: Xid (PCI:0000:64:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@pytest.mark.parametrize(
    "messages",
    [
        FALLEN,
        ("\n".join(FALLEN),),
        (FALLEN[0], "audit: another message", *FALLEN[1:]),
        ("NVRM: GPU 0000:64:00.0: GPU has fallen off the bus.",),
        (*FALLEN, XID_79),
    ],
    ids=["three messages", "one message", "with another message", "one line", "with an Xid"],
)
def test_a_gpu_that_has_fallen_off_the_bus_needs_no_xid(messages):
    ((severity, message),) = verdicts(*messages)
    assert severity == "replace"
    assert message.startswith("GPU 0000:64:00: Xid 79 (the GPU has fallen off the bus)")


@pytest.mark.parametrize(
    "messages",
    [
        FALLEN[1:],
        (FALLEN[0], "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.163.01", FALLEN[2]),
        ("overlay: unknown mount option\n" + "\n".join(FALLEN),),
        ("fallen off the bus and is not responding to commands.", FALLEN[0]),
    ],
    ids=["no GPU", "another message of the driver", "text of a user", "another order"],
)
def test_parts_of_the_message_are_no_error(messages):
    assert verdicts(*messages) == []


def test_a_reset_that_the_driver_requires_needs_no_xid():
    text = "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned from x @ y.c:2827"
    assert verdicts(text, text) == [("reboot", f"GPUs: the driver requires a reset, 2 times since boot. {text}")]
    assert verdicts(f"overlay: {text}") == []
