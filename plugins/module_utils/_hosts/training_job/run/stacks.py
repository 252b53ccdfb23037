# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Collects the stacks of a process's descendants when a job hangs, before anything is killed.

The supervisor runs as the job's user, so it can read only what the job can read.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import signal
import stat
import subprocess
import time
from typing import Mapping, NamedTuple, Sequence

from ...._job import tracebacks
from ...._job.directories import Paths
from ...._job.document_schemas import RANKS_PER_HOST_LIMIT
from ...._job.documents import ProcessSpec, Stuck
from ...._job.schema import open_regular
from ...._launchers.registry import LAUNCHERS
from ...._text import clean, clean_line
from ..files import logs, status
from . import connections, descendant_processes, process_failures

# Limits for one supervisor: processes, threads of a process, bytes of one file in /proc, characters in the description of a line of code,
# and bytes of a stack.
PROCESSES, THREADS, PROC_LIMIT, PLACE_LIMIT, STACK_LIMIT = 256, 256, 1 << 16, 300, 1 << 18

# Maximum number of flight recorder files from torch, and maximum size of one file in bytes.
RECORDINGS, RECORDING_LIMIT = 64, 1 << 25

# Maximum number of seconds to wait for these files after torch was asked for them, and the interval between two checks. On a GPU that
# several processes shared, torch needed up to 6 s and more.
RECORDING_TIMEOUT, RECORDING_INTERVAL = 10.0, 0.1

# Seconds to wait for py-spy, for the first output of faulthandler, and for further output. The last value applies to all processes
# together.
PY_SPY_TIMEOUT, BEGIN_TIMEOUT, PAUSE, TIMEOUT = 10.0, 1.0, 0.3, 20.0

# The signal for which scripts register faulthandler. The signal is sent only to Python processes that have a handler for it.
DUMP_SIGNAL = signal.SIGUSR1

# The states of suspended processes in proc(5).
SUSPENDED = "Tt"

# The environment variables in which launchers tell a process its rank.
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")

# A frame in one of these libraries means that the rank waits for other ranks.
COMMUNICATION = ("/torch/distributed/", "/horovod/", "/mpi4py/", "/deepspeed/comm/")


class RunningProgram(NamedTuple):
    """A running process. `state` is one of the letters for process states in proc(5). `rank` is -1 if the process's environment contains no
    rank.
    """

    pid: int
    parent: int
    state: str
    rank: int
    is_python: bool
    command: str


def collect(spec: ProcessSpec, since: float) -> list[Stuck]:
    """Write the stacks of the process's descendants to the attempt's folder, and return where in the code the ranks of this host are.

    Also copies the files of torch's flight recorder that were written after `since` (seconds since 1970). Files that cannot be read are
    left out.
    """
    paths = Paths(spec["directory"], spec["attempt"])
    lines = logs.tail(paths.log(spec["name"]), status.TAIL_SIZE)  # before faulthandler appends its stacks
    deadline = time.monotonic() + TIMEOUT
    programs = [found for found in map(_read, descendant_processes.descendants()[:PROCESSES]) if found]
    texts, python = [], {}
    asked = ask_flight_recorder(spec, ranks(spec["ranks"], programs))
    asked_at, recorded_by = time.time(), time.monotonic() + RECORDING_TIMEOUT
    for program in programs:
        python[program.pid] = _python_stack(spec, paths, program) if program.is_python and time.monotonic() < deadline else ""
        texts.append(_describe(program, python[program.pid]))
    with contextlib.suppress(OSError):
        os.makedirs(paths.stacks, exist_ok=True)
        path = os.path.join(paths.stacks, spec["name"] + ".txt")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644), "w", encoding="utf-8") as file:
            file.write("\n".join(texts) or "The process has ended.\n")
        _wait_for_recordings(spec, asked, asked_at, recorded_by)
        _copy_recordings(spec, paths.stacks, since)
    return [
        _stuck(rank, program, python[program.pid], spec["cwd"], _error(spec, rank, lines))
        for rank, program in sorted(ranks(spec["ranks"], programs).items())[:RANKS_PER_HOST_LIMIT]
    ]


def _error(spec: ProcessSpec, rank: int, lines: Sequence[str]) -> str:
    """Return the exception at the end of a rank's lines in the log of the process, or an empty string."""
    launcher = LAUNCHERS.get(spec["parameters"]["launcher"])
    own = logs.lines_of(str(rank), launcher.tag, lines) if launcher and spec["tagged"] else lines
    found = process_failures.own_error(own, spec["cwd"])
    return clean_line(f"{found.kind} at {found.place}: {found.message}")[:PLACE_LIMIT].rstrip(".") if found else ""


def ranks(own: Sequence[int], programs: Sequence[RunningProgram]) -> dict[int, RunningProgram]:
    """Return the program of each rank: its first Python process or, if it has none, its first process. `own` contains the ranks of the
    supervised process.

    Launchers such as torchrun are parents of a rank's process. Data loaders are children of a rank's process, and inherit its environment.
    If the supervised process has a single rank, and no process has this rank in its environment, all processes belong to this rank.
    """
    ordered = _parents_first(programs)
    found = _first_of_each([(program.rank, program) for program in ordered if program.rank >= 0 and (not own or program.rank in own)])
    if len(own) == 1 and not found:
        found = _first_of_each([(own[0], program) for program in ordered])
    return found


def _first_of_each(programs: Sequence[tuple[int, RunningProgram]]) -> dict[int, RunningProgram]:
    found: dict[int, RunningProgram] = {}
    for rank, program in programs:
        if rank not in found or (program.is_python and not found[rank].is_python):
            found[rank] = program
    return found


def _parents_first(programs: Sequence[RunningProgram]) -> list[RunningProgram]:
    by_pid = {program.pid: program for program in programs}

    def depth(program: RunningProgram) -> int:
        seen = {program.pid}
        while program.parent in by_pid and program.parent not in seen:
            program = by_pid[program.parent]
            seen.add(program.pid)
        return len(seen)

    return sorted(programs, key=lambda program: (depth(program), program.pid))


def _read(pid: int) -> RunningProgram | None:
    text = _proc(pid, "stat").rpartition(")")[2].split()
    if len(text) < 2:
        return None  # the process has ended
    variables = dict(item.partition("=")[::2] for item in _proc(pid, "environ").split("\0"))
    rank = next((variables[name] for name in RANKS if re.fullmatch(r"\d{1,6}", variables.get(name, ""))), "-1")
    with contextlib.suppress(OSError):
        name = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
        return RunningProgram(
            pid, int(text[1]), text[0], int(rank), name.startswith("python"), _proc(pid, "cmdline").replace("\0", " ")[:1000]
        )
    return None


def _proc(pid: int, name: str) -> str:
    """Return the beginning of a file in a process's /proc directory, or an empty string if it cannot be read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(PROC_LIMIT).decode("utf-8", "replace")
    except OSError:
        return ""


def _describe(program: RunningProgram, python: str) -> str:
    rank = f", rank {program.rank}" if program.rank >= 0 else ""
    lines = [f"process {program.pid} (parent {program.parent}{rank}), state {program.state}: {clean_line(program.command)}"]
    for thread in sorted(_threads(program.pid)):
        task = f"task/{thread}"
        state = (_proc(program.pid, f"{task}/stat").rpartition(")")[2].split() or ["?"])[0]
        name, where = clean_line(_proc(program.pid, f"{task}/comm")).strip(), _kernel_function(program.pid, thread)
        lines.append(f"  thread {thread} ({name}), state {state}{', in ' + where if where else ''}")
        # Only root can read the kernel stack.
        lines += [f"    {line}" for line in clean(_proc(program.pid, f"{task}/stack")).splitlines()]
    return "\n".join([*lines, *(f"  {line}" for line in python.splitlines())]) + "\n"


def _threads(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")][:THREADS]
    return []


def _kernel_function(pid: int, thread: int) -> str:
    """Return the kernel function in which a thread waits, or an empty string if the thread is running or the function is unknown."""
    found = clean_line(_proc(pid, f"task/{thread}/wchan")).strip()
    return "" if found == "0" else found[:PLACE_LIMIT]


def _python_stack(spec: ProcessSpec, paths: Paths, program: RunningProgram) -> str:
    """Return the Python stack of a process: from py-spy if it is installed, otherwise from faulthandler if the script has registered it.

    A suspended process cannot respond to a signal.
    """
    path = spec["programs"] + os.pathsep + os.environ.get("PATH", os.defpath)
    py_spy = shutil.which("py-spy", path=path)
    if py_spy:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            found = subprocess.run(
                [py_spy, "dump", "--nonblocking", "--full-filenames", "--pid", str(program.pid)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=PY_SPY_TIMEOUT,
                check=True,
            )
            return clean(found.stdout[:STACK_LIMIT].decode("utf-8", "replace"))
    if program.state in SUSPENDED or not catches(_proc(program.pid, "status"), DUMP_SIGNAL):
        return ""
    return _new_output(paths.log(spec["name"]), program.pid)


def catches(status: str, number: int) -> bool:
    """Return whether a process has a handler for a signal, based on the contents of the process's `status` file in /proc."""
    found = re.search(r"^SigCgt:\s*([0-9a-f]{1,32})$", status, re.MULTILINE)
    return bool(found and int(found[1], 16) >> (number - 1) & 1)


def _new_output(log: str, pid: int) -> str:
    """Send the signal, and return the output that follows it in the log."""
    try:
        with open_regular(log) as file:
            start = seen = file.seek(0, os.SEEK_END)
            os.kill(pid, DUMP_SIGNAL)
            end = time.monotonic() + BEGIN_TIMEOUT
            while time.monotonic() < end and seen - start < STACK_LIMIT:
                time.sleep(0.05)
                size = file.seek(0, os.SEEK_END)
                if size > seen:
                    seen, end = size, time.monotonic() + PAUSE
            file.seek(start)
            return clean(file.read(STACK_LIMIT).decode("utf-8", "replace"))
    except OSError:
        return ""


def _stuck(rank: int, program: RunningProgram, python: str, directory: str, error: str) -> Stuck:
    where, waits = place(python, directory)
    found: Stuck = {
        "rank": rank,
        "where": where or _kernel_function(program.pid, program.pid),
        "waits": waits,
        "suspended": program.state in SUSPENDED,
    }
    silent = connections.silent_peers(program.pid)
    if silent:
        found["silent_peers"] = silent
    if error:
        found["error"] = error
    return found


def place(python: str, directory: str) -> tuple[str, bool]:
    """Return the innermost line of the job's code in the stack of the main thread, and whether the thread waits for other ranks.

    `directory` contains the job's code. If none of the lines is in `directory`, the innermost of all lines is returned. If there is no
    stack, the line is empty.
    """
    frames = tracebacks.current_thread(python.splitlines())
    waits = any(part in frame[0] for frame in frames for part in COMMUNICATION)
    return tracebacks.place(frames, directory), waits


def _setting(spec: ProcessSpec, *names: str) -> str:
    """Return the value of the first of these job variables that is set, or an empty string if the value is not an absolute path."""
    value = next((spec["environment"][name] for name in names if spec["environment"].get(name)), "")
    return value if os.path.isabs(value) else ""


def ask_flight_recorder(spec: ProcessSpec, programs: Mapping[int, RunningProgram]) -> list[int]:
    """Make torch write the files of its flight recorder, and return the ranks that read the request. `programs` are the ranks' programs.

    Source: DumpPipe in ProcessGroupNCCL.hpp. torch reads the pipe `<value><rank>.pipe`, and any byte in it triggers the dump. A suspended
    process cannot respond.
    """
    stem = _setting(spec, "TORCH_NCCL_DEBUG_INFO_PIPE_FILE")
    asked = []
    for rank in (rank for rank, program in programs.items() if stem and program.state not in SUSPENDED):
        with contextlib.suppress(OSError):
            pipe = os.open(f"{stem}{rank}.pipe", os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if stat.S_ISFIFO(os.fstat(pipe).st_mode):
                    os.write(pipe, b"1")
                    asked.append(rank)
            finally:
                os.close(pipe)
    return asked


def _recordings(spec: ProcessSpec) -> str:
    """Return the path of the files of torch's flight recorder without the rank at its end."""
    return _setting(spec, "TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")


def _wait_for_recordings(spec: ProcessSpec, asked: Sequence[int], since: float, deadline: float) -> None:
    """Wait until these ranks have written the files of the flight recorder, because they will then be killed.

    `since` is the time of the request (seconds since 1970), and `deadline` is a time of the monotonic clock.
    """
    missing = {f"{_recordings(spec)}{rank}" for rank in asked}
    sizes: dict[str, int] = {}
    while missing and time.monotonic() < deadline:
        time.sleep(RECORDING_INTERVAL)
        for path in sorted(missing):
            with contextlib.suppress(OSError):
                found = os.stat(path, follow_symlinks=False)
                # The file server's clock can differ from this host's clock by less than a second.
                if found.st_mtime > since - 1 and found.st_size and found.st_size == sizes.get(path):
                    missing.discard(path)
                sizes[path] = found.st_size


def _copy_recordings(spec: ProcessSpec, folder: str, since: float) -> None:
    """Copy the files that torch's flight recorder has written after `since`. torch appends the rank to the name."""
    stem = _recordings(spec)
    if os.path.dirname(stem) == folder:
        return
    for path in sorted(glob.glob(glob.escape(stem) + "*"))[:RECORDINGS] if stem else ():
        with contextlib.suppress(OSError), open_regular(path) as source:
            if os.fstat(source.fileno()).st_mtime < since:
                continue
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            with open(os.open(os.path.join(folder, os.path.basename(path)), flags, 0o644), "wb") as target:
                target.write(source.read(RECORDING_LIMIT))
