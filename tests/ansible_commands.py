"""Runs ansible-inventory and ansible-playbook in processes that are forked from one that has imported them.

The commands take most of their time for imports, of which Ansible compiles those of collections each time. Their output is the same.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# The process finds collections here, when it starts. Commands cannot use others.
COLLECTIONS = "ANSIBLE_COLLECTIONS_PATH"


def run(command: Sequence[str], environment: Mapping[str, str], folder: Path, *, merged: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a command like `subprocess.run`, and return its status and its output. If `merged` is true, stdout contains stderr too."""
    assert environment.get(COLLECTIONS) == os.environ[COLLECTIONS]
    process = _process()
    assert process.stdin
    assert process.stdout
    with tempfile.TemporaryDirectory() as name:
        output, errors = Path(name, "output"), Path(name, "output" if merged else "errors")
        request = {"command": list(command), "environment": dict(environment), "folder": str(folder)}
        process.stdin.write(json.dumps({**request, "output": str(output), "errors": str(errors)}) + "\n")
        process.stdin.flush()
        status = int(process.stdout.readline())
        return subprocess.CompletedProcess(command, status, output.read_text(), "" if merged else errors.read_text())


@functools.cache
def _process() -> subprocess.Popen[str]:
    """Return the process that forks. It ends with this process."""
    process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.communicate)  # closes standard input, and waits
    return process


def main() -> None:
    """Execute one command for each line of standard input, and write its status to standard output."""
    _import()
    gc.freeze()  # forked processes share the memory of what was imported
    for line in iter(sys.stdin.readline, ""):
        pid = os.fork()
        if pid == 0:
            _become(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _import() -> None:
    """Import what the commands need, with the collection's plugins and the models of the SDK."""
    import boto3
    from ansible.cli import inventory, playbook  # noqa: F401
    from ansible.plugins import loader
    from botocore.loaders import JSONFileLoader

    load, files = functools.cache(JSONFileLoader.load_file), JSONFileLoader()
    JSONFileLoader.load_file = lambda _self, path: load(files, path)
    session = boto3.Session("key", "secret", region_name="us-east-1")
    for service in ("autoscaling", "ec2", "emr", "sts"):
        session.client(service)
    loader.init_plugin_loader()
    for kind in ("action", "inventory", "lookup"):
        for path in (ROOT / "plugins" / kind).glob("[a-z]*.py"):
            getattr(loader, f"{kind}_loader").get(f"deeplearning.cluster.{path.stem}", class_only=True)


def _become(command: list[str], environment: dict[str, str], folder: str, output: str, errors: str) -> None:
    """Execute a command in this process, as a new process would execute it."""
    from ansible import cli, constants
    from ansible.cli import inventory, playbook

    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, output, os.O_APPEND), (2, errors, os.O_APPEND)):
        opened = os.open(path, flags | (os.O_WRONLY | os.O_CREAT if number else 0))
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    _read_settings(constants)
    cli.init_plugin_loader = lambda *_arguments: None  # it is ready
    sys.argv = command
    commands: dict[str, Any] = {"ansible-inventory": inventory.InventoryCLI, "ansible-playbook": playbook.PlaybookCLI}
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
