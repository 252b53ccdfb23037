"""Tests that a script's error is found in the script's log."""

from __future__ import annotations

import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.tracebacks import (
    ScriptError,
    crash_place,
    current_thread,
    error_before_abort,
    script_error,
    usage_error,
)

CODE = "/efs/jobs/digits/code"

PLAIN = """\
step 1
Traceback (most recent call last):
  File "/efs/jobs/digits/code/train.py", line 90, in <module>
    main()
  File "/efs/jobs/digits/code/model/net.py", line 42, in forward
    return self.layer(x)
           ^^^^^^^^^^^^^
  File "/opt/pytorch/lib/python3.11/site-packages/torch/nn/functional.py", line 7, in linear
    return linear(x)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB
"""
CHAINED = """\
Traceback (most recent call last):
  File "/efs/jobs/digits/code/train.py", line 3, in load
    open(path)
FileNotFoundError: no such file

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/efs/jobs/digits/code/train.py", line 5, in <module>
    load()
KeyError: 'label'
the process ends
"""
SYNTAX = """\
  File "/efs/jobs/digits/code/train.py", line 12
    for x in
            ^
SyntaxError: invalid syntax
"""
ELSEWHERE = """\
Traceback (most recent call last):
  File "<frozen runpy>", line 88, in _run_code
  File "/usr/lib/python3.11/site.py", line 5, in run
    go()
AssertionError
"""


def tagged(text, tag):
    return "".join(f"{tag}{line}\n" for line in text.splitlines())


def mixed(text):
    """Return a log in which the lines of a rank alternate with lines of a waiting rank."""
    return "".join(f"[rank 1] {line}\n[rank 0] waits\n" for line in text.splitlines())


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (PLAIN, ScriptError("OutOfMemoryError", "model/net.py, line 42", "CUDA out of memory. Tried to allocate 2 GiB")),
        (
            tagged(PLAIN, "[rank 3] "),
            ScriptError("OutOfMemoryError", "model/net.py, line 42", "CUDA out of memory. Tried to allocate 2 GiB"),
        ),
        (
            tagged(PLAIN, "[1,3]<stderr>:"),
            ScriptError("OutOfMemoryError", "model/net.py, line 42", "CUDA out of memory. Tried to allocate 2 GiB"),
        ),
        (mixed(PLAIN), ScriptError("OutOfMemoryError", "model/net.py, line 42", "CUDA out of memory. Tried to allocate 2 GiB")),
        (CHAINED, ScriptError("KeyError", "train.py, line 5", "'label'")),
        (SYNTAX, ScriptError("SyntaxError", "train.py, line 12", "invalid syntax")),
        (ELSEWHERE, ScriptError("AssertionError", "site.py, line 5", "")),
        (PLAIN + CHAINED[: CHAINED.rindex("    load()")], None),
        ("step 1\nKilled\n", None),
        ('  File "/x.py", line 3\n', None),
        ("", None),
    ],
)
@pytest.mark.parametrize("directory", [CODE, CODE + "/"])
def test_the_innermost_place_in_the_jobs_code_is_named(log, expected, directory):
    assert script_error(log.splitlines(), directory) == expected


def test_a_hostile_log_takes_no_long_time():
    started = time.process_time()
    for line in ('  File "' + "x" * 200_000, " " * 200_000, 'a"' * 100_000, "  " * 100_000 + 'File "/x", line 1'):
        script_error([line] * 5 + ['  File "/x.py", line 3', "E" * 100_000 + ": " * 1000], CODE)
    assert time.process_time() - started < 30


def test_a_frame_whose_line_another_process_continues_is_no_exception():
    lines = ['  File "/c/train.py", line 4Traceback (most recent call last):', "ValueError: x"]
    assert script_error(lines, "/c") == ScriptError("ValueError", "train.py, line 4", "x")


USAGE = "usage: train.py [-h] --epochs EPOCHS\ntrain.py: error: the following arguments are required: --epochs\n"
CLICK = "Usage: train.py [OPTIONS]\nTry 'train.py --help' for help.\n\nError: No such option: --epoch\n\n"


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (USAGE, "the following arguments are required: --epochs"),
        (tagged(USAGE, "[rank 3] "), "the following arguments are required: --epochs"),
        (CLICK, "No such option: --epoch"),
        ("usage: see the documentation\nValueError: x\n", ""),
        ("train.py: error: no usage\n", ""),
        (USAGE.replace("--epochs\n", "--epochs \n \n"), "the following arguments are required: --epochs"),
        (USAGE + "and more\n", ""),
        ("", ""),
    ],
)
def test_a_message_about_wrong_arguments_ends_the_log(log, message):
    assert usage_error(log.splitlines()) == message


CRASH = """\
step 1
Fatal Python error: Aborted

Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait

Current thread 0x00007f02 (most recent call first):
  File "/opt/pytorch/lib/torch/nn.py", line 7 in linear
  File "/efs/jobs/digits/code/model/net.py", line 42 in forward
  File "/efs/jobs/digits/code/train.py", line 90 in <module>

Extension modules: torch._C (total: 1)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CRASH, "model/net.py, line 42"),
        (tagged(CRASH, "[rank 1] "), "model/net.py, line 42"),
        (CRASH.replace("/efs/jobs/digits/code", "/efs/other"), "nn.py, line 7"),
        (CRASH.replace('  File "/opt/pytorch/lib/torch/nn.py", line 7 in linear\n', ""), "model/net.py, line 42"),
    ],
)
def test_the_place_of_a_crash_is_the_innermost_line_of_the_job(text, expected):
    assert crash_place(text.splitlines(), CODE) == expected


PY_SPY = """\
Process 71: python train.py
Python v3.11.9 (/usr/bin/python3.11)

Thread 80 (idle): "Thread-1"
    wait (threading.py:320)
Thread 71 (active): "MainThread"
    linear (torch/nn.py:7)
        x: <Tensor>
    forward (/efs/jobs/digits/code/model/net.py:42)
Thread 81 (idle): "Thread-2"
    wait (threading.py:320)
"""
NET = [("torch/nn.py", "7"), ("/efs/jobs/digits/code/model/net.py", "42")]


@pytest.mark.parametrize(
    ("text", "frames"),
    [
        (PY_SPY, NET),
        (PY_SPY.replace('"MainThread"', '"Thread-3"'), [("threading.py", "320")]),
        (PY_SPY[PY_SPY.index("    linear") :], NET),
        (CRASH, [("/opt/pytorch/lib/torch/nn.py", "7"), (f"{CODE}/model/net.py", "42"), (f"{CODE}/train.py", "90")]),
        ("Python v3.11.9\n", []),
    ],
    ids=["main thread", "only other threads", "no thread", "faulthandler", "no frame"],
)
def test_the_frames_of_the_main_thread_or_else_of_the_first_are_read(text, frames):
    assert current_thread(text.splitlines()) == frames


@pytest.mark.parametrize("text", ["", PLAIN, CRASH.replace("Fatal Python error", "Error"), "Fatal Python error: Aborted"])
def test_without_the_stack_of_a_crash_its_place_is_unknown(text):
    assert crash_place(text.splitlines(), CODE) == ""


# What torch 2.11 writes after an assertion fails on a GPU: the script's exception, and the abort by the watchdog while Python exits.
WATCHDOG = "[PG ID 0 Rank 1] Process group watchdog thread terminated with exception: CUDA error: device-side assert triggered"
EXITING = f"""\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/efs/jobs/digits/code/train.py", line 8, in <module>
[rank1]:     x[index].sum().item()
[rank1]:     ^^^^^^^^^^^^^^^^^^^^^
[rank1]: torch.AcceleratorError: CUDA error: device-side assert triggered
[rank1]: CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.

[rank1]:[E1126 06:16:40.911000174 ProcessGroupNCCL.cpp:2119] {WATCHDOG}
frame #1: <unknown function> + 0xc114 (0x7fdaad373114 in /opt/pytorch/lib/libc10_cuda.so)
terminate called after throwing an instance of 'c10::DistBackendError'
  what():  {WATCHDOG}
Fatal Python error: Aborted

Thread 0x00007f28cba46080 (most recent call first):
  File "/opt/pytorch/lib/torch/library.py", line 479 in _del_library
  File "/usr/lib/python3.12/weakref.py", line 666 in _exitfunc

Extension modules: torch._C (total: 1)
Traceback (most recent call last):
  File "/opt/pytorch/lib/torch/distributed/run.py", line 994, in <module>
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
"""
# What torch 2.11 writes if a peer ends: the script's exception has a different message from that of the watchdog.
PEER_ENDED = EXITING.replace(
    "AcceleratorError: CUDA error: device-side assert triggered", "DistBackendError: NCCL error in: x.cpp:37, remote process exited"
).replace("CUDA error: device-side assert triggered", "std::future_error: Broken promise")


@pytest.mark.parametrize("text", [EXITING, tagged(EXITING, "[rank 1] ")], ids=["plain", "tagged"])
def test_the_exception_that_the_runtime_repeats_is_the_cause_of_an_abort(text):
    expected = ScriptError("AcceleratorError", "train.py, line 8", "CUDA error: device-side assert triggered")
    assert error_before_abort(text.splitlines(), CODE) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        PLAIN,
        CRASH,
        PLAIN + CRASH,
        PLAIN + EXITING[EXITING.index("terminate called") :],
        EXITING[EXITING.index("terminate") :],
        PEER_ENDED,
    ],
    ids=["nothing", "no abort", "no exception", "no message", "another exception, which the script has handled", "only the abort", "peer"],
)
def test_an_abort_for_another_reason_has_no_exception(text):
    assert error_before_abort(text.splitlines(), CODE) is None
