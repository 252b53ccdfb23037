"""Tests of the unit that runs a job when YARN has reserved its hosts. The containers really run, on the nodes of tests/yarn_cluster.py."""

from __future__ import annotations

import os
import pwd
import signal
import threading
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import (
    hold,
    queue,
    reservation,
    resource_manager,
    systemd,
    unpack,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.refusal import RefusalError
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import records
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues import yarn
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues.base import Entry, QueueError
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues.registry import QUEUES
from local_cloud.testing import wait_until
from yarn_cluster import YarnCluster, local_node

from .conftest import parameters

HOSTS = ["deeplearning-worker1", "deeplearning-worker3", "deeplearning-worker12"]
OWN = HOSTS[1]
WORKERS = [{"name": name, "address": f"10.0.0.{number}", "number": number} for name, number in zip(HOSTS, (1, 3, 12))]


@pytest.fixture
def units(tmp_path, monkeypatch):
    """A folder with a file for each host on which the job's unit is active, as the containers see it."""
    folder = tmp_path / "units"
    folder.mkdir()
    for host in HOSTS:
        (folder / host).touch()
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (("systemctl", f'[ -e "{folder}/$NM_HOST" ] || exit 3'), ("sleep", 'exec /bin/sleep 0.1 # "$@"')):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    return folder


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(reservation, "INTERVAL", 0.1)
    monkeypatch.setattr(resource_manager, "cluster_name", lambda name: name)
    monkeypatch.setattr(reservation, "read_metadata", lambda _directory, _generation: {"number": 3, "workers": WORKERS})
    for name in ("DEEPLEARNING_QUEUE_ID", "DEEPLEARNING_QUEUE_HOSTS"):
        monkeypatch.setenv(name, "")
    handlers = {number: signal.getsignal(number) for number in hold.SIGNALS}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def cluster(tmp_path, monkeypatch, units):
    with YarnCluster([local_node(host, tmp_path / host) for host in HOSTS]) as cluster:
        monkeypatch.setattr(resource_manager, "address", lambda: cluster.url.removeprefix("http://"))
        yield cluster


@pytest.fixture
def job(paths, tmp_path):
    unpack.make_directories(paths)
    place = tmp_path / "held"
    place.mkdir()
    directory = os.path.dirname(paths.directory)
    given = parameters(user=pwd.getpwuid(os.getuid()).pw_name, directory=directory, queue="yarn", metadata_directory="/m")
    return hold.Job(str(place), "yarn", given)


@pytest.fixture
def runs(monkeypatch, units):
    """The hosts of the job that was run on this host. The unit on each host ends with the job."""
    found = []

    def run(self):
        found.append([host["name"] for host in hold.allocated_hosts(self.job)])
        for unit in units.iterdir():
            unit.unlink()
        return 0

    monkeypatch.setattr(hold.Holder, "run", run)
    return found


def submit(job, **changes):
    """Submit the job, and return the ID of the application."""
    found = QUEUES["yarn"].submit(queue.request(hold.run, {**job.parameters, **changes}, QUEUES["yarn"]))
    return queue.ask(hold.run, QUEUES["yarn"], found)


def failure(job):
    return (records.read_queued(job.paths) or {}).get("failure")


def test_a_job_runs_when_yarn_has_allocated_all_of_its_hosts(cluster, job, runs):
    identity = submit(job)
    assert reservation.Reservation(job).run() == 0
    assert runs == [HOSTS]
    assert os.environ["DEEPLEARNING_QUEUE_ID"] == identity
    application = cluster.applications[identity]
    wait_until(lambda: application.state == "FINISHED")
    assert application.final == "SUCCEEDED"
    assert sorted(each.node.name for each in application.containers[1:]) == sorted(HOSTS)
    assert not os.path.exists(job.directory)
    assert failure(job) is None


def test_a_job_waits_until_all_hosts_are_free(cluster, job, runs):
    other = submit(job, name="other", host_count=1)
    wait_until(lambda: cluster.applications[other].shown()["runningContainers"] == 2)
    identity = submit(job)
    unit = reservation.Reservation(job)
    thread = threading.Thread(target=unit.wait_for_hosts)
    thread.start()
    wait_until(lambda: (unit.read_entry() or Entry("", "", "", 0)).reason == "it has 2 of 3 hosts")
    assert queue.entries(hold.run, QUEUES["yarn"])["other"].stage == "allocated"
    assert thread.is_alive()
    cluster.kill(other)
    thread.join(30)
    assert sorted(unit.containers(identity)) == sorted(HOSTS)


def test_a_second_job_that_would_wait_is_refused(cluster, job):
    cluster.nodes[0].state = "LOST"
    first = submit(job, name="first")
    with pytest.raises(QueueError, match=r"queue: job first already waits in YARN\. .* or stop first\."):
        submit(job)
    assert list(cluster.applications) == [first]


def test_a_host_that_yarn_does_not_choose_runs_nothing(cluster, job, runs):
    job.parameters["host_count"] = 2
    cluster.nodes[1].state = "UNHEALTHY"
    identity = submit(job)
    assert reservation.Reservation(job).run() == 0
    assert runs == []
    assert cluster.applications[identity].state == "RUNNING"
    assert not os.path.exists(job.directory)


def test_a_job_that_is_cancelled_while_it_waits_leaves_nothing(cluster, job, runs):
    cluster.nodes[0].state = "LOST"
    identity = submit(job)
    threading.Timer(0.5, lambda: hold.ask(QUEUES["yarn"], yarn.cancel([identity]))).start()
    assert reservation.Reservation(job).run() == 0
    assert (runs, failure(job)) == ([], None)
    assert not os.path.exists(job.directory)


def test_the_reason_of_a_failed_application_is_recorded(cluster, job, runs, tmp_path):
    for host in HOSTS:
        (tmp_path / host / "bin/java").write_text("#!/bin/sh\nexit 7\n")
    identity = submit(job)
    wait_until(lambda: cluster.applications[identity].state == "FAILED")
    assert reservation.Reservation(job).run() == 1
    text = f"AM Container for {identity} exited with exitCode: 7"
    assert failure(job) == f"YARN ended application {identity} (FAILED): {text}. Read its logs."
    assert runs == []


def test_a_host_without_the_unit_does_not_hold_up_the_others(cluster, job, runs, units):
    (units / HOSTS[2]).unlink()
    identity = submit(job)
    wait_until(lambda: cluster.applications[identity].shown()["progress"] > 0)
    assert reservation.Reservation(job).run() == 1
    assert failure(job) == (
        "a container ended before the job started, because no unit on its host waits for the job. Submit the job again with another name."
    )
    assert cluster.applications[identity].state == "KILLED"
    assert runs == []


def test_hosts_that_the_job_was_not_submitted_for_are_refused(cluster, job, runs):
    identity = submit(job)
    job.parameters["hosts"] = job.parameters["hosts"][1:]
    assert reservation.Reservation(job).run() == 1
    assert failure(job) == (
        "YARN has allocated hosts that the job was not submitted for: deeplearning-worker12. Submit the job again with another name."
    )
    assert cluster.applications[identity].state == "KILLED"


def test_a_job_that_one_host_refuses_is_cancelled(cluster, job, monkeypatch):
    monkeypatch.setattr(hold.Holder, "run", lambda self: 1)
    identity = submit(job)
    assert reservation.Reservation(job).run() == 1
    assert cluster.applications[identity].state == "KILLED"


def test_a_job_that_is_never_submitted_is_forgotten(cluster, job, runs, monkeypatch):
    monkeypatch.setattr(reservation, "SUBMISSION_TIMEOUT", 0.3)
    assert reservation.Reservation(job).run() == 0
    assert runs == []
    assert not os.path.exists(job.directory)


def test_a_unit_that_is_stopped_while_it_waits_ends(cluster, job, runs):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    assert reservation.Reservation(job).run() == 0
    assert runs == []


def test_a_resource_manager_that_does_not_respond_is_asked_again(cluster, job, runs, monkeypatch, capsys):
    submit(job)
    monkeypatch.setattr(reservation, "SUBMISSION_TIMEOUT", 0)
    failures = [1, 1, 1]
    send = resource_manager.send
    monkeypatch.setattr(
        resource_manager, "send", lambda *request: (failures.pop(), "", "Connection refused") if failures else send(*request)
    )
    assert reservation.Reservation(job).run() == 0
    assert runs == [HOSTS]
    assert capsys.readouterr().err == "a request to YARN failed: Connection refused.\n" * 3


def test_what_a_host_keeps_for_a_job_until_yarn_starts_it(cluster, job, monkeypatch, tmp_path):
    monkeypatch.setattr(hold, "HELD", str(tmp_path / "all"))
    monkeypatch.setattr(queue.host, "read_metadata", lambda _directory, _generation: {})
    place = hold.directory("digits")
    commands = []

    def run(command):
        commands.append([command[0], os.path.exists(f"{place}/hold")])
        return 0, "", ""

    module = SimpleNamespace(params={**job.parameters, "generation": ""}, run_command=run, check_mode=False)
    assert queue.install(module, job.paths)["changed"]
    assert commands == [["systemctl", False], ["systemd-run", True]], "a unit that is stopped deletes the directory"
    kept = hold.read_job(place)
    submit(kept)
    assert reservation.Reservation(kept).wait_for_hosts()


def test_a_job_is_submitted_shown_and_cancelled(cluster, job, monkeypatch, tmp_path):
    """With the functions that are the same for all queues."""
    monkeypatch.setattr(records, "LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(queue, "SEARCH", f"/usr/bin:{tmp_path}/{HOSTS[0]}/bin")
    queue.check(hold.run, "yarn", HOSTS)
    cluster.nodes[0].state = "LOST"
    with pytest.raises(RefusalError, match=r"queue: deeplearning-worker1 cannot be used, because YARN does not know them\. Run the job "):
        queue.check(hold.run, "yarn", HOSTS)
    module = SimpleNamespace(params=job.parameters, run_command=hold.run, check_mode=False)
    identity = queue.submit(module, job.paths)["queue_id"]
    assert queue.submit(module, job.paths) == {"changed": False, "queue_id": identity}
    found = records.read_queued(job.paths)
    assert (found["queue"], found["id"]) == ("yarn", identity)
    status = {"name": job.name, "state": "queued", "queue": found, "attempts": []}
    queue.complete(hold.run, [status])
    assert status["state"] == "queued"
    assert status["queue"]["reason"] in ("its ApplicationMaster has not started", "it has 0 of 3 hosts", "it has 1 of 3 hosts")
    commands = []
    queue.leave(lambda command: commands.append(command) or (0, "", ""), job)
    assert commands == [["systemctl", "stop", "deeplearning_hold-digits.service"]], "the unit would wait for a job that was not submitted"
    assert cluster.applications[identity].state == "KILLED"
    queue.complete(hold.run, [status])
    assert status["state"] == "stopped"


def test_a_user_whom_yarn_refuses_is_named(cluster, job):
    cluster.refused_users.add("deeplearning")
    with pytest.raises(QueueError) as error:
        submit(job)
    assert str(error.value).startswith("queue: a request to YARN failed: HTTP 400: User deeplearning does not have permission to submit ")


@pytest.fixture
def running(cluster, job, monkeypatch):
    """A unit whose job is running, and the ID of its application."""
    identity = submit(job)
    unit = reservation.Reservation(job)
    assert unit.wait_for_hosts() == (identity, HOSTS)
    monkeypatch.setattr(reservation, "INTERVAL", 0)
    return unit, identity


def test_a_running_job_is_stopped_when_yarn_kills_its_application(running, cluster):
    unit, identity = running
    unit.check_entry()
    assert not unit.cancelled.is_set()
    cluster.kill(identity)
    unit.check_entry()
    assert unit.cancelled.is_set()


def test_a_running_job_goes_on_while_the_resource_manager_does_not_respond(running, monkeypatch):
    unit, _identity = running
    monkeypatch.setattr(resource_manager, "send", lambda *_: (1, "", "Connection refused"))
    monkeypatch.setattr(reservation, "CONTAINER_TIMEOUT", 0)
    unit.check_entry()
    assert not unit.cancelled.is_set()


def test_a_host_whose_container_was_killed_is_stopped_after_a_while(running, cluster, monkeypatch):
    unit, identity = running
    with cluster.lock:
        own = next(each for each in cluster.applications[identity].containers[1:] if each.node.name == OWN)
        own.node.kill(own.identity, own.process)
        own.status = -104
    unit.check_entry()
    assert not unit.cancelled.is_set()
    monkeypatch.setattr(reservation, "CONTAINER_TIMEOUT", 0)
    unit.check_entry()
    assert unit.cancelled.is_set()


def test_yarn_is_not_asked_too_often(running, monkeypatch):
    unit, _identity = running
    monkeypatch.setattr(reservation, "INTERVAL", 60)
    monkeypatch.setattr(resource_manager, "send", lambda *_: pytest.fail("a request"))
    unit.check_entry()


def test_the_unit_of_a_host():
    commands = []

    def run(command):
        commands.append(command)
        return 0, "", ""

    reservation.stop(run, "digits")
    reservation.start(run, "digits", 30)
    assert commands[0] == ["systemctl", "stop", "deeplearning_hold-digits.service"]
    assert commands[1][:4] == ["systemd-run", "--quiet", "--collect", "--unit=deeplearning_hold-digits.service"]
    assert "--property=TimeoutStopSec=90" in commands[1]
    assert commands[1][-3:] == ["/bin/sh", f"{hold.HELD}/digits/hold", "reserve"]
    with pytest.raises(systemd.UnitError, match=r"systemd-run could not start deeplearning_hold-digits\.service: no"):
        reservation.start(lambda _command: (1, "", "no\n"), "digits", 30)
