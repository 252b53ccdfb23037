"""Hundreds of damaged inputs from hosts, tags and AWS cause only the intended errors, cause no hangs, and do not affect valid inputs.

Each input is a valid input with a few mutations. A fixed random seed makes the mutations the same in each run.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import io
import json
import random
import re
import signal
import tarfile
import zipfile
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.filter.jobs_on import jobs_on
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import (
    console,
    insufficient_capacity,
    inventory,
    membership_tags,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.node_service import AUTO_SCALING
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.dataset.source import DataError
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.ssh_trust import certificates
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset import archives
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.files.status import read_status
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.jobs import listing, watch
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.start import prepare
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_report import collect, curves
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition import job_parameters
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.goodput import ALWAYS
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import documented_values, job_formatting, snapshot
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._report import charts, page
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.attempt_messages import describe_failure

from .jobs import COMPLETE

SEEDS = range(35)
SECONDS = 5

NASTY = [
    *(None, True, -1, 0, 1 << 70, -(1 << 70), 1e308, float("inf"), float("nan"), 3.5),
    *(
        "",
        "x",
        "../../etc",
        "a\nfatal: [master]: x",
        "\x1b]52;c;eA==\x07",
        "\ud800",
        "\u202e",
        "{0.__class__}",
        "(a+)+$",
        "9" * 5000,
        "x" * 70000,
    ),
    *([], {}, [[]], {"": {}}, [None], {"name": []}),
]
BYTES = [
    b"\x00",
    b"\xff\xfe",
    b"\n",
    b"\r",
    b"\x1b[2J",
    b'"',
    b"{",
    b"[" * 2000,
    b"9" * 5000,
    b"NaN",
    b"\\ud800",
    b": ",
    b"-----",
    b"/../",
    b"A" * 3000,
]


@pytest.fixture(autouse=True)
def in_time():
    """Fail a test that takes too long."""

    def late(*_unused):
        raise AssertionError(f"still busy after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def mutated_bytes(content: bytes, noise: random.Random) -> bytes:
    """Return the bytes with one to six mutations: parts deleted, repeated, inserted, replaced or reversed."""
    result = bytearray(content)
    for _unused in range(noise.randint(1, 6)):
        start = noise.randrange(len(result) + 1)
        end = min(len(result), start + noise.choice((1, 2, 8, 64, 1 << 20)))
        kind = noise.randrange(5)
        if kind == 0:
            del result[start:end]
        elif kind == 1:
            result[start:start] = result[start:end] * noise.randint(1, 3)
        elif kind == 2:
            result[start:start] = noise.choice(BYTES)
        elif kind == 3:
            result[start:end] = bytes(noise.randrange(256) for _unused in range(min(end - start, 64)))
        else:
            result[start:end] = bytes(reversed(result[start:end]))
    return bytes(result)


def mutated_text(content: str, noise: random.Random) -> str:
    return mutated_bytes(content.encode(), noise).decode("utf-8", noise.choice(("replace", "surrogateescape")))


def mutated_value(value, noise: random.Random):
    """Return a JSON value with one to four mutations: members replaced, removed or added."""
    result = json.loads(json.dumps(value))
    for _unused in range(noise.randint(1, 4)):
        places = list(containers(result))
        place = noise.choice(places)
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys or noise.random() < 0.1:
            if isinstance(place, dict):
                place[noise.choice(["name", "ansible_facts", "x" * 9000, "\x1b[2J"])] = copy.deepcopy(noise.choice(NASTY))
            continue
        key = noise.choice(keys)
        if noise.random() < 0.25:
            del place[key]
        else:
            place[key] = copy.deepcopy(noise.choice([*NASTY, *places]))
    return result


def containers(value):
    if isinstance(value, (dict, list)):
        yield value
        for each in list(value.values() if isinstance(value, dict) else value):
            yield from containers(each)


def is_harmless(line: str) -> bool:
    return not re.search("[\x00-\x08\x0a-\x1f\x7f-\x9f\u202e]", line)


# Job files

DOCUMENTS = ["job.json", "status/agent0.json", "status/over", "status/next", "status/queue"]
DESCRIPTION = {
    "name": "bad",
    "script": "train.py",
    "command": ["bash", "run.sh"],
    "arguments": ["--epochs", "2"],
    "launcher": "torchrun",
    "launcher_options": {"min_hosts": 0},
    "python": "/opt/pytorch/bin/python",
    "time_limit": 60,
    "created": 1790000000.0,
    "code": {"commit": "0" * 40, "changed": False, "repository": "https://host/x.git", "version": "main"},
}
RECORD = {
    "name": "agent0",
    "rank": 0,
    "ranks": [0, 1],
    "tagged": True,
    "part": "worker",
    "host": "deeplearning-worker1",
    "processes": 1,
    "state": "failed",
    "started": 1790000000.0,
    "heartbeat": 1790000009.0,
    "finished": 1790000009.0,
    "exit_code": 1,
    "cause": {"kind": "time_limit", "limit": 5.0},
    "active": 1790000001.0,
    "hang": {"seconds": 31.0, "median": 2.0, "lock": "/root/.cache/lock"},
    "stuck": [{"rank": 1, "where": "train.py, line 9", "waits": True, "suspended": False}],
}
FOLLOWING = {
    "action": "stop",
    "rule": "same_error",
    "decided": 1790000010.0,
    "started": 1790000000.0,
    "ran_on": 1,
    "failure": RECORD,
    "cause": {"kind": "script_error", "what": "ValueError at train.py, line 3", "exit_code": 1, "name": "ValueError", "message": "no"},
    "progress": False,
    "hosts": [],
    "set_aside": {"name": "1.pt", "changed": 1790000005.0},
}
LOG = """[rank 0] step 1
[rank 1] the disk is full
E1121 22:10:40.1 210 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 1 (pid: 213)
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_22:10:39
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 213)
"""
PROGRESS = "".join(json.dumps({"step": step, "steps": 9, "loss": 1 / (step + 1), "time": 1790000000.0 + step}) + "\n" for step in range(9))
NOTES = "1790000001.000 100\n1790000005.000 300\n"


@pytest.fixture
def jobs(tmp_path):
    """A directory that contains a valid job and another job, whose files a test damages."""
    contents = {
        "job.json": json.dumps(DESCRIPTION),
        "status/agent0.json": json.dumps(RECORD),
        "status/over": json.dumps({"state": "failed", "failure": RECORD, "restartable": True}),
        "status/next": json.dumps(FOLLOWING),
        "status/progress": NOTES,
        "status/queue": json.dumps({"queue": "slurm", "id": "7", "submitted": 1790000000.0}),
        "logs/agent0.log": LOG,
        "progress.jsonl": PROGRESS,
    }
    for name in ("honest", "bad"):
        for path, content in contents.items():
            place = tmp_path / name / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content)
    return tmp_path


def see(jobs):
    """Read the jobs in all available ways. Verify that the honest job is intact and that the output contains no control characters."""
    found, problems = listing.list_jobs({"directory": str(jobs), "heartbeat_timeout": 60}, COMPLETE)
    shown = [*listing.some(problems), *map(job_formatting.job_line, found)]
    honest = next(job for job in found if job["name"] == "honest")
    assert describe_failure(honest["failure"]) == "reached its time limit of 5 s"
    jobs_on(found, ["deeplearning-worker1"], {})
    paths = directories.Paths(str(jobs / "bad"))
    params = {
        "name": "bad",
        "attempt": None,
        "wait": 0,
        "hold": 0,
        "heartbeat_timeout": 60,
        "progress_offset": 0,
        "log_lines": 9,
        "log_process": None,
        "log_offsets": {},
        "goodput": ALWAYS,
    }
    with contextlib.suppress(OSError, ValueError):
        job = watch.watch(paths, params, COMPLETE)
        spent = job["goodput"]
        assert sum(spent["buckets"].values()) == pytest.approx(spent["nodes"] * spent["seconds"], abs=0.1)
        shown += [job_formatting.job_line(job), *job_formatting.tables(job), *job_formatting.summary(job, job["metrics"])]
        shown += job_formatting.log_lines(job["logs"], job["processes"])
        shown += job_formatting.failure_message(job, str).split("\n") if "failure" in job else []
    with contextlib.suppress(OSError, ValueError):
        report = collect.collect(paths, 60, COMPLETE)
        assert "<script" not in page.render(json.loads(json.dumps(report)), None)
    with contextlib.suppress(job_parameters.RefusalError):
        prepare.check_job("bad", paths, 60)
    assert [line for line in shown if not is_harmless(line)] == []


@pytest.fixture(autouse=True)
def no_charts(monkeypatch):
    """Disable drawing with matplotlib, which takes a second."""
    monkeypatch.setattr(charts, "can_draw", lambda: False)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", [*DOCUMENTS, "status/progress", "logs/agent0.log", "progress.jsonl"])
def test_damaged_files_of_a_job(jobs, name, seed):
    path = jobs / "bad" / name
    path.write_bytes(mutated_bytes(path.read_bytes(), random.Random(f"{name} {seed}")))
    see(jobs)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_files_of_a_job_with_other_values(jobs, name, seed):
    path = jobs / "bad" / name
    path.write_text(json.dumps(mutated_value(json.loads(path.read_text()), random.Random(f"{name} {seed}"))))
    see(jobs)


@pytest.mark.parametrize("seed", SEEDS)
def test_progress_with_other_values(jobs, seed):
    noise = random.Random(seed)
    lines = [json.dumps(mutated_value(json.loads(line), noise)) for line in PROGRESS.splitlines()]
    (jobs / "bad/progress.jsonl").write_text("\n".join(lines) + "\n")
    see(jobs)
    assert curves.read(str(jobs / "honest/progress.jsonl"), [], 1790000000.0, 1790000009.0)["step"] == 8.0
    assert read_status(directories.Paths(str(jobs / "honest")), 60)["metrics"]["step"] == 8


# Archives


def archive(kind: str) -> bytes:
    content = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
            for number in range(5):
                packed.writestr(f"folder/{number}.txt", "text " * 50)
    else:
        with tarfile.open(fileobj=content, mode=kind) as packed:
            for number in range(5):
                member = tarfile.TarInfo(f"folder/{number}.txt")
                member.size, member.mode = 250, 0o6755
                packed.addfile(member, io.BytesIO(b"text " * 50))
    return content.getvalue()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("kind", "name"), [("zip", "set.zip"), ("w", "set.tar"), ("w:gz", "set.tar.gz")])
def test_damaged_archives_of_data(tmp_path, kind, name, seed):
    path, folder = tmp_path / name, tmp_path / "unpacked/here"
    path.write_bytes(mutated_bytes(archive(kind), random.Random(f"{kind} {seed}")))
    with contextlib.suppress(DataError):
        archives.unpack(str(path), str(folder), path.name)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([name, "unpacked"])
    assert [each for each in folder.rglob("*") if each.is_file() and each.lstat().st_mode & 0o6000] == []


# Tags, and text from AWS and the console


def instance(number: int) -> dict:
    tags = {
        "aws:autoscaling:groupName": "bert-workers" if number > 1 else "bert-master",
        "deeplearning:cluster": "bert",
        "deeplearning:number": str(number),
        "NodeType": "Worker",
    }
    return {
        "InstanceId": f"i-0{number:016x}",
        "InstanceType": "p4d.24xlarge",
        "LaunchTime": "2026-11-22T00:00:00Z",
        "Placement": {"AvailabilityZone": "us-east-1a"},
        "PrivateIpAddress": f"10.0.0.{number}",
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_instances_with_other_tags(seed):
    """Tag keys and values are arbitrary text. Only AWS can set tags that begin with `aws:`."""
    noise = random.Random(seed)
    instances = [instance(number) for number in (1, 2, 3)]
    for tag in noise.sample(instances[2]["Tags"][1:], noise.randint(1, 3)):
        tag[noise.choice(["Key", "Value"])] = noise.choice(["deeplearning:number", "0", "-1", "2" * 300, *(str(each) for each in NASTY)])
    instances[2]["Tags"].append(
        {"Key": noise.choice(["deeplearning:file-system", "deeplearning:lustre-source"]), "Value": str(noise.choice(NASTY))}
    )
    foreign = {
        **instance(4),
        "Tags": [{"Key": "deeplearning:cluster", "Value": "bert"}, {"Key": "deeplearning:number", "Value": str(noise.choice(NASTY))}],
    }
    with contextlib.suppress(membership_tags.MembershipError):
        found = inventory.nodes("bert", [*instances, foreign], AUTO_SCALING)
        assert [node.instance_id for node in found if node.number < 3] == [each["InstanceId"] for each in instances[:2]]
        assert foreign["InstanceId"] not in {node.instance_id for node in found}


KEYS = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHJlYWwga2V5IG9mIGFuIGhvbmVzdCBob3N0ICAgIA== root@host"
CONSOLE = f"[   12.3] cloud-init\n-----BEGIN SSH HOST KEY KEYS-----\n{KEYS}\n-----END SSH HOST KEY KEYS-----\nlogin:"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_console(seed):
    noise = random.Random(seed)
    output = mutated_text(CONSOLE, noise) * noise.randint(1, 3)
    with contextlib.suppress(ValueError):
        for key in console.host_keys(output):
            assert console.KEY.fullmatch(key)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_public_key(seed):
    with contextlib.suppress(ValueError):
        key = certificates.bare_key(mutated_text(KEYS, random.Random(seed)))
        assert certificates.PUBLIC_KEY.fullmatch(key)
        assert "\n" not in key


@pytest.mark.parametrize("seed", SEEDS)
def test_texts_of_scaling_activities(seed):
    noise = random.Random(seed)
    now = datetime.datetime.now(datetime.UTC)
    launches = insufficient_capacity.Launches(since=now, wanted=3)
    told = mutated_text("We currently do not have sufficient p4d.24xlarge capacity. Launching EC2 instance failed.", noise)
    failed = {"StatusCode": "Failed", "StartTime": now, "ActivityId": "a", noise.choice(["StatusMessage", "Description"]): told}
    honest = {"StatusCode": "Failed", "StartTime": now, "ActivityId": "b", "StatusMessage": "VcpuLimitExceeded: the limit"}
    launches.observe(1, [failed, honest])
    message = insufficient_capacity.explain("bert-workers", launches)
    assert is_harmless(message + launches.newest_reason())
    assert "Service Quotas" in message


# Responses from hosts

SNAPSHOT = "root:x:0:0:root:/root:/bin/bash\nubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n644 0 0\ndGV4dA==\n-\n\n0\ncG9ydCAyMg==\n"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_snapshot(seed):
    printed = mutated_text(SNAPSHOT, random.Random(seed))
    action = SimpleNamespace(_low_level_execute_command=lambda command: {"rc": 0, "stdout": printed})
    found = snapshot.take(action, "ubuntu", ["/etc/hosts", "/etc/none"])
    if found is not None:
        assert found.account("ubuntu").home.startswith("/")


ANSWER = {
    "changed": False,
    "problems": ["record '/efs/jobs/a/status/rank0.json' is skipped"],
    "jobs": [
        {
            "name": "digits",
            "state": "failed",
            "directory": "/efs/jobs/digits",
            "script": "train.py",
            "command": [],
            "launcher": "torchrun",
            "created": 1790000000.0,
            "code": {},
            "metrics": {"step": 1, "loss": 0.5},
            "process_count": 1,
            "processes": [{**RECORD, "tag": "[rank {}] ", "log": "/efs/jobs/digits/logs/agent0.log"}],
            "failure": {**RECORD, "log": "/efs/jobs/digits/logs/agent0.log", "lines": ["the disk is full"], "tag": ""},
            "attempts": [{**FOLLOWING, "attempt": 1, "state": "failed", "hosts": 1, "logs": "/l", "set_aside": "1.pt", "damaged": []}],
        }
    ],
}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_modules_result_with_other_values(seed):
    answer = mutated_value(ANSWER, random.Random(seed))
    result = documented_values.documented_part(
        answer if isinstance(answer, dict) else {}, "deeplearning.cluster.training_job_info", "bert-worker2"
    )
    assert "ansible_facts" not in result
    jobs_on(result.get("jobs"), ["deeplearning-worker1"], {})


def test_there_are_three_hundred_of_them(request):
    mutated = [
        item
        for item in request.session.items
        if item.path == request.node.path and "seed" in getattr(item, "callspec", SimpleNamespace(params={})).params
    ]
    assert len(mutated) >= 300
