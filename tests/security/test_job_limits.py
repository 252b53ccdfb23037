"""A job's files, memory use, processes and login profiles do not keep other jobs from working."""

from __future__ import annotations

import errno
import json
import os
import pwd
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.jobs import listing, watch
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import supervisor
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.start import start_and_stop
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import local_code, systemd, users
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_report import file_listing
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories, document_schemas, job_states, naming, records
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition import process_environment
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import answers, documented_values
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.attempt_messages import describe_failure

from .jobs import DESCRIPTION, RECORD

RUNNING = {key: value for key, value in RECORD.items() if key not in ("finished", "exit_code")} | {"state": "running"}
YEAR_2106 = float((1 << 32) - 1)


def crowd(count, **changes):
    return {f"rank{number}": {**RECORD, "name": f"rank{number}", "rank": number, **changes} for number in range(count)}


@pytest.mark.parametrize("ranks", [1 << 17, document_schemas.RANKS_LIMIT])
def test_a_job_with_long_records_is_named_and_hides_no_other(jobs, ranks):
    count = 3 * records.JOB_LIMIT // (2 * 3 * ranks)
    folder = jobs.add("long", **crowd(count, ranks=[0] * ranks))
    start = time.process_time()
    found, problems = jobs.list()
    assert time.process_time() - start < 10
    assert set(found) == {"honest", "long"}
    assert found["honest"]["state"] == "failed"
    assert len(json.dumps(list(found.values()))) < 1 << 20
    assert any(problem.startswith(f"the records of job 'long' in '{folder}/status' exceed 8388608 bytes: ") for problem in problems)


def test_records_that_are_not_valid_count_too(jobs, monkeypatch):
    monkeypatch.setattr(records, "JOB_LIMIT", 10_000)
    folder = jobs.add("bad", **dict.fromkeys((f"rank{number}" for number in range(20)), "x" * 1000))
    found, problems = jobs.list()
    assert set(found) == {"honest", "bad"}
    assert len(problems) == 11
    assert f"the records of job 'bad' in '{folder}/status' exceed 10000 bytes" in problems[-1]


def test_a_list_of_jobs_is_bounded_and_drops_the_oldest(jobs, monkeypatch):
    for age, name in enumerate(("new", "middle", "old")):
        folder = jobs.add(name, {**DESCRIPTION, "created": 1790000000.0 - age}, **crowd(10))
        os.utime(folder / "job.json", times=(time.time() + 10 - age,) * 2)
    monkeypatch.setattr(listing, "LISTING_LIMIT", 6_000)
    found, problems = jobs.list()
    assert "new" in found
    assert "old" not in found
    assert f"job 'old' in {jobs.directory} is skipped: its records and those of newer jobs exceed 6000 bytes or 240000 values" in problems


@pytest.mark.parametrize("place", ["heartbeat", "mtime"])
def test_a_heartbeat_of_the_future_is_none(jobs, place):
    ahead = time.time() + job_states.CLOCK_LIMIT + 60
    for name, moment in {"forged": YEAR_2106, "ahead": ahead, "running": time.time() + 60}.items():
        folder = jobs.add(name, rank0={**RUNNING, "heartbeat": moment if place == "heartbeat" else time.time()})
        os.utime(folder / "status/rank0.json", times=(moment, moment))
    found, _problems = jobs.list()
    assert {name: job["state"] for name, job in found.items()} == {
        "honest": "failed",
        "forged": "lost",
        "ahead": "lost",
        "running": "running",
    }
    assert describe_failure(found["forged"]["failure"]).startswith("has a heartbeat time in the future, 2106-02-07")


@pytest.mark.skipif(os.geteuid() != 0, reason="the code requires root privileges")
@pytest.mark.parametrize(
    ("work", "words"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGSTOP), "timed out after 0 s waiting for a child process that runs as that user. Check"),
        (lambda: "x" * (2 << 20), "a child process that runs as that user has sent more than 1048576 bytes"),
    ],
    ids=["stopped", "long"],
)
def test_a_user_cannot_keep_root_waiting(monkeypatch, work, words):
    """A job's user can stop the child process in which root works under this user's UID."""
    monkeypatch.setattr(users, "PATIENCE", 0.4)
    before = child_processes()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(20)
    try:
        with pytest.raises(users.UserError, match=f"user 'nobody': {words}"):
            users.as_user(pwd.getpwnam("nobody"), work)
    finally:
        signal.alarm(0)
    assert child_processes() == before


def child_processes():
    return {pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.setattr(directories, "SHARED_MEMORY", str(tmp_path / "shm"))
    monkeypatch.setattr(directories, "TEMPORARY", str(tmp_path / "temporary"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(directories, "runtime_directory", lambda job, process: str(tmp_path / f"jobs/{job}-{process}"))
    return tmp_path


def test_memory_files_and_processes_are_left_for_root(memory):
    commands = []
    systemd._private_directories(lambda command: (commands.append(command), (0, "", ""))[1], "digits", pwd.getpwuid(os.geteuid()))
    options = commands[0][commands[0].index("-o") + 1].split(",")
    assert {"size=90%", "nr_inodes=1048576"} < set(options)
    assert "TasksMax=65536" in systemd.PROPERTIES


@pytest.fixture
def deep(memory):
    """A directory tree that is deeper than Python's recursion limit, and whose path is longer than PATH_MAX."""
    tree = memory / "shm" / "greedy"
    tree.mkdir(parents=True)
    script = "import os\nfor _ in range(2500):\n    os.mkdir('a')\n    os.chdir('a')\nopen('end', 'w').close()"
    subprocess.run([sys.executable, "-c", script], cwd=tree, check=True)
    yield tree
    subprocess.run(["rm", "-rf", "--", tree], check=True)


def test_a_deep_tree_in_shared_memory_is_in_nobodys_way(deep, memory):
    account = pwd.getpwuid(os.geteuid())
    systemd._private_directories(lambda _command: (0, "", ""), "digits", account)
    assert (os.listdir(memory / "shm"), os.listdir(memory / "temporary")) == (["digits"], ["digits"])


def test_stop_removes_a_deep_tree(deep):
    systemd.remove_private_directories("greedy")
    assert not deep.exists()


def test_the_record_is_written_and_a_deep_tree_removed_at_the_end(deep, memory, monkeypatch):
    unit = memory / "jobs/greedy-rank0"
    unit.mkdir(parents=True)
    (unit / "spec.json").write_text('{"job": "greedy", "parameters": {"metrics_directory": ""}, "environment": {}}')
    left = []
    monkeypatch.setattr(supervisor, "finish", lambda *_: left.extend(os.listdir(deep)))
    assert supervisor.main(["finish", str(unit / "spec.json")]) == 0
    assert left == ["a"], "the supervisor writes the record first"
    assert os.listdir(deep) == []


def test_a_full_storage_keeps_no_shared_memory(deep, memory, monkeypatch):
    unit = memory / "jobs/greedy-rank0"
    unit.mkdir(parents=True)
    (unit / "spec.json").write_text('{"job": "greedy", "environment": {}}')

    def finish(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(supervisor, "finish", finish)
    with pytest.raises(OSError, match="No space left"):
        supervisor.main(["finish", str(unit / "spec.json")])
    assert os.listdir(deep) == []


def test_a_deep_tree_in_a_copy_of_code_is_replaced(deep, tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code/train.py").touch()
    (deep / local_code.MARK).touch()
    before, descriptor = os.getcwd(), os.open(deep, local_code.OPEN)
    try:
        local_code.copy(str(tmp_path / "code"), descriptor)
    finally:
        os.close(descriptor)
        os.chdir(before)
    assert sorted(os.listdir(deep)) == [local_code.MARK, "train.py"]


def test_a_report_lists_what_it_can_reach_of_a_deep_tree(deep):
    folder = os.path.join(deep, *["a"] * 1500)
    open(os.path.join(folder, "file"), "w").close()
    assert [file["name"][-4:] for file in file_listing.newest(str(deep))["files"]] == ["file"]


def test_many_units_together_leave_processes_for_root(memory, monkeypatch):
    commands = []

    def run(command):
        commands.append(command)
        return (1, "", "Unknown unit") if "set-property" in command else (0, "", "")

    place = systemd.SupervisorAccount(pwd.getpwuid(os.geteuid()), "/usr/bin/python3", systemd.Visible([], []), False)
    with pytest.raises(systemd.UnitError, match=r"set-property --runtime deeplearning.slice TasksMax=80% failed: Unknown unit"):
        systemd.start(run, "digits", place, [])
    assert commands[-1] == ["systemctl", "set-property", "--runtime", "deeplearning.slice", "TasksMax=80%"]
    assert naming.slice_name("digits").startswith("deeplearning-"), "its parent is deeplearning.slice"


@pytest.mark.parametrize(("time_limit", "elapsed", "longest"), [(0, 0, "infinity"), (600, 0, "705"), (600, 500, "205"), (600, 700, "105")])
def test_systemd_limits_the_time_of_units_too(time_limit, elapsed, longest):
    spec = {"elapsed": elapsed, "parameters": {"time_limit": time_limit, "stop_timeout": 15, "heartbeat_timeout": 60}}
    assert systemd.longest_runtime(spec) == longest


@pytest.mark.parametrize("is_running", [True, False])
def test_a_stop_deletes_what_the_job_holds_in_memory_and_in_temporary_files(memory, monkeypatch, is_running):
    for job in ("digits", "digits-2"):
        for place in (memory / "shm" / job, memory / "temporary" / job / "tmp"):
            (place / "folder").mkdir(parents=True)
            (place / "folder/file").write_text("x")
    (memory / "jobs/digits-2-rank0").mkdir(parents=True)
    for name, answer in {"active_units": ["x"] * is_running, "processes": [], "stop": None, "running_jobs": []}.items():
        monkeypatch.setattr(systemd, name, lambda *_arguments, answer=answer: answer)

    class Module:
        params = {"name": "digits"}
        check_mode = True
        run_command = None

    start_and_stop.stop(Module)
    assert sorted(os.listdir(memory / "shm")) == ["digits", "digits-2"]
    Module.check_mode = False
    assert start_and_stop.stop(Module)["changed"] is is_running
    assert (os.listdir(memory / "shm"), os.listdir(memory / "temporary")) == (["digits-2"], ["digits-2"])
    Module.params = {"name": "digits-2"}
    start_and_stop.stop(Module)
    assert os.listdir(memory / "shm") == ["digits-2"], "its processes have not ended"


def test_no_job_finds_the_profile_that_another_has_written(tmp_path, monkeypatch):
    (tmp_path / ".bash_profile").write_text("export FROM_HOME=1\n")
    (tmp_path / "profile").write_text("echo hello; export FROM_SYSTEM=1\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(process_environment, "PROFILE", str(tmp_path / "profile"))
    found = process_environment.login_environment(own_profile=False).variables
    assert (found.get("FROM_HOME"), found.get("FROM_SYSTEM")) == (None, "1")
    assert process_environment.login_environment(own_profile=True).variables["FROM_HOME"] == "1"
    monkeypatch.setattr(process_environment, "PROFILE", str(tmp_path / "none"))
    assert process_environment.login_environment(own_profile=False).variables["HOME"] == str(tmp_path)


def test_the_controller_accepts_the_status_whatever_a_script_has_written(tmp_path):
    """A result that the controller refuses would end `train` before the job, and would keep other jobs from being listed."""
    now, directory = time.time(), tmp_path / "evil"
    (directory / "status").mkdir(parents=True)
    (directory / "logs").mkdir()
    (directory / "job.json").write_text(json.dumps({"launcher": "torchrun", "created": now, "command": ["x"] * 130_000}))
    record = {
        "rank": 0,
        "ranks": list(range(100)),
        "part": "worker",
        "processes": 8300,
        "state": "running",
        "started": now,
        "heartbeat": now,
    }
    for number in range(8300):
        text = json.dumps({**record, "name": f"rank{number}", "host": f"h{number}"})
        (directory / f"status/rank{number}.json").write_text(text)
        if number < 2100:
            (directory / f"logs/rank{number}.log").write_text("\n" * 2000)
    entry = {"step": 1, "rank_seconds": [0.1] * 8300}
    (directory / "progress.jsonl").write_text(
        "".join(json.dumps({**entry, "step": step}) + "\n" for step in range(20)) + '{"a":1}\n' * 130_000
    )
    params = {"directory": str(tmp_path), "name": "evil", "attempt": None, "wait": 0, "hold": 0, "heartbeat_timeout": 60}
    params.update(progress_offset=0, log_lines=10_000, log_process=None, log_offsets={}, goodput=watch.ALWAYS)
    status = watch.watch(directories.Paths(str(directory)), params, lambda _jobs: None)
    listed, _problems = listing.list_jobs(params, lambda _jobs: None)
    assert (len(status["processes"]), len(listed)) == (document_schemas.RECORDS_LIMIT, 1)
    for jobs in ([status], listed):
        text = json.dumps({"changed": False, "jobs": jobs})
        limits = answers.LARGE["training_job_info"]
        assert len(text) < limits.size
        result = documented_values.documented_part(json.loads(text), "deeplearning.cluster.training_job_info", "bert-master", limits.values)
        assert not result.get("failed"), result["msg"]
