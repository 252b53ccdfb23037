"""A job that has ended can leave anything in its directory, but no decision about nodes, other jobs or the waiting controller relies on it.

Each test lets a job end with one of the entries of ENDS, or with random changes to its files, and then makes one of the decisions.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import random
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.filter.jobs_on import jobs_on
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import reboot
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.jobs import cleanup, listing, watch
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.queue import queries
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import users
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_export import exporter, module_run
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import (
    directories,
    document_schemas,
    job_states,
    jobs_after_reboot,
    state_names,
)
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import job_watch

from .nodes import Nodes

DAY = 86400.0
HEARTBEAT_TIMEOUT = 60
HOST = "bert-worker2"
RECORD = {"name": "rank0", "rank": 0, "ranks": [0], "part": "worker", "host": HOST, "processes": 1, "state": "succeeded"}
APPLICATION = {
    "id": "application_1700000000000_0007",
    "name": "ended",
    "applicationType": "training_job",
    "user": "deeplearning",
    "applicationTags": "hosts=1",
    "state": "ACCEPTED",
    "diagnostics": "waits",
}


class Ended:
    """The directory of a job that has succeeded a day ago, and what its last process can do there."""

    def __init__(self, directory: Path, name: str = "ended") -> None:
        self.folder = directory / name
        self.status = self.folder / "status"
        for each in ("status", "logs", "code", "checkpoints", "tensorboard"):
            (self.folder / each).mkdir(parents=True)
        then = time.time() - DAY
        self.write("job.json", {"launcher": "torchrun", "created": then, "script": "train.py"})
        self.write("status/rank0.json", self.record(started=then, heartbeat=then, finished=then, exit_code=0))
        self.write("status/over", {"state": "succeeded", "failure": None})
        self.write("progress.jsonl", {"step": 1, "loss": 0.5})
        self.write("logs/rank0.log", "done")
        for path in self.status.iterdir():
            os.utime(path, (then, then))

    @staticmethod
    def record(**changes: object) -> dict[str, object]:
        now = time.time()
        return {**RECORD, "started": now, "heartbeat": now, **changes}

    def write(self, path: str, content: object) -> None:
        (self.folder / path).write_text(content if isinstance(content, str) else json.dumps(content))

    def clear(self) -> None:
        for path in self.status.iterdir():
            path.unlink()

    def forge_queue(self, name: str, identity: str, **more: object) -> None:
        self.clear()
        self.write("status/queue", {"queue": name, "id": identity, "submitted": time.time(), **more})
        self.status.chmod(0o555)

    def replace(self, path: str, make: Callable[[str], object]) -> None:
        """Replace a file or a directory by what the function makes at the path."""
        place = self.folder / path
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
        make(str(place))


def no_file(_path: str) -> None:
    pass


def huge(path: str) -> None:
    """Create a sparse file of 16 GiB."""
    Path(path).touch()
    os.truncate(path, 1 << 34)


MAKERS: dict[str, Callable[[str], object]] = {
    "nothing": no_file,
    "an empty file": lambda path: Path(path).touch(),
    "bytes": lambda path: Path(path).write_bytes(bytes(range(256)) * 9),
    "a list": lambda path: Path(path).write_text("[1, 2]"),
    "half an object": lambda path: Path(path).write_text('{"state": "run'),
    "deep JSON": lambda path: Path(path).write_text("[" * 100_000),
    "a huge file": huge,
    "a FIFO": os.mkfifo,
    "a directory": os.mkdir,
    "an unreadable directory": lambda path: os.mkdir(path, 0),
    "a read-only directory": lambda path: os.mkdir(path, 0o555),
    "an unreadable file": lambda path: os.close(os.open(path, os.O_CREAT, 0)),
    "a link to a device": lambda path: os.symlink("/dev/zero", path),
    "a link to itself": lambda path: os.symlink(path, path),
    "a link to a directory": lambda path: os.symlink("/etc", path),
}
FILES = (
    *("status/rank0.json", "status/x.json", "status/over", "status/next", "status/queue", "status/export", "status/export.request"),
    *("status/export.files", "status/progress", "status/attempt2", "status", "logs", "logs/rank0.log", "logs/attempt2", "progress.jsonl"),
    *("checkpoints", "tensorboard", "code", "job.json"),
)


def _spares(job: Ended) -> None:
    """Write records that are valid one after the other, for days."""
    job.clear()
    for rank in range(30):
        beat = time.time() + rank * job_states.CLOCK_LIMIT
        record = job.record(name=f"rank{rank}", rank=rank, ranks=[rank], part="spare", state="running", heartbeat=beat, processes=30)
        job.write(f"status/rank{rank}.json", record)


def _attempts(job: Ended) -> None:
    """Claim that the next attempt of the job is about to start."""
    following = {"action": "restart", "rule": "process", "decided": time.time() + job_states.CLOCK_LIMIT, "hosts": [HOST]}
    for attempt in range(1, 9):
        place = job.status if attempt == 1 else job.status / f"attempt{attempt}"
        place.mkdir(exist_ok=True)
        (place / "next").write_text(json.dumps(following))


def _export(job: Ended, **changes: object) -> None:
    now = time.time()
    state = {"destination": "s3://other/ended/", "state": "running", "began": now, "heartbeat": now + job_states.CLOCK_LIMIT, **changes}
    job.write("status/export", state)


ENDS: dict[str, Callable[[Ended], object]] = {
    "honest": lambda job: None,
    "running": lambda job: job.write("status/rank0.json", job.record(state="running", heartbeat=time.time() + job_states.CLOCK_LIMIT)),
    "not decided": lambda job: (job.status / "over").unlink(),
    "empty status": lambda job: job.clear(),
    "unreadable status": lambda job: job.status.chmod(0),
    "read-only status": lambda job: job.status.chmod(0o555),
    "queued in Slurm": lambda job: job.forge_queue("slurm", "1"),
    "queued in SGE": lambda job: job.forge_queue("sge", "1"),
    "queued in YARN": lambda job: job.forge_queue("yarn", str(APPLICATION["id"])),
    "queued in no queue": lambda job: job.forge_queue("pbs", "1"),
    "failed in a queue": lambda job: job.forge_queue("slurm", "1", failure="x" * 5000),
    "records for days": _spares,
    "more attempts": _attempts,
    "exported elsewhere": _export,
    "waiting export": lambda job: _export(job, state="waiting", finished=time.time()),
    "restartable": lambda job: job.write("status/over", {"state": "failed", "failure": job.record(state="lost"), "restartable": True}),
    "many records": lambda job: [job.write(f"status/x{number}.json", "") for number in range(300)],
}
REPLACED: dict[str, Callable[[Ended], object]] = {
    f"{title} as {path}": lambda job, path=path, make=make: job.replace(path, make) for path in FILES for title, make in MAKERS.items()
}


def random_end(job: Ended, seed: int) -> None:
    """Change some of the job's files at random. Changes that are not possible after earlier ones are left out."""
    chance = random.Random(seed)
    values = (
        *state_names.OF_JOBS,
        0,
        -1,
        1e300,
        True,
        None,
        [],
        {},
        "x" * 10_000,
        "\x1b[2J",
        time.time(),
        time.time() + 300,
        time.time() + DAY,
    )
    keys = (
        *document_schemas.RECORD,
        *document_schemas.EXPORT,
        *document_schemas.FOLLOWING,
        *document_schemas.ENTRY,
        *document_schemas.VERDICT,
    )

    def document(path: str) -> None:
        found = job.record(**{chance.choice(keys): chance.choice(values) for _key in range(chance.randrange(6))})
        Path(path).write_text(json.dumps({**found, "name": Path(path).stem}))

    for _change in range(chance.randrange(1, 9)):
        with contextlib.suppress(OSError):
            if chance.random() < 0.2:
                (job.folder / chance.choice(FILES)).chmod(chance.choice((0, 0o111, 0o444, 0o555)))
            elif chance.random() < 0.3:
                chance.choice([*ENDS.values()])(job)
            else:
                job.replace(chance.choice(FILES), chance.choice((document, *MAKERS.values())))


RANDOM = {f"random {seed}": lambda job, seed=seed: random_end(job, seed) for seed in range(815, 915)}

# `make test` tries each file and each replacement several times, and `make exhaustive` all combinations.
CASES = [
    pytest.param(end, id=name, marks=[] if name in ENDS or number % 12 == 0 else [pytest.mark.exhaustive])
    for number, (name, end) in enumerate({**ENDS, **RANDOM, **REPLACED}.items())
]


@pytest.fixture
def jobs(monkeypatch):
    """A directory of jobs that other users can read. Only this fixture knows that the tests are not on a host."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    monkeypatch.setattr(directories, "HELD", str(folder / "held"))
    monkeypatch.setattr(directories, "EXPORTS", str(folder / "run/exports"))
    monkeypatch.setattr(directories, "LOCK", str(folder / "lock"))
    monkeypatch.setattr(directories, "runtime_directory", lambda job, process: str(folder / f"run/jobs/{job}-{process}"))
    found = folder / "jobs"
    found.mkdir()
    yield found
    for path, folders, _files in os.walk(folder):
        for each in folders:
            if not os.path.islink(os.path.join(path, each)):
                os.chmod(os.path.join(path, each), 0o755)
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def in_time():
    """Verify that no decision needs more than 10 s of CPU time."""
    start = time.process_time()
    yield
    assert time.process_time() - start < 10


class Clock:
    """A clock that only moves when the code sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slept = 0.0
        self._began = time.time()
        monkeypatch.setattr(time, "time", lambda: self._began + self.slept)
        monkeypatch.setattr(time, "monotonic", lambda: 1000.0 + self.slept)
        monkeypatch.setattr(time, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.slept += seconds


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def as_nobody(work: Callable[[], object]) -> object:
    """Run the function as a user without permissions for the files of others, as the login user of a host does."""
    return users.as_user(pwd.getpwnam("nobody"), work, (Exception,)) if os.geteuid() == 0 else work()


def no_queue(_command: object) -> tuple[int, str, str]:
    return 1, "", "the controller does not respond"


@pytest.mark.parametrize("end", CASES)
def test_no_files_keep_nodes_or_hide_a_running_job(jobs, end):
    """destroy, scale-in and replacements, and the end of train with training_job_then."""
    end(Ended(jobs))
    then = time.time() - DAY
    Ended(jobs, "other")
    found = as_nobody(lambda: listing.list_jobs({"directory": str(jobs), "heartbeat_timeout": HEARTBEAT_TIMEOUT}, lambda _jobs: None)[0])
    assert "other" in {job["name"] for job in found}
    assert all(job["created"] <= then + 1 for job in found)
    for running in ({HOST: []}, {HOST: [], "bert-master": []}):
        assert jobs_on(found, [HOST], running) == []
    for name in ("ended", "other"):
        assert jobs_on(found, [HOST], {HOST: [name]}) == [{"name": name, "words": f"{name} runs on {HOST}"}]


@pytest.mark.parametrize("end", CASES)
def test_no_files_let_train_wait_for_hours(jobs, clock, monkeypatch, end):
    end(Ended(jobs))
    monkeypatch.setattr(queries, "is_installed", lambda _queue: True)
    apps = json.dumps({"apps": {"app": [APPLICATION]}})
    monkeypatch.setattr(queries, "send", lambda found, *_: (0, apps, "") if found.reservations else no_queue(found))
    for module in ("warning", "display"):
        monkeypatch.setattr(job_watch.display, module, lambda *_arguments, **_options: None)
    params = {
        "name": "ended",
        "attempt": None,
        "progress_offset": 0,
        "log_lines": 10,
        "log_process": None,
        "log_offsets": {},
        "goodput": "ended",
    }

    def poll(arguments):
        clock.sleep(arguments["wait"])
        asked = {**params, **arguments, "wait": 0}
        try:
            found = watch.watch(directories.Paths(str(jobs / "ended")), asked, lambda waiting: queries.complete(no_queue, waiting))
        except (OSError, ValueError, watch.NoProcessError) as error:  # as the module training_job_info does
            return {"failed": True, "msg": str(error)}
        return {"jobs": [found], "problems": found.pop("problems")}

    arguments = {"name": "ended", "directory": str(jobs), "heartbeat_timeout": HEARTBEAT_TIMEOUT, "log_lines": 10}
    with contextlib.suppress(AnsibleActionFail):
        job_watch.JobWatch(poll, arguments, "", is_on_host=True).follow()
    assert clock.slept < 1000


@pytest.mark.parametrize("end", CASES)
def test_no_files_let_an_export_last_for_hours(jobs, clock, monkeypatch, end):
    job = Ended(jobs)
    end(job)
    monkeypatch.setattr(exporter.s3, "list_objects", lambda _access, _source: [])
    monkeypatch.setattr(exporter.s3, "copy", lambda *_arguments, **_options: None)
    monkeypatch.setattr(exporter.State, "_beat", lambda _state: None)
    spec: exporter.ExportSpec = {
        "directory": str(job.folder),
        "checkpoints": str(job.folder / "checkpoints"),
        "destination": "s3://results/ended/",
        "region": "",
        "include": [],
        "exclude": [],
        "checkpoint_count": 0,
        "follow": True,
        "attempt": 1,
        "standby": 0,
        "interval": 0,
        "heartbeat_timeout": HEARTBEAT_TIMEOUT,
    }
    for standby in (0, 1):
        export = exporter.Exporter({**spec, "standby": standby}, str(jobs / "links"))
        with contextlib.suppress(OSError):  # the unit fails, and the next run reports that
            export.run()
    assert clock.slept < 4000


@pytest.mark.parametrize("end", CASES)
def test_no_files_choose_where_a_job_is_exported(jobs, monkeypatch, end):
    end(Ended(jobs))
    monkeypatch.setattr(module_run, "DESTINATIONS", str(jobs.parent / "destinations"))
    params = {"name": "ended", "directory": str(jobs), "destination": None, "heartbeat_timeout": HEARTBEAT_TIMEOUT}
    module = type("Module", (), {"params": params})()
    with pytest.raises(module_run.ExportError, match="no destination is set"):
        module_run.make_spec(module, directories.Paths(str(jobs / "ended")), pwd.getpwuid(os.geteuid()))


@pytest.mark.parametrize("end", CASES)
def test_no_files_keep_or_delete_another_job(jobs, end):
    end(Ended(jobs))
    for name in ("old", "active"):
        Ended(jobs, name)
    params = {
        "directory": str(jobs),
        "heartbeat_timeout": HEARTBEAT_TIMEOUT,
        "days": 0.5,
        "keep": 0,
        "running": ["active"],
        "name": None,
        "pending": False,
    }
    result = as_nobody(lambda: cleanup.clean_up(params, check_mode=True))
    assert "old" in {job["name"] for job in result["jobs"]}
    assert "active" in {job["name"] for job in result["kept"]}


def test_the_export_of_an_ended_job_prevents_neither_a_reboot_nor_the_return_of_another_job(jobs, clock, monkeypatch):
    """The exporter may be uploading large files, or a process of another job of the same user may have suspended it."""
    monkeypatch.setattr(jobs_after_reboot, "STARTED", str(jobs.parent / "started"))
    monkeypatch.setattr(jobs_after_reboot.exclusions, "PATH", str(jobs.parent / "health/exclusions.json"))
    (jobs.parent / "run/exports/ended").mkdir(parents=True)
    (jobs.parent / "run/jobs/other-rank0").mkdir(parents=True)
    jobs_after_reboot.write(jobs_after_reboot.STARTED, "other", b"{}")
    assert jobs_after_reboot.keep() == "other"
    (jobs.parent / "run/jobs/other-rank0").rmdir()
    with reboot.idle_host() as hindrance:
        assert hindrance == ""
    assert clock.slept < 2 * reboot.PATIENCE


ROOT = Path(__file__).resolve().parents[2]

# The program that stands for systemctl on the nodes of the next test. `UNITS` is a job with an active unit.
SYSTEMCTL = '#!/bin/sh\nif [ -n "$UNITS" ]; then printf \'Slice=deeplearning-%s.slice\\nActiveState=active\\n\' "$UNITS"; fi\n'


@pytest.mark.parametrize(
    ("end", "running", "ignored"),
    [("honest", "ended", False), ("honest", "ended", True), ("an empty file as status/x.json", "", False), ("queued in YARN", "", False)],
)
def test_the_playbook_terminates_nodes_unless_a_unit_runs_on_them(jobs, tmp_path, monkeypatch, end, running, ignored):
    {**ENDS, **REPLACED}[end](Ended(jobs))
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/systemctl"
    program.write_text(SYSTEMCTL)
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("UNITS", running)
    nodes = Nodes(tmp_path)
    hosts = {}
    for number in (2, 3):
        hosts[f"bert-worker{number}"] = host = {**nodes.node(number, {}), "deeplearning_hostname": f"bert-worker{number}"}
        del host["ansible_python_interpreter"]
    variables = {
        "deeplearning_region": "us-east-1",
        "training_job_directory": str(jobs),
        "deeplearning_ssh_directory": str(tmp_path / "ssh"),
    }
    variables["deeplearning_ignore_running_jobs"] = ignored
    check = {"ansible.builtin.include_tasks": str(ROOT / "playbooks/tasks/check_jobs.yml"), "vars": {"deeplearning_state": "absent"}}
    plays = [
        {
            "hosts": "trainers",
            "gather_facts": False,
            "vars_files": [str(ROOT / "playbooks/vars/common.yml")],
            "vars": variables,
            "tasks": [check],
        }
    ]
    plays.append({"hosts": "localhost", "gather_facts": False, "tasks": [{"ansible.builtin.debug": {"msg": "the nodes are terminated"}}]})
    done = nodes.play(plays, hosts, search=[tmp_path / "bin"])
    words = done.stdout + done.stderr
    refuses = bool(running) and not ignored
    assert ("the nodes are terminated" in words) == (not refuses), words
    assert done.returncode == (2 if refuses else 0), words
    if refuses:
        assert "add -e deeplearning_ignore_running_jobs=true" in words
        assert "cannot be destroyed while ended runs on bert-worker2, bert-worker3" in words.replace("\n", " ")
