"""Tests of a job's attempts. The tests run the supervisors of all hosts as programs, in the same way as on hosts, but on one machine."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.files import goodput, status
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import (
    between_attempts,
    host_health,
    host_metrics,
    process_watch,
    supervisor,
    termination_notices,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import (
    directories,
    exclusion_after_failures,
    exclusions,
    failure_causes,
    hangs,
    periodic_findings,
    records,
    recovery,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.checkpoint_layouts import Saved
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition import attempt_processes
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import job_formatting
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.attempt_messages import attempt_cause, explain
from local_cloud.testing import wait_until

from ...._job.definition.parameters import parameters
from ..conftest import with_tmpfs
from .metadata_service import MetadataService


class Job:
    """A job whose supervisors run on this machine, each in its own directory instead of a systemd unit's directory.

    If there are `options`, the checkpoints of each supervisor are in a tmpfs with these mount options, which only this supervisor sees.
    """

    def __init__(self, folder, program, script, hosts=2, attempt=1, without="", metadata=None, options="", **changes):
        self.paths = directories.Paths(str(folder / "jobs/digits"))
        os.makedirs(self.paths.code)
        os.makedirs(self.paths.checkpoints)
        with open(os.path.join(self.paths.code, "train.py"), "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(script))
        with open(self.paths.description, "w", encoding="utf-8") as file:
            json.dump({"launcher": "command", "created": time.time(), "script": "train.py"}, file)
        hosts = [
            {"name": f"worker{number}", "address": f"10.0.0.{number}", "number": number, "gpus": [], "interface": "ens5"}
            for number in range(1, hosts + 1)
        ]
        defaults = {"launcher": "command", "launcher_options": {"hosts": "all"}, "python": sys.executable, "hosts": hosts, "time_limit": 0}
        script = os.path.join(self.paths.code, "train.py")
        given = parameters(**{**defaults, "arguments": [], "script": script, "min_hosts": len(hosts), "restarts": 3, **changes})
        self.units = {}
        self.started = []
        hurry = f"""
            import os, sys
            sys.path.insert(0, {str(program)!r})
            from {supervisor.__name__} import main
            from {between_attempts.__name__} import INTERVAL
            module = sys.modules["{process_watch.__name__}"]
            module.POLL_INTERVAL = module.HEARTBEAT_INTERVAL = sys.modules["{between_attempts.__name__}"].INTERVAL = 0.2
            sys.modules["{hangs.__name__}"].MARGIN = 1
            notices = sys.modules["{termination_notices.__name__}"]
            notices.ADDRESS, notices.PORT, notices.INTERVAL = "127.0.0.1", int(sys.argv.pop()), 0.2
            notices.LEASE = {str(folder / "lease")!r}
            host = {str(folder / "hosts")!r} + "/" + sys.argv[2].split("/")[-2]
            sys.modules["{exclusions.__name__}"].PATH = host + ".json"
            sys.modules["{exclusions.__name__}"].OWNER = {os.geteuid()}
            os.makedirs(os.path.dirname(host), exist_ok=True)
            os.chdir(os.path.dirname(host))
            sys.modules["{host_health.__name__}"].SOCKET = os.path.basename(host)
            sys.modules["{host_health.__name__}"].ABSENCE = 0.0
            sys.modules["{periodic_findings.__name__}"].PATH = host + ".findings"
            sys.argv[0] = sys.path[0]
            sys.exit(main(sys.argv[1:]))
        """
        self.hurry = textwrap.dedent(hurry)
        self.metadata = metadata or {}
        self.mounted = with_tmpfs(self.paths.checkpoints, options) if options else []
        for spec in attempt_processes.plan_specs(given, self.paths.of_attempt(attempt)):
            unit = folder / "units" / spec["name"]
            unit.mkdir(parents=True)
            (unit / "spec.json").write_text(json.dumps(spec))
            self.units[spec["name"]] = unit
        for name in self.units:
            if name != without:
                self.start(name)

    def start(self, name, action="run"):
        command = [sys.executable, "-c", self.hurry, action, str(self.units[name] / "spec.json"), str(self.metadata.get(name, 1))]
        with open(self.units[name] / "journal", "a", encoding="utf-8") as journal:
            process = subprocess.Popen([*self.mounted, *command], start_new_session=True, stderr=journal)
        self.started.append(process)
        return process

    def wait(self):
        return [process.wait(300) for process in self.started]

    def end(self):
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def status(self):
        return status.read_status(self.paths, 60)

    def log(self, process, attempt=1):
        with contextlib.suppress(FileNotFoundError), open(self.paths.of_attempt(attempt).log(process), encoding="utf-8") as file:
            return file.read()
        return ""

    def records(self, attempt):
        return {record["name"]: record for record in records.read_records(self.paths.of_attempt(attempt))}


@pytest.fixture
def job(tmp_path, program):
    """Return a function that starts a job. The job's processes are killed after the test."""
    jobs = []

    def start(script, **changes):
        jobs.append(Job(tmp_path, program, script, **changes))
        return jobs[-1]

    yield start
    for each in jobs:
        each.end()


# Each process logs the epoch at which it begins. Only rank 0 saves checkpoints.
TRAINS = textwrap.dedent("""
    import os, pathlib, signal, sys, time
    attempt, rank = int(os.environ["DEEPLEARNING_ATTEMPT"]), int(os.environ["DEEPLEARNING_RANK"])
    folder = pathlib.Path(os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"])
    first = max((int(path.name) for path in folder.glob("[0-9]*")), default=0) + 1
    print(f"rank {rank} of {os.environ['DEEPLEARNING_WORLD_SIZE']} begins with epoch {first}", flush=True)

    def save(epoch):
        if rank == 0:
            temporary = folder / f".{epoch}"
            temporary.touch()
            temporary.rename(folder / str(epoch))
""")


def trains(script):
    return TRAINS + textwrap.dedent(script)


def test_an_exception_of_a_rank_that_does_not_end_is_the_cause(job):
    """Rank 1 prints an exception and cleans up without end. Rank 0 waits for it too long."""
    script = """
        if rank == 1:
            import traceback
            try:
                raise OSError("no such shard")
            except OSError:
                traceback.print_exc()
                (folder / "raised").touch()
                time.sleep(600 if attempt == 1 else 0)
        elif attempt == 1:
            while not (folder / "raised").exists():
                time.sleep(0.05)
            raise RuntimeError("Timed out waiting 1800000ms for recv operation to complete")
    """
    running = job(trains(script))
    assert running.wait() == [0, 0]
    cause = attempt_cause(running.status()["attempts"][0])
    assert cause.startswith("rank 1 on worker2 raised an exception and did not end, so that the other ranks waited for it (OSError at ")
    assert cause.endswith(": no such shard)")


def test_a_killed_process_is_started_again_from_the_checkpoint(job):
    script = """
        save(first)
        if attempt == 1 and rank == 1:
            while not (folder / "1").exists():
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600 if attempt == 1 else 0)
    """
    running = job(trains(script))
    assert running.wait() == [0, 0]
    found = running.status()
    assert (found["state"], found["attempt"]) == ("succeeded", 2)
    assert running.log("rank0", 2) == "rank 0 of 2 begins with epoch 2\n"
    assert {name: record["state"] for name, record in running.records(1).items()} == {"rank0": "stopped", "rank1": "failed"}
    first, second = found["attempts"]
    assert attempt_cause(first).startswith("rank 1 on worker2 was killed by signal SIGKILL")
    assert first["action"] == "restart"
    assert second["state"] == "succeeded"
    lines = job_formatting.attempt_table(found)
    assert "attempt 1 failed on 2 hosts" in lines[0]
    assert lines[1] == "  restart: The job continues on the same hosts."
    assert "digits succeeded after" in job_formatting.job_line(found)
    assert (running.units["rank0"] / "spec.json").stat().st_mode & 0o777 == 0o600, "it contains secrets"


def test_an_attempt_does_not_wait_for_the_lock_of_a_process_that_was_killed(job):
    script = """
        lock = pathlib.Path.home() / ".cache/torch_extensions/py310/x/lock"
        if rank == 1:
            lock.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
            if attempt == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            lock.unlink()
        time.sleep(600 if attempt == 1 else 0)
    """
    running = job(trains(script))
    assert running.wait() == [0, 0]
    assert running.status()["attempt"] == 2


def test_the_first_process_writes_the_metrics_of_the_job(job, tmp_path, program):
    script = """
        save(first)
        if attempt == 1:
            while not os.path.exists("go"):
                time.sleep(0.05)
            sys.exit("a passing fault")
    """
    (tmp_path / "metrics").mkdir()
    file = tmp_path / "metrics/deeplearning-digits.prom"
    running = job(trains(script), metrics_directory=str(file.parent))

    def metrics():
        return dict(line.rsplit(" ", 1) for line in file.read_text().splitlines() if not line.startswith("#"))

    wait_until(file.exists)
    assert metrics()['deeplearning_job_running{cluster="demo",training_job="digits"}'] == "1.0"
    (tmp_path / "jobs/digits/code/go").touch()
    running.wait()
    for unit in running.units.values():  # systemd does this on hosts
        subprocess.run([sys.executable, str(program), "finish", str(unit / "spec.json")], check=True)
    assert metrics()['deeplearning_job_running{cluster="demo",training_job="digits"}'] == "0.0"
    assert metrics()['deeplearning_job_attempts{cluster="demo",training_job="digits"}'] == "2.0"
    assert metrics()['deeplearning_job_nodes{cluster="demo",training_job="digits"}'] == "2.0"
    spent = goodput.measure(running.paths, 60).goodput
    seconds = [float(value) for name, value in metrics().items() if name.startswith("deeplearning_job_node_seconds{")]
    assert sum(seconds) == pytest.approx(sum(spent["buckets"].values()))
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_host_that_leaves_the_job_deletes_its_metrics(job, tmp_path, program):
    (tmp_path / "metrics").mkdir()
    file = tmp_path / "metrics/deeplearning-digits.prom"
    running = job(trains("time.sleep(600)"), metrics_directory=str(file.parent))
    wait_until(file.exists)
    wait_until(lambda: len(running.records(1)) == 2)
    spec = running.units["rank0"] / "spec.json"
    host_metrics.write(json.loads(spec.read_text()), is_last=True)
    assert not file.exists()
    running.end()


def test_a_job_without_metrics_does_not_load_what_writes_them(program):
    code = f"""
        import sys
        sys.path.insert(0, {str(program)!r})
        import {supervisor.__name__} as supervisor
        assert supervisor.metrics_writer({{"parameters": {{"metrics_directory": None}}, "name": "rank0", "lead": "rank0"}}) is None
        assert supervisor.metrics_writer({{"parameters": {{"metrics_directory": "/m"}}, "name": "rank1", "lead": "rank0"}}) is None
        assert not {{{host_metrics.__name__!r}, {goodput.__name__!r}}} & set(sys.modules)
        assert supervisor.metrics_writer({{"parameters": {{"metrics_directory": "/m"}}, "name": "rank0", "lead": "rank0"}})
    """
    subprocess.run([sys.executable, "-I", "-c", textwrap.dedent(code)], check=True)


def test_the_rendezvous_of_each_attempt_is_new(job):
    running = job("raise SystemExit(3)", launcher="deepspeed", launcher_options={"local_rank": False}, restart_exit_codes=[3], restarts=2)
    running.wait()
    ports = {
        json.loads((running.units["rank0"] / "spec.json").read_text())["environment"]["MASTER_PORT"],
        attempt_processes.plan_specs(json.loads((running.units["rank0"] / "spec.json").read_text())["parameters"], running.paths)[0][
            "environment"
        ]["MASTER_PORT"],
    }
    assert len(ports) == 2
    assert running.status()["attempt"] == 3


def test_nothing_of_an_attempt_is_left_when_the_next_one_starts(job, tmp_path):
    """Daemons that have left their parent, session and process group are also killed, and their exit statuses are ignored."""
    script = """
        import subprocess
        marker = folder.parent / "left"
        if attempt == 1:
            daemon = f"trap : TERM; echo $$ >{marker}; while :; do sleep 1; done"
            subprocess.Popen(["sh", "-c", f"setsid sh -c '{daemon}' & sleep 0.1; :"]).wait()
            while not marker.exists() or not marker.read_text():
                time.sleep(0.05)
            sys.exit(1)
        print("left", os.path.exists("/proc/" + marker.read_text().strip()))
    """
    running = job(trains(script), hosts=1)
    assert running.wait() == [0]
    assert running.log("rank0", 2).splitlines()[-1] == "left False"


def test_an_error_that_repeats_stops_the_job_and_the_message_names_the_line(job):
    script = """
        def load():
            raise ValueError("no such column: label")

        if rank == 1:
            load()
        time.sleep(600)
    """
    running = job(trains(script))
    running.wait()
    found = running.status()
    line = next(number for number, text in enumerate(trains(script).splitlines(), 1) if "no such column" in text)
    assert (found["state"], found["attempt"]) == ("failed", 2)
    message = job_formatting.failure_message(found, "run {}".format)
    assert (
        "the job was not restarted again. The same error ended attempts 1 and 2, with no new checkpoint in between. Correct "
        f"line {line} of train.py or its data."
    ) in message


@pytest.mark.parametrize(("error", "failures"), [("import nothing_like_it", 1), ("raise RuntimeError('CUDA driver version')", 2)])
def test_a_spare_takes_the_place_of_the_host_that_alone_has_an_error(job, error, failures):
    script = f"""
        if "/units/rank1/" in open(f"/proc/{{os.getppid()}}/cmdline").read():
            {error}
        time.sleep(600 if attempt <= {failures} else 0)
    """
    running = job(trains(script), hosts=4, spares=1, min_hosts=3)
    running.wait()
    found = running.status()
    assert [each["action"] for each in found["attempts"][:-1]] == ["restart"] * failures, found["attempts"]
    assert found["state"] == "succeeded"
    assert {process["host"] for process in found["processes"]} == {"worker1", "worker3", "worker4"}


def test_the_error_of_a_program_that_the_script_runs_decides(job):
    running = job("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import nothing_like_it'], check=True)\n")
    running.wait()
    found = running.status()
    assert (found["state"], found["attempt"]) == ("failed", 1)
    assert "ModuleNotFoundError" in attempt_cause(found["attempts"][0])


def test_an_error_that_cannot_go_away_stops_the_first_attempt(job):
    running = job("import nothing_like_it\n")
    running.wait()
    found = running.status()
    assert (found["state"], found["attempt"]) == ("failed", 1)
    message = job_formatting.failure_message(found, "run {}".format)
    assert "The same error would end each attempt.\nCorrect the name 'nothing_like_it' if it is misspelled." in message


def test_a_checkpoint_that_no_attempt_could_load_is_not_set_aside(job):
    script = """
        if attempt > 1:
            raise ValueError("WeightsUnpickler error: GLOBAL numpy.dtype was not an allowed global by default.")
        save(1)
        save(2)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    running = job(trains(script), hosts=1)
    running.wait()
    found = running.status()
    assert (found["state"], found["attempt"]) == ("failed", 2)
    assert explain(found["attempts"][-1]) == "The same error would end each attempt. Its message says what to change."
    assert sorted(os.listdir(running.paths.checkpoints)) == ["1", "2"]


def test_wrong_arguments_stop_the_first_attempt(job):
    script = """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--epochs", required=True)
        parser.parse_args()
    """
    running = job(textwrap.dedent(script))
    running.wait()
    found = running.status()
    assert (found["state"], found["attempt"]) == ("failed", 1)
    message = job_formatting.failure_message(found, "run {}".format)
    assert "train.py: error: the following arguments are required: --epochs" in message
    assert "The same error would end each attempt. Correct training_job_arguments." in message
    assert "(wrong arguments: the following arguments are required: --epochs)" in attempt_cause(found["attempts"][0])


def test_a_checkpoint_after_which_the_job_dies_twice_is_set_aside(job):
    script = """
        if attempt == 2 and first == 3:
            raise RuntimeError("the archive is corrupt")
        save(first)
        if attempt == 1:
            save(2)
            time.sleep(600 if rank else 0.2)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    running = job(trains(script))
    assert running.wait() == [0, 0]
    assert (running.status()["state"], running.status()["attempt"]) == ("succeeded", 3)
    suspect, *rest = sorted(os.listdir(running.paths.checkpoints))
    assert (suspect[:9], suspect[-2:], rest) == (".suspect-", "-2", ["1", "2"])
    assert "begins with epoch 2" in running.log("rank0", 3)


@pytest.mark.parametrize("older", [True, False])
def test_a_damaged_checkpoint_is_set_aside_after_the_first_failure(job, older):
    """Frameworks that write to the final name leave a damaged checkpoint when they are killed, and choose it when they start again."""
    script = f"""
        import os, pathlib, signal, time, zipfile
        folder = pathlib.Path(os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"])
        saved = sorted(folder.glob("step-*.pt"))
        for path in saved[-1:]:
            zipfile.ZipFile(path).close()
        print("begins with", [path.name for path in saved], flush=True)
        if os.environ["DEEPLEARNING_ATTEMPT"] == "1":
            for step in range(1, 3) if {older} else [2]:
                with zipfile.ZipFile(folder / f"step-{{step}}.pt", "w") as file:
                    file.writestr("data", b"weights" * 100)
            os.truncate(folder / "step-2.pt", 300)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    running = job(script, hosts=1)
    assert running.wait() == [0]
    found = running.status()
    assert (found["state"], found["attempt"]) == ("succeeded", 2)
    assert f"begins with {['step-1.pt'] if older else []}" in running.log("rank0", 2)
    told = "the job uses the checkpoint before it." if older else "no complete checkpoint is left, and the script may start over."
    assert explain(found["attempts"][0]).endswith(f"Checkpoint step-2.pt is damaged, so {told}")


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_full_disk_is_named_and_no_checkpoint_is_set_aside(job, is_removed):
    """The message of torch.save() does not contain the system's message, and a script can delete what it could not save."""
    script = f"""
        import os, pathlib
        folder = pathlib.Path(os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"])
        saved = sorted(folder.glob("*.pt"))
        print("begins after", [path.name for path in saved[-1:]], flush=True)
        for epoch in range(len(saved), 40):
            path = folder / f"ep{{epoch:04}}.pt"
            try:
                path.write_bytes(bytes(100_000))
            except OSError:
                if {is_removed}:
                    path.unlink()
                    (folder / "ep.tmp").write_bytes(bytes(60_000))
                raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 8576 vs 8468") from None
    """
    running = job(script, hosts=1, options="size=512k")
    running.wait()
    found = running.status()
    assert (found["state"], found["attempt"]) == ("failed", 2)
    assert explain(found["attempts"][-1]).startswith("The storage ended attempts 1 and 2, with no new checkpoint in between. Free space ")
    place = running.paths.checkpoints
    assert is_removed or f"while {place} was full (0 bytes of 512 KiB free)" in attempt_cause(found["attempts"][-1])
    assert "set_aside" not in json.loads((pathlib.Path(running.paths.of_attempt(1).status) / "next").read_text())


RESAVES = """
    if rank == 0:
        step = max((int(path.suffixes[-2].rpartition("-")[2]) for path in folder.glob("*.index")), default=0)
        for name in ("graph.pbtxt", f"events.out.tfevents.{attempt}", *(f"model.ckpt-{step}.{part}" for part in PARTS), "checkpoint"):
            (folder / name).write_text(f'model_checkpoint_path: "model.ckpt-{step}"\\n' if name == "checkpoint" else "")
"""


def test_a_script_that_saves_its_checkpoint_again_and_then_fails_ends(job):
    """The files that TensorFlow writes when a session is created are not progress."""
    script = 'PARTS = ("data-00000-of-00001", "index", "meta")' + textwrap.dedent(RESAVES) + "\nint('not a number')\n"
    running = job(trains(script))
    running.wait()
    found = running.status()
    assert (found["state"], found["attempt"]) == ("failed", 2)
    assert explain(found["attempts"][-1]).startswith("The same error ended attempts 1 and 2")


def test_restarts_end_when_none_is_left(job):
    running = job("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", hosts=1, restarts=2)
    running.wait()
    found = running.status()
    assert (found["state"], found["attempt"]) == ("failed", 3)
    assert explain(found["attempts"][-1]).startswith("training_job_restarts is 2, and each of the last 2 restarts ended without a new")


def test_hosts_on_which_nothing_runs_are_not_missed(job):
    running = job(trains("sys.exit(3 if attempt == 1 else 0)"), hosts=3, launcher_options={"hosts": "first"})
    running.wait()
    assert (running.status()["state"], running.status()["attempt"]) == ("succeeded", 2)


def test_a_launcher_that_needs_the_lost_host_stops_the_job(job):
    """The job stops because the scheduler of MXNet would otherwise move to a host that has no unit for the scheduler."""
    options = {"workers": 0, "servers": 1}
    running = job("import time\ntime.sleep(600)\n", launcher="mxnet", launcher_options=options, min_hosts=1, heartbeat_timeout=3)
    wait_until(lambda: len(running.records(1)) == 4)
    on_first = [name for name, record in running.records(1).items() if record["host"] == "worker1"]
    for name, process in zip(list(running.units), list(running.started)):
        if name in on_first:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            running.started.remove(process)
    running.wait()
    assert running.status()["state"] == "lost"
    assert explain(running.status()["attempts"][0]) == (
        "The launcher cannot run the job on the remaining hosts: mxnet would need additional processes on a host."
    )


def test_without_restarts_there_is_one_attempt(job):
    running = job("raise SystemExit(3)", restarts=0)
    running.wait()
    assert (running.status()["state"], running.status()["attempt"]) == ("failed", 1)
    assert "not restarted" not in job_formatting.failure_message(running.status(), "run {}".format)
    assert records.read_following(running.paths) is None


def test_an_operator_stops_all_attempts(job):
    running = job(TRAINS + "print('up', flush=True)\ntime.sleep(600)\n")
    wait_until(lambda: "up" in running.log("rank0") and "up" in running.log("rank1"))
    running.started[1].send_signal(signal.SIGTERM)
    running.wait()
    found = running.status()
    assert (found["state"], found["attempt"]) == ("stopped", 1)


def test_an_operator_stops_a_job_between_two_attempts(job):
    """While one supervisor is suspended and the other supervisor waits for it, an operator stops the job."""
    script = "if rank == 1:\n    time.sleep(600)\nsys.exit(3)\n"
    running = job(trains(script))
    wait_until(lambda: "rank1" in running.records(1))
    os.killpg(running.started[1].pid, signal.SIGSTOP)
    wait_until(lambda: running.records(1).get("rank0", {}).get("available"))
    assert running.status()["state"] == "running"
    running.started[0].send_signal(signal.SIGTERM)
    running.started[0].wait(300)
    assert running.status()["state"] == "failed"
    assert explain(running.status()["attempts"][0]) == "An operator stopped the job."


def test_a_job_reaches_its_time_limit_between_two_attempts(job):
    """One supervisor is suspended, so the other supervisor waits for it, but not longer than the time limit."""
    running = job(trains("if rank == 1:\n    time.sleep(600)\nsys.exit(3)\n"), time_limit=5, heartbeat_timeout=600)
    wait_until(lambda: "rank1" in running.records(1))
    os.killpg(running.started[1].pid, signal.SIGSTOP)
    running.started[0].wait(300)
    assert records.read_following(running.paths)["rule"] == "time_limit"
    assert running.records(1)["rank0"]["available"] is False
    assert explain(running.status()["attempts"][0]) == "The job reached training_job_time_limit or training_job_max_cost."


@pytest.mark.parametrize("restarts", [0, 3])
def test_a_process_that_the_job_has_invented_does_not_hold_up_the_time_limit(job, restarts):
    script = """
        import json
        path = pathlib.Path(os.environ["DEEPLEARNING_JOB_DIRECTORY"], "status/rank9.json")
        record = json.loads(path.with_name("rank0.json").read_text())

        def send_heartbeat():
            path.with_suffix(".new").write_text(json.dumps({**record, "name": "rank9", "heartbeat": time.time()}))
            path.with_suffix(".new").rename(path)

        send_heartbeat()  # so that the invented process exists before the real one ends
        if os.fork():
            sys.exit(0)
        while True:
            send_heartbeat()
            time.sleep(0.2)
    """
    running = job(trains(script), hosts=1, restarts=restarts, time_limit=4, stop_timeout=1, heartbeat_timeout=2)
    assert running.wait() == [0]
    assert records.read_verdict(running.paths) is None


LONG = """
    save(first)
    if attempt == 1:
        print("up", flush=True)
        time.sleep(600)
"""


@pytest.mark.parametrize("lost", [1, 0], ids=["another host", "the first host"])
def test_a_job_continues_without_a_host_that_is_silent(job, lost):
    running = job(trains(LONG), hosts=3, min_hosts=2, heartbeat_timeout=3)
    wait_until(lambda: all("up" in running.log(f"rank{rank}") for rank in range(3)))
    process = running.started.pop(lost)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert running.wait() == [0, 0]
    found = running.status()
    assert (found["state"], found["attempt"], found["process_count"]) == ("succeeded", 2, 2)
    assert [each["host"] for each in found["processes"]] == [f"worker{number}" for number in (1, 2, 3) if number != lost + 1]
    assert attempt_cause(found["attempts"][0]).startswith(f"rank {lost} on worker{lost + 1} has sent no heartbeat since")
    assert explain(found["attempts"][0]) == f"The job continues without worker{lost + 1}."
    assert running.log("rank0", 2) == "rank 0 of 2 begins with epoch 2\n"


@pytest.mark.parametrize("lost", [1, 0], ids=["another host", "the first host"])
def test_a_spare_takes_the_place_of_a_lost_host(job, lost):
    """Of four hosts, two train and two wait. The world size does not change, and one host still waits."""
    running = job(trains(LONG), hosts=4, spares=2, min_hosts=2, heartbeat_timeout=3)
    wait_until(lambda: all("up" in running.log(f"rank{rank}") for rank in range(2)))
    wait_until(lambda: len(running.records(1)) == 4)
    assert "2 processes on 2 hosts and 2 spares" in job_formatting.job_line(running.status())
    kill(running, f"rank{lost}")
    running.wait()
    found = running.status()
    assert (found["state"], found["attempt"], found["process_count"]) == ("succeeded", 2, 2)
    assert [(each["name"], each["host"], each["state"]) for each in found["processes"]] == [
        ("rank0", "worker1" if lost else "worker2", "succeeded"),
        ("rank1", "worker3", "succeeded"),
        ("standby0", "worker4", "succeeded"),
    ]
    assert [one["hosts"] for one in found["attempts"]] == [2, 2]
    assert explain(found["attempts"][0]) == f"worker{lost + 1} cannot be used, so the job continues with spare worker3."
    assert running.log("rank0", 2) == "rank 0 of 2 begins with epoch 2\n"
    assert "  spares       1 (worker4)" in job_formatting.summary(found, {})
    spent = {each["host"]: each["buckets"] for each in goodput.measure(running.paths, 60).goodput["hosts"]}
    assert spent["worker4"]["idle"] > spent["worker3"]["idle"] > 3
    assert spent["worker4"]["training"] == 0 < spent["worker3"]["training"]


XID = {"check": "xid", "severity": "replace", "message": "GPU 0000:64:00: Xid 79 (the GPU has fallen off the bus)."}

# Rank 0 fails first. The processes of later attempts wait, so that the test can read the records.
FAILS = """
    if attempt == 1 and rank == 0:
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600 if attempt == 1 else 0)
"""


@pytest.fixture
def unhealthy(tmp_path, monkeypatch):
    """Return a function that makes the health checks of the unit `name` report a finding."""
    with contextlib.ExitStack() as stack:

        def listen(name, finding):
            def answer():
                with contextlib.suppress(OSError):
                    while True:
                        with listener.accept()[0] as connection:
                            connection.sendall(json.dumps([finding]).encode())

            os.makedirs(tmp_path / "hosts", exist_ok=True)
            monkeypatch.chdir(tmp_path / "hosts")  # the path of a socket has at most 107 characters
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(name)
            listener.listen()
            threading.Thread(target=answer, daemon=True).start()

        yield listen


def test_a_health_finding_is_the_cause_and_a_spare_takes_the_place_of_the_host(job, unhealthy, tmp_path):
    """Rank 0 is killed on worker1, but the GPU of worker2 has failed."""
    unhealthy("rank1", XID)
    exclusions_directory = tmp_path / "jobs" / exclusion_after_failures.FAILURES_DIRECTORY
    exclusions_directory.mkdir(parents=True)
    running = job(trains(FAILS), hosts=3, spares=1, min_hosts=2)
    running.wait()
    found = running.status()
    assert (found["state"], found["attempt"]) == ("succeeded", 2)
    assert [each["host"] for each in found["processes"]] == ["worker1", "worker3"]
    (one, _other) = found["attempts"]
    assert attempt_cause(one) == "health finding on worker2: GPU 0000:64:00: Xid 79 (the GPU has fallen off the bus)"
    assert explain(one) == (
        "The job continues with spare worker3 in place of worker2. worker2 should be replaced. To see the commands, run "
        "deeplearning.cluster.health."
    )
    assert os.listdir(exclusions_directory) == ["i-0123456789abcdef0,digits,1"]


def test_a_job_without_enough_healthy_hosts_says_what_its_host_needs(job, unhealthy):
    unhealthy("rank1", {**XID, "severity": "reboot"})
    running = job(trains(FAILS), hosts=2, min_hosts=2)
    running.wait()
    found = running.status()
    assert (found["state"], found["attempt"]) == ("failed", 1)
    message = job_formatting.failure_message(found, lambda playbook: playbook)
    assert "because health finding on worker2: GPU 0000:64:00: Xid 79" in message
    assert "worker2 cannot be used, and the job needs 2 hosts (training_job_min_hosts). worker2 must be rebooted." in message


def report(folder, name, *findings, age=0.0):
    """Write what the periodic health checks have found on the host of a unit."""
    path = folder / "hosts" / f"{name}.findings"
    (folder / "hosts" / f"{name}.new").write_text(json.dumps({"time": time.time() - age, "findings": findings}))
    (folder / "hosts" / f"{name}.new").replace(path)


# The processes of the first attempt never end by themselves.
WAITS = """
    time.sleep(600 if attempt == 1 else 0)
"""


@pytest.mark.parametrize("severity", ["restart", "reboot"])
def test_a_finding_while_the_job_runs_restarts_the_job_as_a_finding_after_a_failure_does(job, unhealthy, tmp_path, severity):
    exclusions_directory = tmp_path / "jobs" / exclusion_after_failures.FAILURES_DIRECTORY
    exclusions_directory.mkdir(parents=True)
    if severity == "reboot":
        unhealthy("rank1", {**XID, "severity": severity})
    running = job(trains(WAITS), hosts=3, spares=1, min_hosts=2)
    wait_until(lambda: "begins" in running.log("rank1"))
    report(tmp_path, "rank1", {**XID, "severity": severity})
    running.wait()
    found = running.status()
    assert (found["state"], found["attempt"]) == ("succeeded", 2)
    assert attempt_cause(found["attempts"][0]) == "health finding on worker2: GPU 0000:64:00: Xid 79 (the GPU has fallen off the bus)"
    used = {"restart": ["worker1", "worker2"], "reboot": ["worker1", "worker3"]}[severity]
    assert [each["host"] for each in found["processes"] if each["part"] != "standby"] == used
    assert running.records(1)["rank1"]["state"] == "failed"
    assert bool(os.listdir(exclusions_directory)) == (severity == "reboot"), "the script may be responsible for other findings"


def test_an_error_of_an_application_restarts_only_its_own_job(job, tmp_path):
    script = """
        print("process", os.getpid(), flush=True)
        time.sleep(600 if attempt == 1 else 0)
    """
    running = job(trains(script), hosts=2)
    pid = int(wait_until(lambda: re.search(r"process (\d+)\n", running.log("rank1")))[1])
    other = {**XID, "severity": "restart", "message": "Xid 31. pid=1", "pid": os.getpid()}
    report(tmp_path, "rank0", other)
    report(tmp_path, "rank1", other, {**XID, "severity": "restart", "message": f"Xid 13. pid={pid}", "pid": pid})
    running.wait()
    found = running.status()
    assert (found["state"], found["attempt"]) == ("succeeded", 2)
    assert attempt_cause(found["attempts"][0]) == f"health finding on worker2: Xid 13. pid={pid}"


def test_a_finding_on_a_spare_or_of_a_blocked_host_or_of_another_job_does_not_end_the_attempt(job, tmp_path):
    running = job(trains("while not (folder / 'stop').exists(): time.sleep(0.1)"), hosts=3, spares=1, min_hosts=2)
    wait_until(lambda: "begins" in running.log("rank1"))
    report(tmp_path, "standby0", XID)
    report(tmp_path, "rank0", XID, age=10.0)
    report(tmp_path, "rank1", {**XID, "severity": "restart", "pid": os.getpid()})
    time.sleep(1.5)
    pathlib.Path(running.paths.checkpoints, "stop").touch()
    running.wait()
    assert (running.status()["state"], running.status()["attempt"]) == ("succeeded", 1)


REBOOT = {"check": "xid", "severity": "reboot", "message": "GPU 0000:64:00: Xid 74 (NVLink error).", "reboots": "digits"}


@pytest.mark.parametrize("name", ["rank0", "rank1"])
def test_a_job_waits_for_a_host_that_reboots_if_it_needs_the_host(job, unhealthy, tmp_path, name):
    """The supervisor of the host ends. After the boot, the host starts it again with the spec of the first attempt."""
    script = """
        if attempt == 1:
            save(first)
        if attempt == 2 and rank == 0:
            time.sleep(1)
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600 if attempt == 2 else 0)
        if attempt == 1:
            sys.exit(7 if rank == 0 else 0)
    """
    running = job(trains(script), hosts=2, min_hosts=2, reboot=True)
    spec = (running.units[name] / "spec.json").read_text()
    wait_until(lambda: records.read_following(running.paths))
    unhealthy(name, REBOOT)
    process = running.started[int(name[-1])]
    assert process.wait(60) >= 0
    record = running.records(2)[name]
    assert (record["available"], record["unfit"]["reboots"]) == (False, True)
    time.sleep(1)
    second = running.paths.of_attempt(2)
    assert records.read_following(second) is None, "the other host waits"
    assert running.status()["state"] == "running"

    (tmp_path / "hosts" / name).unlink()
    (running.units[name] / "spec.json").write_text(spec)
    running.start(name, "rejoin")
    running.wait()
    found = running.status()
    assert (found["state"], found["attempt"]) == ("succeeded", 3)
    host = f"worker{int(name[-1]) + 1}"
    assert attempt_cause(found["attempts"][1]) == f"health finding on {host}: GPU 0000:64:00: Xid 74 (NVLink error)"
    assert explain(found["attempts"][1]) == f"{host} has been rebooted, and the job continues on the same hosts."
    assert records.read_following(second)["rule"] == "after_reboot"


def test_a_job_does_not_wait_for_a_host_that_is_unhealthy_after_the_reboot_or_that_it_does_not_need(job, unhealthy):
    unhealthy("rank1", REBOOT)
    running = job(trains(FAILS), hosts=3, min_hosts=2, reboot=True)
    running.wait()
    found = running.status()
    assert (found["state"], found["attempt"], len(found["processes"])) == ("succeeded", 2, 2)
    assert "The job continues without worker2. worker2 reboots itself. To see the" in explain(found["attempts"][0])
    assert running.start("rank1", "rejoin").wait(60) == 0, "the job has continued without this host"


def test_a_job_ends_if_the_host_is_still_unhealthy_after_the_reboot(job, unhealthy, tmp_path):
    unhealthy("rank1", REBOOT)
    running = job(trains(FAILS), hosts=2, min_hosts=2, reboot=True)
    running.started[1].wait(60)
    (tmp_path / "hosts/rank1").unlink()
    unhealthy("rank1", {**REBOOT, "reboots": ""})
    path = running.units["rank1"] / "spec.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "rejoins": True}))
    running.start("rank1", "rejoin")
    running.wait()
    assert not json.loads(path.read_text())["rejoins"], "the unit's other programs use the spec of the attempt"
    found = running.status()
    assert (found["state"], found["attempt"]) == ("failed", 1)
    assert records.read_following(running.paths)["rule"] == "too_few_hosts"


def test_a_job_that_may_not_reboot_hosts_does_not_wait_for_the_reboot_of_another_job(job, unhealthy):
    unhealthy("rank1", REBOOT)
    running = job(trains(FAILS), hosts=2, min_hosts=2)
    running.wait()
    assert running.status()["state"] == "failed"
    assert records.read_following(running.paths)["rule"] == "too_few_hosts"
    assert "reboots" not in running.records(1)["rank1"]["unfit"]


def rejoin(running, name):
    """Start a supervisor as after a reboot. Return the attempt of its spec when it has ended."""
    path = running.units[name] / "spec.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "rejoins": True}))
    assert running.start(name, "rejoin").wait(60) == 0
    assert running.start(name, "finish").wait(60) == 0
    return json.loads(path.read_text())["attempt"]


def test_a_host_that_has_rebooted_leaves_a_job_alone_that_an_operator_has_started_again(job, unhealthy, tmp_path):
    """The continued job runs in new units, so the decision names no hosts."""
    unhealthy("rank1", REBOOT)
    running = job(trains(FAILS), hosts=2, min_hosts=2, reboot=True)
    running.started[1].wait(60)
    running.end()
    records.write_json(running.paths.following, {"action": "restart", "rule": recovery.CONTINUED, "decided": time.time(), "hosts": []})
    before = running.records(1)
    assert rejoin(running, "rank1") == 1
    assert running.records(1) == before
    assert "Traceback" not in (running.units["rank1"] / "journal").read_text()


@pytest.mark.parametrize("same", [True, False])
def test_a_host_that_has_rebooted_leaves_a_new_job_with_the_same_name_alone(job, unhealthy, tmp_path, same):
    """The job was deleted and started again on other hosts, with or without a process of the same name."""
    unhealthy("rank1", REBOOT)
    running = job(trains(FAILS), hosts=2, min_hosts=2, reboot=True)
    running.started[1].wait(60)
    running.end()
    path = running.paths.record("rank1")
    record = records.read_record(path)
    os.unlink(path)
    if same:
        records.write_json(path, {**record, "host": "worker9", "state": "running"})
    before = running.records(1)
    assert rejoin(running, "rank1") == 1
    assert running.records(1) == before


def test_a_job_whose_hosts_all_reboot_ends(job, unhealthy):
    for name in ("rank0", "rank1"):
        unhealthy(name, REBOOT)
    running = job(trains(FAILS), hosts=2, min_hosts=1, reboot=True)
    running.wait()
    assert (running.status()["state"], running.status()["attempt"]) == ("failed", 1)
    assert records.read_following(running.paths)["action"] == "stop"


@pytest.mark.parametrize(("health_check", "by"), [(True, "person"), (True, "xid"), (False, "person")])
def test_an_excluded_host_and_an_unhealthy_spare_are_not_used(job, unhealthy, tmp_path, health_check, by):
    unhealthy("standby0", XID)
    excluded = {"by": by, "reason": "bad cable", "since": 60.0, "gpus": []}
    document = {"instance": "i-0123456789abcdef0", "exclusions": [excluded], "included": 0}
    (tmp_path / "hosts/rank0.json").write_text(json.dumps(document))
    running = job(trains(FAILS), hosts=4, spares=2, min_hosts=1, health_check=health_check)
    running.wait()
    found = running.status()
    assert attempt_cause(found["attempts"][0]).startswith("rank 0 on worker1 was killed by signal SIGKILL")
    used = ["worker2", "worker4"] if health_check else ["worker2", "worker3"]
    assert [each["host"] for each in found["processes"] if each["part"] != "standby"] == used
    assert "worker1 is excluded from jobs." in explain(found["attempts"][0])


def test_without_health_checks_the_findings_and_exclusions_of_checks_have_no_effect(job, unhealthy, tmp_path):
    unhealthy("rank1", XID)
    excluded = {"by": "xid", "reason": "Xid 79", "since": 60.0, "gpus": []}
    document = {"instance": "i-0123456789abcdef0", "exclusions": [excluded], "included": 0}
    (tmp_path / "hosts/rank0.json").write_text(json.dumps(document))
    running = job(trains(FAILS), hosts=2, health_check=False)
    assert running.wait() == [0, 0]
    assert explain(running.status()["attempts"][0]) == "The job continues on the same hosts."


@pytest.mark.parametrize(
    ("cause", "blamed"),
    [
        ({"kind": "signal", "what": "signal SIGKILL", "name": "SIGKILL"}, "health"),
        ({"kind": "script_error", "what": "RuntimeError at train.py, line 3", "name": "RuntimeError"}, "health"),
        ({"kind": "script_error", "what": "NameError at train.py, line 3", "name": "NameError"}, "script_error"),
        ({"kind": "script_error", "what": "RuntimeError at train.py, line 3", "name": "certain"}, "script_error"),
        ({"kind": "time_limit"}, "time_limit"),
        ({"kind": "operator"}, "operator"),
    ],
)
def test_a_health_finding_does_not_hide_an_error_that_every_attempt_would_repeat(cause, blamed):
    processes = [
        {"name": "rank0", "host": "w1", "unfit": {"why": "excluded", "what": "bad cable"}},
        {"name": "rank1", "host": "w2", "unfit": {"why": "replace", "what": "Xid 79"}},
        {"name": "rank2", "host": "w3", "unfit": {"why": "reboot", "what": "read-only"}},
    ]
    failure, why = between_attempts.blame_unhealthy(processes[0], cause, processes)
    assert (failure["host"], why["kind"]) == (("w2", "health") if blamed == "health" else ("w1", blamed))
    failure, why = between_attempts.blame_unhealthy({"name": "rank3", "host": "w3"}, cause, processes)
    assert (failure["name"], why.get("name") == failure_causes.REBOOT) == ("rank3", blamed == "health"), "its own host takes precedence"


def kill(running, name):
    """Kill a supervisor and its process, so that their host seems to be lost."""
    process = running.started.pop(list(running.units).index(name))
    del running.units[name]
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_lost_spare_does_not_disturb_the_job(job):
    running = job(trains(LONG.replace("600", "6")), hosts=3, spares=1, min_hosts=2, heartbeat_timeout=2)
    wait_until(lambda: "standby0" in running.records(1))
    kill(running, "standby0")
    assert running.wait() == [0, 0]
    found = running.status()
    assert (found["state"], found["attempt"]) == ("succeeded", 1)
    assert time.time() - running.records(1)["standby0"]["heartbeat"] > 4, "the other supervisors considered it lost"


def test_a_lost_spare_does_not_take_part_in_a_restart(job):
    script = """
        save(first)
        while attempt == 1 and not (folder / "fail").exists():
            time.sleep(0.1)
        sys.exit(3 if attempt == 1 else 0)
    """
    running = job(trains(script), hosts=3, spares=1, min_hosts=2, heartbeat_timeout=2)
    wait_until(lambda: len(running.records(1)) == 3)
    kill(running, "standby0")
    wait_until(lambda: time.time() - running.records(1)["standby0"]["heartbeat"] > 3)
    pathlib.Path(running.paths.checkpoints, "fail").touch()
    assert running.wait() == [0, 0]
    found = running.status()
    assert (found["state"], found["attempt"], explain(found["attempts"][0])) == ("succeeded", 2, "The job continues on the same hosts.")
    assert records.read_following(running.paths)["missing"] == ["worker3"]


def test_with_a_spare_the_job_survives_the_host_that_runs_the_most_processes(job):
    """The scheduler of MXNet moves to a host that has a unit on standby for it."""
    script = "import os, time\ntime.sleep(600 if os.environ['DEEPLEARNING_ATTEMPT'] == '1' else 0)\n"
    options = {"workers": 0, "servers": 1}
    running = job(script, launcher="mxnet", launcher_options=options, hosts=3, spares=1, min_hosts=2, heartbeat_timeout=3)
    units = len(running.units)
    wait_until(lambda: len(running.records(1)) == units)
    names = [name for name, record in running.records(1).items() if record["host"] == "worker1"]
    assert units == 3 * len(names)
    for name in names:
        kill(running, name)
    running.wait()
    found = running.status()
    assert (found["state"], found["attempt"]) == ("succeeded", 2)
    assert explain(found["attempts"][0]) == "worker1 cannot be used, so the job continues with spare worker3."
    assert {each["name"]: each["host"] for each in found["processes"]}["scheduler"] == "worker2"


def test_a_job_whose_spare_an_operator_stops_is_stopped(job):
    running = job(trains(LONG), hosts=2, spares=1, min_hosts=1)
    wait_until(lambda: "up" in running.log("rank0") and "standby0" in running.records(1))
    running.started[1].send_signal(signal.SIGTERM)
    running.wait()
    assert (running.status()["state"], running.status()["attempt"]) == ("stopped", 1)


@pytest.mark.parametrize("restarts", [0, 3])
def test_a_spare_obeys_the_time_limit(job, restarts):
    running = job("import time\ntime.sleep(600)\n", hosts=2, spares=1, min_hosts=1, time_limit=2, restarts=restarts)
    running.wait()
    found = running.status()
    assert (found["state"], found["failure"]["name"]) == ("failed", "rank0")
    assert all(each["state"] != "running" for each in found["processes"])


def test_a_job_that_needs_the_lost_host_stops(job):
    running = job(trains(LONG), heartbeat_timeout=3)
    wait_until(lambda: "up" in running.log("rank0") and "up" in running.log("rank1"))
    process = running.started.pop(0)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    running.wait()
    found = running.status()
    assert (found["state"], found["failure"]["host"]) == ("lost", "worker1")
    assert explain(found["attempts"][0]) == "worker1 cannot be used, and the job needs 2 hosts (training_job_min_hosts)."


def test_a_killed_supervisor_ends_the_job_and_is_named(job, program):
    running = job(trains(LONG))
    wait_until(lambda: "up" in running.log("rank0") and "up" in running.log("rank1"))
    process = running.started.pop(0)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    spec = str(running.units["rank0"] / "spec.json")
    subprocess.run([sys.executable, str(program), "finish", spec], env={**os.environ, "SERVICE_RESULT": "signal"}, check=False, timeout=300)
    running.wait()
    found = running.status()
    assert (found["state"], found["failure"]["name"]) == ("failed", "rank0")
    assert "worker1 cannot be used" in explain(found["attempts"][0])


@pytest.mark.parametrize("missing", ["rank0", "rank1"])
def test_a_host_that_does_not_start_a_later_attempt_is_lost(job, missing):
    """The host disappears after the decision. Its process has no record, so only a timeout detects the loss."""
    running = job(trains("time.sleep(600 if attempt == 2 else 0)"), attempt=2, without=missing, heartbeat_timeout=3, min_hosts=1)
    os.makedirs(running.paths.status, exist_ok=True)
    records.write_json(running.paths.following, {"action": "restart", "rule": "same_hosts", "decided": time.time()})
    assert running.wait() == [0]
    found = running.status()
    assert (found["state"], found["attempt"], found["process_count"]) == ("succeeded", 3, 1)
    assert f"rank {missing[-1]} on worker{int(missing[-1]) + 1} has sent no heartbeat" in attempt_cause(found["attempts"][1])


def test_all_supervisors_follow_the_decision_that_others_will_read(job, monkeypatch):
    """The job changes a decision after it was written."""
    running = job("raise SystemExit(3)", hosts=1, restarts=1)
    running.wait()
    spec = json.loads((running.units["rank0"] / "spec.json").read_text())
    verdict = records.read_verdict(running.paths.of_attempt(spec["attempt"]))

    def follow(changed):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(paths.following)

        def write(path, document):
            with open(path, "w", encoding="utf-8") as file:
                file.write(changed(document))
            return True

        monkeypatch.setattr(between_attempts, "write_new_json", write)
        return between_attempts.Recovery(spec, between_attempts.TrainingState([], None), lambda _record: False, lambda: False).following(
            verdict
        )

    paths = running.paths.of_attempt(spec["attempt"])
    records.write_json(paths.record("rank0"), {**running.records(2)["rank0"], "available": True})
    assert follow(lambda document: json.dumps({**document, "rule": "operator"}))["rule"] == "operator"
    invalid = follow(lambda _document: "{}")
    assert between_attempts.summary(verdict, invalid) == ("attempt ended: rank0 worker1 failed exit_status exit status 3; stop: invalid")


def test_an_attempt_whose_decision_is_not_valid_counts_as_one_without_progress(job):
    """The attempt numbers in messages are correct, and a job that deletes its decisions gains no additional restarts."""
    script = """
        if attempt > 1:
            (folder.parent / "status" / ("next" if attempt == 2 else f"attempt{attempt - 1}/next")).write_text("{}")
        os.kill(os.getpid(), signal.SIGKILL)
    """
    running = job(trains(script), hosts=1, restarts=2)
    running.wait()
    assert records.read_following(running.paths.of_attempt(3))["rule"] == "no_restarts_left"


def test_a_decision_that_a_job_has_forged_names_no_other_hosts_and_files(job):
    """The files belong to the job's user, so their contents are used only within the job."""
    script = """
        import json
        if attempt == 1:
            pathlib.Path(os.environ["DEEPLEARNING_JOB_DIRECTORY"], "status/next").write_text(json.dumps({
                "action": "restart", "rule": "same_hosts", "decided": 1.0, "hosts": ["elsewhere"],
                "set_aside": {"name": "missing", "changed": 1.0},
            }))
            sys.exit(3)
    """
    running = job(trains(script), hosts=1)
    assert running.wait() == [3]
    assert "cannot be followed: No host is left for the next attempt." in (running.units["rank0"] / "journal").read_text()
    assert not os.path.exists(running.paths.of_attempt(2).status)


STEPS = textwrap.dedent("""
    import faulthandler, json
    faulthandler.register(signal.SIGUSR1)
    def report(step):
        if rank == 0:
            with open(os.environ["DEEPLEARNING_PROGRESS"], "a") as file:
                file.write(json.dumps({"step": step, "steps": 100}) + "\\n")
        time.sleep(0.1)
""")


def test_a_suspended_rank_is_a_hang_and_the_job_goes_on(job):
    """One rank is suspended, and the other rank waits for it. The stacks of both ranks are collected before any process is killed."""
    script = """
        for step in range(20):
            report(step)
        save(first)
        if attempt == 1:
            if rank == 1:
                os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(600)
    """
    running = job(trains(STEPS + textwrap.dedent(script)), hang_steps=3)
    assert running.wait() == [0, 0]
    found = running.status()
    assert (found["state"], found["attempt"]) == ("succeeded", 2)
    line = next(number for number, text in enumerate(trains(STEPS + textwrap.dedent(script)).splitlines(), 1) if "sleep(600)" in text)
    cause = attempt_cause(found["attempts"][0])
    assert cause.startswith("rank 1 on worker2 made no progress for ")
    assert cause.endswith(f" (it is suspended; the other rank is at train.py, line {line})")
    assert explain(found["attempts"][0]) == "The job continues on the same hosts."
    assert {name: record["state"] for name, record in running.records(1).items()} == {"rank0": "stopped", "rank1": "failed"}
    stacks = {path.name: path.read_text() for path in pathlib.Path(running.paths.stacks).iterdir()}
    assert re.search(rf'train\.py(", line {line} in <module>|:{line}\))', stacks["rank0.txt"]), "from faulthandler or py-spy"
    assert "state T" in stacks["rank1.txt"]


PAUSES = """
    for step in range(20):
        report(step)
    if rank == 0:
        for second in range(9):
            time.sleep(1)
            print("evaluating", flush=True)
    for step in range(20, 25):
        report(step)
"""


@pytest.mark.parametrize(("changes", "attempts_made"), [({"hang_minimum": 5}, 1), ({"restarts": 1}, 2)])
def test_an_evaluation_between_steps_is_no_hang_while_it_shows_activity(job, changes, attempts_made):
    """Without the minimum, the same script counts as hanging."""
    running = job(trains(STEPS + textwrap.dedent(PAUSES)), hang_steps=3, **changes)
    running.wait()
    assert running.status()["attempt"] == attempts_made


def test_a_silent_job_is_a_hang_that_ends_a_job_without_restarts(job):
    """The script reports no steps and does not register faulthandler, so only its output and the kernel functions of its threads are
    known.
    """
    running = job("import time\nprint('up', flush=True)\ntime.sleep(600)\n", hang_timeout=2, restarts=0)
    running.wait()
    found = running.status()
    assert (found["state"], found["attempt"]) == ("failed", 1)
    message = job_formatting.failure_message(found, "run {}".format)
    assert "made no progress for " in message
    assert "with no output, reported step or checkpoint" in message
    assert f"The stacks of all processes are in {running.paths.stacks} on the cluster." in message
    assert sorted(os.listdir(running.paths.stacks)) == ["rank0.txt", "rank1.txt"]


def test_a_job_that_only_says_that_it_waits_hangs(job):
    """The lock is left over from a process that was killed. huggingface_hub prints this line every 10 s."""
    script = """
        for turn in range(1200):
            print(f"Still waiting to acquire lock on /home/.locks/x.lock (elapsed: {turn / 2} seconds)", flush=True)
            time.sleep(0.5)
    """
    running = job(trains(script), hosts=1, hang_timeout=3, restarts=0)
    running.wait()
    assert "made no progress for " in job_formatting.failure_message(running.status(), "run {}".format)


def test_a_job_that_shows_activity_does_not_hang(job):
    script = """
        for turn in range(8):
            time.sleep(0.5)
            print(turn, flush=True) if turn % 2 else (folder / f"{turn}.tmp").touch()
    """
    running = job(trains(script), hosts=1, hang_timeout=2)
    assert running.wait() == [0]
    assert (running.status()["state"], running.status()["attempt"]) == ("succeeded", 1)


@pytest.mark.parametrize(
    ("others", "message", "restarts", "expected"),
    [
        (["failed"], "Connection reset by peer", 3, "worker1"),
        (["failed", "running"], "Connection reset by peer", 3, ""),
        (["failed"], "no number", 3, ""),
        (["failed"], "Connection reset by peer", 0, ""),
    ],
    ids=["all processes have ended", "one process runs", "another error", "no restarts"],
)
def test_a_process_with_open_connections_to_a_host_whose_processes_have_ended(monkeypatch, tmp_path, others, message, restarts, expected):
    paths = directories.Paths(str(tmp_path))
    os.makedirs(paths.status)
    record = {"ranks": [], "part": "worker", "processes": 3, "started": 1.0, "heartbeat": 1.0, "finished": 1.0}
    record["cause"] = {"kind": "script_error", "what": "OSError at train.py, line 9", "message": message}
    states = [("worker1", state) for state in others] + [("worker2", "running")]
    for rank, (host, state) in enumerate(states):
        name = f"rank{rank}"
        records.write_json(paths.record(name), {**record, "name": name, "rank": rank, "host": host, "state": state})
    hosts = [{"name": f"worker{number}", "address": f"10.0.0.{number}"} for number in (1, 2)]
    spec = {"directory": paths.directory, "attempt": 1, "parameters": {"hosts": hosts, "restarts": restarts}}
    monkeypatch.setattr(between_attempts.connections, "open_to", lambda _pids, addresses: {"10.0.0.1"} & set(addresses))
    assert between_attempts.still_connected(spec, {"state": "failed", "failure": records.read_record(paths.record("rank0"))}) == expected


def test_the_line_at_which_a_signal_ends_a_script_is_known(job):
    running = job(trains("os.abort()"), hosts=1, restarts=1)
    running.wait()
    line = next(number for number, text in enumerate(trains("os.abort()").splitlines(), 1) if "abort" in text)
    assert attempt_cause(running.status()["attempts"][0]) == f"rank 0 on worker1 was killed by signal SIGABRT at train.py, line {line}"


def test_a_job_that_reaches_its_time_limit_is_not_restarted(job):
    running = job("import time\ntime.sleep(600)\n", time_limit=1)
    running.wait()
    found = running.status()
    assert (found["state"], found["attempt"]) == ("failed", 1)
    assert "reached its time limit of 1 s" in job_formatting.failure_message(found, "run {}".format)


def saved(name, changed=1.0):
    return [Saved(name, [name], changed)]


@pytest.mark.parametrize(
    ("before", "after", "place", "expected"),
    [
        (between_attempts.TrainingState([], 5), between_attempts.TrainingState([], 9), "/efs/c", False),
        (between_attempts.TrainingState([], None), between_attempts.TrainingState(saved("1"), None), "/c", True),
        (between_attempts.TrainingState(saved("1"), 5), between_attempts.TrainingState(saved("1", 2.0), 9), "/c", False),
        (between_attempts.TrainingState(saved("last"), 5), between_attempts.TrainingState(saved("last", 2.0), 5), "/c", False),
        (between_attempts.TrainingState(saved("last"), 5), between_attempts.TrainingState(saved("last", 2.0), 9), "/c", True),
        (between_attempts.TrainingState(saved("last"), None), between_attempts.TrainingState(saved("last", 2.0), 1), "/c", True),
        (between_attempts.TrainingState(saved("last"), 5), between_attempts.TrainingState(saved("last"), 9), "/c", False),
        (between_attempts.TrainingState([], 5), between_attempts.TrainingState([], 9), "s3://b/c", True),
        (between_attempts.TrainingState([], 9), between_attempts.TrainingState([], 9), "s3://b/c", False),
    ],
)
def test_a_checkpoint_is_progress_and_where_none_can_be_seen_a_step_is(before, after, place, expected):
    assert between_attempts.has_progressed(before, after, {"environment": {between_attempts.CHECKPOINTS: place}}) is expected


# Each rank works until it gets SIGTERM, needs 1 s to save a checkpoint, and ends. Attempt 2 succeeds.
SAVES = """
    def end(*_signal):
        print("saves", flush=True)
        time.sleep(1)
        save(first)
        print("has saved", flush=True)
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    time.sleep(600 if attempt == 1 else 0)
"""


def test_a_supervisor_of_an_earlier_attempt_takes_no_part_in_a_job_that_continues(job):
    """The supervisor of rank 1 returns after the job has ended and has been started again."""
    running = job(trains("sys.exit(0 if attempt == 2 else 9)"), restarts=2, without="rank1")
    os.makedirs(running.paths.status, exist_ok=True)
    failure = {"name": "rank0", "rank": 0, "ranks": [0], "host": "worker1", "part": "worker", "processes": 2, "state": "lost"}
    failure.update(started=1.0, heartbeat=2.0)
    records.write_json(running.paths.verdict, {"state": "lost", "failure": failure, "restartable": True})
    continued = {"action": "restart", "rule": "continued", "decided": time.time(), "hosts": []}
    records.write_json(running.paths.following, continued)
    running.start("rank1")
    running.wait()
    assert not os.path.exists(running.paths.of_attempt(2).status)
    assert running.status()["attempt"] == 1


def test_a_continued_job_has_all_of_its_restarts(job):
    """The first attempts have used up the restarts. The job then continues with attempt 4, whose failure is followed by a restart."""
    running = job(trains("sys.exit(0 if attempt == 5 else 9)"), restarts=2, attempt=4, without="rank1", restart_exit_codes=[9])
    for attempt in (1, 2, 3):
        paths = running.paths.of_attempt(attempt)
        os.makedirs(paths.status, exist_ok=True)
        rule = "continued" if attempt == 3 else "same_hosts"
        cause = {"kind": "signal", "what": "signal SIGKILL", "name": "SIGKILL"}
        records.write_json(paths.following, {"action": "restart", "rule": rule, "decided": time.time(), "cause": cause, "hosts": []})
    running.start("rank1")
    assert running.wait() == [0, 0]
    assert (running.status()["state"], running.status()["attempt"]) == ("succeeded", 5)


@pytest.fixture
def metadata_service():
    with MetadataService() as service:
        yield service


@pytest.mark.parametrize(("noticed", "lead"), [("rank1", "rank0"), ("rank0", "rank1")])
def test_a_spot_interruption_lets_all_ranks_save_and_the_job_continues_without_the_host(job, metadata_service, noticed, lead):
    running = job(trains(SAVES), hosts=3, min_hosts=2, metadata={noticed: metadata_service.port})
    wait_until(lambda: all("begins" in running.log(f"rank{rank}") for rank in range(3)))
    metadata_service.interrupt(120)
    began = time.time()
    wait_until(lambda: all("saves" in running.log(f"rank{rank}") for rank in range(3)), 7)
    assert time.time() - began < 7
    assert sorted(running.wait())[:2] == [0, 0]
    assert all("has saved" in running.log(f"rank{rank}") for rank in range(3)), "all ranks have the time to save"
    found = running.status()
    assert (found["state"], found["attempt"], [each["hosts"] for each in found["attempts"]]) == ("succeeded", 2, [3, 2])
    host = f"worker{1 + int(noticed[-1])}"
    assert attempt_cause(found["attempts"][0]).startswith(
        f"rank {noticed[-1]} on {host} was stopped because of the spot interruption of the host"
    )
    assert explain(found["attempts"][0]) == f"The job continues without {host}."
    following = records.read_following(running.paths)
    assert (following["cause"]["kind"], following["missing"], following["progress"]) == ("spot_interruption", [host], True)
    assert "begins with epoch 2" in running.log("rank0", attempt=2)
    first = running.records(1)
    assert (first[noticed]["state"], first[noticed]["available"]) == ("failed", False)
    assert first[lead]["state"] == "stopped"


def test_a_spot_interruption_without_enough_hosts_ends_the_job(job, metadata_service):
    metadata_service.interrupt(120)
    running = job(trains(SAVES), metadata={"rank1": metadata_service.port})
    running.wait()
    found = running.status()
    assert (found["state"], found["attempt"]) == ("failed", 1)
    assert explain(found["attempts"][0]) == "worker2 cannot be used, and the job needs 2 hosts (training_job_min_hosts)."


def test_a_spot_interruption_ends_a_job_without_restarts(job, metadata_service):
    running = job(trains(SAVES), restarts=0, metadata={"rank1": metadata_service.port})
    wait_until(lambda: all("begins" in running.log(f"rank{rank}") for rank in range(2)))
    metadata_service.interrupt(120)
    running.wait()
    assert all("has saved" in running.log(f"rank{rank}") for rank in range(2))
    found = running.status()
    assert (found["state"], found["failure"]["name"]) == ("failed", "rank1")
    assert found["failure"]["cause"]["kind"] == "spot_interruption"


def test_the_interruption_of_a_spare_does_not_affect_the_job(job, metadata_service):
    running = job(trains("time.sleep(6)"), hosts=3, min_hosts=2, spares=1, metadata={"standby0": metadata_service.port})
    wait_until(lambda: "begins" in running.log("rank0"))
    metadata_service.interrupt(120)
    wait_until(lambda: running.records(1).get("standby0", {}).get("available") is False)
    running.wait()
    assert (running.status()["state"], running.status()["attempt"]) == ("succeeded", 1)


def test_the_end_of_a_capacity_block_ends_the_attempt(job):
    running = job(trains(SAVES), capacity_end=time.time() + 30 * 60 + 10 * 60 + 3)
    wait_until(lambda: all("begins" in running.log(f"rank{rank}") for rank in range(2)))
    running.wait()
    found = running.status()
    assert found["state"] == "failed"
    assert all("has saved" in running.log(f"rank{rank}") for rank in range(2))
    assert "because of the end of the host's Capacity Block" in attempt_cause(found["attempts"][0])


def test_the_end_of_the_lease_ends_the_job_in_time_to_save(job, tmp_path):
    running = job(trains(SAVES), restarts=3)
    wait_until(lambda: all("begins" in running.log(f"rank{rank}") for rank in range(2)))
    end = time.gmtime(time.time() + 10 * 60 - 1)
    (tmp_path / "lease").write_text(time.strftime("%Y-%m-%dT%H:%M:%SZ\n", end))
    running.wait()
    found = running.status()
    assert (found["state"], len(found["attempts"]), found["failure"]["cause"]["kind"]) == ("failed", 1, "lease_end")
    assert all("has saved" in running.log(f"rank{rank}") for rank in range(2))
    assert explain(found["attempts"][-1]).startswith("AWS terminates the nodes at the end of their lease.")
