"""Tests of the causes of failed processes."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import process_failures
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import failed_process
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.storage_problems import StorageProblem

TRACEBACK = """\
Traceback (most recent call last):
  File "/code/train.py", line 7, in <module>
    save()
{}
"""
PASSED_ON = """\
Traceback (most recent call last):
  File "/code/wrap.py", line 3, in <module>
    subprocess.run([sys.executable, "child.py"], check=True)
  File "/usr/lib/python3.11/subprocess.py", line 571, in run
    raise CalledProcessError(retcode, process.args,
subprocess.CalledProcessError: Command '['/usr/bin/python', 'child.py']' {}
"""
TORCHRUN = """\
step 1
E1121 22:10:40.1 210 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) local_rank: 0 (pid: 213)
Traceback (most recent call last):
  File "/opt/pytorch/lib/torch/distributed/run.py", line 5, in <module>
    main()
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
Root Cause (first observed failure):
[0]:
  rank      : 0 (local_rank: 0)
  exitcode  : -9 (pid: 213)
"""

# What torch writes when a collective operation takes too long, and when its watchdog no longer responds.
TIMED_OUT = (
    "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=57, OpType=ALLREDUCE, NumelIn=32, NumelOut=32, "
    "Timeout(ms)=600000) ran for 600045 milliseconds before timing out."
)
WATCHDOG = f"""\
step 1
[rank0]:[E218 04:54:22.864467604 ProcessGroupNCCL.cpp:632] {TIMED_OUT}
[rank0]:[E218 04:54:22.9 ProcessGroupNCCL.cpp:684] [Rank 0] To avoid data inconsistency, we are taking the entire process down.
terminate called after throwing an instance of 'c10::DistBackendError'
  what():  [PG ID 0 PG GUID 0 Rank 0] Process group watchdog thread terminated with exception: {TIMED_OUT}
"""
HEARTBEAT = """\
[rank0]:[E ProcessGroupNCCL.cpp:1316] [PG 0 Rank 0] Heartbeat monitor timed out! Process will be terminated after dumping debug info.
[rank0]:[F ProcessGroupNCCL.cpp:1169] [PG 0 Rank 0] ProcessGroupNCCL's watchdog got stuck for 600 seconds without making progress.
"""
ANOTHER_DIED = "F1128 14:46:02.298440   18936 client.h:80] Terminating process. This most likely indicates that another task died\n"

# What absl writes if a process of JAX 0.10 waits for another one too long.
LATE = (
    "F1128 22:07:33.351201   14415 client.h:80] Terminating process because the JAX distributed service detected fatal errors. This most "
    "likely indicates that another task died; see the other task logs for more details. Disable Python buffering, i.e. `python -u`, to be "
    "sure to see all the previous output. absl::Status: DEADLINE_EXCEEDED: Deadline Exceeded\n\n"
    "RPC: /xla.coordination.CoordinationService/RegisterTask\n*** Check failure stack trace: ***\n"
)

# Exceptions of NCCL on a host whose adapter does not work.
NCCL = (
    "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:317, {}, NCCL version 2.21.5\n"
    "ncclSystemError: failed.\nLast error:\n{}"
)
ADAPTER = NCCL.format("unhandled system error", "NET/OFI Creating new endpoint for domain 0x7f failed: Invalid argument")
CRASHED_THREAD = """\
Fatal Python error: Aborted

Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.12/threading.py", line 355 in wait

Thread 0x00007f02 (most recent call first):
  File "/code/train.py", line 30 in step
"""

# An error on a GPU, which torch reports again while Python exits.
ABORTED = (
    TRACEBACK.format("torch.AcceleratorError: CUDA error: device-side assert triggered")
    + """\
terminate called after throwing an instance of 'c10::DistBackendError'
  what():  [PG ID 0 Rank 1] Process group watchdog thread terminated with exception: CUDA error: device-side assert triggered
Fatal Python error: Aborted

Thread 0x00007fdaae46a080 (most recent call first):
  <no Python frame>

Extension modules: torch._C (total: 1)
"""
)


@pytest.mark.parametrize(
    ("launcher", "log", "record", "expected"),
    [
        ("command", "step 1\n", {"exit_code": 3}, ("exit_status", "exit status 3", "", 3)),
        ("command", "step 1\n", {"exit_code": 200}, ("exit_status", "exit status 200", "", 200)),
        ("command", "", {"signal": "SIGSEGV"}, ("signal", "signal SIGSEGV", "SIGSEGV", None)),
        ("command", "", {"exit_code": 137}, ("signal", "signal SIGKILL", "SIGKILL", 137)),
        (
            "command",
            TRACEBACK.format("KeyError: 'label'"),
            {"exit_code": 1},
            ("script_error", "KeyError at train.py, line 7", "KeyError", 1),
        ),
        (
            "command",
            TRACEBACK.format("OSError: [Errno 28] No space left on device"),
            {"exit_code": 1},
            ("disk_full", "OSError at train.py, line 7", "OSError", 1),
        ),
        ("torchrun", TORCHRUN, {"exit_code": 1}, ("signal", "signal SIGKILL", "SIGKILL", None)),
        (
            "torchrun",
            ABORTED + TORCHRUN.replace("-9", "-6"),
            {"exit_code": 1},
            ("script_error", "AcceleratorError at train.py, line 7", "AcceleratorError", None),
        ),
        ("torchrun", "no rendezvous\n", {"exit_code": 1}, ("exit_status", "exit status 1", "", 1)),
        # What subprocess.run(check=True) prints after the output of the program that it has run.
        (
            "command",
            TRACEBACK.format("KeyError: 'label'") + PASSED_ON.format("returned non-zero exit status 1."),
            {"exit_code": 1},
            ("script_error", "KeyError at train.py, line 7", "KeyError", 1),
        ),
        (
            "command",
            "usage: child.py [-h] --epochs E\nchild.py: error: unrecognized arguments: -e\n"
            + PASSED_ON.format("returned non-zero exit status 2."),
            {"exit_code": 1},
            ("script_error", "wrong arguments", "usage", 1),
        ),
        (
            "command",
            "\x1b[1;34musage: \x1b[0m\x1b[1;35mtrain.py\x1b[0m [-h]\n\x1b[1;35mtrain.py\x1b[0m: \x1b[1;31merror:\x1b[0m unknown: --lrr 3\n",
            {"exit_code": 2},
            ("script_error", "wrong arguments", "usage", 2),
        ),
        (
            "command",
            "FATAL Flags parsing error: Unknown command line flag 'lrr'.\nPass --helpshort or --helpfull to see help on flags.\n",
            {"exit_code": 1},
            ("script_error", "wrong arguments", "usage", 1),
        ),
        ("command", PASSED_ON.format("died with <Signals.SIGSEGV: 11>."), {"exit_code": 1}, ("signal", "signal SIGSEGV", "SIGSEGV", 1)),
        ("command", PASSED_ON.format("returned non-zero exit status 247."), {"exit_code": 1}, ("signal", "signal SIGKILL", "SIGKILL", 1)),
        (
            "command",
            PASSED_ON.format("returned non-zero exit status 1."),
            {"exit_code": 1},
            ("script_error", "CalledProcessError at wrap.py, line 3", "CalledProcessError", 1),
        ),
        ("command", TORCHRUN.replace("E1121", " ERROR"), {"exit_code": 1}, ("signal", "signal SIGKILL", "SIGKILL", 1)),
        # sys.exit(-n), with the return code of another process.
        *(
            ("command", "", {"exit_code": 256 - number}, ("signal", f"signal {name}", name, 256 - number))
            for number, name in ((9, "SIGKILL"), (11, "SIGSEGV"), (6, "SIGABRT"), (15, "SIGTERM"))
        ),
        *(("command", "", {"exit_code": code}, ("exit_status", f"exit status {code}", "", code)) for code in (255, 254, 253, 243)),
        # What names the cause.
        (
            "command",
            TRACEBACK.format(
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79 GiB"
            ),
            {"exit_code": 1},
            ("gpu_memory", "OutOfMemoryError at train.py, line 7", "OutOfMemoryError", 1),
        ),
        (
            "command",
            TRACEBACK.format("RuntimeError: CUDA error: uncorrectable ECC error encountered"),
            {"exit_code": 1},
            ("hardware", "RuntimeError at train.py, line 7", "RuntimeError", 1),
        ),
        (
            "command",
            "terminate called after throwing an instance of 'c10::Error'\n"
            "  what():  CUDA error: uncorrectable NVLink error detected during the execution\nFatal Python error: Aborted\n\n"
            'Current thread 0x00007f02 (most recent call first):\n  File "/code/train.py", line 9 in <module>\n\n',
            {"signal": "SIGABRT"},
            ("hardware", "signal SIGABRT at train.py, line 9", "SIGABRT", None),
        ),
        ("command", ANOTHER_DIED, {"signal": "SIGABRT"}, ("signal", "signal SIGABRT", "SIGABRT", None)),
        # Errors of NCCL itself, and one that is not: the script has assigned a GPU to two ranks.
        (
            "command",
            TRACEBACK.format(ADAPTER),
            {"exit_code": 1},
            ("hardware", "DistBackendError at train.py, line 7", "DistBackendError", 1),
        ),
        (
            "command",
            TRACEBACK.format(NCCL.format("invalid usage", "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000")),
            {"exit_code": 1},
            ("script_error", "DistBackendError at train.py, line 7", "certain", 1),
        ),
        (
            "command",
            TRACEBACK.format(NCCL.format("internal error", "Net : Connection closed by remote peer node2<50260>")),
            {"exit_code": 1},
            ("script_error", "DistBackendError at train.py, line 7", "DistBackendError", 1),
        ),
        # Ranks that have waited for each other too long.
        ("command", LATE, {"signal": "SIGABRT"}, ("hang", "a time-out of a collective operation", "", None)),
        (
            "command",
            LATE.replace("Deadline Exceeded", "Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0."),
            {"signal": "SIGABRT"},
            ("hang", "a time-out of a collective operation", "", None),
        ),
        *(
            ("command", log, {"signal": "SIGABRT"}, ("hang", what, "", None))
            for log, what in (
                (WATCHDOG + CRASHED_THREAD, "a time-out of ALLREDUCE with SeqNum 57"),
                (WATCHDOG.partition("terminate called")[0], "a time-out of ALLREDUCE with SeqNum 57"),
                (HEARTBEAT, "a time-out of a collective operation"),
            )
        ),
        (
            "torchrun",
            WATCHDOG + TORCHRUN.replace("-9", "-6"),
            {"exit_code": 1},
            ("hang", "a time-out of ALLREDUCE with SeqNum 57", "", None),
        ),
        (
            "command",
            TRACEBACK.format(f"torch.distributed.DistBackendError: {TIMED_OUT}"),
            {"exit_code": 1},
            ("hang", "a time-out of ALLREDUCE with SeqNum 57", "", 1),
        ),
        (
            "command",
            TRACEBACK.format(
                "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete"
            ),
            {"exit_code": 1},
            ("hang", "a time-out of a collective operation", "", 1),
        ),
        ("command", WATCHDOG.partition("terminate called")[0], {"exit_code": 7}, ("exit_status", "exit status 7", "", 7)),
        ("command", TRACEBACK.format("KeyError: 'label'") + "step 3\n" * 100, {"exit_code": 7}, ("exit_status", "exit status 7", "", 7)),
    ],
)
def test_the_cause_is_that_of_the_script_and_not_of_its_launcher(tmp_path, launcher, log, record, expected):
    spec = {"directory": str(tmp_path), "attempt": 2, "name": "rank0", "cwd": "/code", "parameters": {"launcher": launcher}}
    path = tmp_path / "logs/attempt2/rank0.log"
    path.parent.mkdir(parents=True)
    path.write_text(log)
    found = process_failures.find_cause(spec, {"name": "rank0", "ranks": [0], "state": "failed", **record})
    assert (found["kind"], found["what"], found.get("name", ""), found.get("exit_code")) == expected


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("OSError: no such shard", "script_error"),
        ("RuntimeError: Connection closed by peer", "hang"),
        (f"DistBackendError: {TIMED_OUT}", "hang"),
    ],
)
def test_an_exception_of_a_rank_that_does_not_end_is_the_cause_of_a_timeout(tmp_path, message, kind):
    spec = {"directory": str(tmp_path), "attempt": 1, "name": "rank0", "cwd": "/code", "parameters": {"launcher": "mpi"}}
    lines = {1: TRACEBACK.format(message), 0: TRACEBACK.format(f"torch.distributed.DistBackendError: {TIMED_OUT}")}
    (tmp_path / "logs").mkdir()
    text = "".join(f"[1,{rank}]<stderr>:{line}\n" for rank, each in lines.items() for line in each.splitlines())
    (tmp_path / "logs/rank0.log").write_text(text + "rank 0 on host ended with exit status 1\n")
    record = {"name": "rank0", "ranks": [0, 1], "tagged": True, "exit_code": 1}
    found = process_failures.find_cause(spec, record)
    assert (found["kind"], found["exit_code"]) == (kind, 1)
    assert bool(process_failures.raised(spec, record)) == (kind == "script_error")


def test_a_process_that_was_aborted_because_another_one_has_ended_has_lost_its_connection(tmp_path):
    spec = {"directory": str(tmp_path), "attempt": 1, "name": "rank0", "cwd": "/code", "parameters": {"launcher": "command"}}
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/rank0.log").write_text(ANOTHER_DIED)
    found = process_failures.find_cause(spec, {"name": "rank0", "ranks": [0], "signal": "SIGABRT"})
    assert failed_process.has_lost_connection({"cause": found})


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("OSError: [Errno 122] Disk quota exceeded: '/efs/7.pt'", "disk_full"),
        ("OSError: [Errno 30] Read-only file system: '/nvme/7.pt'", "disk_full"),
        ("RuntimeError: basic_ios::clear: iostream error", "disk_full"),
        ("RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 8576 vs 8468", "disk_full"),
        ("RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory", "script_error"),
    ],
)
def test_messages_about_files_that_cannot_be_written(tmp_path, message, kind):
    """The messages of torch come from torch 2.9, which saved a checkpoint to a full disk."""
    spec = {"directory": str(tmp_path), "attempt": 1, "name": "rank0", "cwd": "/code", "parameters": {"launcher": "command"}}
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/rank0.log").write_text(TRACEBACK.format(message))
    assert process_failures.find_cause(spec, {"name": "rank0", "ranks": [0], "exit_code": 1})["kind"] == kind


@pytest.mark.parametrize(
    ("cause", "is_of_storage"),
    [
        ({"kind": "script_error", "what": "ValueError at train.py, line 7", "name": "ValueError"}, True),
        ({"kind": "disk_full", "what": "OSError at train.py, line 7", "name": "OSError"}, True),
        ({"kind": "exit_status", "what": "exit status 3"}, True),
        ({"kind": "hardware", "what": "DistBackendError at train.py, line 7", "name": "DistBackendError"}, True),
        ({"kind": "hardware", "what": "RuntimeError at train.py, line 7", "name": "RuntimeError"}, False),
        ({"kind": "signal", "what": "signal SIGBUS", "name": "SIGBUS"}, True),
        ({"kind": "signal", "what": "signal SIGKILL", "name": "SIGKILL"}, False),
        ({"kind": "script_error", "what": "SyntaxError at train.py, line 7", "name": "SyntaxError"}, False),
        ({"kind": "script_error", "what": "wrong arguments", "name": "usage"}, False),
        ({"kind": "script_error", "what": "RuntimeError", "name": "RuntimeError", "message": "Connection reset by peer"}, False),
        ({"kind": "out_of_memory", "what": "an out-of-memory error"}, False),
        ({"kind": "time_limit", "what": "the time limit"}, False),
    ],
)
def test_full_storage_is_the_cause_of_what_it_can_cause(cause, is_of_storage):
    problem = StorageProblem("/ckpt", "space", 0, 1 << 20)
    expected = {**cause, "kind": "disk_full", "storage": [problem._asdict()]} if is_of_storage else cause
    assert process_failures.blame_storage(cause, lambda: [problem]) == expected
    assert process_failures.blame_storage(cause, list) == cause


def test_what_is_known_without_the_log_goes_first(tmp_path):
    spec = {"directory": str(tmp_path), "attempt": 1, "name": "rank0", "cwd": "/code", "parameters": {"launcher": "command"}}
    assert process_failures.find_cause(spec, {"signal": "SIGKILL", "oom_kills": 1})["kind"] == "out_of_memory"


def test_a_log_with_an_impossible_exit_status_makes_no_invalid_record(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "launcher.log").write_text("rank 0 on host ended with exit status 999\n")
    spec = {"directory": str(tmp_path), "attempt": 1, "name": "launcher", "cwd": "/code", "parameters": {"launcher": "mpi"}}
    cause = process_failures.find_cause(spec, {"name": "launcher", "ranks": [0], "exit_code": 1})
    assert cause["kind"] == "exit_status"
    assert "exit_code" not in cause
