"""Tests of the names, files and states of jobs and their processes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records, recovery
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.storage_problems import StorageProblem

ENDED = {
    "name": "rank0",
    "rank": 0,
    "ranks": [0],
    "part": "worker",
    "host": "w1",
    "processes": 1,
    "state": "failed",
    "started": 1.0,
    "heartbeat": 1000.0,
    "finished": 900.0,
}
DECISION = {"rule": "same_hosts", "decided": 1000.0}
CAUSE = {"kind": "exit_status", "what": "exit status 1"}


@pytest.mark.parametrize("name", ["a", "digits", "digits-2", "2026", "a" * 63])
def test_names(name):
    assert records.check_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a_b", "a/b", "../a", "a b", "a\n", "a.b", "ü", "a" * 64])
def test_what_is_not_a_name(name):
    with pytest.raises(ValueError, match=r"^name: .* is not a valid job name"):
        records.check_name(name)


def test_no_jobs_slice_is_inside_that_of_another():
    names = ["a", "a-b", "a-b-c", "ab"]
    slices = [records.slice_name(name) for name in names]
    assert len(set(slices)) == len(names)
    assert slices == ["deeplearning-a.slice", "deeplearning-a_b.slice", "deeplearning-a_b_c.slice", "deeplearning-ab.slice"]


def in_states(*states, processes):
    """Return records of processes.

    `service:state` and `spare:state` describe services and spares, and a state without a prefix describes a worker.
    """
    parts = [state.rpartition(":")[::2] for state in states]
    return [{"name": f"rank{n}", "state": state, "part": part or "worker", "processes": processes} for n, (part, state) in enumerate(parts)]


@pytest.mark.parametrize(
    ("states", "processes", "expected"),
    [
        ([], 0, "pending"),
        (["running"], 3, "running"),
        (["succeeded"], 3, "running"),
        (["succeeded", "running"], 2, "running"),
        (["succeeded", "succeeded"], 2, "succeeded"),
        (["succeeded", "failed"], 3, "failed"),
        (["stopped", "failed", "lost"], 3, "failed"),
        (["running", "lost"], 2, "lost"),
        (["stopped", "succeeded"], 2, "stopped"),
        (["succeeded", "service:running"], 2, "succeeded"),
        (["running", "service:succeeded"], 2, "running"),
        (["running", "service:failed"], 2, "failed"),
        (["running", "service:lost"], 2, "lost"),
        (["running", "spare:failed"], 2, "running"),
        (["succeeded", "spare:lost", "spare:succeeded"], 3, "succeeded"),
        (["succeeded", "spare:running"], 2, "running"),
        (["running", "spare:stopped"], 2, "stopped"),
        (["running", "standby:failed"], 1, "running"),
        (["succeeded", "standby:lost"], 1, "succeeded"),
        (["succeeded", "standby:running"], 1, "succeeded"),
        (["succeeded", "standby:running"], 2, "running"),
        (["running", "standby:stopped"], 1, "stopped"),
        (["standby:running", "standby:lost"], 1, "running"),
        (["standby:lost"], 1, "lost"),
    ],
)
def test_state_of_a_job(states, processes, expected):
    assert records.job_state(in_states(*states, processes=processes)) == expected


@pytest.mark.parametrize(
    ("state", "age", "expected"),
    [
        ("running", 60, "running"),
        ("running", 60.5, "lost"),
        ("running", -300, "running"),
        ("running", -300.5, "lost"),
        ("succeeded", 9999, "succeeded"),
    ],
)
def test_silence_means_lost_only_while_running(state, age, expected):
    assert records.process_state({"state": state, "heartbeat": 1000.0}, 1000.0 + age, 60) == expected


def test_a_record_with_its_present_state():
    old = {"name": "rank0", "state": "running", "heartbeat": 1000.0}
    assert records.with_state(old, 1061.0, 60) == {**old, "state": "lost"}
    assert records.with_state(old, 1060.0, 60) == old


def test_a_lost_process_ended_when_it_was_last_heard_of():
    assert records.last_moment({"state": "lost", "heartbeat": 5.0, "finished": 9.0}) == 5.0
    assert records.last_moment({"state": "failed", "heartbeat": 5.0, "finished": 9.0}) == 9.0


def record(rank):
    return {"ranks": [rank], "processes": 2, **process(rank, "running"), "heartbeat": 1.0, "finished": None}


def process(rank, state, finished=None, **more):
    return {
        "rank": rank,
        "name": f"rank{rank}",
        "part": "worker",
        "host": f"w{rank + 1}",
        "state": state,
        "finished": finished,
        "started": 0.0,
        "heartbeat": finished or 5.0,
        **more,
    }


def killed_by(name):
    return {"kind": "signal", "what": f"signal {name}", "name": name}


CLOSED = {"kind": "script_error", "what": "RuntimeError at train.py, line 9", "message": "Connection closed by peer"}
TIMED_OUT = {"kind": "hang", "what": "a time-out of ALLREDUCE with SeqNum 57", "message": "[Rank 0] Watchdog caught ..."}
RAISED = {"kind": "script_error", "what": "NameError at train.py, line 42", "name": "NameError", "message": "name 'x' is not defined"}


def test_the_earliest_failure_is_the_first_whatever_its_rank():
    found = records.first_failure([process(0, "failed", 12.0), process(1, "stopped", 3.0), process(2, "failed", 11.5)])
    assert found["rank"] == 2


def test_a_lost_process_comes_before_those_that_were_stopped():
    assert records.first_failure([process(0, "stopped", 1.0), process(1, "lost")])["rank"] == 1


def test_a_lost_process_comes_before_those_that_lost_the_connection_to_it():
    assert records.first_failure([process(0, "failed", 12.0), process(1, "lost", heartbeat=8.0)])["rank"] == 1
    assert records.first_failure([process(0, "failed", 12.0), process(1, "lost", heartbeat=13.0)])["rank"] == 0


@pytest.mark.parametrize(
    "message",
    [
        "[Errno 104] Connection reset by peer",
        "[Errno 32] Broken pipe",
        "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.11]:20123",
        "NCCL error: ncclRemoteError: A call failed possibly due to a network error or a remote process exited prematurely.",
        "recvValue failed on SocketImpl(fd=3): Connection was likely closed. Did the remote server shutdown or crash?",
        "failed to recv, got 0 bytes",
        "Net : Connection closed by remote peer ip-10-0-0-5.ec2.internal<50260>",
        "socketStartConnect: Connect to 10.0.0.5<43111> failed : Software caused connection abort",
        "socketPollConnect poll() returned 1, no POLLOUT events: Connection refused",
        "UNAVAILABLE: failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.5:23000: Connection refused",
        'UNKNOWN:Error received from peer  {grpc_message:"Socket closed", grpc_status:14}',
        "ABORTED: /job:jax_worker/replica:0/task:1 unexpectedly tried to connect with a different incarnation.",
        "Terminating process because the JAX distributed service detected fatal errors. This most likely indicates that another task died",
    ],
)
def test_a_process_that_lost_a_connection_is_the_cause_only_if_no_other_process_failed(message):
    cascade = {"cause": {"kind": "script_error", "what": "RuntimeError at train.py, line 9", "message": message}}
    first = process(0, "failed", 11.98, **cascade)
    second = process(1, "failed", 11.99, **cascade)
    root = process(2, "failed", 12.0, cause={"kind": "script_error", "what": "ValueError at train.py, line 42", "message": "no number"})
    assert records.first_failure([first, root, second])["rank"] == 2
    assert records.first_failure([first, process(2, "failed", 12.0)])["rank"] == 2
    assert records.first_failure([first, process(2, "lost", heartbeat=12.5)])["rank"] == 2
    assert records.first_failure([second, first, process(2, "stopped", 1.0)])["rank"] == 0


@pytest.mark.parametrize("name", ["RendezvousClosedError", "RendezvousConnectionError"])
def test_an_agent_whose_peer_has_ended_is_the_cause_only_if_no_other_process_failed(name):
    agent = process(0, "failed", 11.9, cause={"kind": "script_error", "what": f"{name} at x.py, line 7", "name": name, "message": ""})
    root = process(1, "failed", 12.0, cause=RAISED)
    assert records.first_failure([agent, root])["rank"] == 1
    assert records.first_failure([agent])["rank"] == 0


def test_an_aborted_process_is_the_cause_only_if_no_script_raised_an_exception():
    aborted = process(0, "failed", 11.0, cause=killed_by("SIGABRT"))
    crashed = process(0, "failed", 11.0, cause=killed_by("SIGSEGV"))
    raised = process(1, "failed", 12.0, cause={"kind": "script_error", "what": "ValueError at train.py, line 37", "message": "bad batch"})
    assert records.first_failure([aborted, raised])["rank"] == 1
    assert records.first_failure([crashed, raised])["rank"] == 0
    assert records.first_failure([aborted, process(1, "failed", 12.0)])["rank"] == 0
    for kind in ("disk_full", "gpu_memory", "hardware"):
        other = process(1, "failed", 12.0, cause={"kind": kind, "what": "OSError at train.py, line 37"})
        assert records.first_failure([aborted, other])["rank"] == 1
    hardware = process(0, "failed", 11.0, cause={**killed_by("SIGABRT"), "kind": "hardware"})
    assert records.first_failure([hardware, raised])["rank"] == 0, "the message of the abort names the cause"
    waited = process(0, "failed", 11.0, cause=TIMED_OUT)
    assert records.first_failure([waited, raised])["rank"] == 1, "it waited for the rank that raised the exception"


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([process(1, "stopped", 15.0)], True),
        ([process(1, "succeeded", 12.0)], True),
        ([process(1, "failed", 12.1, cause=CLOSED)], True),
        ([process(1, "failed", 12.1, cause=RAISED)], False),
        ([process(1, "stopped", 15.0), process(2, "failed", 12.1, cause=RAISED)], False),
        ([process(1, "stopped", 15.0, started=4.0)], False),
        ([process(1, "stopped", 15.0, part="service")], False),
        ([process(1, "stopped", 15.0, host="w1")], False),
        ([], False),
    ],
)
def test_an_error_occurs_on_one_host_alone_if_the_others_have_come_further(others, expected):
    failure = process(0, "failed", 12.0, cause=RAISED)
    assert records.is_alone(failure, [failure, *others]) is expected


@pytest.mark.parametrize(
    ("judged", "others", "rank"),
    [
        (process(0, "failed", 12.0), [process(1, "lost", heartbeat=8.0), process(2, "lost", heartbeat=9.0)], 1),
        (process(0, "failed", 12.0), [process(1, "lost", heartbeat=13.0)], 0),
        (process(0, "failed", 12.0), [process(1, "failed", 8.0), process(2, "running")], 0),
        (process(0, "failed", 12.0), [process(1, "lost", heartbeat=8.0, part="spare")], 0),
        (process(0, "stopped", 12.0), [process(1, "lost", heartbeat=8.0)], 0),
        (process(0, "lost", heartbeat=12.0), [process(1, "lost", heartbeat=8.0)], 0),
    ],
)
def test_the_cause_is_what_was_judged_unless_a_process_was_lost_before(judged, others, rank):
    assert records.cause([judged, *others], judged)["rank"] == rank


@pytest.mark.parametrize(
    ("cause", "others", "rank"),
    [
        (CLOSED, [process(1, "stopped", 12.5), process(2, "failed", 12.4, cause=RAISED)], 2),
        (killed_by("SIGABRT"), [process(1, "failed", 12.4, cause=RAISED)], 1),
        (TIMED_OUT, [process(1, "failed", 12.4, cause=RAISED)], 1),
        (CLOSED, [process(1, "failed", 12.4, cause=CLOSED)], 0),
        (CLOSED, [process(1, "stopped", 12.5)], 0),
        (killed_by("SIGSEGV"), [process(1, "failed", 12.4, cause=RAISED)], 0),
    ],
)
def test_a_failure_that_was_recorded_after_the_verdict_explains_a_lost_connection(cause, others, rank):
    judged = process(0, "failed", 12.0, cause=cause)
    assert records.cause([judged, *others], judged)["rank"] == rank


def test_a_process_that_has_not_noticed_that_connections_were_closed_is_the_cause():
    judged, other = process(0, "failed", 12.0, cause=CLOSED), process(1, "failed", 12.1, cause=CLOSED)
    deaf = process(2, "stopped", 14.0, still_connected="w1")
    found = records.cause([judged, other, deaf, process(3, "stopped", 14.0)], judged)
    assert records.describe_failure(found) == (
        "rank 2 on w3 received no data (its connections to w1 were open after all processes there had ended)"
    )
    assert (found["state"], found["finished"]) == ("failed", 12.0)
    assert found["cause"] == {"kind": recovery.NETWORK, "what": "a host that receives no data"}
    two = [judged, deaf, process(3, "stopped", 14.0, still_connected="w1")]
    assert records.cause(two, judged) == judged, "the network of the first host is the more likely cause"
    raised = process(1, "failed", 12.4, cause=RAISED)
    assert records.cause([judged, raised, deaf], judged) == raised
    killed = process(0, "failed", 12.0, cause=killed_by("SIGKILL"))
    assert records.cause([killed, deaf], killed) == killed


def test_a_process_that_has_raised_an_exception_and_does_not_end_is_the_cause():
    """Cleaning up after an exception can wait for the other ranks, which wait for an operation that the failed rank has not begun."""
    judged, hanging = process(0, "failed", 12.0, cause=TIMED_OUT), process(1, "stopped", 14.0, raised=RAISED)
    found = records.cause([judged, hanging, process(2, "stopped", 14.0)], judged)
    assert records.describe_failure(found) == (
        "rank 1 on w2 raised an exception and did not end, so that the other ranks waited for it"
        " (NameError at train.py, line 42: name 'x' is not defined)"
    )
    assert (found["state"], found["finished"], found["cause"]) == ("failed", 12.0, RAISED)
    raised = process(2, "failed", 12.4, cause=RAISED)
    assert records.cause([judged, hanging, raised], judged) == raised
    for other in ({"cause": killed_by("SIGSEGV")}, {"cause": TIMED_OUT, "reason": "made no progress"}):
        judged = process(0, "failed", 12.0, **other)
        assert records.cause([judged, hanging], judged) == judged


def test_a_host_is_on_standby_if_all_its_processes_are():
    parts = (("w1", "worker"), ("w3", "standby"), ("w2", "standby"), ("w1", "standby"), ("w3", "standby"), ("w4", "spare"))
    processes = [process(rank, "running", host=host, part=part) for rank, (host, part) in enumerate(parts)]
    assert records.standby_hosts(processes) == ["w3", "w2"]
    assert [each["part"] for each in records.participants(processes)] == ["worker", "spare"]


def test_a_job_that_succeeded_has_no_cause():
    assert records.cause([process(0, "lost")], None) is None


def test_success_has_no_failure():
    assert records.first_failure([process(0, "succeeded", 1.0), process(1, "running")]) is None


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"state": "failed", "exit_code": 3}, "ended with exit status 3"),
        ({"state": "failed", "signal": "SIGKILL"}, "was killed by signal SIGKILL"),
        ({"state": "failed", "reason": "reached its time limit of 5 s", "signal": "SIGTERM"}, "reached its time limit of 5 s"),
        ({"state": "lost", "heartbeat": 1767225600.5}, "has sent no heartbeat since 2026-01-01 00:00:00 UTC"),
        ({"state": "lost", "heartbeat": 1767225900.0}, "has sent no heartbeat since 2026-01-01 00:05:00 UTC"),
        ({"state": "lost", "heartbeat": 1767225900.5}, "has a heartbeat time in the future, 2026-01-01 00:05:00 UTC"),
    ],
)
def test_how_a_process_ended(monkeypatch, record, words):
    monkeypatch.setattr(records.time, "time", lambda: 1767225600.0)
    assert records.describe_end(record) == words


def test_records_are_sorted_by_number_and_broken_ones_left_out(tmp_path):
    paths = records.Paths(str(tmp_path))
    assert records.read_records(paths) == []
    (tmp_path / "status").mkdir()
    for rank in (10, 2):
        (tmp_path / f"status/rank{rank}.json").write_text(json.dumps(record(rank)))
    (tmp_path / "status/rank3.json").write_text("{")
    (tmp_path / "status/rank4.json.host.17").write_text("{}")
    (tmp_path / "status/over").write_text("{}")
    problems = []
    assert [found["rank"] for found in records.read_records(paths, problems)] == [2, 10]
    assert [problem.split(": ")[0] for problem in problems] == [f"record '{tmp_path}/status/rank3.json' is skipped"]


PLACE = {"rank": 2, "where": "train.py, line 9", "waits": True, "suspended": False}


@pytest.mark.parametrize(
    ("stuck", "is_valid"),
    [
        ([PLACE], True),
        ([], True),
        ([{**PLACE, "where": "x" * 401}], False),
        ([{**PLACE, "rank": -1}], False),
        ([{"rank": 2}], False),
        ([PLACE] * (records.RANKS_PER_HOST_LIMIT + 1), False),
        ("train.py", False),
    ],
)
def test_where_ranks_hang_is_checked(stuck, is_valid):
    if is_valid:
        assert records.check_record({**record(2), "stuck": stuck})["stuck"] == stuck
    else:
        with pytest.raises(ValueError, match="stuck"):
            records.check_record({**record(2), "stuck": stuck})


@pytest.mark.parametrize("name", ["rank0", "ps12", "scheduler"])
def test_no_unit_of_one_job_has_the_name_of_anothers(name):
    assert records.PROCESS_NAME.fullmatch(name)
    assert not records.PROCESS_NAME.fullmatch("a-" + name)
    assert records.unit_name("digits", name) == f"deeplearning-digits-{name}.service"


@pytest.mark.parametrize(("name", "words"), [("rank0", "rank 0"), ("ps12", "ps 12"), ("scheduler", "scheduler")])
def test_title(name, words):
    assert records.title(name) == words


@pytest.mark.parametrize("part", ["spare", "standby"])
def test_a_spare_is_no_failure_unless_somebody_stopped_it(part):
    spare = {"part": part}
    assert records.first_failure([process(0, "running"), process(1, "failed", 1.0, **spare)]) is None
    assert records.first_failure([process(0, "running"), process(1, "stopped", 1.0, **spare)])["rank"] == 1


def test_a_record_that_is_only_touched_is_a_heartbeat(tmp_path):
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps(record(0)))
    os.utime(path, (5.0, 5.0))
    assert records.read_record(str(path))["heartbeat"] == 5.0


def test_a_file_that_a_link_names_is_no_record(tmp_path):
    (tmp_path / "secret.json").write_text(json.dumps(record(0)))
    (tmp_path / "rank0.json").symlink_to("secret.json")
    assert records.read_record(str(tmp_path / "rank0.json")) is None
    assert records.read_record(str(tmp_path / "rank1.json")) is None


@pytest.fixture
def job(tmp_path):
    (tmp_path / "digits/status").mkdir(parents=True)
    return records.Paths(str(tmp_path / "digits"))


def write(path, document):
    with open(path, "w") as file:
        file.write(document if isinstance(document, str) else json.dumps(document))


def test_where_the_files_of_a_job_are():
    paths = records.Paths("/efs/jobs/digits")
    assert {name: getattr(paths, name).removeprefix("/efs/jobs/digits/") for name in dir(records.Paths) if name in FILES} == FILES
    assert (paths.log("rank0"), paths.record("rank0")) == ("/efs/jobs/digits/logs/rank0.log", "/efs/jobs/digits/status/rank0.json")


FILES = {
    "code": "code",
    "description": "job.json",
    "logs": "logs",
    "status": "status",
    "verdict": "status/over",
    "checkpoints": "checkpoints",
    "tensorboard": "tensorboard",
    "progress": "progress.jsonl",
    "progress_times": "status/progress",
}


def test_where_processes_are_on_their_host(monkeypatch, tmp_path):
    assert records.runtime_directory("digits", "rank0") == "/run/deeplearning/jobs/digits-rank0"
    assert records.private_directories("digits") == {
        "/dev/shm": "/run/deeplearning/shm/digits",
        "/tmp": "/var/lib/deeplearning-tmp/digits/tmp",
        "/var/tmp": "/var/lib/deeplearning-tmp/digits/var-tmp",
    }
    monkeypatch.setattr(records, "runtime_directory", lambda job, process: f"{tmp_path}/{job}-{process}")
    for name in ("digits-rank0", "digits-ps1", "digits-2-rank0", "digit-rank0", "other"):
        (tmp_path / name).mkdir()
    assert sorted(records.runtime_directories("digits")) == [f"{tmp_path}/digits-ps1", f"{tmp_path}/digits-rank0"]
    assert records.runtime_directories("digits-2") == [f"{tmp_path}/digits-2-rank0"]
    assert records.runtime_directories("d*") == []


def test_the_jobs_and_exports_that_run_on_a_host(monkeypatch, tmp_path):
    monkeypatch.setattr(records, "runtime_directory", lambda job, process: f"{tmp_path}/jobs/{job}-{process}")
    monkeypatch.setattr(records, "EXPORTS", str(tmp_path / "exports"))
    assert records.running_jobs() == records.running_exports() == []
    for name in ("jobs/digits-2-rank0", "jobs/digits-2-rank1", "jobs/bert-rank0", "exports/digits"):
        (tmp_path / name).mkdir(parents=True)
    assert (records.running_jobs(), records.running_exports()) == (["bert", "digits-2"], ["digits"])


def test_all_that_is_in_a_tree_is_deleted_and_nothing_outside(tmp_path):
    (tmp_path / "tree/deep").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "tree/link").symlink_to(tmp_path / "outside")
    (tmp_path / "-rf").touch()
    many = [tmp_path / f"file{number}" for number in range(1001)]
    for path in many:
        path.touch()
    records.delete([str(tmp_path / "tree"), str(tmp_path / "missing"), str(tmp_path / "-rf"), *map(str, many)])
    assert os.listdir(tmp_path) == ["outside"]


def test_commands_that_delete_have_the_length_that_the_kernel_takes(monkeypatch):
    commands = []
    done = SimpleNamespace(returncode=0, stderr="")
    monkeypatch.setattr(records.subprocess, "run", lambda command, **_: commands.append(command) or done)
    paths = [f"/run/{number}" for number in range(1000)]
    records.delete(paths)
    assert [command[:4] for command in commands] == [["rm", "-rf", "--one-file-system", "--"]] * 3
    assert [len(command) - 4 for command in commands] == [400, 400, 200]
    assert [path for command in commands for path in command[4:]] == paths
    records.delete([])
    assert len(commands) == 3


def test_what_cannot_be_deleted_is_told(capfd):
    with pytest.raises(OSError, match=r"^rm: cannot remove '/proc/version': [^\n]*$"):
        records.delete(["/proc/version"])
    assert capfd.readouterr() == ("", "")


def test_a_long_refusal_is_cut(monkeypatch):
    failed = SimpleNamespace(returncode=1, stderr=f" {'x' * 2000}\n")
    asked = {}
    monkeypatch.setattr(records.subprocess, "run", lambda _command, **options: asked.update(options) or failed)
    with pytest.raises(OSError, match="x") as error:
        records.delete(["/run/x"])
    assert str(error.value) == "x" * 1000
    assert (asked["stdin"], asked["errors"], asked["check"]) == (subprocess.DEVNULL, "replace", False)


def test_a_file_is_replaced_in_one_step(tmp_path, monkeypatch):
    path, replaced = tmp_path / "over", []

    def replace(source, target):
        replaced.append((source, target, json.loads(Path(source).read_text())))
        os.rename(source, target)

    monkeypatch.setattr(records.os, "replace", replace)
    monkeypatch.setattr(records.socket, "gethostname", lambda: "w1")
    records.write_json(str(path), {"state": "failed"})
    assert replaced == [(f"{path}.w1.{os.getpid()}", str(path), {"state": "failed"})]
    assert os.listdir(tmp_path) == ["over"]
    assert records.read_json(str(path)) == {"state": "failed"}


@pytest.mark.parametrize("content", [None, "", "{", "[]", "\ud800"])
def test_what_is_not_there_or_not_complete_reads_as_nothing(tmp_path, content):
    if content is not None:
        (tmp_path / "file").write_bytes(content.encode("utf-8", "surrogatepass"))
    assert records.read_json(str(tmp_path / "file")) is None


DESCRIPTION = {"launcher": "torchrun", "created": 1.5, "arguments": ["--epochs"], "code": {"commit": "0" * 40, "changed": False}}


def test_the_description_of_a_job(job):
    with pytest.raises(FileNotFoundError):
        records.read_description(job)
    write(job.description, {**DESCRIPTION, "name": "other", "time_limit": None})
    assert records.read_description(job) == DESCRIPTION
    write(job.description, {**DESCRIPTION, "created": "now"})
    with pytest.raises(ValueError, match=r"^its 'created' is 'now', not a number of seconds$"):
        records.read_description(job)


def test_a_link_is_no_directory_of_a_job(job, tmp_path):
    write(job.description, DESCRIPTION)
    (tmp_path / "link").symlink_to("digits")
    (tmp_path / "digits/status/rank0.json").write_text(json.dumps(record(0)))
    (tmp_path / "other").mkdir()
    (tmp_path / "other/status").symlink_to("../digits/status")
    (tmp_path / "digits/status/x.json").write_text("{")
    problems = []
    with pytest.raises(ValueError, match=r"^the job's directory is a symbolic link$"):
        records.read_description(records.Paths(str(tmp_path / "link")))
    assert records.read_records(records.Paths(str(tmp_path / "other")), problems) == problems == []
    (tmp_path / "file").mkdir()
    (tmp_path / "file/status").touch()
    assert records.read_records(records.Paths(str(tmp_path / "file"))) == []


@pytest.mark.parametrize(("sizes", "expected"), [([10], [True]), ([11], [False]), ([4, 6, 1], [True, True, False]), ([4, 5], [True, True])])
def test_a_budget_counts_what_is_read(sizes, expected):
    budget = records.Budget(10)
    assert [budget.take(size) for size in sizes] == expected
    assert (budget.size, budget.left) == (10, 10 - sum(sizes))
    assert records.Budget().left == 1 << 23


def test_records_beyond_the_budget_are_left_out_and_named(job):
    for rank in range(4):
        write(job.record(f"rank{rank}"), record(rank))
    size, problems = os.stat(job.record("rank0")).st_size, []
    found = records.read_records(job, problems, records.Budget(2 * size + 1))
    assert [item["rank"] for item in found] == [0, 1]
    listed = f"the records of job 'digits' in '{job.status}' exceed {2 * size + 1} bytes"
    told = f"{listed}: 'rank2.json' and the records after it are skipped"
    assert problems == [told]
    assert len(records.read_records(job, None, records.Budget(2 * size + 1))) == 2
    assert len(records.read_records(job, None, records.Budget(4 * size))) == 4


@pytest.mark.parametrize(("count", "read"), [(3, 3), (4, 3)])
def test_no_more_records_are_read_than_a_job_has(job, monkeypatch, count, read):
    monkeypatch.setattr(records, "RECORDS_LIMIT", 3)
    for rank in range(count):
        write(job.record(f"rank{rank}"), record(rank))
    problems = []
    assert len(records.read_records(job, problems)) == len(records.read_records(job)) == read
    assert problems == [f"'{job.status}' has more than 3 records. The remaining records are skipped."] * (count > 3)


def test_a_record_that_has_just_been_replaced_is_no_problem(job, monkeypatch):
    write(job.record("rank1"), record(1))
    monkeypatch.setattr(records, "_listing", lambda _directory: ["rank0.json", "rank1.json"])
    problems = []
    assert [item["rank"] for item in records.read_records(job, problems)] == [1]
    assert problems == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "rank1"}, "the process name 'rank1' does not match the name of the file"),
        ({"state": "failed"}, "the key 'finished' is missing"),
        ({"state": "stopped"}, "the key 'finished' is missing"),
        ({"state": "succeeded"}, "the key 'finished' is missing"),
        ({"host": ""}, "its 'host' is '', not the name of a host"),
    ],
)
def test_what_is_wrong_with_a_record_is_told(job, changes, message):
    write(job.record("rank0"), {**record(0), **changes})
    problems = []
    assert records.read_records(job, problems) == records.read_records(job) == []
    assert problems == [f"record '{job.record('rank0')}' is skipped: {message}"]
    assert records.read_record(job.record("rank0")) is None


def test_a_process_that_has_ended_tells_when():
    ended = {**record(0), "state": "failed", "finished": 4.0, "exit_code": 1, "colour": "red"}
    assert records.check_record(ended) == {key: value for key, value in ended.items() if key != "colour"}


def test_no_heartbeat_is_after_the_year_2106(tmp_path):
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps(record(0)))
    os.utime(path, (1 << 33, 1 << 33))
    assert records.read_record(str(path))["heartbeat"] == 1 << 32
    path.write_text(json.dumps({**record(0), "heartbeat": 50.0}))
    os.utime(path, (5.0, 5.0))
    assert records.read_record(str(path))["heartbeat"] == 50.0


def test_how_a_job_ended(job):
    problems = []
    assert records.read_verdict(job, problems) is None
    write(job.verdict, {"state": "succeeded", "failure": {"anything": 1}})
    assert records.read_verdict(job, problems) == {"state": "succeeded", "failure": None}
    failure = {**record(0), "state": "failed", "finished": 4.0}
    write(job.verdict, {"state": "failed", "failure": {**failure, "colour": "red"}, "colour": "red"})
    assert records.read_verdict(job, problems) == {"state": "failed", "failure": failure}
    assert problems == []


@pytest.mark.parametrize(
    ("verdict", "message"),
    [
        ("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ({"state": "running"}, "its 'state' is 'running', not one of succeeded, failed, stopped, lost"),
        ({"state": "failed"}, "it has no 'name'"),
        ({"state": "failed", "failure": []}, "its 'failure' is a list, not an object"),
    ],
)
def test_a_verdict_that_is_not_valid_is_named(job, verdict, message):
    write(job.verdict, verdict)
    problems = []
    assert records.read_verdict(job, problems) is records.read_verdict(job) is None
    assert problems == [f"verdict '{job.verdict}' is skipped: {message}"]


@pytest.mark.parametrize(
    ("code", "expected"),
    [(0, {"exit_code": 0}), (3, {"exit_code": 3}), (-1, {"signal": "SIGHUP"}), (-9, {"signal": "SIGKILL"}), (-40, {"signal": "40"})],
)
def test_what_a_record_keeps_of_a_return_code(code, expected):
    assert records.outcome(code) == expected


NOW = 1790000000.0


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({}, "running"),
        ({"heartbeat": NOW - 60}, "running"),
        ({"heartbeat": NOW - 61}, "lost"),
        ({"heartbeat": NOW - 61, "state": "waiting"}, "lost"),
        ({"heartbeat": NOW + 300, "state": "waiting"}, "waiting"),
        ({"heartbeat": NOW + 301}, "lost"),
        ({"heartbeat": NOW - 61, "state": "succeeded", "finished": NOW - 61}, "succeeded"),
        ({"heartbeat": NOW - 61, "state": "failed", "error": "x"}, "failed"),
    ],
)
def test_the_state_of_an_export(tmp_path, monkeypatch, change, state):
    monkeypatch.setattr(records.time, "time", lambda: NOW)
    paths = records.Paths(str(tmp_path))
    os.mkdir(paths.status)
    document = {"destination": "s3://results/team/digits/", "state": "running", "began": NOW, "heartbeat": NOW, "files": 0, **change}
    Path(paths.export).write_text(json.dumps(document))
    assert records.read_export(paths, 60) == {**document, "state": state}


@pytest.mark.parametrize(
    "change",
    [
        {"destination": "s3://results/\u001b[31m"},
        {"destination": "/etc"},
        {"destination": "s3://" + "a" * 1200},
        {"state": "lost"},
        {"began": "now"},
        {"heartbeat": None},
        {"finished": -1},
        *({key: -1} for key in ("files", "size", "uploaded", "uploaded_size", "changing", "omitted_count")),
        {"omitted": [1]},
        {"error": 5},
    ],
)
def test_an_invalid_state_of_an_export_is_none(tmp_path, change):
    paths = records.Paths(str(tmp_path))
    assert records.read_export(paths, 60) is None
    os.mkdir(paths.status)
    document = {"destination": "s3://results/digits/", "state": "running", "began": NOW, "heartbeat": NOW, **change}
    Path(paths.export).write_text(json.dumps(document))
    assert records.read_export(paths, 60) is None


def test_the_state_of_an_export_is_beside_the_records():
    assert records.Paths("/efs/jobs/digits").export == "/efs/jobs/digits/status/export"


def test_each_attempt_has_its_own_logs_and_records_and_the_rest_is_the_jobs():
    second = records.Paths("/efs/jobs/digits").of_attempt(2)
    assert second.log("rank0") == "/efs/jobs/digits/logs/attempt2/rank0.log"
    assert second.record("rank0") == "/efs/jobs/digits/status/attempt2/rank0.json"
    assert (second.verdict, second.following) == ("/efs/jobs/digits/status/attempt2/over", "/efs/jobs/digits/status/attempt2/next")
    for name in ("export", "progress_times", "progress", "checkpoints", "code", "description"):
        assert getattr(second, name) == getattr(second.of_attempt(1), name)


def test_the_newest_attempt_is_that_with_the_highest_number(job):
    assert records.newest_attempt(job).attempt == 1
    for name in ("attempt2", "attempt9", "attempt10", "attempt99999", "attempt0", "attempt-3", "attemptx", "rank0.json"):
        os.makedirs(os.path.join(job.status, name))
    for number in (1, 2, 9):
        write(job.of_attempt(number).following, {**DECISION, "action": "restart"})
    assert records.newest_attempt(job.of_attempt(2)).attempt == 10


@pytest.mark.parametrize("forged", [None, {}, {"rule": "same_hosts", "decided": 1.0, "action": "stop"}])
def test_an_attempt_counts_only_if_the_one_before_it_was_restarted(job, forged):
    """If an empty directory counted as an attempt, it would hide the attempt that is running."""
    write(job.following, {**DECISION, "action": "restart"})
    for number in (2, 1023, 1024, 1025):
        os.makedirs(job.of_attempt(number).status)
    if forged is not None:
        write(job.of_attempt(1023).following, forged)
    write(job.of_attempt(1024).following, {**DECISION, "action": "restart"})
    assert records.newest_attempt(job).attempt == 2
    write(job.of_attempt(1023).following, {**DECISION, "action": "restart"})
    assert records.newest_attempt(job).attempt == recovery.ATTEMPTS_LIMIT == 1024


def test_decisions_are_read_within_a_limit(job):
    write(job.following, {**DECISION, "action": "restart", "more": "x" * records.FOLLOWING_LIMIT})
    os.makedirs(job.of_attempt(2).status)
    assert records.newest_attempt(job).attempt == 1
    write(job.following, {**DECISION, "action": "restart"})
    assert records.newest_attempt(job).attempt == 2
    assert records.newest_attempt(job, records.Budget(10)).attempt == 1
    assert records.read_following(job, records.Budget(10)) is None


def test_decisions_explain_themselves_with_the_words_of_the_rule(job):
    """A job can forge a decision, but not the sentence that is displayed."""
    forged = {
        **DECISION,
        "action": "stop",
        "rule": "same_error",
        "why": "Run this as root: rm -rf /",
        "cause": {**CAUSE, "what": "ValueError at train.py, line 42"},
    }
    write(job.following, forged)
    shown = records.explain(records.read_following(job), 7)
    assert shown == ("The same error ended attempts 6 and 7, with no new checkpoint in between. Correct line 42 of train.py or its data.")
    assert (
        records.explain({**DECISION, "action": "stop", "rule": "same_hosts"}, 1)
        == "The recorded decision names an unknown rule (same_hosts)."
    )
    found = {**DECISION, "action": "stop", "rule": "too_few_hosts", "missing": ["w2"], "min_hosts": 2}
    assert records.explain(found, 1) == "w2 cannot be used, and the job needs 2 hosts (training_job_min_hosts)."


READ_ONLY = {"cause": {"kind": "health", "what": "/: is read-only", "name": "reboot"}, "failure": ENDED}
USED_UP = (
    "training_job_restarts is 2, and each of the last 2 restarts ended without a new checkpoint. Correct the cause, save checkpoints more "
    "often, or increase training_job_restarts."
)


@pytest.mark.parametrize(
    ("action", "rule", "found", "sentence"),
    [
        ("restart", "suspect_host", {"failure": ENDED}, "Attempts 2 and 3 failed on w1, so the job continues without this host."),
        ("restart", "suspect_host", {}, "Attempts 2 and 3 failed on , so the job continues without this host."),
        (
            "restart",
            "suspect_checkpoint",
            {"set_aside": {"name": "7.pt", "changed": 1.0}},
            "Attempts 2 and 3 failed after checkpoint 7.pt, so the job uses the checkpoint before it.",
        ),
        ("restart", "suspect_checkpoint", {}, "Attempts 2 and 3 failed after checkpoint , so the job uses the checkpoint before it."),
        (
            "restart",
            "same_hosts",
            {"damaged": [{"name": "7.pt", "changed": 1.0}]},
            "The job continues on the same hosts. Checkpoint 7.pt is damaged, so the job uses the checkpoint before it.",
        ),
        (
            "restart",
            "same_hosts",
            {"damaged": [{"name": name, "changed": 1.0} for name in ("7.pt", "6.pt")], "without_checkpoint": True},
            "The job continues on the same hosts. Checkpoints 7.pt, 6.pt are damaged, so no complete checkpoint is left, and the script "
            "may start over.",
        ),
        ("stop", "launcher", {"refusal": "one host"}, "The launcher cannot run the job on the remaining hosts: one host"),
        ("stop", "launcher", {}, "The launcher cannot run the job on the remaining hosts: "),
        ("stop", "no_restarts_left", {"restarts": 2}, USED_UP),
        ("stop", "no_restarts_left", {}, "training_job_restarts is 0, so a job is not restarted."),
        ("stop", "too_few_hosts", {"missing": ["w3"]}, "w3 cannot be used, and the job needs 0 hosts (training_job_min_hosts)."),
        ("restart", "fewer_hosts", {}, "The job continues without ."),
        (
            "restart",
            "spare_host",
            {"missing": ["w1", "w5"], "replacements": ["w4"], "hosts": ["w2", "w3", "w4", "w6"], "standby": ["w6"]},
            "w1, w5 cannot be used, so the job continues with spare w4.",
        ),
        ("restart", "spare_host", {"replacements": ["w4"]}, " cannot be used, so the job continues with spare ."),
        ("stop", "stop_exit_code", {"cause": {**CAUSE, "exit_code": 9}}, "Exit status 9 is in training_job_stop_exit_codes."),
        (
            "stop",
            "same_error",
            {"cause": {"kind": "not_started", "what": "no such file"}},
            "The same error ended attempts 2 and 3, with no new checkpoint in between.",
        ),
        (
            "stop",
            "certain_error",
            {"cause": {**CAUSE, "what": "an error"}},
            "The same error would end each attempt. Correct the script.",
        ),
        (
            "stop",
            "certain_error",
            {"cause": {**CAUSE, "what": "wrong arguments", "name": "usage"}},
            "The same error would end each attempt. Correct training_job_arguments.",
        ),
        (
            "stop",
            "certain_error",
            {"cause": {**CAUSE, "name": "certain"}},
            "The same error would end each attempt. Its message says what to change.",
        ),
        ("stop", "certain_error", {}, "The same error would end each attempt. Correct the script."),
        (
            "restart",
            "ask_for_replacement",
            {"cause": {"kind": "health", "what": "Xid 79", "name": "replace"}, "missing": ["w2"]},
            "The job continues without w2.",
        ),
        ("restart", "after_reboot", {**READ_ONLY, "reboots": True}, "w1 has been rebooted, and the job continues on the same hosts."),
        (
            "restart",
            "after_reboot",
            READ_ONLY,
            "The checks after the failure did not find this again, and the job continues on the same hosts.",
        ),
        (
            "stop",
            "too_few_hosts",
            {"missing": ["w2"], "min_hosts": 2, "excluded": ["w2"]},
            "w2 cannot be used, and the job needs 2 hosts (training_job_min_hosts). w2 is excluded from jobs. To see the commands, run "
            "deeplearning.cluster.health.",
        ),
    ],
)
def test_a_decision_says_what_the_file_says_about_the_situation(action, rule, found, sentence):
    assert records.explain({**DECISION, "action": action, "rule": rule, **found}, 3) == sentence


def test_the_cause_of_a_failure_as_the_rules_see_it():
    cause = {"kind": "signal", "what": "SIGSEGV", "name": "SIGSEGV", "exit_code": 139}
    assert records.recovery_cause(cause, "w1") == recovery.Cause("signal", "SIGSEGV", "w1", 139, "SIGSEGV")
    assert records.recovery_cause({}, "") == recovery.Cause(recovery.KILLED, "", "", None, "")
    full = {"path": "/ckpt", "problem": "space", "free": 0, "size": 1 << 30, "shared": False}
    assert records.recovery_cause({"storage": [{**full, "more": 1}]}, "w1").storage == (StorageProblem("/ckpt", "space", 0, 1 << 30),)


@pytest.mark.parametrize(
    "cause",
    [
        {"kind": "script_error", "what": "RuntimeError at train.py, line 3", "name": "RuntimeError", "message": "Connection reset by peer"},
        {"kind": "signal", "what": "signal SIGABRT", "name": "SIGABRT", "message": "[gloo] Connection closed by peer"},
    ],
)
def test_a_connection_that_was_closed_twice_for_no_known_reason_costs_no_checkpoint_and_no_host(cause):
    found = records.recovery_cause(cause, "w1")
    assert (found.kind, found.host, found.what) == (recovery.NETWORK, "", cause["what"])
    attempts = [recovery.FailedAttempt(found, False)] * 2
    policy = recovery.RestartPolicy(restarts=3, min_hosts=1)
    decision = recovery.decide(recovery.Situation(attempts, ["w1", "w2"], ["w1", "w2"], policy, "epoch-2", has_older=True))
    assert (decision.rule, decision.set_aside, decision.hosts) == ("same_hosts", "", ["w1", "w2"])
    own = records.recovery_cause({**cause, "message": "index out of range"}, "w1")
    assert (own.kind, own.host) == (cause["kind"], "w1")


@pytest.mark.parametrize(
    ("end", "cause", "problems", "sentence"),
    [
        (
            {"exit_code": 1},
            {"what": "RuntimeError at fit.py, line 33", "message": ". unexpected pos 704 vs 598"},
            [("/ckpt", "space", 512, 150 << 10)],
            "ended with exit status 1 (RuntimeError at fit.py, line 33: . unexpected pos 704 vs 598) while /ckpt was full (512 bytes of "
            "150 KiB free)",
        ),
        (
            {"exit_code": 3},
            {"what": "exit status 3"},
            [("/ckpt", "inodes", 1, 2), ("/tmp", "read_only", 1, 2)],
            "ended with exit status 3 while /ckpt had no free inodes and /tmp was mounted read-only",
        ),
        (
            {"signal": "SIGBUS"},
            {"what": "signal SIGBUS"},
            [("/dev/shm", "space", 3 << 20, 5 << 40)],
            "was killed by signal SIGBUS while /dev/shm was full (3 MiB of 5120 GiB free)",
        ),
        (
            {"exit_code": 1},
            {"what": "OSError at fit.py, line 3"},
            [("/fsx", "quota", 1, 2)],
            "ended with exit status 1 (OSError at fit.py, line 3) while /fsx had no space left within the user's disk quota",
        ),
        ({"exit_code": 1}, {"what": "OSError at fit.py, line 3"}, [], "ended with exit status 1 (OSError at fit.py, line 3)"),
    ],
)
def test_a_failure_names_the_storage_to_which_the_job_could_not_write(job, end, cause, problems, sentence):
    storage = [StorageProblem(*each)._asdict() for each in problems]
    found = {**ENDED, "state": "failed", **end, "cause": {"kind": "disk_full", **cause, "storage": storage}}
    write(job.record("rank0"), found)
    assert records.describe_failure(records.read_record(job.record("rank0"))) == f"rank 0 on w1 {sentence}"


@pytest.mark.parametrize("changes", [{"problem": "x"}, {"free": -1}, {"path": "x" * 5000}, {"size": None}])
def test_storage_problems_that_are_not_valid_are_left_out(job, changes):
    storage = [{**StorageProblem("/ckpt", "space")._asdict(), **changes}]
    write(job.record("rank0"), {**ENDED, "cause": {"kind": "disk_full", "what": "x", "storage": storage}})
    assert "cause" not in records.read_record(job.record("rank0"))


def test_a_cause_that_is_not_valid_leaves_the_rest_of_a_record(job):
    write(job.record("rank0"), {**ENDED, "cause": {"kind": "no such kind"}})
    assert "cause" not in records.read_record(job.record("rank0"))
    write(job.following, {**DECISION, "action": "stop", "cause": {**CAUSE, "what": "x" * 2000}})
    assert "cause" not in records.read_following(job)


@pytest.mark.parametrize("name", ["7.pt", "\udcff.pt", "a b", "lightning_logs/version_0/checkpoints/last.ckpt"])
def test_names_of_checkpoints(job, name):
    write(job.following, {**DECISION, "action": "restart", "set_aside": {"name": name, "changed": 1.0}})
    assert records.read_following(job)["set_aside"]["name"] == name


@pytest.mark.parametrize("name", ["..", ".hidden", "a/.b", "a/../b", "/a", "a/", "a//b", "a\0", "\ud800", ""])
def test_names_that_no_checkpoint_has(job, name):
    write(job.following, {**DECISION, "action": "restart", "set_aside": {"name": name, "changed": 1.0}})
    assert records.read_following(job) is None


def test_the_last_change_of_any_record(job):
    assert records.last_change(records.Paths("/nowhere")) == 0
    for number, moment in ((1, 50.0), (3, 70.0), (9999, 60.0)):
        os.makedirs(job.of_attempt(number).status, exist_ok=True)
        write(job.of_attempt(number).record("rank0"), ENDED)
        os.utime(job.of_attempt(number).record("rank0"), (moment, moment))
    assert records.last_change(job) == 70.0
    os.makedirs(job.logs)
    write(job.log("rank0"), "")
    os.symlink(job.log("rank0"), job.record("rank1"))
    os.utime(job.record("rank1"), (55.0, 55.0), follow_symlinks=False)
    assert records.last_change(job) == 70.0, "a link does not have the time of the file that it names"


@pytest.mark.parametrize("name", ["status", "logs"])
def test_attempts_behind_a_link_do_not_count(job, tmp_path, name):
    (tmp_path / "elsewhere/attempt2").mkdir(parents=True)
    os.makedirs(os.path.join(job.status, "attempt2"))
    place = os.path.join(job.directory, name)
    if os.path.isdir(place):
        os.rename(place, tmp_path / "moved")
    os.symlink(tmp_path / "elsewhere", place)
    assert records.newest_attempt(job).attempt == 1


def test_of_several_writers_of_a_new_file_one_succeeds(tmp_path):
    path = str(tmp_path / "next")
    assert records.write_new_json(path, {"action": "stop"})
    assert not records.write_new_json(path, {"action": "restart"})
    assert json.loads(Path(path).read_text()) == {"action": "stop"}
    assert os.listdir(tmp_path) == ["next"]


@pytest.mark.parametrize(
    ("restartable", "following", "now", "expected"),
    [
        (False, None, 1001.0, "failed"),
        (True, None, 1001.0, "running"),
        (True, None, 1100.0, "failed"),
        (True, {**DECISION, "action": "stop"}, 1001.0, "failed"),
        (True, {**DECISION, "action": "restart"}, 1001.0, "running"),
        (True, {**DECISION, "action": "restart"}, 1100.0, "failed"),
        (True, {**DECISION, "action": "restart", "decided": 1050.0}, 1100.0, "running"),
    ],
)
def test_a_job_that_is_about_to_be_restarted_is_running(job, monkeypatch, restartable, following, now, expected):
    monkeypatch.setattr(records.time, "time", lambda: now)
    write(job.record("rank0"), ENDED)
    os.utime(job.record("rank0"), (1000.0, 1000.0))
    write(job.verdict, {"state": "failed", "failure": ENDED, "restartable": restartable})
    if following:
        write(job.following, following)
    assert records.read_state(job, 60) == expected


@pytest.mark.parametrize(
    ("change", "now", "expected"),
    [
        ({"restartable": True}, 1001.0, "running"),
        ({"restartable": True}, 1060.0, "running"),
        ({"restartable": True}, 1060.1, "failed"),
        ({"restartable": True}, 1000.0 - records.CLOCK_LIMIT, "running"),
        ({"restartable": True, "available": False}, 1001.0, "failed"),
        ({"restartable": True, "state": "stopped"}, 1001.0, "stopped"),
        ({"restartable": True, "state": "succeeded"}, 1001.0, "succeeded"),
        ({}, 1001.0, "failed"),
    ],
)
def test_a_failure_ends_a_job_that_may_be_restarted_only_with_the_decision(job, monkeypatch, change, now, expected):
    monkeypatch.setattr(records.time, "time", lambda: now)
    write(job.record("rank0"), {**ENDED, **change})
    os.utime(job.record("rank0"), (1000.0, 1000.0))
    assert records.read_state(job, 60) == expected


CONNECTION = {"cause": {"kind": "script_error", "what": "RuntimeError", "message": "Connection reset by peer"}}
GONE = {"heartbeat": 8.0}


@pytest.mark.parametrize(
    ("verdict", "processes", "expected"),
    [
        pytest.param(process(1, "lost", **GONE), [process(0, "stopped", 30.0), process(1, "lost", **GONE)], "lost", id="a host is lost"),
        pytest.param(
            process(0, "failed", 12.0, **CONNECTION),
            [process(0, "failed", 12.0, **CONNECTION), process(1, "running", **GONE)],
            "running",
            id="a host is silent, and its peers have failed",
        ),
        pytest.param(
            process(0, "failed", 12.0, **CONNECTION),
            [process(0, "failed", 12.0, **CONNECTION), process(1, "lost", **GONE)],
            "lost",
            id="a host is lost, and its peers failed first",
        ),
        pytest.param(
            process(0, "failed", 12.0), [process(0, "failed", 12.0), process(1, "running", **GONE)], "running", id="its peers timed out"
        ),
        pytest.param(
            process(0, "failed", 12.0), [process(0, "failed", 12.0), process(1, "lost", **GONE)], "lost", id="they timed out first"
        ),
        pytest.param(None, [process(0, "failed", 12.0, **CONNECTION), process(1, "lost", **GONE)], "lost", id="without a verdict"),
        pytest.param(
            process(1, "failed", 12.0), [process(0, "stopped", 15.0), process(1, "failed", 12.0)], "failed", id="a supervisor is killed"
        ),
        pytest.param(
            process(1, "lost", **GONE),
            [process(0, "stopped", 30.0), process(1, "failed", 31.0)],
            "failed",
            id="a supervisor was killed, and its host recorded this late",
        ),
        pytest.param(
            process(0, "failed", 12.0),
            [process(0, "failed", 12.0), process(1, "running", heartbeat=12.5)],
            "failed",
            id="the others live",
        ),
        pytest.param(
            process(0, "failed", 12.0),
            [process(0, "failed", 12.0), process(1, "running", part="spare", **GONE)],
            "failed",
            id="a spare is silent",
        ),
        pytest.param(process(0, "running"), [process(0, "running")], "failed", id="a verdict that the job has written"),
    ],
)
def test_the_final_state_is_that_of_the_cause(verdict, processes, expected):
    """The order of the events does not matter."""
    failure = verdict or records.first_failure(processes)
    state = verdict["state"] if verdict and verdict["state"] in ("failed", "lost") else "failed"
    for order in (processes, processes[::-1]):
        assert records.failed_state(state, order, failure) == expected


@pytest.mark.parametrize(
    ("following", "expected"),
    [
        (None, ""),
        ({"action": "restart", "failure": {"state": "lost"}}, ""),
        ({"action": "stop", "failure": {"state": "lost"}}, "lost"),
        ({"action": "stop", "failure": {"state": "failed"}}, "failed"),
        ({"action": "stop", "failure": {"state": "running"}}, "failed"),
        ({"action": "stop"}, "failed"),
    ],
)
def test_the_decision_of_the_hosts_is_final(following, expected):
    assert records.decided_state("failed", following) == expected


@pytest.mark.parametrize(("now", "expected"), [(1060.0, "running"), (1061.0, "lost")])
def test_a_job_without_a_verdict_has_the_state_of_its_processes(job, monkeypatch, now, expected):
    monkeypatch.setattr(records.time, "time", lambda: now)
    assert records.read_state(job, 60) == "pending"
    write(job.record("rank0"), {**ENDED, "state": "running", "finished": None})
    os.utime(job.record("rank0"), (1000.0, 1000.0))
    assert records.read_state(job, 60) == expected
    write(job.verdict, {"state": "stopped", "failure": {**ENDED, "state": "stopped"}})
    assert records.read_state(job, 60) == "stopped", "the processes have not ended yet"


@pytest.mark.parametrize(("now", "expected"), [(1001.0, "running"), (1100.0, "lost")])
def test_an_attempt_without_records_is_about_to_start_unless_that_takes_too_long(job, monkeypatch, now, expected):
    monkeypatch.setattr(records.time, "time", lambda: now)
    write(job.following, {**DECISION, "action": "restart"})
    os.makedirs(job.of_attempt(2).status)
    assert records.read_state(job, 60) == expected


@pytest.mark.parametrize(
    "change", [{"action": "run"}, {"rule": None}, {"failure": {}}, {"hosts": ["a b"]}, {"set_aside": {"name": "../x"}}]
)
def test_a_decision_that_is_not_valid_is_none(job, change):
    write(job.following, {**DECISION, "action": "stop", **change})
    assert records.read_following(job) is None


def test_a_decision_is_read_without_unknown_keys(job):
    write(job.following, {**DECISION, "action": "stop", "failure": {**ENDED, "colour": "red"}, "colour": "red"})
    assert records.read_following(job) == {**DECISION, "action": "stop", "failure": ENDED}


def test_the_sentence_about_a_failure_names_the_scripts_line():
    failed = {**ENDED, "exit_code": 1, "cause": {"kind": "script_error", "what": "ValueError at train.py, line 3", "message": "no"}}
    assert records.describe_failure(failed) == "rank 0 on w1 ended with exit status 1 (ValueError at train.py, line 3: no)"
    del failed["cause"]["message"]
    assert records.describe_failure(failed) == "rank 0 on w1 ended with exit status 1 (ValueError at train.py, line 3)"


def test_the_sentence_about_a_time_out_names_the_collective_operation():
    failed = {**ENDED, "signal": "SIGABRT", "cause": TIMED_OUT}
    sentence = "rank 0 on w1 was killed by signal SIGABRT (a time-out of ALLREDUCE with SeqNum 57: [Rank 0] Watchdog caught ...)"
    assert records.describe_failure(failed) == sentence
    hung = {
        **ENDED,
        "reason": "made no progress for 9 s (it is at a.py, line 3)",
        "cause": {"kind": "hang", "what": "a hang at a.py, line 3"},
    }
    assert records.describe_failure(hung) == "rank 0 on w1 made no progress for 9 s (it is at a.py, line 3)"


def test_the_sentence_about_a_health_finding_is_about_the_host_and_not_about_a_process():
    failed = {**ENDED, "exit_code": 1, "cause": {"kind": "health", "what": "GPU 0000:64:00: Xid 79"}}
    assert records.describe_failure(failed) == "health finding on w1: GPU 0000:64:00: Xid 79"


def test_the_sentence_about_a_killed_process_says_that_the_kernel_has_not_killed_it_for_its_memory():
    killed = {**ENDED, "signal": "SIGKILL", "cause": {**killed_by("SIGKILL"), "message": recovery.NOT_BY_OOM_KILLER}}
    assert records.describe_failure(killed) == "rank 0 on w1 was killed by signal SIGKILL (not by the kernel's OOM killer)"


@pytest.mark.parametrize(
    ("kind", "what", "alone", "tagged"),
    [
        ("exit_status", "exit status 1", "ended with exit status 1", "ended with exit status 1"),
        ("exit_status", "exit status 3", "ended with exit status 3", "ended with exit status 1 (exit status 3 of a rank)"),
        ("signal", "signal SIGKILL", "was killed by signal SIGKILL", "ended with exit status 1 (signal SIGKILL of a rank)"),
        ("hang", "signal SIGKILL", "ended with exit status 1", "ended with exit status 1"),
        ("signal", "", "ended with exit status 1", "ended with exit status 1"),
    ],
)
def test_the_sentence_about_a_failure_says_how_the_script_ended(kind, what, alone, tagged):
    """If a launcher tags the output of ranks, the exit status is the launcher's, so the sentence also says how a rank ended."""
    failed = {**ENDED, "exit_code": 1, "cause": {"kind": kind, "what": what}}
    assert records.describe_failure(failed) == f"rank 0 on w1 {alone}"
    assert records.describe_failure({**failed, "tagged": True}) == f"rank 0 on w1 {tagged}"


ENTRY = {"queue": "slurm", "id": "7", "submitted": 5.0}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ENTRY),
        ({"failure": "w1: no space", "other": 1}, {**ENTRY, "failure": "w1: no space"}),
        ({"failure": "x" * 1001}, None),
        ({"failure": None}, ENTRY),
        ({"queue": "Slurm"}, None),
        ({"queue": "x" * 41}, None),
        ({"id": "7; true"}, None),
        ({"id": ""}, None),
        ({"id": "application_1404198295326_0001"}, {**ENTRY, "id": "application_1404198295326_0001"}),
        ({"id": "application_1"}, None),
        ({"id": "1" * 61}, None),
        ({"id": 7}, None),
        ({"submitted": "now"}, None),
        ({"submitted": -1}, None),
    ],
)
def test_the_entry_in_a_queue_is_read_if_it_is_valid(tmp_path, changes, expected):
    paths = records.Paths(str(tmp_path), attempt=3)
    assert paths.queue == str(tmp_path / "status/queue")
    (tmp_path / "status").mkdir()
    assert records.read_queued(paths) is None
    (tmp_path / "status/queue").write_text(json.dumps({**ENTRY, **changes}))
    assert records.read_queued(paths) == expected


@pytest.mark.parametrize("key", sorted(ENTRY))
def test_an_incomplete_entry_is_not_read(tmp_path, key):
    (tmp_path / "status").mkdir()
    (tmp_path / "status/queue").write_text(json.dumps({name: value for name, value in ENTRY.items() if name != key}))
    assert records.read_queued(records.Paths(str(tmp_path))) is None


@pytest.mark.parametrize(
    ("state", "entry", "expected"),
    [
        ("pending", {}, "queued"),
        ("running", {}, "running"),
        ("succeeded", {}, "succeeded"),
        ("pending", {"failure": "w1: no space"}, "failed"),
        ("stopped", {"failure": "w1: no space"}, "failed"),
    ],
)
def test_a_job_in_a_queue_waits_until_it_has_records(state, entry, expected):
    assert records.queued_state(state, {**ENTRY, **entry}) == expected
