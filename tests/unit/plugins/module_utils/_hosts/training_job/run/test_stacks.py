"""Tests that collect the stacks of a job that hangs."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import descendant_processes, stacks
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run.stacks import RunningProgram
from local_cloud.testing import wait_until

FAULTHANDLER = """\
step 7
[rank0]: Thread 0x00007f01 (most recent call first):
[rank0]:   File "/usr/lib/python3.11/threading.py", line 320 in wait
[rank0]:
[rank0]: Current thread 0x00007f02 (most recent call first):
[rank0]:   File "/opt/pytorch/lib/torch/distributed/distributed_c10d.py", line 2501 in all_reduce
[rank0]:   File "/jobs/code/model/net.py", line 12 in forward
[rank0]:   File "/jobs/code/train.py", line 40 in <module>
"""
PY_SPY = """\
Process 12: python train.py
Python v3.11.2 (/usr/bin/python3.11)

Thread 13 (idle): "Thread-1"
    wait (/usr/lib/python3.11/threading.py:320)
Thread 12 (idle): "MainThread"
    read (/usr/lib/python3.11/socket.py:9)
    <module> (/jobs/code/train.py:40)
Thread 14 (idle): "Thread-2"
    other (/jobs/code/other.py:1)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FAULTHANDLER, ("model/net.py, line 12", True)),
        (PY_SPY, ("train.py, line 40", False)),
        ('  File "/usr/lib/python3.11/socket.py", line 9 in read\n', ("socket.py, line 9", False)),
        ("step 7\n", ("", False)),
        ("", ("", False)),
    ],
)
def test_the_place_is_the_innermost_line_of_the_job(text, expected):
    assert stacks.place(text, "/jobs/code") == expected


def program(pid, parent=1, rank=-1, is_python=True, state="S"):
    return RunningProgram(pid, parent, state, rank, is_python, "x")


def test_a_rank_is_its_first_python_process():
    """mpirun starts a shell, which starts Python, which starts data loaders.

    The data loaders have lower PIDs, because the PIDs have wrapped around.
    """
    mpi = [program(20, rank=-1, is_python=False), program(21, 20, 3, is_python=False), program(30, 21, 3), program(5, 30, 3)]
    assert {rank: found.pid for rank, found in stacks.ranks([], mpi).items()} == {3: 30}
    assert {rank: found.pid for rank, found in stacks.ranks([2, 3], mpi).items()} == {3: 30}
    assert {rank: found.pid for rank, found in stacks.ranks([7], mpi).items()} == {7: 30}
    assert {rank: found.pid for rank, found in stacks.ranks([7], mpi[:2]).items()} == {7: 20}
    assert stacks.ranks([7], []) == {}


def test_the_agent_of_torchrun_is_no_rank():
    programs = [program(20), program(21, 20, 3), program(22, 21, 3)]
    assert {rank: found.pid for rank, found in stacks.ranks([3], programs).items()} == {3: 21}
    assert {rank: found.pid for rank, found in stacks.ranks([2, 3], programs).items()} == {3: 21}
    assert stacks.ranks([0, 1], programs) == {}


def test_a_loop_of_parents_ends():
    assert set(stacks.ranks([], [program(1, 2, 0), program(2, 1, 1)])) == {0, 1}


@pytest.mark.parametrize(("mask", "caught"), [("0000000000000200", True), ("0000000000000100", False), ("", False)])
def test_only_a_process_with_a_handler_gets_the_signal(mask, caught):
    assert stacks.catches(f"Name:\tx\nSigIgn:\t0000000000000200\nSigCgt:\t{mask}\n", 10) is caught


@pytest.fixture
def spec(tmp_path, monkeypatch):
    """Return the spec of a process in whose PATH there is no py-spy."""
    monkeypatch.setenv("PATH", os.defpath)
    return {
        "directory": str(tmp_path),
        "attempt": 1,
        "name": "rank0",
        "parameters": {"launcher": "command"},
        "tagged": False,
        "ranks": [0],
        "programs": str(tmp_path / "bin"),
        "cwd": str(tmp_path),
        "environment": {},
    }


@pytest.fixture
def running(tmp_path, monkeypatch):
    """Return a function that starts a script as the only descendant of this process."""
    started = []

    def start(code):
        (tmp_path / "train.py").write_text(code)
        (tmp_path / "logs").mkdir(exist_ok=True)
        with open(tmp_path / "logs/rank0.log", "ab") as log:
            started.append(subprocess.Popen([sys.executable, str(tmp_path / "train.py")], stdout=log, stderr=log))
        monkeypatch.setattr(descendant_processes, "descendants", lambda: [started[-1].pid])
        wait_until(lambda: "up" in (tmp_path / "logs/rank0.log").read_text())
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


REGISTERED = "import faulthandler, signal, time\nfaulthandler.register(signal.SIGUSR1)\nprint('up', flush=True)\ntime.sleep(600)\n"
TORCH = """
import os, pathlib, time
pipe = os.open({pipe!r}, os.O_RDONLY | os.O_NONBLOCK)
print("up", flush=True)
while True:
    try:
        if os.read(pipe, 1):
            break
    except BlockingIOError:
        pass
    time.sleep(0.05)
time.sleep(0.5)
with open({file!r}, "w") as file:
    for word in ("collect", "ives"):
        file.write(word)
        file.flush()
        time.sleep(0.05)
time.sleep(600)
"""
UNREGISTERED = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"


def test_the_stack_that_faulthandler_prints_is_collected(spec, running, tmp_path):
    running(REGISTERED)
    [found] = stacks.collect(spec, 0.0)
    assert (found["rank"], found["where"], found["waits"], found["suspended"]) == (0, "train.py, line 4", False, False)
    assert 'train.py", line 4 in <module>' in (tmp_path / "logs/stacks/rank0.txt").read_text()


@pytest.mark.parametrize(("tag", "error"), [("", "no such shard"), ("[1,0]<stderr>:", "no such shard"), ("", "Connection closed by peer")])
def test_an_exception_that_a_rank_has_printed_is_found(spec, running, tmp_path, tag, error):
    """Cleaning up after an exception can hang: the end of a process group waits for the other ranks."""
    lines = ["Traceback (most recent call last):", f'  File "{tmp_path}/train.py", line 55, in <module>', f"OSError: {error}"]
    running(f"print({chr(10).join(tag + line for line in lines)!r})\n" + REGISTERED)
    launchers = {"parameters": {"launcher": "mpi"}, "tagged": True} if tag else {}
    [found] = stacks.collect({**spec, **launchers}, 0.0)
    assert found.get("error") == (None if "peer" in error else "OSError at train.py, line 55: no such shard")


def test_a_process_without_a_handler_survives(spec, running, tmp_path):
    process = running(UNREGISTERED)
    [found] = stacks.collect(spec, 0.0)
    assert not found["where"].startswith("train.py")
    assert process.poll() is None
    text = (tmp_path / "logs/stacks/rank0.txt").read_text()
    assert text.startswith(f"process {process.pid} (parent {os.getpid()}")
    assert f"thread {process.pid} (python" in text


def test_py_spy_is_used_if_it_is_installed(spec, running, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/py-spy").write_text(f"#!/bin/sh\ncat <<'END'\n{PY_SPY.replace('/jobs/code', str(tmp_path))}END\n")
    (tmp_path / "bin/py-spy").chmod(0o755)
    running(UNREGISTERED)
    assert stacks.collect(spec, 0.0)[0]["where"] == "train.py, line 40"
    (tmp_path / "bin/py-spy").write_text("#!/bin/sh\nexit 1\n")
    assert stacks.collect(spec, 0.0)[0]["where"] != "train.py, line 40"


def may_attach():
    """Return whether a program may attach to a process of the same user that is not one of its descendants."""
    scope = pathlib.Path("/proc/sys/kernel/yama/ptrace_scope")
    return not scope.exists() or scope.read_text().strip() == "0" or (os.geteuid() == 0 and scope.read_text().strip() != "3")


@pytest.mark.skipif(not may_attach(), reason="kernel.yama.ptrace_scope is not 0")
@pytest.mark.parametrize("is_suspended", [False, True], ids=["running", "suspended"])
def test_the_real_py_spy_finds_the_line_of_a_script_without_a_handler(spec, running, tmp_path, is_suspended):
    spec["programs"] = os.path.dirname(sys.executable)
    assert shutil.which("py-spy", path=spec["programs"])
    process = running("import time\ndef load():\n    print('up', flush=True)\n    time.sleep(600)\nload()\n")
    if is_suspended:
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: stacks._read(process.pid).state == "T")
    [found] = stacks.collect(spec, 0.0)
    assert (found["where"], found["suspended"]) == ("train.py, line 4", is_suspended)
    assert f"load ({tmp_path}/train.py:4)" in (tmp_path / "logs/stacks/rank0.txt").read_text()


def test_files_of_the_flight_recorder_are_copied(spec, running, tmp_path):
    """Only files of this attempt are copied. Links are not copied, because a link could name a file that the reader of the folder must not
    see.
    """
    running(UNREGISTERED)
    for name in ("nccl_0", "nccl_1", "nccl_2", "other"):
        (tmp_path / name).write_text(name)
    os.utime(tmp_path / "nccl_1", (1, 1))
    (tmp_path / "nccl_3").symlink_to(tmp_path / "other")
    os.mkfifo(tmp_path / "nccl_4")
    spec["environment"]["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] = str(tmp_path / "nccl_")
    stacks.collect(spec, time.time() - 60)
    assert sorted(os.listdir(tmp_path / "logs/stacks")) == ["nccl_0", "nccl_2", "rank0.txt"]
    assert (tmp_path / "logs/stacks/nccl_2").read_text() == "nccl_2"


def test_torch_is_asked_for_its_flight_recorder(spec, tmp_path):
    """The code writes to the pipe only if torch reads from it."""

    def ask(*programs):
        return stacks.ask_flight_recorder(spec, stacks.ranks([], programs))

    spec["environment"]["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] = str(tmp_path / "pipe_")
    os.mkfifo(tmp_path / "pipe_3.pipe")
    assert ask(program(9, rank=3)) == []
    reader = os.open(tmp_path / "pipe_3.pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        loader = program(10, parent=9, rank=3)
        assert ask(program(8, rank=2), program(9, rank=3), loader) == [3]
        assert os.read(reader, 10) == b"1"
        # A suspended rank cannot write the file, so the supervisor does not wait for it. Its data loaders may be running.
        assert ask(program(9, rank=3, state="T"), loader) == []
    finally:
        os.close(reader)
    (tmp_path / "pipe_4.pipe").write_text("data")
    ask(program(9, rank=4))
    assert (tmp_path / "pipe_4.pipe").read_text() == "data"


def test_files_of_the_flight_recorder_are_complete_before_anything_is_killed(spec, running, tmp_path, monkeypatch):
    """torch reads the request in a thread, and writes the file some time later."""
    prefix = tmp_path / "logs/stacks/flight_recorder_rank"
    spec["environment"].update(TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(tmp_path / "pipe_"), TORCH_FR_DUMP_TEMP_FILE=str(prefix))
    os.mkfifo(tmp_path / "pipe_0.pipe")
    monkeypatch.setenv("RANK", "0")
    running(TORCH.format(pipe=str(tmp_path / "pipe_0.pipe"), file=f"{prefix}0"))
    stacks.collect(spec, time.time())
    assert pathlib.Path(f"{prefix}0").read_text() == "collectives"


def test_links_in_place_of_the_files_are_not_followed(spec, running, tmp_path):
    running(UNREGISTERED)
    (tmp_path / "logs/stacks").mkdir()
    (tmp_path / "victim").write_text("kept")
    (tmp_path / "logs/stacks/rank0.txt").symlink_to(tmp_path / "victim")
    assert len(stacks.collect(spec, 0.0)) == 1
    assert (tmp_path / "victim").read_text() == "kept"
