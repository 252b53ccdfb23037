"""Tests of jobs that continue under their own name."""

from __future__ import annotations

import io
import json
import os
import tarfile
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.files import status
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.start import continuation
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import job_states, records
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition import job_parameters
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.directories import Paths

from ...._job.definition.parameters import parameters

DIGEST = "a" * 64


def archive(**files):
    """Return an archive of code that contains these files. A value that is not text is the target of a link."""
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name.replace("_py", ".py"))
            if isinstance(content, str):
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content.encode()))
            else:
                member.type, member.linkname = tarfile.SYMTYPE, content[0]
                tar.addfile(member)
    found.seek(0)
    return found


def test_jobs_that_a_job_continues_count(tmp_path, monkeypatch):
    """The descriptions belong to jobs, which can forge them."""
    monkeypatch.setattr(continuation.goodput, "node_seconds", lambda job, _timeout: {"a": 1.0, "b": 10.0, "c": 100.0}[job.directory[-1]])
    for name, resume in (("b", "a"), ("a", "b")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "job.json").write_text(json.dumps({"launcher": "torchrun", "created": 1.0, "resume": resume}))
    seconds = [
        continuation.earlier_node_seconds({"name": name, "resume": resume, "heartbeat_timeout": 5}, Paths(str(tmp_path / name)))
        for name, resume in (("c", ""), ("c", "a"), ("b", "a"))
    ]
    assert seconds == [100.0, 111.0, 11.0]


def test_the_digest_of_the_code_depends_on_names_and_contents():
    def digest(**files):
        return continuation.code_digest(archive(**files))

    same = digest(train_py="a", data_py="b")
    assert digest(data_py="b", train_py="a") == same
    others = [
        digest(train_py="a"),
        digest(train_py="b", data_py="b"),
        digest(train_py="a", other_py="b"),
        digest(train_py="a", data_py=["x"]),
    ]
    assert len({same, *others}) == 1 + len(others)


@pytest.fixture
def described(paths):
    """Return a function that writes the description of the job as its first attempt did, with changes."""
    os.makedirs(paths.directory)

    def write(**changes):
        keys = ("name", "script", "command", "arguments", "launcher", "launcher_options", "python")
        found = {key: parameters()[key] for key in keys}
        found.update(created=1.0, digest=DIGEST, checkpoint_directory=paths.checkpoints)
        with open(paths.description, "w", encoding="utf-8") as file:
            json.dump({**found, **changes}, file)

    return write


@pytest.mark.parametrize(
    ("options", "digest"),
    [
        ({}, DIGEST),
        ({}, ""),
        ({"script": "/elsewhere/train.py"}, DIGEST),
        ({"restarts": 0, "time_limit": 100, "hosts": [], "secrets": {"TOKEN": "u"}}, DIGEST),
    ],
    ids=["same", "check mode", "the same script in another folder", "options that a job does not keep"],
)
def test_the_same_job_can_continue(paths, described, options, digest):
    described()
    continuation.check_unchanged(parameters(**options), paths, digest)


@pytest.mark.parametrize(
    ("options", "digest", "what"),
    [
        ({"arguments": ["--epochs", "5"]}, DIGEST, "arguments"),
        ({"script": "/home/me/other.py"}, "b" * 64, "script and code"),
        ({"script": "other/train.py", "source": "/home/me"}, DIGEST, "script"),
        ({"launcher": "mpi"}, DIGEST, "launcher"),
        ({"launcher_options": {"min_hosts": 1}}, DIGEST, "launcher_options"),
        ({"command": ["bash"]}, DIGEST, "command"),
        ({"python": "/other"}, DIGEST, "python"),
        ({"environment": {"DEEPLEARNING_CHECKPOINT_DIRECTORY": "/fsx/other"}}, DIGEST, "checkpoint directory"),
    ],
)
def test_a_job_that_has_changed_is_refused(paths, described, options, digest, what):
    described()
    message = (
        rf"job digits has already run, and cannot continue under its own name, because its {what} changed since its start\. "
        r"Use the same values, or choose another name and set training_job_resume=digits$"
    )
    with pytest.raises(job_parameters.RefusalError, match=message):
        continuation.check_unchanged(parameters(**options), paths, digest)


def test_a_job_of_an_earlier_version_is_refused(paths, described):
    described(digest=None)
    with pytest.raises(job_parameters.RefusalError, match="because its code changed"):
        continuation.check_unchanged(parameters(), paths, DIGEST)


def test_a_job_without_a_description_is_refused(paths):
    with pytest.raises(job_parameters.RefusalError, match=r"job digits has already run, and cannot be continued: .* Choose another name"):
        continuation.check_unchanged(parameters(), paths, DIGEST)


def record(paths, rank, state, **changes):
    now = time.time()
    entry = {"name": f"rank{rank}", "rank": rank, "ranks": [rank], "host": f"w{rank + 1}", "part": "worker", "processes": 2}
    entry.update(started=now - 100, heartbeat=now - 90, finished=now - 90, state=state, restartable=True, available=False, **changes)
    os.makedirs(paths.status, exist_ok=True)
    records.write_json(paths.record(f"rank{rank}"), entry)


@pytest.mark.parametrize("has_decision", [True, False])
def test_the_next_attempt_follows_the_one_that_has_ended(paths, described, has_decision):
    described()
    record(paths, 0, "stopped")
    record(paths, 1, "failed", cause={"kind": "spot_interruption", "deadline": 9.0})
    failure = records.read_record(paths.record("rank1"))
    records.write_json(paths.verdict, {"state": "failed", "failure": failure, "restartable": True})
    if has_decision:
        ended = {"action": "stop", "rule": "too_few_hosts", "decided": 5.0, "started": 4.0, "ran_on": 2, "failure": failure}
        ended.update(cause=failure["cause"], progress=True, hosts=[], missing=["w2"], restarts=3, min_hosts=2)
        records.write_json(paths.following, ended)
    assert records.newest_attempt(paths).attempt == 1
    second = paths.of_attempt(2)
    continuation.begin_attempt(second, 60)
    first = records.read_following(paths)
    continuation.begin_attempt(second, 60)
    assert records.read_following(paths) == first, "the hosts write one decision"
    assert (first["action"], first["rule"], first["hosts"]) == ("restart", "continued", [])
    assert (first["cause"]["kind"], first["failure"]["host"], first["ran_on"]) == ("spot_interruption", "w2", 2)
    assert records.newest_attempt(paths).attempt == 2
    found = status.read_status(paths, 60)
    assert (found["state"], found["attempt"]) == ("running", 2), "until the processes have written their records"
    ended = found["attempts"][0]
    assert (ended["action"], ended["rule"], ended["failure"]["host"]) == ("restart", "continued", "w2")
    assert ended["cause"] == {"kind": "spot_interruption", "deadline": 9.0}
    assert job_states.read_state(paths, 60) == "running"


def test_hosts_that_could_not_reach_the_storage_end_the_last_attempt(paths, described):
    """Without a verdict, their supervisors would let the processes go on beside those of the next attempt."""
    described()
    record(paths, 0, "running")
    os.utime(paths.record("rank0"), (0, 0))  # the time of the file's last change counts as a heartbeat
    continuation.begin_attempt(paths.of_attempt(2), 60)
    verdict = records.read_verdict(paths)
    assert (verdict["state"], verdict["failure"]["name"], verdict.get("restartable")) == ("lost", "rank0", None)


def test_a_job_that_could_not_write_a_record_can_continue(paths, described):
    described()
    os.makedirs(paths.status)
    continuation.begin_attempt(paths.of_attempt(2), 60)
    assert records.newest_attempt(paths).attempt == 2
