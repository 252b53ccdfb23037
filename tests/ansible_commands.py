"""Runs Ansible's commands in processes that are forked from ones that have imported them.

The commands take most of their time for imports, of which Ansible compiles those of collections each time, and for putting together the
modules that hosts get. Their output is the same.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import importlib.util
import json
import marshal
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).parents[1]
# The environment of these processes. Tests change the environment later.
ENVIRONMENT = dict(os.environ)
# Settings that Ansible reads when it is imported. Commands with other values have a process of their own.
READ_BY_IMPORTS = ("ANSIBLE_CALLBACK_PLUGINS", "ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_LOG_PATH", "ANSIBLE_STRATEGY")
# The header of bytecode that Python does not compare with the source: version, flags, and an unused digest. See PEP 552.
UNCHECKED_BYTECODE = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)

# Processes that wait for a command.
_idle: list[subprocess.Popen[str]] = []


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    *,
    merged: bool = False,
    errors: str = "strict",
    started: Callable[[int], None] = lambda _pid: None,
) -> subprocess.CompletedProcess[str]:
    """Run a command like `subprocess.run`, and return its status and its output. If `merged` is true, stdout contains stderr too.

    `errors` says what to do with output that is not UTF-8, as in `bytes.decode`. `started` is called with the process ID of a
    forked command, for `kill`.
    """
    if any(environment.get(name) != ENVIRONMENT.get(name) for name in READ_BY_IMPORTS):
        stderr = subprocess.STDOUT if merged else subprocess.PIPE
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": stderr, "errors": errors}
        return subprocess.run(command, env=environment, cwd=folder, text=True, check=False, **pipes)
    with tempfile.TemporaryDirectory() as name:
        output, error = Path(name, "output"), Path(name, "output" if merged else "errors")
        status = _execute(
            started, command=list(command), environment=dict(environment), folder=str(folder), output=str(output), errors=str(error)
        )
        return subprocess.CompletedProcess(
            command, status, output.read_text(errors=errors), "" if merged else error.read_text(errors=errors)
        )


def kill(pid: int) -> None:
    """Kill a command and all its processes. Workers have sessions of their own."""
    stopped = [each for each in _processes(pid) if _send(each, signal.SIGSTOP)]  # a stopped process starts no others
    for each in stopped:
        _send(each, signal.SIGKILL)


def _processes(pid: int) -> Iterator[int]:
    """Yield the process and its descendants. The children of a process are read after it was yielded."""
    yield pid
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in file.read_text().split():
                yield from _processes(int(child))


def _send(pid: int, number: signal.Signals) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def _execute(started: Callable[[int], None], **request: Any) -> int:
    """Let a process execute a command, and return the status. Without a status, as after a time limit, the command is killed."""
    process = _idle.pop() if _idle else _start()
    assert process.stdin
    assert process.stdout
    try:
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        started(int(process.stdout.readline()))
        status = int(process.stdout.readline())
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    _idle.append(process)
    return status


def _start() -> subprocess.Popen[str]:
    """Return a new process that forks. It ends with this process."""
    command, pipe = [sys.executable, __file__], subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=ENVIRONMENT, start_new_session=True)
    atexit.register(process.communicate)  # closes standard input, and waits
    return process


def main() -> None:
    """Execute one command for each line of standard input, and write its process ID and its status to standard output."""
    _import()
    gc.freeze()  # forked processes share the memory of what was imported
    modules = tempfile.mkdtemp(prefix="ansible-modules-")
    for line in iter(sys.stdin.readline, ""):
        pid = os.fork()
        if pid == 0:
            _become(modules, **json.loads(line))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    shutil.rmtree(modules)


def _import() -> None:
    """Import what the commands need, with the collection's plugins and the models of the SDK."""
    import boto3
    from ansible.cli import adhoc, inventory, playbook  # noqa: F401
    from ansible.plugins import loader
    from botocore.loaders import JSONFileLoader

    load, files = functools.cache(JSONFileLoader.load_file), JSONFileLoader()
    JSONFileLoader.load_file = lambda _self, path: load(files, path)
    session = boto3.Session("key", "secret", region_name="us-east-1")
    for service in ("autoscaling", "ec2", "emr", "sts"):
        session.client(service)
    loader.init_plugin_loader()
    _add_bytecode()
    for kind in ("action", "callback", "filter", "inventory", "lookup"):
        for path in (ROOT / "plugins" / kind).glob("[a-z]*.py"):
            importlib.import_module(f"ansible_collections.deeplearning.cluster.plugins.{kind}.{path.stem}")


def _add_bytecode() -> None:
    """Let modules contain the bytecode of their files, because a module takes most of its time to compile them.

    Pythons of other versions ignore it and compile the files.
    """
    from ansible.executor import module_common

    class ZipFile(zipfile.ZipFile):
        def writestr(self, zinfo_or_arcname, data, *arguments):  # type: ignore[no-untyped-def]
            super().writestr(zinfo_or_arcname, data, *arguments)
            name = zinfo_or_arcname.filename
            if name == "ansible/__init__.py":  # the collection changes this file
                return
            code = compile(data, name, "exec", dont_inherit=True)
            super().writestr(f"{name}c", UNCHECKED_BYTECODE + marshal.dumps(code))

    module_common.zipfile = SimpleNamespace(**vars(zipfile) | {"ZipFile": ZipFile})


def _become(modules: str, command: list[str], environment: dict[str, str], folder: str, output: str, errors: str) -> None:
    """Execute a command in this process, as a new process would execute it. `modules` is a folder for modules that were put together."""
    from ansible import cli, constants
    from ansible.cli import adhoc, inventory, playbook

    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, output, os.O_APPEND), (2, errors, os.O_APPEND)):
        opened = os.open(path, flags | (os.O_WRONLY | os.O_CREAT if number else 0))
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    _read_settings(constants)
    os.symlink(modules, Path(constants.DEFAULT_LOCAL_TMP, "ansiballz_cache"))
    cli.init_plugin_loader = lambda *_arguments: None  # it is ready
    sys.argv = command
    commands: dict[str, Any] = {
        "ansible": adhoc.AdHocCLI,
        "ansible-inventory": inventory.InventoryCLI,
        "ansible-playbook": playbook.PlaybookCLI,
    }
    status: Any = 1
    try:
        commands[command[0]].cli_executor(command)
    except SystemExit as end:
        status = end.code
    finally:
        # Deletes temporary files. A usual exit would also take apart what was imported.
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(status or 0))


def _read_settings(constants: Any) -> None:
    """Read Ansible's settings in the environment and in the folder. Some modules have imported the object that contains them."""
    shared = constants.config
    importlib.reload(constants)
    shared.__dict__.update(constants.config.__dict__)
    constants.config = shared


if __name__ == "__main__":
    main()
