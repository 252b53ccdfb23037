"""Tests that use a stub of the AWS CLI to check what an export uploads."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.dataset.source import DataError, DeniedError
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_export import exporter
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.directories import Paths
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.job_states import read_export
from local_cloud.testing import wait_until

DESTINATION = "s3://results/team/digits/"


class Bucket:
    """The objects of a bucket. `before` is called before an upload reads the files."""

    def __init__(self):
        self.objects, self.uploads, self.before = {}, [], lambda: None

    def list(self, _access, source):
        assert source.text == DESTINATION
        return [json.dumps([len(content), '"tag"', source.key + key, "STANDARD"]) + "\n" for key, content in self.objects.items()]

    def copy(self, _access, source, target, report, *options, tree):
        assert (target, options, tree) == (DESTINATION, ("--recursive",), False)
        self.before()
        found = {str(path.relative_to(source)): path.read_bytes() for path in Path(source).rglob("*") if path.is_file()}
        self.uploads.append(sorted(found))
        self.objects.update(found)
        report(sum(map(len, found.values())), 0)


@pytest.fixture
def bucket(monkeypatch):
    found = Bucket()
    monkeypatch.setattr(exporter.s3, "list_objects", found.list)
    monkeypatch.setattr(exporter.s3, "copy", found.copy)
    return found


class Job:
    """A job's directory, and functions that export it."""

    def __init__(self, folder):
        self.paths = Paths(str(folder / "digits"))
        os.makedirs(self.paths.status)
        self.spec = {"directory": self.paths.directory, "checkpoints": self.paths.checkpoints, "destination": DESTINATION, "region": ""}
        self.spec |= {"include": [], "exclude": ["*.tmp"], "checkpoint_count": 0, "follow": False, "attempt": 1}
        self.spec |= {"standby": 0, "interval": 0, "heartbeat_timeout": 60}

    def write(self, path, content="", age=100):
        place = Path(self.paths.directory, path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
        os.utime(place, (time.time() - age, time.time() - age))
        return place

    def record(self, state):
        now = time.time()
        record = {"name": "rank0", "rank": 0, "ranks": [0], "part": "worker", "host": "w1", "processes": 1, "state": state}
        finished = {} if state == "running" else {"finished": now}
        Path(self.paths.record("rank0")).write_text(json.dumps({**record, "started": now, "heartbeat": now, **finished}))

    def exporter(self, **options):
        return exporter.Exporter({**self.spec, **options}, str(Path(self.paths.directory).parent / "links"))

    def run(self, **options):
        assert self.exporter(**options).run() == 0
        return self.state()

    def state(self):
        return read_export(self.paths, 60)


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


def test_what_differs_is_uploaded_and_nothing_else(job, bucket):
    job.write("job.json", "{}")
    log = job.write("logs/rank0.log", "step 1\n")
    job.write("checkpoints/last.tmp", "half")
    numbers = {"files": 2, "size": 9, "uploaded": 2, "uploaded_size": 9, "omitted": ["checkpoints/last.tmp"], "omitted_count": 1}
    assert job.exporter().plan() == {**numbers, "keys": ["job.json", "logs/rank0.log"]}
    assert not bucket.objects
    state = job.run()
    assert bucket.objects == {"job.json": b"{}", "logs/rank0.log": b"step 1\n"}
    assert state["state"] == "succeeded"
    assert (state["destination"], state["files"], state["size"], state["uploaded"], state["uploaded_size"]) == (DESTINATION, 2, 9, 2, 9)
    assert (state["omitted"], state["omitted_count"]) == (["checkpoints/last.tmp"], 1)
    assert (job.run()["uploaded"], job.exporter().plan()["keys"]) == (0, [])
    log.write_text("step 1\nstep 2\n")
    assert (job.run()["uploaded"], bucket.uploads[-1]) == (1, ["logs/rank0.log"])
    del bucket.objects["job.json"]
    assert (job.run()["uploaded"], bucket.uploads[-1]) == (1, ["job.json"])
    log.unlink()
    assert (job.run()["files"], bucket.objects["logs/rank0.log"]) == (1, b"step 1\nstep 2\n"), "nothing is deleted"


def test_no_unfinished_record_is_left_if_the_storage_is_full(job, bucket, monkeypatch):
    def replace(source, target, **_options):
        if target.endswith("/export.files"):
            raise OSError("No space left on device")
        os.rename(source, target)

    job.write("job.json", "{}")
    monkeypatch.setattr(os, "replace", replace)
    assert job.run()["state"] == "failed"
    assert os.listdir(job.paths.status) == ["export"]


def test_an_older_file_of_the_same_size_in_place_of_another_is_uploaded(job, bucket):
    job.write("checkpoints/last.pt", "first")
    later = job.write("checkpoints/last.pt.tmp", "later", age=50)
    job.run()
    later.rename(job.paths.checkpoints + "/last.pt")
    job.run()
    assert bucket.objects["checkpoints/last.pt"] == b"later"


def test_only_the_first_of_many_omitted_entries_are_named_and_only_as_printable_text(job, bucket):
    for number in range(30):
        job.write(f"a\n{'x' * 200}{number}.tmp")
    state = job.run()
    assert (state["omitted_count"], state["omitted"]) == (30, ["a\\n" + "x" * 197] * 20)


def test_only_the_newest_checkpoints_are_uploaded(job, bucket, tmp_path):
    for epoch in (8, 9, 10):
        job.write(f"checkpoints/epoch-{epoch}.pt", str(epoch))
    job.write("checkpoints/epoch-9.pt.sha256")
    job.write("logs/epoch-8.pt")
    job.run(checkpoint_count=1)
    assert bucket.uploads == [["checkpoints/epoch-10.pt", "logs/epoch-8.pt"]]
    job.run(checkpoint_count=2)
    assert bucket.uploads[1:] == [["checkpoints/epoch-9.pt", "checkpoints/epoch-9.pt.sha256"]]
    shutil.rmtree(job.paths.checkpoints)
    elsewhere = tmp_path / "elsewhere"
    for tag in ("step-1", "step-2"):
        (elsewhere / tag).mkdir(parents=True)
        (elsewhere / tag / "part").touch()
    (elsewhere / "latest").write_text("step-2")
    job.run(checkpoint_count=1, checkpoints=str(elsewhere))
    assert bucket.uploads[2:] == [["checkpoints/latest", "checkpoints/step-2/part"]]


def test_only_the_newest_checkpoints_of_collections_are_uploaded(job, bucket):
    for version, step in ((0, 4), (1, 8), (1, 12)):
        job.write(f"checkpoints/lightning_logs/version_{version}/checkpoints/epoch=0-step={step}.ckpt", str(step))
    job.write("checkpoints/lightning_logs/version_0/hparams.yaml")
    job.run(checkpoint_count=1)
    folder = "checkpoints/lightning_logs"
    assert bucket.uploads == [[f"{folder}/version_0/hparams.yaml", f"{folder}/version_1/checkpoints/epoch=0-step=12.ckpt"]]


def test_another_destination_gets_everything(job, bucket, monkeypatch):
    job.write("job.json", "{}")
    job.run()
    other = "s3://results/other/digits/"
    monkeypatch.setattr(exporter.s3, "list_objects", lambda _access, source: [json.dumps([2, "tag", f"{source.key}job.json", "STANDARD"])])
    assert job.exporter(destination=other).plan()["keys"] == ["job.json"]


def test_what_grows_while_it_is_uploaded_is_uploaded_again(job, bucket):
    log = job.write("logs/rank0.log", "step 1\n")

    def grow():
        bucket.before = lambda: None
        log.write_text("step 1\nstep 2\n")

    bucket.before = grow
    state = job.run()
    assert (state["state"], state["changing"], bucket.objects["logs/rank0.log"]) == ("succeeded", 0, b"step 1\nstep 2\n")


def test_what_never_rests_is_counted(job, bucket):
    log = job.write("logs/rank0.log", "")
    job.write("job.json", "{}")

    def grow():
        with log.open("a") as file:
            file.write("step\n")

    bucket.before = grow
    state = job.run()
    assert (state["state"], state["changing"], len(bucket.uploads)) == ("succeeded", 1, exporter.ROUNDS)
    assert bucket.uploads[1:] == [["logs/rank0.log"]] * 2


def test_what_vanishes_or_becomes_a_link_during_the_upload_is_what_was_selected(job, bucket, tmp_path):
    (tmp_path / "secret").write_text("key")
    gone, swapped = job.write("logs/gone", "1"), job.write("logs/swapped", "2")

    def replace():
        bucket.before = lambda: None
        gone.unlink()
        swapped.unlink()
        swapped.symlink_to(tmp_path / "secret")

    bucket.before = replace
    assert job.run()["state"] == "succeeded"
    assert bucket.objects == {"logs/gone": b"1", "logs/swapped": b"2"}


def test_what_vanishes_before_the_upload_is_left_out(job, bucket):
    stays, goes = job.write("logs/stays", "1"), job.write("logs/goes", "1")
    selected = job.exporter().select()
    goes.unlink()
    (batch,) = exporter.batches(selected.files.values(), selected.problems)
    try:
        assert (list(batch.files), selected.problems) == (["logs/stays"], [])
    finally:
        os.close(batch.files["logs/stays"][1])
    assert stays.exists()


def test_a_cli_that_fails_because_a_file_shrinks_is_run_again(job, bucket):
    log = job.write("logs/rank0.log", "step 1\n")

    def shrink():
        bucket.before = lambda: None
        log.write_text("")
        raise DataError("IncompleteBody")

    bucket.before = shrink
    assert (job.run()["state"], bucket.objects["logs/rank0.log"]) == ("succeeded", b"")


def test_a_failure_is_told_and_what_was_uploaded_is_kept(job, bucket, monkeypatch):
    monkeypatch.setattr(exporter, "BATCH_FILES", 1)
    job.write("a", "1")
    job.write("b", "2")

    def fail():
        if bucket.uploads:
            raise DataError("s3://results: S3 denies this host access.")

    bucket.before = fail
    state = job.run()
    assert (state["state"], state["error"]) == ("failed", "s3://results: S3 denies this host access.")
    bucket.before = lambda: None
    assert (job.run()["uploaded"], bucket.uploads) == (1, [["a"], ["b"]])


def test_a_failure_is_told_even_if_files_change_all_the_time(job, bucket):
    log = job.write("logs/rank0.log", "")

    def grow_and_fail():
        with log.open("a") as file:
            file.write("step\n")
        raise DataError("S3 is out of order")

    bucket.before = grow_and_fail
    state = job.run()
    assert (state["state"], state["error"]) == ("failed", "S3 is out of order")


@pytest.mark.parametrize(("patience", "state"), [(300, "succeeded"), (0, "failed")])
def test_a_new_permission_takes_some_seconds(job, bucket, monkeypatch, patience, state):
    monkeypatch.setattr(exporter, "GRANT_TIMEOUT", patience)
    monkeypatch.setattr(exporter, "POLL_INTERVAL", 0.01)
    job.write("job.json", "{}")

    def deny():
        bucket.before = lambda: None
        raise DeniedError("S3 denies this host access")

    bucket.before = deny
    assert job.run()["state"] == state


def test_what_cannot_be_exported_is_named_after_all_others_were(job, bucket):
    job.write("good", "1")
    for number in range(7):
        job.write(f"{number}\x01", "")
    state = job.run()
    assert state["state"] == "failed"
    assert "/digits/0\\x01' has a name with control characters, " in state["error"]
    assert ", and 2 more. Rename the files, change their permissions, or exclude them with training_job_export_exclude." in state["error"]
    assert bucket.objects == {"good": b"1"}
    with pytest.raises(exporter.SelectionError, match="These files cannot be exported"):
        job.exporter().plan()


def test_a_damaged_list_of_exported_files_only_costs_time(job, bucket):
    job.write("job.json", "{}")
    job.run()
    with open(job.paths.export + ".files", "ab") as file:
        file.write(b"no number\t5\tx\n\xff\n7\n")
    assert job.run()["uploaded"] == 0
    Path(job.paths.export + ".files").write_text("")
    assert job.run()["uploaded"] == 1


def follow(job, **options):
    """Start an export that follows the job, and return its thread."""
    following = threading.Thread(target=job.run, kwargs={"follow": True, **options}, daemon=True)
    following.start()
    return following


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(exporter, "POLL_INTERVAL", 0.01)


@pytest.mark.usefixtures("quick")
def test_a_job_is_followed_until_it_is_over(job, bucket):
    code = job.write("code/train.py", "pass")
    following = follow(job)
    wait_until(lambda: (job.state() or {}).get("state") == "waiting")
    assert bucket.uploads == [["code/train.py"]], "this upload happens before the job starts"
    job.record("running")
    code.write_text("fail")
    Path(job.paths.export + ".request").touch()
    wait_until(lambda: bucket.objects["code/train.py"] == b"fail")
    wait_until(lambda: job.state()["state"] == "waiting")
    job.write("logs/rank0.log", "the end")
    Path(job.paths.verdict).write_text('{"state": "succeeded"}')
    job.record("succeeded")
    following.join(60)
    assert bucket.objects["logs/rank0.log"] == b"the end"
    assert bucket.objects["status/over"] == b'{"state": "succeeded"}'
    assert job.state()["state"] == "succeeded"


def test_the_attempt_that_has_ended_does_not_end_the_export_of_a_job_that_continues(job, bucket, quick):
    job.write("logs/rank0.log", "attempt 1")
    Path(job.paths.verdict).write_text('{"state": "failed"}')
    job.record("failed")
    following = follow(job, attempt=2)
    following.join(0.5)
    assert following.is_alive()
    second = job.paths.of_attempt(2)
    os.makedirs(second.status)
    job.write("logs/attempt2/rank0.log", "attempt 2")
    Path(second.verdict).write_text('{"state": "succeeded"}')
    Path(job.paths.following).write_text(json.dumps({"action": "restart", "rule": "continued", "decided": time.time(), "hosts": []}))
    Path(second.record("rank0")).write_text(Path(job.paths.record("rank0")).read_text().replace("failed", "succeeded"))
    following.join(60)
    assert bucket.objects["logs/attempt2/rank0.log"] == b"attempt 2"
    assert job.state()["state"] == "succeeded"


def write_export(job, state, age=0.0):
    now = time.time() - age
    export = {"destination": DESTINATION, "state": state, "began": now, "heartbeat": now}
    job.write("status/export", json.dumps(export))


@pytest.fixture
def standby(monkeypatch, quick):
    monkeypatch.setattr(exporter, "HEARTBEAT_INTERVAL", 0.01)


@pytest.mark.usefixtures("standby")
def test_another_host_continues_the_export_of_a_lost_host(job, bucket):
    job.write("logs/rank0.log", "step 1")
    job.record("running")
    write_export(job, "waiting", age=71)
    first, second = follow(job, standby=1), follow(job, standby=2)
    wait_until(lambda: "logs/rank0.log" in bucket.objects)
    job.write("logs/rank0.log", "step 2")
    Path(job.paths.verdict).write_text('{"state": "succeeded"}')
    job.record("succeeded")
    for thread in (first, second):
        thread.join(60)
        assert not thread.is_alive()
    assert bucket.objects["logs/rank0.log"] == b"step 2"
    assert job.state()["state"] == "succeeded"
    assert len([names for names in bucket.uploads if "logs/rank0.log" in names]) == 2, "only one of the hosts has continued"


@pytest.mark.usefixtures("standby")
@pytest.mark.parametrize(("number", "seconds"), [(1, 70), (2, 80)])
def test_each_host_on_standby_waits_10_s_longer(job, bucket, monkeypatch, number, seconds):
    patience = []
    monkeypatch.setattr(exporter, "read_export", lambda _paths, limit: patience.append(limit) or {"state": "lost"})
    job.exporter(standby=number).run()
    assert patience == [seconds]


@pytest.mark.usefixtures("standby")
@pytest.mark.parametrize("state", ["succeeded", "failed"])
def test_a_host_on_standby_ends_with_the_export(job, bucket, state):
    job.record("running")
    write_export(job, "waiting")
    waiting = follow(job, standby=1)
    Path(job.paths.verdict).write_text('{"state": "succeeded"}')
    job.record("succeeded")
    time.sleep(0.1)
    assert waiting.is_alive(), "the last pass is missing"
    write_export(job, state)
    waiting.join(60)
    assert not waiting.is_alive()
    assert bucket.uploads == []


@pytest.mark.usefixtures("quick")
def test_a_failure_while_the_job_runs_is_tried_again_after_the_interval(job, bucket):
    def fail():
        raise DataError("the network is away")

    bucket.before = fail
    job.record("running")
    following = follow(job, interval=0.02)
    wait_until(lambda: (job.state() or {}).get("error") == "the network is away")
    bucket.before = lambda: None
    wait_until(lambda: "status/rank0.json" in bucket.objects)
    job.record("failed")
    following.join(60)
    assert job.state()["state"] == "succeeded"
    assert "error" not in job.state()


@pytest.mark.usefixtures("quick")
def test_a_job_that_does_not_start_is_not_followed_for_ever(job, bucket, monkeypatch):
    monkeypatch.setattr(exporter, "LIFE_TIMEOUT", 0.05)
    assert job.run(follow=True)["state"] == "succeeded"


@pytest.fixture
def root(job, tmp_path, monkeypatch):
    """Return the directories in which root records on this host that the job runs, and that it waits in a queue."""
    monkeypatch.setattr(exporter, "LIFE_TIMEOUT", 0.3)
    monkeypatch.setattr(directories, "HELD", str(tmp_path / "held"))
    monkeypatch.setattr(directories, "runtime_directory", lambda name, process: str(tmp_path / f"run/{name}-{process}"))
    return {"runs": tmp_path / "run/digits-rank0", "waits": tmp_path / "held/digits"}


ENTRY = json.dumps({"queue": "slurm", "id": "7", "submitted": 5.0})


@pytest.mark.usefixtures("quick", "root")
@pytest.mark.parametrize("forged", ["queue", "heartbeat", "attempt"])
def test_files_that_no_longer_change_do_not_keep_an_export(job, bucket, forged):
    job.write("logs/rank0.log", "the end")
    if forged == "queue":
        job.write("status/queue", ENTRY)
    if forged == "heartbeat":
        job.record("running")
        os.utime(job.paths.record("rank0"), (time.time() + 300,) * 2)
    spec = {"attempt": 2} if forged == "attempt" else {}
    assert job.run(follow=True, **spec)["state"] == "succeeded"
    assert "logs/rank0.log" in bucket.objects


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("state", ["runs", "waits"])
def test_an_export_lasts_while_root_says_that_the_job_does(job, bucket, root, state):
    root[state].mkdir(parents=True)
    job.write("status/queue", ENTRY)
    following = follow(job)
    following.join(1)
    assert following.is_alive()
    root[state].rmdir()
    following.join(60)
    assert job.state()["state"] == "succeeded"


@pytest.mark.usefixtures("quick", "root")
def test_an_export_lasts_while_other_hosts_send_heartbeats(job, bucket):
    following = follow(job)
    for _heartbeat in range(20):
        job.record("running")
        following.join(0.05)
    assert following.is_alive()
    following.join(60)
    assert job.state()["state"] == "succeeded"


def test_a_job_in_a_queue_may_start_at_any_time(job):
    assert exporter.is_over(job.paths, 60) is False
    job.write("status/queue", '{"queue": "slurm", "id": "7", "submitted": 5.0}')
    assert exporter.is_over(job.paths, 60) is False
    job.write("status/queue", '{"queue": "slurm", "id": "7", "submitted": 5.0, "failure": "no space"}')
    assert exporter.is_over(job.paths, 60) is True


def test_the_program_prints_the_plan(job, bucket, tmp_path, capsys, monkeypatch):
    job.write("job.json", "{}")
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(job.spec))
    assert exporter.main(["plan", str(spec)]) == 0
    assert json.loads(capsys.readouterr().out)["keys"] == ["job.json"]

    def refuse(*_):
        raise DataError("there is no bucket results")

    monkeypatch.setattr(exporter.s3, "list_objects", refuse)
    assert exporter.main(["plan", str(spec)]) == 0
    assert json.loads(capsys.readouterr().out) == {"error": "there is no bucket results"}
    assert exporter.main(["run", str(spec)]) == 0
    assert job.state()["error"] == "there is no bucket results"
