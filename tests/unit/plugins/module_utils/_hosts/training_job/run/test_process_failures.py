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


USAGE = "usage: child.py [-h] --epochs E\nchild.py: error: unrecognized arguments: -e\n"
COLORED = "\x1b[1;34musage: \x1b[0m\x1b[1;35mtrain.py\x1b[0m [-h]\n\x1b[1;35mtrain.py\x1b[0m: \x1b[1;31merror:\x1b[0m unknown: --lrr 3\n"
ABSL = "FATAL Flags parsing error: Unknown command line flag 'lrr'.\nPass --helpshort or --helpfull to see help on flags.\n"
NVLINK = """\
terminate called after throwing an instance of 'c10::Error'
  what():  CUDA error: uncorrectable NVLink error detected during the execution
Fatal Python error: Aborted

Current thread 0x00007f02 (most recent call first):
  File "/code/train.py", line 9 in <module>

"""
BARRIER = LATE.replace("Deadline Exceeded", "Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0.")
CUDA_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79 GiB"
GLOO = "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete"
DUPLICATE = NCCL.format("invalid usage", "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000")
CLOSED = NCCL.format("internal error", "Net : Connection closed by remote peer node2<50260>")
WITHOUT_END = WATCHDOG.partition("terminate called")[0]
KEY_ERROR = TRACEBACK.format("KeyError: 'label'")


def error(name, kind="script_error", shown="", code=1):
    return kind, f"{name} at train.py, line 7", shown or name, code


def wrong_arguments(code):
    return "script_error", "wrong arguments", "usage", code


def status(code):
    return "exit_status", f"exit status {code}", "", code


def signal(name, code=None):
    return "signal", f"signal {name}", name, code


def timed_out(what="a collective operation", code=None):
    return "hang", f"a time-out of {what}", "", code


ALL_REDUCE = "ALLREDUCE with SeqNum 57"


def find_cause(folder, log, launcher="command", attempt=1, **record):
    """Return the cause of the end of a process with this log and record."""
    spec = {"directory": str(folder), "attempt": attempt, "name": "rank0", "cwd": "/code", "parameters": {"launcher": launcher}}
    path = folder / ("logs" if attempt == 1 else f"logs/attempt{attempt}") / "rank0.log"
    path.parent.mkdir(parents=True)
    path.write_text(log)
    return process_failures.find_cause(spec, {"name": "rank0", "ranks": [0], "state": "failed", **record})


@pytest.mark.parametrize(
    ("launcher", "log", "end", "expected"),
    [
        ("torchrun", TORCHRUN, 1, signal("SIGKILL")),
        ("torchrun", ABORTED + TORCHRUN.replace("-9", "-6"), 1, error("AcceleratorError", code=None)),
        ("torchrun", "no rendezvous\n", 1, status(1)),
        ("torchrun", WATCHDOG + TORCHRUN.replace("-9", "-6"), 1, timed_out(ALL_REDUCE)),
        *(
            ("command", *row)
            for row in (
                ("step 1\n", 3, status(3)),
                ("step 1\n", 200, status(200)),
                ("", "SIGSEGV", signal("SIGSEGV")),
                ("", 137, signal("SIGKILL", 137)),
                (KEY_ERROR, 1, error("KeyError")),
                (TRACEBACK.format("OSError: [Errno 28] No space left on device"), 1, error("OSError", "disk_full")),
                # What subprocess.run(check=True) prints after the output of the program that it has run.
                (KEY_ERROR + PASSED_ON.format("returned non-zero exit status 1."), 1, error("KeyError")),
                (USAGE + PASSED_ON.format("returned non-zero exit status 2."), 1, wrong_arguments(1)),
                (COLORED, 2, wrong_arguments(2)),
                (ABSL, 1, wrong_arguments(1)),
                (PASSED_ON.format("died with <Signals.SIGSEGV: 11>."), 1, signal("SIGSEGV", 1)),
                (PASSED_ON.format("returned non-zero exit status 247."), 1, signal("SIGKILL", 1)),
                (
                    PASSED_ON.format("returned non-zero exit status 1."),
                    1,
                    ("script_error", "CalledProcessError at wrap.py, line 3", "CalledProcessError", 1),
                ),
                (TORCHRUN.replace("E1121", " ERROR"), 1, signal("SIGKILL", 1)),
                # sys.exit(-n), with the return code of another process.
                *(("", 256 - n, signal(name, 256 - n)) for n, name in ((9, "SIGKILL"), (11, "SIGSEGV"), (6, "SIGABRT"), (15, "SIGTERM"))),
                *(("", code, status(code)) for code in (255, 254, 253, 243)),
                # What names the cause.
                (TRACEBACK.format(CUDA_MEMORY), 1, error("OutOfMemoryError", "gpu_memory")),
                (TRACEBACK.format("RuntimeError: CUDA error: uncorrectable ECC error encountered"), 1, error("RuntimeError", "hardware")),
                (NVLINK, "SIGABRT", ("hardware", "signal SIGABRT at train.py, line 9", "SIGABRT", None)),
                (ANOTHER_DIED, "SIGABRT", signal("SIGABRT")),
                # Errors of NCCL itself, and one that is not: the script has assigned a GPU to two ranks.
                (TRACEBACK.format(ADAPTER), 1, error("DistBackendError", "hardware")),
                (TRACEBACK.format(DUPLICATE), 1, error("DistBackendError", shown="certain")),
                (TRACEBACK.format(CLOSED), 1, error("DistBackendError")),
                # Ranks that have waited for each other too long.
                (LATE, "SIGABRT", timed_out()),
                (BARRIER, "SIGABRT", timed_out()),
                (WATCHDOG + CRASHED_THREAD, "SIGABRT", timed_out(ALL_REDUCE)),
                (WITHOUT_END, "SIGABRT", timed_out(ALL_REDUCE)),
                (HEARTBEAT, "SIGABRT", timed_out()),
                (TRACEBACK.format(f"torch.distributed.DistBackendError: {TIMED_OUT}"), 1, timed_out(ALL_REDUCE, 1)),
                (TRACEBACK.format(GLOO), 1, timed_out(code=1)),
                (WITHOUT_END, 7, status(7)),
                (KEY_ERROR + "step 3\n" * 100, 7, status(7)),
            )
        ),
    ],
)
def test_the_cause_is_that_of_the_script_and_not_of_its_launcher(tmp_path, launcher, log, end, expected):
    found = find_cause(tmp_path, log, launcher, attempt=2, **({"signal": end} if isinstance(end, str) else {"exit_code": end}))
    assert (found["kind"], found["what"], found.get("name", ""), found.get("exit_code")) == expected
    assert failed_process.has_lost_connection({"cause": found}) == (log in (ANOTHER_DIED, TRACEBACK.format(CLOSED)))


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("OSError: no such shard", "script_error"),
        ("RuntimeError: Connection closed by peer", "hang"),
        (f"DistBackendError: {TIMED_OUT}", "hang"),
    ],
)
def test_an_exception_of_a_rank_that_does_not_end_is_the_cause_of_a_timeout(tmp_path, message, kind):
    lines = {1: TRACEBACK.format(message), 0: TRACEBACK.format(f"torch.distributed.DistBackendError: {TIMED_OUT}")}
    text = "".join(f"[1,{rank}]<stderr>:{line}\n" for rank, each in lines.items() for line in each.splitlines())
    record = {"name": "rank0", "ranks": [0, 1], "tagged": True, "exit_code": 1}
    found = find_cause(tmp_path, text + "rank 0 on host ended with exit status 1\n", "mpi", **record)
    assert (found["kind"], found["exit_code"]) == (kind, 1)
    spec = {"directory": str(tmp_path), "attempt": 1, "name": "rank0", "cwd": "/code", "parameters": {"launcher": "mpi"}}
    assert bool(process_failures.raised(spec, record)) == (kind == "script_error")


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
    assert find_cause(tmp_path, TRACEBACK.format(message), exit_code=1)["kind"] == kind


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
    cause = find_cause(tmp_path, "rank 0 on host ended with exit status 999\n", "mpi", exit_code=1)
    assert cause["kind"] == "exit_status"
    assert "exit_code" not in cause
