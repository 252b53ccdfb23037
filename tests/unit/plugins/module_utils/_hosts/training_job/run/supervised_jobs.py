"""Jobs whose supervisors run on this machine, as programs like on hosts, but each in its own directory instead of a systemd unit's."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.files import status
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories, records
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition import attempt_processes
from local_cloud.testing import wait_until

from ...._job.definition.parameters import parameters
from ..conftest import with_tmpfs

QUICK = Path(__file__).with_name("quick_supervisor.py")

# The beginning of all scripts. Each process logs the epoch at which it begins. Only rank 0 saves checkpoints.
TRAINS = textwrap.dedent("""
    import faulthandler, json, os, pathlib, signal, sys, time
    attempt, rank = int(os.environ["DEEPLEARNING_ATTEMPT"]), int(os.environ.get("DEEPLEARNING_RANK", -1))
    folder = pathlib.Path(os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"])
    first = max((int(path.name) for path in folder.glob("[0-9]*")), default=0) + 1
    print(f"rank {rank} of {os.environ.get('DEEPLEARNING_WORLD_SIZE')} begins with epoch {first}", flush=True)

    def save(epoch):
        if rank == 0:
            temporary = folder / f".{epoch}"
            temporary.touch()
            temporary.rename(folder / str(epoch))

    def report(step):
        if rank == 0:
            with open(os.environ["DEEPLEARNING_PROGRESS"], "a") as file:
                file.write(json.dumps({"step": step, "steps": 100}) + "\\n")
        time.sleep(0.1)
""")


class Job:
    """A job whose supervisors run on this machine.

    If there are `options`, the checkpoints of each supervisor are in a tmpfs with these mount options, which only this supervisor sees.
    """

    def __init__(self, folder, program, script, hosts=2, attempt=1, without="", metadata=None, options="", **changes):
        self.folder, self.program, self.metadata = folder, str(program), metadata or {}
        self.paths = directories.Paths(str(folder / "jobs/digits"))
        os.makedirs(self.paths.code)
        os.makedirs(self.paths.checkpoints)
        self.script = TRAINS + textwrap.dedent(script)
        path = Path(self.paths.code, "train.py")
        path.write_text(self.script)
        Path(self.paths.description).write_text(json.dumps({"launcher": "command", "created": time.time(), "script": "train.py"}))
        hosts = [
            {"name": f"worker{number}", "address": f"10.0.0.{number}", "number": number, "gpus": [], "interface": "ens5"}
            for number in range(1, hosts + 1)
        ]
        defaults = {"launcher": "command", "launcher_options": {"hosts": "all"}, "python": sys.executable, "hosts": hosts, "time_limit": 0}
        given = parameters(**{**defaults, "arguments": [], "script": str(path), "min_hosts": len(hosts), "restarts": 3, **changes})
        self.mounted = with_tmpfs(self.paths.checkpoints, options) if options else []
        self.specs, self.started = {}, {}
        for spec in attempt_processes.plan_specs(given, self.paths.of_attempt(attempt)):
            self.specs[spec["name"]] = path = folder / "units" / spec["name"] / "spec.json"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(spec))
        for name in self.specs:
            if name != without:
                self.start(name)

    def spec(self, name):
        return json.loads(self.specs[name].read_text())

    def start(self, name, action="run"):
        host, port = self.folder / "hosts" / name, str(self.metadata.get(name, 1))
        command = [*self.mounted, sys.executable, str(QUICK), self.program, str(host), port, action, str(self.specs[name])]
        with open(self.specs[name].with_name("journal"), "a", encoding="utf-8") as journal:
            self.started[name] = subprocess.Popen(command, start_new_session=True, stderr=journal)
        return self.started[name]

    def rejoin(self, name):
        """Start a supervisor as after a reboot. Return the attempt of its spec when it has ended."""
        self.specs[name].write_text(json.dumps({**self.spec(name), "rejoins": True}))
        assert [self.start(name, action).wait(60) for action in ("rejoin", "finish")] == [0, 0]
        return self.spec(name)["attempt"]

    def finish(self, **environment):
        """Run what systemd runs after each unit on hosts has ended."""
        for spec in self.specs.values():
            subprocess.run([sys.executable, self.program, "finish", str(spec)], env={**os.environ, **environment}, check=False, timeout=300)

    def kill(self, *names):
        """Kill supervisors and their processes, so that their hosts seem to be lost."""
        for name in names:
            process = self.started.pop(name)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def end(self):
        for process in self.started.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def wait(self):
        return [process.wait(300) for process in self.started.values()]

    def ends(self, state="succeeded", attempt=2, statuses=None):
        """Wait for the end of the job, and return its status. Its state, last attempt and, if given, exit statuses must be these."""
        found = self.wait()
        assert statuses is None or found == statuses
        result = self.status()
        assert (result["state"], result["attempt"]) == (state, attempt), result["attempts"]
        return result

    def status(self):
        return status.read_status(self.paths, 60)

    def wait_for(self, text, *ranks):
        """Wait until the logs of the ranks in the first attempt contain a text."""
        wait_until(lambda: self.has_logged(text, *ranks))

    def has_logged(self, text, *ranks):
        return all(text in self.log(f"rank{rank}") for rank in ranks)

    def wait_for_records(self, *names):
        wait_until(lambda: self.records(1).keys() >= set(names))

    def log(self, process, attempt=1):
        with contextlib.suppress(FileNotFoundError), open(self.paths.of_attempt(attempt).log(process), encoding="utf-8") as file:
            return file.read()
        return ""

    def journal(self, name):
        return self.specs[name].with_name("journal").read_text()

    def line(self, text):
        """Return the number of the line of the script that contains a text."""
        return next(number for number, line in enumerate(self.script.splitlines(), 1) if text in line)

    def records(self, attempt):
        return {record["name"]: record for record in records.read_records(self.paths.of_attempt(attempt))}

    def following(self, attempt=1):
        return records.read_following(self.paths.of_attempt(attempt))

    def decide(self, attempt=1, **decision):
        """Write the decision about what follows an attempt."""
        os.makedirs(self.paths.of_attempt(attempt).status, exist_ok=True)
        records.write_json(self.paths.of_attempt(attempt).following, {"action": "restart", "decided": time.time(), "hosts": [], **decision})


class Health:
    """What the health checks of the units' hosts report."""

    def __init__(self, folder, stack):
        self.folder, self.stack = folder / "hosts", stack

    def answers(self, name, finding):
        """Let the health service of a unit's host report a finding."""

        def answer():
            with contextlib.suppress(OSError):
                while True:
                    with listener.accept()[0] as connection:
                        connection.sendall(json.dumps([finding]).encode())

        self.folder.mkdir(exist_ok=True)
        (self.folder / name).unlink(missing_ok=True)
        listener = self.stack.enter_context(socket.socket(socket.AF_UNIX))
        with contextlib.chdir(self.folder):  # the path of a socket has at most 107 characters
            listener.bind(name)
        listener.listen()
        threading.Thread(target=answer, daemon=True).start()

    def recovers(self, name):
        (self.folder / name).unlink()

    def finds(self, name, *findings, age=0.0):
        """Write what the periodic health checks have found on the host of a unit."""
        temporary = self.folder / f"{name}.new"
        temporary.write_text(json.dumps({"time": time.time() - age, "findings": findings}))
        temporary.replace(self.folder / f"{name}.findings")

    def excludes(self, name, by, reason):
        """Exclude the host of a unit from jobs."""
        self.folder.mkdir(exist_ok=True)
        document = {
            "instance": "i-0123456789abcdef0",
            "exclusions": [{"by": by, "reason": reason, "since": 60.0, "gpus": []}],
            "included": 0,
        }
        (self.folder / f"{name}.json").write_text(json.dumps(document))
