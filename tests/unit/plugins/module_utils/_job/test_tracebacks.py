"""Tests that a script's error is found in the script's log."""

from __future__ import annotations

import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.tracebacks import (
    ScriptError,
    abort_message,
    crash_place,
    current_thread,
    error_before_abort,
    failed_child,
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

UNREADABLE = """\
Traceback (most recent call last):
  File "/efs/jobs/digits/code/train.py", line 5, in <module>
    state = torch.load(path)
  File "/opt/pytorch/lib/python3.11/site-packages/torch/serialization.py", line 1470, in load
    raise pickle.UnpicklingError(_get_wo_message(str(e))) from None
_pickle.UnpicklingError: Weights only load failed. This file can still be loaded, to do so you have two options.
\t(1) Re-running `torch.load` with `weights_only` set to `False` will likely succeed.
\tWeightsUnpickler error: Unsupported global: GLOBAL numpy.dtype was not an allowed global by default. Please use it.

Check the documentation of torch.load to learn more about types accepted by default with weights_only.
"""

OTHER_MODEL = """\
Traceback (most recent call last):
  File "/efs/jobs/digits/code/train.py", line 7, in <module>
    model.load_state_dict(state)
  File "/opt/pytorch/lib/python3.11/site-packages/torch/nn/modules/module.py", line 2629, in load_state_dict
    raise RuntimeError(
RuntimeError: Error(s) in loading state_dict for Linear:
\tsize mismatch for weight: copying a param with shape torch.Size([2, 2]) from checkpoint, the shape in current model is torch.Size([2]).
"""


def tagged(text, tag):
    return "".join(f"{tag}{line}\n" for line in text.splitlines())


def last_message(text):
    return text.splitlines()[-1].partition(": ")[2]


def last_line(text):
    return text.splitlines()[-1]


def interrupted(text, line):
    """Return a text into which another thread has written before a line."""
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:line], INTERRUPTION, *lines[line:]])


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
        *(
            (
                text,
                ScriptError(
                    "UnpicklingError",
                    "train.py, line 5",
                    "WeightsUnpickler error: Unsupported global: GLOBAL numpy.dtype was not an allowed global by default. Please use it.",
                ),
            )
            for text in (UNREADABLE, tagged(UNREADABLE, "[rank3]: "))
        ),
        (OTHER_MODEL, ScriptError("RuntimeError", "train.py, line 7", last_line(OTHER_MODEL).strip())),
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
# What jsonargparse 4.53, Typer 0.29, tyro 1.0, Fire 0.7 and absl 2.5 write.
JSONARGPARSE = """\
usage: main.py [--model CONFIG | CLASS_PATH_OR_NAME | .INIT_ARG_NAME VALUE]
               [--epochs EPOCHS]
tip: For details of accepted options run: main.py --help
error: Parser key "epochs":
  Expected a <class 'int'>. Got value: x
"""
TYPER = """\
Usage: ty.py [OPTIONS]
Try 'ty.py --help' for help.
╭─ Error ─────────────────────────────────────────────────────────────────────╮
│ Invalid value for '--lr': Input should be a valid number, unable to parse   │
│ string as a number                                                          │
╰─────────────────────────────────────────────────────────────────────────────╯
"""
TYRO = """\
╭─ Required options ──────╮
│ Missing from tr.py:     │
│     --lr FLOAT          │
│         (required)      │
│ ─────────────────────── │
│ Unrecognized options:   │
│     --lrr               │
│     3                   │
│ ─────────────────────── │
│ For full helptext, run: │
│     tr.py --help        │
╰─────────────────────────╯
"""
FIRE = """\
ERROR: Could not consume arg: --lrr
Usage: fi.py -

For detailed information on this command, run:
  fi.py - --help
"""
ABSL = """\
FATAL Flags parsing error: Unknown command line flag 'lrr'. Did you mean: lr ?
Pass --helpshort or --helpfull to see help on flags.
"""


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (USAGE, "the following arguments are required: --epochs"),
        (tagged(USAGE, "[rank 3] "), "the following arguments are required: --epochs"),
        (CLICK, "No such option: --epoch"),
        (JSONARGPARSE, "Parser key \"epochs\": Expected a <class 'int'>. Got value: x"),
        (TYPER, "Invalid value for '--lr': Input should be a valid number, unable to parse string as a number"),
        (
            TYPER.replace("╭─", "+-").replace("│", "|"),
            "Invalid value for '--lr': Input should be a valid number, unable to parse string as a number",
        ),
        (TYRO, "Missing from tr.py: --lr FLOAT (required) Unrecognized options: --lrr 3 For full helptext, run: tr.py --help"),
        (FIRE, "Could not consume arg: --lrr"),
        (USAGE + "sys:1: ResourceWarning: unclosed file\n" * 3, "the following arguments are required: --epochs"),
        (USAGE + "step 1\n" * 30, ""),
        ("memory usage: 3 GB\nERROR: the loss is NaN\n", ""),
        ("usage: see the documentation\nValueError: x\n", ""),
        ("train.py: error: no usage\n", ""),
        (USAGE.replace("--epochs\n", "--epochs \n \n"), "the following arguments are required: --epochs"),
        ("", ""),
    ],
)
def test_a_message_about_wrong_arguments_ends_the_log(log, message):
    assert usage_error(log.splitlines(), 2) == message


def test_absl_refuses_arguments_with_the_exit_status_1():
    assert usage_error(ABSL.splitlines(), 1) == "Unknown command line flag 'lrr'. Did you mean: lr ?"
    for other in (USAGE, TYPER, TYRO, FIRE, ""):
        assert usage_error(other.splitlines(), 1) == ""
    assert usage_error(USAGE.splitlines(), 3) == usage_error(USAGE.splitlines(), None) == ""


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
        (CRASH.replace("Current thread", "Thread"), "model/net.py, line 42"),
        (CRASH.replace("Current thread", "Thread") + "Thread 12 ends\n", "model/net.py, line 42"),
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
        (PY_SPY[PY_SPY.index("Thread 71") :], NET),
        (PY_SPY[PY_SPY.index("    linear") :], NET),
        (CRASH, [("/opt/pytorch/lib/torch/nn.py", "7"), (f"{CODE}/model/net.py", "42"), (f"{CODE}/train.py", "90")]),
        ("Python v3.11.9\n", []),
    ],
    ids=["main thread", "only other threads", "main thread first", "no thread", "faulthandler", "no frame"],
)
def test_the_frames_of_the_main_thread_or_else_of_the_last_are_read(text, frames):
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


def test_an_abort_names_the_message_of_the_runtime():
    assert abort_message(EXITING.splitlines()) == WATCHDOG
    assert abort_message(PLAIN.splitlines()) == ""


@pytest.mark.parametrize("prefix", ["", "[rank 1] "])
def test_an_abort_names_the_last_line_of_a_message_of_nccl(prefix):
    first = "NCCL error in: NCCLUtils.cpp:37, unhandled cuda error"
    lines = [f"{prefix}{line}" for line in [f"  what():  {first}", *NCCL.replace("[rank1]: ", "").splitlines()[-3:]]]
    assert abort_message(lines) == "Cuda failure 214 'uncorrectable ECC error encountered'"
    assert abort_message(lines[:-1]) == first


@pytest.mark.parametrize(
    "head",
    ["F1128 14:46:02.298440   18936 ", "[rank 1] 2024-10-09 15:47:38.568412: F external/xla/xla/pjrt/distributed/"],
    ids=["new", "old"],
)
def test_an_abort_names_the_message_of_absl(head):
    died = f"{head}client.h:80] Terminating process. This most likely indicates that another task died"
    assert abort_message([*INTERRUPTION.splitlines(), died, *INTERRUPTION.splitlines()]) == died
    assert abort_message(INTERRUPTION.splitlines()) == ""


def test_an_abort_repeats_all_lines_of_an_exception_of_nccl():
    first = "NCCL error in: NCCLUtils.cpp:37, unhandled system error, NCCL version 2.27.5"
    rest = ["ncclSystemError: System call failed.", "Last error:", "Error while creating shared memory segment /dev/shm/nccl-OQhVpM"]
    exception = [
        "Traceback (most recent call last):",
        f'  File "{CODE}/train.py", line 8, in <module>',
        f"DistBackendError: {first}",
        *rest,
    ]
    abort = [f"  what():  [PG ID 0 Rank 1] Process group watchdog thread terminated with exception: {first}", *rest]
    assert error_before_abort([*exception, *abort], CODE) == ScriptError("DistBackendError", "train.py, line 8", rest[-1])
    assert error_before_abort([*exception, *abort[:1], *rest[:2], "another error"], CODE) is None


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


# What programs print, with Python 3.11 and rich 13.
NAME_ERROR = """\
Traceback (most recent call last):
  File "/efs/jobs/digits/code/child.py", line 1, in <module>
    print(undefined_name)
          ^^^^^^^^^^^^^^
NameError: name 'undefined_name' is not defined
"""
WRAPPER = """\
Traceback (most recent call last):
  File "/efs/jobs/digits/code/wrap.py", line 3, in <module>
    subprocess.run([sys.executable, "child.py"], check=True)
  File "/usr/lib/python3.11/subprocess.py", line 571, in run
    raise CalledProcessError(retcode, process.args,
subprocess.CalledProcessError: Command '['/usr/bin/python', 'child.py']' returned non-zero exit status 1.
"""
ELASTIC = """\
Traceback (most recent call last):
  File "/opt/pytorch/bin/accelerate", line 8, in <module>
    sys.exit(main())
  File "/opt/pytorch/lib/torch/distributed/launcher/api.py", line 269, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\x20
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-05-21_15:43:03
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 14751)
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-05-21_15:43:03
  rank      : 0 (local_rank: 0)
  exitcode  : -9 (pid: 14750)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 14750
============================================================
"""
BOX = """\
╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /opt/pytorch/lib/python3.11/site-packages/accelerate/launch.py:9 in main     │
│                                                                              │
│ /efs/jobs/digits/code/model/net.py:42 in forward                             │
│                                                                              │
│   41 │   for x in y:                                                         │
│ ❱ 42 │   print(undefined)                                                    │
│ ╭───────────────── locals ─────────────────╮                                 │
│ │ x = 1                                    │                                 │
│ ╰──────────────────────────────────────────╯                                 │
╰──────────────────────────────────────────────────────────────────────────────╯
NameError: name 'undefined' is not defined
"""
# rich folds long paths, and breaks long messages between words.
FOLDED = """\
╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /efs/jobs/digits/code/src/training_of_a_language_model/package_with_a_long_n │
│ ame/trainer.py:2 in train                                                    │
│                                                                              │
│ ❱ 2 │   save()                                                               │
╰──────────────────────────────────────────────────────────────────────────────╯
OSError: the state of the optimizer was not written: [Errno 28] No space left on
device: '/fsx/checkpoints/7.pt'
wandb: synced
"""
ASCII_BOX = "\n".join(line.translate(str.maketrans("╭╮╰╯│─❱", "++++|-❱")).replace("❱", ">") for line in BOX.splitlines()) + "\n"
LOST = """\
Traceback (most recent call last):
  File "/efs/jobs/digits/code/train.py", line 3, in exchange
    raise ConnectionResetError(104, "Connection reset by peer")
ConnectionResetError: [Errno 104] Connection reset by peer
"""
FULL = """\
Traceback (most recent call last):
  File "/efs/jobs/digits/code/train.py", line 10, in save
    torch.save(model, path)
OSError: [Errno 28] No space left on device
"""
LAST = """\
Traceback (most recent call last):
  File "/efs/jobs/digits/code/train.py", line 20, in <module>
    main()
RuntimeError: cannot continue
"""
DIRECT = "\nThe above exception was the direct cause of the following exception:\n\n"
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"
IGNORED = """\
Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f4d2e6e36a0>
Traceback (most recent call last):
  File "/opt/pytorch/lib/torch/utils/data/dataloader.py", line 1477, in __del__
ImportError: sys.meta_path is None, Python is likely shutting down
"""
NEVER_RETRIEVED = """\
Task exception was never retrieved
future: <Task finished name='Task-2' coro=<bad() done, defined at train.py:2> exception=KeyError('x')>
Traceback (most recent call last):
  File "/efs/jobs/digits/code/train.py", line 2, in bad
KeyError: 'x'
"""
LOGGING_ERROR = """\
--- Logging error ---
Traceback (most recent call last):
  File "/usr/lib/python3.11/logging/__init__.py", line 377, in getMessage
    msg = msg % self.args
TypeError: %d format: a real number is required, not str
Call stack:
  File "/efs/jobs/digits/code/train.py", line 4, in <module>
    logging.warning("%d", "x")
Message: '%d'
Arguments: ('x',)
"""
THREAD = "Exception in thread Thread-1 (_pin_memory_loop):\n" + LOST
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/efs/jobs/digits/code/group.py", line 7, in <module>
  |     asyncio.run(main())
  | ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/efs/jobs/digits/code/group.py", line 2, in bad
    |     async def bad(): raise OSError(28, "No space left on device")
    | OSError: [Errno 28] No space left on device
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "/efs/jobs/digits/code/group.py", line 3, in other
    |     async def other(): raise ValueError("x")
    | ValueError: x
    +------------------------------------
"""
UNRAISED = """\
  + Exception Group Traceback (most recent call last):
  |   File "/efs/jobs/digits/code/group.py", line 1, in <module>
  |     raise ExceptionGroup("several", [...])
  | ExceptionGroup: several (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ExceptionGroup: n (1 sub-exception)
    +-+---------------- 1 ----------------
      | OSError: [Errno 28] No space left on device
      +------------------------------------
    +---------------- 2 ----------------
    | ValueError: 2
    +------------------------------------
"""
POOL = """\
multiprocessing.pool.RemoteTraceback:\x20
\"\"\"
Traceback (most recent call last):
  File "/efs/jobs/digits/code/pool.py", line 2, in f
    def f(x): raise ValueError("bad")
ValueError: bad
\"\"\"

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/efs/jobs/digits/code/pool.py", line 4, in <module>
    with multiprocessing.Pool(1) as p: p.map(f, [1])
ValueError: bad
"""
HYDRA = """\
Error executing job with overrides: []
Traceback (most recent call last):
  File "/efs/jobs/digits/code/train.py", line 3, in <module>
    import nothing
ModuleNotFoundError: No module named 'nothing'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/opt/pytorch/lib/hydra/_internal/instantiate/_instantiate2.py", line 13, in _resolve_target
    raise InstantiationException(msg) from e
hydra.errors.InstantiationException: Error locating target 'src.x.Y', see chained exception above.
"""
NCCL = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/efs/jobs/digits/code/train.py", line 8, in <module>
[rank1]:     dist.all_reduce(x)
[rank1]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:37, unhandled cuda error, NCCL version 2.27.5
[rank1]: ncclUnhandledCudaError: Call to CUDA function failed.
[rank1]: Last error:
[rank1]: Cuda failure 214 'uncorrectable ECC error encountered'
"""
BUS = """\
Traceback (most recent call last):
  File "/opt/pytorch/lib/torch/utils/data/dataloader.py", line 1133, in _try_get_data
    data = self._data_queue.get(timeout=timeout)
RuntimeError: DataLoader worker (pid 7579) is killed by signal: Bus error. It is possible that the workers are out of shared memory.

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/efs/jobs/digits/code/train.py", line 14, in <module>
    for batch in loader:
RuntimeError: DataLoader worker (pid(s) 7579) exited unexpectedly
"""
LOGURU = """\
2026-11-26 10:00:00.123 | ERROR    | __main__:<module>:10 - An error has been caught in function '<module>', process 'MainProcess' (1):
Traceback (most recent call last):

  File "/efs/jobs/digits/code/train.py", line 10, in <module>
    main()
    └ <function main at 0x7f0000000000>

> File "/efs/jobs/digits/code/train.py", line 5, in main
    1 / 0

ZeroDivisionError: division by zero
"""
GRAPH = """\
Traceback (most recent call last):
  File "/efs/jobs/digits/code/train.py", line 30, in <module>
    model.fit(data)
tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:

Detected at node 'gradient_tape/model/dense/MatMul' defined at (most recent call last):
    File "/efs/jobs/digits/code/train.py", line 30, in <module>
      model.fit(data)
Node: 'gradient_tape/model/dense/MatMul'
Matrix size-incompatible
\t [[{{node gradient_tape/model/dense/MatMul}}]] [Op:__inference_train_function_1]
"""
OOM = "OOM when allocating tensor with shape[64,512] and type float on GPU:0 by allocator GPU_0_bfc"
SPAWNED = "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGSEGV\n"
# The lines that JAX 0.10 writes, without a lock, while another thread writes a traceback.
INTERRUPTION = """\
W1128 14:43:40.103400   14512 preemption_sync_manager.cc:147] Failed to retrieve preemption notice: UNAVAILABLE: Socket closed
Additional GRPC error information from remote target coordination_service while calling GetKeyValue:
:UNKNOWN:Error received from peer  {grpc_message:"Socket closed", grpc_status:14}
"""
# The end of a torchrun agent that has restarted its worker although another agent has given up, with torch 2.13.
RENDEZVOUS = """\
Traceback (most recent call last):
  File "/opt/pytorch/lib/torch/distributed/run.py", line 1028, in main
    run(args)
  File "/opt/pytorch/lib/torch/distributed/elastic/rendezvous/dynamic_rendezvous.py", line 677, in run
    raise RendezvousClosedError
torch.distributed.elastic.rendezvous.api.RendezvousClosedError
"""
# An exception of NCCL 2.14. The last line says more than the first.
OLD_NCCL = """\
Traceback (most recent call last):
  File "/efs/jobs/digits/code/train.py", line 8, in <module>
    dist.all_reduce(x)
torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/ProcessGroupNCCL.cpp:1275, internal error, NCCL version 2.14.3
ncclInternalError: Internal check failed.
Last error:
Net : Connection closed by remote peer node2<50260>
"""
FIRST_LINE = OLD_NCCL.splitlines()[3].partition(": ")[2]
# Exceptions of NCCL on hosts without enough shared memory, and without the plugin for EFA.
SHARED_MEMORY = OLD_NCCL.replace(
    OLD_NCCL.splitlines()[-1], "Error while creating shared memory segment /dev/shm/nccl-OQhVpM (size 33030524)"
).replace("internal error", "unhandled system error (run with NCCL_DEBUG=INFO for details)")
NO_PLUGIN = OLD_NCCL.replace(OLD_NCCL.splitlines()[-1], "Error: network AWS Libfabric not found.")
NAMED = ScriptError("NameError", "child.py, line 1", "name 'undefined_name' is not defined")
SPACE = ScriptError("OSError", "train.py, line 10", "[Errno 28] No space left on device")
BAR = " 94%|███████▋| 837/888 [10:01<00:36,  1.38it/s]"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (NAME_ERROR + WRAPPER, NAMED),
        (tagged(NAME_ERROR + WRAPPER, "[rank 3] "), NAMED),
        (NAME_ERROR + "[ERROR] [launch.py:321:sigkill_handler] exits with return code = 1\n" + WRAPPER + WRAPPER, NAMED),
        (NAME_ERROR + ELASTIC, NAMED),
        (WRAPPER, ScriptError("CalledProcessError", "wrap.py, line 3", last_message(WRAPPER))),
        (BOX, ScriptError("NameError", "model/net.py, line 42", "name 'undefined' is not defined")),
        (ASCII_BOX, ScriptError("NameError", "model/net.py, line 42", "name 'undefined' is not defined")),
        (tagged(BOX, "[rank 3] "), ScriptError("NameError", "model/net.py, line 42", "name 'undefined' is not defined")),
        (
            FOLDED,
            ScriptError(
                "OSError",
                "src/training_of_a_language_model/package_with_a_long_name/trainer.py, line 2",
                "the state of the optimizer was not written: [Errno 28] No space left on device: '/fsx/checkpoints/7.pt'",
            ),
        ),
        (NAME_ERROR.replace("    print", f"{BAR.strip()}\nEpoch 3:{BAR}\n    print"), NAMED),
        (NAME_ERROR + BOX.replace("NameError: name 'undefined' is not defined", "CalledProcessError: Command '[]' returned"), NAMED),
        (LOST + DIRECT + LAST, ScriptError("ConnectionResetError", "train.py, line 3", "[Errno 104] Connection reset by peer")),
        (FULL + DURING + LAST, SPACE),
        (FULL + DURING + LAST + DURING + CHAINED, SPACE),
        (tagged(FULL + DURING + LAST, "[rank1]: "), SPACE),
        (FULL + LAST, ScriptError("RuntimeError", "train.py, line 20", "cannot continue")),
        (LOST + DURING + FULL, SPACE),
        (HYDRA, ScriptError("ModuleNotFoundError", "train.py, line 3", "No module named 'nothing'")),
        (
            HYDRA.replace(DIRECT, DURING),
            ScriptError("InstantiationException", "_instantiate2.py, line 13", HYDRA.splitlines()[-1].partition(": ")[2]),
        ),
        (FULL + IGNORED, SPACE),
        (FULL + IGNORED + IGNORED, SPACE),
        (FULL + NEVER_RETRIEVED, SPACE),
        (FULL + LOGGING_ERROR, SPACE),
        (FULL + THREAD, SPACE),
        (THREAD, ScriptError("ConnectionResetError", "train.py, line 3", "[Errno 104] Connection reset by peer")),
        (IGNORED + LOGGING_ERROR + NEVER_RETRIEVED, None),
        (GROUP, ScriptError("OSError", "group.py, line 2", "[Errno 28] No space left on device")),
        (GROUP.replace("[Errno 28] No space left on device", "y"), ScriptError("ValueError", "group.py, line 3", "x")),
        (UNRAISED, ScriptError("OSError", "group.py, line 1", "[Errno 28] No space left on device")),
        (POOL, ScriptError("ValueError", "pool.py, line 2", "bad")),
        (NCCL, ScriptError("DistBackendError", "train.py, line 8", "Cuda failure 214 'uncorrectable ECC error encountered'")),
        *((log, ScriptError("DistBackendError", "train.py, line 8", last_line(log))) for log in (OLD_NCCL, SHARED_MEMORY, NO_PLUGIN)),
        (tagged(SHARED_MEMORY, "[rank1]: "), ScriptError("DistBackendError", "train.py, line 8", last_line(SHARED_MEMORY))),
        (OLD_NCCL.replace(last_line(OLD_NCCL), ""), ScriptError("DistBackendError", "train.py, line 8", FIRST_LINE)),
        (
            OLD_NCCL.replace("Last error", "Other"),
            ScriptError("DistBackendError", "train.py, line 8", FIRST_LINE),
        ),
        (NAME_ERROR + "Last error:\nConnection reset by peer\n", NAMED),
        # Another thread writes into a traceback.
        *((interrupted(NAME_ERROR, line), NAMED) for line in range(1, 5)),
        (NAME_ERROR[: NAME_ERROR.index("NameError")] + INTERRUPTION + "epoch: 3\n", None),
        (NAME_ERROR[: NAME_ERROR.index("NameError")] + INTERRUPTION + "epoch: 3\n" + FULL, SPACE),
        (NAME_ERROR + RENDEZVOUS, NAMED),
        (RENDEZVOUS, ScriptError("RendezvousClosedError", "dynamic_rendezvous.py, line 677", "")),
        # torch marks the exceptions that end ranks. Ranks that share a log lose their connections to the first one.
        (tagged(NAME_ERROR, "[rank3]: ") + tagged(LOST, "[rank0]: ") + tagged(LOST, "[rank1]: "), NAMED),
        (tagged(NAME_ERROR, "[rank3]: ") + tagged(LOST, "[rank0]: ") + ELASTIC, NAMED),
        (
            tagged(LOST.replace(last_message(LOST), "Watchdog caught collective operation timeout"), "[rank0]: ")
            + tagged(NAME_ERROR, "[rank3]: "),
            NAMED,
        ),
        (tagged(LOST, "[rank0]: ") + tagged(NAME_ERROR, "[rank3]: ") + tagged(LAST, "[rank1]: "), NAMED),
        (
            tagged(LOST, "[rank0]: ") + tagged(LOST, "[rank1]: "),
            ScriptError("ConnectionResetError", "train.py, line 3", last_message(LOST)),
        ),
        (NAME_ERROR + tagged(LOST, "[rank0]: "), ScriptError("ConnectionResetError", "train.py, line 3", last_message(LOST))),
        (tagged(CHAINED, "[rank0]: "), ScriptError("KeyError", "train.py, line 5", "'label'")),
        (LOGURU, ScriptError("ZeroDivisionError", "train.py, line 5", "division by zero")),
        (
            GRAPH.replace("InvalidArgument", "ResourceExhausted").replace("Matrix size-incompatible", OOM),
            ScriptError("ResourceExhaustedError", "train.py, line 30", OOM),
        ),
        (GRAPH, ScriptError("InvalidArgumentError", "train.py, line 30", "Graph execution error:")),
        (BUS, ScriptError("RuntimeError", "dataloader.py, line 1133", BUS.splitlines()[3].partition(": ")[2])),
        (BAR + NAME_ERROR, NAMED),
        (BAR + IGNORED, None),
        (FULL + BAR + IGNORED, SPACE),
        (NAME_ERROR + f"{BAR}\n" * 20, NAMED),
        (NAME_ERROR + "step 3\n" * 100, None),
        (tagged(NAME_ERROR, "[rank1]: ") + "step 3\n" * 100, NAMED),
        (NAME_ERROR + "    an indented line\n" * 100, NAMED),
        (
            NAME_ERROR + "step 3\n" * 100 + WRAPPER,
            ScriptError("CalledProcessError", "wrap.py, line 3", WRAPPER[WRAPPER.index("Command") : -1]),
        ),
        (NAME_ERROR + CRASH, NAMED),
    ],
)
def test_the_innermost_exception_that_was_not_handled_is_the_error(log, expected):
    assert script_error(log.splitlines(), CODE) == expected


@pytest.mark.parametrize(
    ("log", "code"),
    [
        (NAME_ERROR + WRAPPER, 1),
        (NAME_ERROR + WRAPPER.replace("exit status 1", "exit status 2") + WRAPPER, 2),
        (WRAPPER.replace("returned non-zero exit status 1", "died with <Signals.SIGKILL: 9>"), -9),
        (tagged(ELASTIC, "[rank 0] "), -9),
        (ELASTIC + "the end\n", -9),
        (SPAWNED, None),
        (
            WRAPPER[: WRAPPER.index("subprocess.C")]
            + "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGSEGV\n",
            -11,
        ),
        (WRAPPER.replace("returned non-zero exit status 1", "ended"), None),
        (WRAPPER + NAME_ERROR, None),
        (WRAPPER + "step 3\n" * 100, None),
        (NAME_ERROR, None),
        ("", None),
    ],
)
def test_a_program_that_starts_another_one_says_how_it_ended(log, code):
    child = failed_child(log.splitlines())
    assert (child.code if child else None) == code
    if child and log.startswith(NAME_ERROR):
        assert log.splitlines()[: child.line] == NAME_ERROR.splitlines()


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):" * 3000,
        '  File "/x.py", line 3, in f',
        "  +-+---------------- 1 ----------------",
        "╭" + "─" * 300_000 + " Traceback (most recent call last) ───╮",
        "+-" * 100_000 + " 1 ---",
        "│ " + "x:1" * 100_000,
        "│ /aaaa │",
        "The above exception was the direct cause of the following exception:",
        *('{}  File "/x.py", line 3, in f', "{}Traceback (most recent call last):", "{}ValueError: x"),
    ],
)
def test_a_log_full_of_the_same_line_takes_no_long_time(line):
    count = max(2, (1 << 18) // len(line))
    lines = [line.format(f"[{number}] ") for number in range(count)]
    started = time.process_time()
    for log in (lines, [*lines, *NAME_ERROR.splitlines()], NAME_ERROR.splitlines() * 1000 + lines, BOX.splitlines()[:3] + lines):
        script_error(log, CODE)
        failed_child(log)
        error_before_abort(log, CODE)
    assert time.process_time() - started < 30
