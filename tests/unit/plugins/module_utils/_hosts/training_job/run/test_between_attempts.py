"""Tests of a job's attempts. The tests run the supervisors of all hosts as programs, in the same way as on hosts, but on one machine."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.files import goodput
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import between_attempts, host_metrics, supervisor
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import (
    directories,
    exclusion_after_failures,
    failure_causes,
    records,
    recovery,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.checkpoint_layouts import Saved
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition import attempt_processes
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import job_formatting
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.attempt_messages import attempt_cause, explain
from local_cloud.testing import wait_until

from .metadata_service import MetadataService
from .supervised_jobs import Health, Job


@pytest.fixture
def job(tmp_path, program):
    """Return a function that starts a job. The job's processes are killed after the test."""
    with contextlib.ExitStack() as stack:

        def start(script, **changes):
            result = Job(tmp_path, program, script, **changes)
            stack.callback(result.end)
            return result

        yield start


@pytest.fixture
def health(tmp_path):
    with contextlib.ExitStack() as stack:
        yield Health(tmp_path, stack)


@pytest.fixture
def failures(tmp_path):
    """The directory with the records of the failures of hosts."""
    result = tmp_path / "jobs" / exclusion_after_failures.FAILURES_DIRECTORY
    result.mkdir(parents=True)
    return result


# Rank 0 fails first. The processes of the first attempt never end by themselves.
WAITS = "time.sleep(600 if attempt <= 1 else 0)\n"
WAITS_TWICE = WAITS.replace("1", "2")
ONE_FAILS = "if rank == 1:\n    int('x')  # HERE\ntime.sleep(600)"
FAILS = f"""
if attempt == 1 and rank == 0:
    time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)
{WAITS}
"""
LONG = """
    save(first)
    if attempt == 1:
        print("up", flush=True)
        time.sleep(600)
"""
ARGUMENTS = """
    import argparse
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", required=True)
    parser.parse_args()
"""
# Rank 1 prints an exception and cleans up without end. Rank 0 waits for it too long.
RAISES = """
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
LOCK = """
    lock = pathlib.Path.home() / ".cache/torch_extensions/py310/x/lock"
    if rank == 1:
        lock.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
        if attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        lock.unlink()
    time.sleep(600 if attempt == 1 else 0)
"""
# The files that TensorFlow writes when a session is created are not progress.
RESAVES = """
    if rank == 0:
        step = max((int(path.suffixes[-2].rpartition("-")[2]) for path in folder.glob("*.index")), default=0)
        parts = [f"model.ckpt-{step}.{part}" for part in ("data-00000-of-00001", "index", "meta")]
        for name in ("graph.pbtxt", f"events.out.tfevents.{attempt}", *parts, "checkpoint"):
            (folder / name).write_text(f'model_checkpoint_path: "model.ckpt-{step}"\\n' if name == "checkpoint" else "")
    int('not a number')
"""
# The lock is left over from a process that was killed. huggingface_hub prints this line every 10 s.
WAITS_FOR_LOCK = """
    for turn in range(1200):
        print(f"Still waiting to acquire lock on /home/.locks/x.lock (elapsed: {turn / 2} seconds)", flush=True)
        time.sleep(0.5)
"""
ACTIVE = """
    for turn in range(8):
        time.sleep(0.5)
        print(turn, flush=True) if turn % 2 else (folder / f"{turn}.tmp").touch()
"""
# Between two steps, rank 0 evaluates. Without a minimum, this counts as hanging.
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
SUBPROCESS = "import subprocess\nsubprocess.run([sys.executable, '-c', 'import nothing_like_it'], check=True)"
SAME_ERROR = "The same error ended attempts 1 and 2, with no new checkpoint in between."
CERTAIN = "The same error would end each attempt."
# An error that only one host has.
ONLY_HERE = 'if "/units/rank1/" in open(f"/proc/{os.getppid()}/cmdline").read():\n    '
SPARE = {"hosts": 4, "spares": 1, "min_hosts": 3}
LIMITED = {"spares": 1, "min_hosts": 1, "time_limit": 2}
FIRST = {"hosts": 3, "launcher_options": {"hosts": "first"}}


@pytest.mark.parametrize(
    ("script", "options", "end", "cause", "why"),
    [
        (RAISES, {}, "succeeded 2", r"rank 1 on worker2 raised an exception .* \(OSError at .*: no such shard\)$", "the same hosts"),
        (LOCK, {}, "succeeded 2", "rank 1 on worker2 was killed by signal SIGKILL", "the same hosts"),
        (ONE_FAILS, {}, "failed 2", "ValueError at train.py", f"not restarted again. {SAME_ERROR} Correct line {{line}} of train.py or"),
        ("import nothing_like_it", {}, "failed 1", "ModuleNotFound", f"{CERTAIN}\nCorrect the name 'nothing_like_it' if it is"),
        (f"{ONLY_HERE}import nothing\n{WAITS}", SPARE, "succeeded 2", "on worker2", "^Only worker2 had this error"),
        (
            f"{ONLY_HERE}raise RuntimeError('CUDA')\n{WAITS_TWICE}",
            SPARE,
            "succeeded 3",
            "on worker2",
            "^Attempts 1 and 2 failed on worker2",
        ),
        (SUBPROCESS, {}, "failed 1", "ModuleNotFound", CERTAIN),
        (ARGUMENTS, {}, "failed 1", "wrong arguments: .* required: --epochs", f"{CERTAIN} Correct training_job_arguments"),
        (RESAVES, {}, "failed 2", "ValueError", SAME_ERROR),
        ("os.kill(os.getpid(), 9)", {"hosts": 1, "restarts": 2}, "failed 3", "SIGKILL", "restarts is 2, and each of the last 2 restarts"),
        ("sys.exit(3 if attempt == 1 else 0)", FIRST, "succeeded 2", "exit status 3", "the same hosts"),
        ("sys.exit(3)", {"restarts": 0}, "failed 1", "exit status 3", ""),
        ("os.abort()  # HERE", {"hosts": 1, "restarts": 1}, "failed 2", r"was killed by signal SIGABRT at train\.py, line {line}", ""),
        ("time.sleep(600)", {"time_limit": 1}, "failed 1", "reached its time limit of 1 s", ""),
        ("time.sleep(600)", LIMITED, "failed 1", "rank 0 .* limit", ""),
        ("time.sleep(600)", {**LIMITED, "restarts": 0}, "failed 1", "rank 0 .* limit", ""),
        (WAITS_FOR_LOCK, {"hosts": 1, "hang_timeout": 3, "restarts": 0}, "failed 1", "made no progress for", ""),
        (ACTIVE, {"hosts": 1, "hang_timeout": 2}, "succeeded 1", "", ""),
        (PAUSES, {"hang_steps": 3, "hang_minimum": 5}, "succeeded 1", "", ""),
        (PAUSES, {"hang_steps": 3, "restarts": 1}, "failed 2", "made no progress for", "restarts is 1"),
    ],
)
def test_a_failure_has_a_cause_and_consequences(job, script, options, end, cause, why):
    """`end` is the state of the job and its last attempt."""
    running = job(script, **options)
    state, attempt = end.split()
    found = running.ends(state, int(attempt))
    message = job_formatting.failure_message(found, "run {}".format) if state == "failed" else ""
    line = str(running.line("HERE")) if "HERE" in script else ""
    failed = found["attempts"] if state == "failed" else found["attempts"][:-1]
    for ended in failed:
        assert re.search(cause.replace("{line}", line), attempt_cause(ended) or message)
    told = message or (explain(failed[-1]) if failed else "")
    assert re.search(why.replace("{line}", line), told), told
    assert all(each["state"] != "running" for each in found["processes"])
    if options.get("restarts") == 0:
        assert running.following() is None
        assert "not restarted" not in message
    if options is SPARE:
        assert {process["host"] for process in found["processes"]} == {"worker1", "worker3", "worker4"}


def test_a_killed_process_is_started_again_from_the_checkpoint(job):
    script = """
        save(first)
        if attempt == 1 and rank == 1:
            while not (folder / "1").exists():
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600 if attempt == 1 else 0)
    """
    running = job(script)
    found = running.ends(statuses=[0, 0])
    assert running.log("rank0", 2) == "rank 0 of 2 begins with epoch 2\n"
    assert {name: record["state"] for name, record in running.records(1).items()} == {"rank0": "stopped", "rank1": "failed"}
    assert [each.get("action", each["state"]) for each in found["attempts"]] == ["restart", "succeeded"]
    assert running.specs["rank0"].stat().st_mode & 0o777 == 0o600, "it contains secrets"


def test_the_first_process_writes_the_metrics_of_the_job(job, tmp_path):
    script = """
        save(first)
        if attempt == 1:
            while not os.path.exists("go"):
                time.sleep(0.05)
            sys.exit("a passing fault")
    """
    (tmp_path / "metrics").mkdir()
    file = tmp_path / "metrics/deeplearning-digits.prom"
    running = job(script, metrics_directory=str(file.parent))

    def metrics():
        found = dict(line.rsplit(" ", 1) for line in file.read_text().splitlines() if not line.startswith("#"))
        return found, [
            found.get(f'deeplearning_job_{name}{{cluster="demo",training_job="digits"}}') for name in ("running", "attempts", "nodes")
        ]

    wait_until(file.exists)
    assert metrics()[1][0] == "1.0"
    (tmp_path / "jobs/digits/code/go").touch()
    running.wait()
    running.finish()
    found, last = metrics()
    assert last == ["0.0", "2.0", "2.0"]
    spent = goodput.measure(running.paths, 60).goodput
    seconds = [float(value) for name, value in found.items() if name.startswith("deeplearning_job_node_seconds{")]
    assert sum(seconds) == pytest.approx(sum(spent["buckets"].values()))
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_host_that_leaves_the_job_deletes_its_metrics(job, tmp_path):
    (tmp_path / "metrics").mkdir()
    file = tmp_path / "metrics/deeplearning-digits.prom"
    running = job("time.sleep(600)", metrics_directory=str(file.parent))
    wait_until(file.exists)
    running.wait_for_records("rank0", "rank1")
    host_metrics.write(running.spec("rank0"), is_last=True)
    assert not file.exists()


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
    running = job("sys.exit(3)", launcher="deepspeed", launcher_options={"local_rank": False}, restart_exit_codes=[3], restarts=2)
    running.ends("failed", 3)
    spec = running.spec("rank0")
    first = attempt_processes.plan_specs(spec["parameters"], running.paths)[0]
    assert spec["environment"]["MASTER_PORT"] != first["environment"]["MASTER_PORT"]


def test_nothing_of_an_attempt_is_left_when_the_next_one_starts(job):
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
    running = job(script, hosts=1)
    running.ends(statuses=[0])
    assert running.log("rank0", 2).splitlines()[-1] == "left False"


def test_a_checkpoint_that_no_attempt_could_load_is_not_set_aside(job):
    script = """
        if attempt > 1:
            raise ValueError("WeightsUnpickler error: GLOBAL numpy.dtype was not an allowed global by default.")
        save(1)
        save(2)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    running = job(script, hosts=1)
    assert explain(running.ends("failed")["attempts"][-1]) == "The same error would end each attempt. Its message says what to change."
    assert sorted(os.listdir(running.paths.checkpoints)) == ["1", "2"]


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
    running = job(script)
    running.ends(attempt=3, statuses=[0, 0])
    suspect, *rest = sorted(os.listdir(running.paths.checkpoints))
    assert (suspect[:9], suspect[-2:], rest) == (".suspect-", "-2", ["1", "2"])
    assert "begins with epoch 2" in running.log("rank0", 3)


@pytest.mark.parametrize("older", [True, False])
def test_a_damaged_checkpoint_is_set_aside_after_the_first_failure(job, older):
    """Frameworks that write to the final name leave a damaged checkpoint when they are killed, and choose it when they start again."""
    script = f"""
        import zipfile
        saved = sorted(folder.glob("step-*.pt"))
        for path in saved[-1:]:
            zipfile.ZipFile(path).close()
        print("begins with", [path.name for path in saved], flush=True)
        if attempt == 1:
            for step in range(1, 3) if {older} else [2]:
                with zipfile.ZipFile(folder / f"step-{{step}}.pt", "w") as file:
                    file.writestr("data", b"weights" * 100)
            os.truncate(folder / "step-2.pt", 300)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    running = job(script, hosts=1)
    found = running.ends(statuses=[0])
    assert f"begins with {['step-1.pt'] if older else []}" in running.log("rank0", 2)
    told = "the job uses the checkpoint before it." if older else "no complete checkpoint is left, and the script may start over."
    assert explain(found["attempts"][0]).endswith(f"Checkpoint step-2.pt is damaged, so {told}")


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_full_disk_is_named_and_no_checkpoint_is_set_aside(job, is_removed):
    """The message of torch.save() does not contain the system's message, and a script can delete what it could not save."""
    script = f"""
        saved = sorted(folder.glob("*.pt"))
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
    last = running.ends("failed")["attempts"][-1]
    assert explain(last).startswith("The storage ended attempts 1 and 2, with no new checkpoint in between. Free space ")
    assert is_removed or f"while {running.paths.checkpoints} was full (0 bytes of 512 KiB free)" in attempt_cause(last)
    assert "set_aside" not in running.following(1)


MXNET = {"launcher": "mxnet", "launcher_options": {"workers": 0, "servers": 1}, "heartbeat_timeout": 3}


@pytest.mark.parametrize(
    ("options", "state", "attempt", "why"),
    [
        (
            {"hosts": 2, "min_hosts": 1},
            "lost",
            1,
            "The launcher cannot run the job on the remaining hosts: mxnet would need additional processes on a host.",
        ),
        ({"hosts": 3, "spares": 1, "min_hosts": 2}, "succeeded", 2, "worker1 cannot be used, so the job continues with spare worker3."),
    ],
)
def test_a_launcher_that_needs_the_lost_host_stops_the_job_unless_there_is_a_spare(job, options, state, attempt, why):
    """The scheduler of MXNet can move only to a host that has a unit for it."""
    running = job(WAITS, **MXNET, **options)
    running.wait_for_records(*running.specs)
    on_first = [name for name, record in running.records(1).items() if record["host"] == "worker1"]
    assert state == "lost" or len(running.specs) == options["hosts"] * len(on_first)
    running.kill(*on_first)
    found = running.ends(state, attempt)
    assert explain(found["attempts"][0]) == why
    assert state == "lost" or {each["name"]: each["host"] for each in found["processes"]}["scheduler"] == "worker2"


@pytest.mark.parametrize("options", [{}, {"spares": 1, "min_hosts": 1}], ids=["a rank", "a spare"])
def test_an_operator_stops_all_attempts(job, options):
    running = job(LONG, **options)
    second = list(running.specs)[-1]
    running.wait_for("up", 0, *([] if options else [1]))
    running.wait_for_records(second)
    running.started[second].send_signal(signal.SIGTERM)
    running.ends("stopped", 1)


# Rank 0 fails, and the supervisor of rank 1 is suspended, so the other supervisor waits for it.
HALF = "if rank == 1:\n    time.sleep(600)\nsys.exit(3)\n"


def test_an_operator_stops_a_job_between_two_attempts(job):
    running = job(HALF)
    running.wait_for_records("rank1")
    os.killpg(running.started["rank1"].pid, signal.SIGSTOP)
    wait_until(lambda: running.records(1).get("rank0", {}).get("available"))
    assert running.status()["state"] == "running"
    running.started["rank0"].send_signal(signal.SIGTERM)
    running.started["rank0"].wait(300)
    assert running.status()["state"] == "failed"
    assert explain(running.status()["attempts"][0]) == "An operator stopped the job."


def test_a_job_reaches_its_time_limit_between_two_attempts(job):
    running = job(HALF, time_limit=5, heartbeat_timeout=600)
    running.wait_for_records("rank1")
    os.killpg(running.started["rank1"].pid, signal.SIGSTOP)
    running.started["rank0"].wait(300)
    assert running.following()["rule"] == "time_limit"
    assert running.records(1)["rank0"]["available"] is False


@pytest.mark.parametrize("restarts", [0, 3])
def test_a_process_that_the_job_has_invented_does_not_hold_up_the_time_limit(job, restarts):
    script = """
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
    running = job(script, hosts=1, restarts=restarts, time_limit=4, stop_timeout=1, heartbeat_timeout=2)
    assert running.wait() == [0]
    assert records.read_verdict(running.paths) is None


@pytest.mark.parametrize("lost", [1, 0], ids=["another host", "the first host"])
@pytest.mark.parametrize(
    ("spares", "hosts", "why"),
    [
        (0, [(1, "worker3")], "The job continues without worker{}."),
        (2, [(1, "worker3"), ("standby0", "worker4")], "worker{} cannot be used, so the job continues with spare worker3."),
    ],
)
def test_a_job_continues_without_a_host_that_is_silent(job, lost, spares, hosts, why):
    """Three or two hosts train. If spares wait, the world size does not change, and one host still waits."""
    ranks = 3 if not spares else 2
    running = job(LONG, hosts=ranks + spares, spares=spares, min_hosts=2, heartbeat_timeout=3)
    running.wait_for("up", *range(ranks))
    running.wait_for_records(*running.specs)
    assert not spares or "2 processes on 2 hosts and 2 spares" in job_formatting.job_line(running.status())
    running.kill(f"rank{lost}")
    found = running.ends()
    assert found["process_count"] == 2
    expected = [(0, "worker1" if lost else "worker2"), *hosts]
    assert [(each["name"], each["host"], each["state"]) for each in found["processes"]] == [
        (name if isinstance(name, str) else f"rank{name}", host, "succeeded") for name, host in expected
    ]
    assert [one["hosts"] for one in found["attempts"]] == [ranks, 2]
    assert attempt_cause(found["attempts"][0]).startswith(f"rank {lost} on worker{lost + 1} has sent no heartbeat since")
    assert explain(found["attempts"][0]) == why.format(lost + 1)
    assert running.log("rank0", 2) == "rank 0 of 2 begins with epoch 2\n"
    if spares:
        assert "  spares       1 (worker4)" in job_formatting.summary(found, {})
        spent = {each["host"]: each["buckets"] for each in goodput.measure(running.paths, 60).goodput["hosts"]}
        assert spent["worker4"]["idle"] > spent["worker3"]["idle"] > 3
        assert spent["worker4"]["training"] == 0 < spent["worker3"]["training"]


XID = {"check": "xid", "severity": "replace", "message": "GPU 0000:64:00: Xid 79 (the GPU has fallen off the bus)."}
FOUND = "health finding on worker2: GPU 0000:64:00: Xid 79 (the GPU has fallen off the bus)"


def test_a_health_finding_is_the_cause_and_a_spare_takes_the_place_of_the_host(job, health, failures):
    """Rank 0 is killed on worker1, but the GPU of worker2 has failed."""
    health.answers("rank1", XID)
    found = job(FAILS, hosts=3, spares=1, min_hosts=2).ends()
    assert [each["host"] for each in found["processes"]] == ["worker1", "worker3"]
    assert attempt_cause(found["attempts"][0]) == FOUND
    assert explain(found["attempts"][0]).startswith("The job continues with spare worker3 in place of worker2. worker2 should be replaced.")
    assert os.listdir(failures) == ["i-0123456789abcdef0,digits,1"]


def test_a_job_without_enough_healthy_hosts_says_what_its_host_needs(job, health):
    health.answers("rank1", {**XID, "severity": "reboot"})
    message = job_formatting.failure_message(job(FAILS).ends("failed", 1), lambda playbook: playbook)
    assert "because health finding on worker2: GPU 0000:64:00: Xid 79" in message
    assert "worker2 cannot be used, and the job needs 2 hosts (training_job_min_hosts). worker2 must be rebooted." in message


@pytest.mark.parametrize("severity", ["restart", "reboot"])
def test_a_finding_while_the_job_runs_restarts_the_job_as_a_finding_after_a_failure_does(job, health, failures, severity):
    if severity == "reboot":
        health.answers("rank1", {**XID, "severity": severity})
    running = job(WAITS, hosts=3, spares=1, min_hosts=2)
    running.wait_for("begins", 1)
    health.finds("rank1", {**XID, "severity": severity})
    found = running.ends()
    assert attempt_cause(found["attempts"][0]) == FOUND
    used = {"restart": ["worker1", "worker2"], "reboot": ["worker1", "worker3"]}[severity]
    assert [each["host"] for each in found["processes"] if each["part"] != "standby"] == used
    assert running.records(1)["rank1"]["state"] == "failed"
    assert bool(os.listdir(failures)) == (severity == "reboot"), "the script may be responsible for other findings"


def test_an_error_of_an_application_restarts_only_its_own_job(job, health):
    running = job(f"print('process', os.getpid(), flush=True)\n{WAITS}")
    pid = int(wait_until(lambda: re.search(r"process (\d+)\n", running.log("rank1")))[1])
    other = {**XID, "severity": "restart", "message": "Xid 31. pid=1", "pid": os.getpid()}
    health.finds("rank0", other)
    health.finds("rank1", other, {**XID, "severity": "restart", "message": f"Xid 13. pid={pid}", "pid": pid})
    assert attempt_cause(running.ends()["attempts"][0]) == f"health finding on worker2: Xid 13. pid={pid}"


def test_a_finding_on_a_spare_or_of_a_blocked_host_or_of_another_job_does_not_end_the_attempt(job, health):
    running = job("while not (folder / 'stop').exists(): time.sleep(0.1)", hosts=3, spares=1, min_hosts=2)
    running.wait_for("begins", 1)
    health.finds("standby0", XID)
    health.finds("rank0", XID, age=10.0)
    health.finds("rank1", {**XID, "severity": "restart", "pid": os.getpid()})
    time.sleep(1.5)
    Path(running.paths.checkpoints, "stop").touch()
    running.ends(attempt=1)


REBOOT = {"check": "xid", "severity": "reboot", "message": "GPU 0000:64:00: Xid 74 (NVLink error).", "reboots": "digits"}


@pytest.mark.parametrize("name", ["rank0", "rank1"])
def test_a_job_waits_for_a_host_that_reboots_if_it_needs_the_host(job, health, name):
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
    running = job(script, reboot=True)
    spec = running.specs[name].read_text()
    wait_until(running.following)
    health.answers(name, REBOOT)
    assert running.started[name].wait(60) >= 0
    record = running.records(2)[name]
    assert (record["available"], record["unfit"]["reboots"]) == (False, True)
    time.sleep(1)
    assert running.following(2) is None, "the other host waits"
    assert running.status()["state"] == "running"

    health.recovers(name)
    running.specs[name].write_text(spec)
    running.start(name, "rejoin")
    second = running.ends(attempt=3)["attempts"][1]
    host = f"worker{int(name[-1]) + 1}"
    assert attempt_cause(second) == f"health finding on {host}: GPU 0000:64:00: Xid 74 (NVLink error)"
    assert explain(second) == f"{host} has been rebooted, and the job continues on the same hosts."
    assert running.following(2)["rule"] == "after_reboot"


def test_a_job_does_not_wait_for_a_host_that_is_unhealthy_after_the_reboot_or_that_it_does_not_need(job, health):
    health.answers("rank1", REBOOT)
    running = job(FAILS, hosts=3, min_hosts=2, reboot=True)
    found = running.ends()
    assert len(found["processes"]) == 2
    assert "The job continues without worker2. worker2 reboots itself. To see the" in explain(found["attempts"][0])
    assert running.start("rank1", "rejoin").wait(60) == 0, "the job has continued without this host"


def test_a_job_ends_if_the_host_is_still_unhealthy_after_the_reboot(job, health):
    health.answers("rank1", REBOOT)
    running = job(FAILS, reboot=True)
    running.started["rank1"].wait(60)
    health.answers("rank1", {**REBOOT, "reboots": ""})
    running.specs["rank1"].write_text(json.dumps({**running.spec("rank1"), "rejoins": True}))
    running.start("rank1", "rejoin")
    running.ends("failed", 1)
    assert not running.spec("rank1")["rejoins"], "the unit's other programs use the spec of the attempt"
    assert running.following()["rule"] == "too_few_hosts"


def test_a_job_that_may_not_reboot_hosts_does_not_wait_for_the_reboot_of_another_job(job, health):
    health.answers("rank1", REBOOT)
    running = job(FAILS)
    running.ends("failed", 1)
    assert running.following()["rule"] == "too_few_hosts"
    assert "reboots" not in running.records(1)["rank1"]["unfit"]


@pytest.mark.parametrize("case", ["started again", "new job on the same host", "new job without the process"])
def test_a_host_that_has_rebooted_leaves_a_job_alone_that_is_no_longer_its_own(job, health, case):
    """The job was started again by an operator in new units, so the decision names no hosts, or was deleted and started elsewhere."""
    health.answers("rank1", REBOOT)
    running = job(FAILS, reboot=True)
    running.started["rank1"].wait(60)
    running.end()
    path = running.paths.record("rank1")
    record = records.read_record(path)
    if case == "started again":
        running.decide(rule=recovery.CONTINUED)
    elif case == "new job on the same host":
        records.write_json(path, {**record, "host": "worker9", "state": "running"})
    else:
        os.unlink(path)
    before = running.records(1)
    assert running.rejoin("rank1") == 1
    assert running.records(1) == before
    assert "Traceback" not in running.journal("rank1")


def test_a_job_whose_hosts_all_reboot_ends(job, health):
    for name in ("rank0", "rank1"):
        health.answers(name, REBOOT)
    running = job(FAILS, min_hosts=1, reboot=True)
    running.ends("failed", 1)
    assert running.following()["action"] == "stop"


@pytest.mark.parametrize(("health_check", "by"), [(True, "person"), (True, "xid"), (False, "person")])
def test_an_excluded_host_and_an_unhealthy_spare_are_not_used(job, health, health_check, by):
    health.answers("standby0", XID)
    health.excludes("rank0", by, "bad cable")
    found = job(FAILS, hosts=4, spares=2, min_hosts=1, health_check=health_check).ends()
    assert attempt_cause(found["attempts"][0]).startswith("rank 0 on worker1 was killed by signal SIGKILL")
    used = ["worker2", "worker4"] if health_check else ["worker2", "worker3"]
    assert [each["host"] for each in found["processes"] if each["part"] != "standby"] == used
    assert "worker1 is excluded from jobs." in explain(found["attempts"][0])


def test_a_record_that_a_job_has_forged_excludes_no_other_hosts():
    unfit = {"why": "excluded", "what": "x"}
    forged = [{"name": "rank0", "host": host, "unfit": unfit} for host in ("w9", "w2", "w1")]
    assert between_attempts._excluded(forged, ["w1", "w2", "w3"]) == ["w1", "w2"]


def test_without_health_checks_the_findings_and_exclusions_of_checks_have_no_effect(job, health):
    health.answers("rank1", XID)
    health.excludes("rank0", "xid", "Xid 79")
    found = job(FAILS, health_check=False).ends(statuses=[0, 0])
    assert explain(found["attempts"][0]) == "The job continues on the same hosts."


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


def test_a_lost_spare_does_not_disturb_the_job(job):
    running = job(LONG.replace("600", "6"), hosts=3, spares=1, min_hosts=2, heartbeat_timeout=2)
    running.wait_for_records("standby0")
    running.kill("standby0")
    running.ends(attempt=1, statuses=[0, 0])
    assert time.time() - running.records(1)["standby0"]["heartbeat"] > 4, "the other supervisors considered it lost"


def test_a_lost_spare_does_not_take_part_in_a_restart(job):
    script = """
        save(first)
        while attempt == 1 and not (folder / "fail").exists():
            time.sleep(0.1)
        sys.exit(3 if attempt == 1 else 0)
    """
    running = job(script, hosts=3, spares=1, min_hosts=2, heartbeat_timeout=2)
    running.wait_for_records("rank0", "rank1", "standby0")
    running.kill("standby0")
    wait_until(lambda: time.time() - running.records(1)["standby0"]["heartbeat"] > 3)
    Path(running.paths.checkpoints, "fail").touch()
    assert explain(running.ends(statuses=[0, 0])["attempts"][0]) == "The job continues on the same hosts."
    assert running.following()["missing"] == ["worker3"]


@pytest.mark.parametrize(("is_noticed", "state", "why"), [(False, "lost", "and the job needs 2 hosts"), (True, "failed", "")])
def test_a_job_that_needs_the_lost_host_stops(job, is_noticed, state, why):
    """If only its supervisor is killed, systemd runs the program that completes the record."""
    running = job(LONG, heartbeat_timeout=60 if is_noticed else 3)
    running.wait_for("up", 0, 1)
    running.kill("rank0")
    if is_noticed:
        running.finish(SERVICE_RESULT="signal")
    found = running.ends(state, 1)
    assert (found["failure"]["name"], found["failure"]["host"]) == ("rank0", "worker1")
    assert f"worker1 cannot be used, {why}" in explain(found["attempts"][0])


@pytest.mark.parametrize("missing", ["rank0", "rank1"])
def test_a_host_that_does_not_start_a_later_attempt_is_lost(job, missing):
    """The host disappears after the decision. Its process has no record, so only a timeout detects the loss."""
    running = job("time.sleep(600 if attempt == 2 else 0)", attempt=2, without=missing, heartbeat_timeout=3, min_hosts=1)
    running.decide(rule="same_hosts")
    found = running.ends(attempt=3, statuses=[0])
    assert found["process_count"] == 1
    assert f"rank {missing[-1]} on worker{int(missing[-1]) + 1} has sent no heartbeat" in attempt_cause(found["attempts"][1])


def test_all_supervisors_follow_the_decision_that_others_will_read(job, monkeypatch):
    """The job changes a decision after it was written."""
    running = job("sys.exit(3)", hosts=1, restarts=1)
    running.wait()
    spec = running.spec("rank0")
    paths = running.paths.of_attempt(spec["attempt"])
    verdict = records.read_verdict(paths)

    def follow(changed):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(paths.following)
        monkeypatch.setattr(between_attempts, "write_new_json", lambda path, document: Path(path).write_text(changed(document)))
        before = between_attempts.TrainingState([], None)
        return between_attempts.Recovery(spec, before, lambda _record: False, lambda: False).following(verdict)

    records.write_json(paths.record("rank0"), {**running.records(2)["rank0"], "available": True})
    assert follow(lambda document: json.dumps({**document, "rule": "operator"}))["rule"] == "operator"
    invalid = follow(lambda _document: "{}")
    assert between_attempts.summary(verdict, invalid) == "attempt ended: rank0 worker1 failed exit_status exit status 3; stop: invalid"
    assert explain({"attempt": 2, **invalid}) == "The recorded decision names an unknown rule (invalid)."


def test_an_attempt_whose_decision_is_not_valid_counts_as_one_without_progress(job):
    """The attempt numbers in messages are correct, and a job that deletes its decisions gains no additional restarts."""
    script = """
        if attempt > 1:
            (folder.parent / "status" / ("next" if attempt == 2 else f"attempt{attempt - 1}/next")).write_text("{}")
        os.kill(os.getpid(), signal.SIGKILL)
    """
    running = job(script, hosts=1, restarts=2)
    running.wait()
    assert running.following(3)["rule"] == "no_restarts_left"


def test_a_decision_that_a_job_has_forged_names_no_other_hosts_and_files(job):
    """The files belong to the job's user, so their contents are used only within the job."""
    script = """
        if attempt == 1:
            pathlib.Path(os.environ["DEEPLEARNING_JOB_DIRECTORY"], "status/next").write_text(json.dumps({
                "action": "restart", "rule": "same_hosts", "decided": 1.0, "hosts": ["elsewhere"],
                "set_aside": {"name": "missing", "changed": 1.0},
            }))
            sys.exit(3)
    """
    running = job(script, hosts=1)
    assert running.wait() == [3]
    assert "cannot be followed: No host is left for the next attempt." in running.journal("rank0")
    assert not os.path.exists(running.paths.of_attempt(2).status)


def test_a_suspended_rank_is_a_hang_and_the_job_goes_on(job):
    """One rank is suspended, and the other rank waits for it. The stacks of both ranks are collected before any process is killed."""
    script = """
        faulthandler.register(signal.SIGUSR1)
        for step in range(20):
            report(step)
        save(first)
        if attempt == 1:
            if rank == 1:
                os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(600)
    """
    running = job(script, hang_steps=3)
    first = running.ends(statuses=[0, 0])["attempts"][0]
    line = running.line("sleep(600)")
    assert attempt_cause(first).startswith("rank 1 on worker2 made no progress for ")
    assert attempt_cause(first).endswith(f" (it is suspended; the other rank is at train.py, line {line})")
    assert explain(first) == "The job continues on the same hosts."
    assert {name: record["state"] for name, record in running.records(1).items()} == {"rank0": "stopped", "rank1": "failed"}
    stacks = {path.name: path.read_text() for path in Path(running.paths.stacks).iterdir()}
    assert re.search(rf'train\.py(", line {line} in <module>|:{line}\))', stacks["rank0.txt"]), "from faulthandler or py-spy"
    assert "state T" in stacks["rank1.txt"]


def test_a_silent_job_is_a_hang_that_ends_a_job_without_restarts(job):
    """The script reports no steps and does not register faulthandler, so only its output and the kernel functions of its threads are
    known.
    """
    running = job("time.sleep(600)", hang_timeout=2, restarts=0)
    message = job_formatting.failure_message(running.ends("failed", 1), "run {}".format)
    assert re.search(r"made no progress for .*with no output, reported step or checkpoint", message)
    assert f"The stacks of all processes are in {running.paths.stacks} on the cluster." in message
    assert sorted(os.listdir(running.paths.stacks)) == ["rank0.txt", "rank1.txt"]


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


@pytest.mark.parametrize(
    ("before", "after", "place", "expected"),
    [
        (("", 5), ("", 9), "/efs/c", False),
        (("", None), ("1", None), "/c", True),
        (("1", 5), ("1 later", 9), "/c", False),
        (("last", 5), ("last later", 5), "/c", False),
        (("last", 5), ("last later", 9), "/c", True),
        (("last", None), ("last later", 1), "/c", True),
        (("last", 5), ("last", 9), "/c", False),
        (("", 5), ("", 9), "s3://b/c", True),
        (("", 9), ("", 9), "s3://b/c", False),
    ],
)
def test_a_checkpoint_is_progress_and_where_none_can_be_seen_a_step_is(before, after, place, expected):
    def state(checkpoint, step):
        name, _space, later = checkpoint.partition(" ")
        return between_attempts.TrainingState([Saved(name, [name], 2.0 if later else 1.0)] if name else [], step)

    spec = {"environment": {between_attempts.CHECKPOINTS: place}}
    assert between_attempts.has_progressed(state(*before), state(*after), spec) is expected


def test_a_supervisor_of_an_earlier_attempt_takes_no_part_in_a_job_that_continues(job):
    """The supervisor of rank 1 returns after the job has ended and has been started again."""
    running = job("sys.exit(0 if attempt == 2 else 9)", restarts=2, without="rank1")
    failure = {"name": "rank0", "rank": 0, "ranks": [0], "host": "worker1", "part": "worker", "processes": 2, "state": "lost"}
    failure.update(started=1.0, heartbeat=2.0)
    running.decide(rule="continued")
    records.write_json(running.paths.verdict, {"state": "lost", "failure": failure, "restartable": True})
    running.start("rank1")
    running.wait()
    assert not os.path.exists(running.paths.of_attempt(2).status)
    assert running.status()["attempt"] == 1


def test_a_continued_job_has_all_of_its_restarts(job):
    """The first attempts have used up the restarts. The job then continues with attempt 4, whose failure is followed by a restart."""
    running = job("sys.exit(0 if attempt == 5 else 9)", restarts=2, attempt=4, without="rank1", restart_exit_codes=[9])
    for attempt, rule in ((1, "same_hosts"), (2, "same_hosts"), (3, "continued")):
        running.decide(attempt, rule=rule, cause={"kind": "signal", "what": "signal SIGKILL", "name": "SIGKILL"})
    running.start("rank1")
    running.ends(attempt=5, statuses=[0, 0])


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


@pytest.fixture
def metadata_service():
    with MetadataService() as service:
        yield service


@pytest.mark.parametrize(("noticed", "lead"), [("rank1", "rank0"), ("rank0", "rank1")])
def test_a_spot_interruption_lets_all_ranks_save_and_the_job_continues_without_the_host(job, metadata_service, noticed, lead):
    """Each rank needs longer to save a checkpoint than a restart after a failure would allow."""
    running = job(SAVES.replace("sleep(1)", "sleep(6)"), hosts=3, min_hosts=2, metadata={noticed: metadata_service.port})
    running.wait_for("begins", 0, 1, 2)
    metadata_service.interrupt(120)
    began = time.time()
    running.wait_for("saves", 0, 1, 2)
    assert time.time() - began < 7
    found = running.ends()
    assert sorted(process.wait() for process in running.started.values())[:2] == [0, 0]
    assert running.has_logged("has saved", 0, 1, 2), "all ranks have the time to save"
    host = f"worker{1 + int(noticed[-1])}"
    first = found["attempts"][0]
    assert [each["hosts"] for each in found["attempts"]] == [3, 2]
    assert attempt_cause(first).startswith(f"rank {noticed[-1]} on {host} was stopped because of the spot interruption of the host")
    assert explain(first) == f"The job continues without {host}."
    following = running.following()
    assert (following["cause"]["kind"], following["missing"], following["progress"]) == ("spot_interruption", [host], True)
    assert "begins with epoch 2" in running.log("rank0", attempt=2)
    records_of_first = running.records(1)
    assert (records_of_first[noticed]["state"], records_of_first[noticed]["available"]) == ("failed", False)
    assert records_of_first[lead]["state"] == "stopped"


def interrupt(running, service, _folder):
    service.interrupt(120)


def end_lease(_running, _service, folder):
    """End the lease so early that one second is left before the jobs must save their checkpoints."""
    (folder / "hosts/lease").write_text(time.strftime("%Y-%m-%dT%H:%M:%SZ\n", time.gmtime(time.time() + 10 * 60 - 1)))


@pytest.mark.parametrize(
    ("announce", "options", "kind", "why"),
    [
        (interrupt, {"restarts": 0}, "spot_interruption", ""),
        (interrupt, {}, "spot_interruption", "worker2 cannot be used, and the job needs 2 hosts (training_job_min_hosts)."),
        (None, {}, "capacity_block_end", ""),
        (end_lease, {}, "lease_end", "AWS terminates the nodes at the end of their lease."),
    ],
)
def test_an_announced_termination_ends_a_job_that_needs_the_hosts_in_time_to_save(
    job, metadata_service, tmp_path, announce, options, kind, why
):
    if announce is None:
        options = {"capacity_end": time.time() + 30 * 60 + 10 * 60 + 3}
    running = job(SAVES, metadata={"rank1": metadata_service.port}, **options)
    running.wait_for("begins", 0, 1)
    if announce:
        announce(running, metadata_service, tmp_path)
    found = running.ends("failed", 1)
    assert running.has_logged("has saved", 0, 1)
    assert found["failure"]["cause"]["kind"] == kind
    assert announce is not interrupt or found["failure"]["name"] == "rank1"
    assert explain(found["attempts"][-1]).startswith(why)


def test_a_spot_interruption_before_the_start_ends_the_job(job, metadata_service):
    metadata_service.interrupt(120)
    found = job(SAVES, metadata={"rank1": metadata_service.port}).ends("failed", 1)
    assert explain(found["attempts"][0]) == "worker2 cannot be used, and the job needs 2 hosts (training_job_min_hosts)."


def test_the_interruption_of_a_spare_does_not_affect_the_job(job, metadata_service):
    running = job("time.sleep(6)", hosts=3, min_hosts=2, spares=1, metadata={"standby0": metadata_service.port})
    running.wait_for("begins", 0)
    metadata_service.interrupt(120)
    wait_until(lambda: running.records(1).get("standby0", {}).get("available") is False)
    running.ends(attempt=1)
