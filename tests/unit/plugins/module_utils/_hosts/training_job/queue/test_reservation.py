"""Tests of the unit that runs a job after YARN has reserved the job's hosts. tests/yarn_cluster.py runs the containers."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import signal
import socket
import threading
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.queue import (
    hold,
    queries,
    reservation,
    resource_manager,
    submission,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.start import unpack
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.units import systemd
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import directories, records
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition.refusal import RefusalError
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues import yarn
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues.base import QueueEntry, QueueError
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues.registry import QUEUES
from local_cloud.testing import wait_until
from yarn_cluster import YarnCluster, local_node

from ...._job.definition.parameters import parameters

HOSTS = ["deeplearning-worker1", "deeplearning-worker3", "deeplearning-worker12"]
NODES = ["ip-10-0-0-1.ec2.internal", "ip-10-0-0-3.ec2.internal", "ip-10-0-0-12.ec2.internal"]
OWN = NODES[1]
WORKERS = [{"name": name, "address": f"10.0.0.{number}", "number": number} for name, number in zip(HOSTS, (1, 3, 12))]


@pytest.fixture
def units(tmp_path, monkeypatch):
    """A folder with a file for each host on which the job's unit is active, as the containers see it."""
    folder = tmp_path / "units"
    folder.mkdir()
    for node in NODES:
        (folder / node).touch()
    programs = tmp_path / "programs"
    programs.mkdir()
    (tmp_path / "seen").mkdir()
    systemctl = f'[ -e "{folder}/$NM_HOST" ] || exit 3; : >"{tmp_path}/seen/$NM_HOST"'
    for name, text in (("systemctl", systemctl), ("sleep", 'exec /bin/sleep 0.1 # "$@"')):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    return folder


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(reservation, "INTERVAL", 0.1)
    monkeypatch.setattr(socket, "gethostbyname", dict(zip(NODES, (each["address"] for each in WORKERS))).__getitem__)
    for module in (reservation, submission.host):
        monkeypatch.setattr(module, "read_metadata", lambda _directory, _generation: {"number": 3, "workers": WORKERS})
    for name in ("DEEPLEARNING_QUEUE_ID", "DEEPLEARNING_QUEUE_HOSTS"):
        monkeypatch.setenv(name, "")
    handlers = {number: signal.getsignal(number) for number in hold.SIGNALS}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def cluster(tmp_path, monkeypatch, units):
    with YarnCluster([local_node(node, tmp_path / node) for node in NODES]) as cluster:
        monkeypatch.setattr(resource_manager, "address", lambda: cluster.url.removeprefix("http://"))
        yield cluster


@pytest.fixture
def job(paths, tmp_path, monkeypatch):
    unpack.make_directories(paths)
    monkeypatch.setattr(directories, "HELD", str(tmp_path / "held"))
    place = tmp_path / "held/digits"
    place.mkdir(parents=True)
    directory = os.path.dirname(paths.directory)
    given = parameters(user=pwd.getpwuid(os.getuid()).pw_name, directory=directory, queue="yarn", metadata_directory="/m")
    (place / hold.PARAMETERS).write_text(json.dumps({"queue": "yarn", "parameters": given, "nonce": "n"}))
    return hold.read_job(str(place))


@pytest.fixture
def runs(monkeypatch, tmp_path, units):
    """The hosts of each job that was run. After a job, no host has an active unit. Jobs are not shorter than the start of a container."""
    found = []

    def run(self):
        found.append([host["name"] for host in hold.allocated_hosts(self.job)])
        used = {NODES[HOSTS.index(name)] for name in found[-1]}
        wait_until(lambda: used <= {path.name for path in (tmp_path / "seen").iterdir()})
        for unit in units.iterdir():
            unit.unlink()
        return 0

    monkeypatch.setattr(hold.Holder, "run", run)
    return found


def submit(job, nonce="n", **changes):
    """Submit the job, and return the ID of the application."""
    found = QUEUES["yarn"].submit(submission.request(queries.run, {**job.parameters, **changes}, QUEUES["yarn"], nonce))
    return queries.ask(queries.run, QUEUES["yarn"], found)


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
    assert sorted(each.node.name for each in application.containers[1:]) == sorted(NODES)
    assert not os.path.exists(job.directory)
    assert failure(job) is None


def test_a_job_waits_until_all_hosts_are_free(cluster, job, runs):
    other = submit(job, name="other", host_count=1)
    wait_until(lambda: cluster.applications[other].shown()["runningContainers"] == 2)
    identity = submit(job)
    unit = reservation.Reservation(job)
    thread = threading.Thread(target=unit.wait_for_hosts)
    thread.start()
    wait_until(lambda: (unit.read_entry() or QueueEntry("", "", "", 0)).reason == "it has 2 of 3 hosts")
    assert queries.entries(queries.run, QUEUES["yarn"])["other"].stage == "allocated"
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
    threading.Timer(0.5, lambda: queries.send(QUEUES["yarn"], yarn.cancel([identity]))).start()
    assert reservation.Reservation(job).run() == 0
    assert (runs, failure(job)) == ([], None)
    assert not os.path.exists(job.directory)


def test_the_reason_of_a_failed_application_is_recorded(cluster, job, runs, tmp_path):
    for node in NODES:
        (tmp_path / node / "bin/java").write_text("#!/bin/sh\nexit 7\n")
    identity = submit(job)
    wait_until(lambda: cluster.applications[identity].state == "FAILED")
    assert reservation.Reservation(job).run() == 1
    text = f"AM Container for {identity} exited with exitCode: 7"
    assert failure(job) == f"YARN ended application {identity} (FAILED): {text}. Read its logs."
    assert runs == []


def test_a_host_without_the_unit_does_not_hold_up_the_others(cluster, job, runs, units):
    (units / NODES[2]).unlink()
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
    job.parameters["hosts"][0]["address"] = "10.0.0.99"
    assert reservation.Reservation(job).run() == 1
    assert failure(job) == (
        "YARN has allocated hosts that the job was not submitted for: ip-10-0-0-12.ec2.internal. Submit the job again with another name."
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
    monkeypatch.setattr(directories, "HELD", str(tmp_path / "all"))
    place = hold.directory("digits")
    commands = []

    def run(command):
        commands.append([command[0], os.path.exists(f"{place}/hold")])
        return 0, "", ""

    module = SimpleNamespace(params={**job.parameters, "generation": ""}, run_command=run, check_mode=False)
    assert submission.install(module, job.paths)["changed"]
    assert commands == [["systemctl", False], ["systemd-run", True]], "a unit that is stopped deletes the directory"
    kept = hold.read_job(place)
    assert kept.nonce == "k"
    assert kept.parameters["key"] == hashlib.sha256(b"k").hexdigest(), "the job's processes do not get the nonce"
    submit(kept, kept.nonce)
    assert reservation.Reservation(kept).wait_for_hosts()


def test_a_job_is_submitted_shown_and_cancelled(cluster, job, monkeypatch, tmp_path):
    """The test uses the functions that all queues share."""
    monkeypatch.setattr(directories, "QUEUE_LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(queries, "SEARCH", f"/usr/bin:{tmp_path}/{NODES[0]}/bin")
    submission.check(queries.run, "yarn", HOSTS, "/m")
    cluster.nodes[0].state = "LOST"
    with pytest.raises(RefusalError, match=r"queue: deeplearning-worker1 cannot be used, because YARN does not know them\. Run the job "):
        submission.check(queries.run, "yarn", HOSTS, "/m")
    module = SimpleNamespace(params=job.parameters, run_command=queries.run, check_mode=False)
    identity = submission.submit(module, job.paths)["queue_id"]
    assert submission.submit(module, job.paths) == {"changed": False, "queue_id": identity}
    found = records.read_queued(job.paths)
    assert (found["queue"], found["id"]) == ("yarn", identity)
    status = {"name": job.name, "state": "queued", "queue": found, "attempts": []}
    queries.complete(queries.run, [status])
    assert status["state"] == "queued"
    assert status["queue"]["reason"] in ("its ApplicationMaster has not started", "it has 0 of 3 hosts", "it has 1 of 3 hosts")
    commands = []
    submission.leave(lambda command: commands.append(command) or (0, "", ""), job)
    assert commands == [["systemctl", "stop", "deeplearning_hold-digits.service"]], "the unit would wait for a job that was not submitted"
    assert cluster.applications[identity].state == "KILLED"
    queries.complete(queries.run, [status])
    assert status["state"] == "stopped"


def test_a_job_without_a_key_is_refused(cluster, job):
    module = SimpleNamespace(params={**job.parameters, "generation": "", "key": None}, run_command=queries.run, check_mode=False)
    with pytest.raises(
        RefusalError, match=r"key: missing\. Specify a random string, with which the hosts recognize the job in queue 'yarn'\."
    ):
        submission.install(module, job.paths)


def test_an_application_that_somebody_else_has_submitted_starts_nothing(cluster, job, runs, monkeypatch):
    """The application has the same name, type and user as the job's own application, and in the second round also the same tags."""
    own = submit(job)
    cluster.kill(own)
    tags = cluster.applications.pop(own).context["application-tags"]
    forged = submit(job, "another nonce")
    wait_until(lambda: cluster.applications[forged].shown()["runningContainers"] == 4)
    for each in (None, tags):
        cluster.applications[forged].context["application-tags"] = each or cluster.applications[forged].context["application-tags"]
        monkeypatch.setattr(reservation, "SUBMISSION_TIMEOUT", 0.5)
        assert reservation.Reservation(job).wait_for_hosts() is None
        submission.leave(lambda _command: (0, "", ""), job)
        assert cluster.applications[forged].state == "RUNNING"


def test_an_application_of_an_earlier_job_with_the_same_name_is_not_this_job(cluster, job, runs, monkeypatch, tmp_path):
    """The ResourceManager remembers applications for a long time."""
    monkeypatch.setattr(directories, "QUEUE_LOCK", str(tmp_path / "lock"))
    states = {}
    for nonce, state in (("killed", "KILLED"), ("failed", "FAILED"), ("running", "RUNNING")):
        identity = submit(job, nonce)
        if state == "RUNNING":
            wait_until(lambda last=identity: cluster.applications[last].shown()["runningContainers"] == 4)
        else:
            with cluster.lock:
                cluster.end(cluster.applications[identity], state, state, "earlier")
        states[identity] = state
    unit = reservation.Reservation(job)
    assert unit.read_entry() is None
    module = SimpleNamespace(params=job.parameters, run_command=queries.run, check_mode=False)
    new = submission.submit(module, job.paths)["queue_id"]
    assert new not in states
    cluster.kill(identity)
    assert unit.run() == 0
    assert runs == [HOSTS]
    assert os.environ["DEEPLEARNING_QUEUE_ID"] == new


def test_a_unit_stays_with_its_first_application(cluster, job):
    unit, first = reservation.Reservation(job), submit(job)
    assert unit.read_entry().id == first
    cluster.kill(first)
    submit(job)
    assert unit.read_entry().stage == "cancelled"


def test_parameters_stay_while_the_jobs_own_application_waits(cluster, job):
    """Other applications with the same name have no effect."""
    os.utime(job.directory, (0, 0))
    own = submit(job)
    wait_until(lambda: cluster.applications[own].shown()["runningContainers"] == 4)
    forge(cluster, job)
    submission.prune(queries.run, QUEUES["yarn"])
    assert os.path.exists(job.directory)


def forge(cluster, job):
    """Submit and kill an application that has the job's name."""
    forged = submit(job, "forged", name="x")
    cluster.applications[forged].context["application-name"] = job.name
    cluster.kill(forged)


def test_the_status_of_a_job_is_that_of_its_own_application(cluster, job, monkeypatch, tmp_path):
    monkeypatch.setattr(queries, "SEARCH", f"/usr/bin:{tmp_path}/{NODES[0]}/bin")
    own = submit(job)
    wait_until(lambda: cluster.applications[own].shown()["runningContainers"] == 4)
    forge(cluster, job)
    status = {"name": job.name, "state": "queued", "queue": {"queue": "yarn", "id": own, "submitted": 5.0}, "attempts": []}
    queries.complete(queries.run, [status])
    assert status["state"] == "pending"


def test_a_host_without_the_jobs_parameters_submits_nothing(cluster, job):
    os.remove(os.path.join(job.directory, hold.PARAMETERS))
    module = SimpleNamespace(params=job.parameters, run_command=queries.run, check_mode=False)
    with pytest.raises(
        RefusalError, match=r"queue: this host does not have the parameters of job digits\. Run the module with state queued on all"
    ):
        submission.submit(module, job.paths)
    assert cluster.applications == {}


@pytest.mark.parametrize(
    ("count", "containers", "found"),
    [
        (0, [HOSTS[2], HOSTS[0], HOSTS[1]], HOSTS),
        (2, [HOSTS[2], HOSTS[0], HOSTS[1]], [HOSTS[0], HOSTS[2]]),
        (2, [HOSTS[2], HOSTS[2], HOSTS[0]], [HOSTS[0], HOSTS[2]]),
        (2, [HOSTS[2]], []),
        (2, [HOSTS[2], HOSTS[0], "stranger"], [HOSTS[0], HOSTS[2]]),
    ],
)
def test_the_first_containers_choose_the_hosts(job, monkeypatch, count, containers, found):
    """YARN can allocate more containers than requested."""
    job.parameters["host_count"] = count
    unit = reservation.Reservation(job)
    monkeypatch.setattr(unit, "containers", lambda _identity: containers)
    assert unit.chosen_hosts("") == found


def test_several_containers_on_a_host_do_not_reserve_hosts(job, monkeypatch):
    unit = reservation.Reservation(job)
    monkeypatch.setattr(unit, "containers", lambda _identity: [HOSTS[0], HOSTS[0], HOSTS[1]])
    with pytest.raises(
        RefusalError, match="YARN has started several containers of the job on one host, so it did not reserve entire hosts"
    ):
        unit.chosen_hosts("")


def test_a_unit_that_ends_in_an_unexpected_way_leaves_no_secrets(job, monkeypatch):
    monkeypatch.setattr(reservation.Reservation, "wait_for_hosts", lambda self: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        reservation.Reservation(job).run()
    assert not os.path.exists(job.directory)


@pytest.mark.parametrize("output", ["", "<html>", "[" * 100000, '{"apps": {"app": {"runningContainers": Infinity}}}'])
def test_responses_that_are_not_valid_do_not_end_the_unit(cluster, job, runs, monkeypatch, output):
    submit(job)
    monkeypatch.setattr(reservation, "SUBMISSION_TIMEOUT", 60)
    outputs, send = [output] * 3, resource_manager.send
    monkeypatch.setattr(resource_manager, "send", lambda *request: (0, outputs.pop(), "") if outputs else send(*request))
    assert reservation.Reservation(job).run() == 0
    assert runs == [HOSTS]


def test_a_waiting_unit_ends_even_if_yarn_does_not_respond(job, monkeypatch):
    monkeypatch.setattr(resource_manager, "send", lambda *_: (1, "", "Connection refused"))
    commands = []
    with pytest.raises(QueueError, match=r"queue: a request to YARN failed: Connection refused\."):
        submission.leave(lambda command: commands.append(command) or (0, "", ""), job)
    assert commands == [["systemctl", "stop", "deeplearning_hold-digits.service"]]


def test_only_a_child_process_reads_the_jobs_records(job, monkeypatch):
    """The storage might not respond, and the job's user can write to it."""
    unit = reservation.Reservation(job)
    monkeypatch.setattr(records, "read_records", lambda _paths: pytest.fail("read by root"))
    monkeypatch.setattr(resource_manager, "send", lambda *_: (0, '{"app": {"finalStatus": "FAILED", "diagnostics": "x\\ny."}}', ""))
    with pytest.raises(RefusalError, match=r"^YARN ended application a1 \(FAILED\): x y\. Read its logs\.$"):
        unit.check_end(QueueEntry("a1", "ended", "", 0))
    unit.check_end(QueueEntry("a1", "cancelled", "", 0))


def test_a_host_that_is_not_in_its_own_metadata_is_refused(job, monkeypatch):
    monkeypatch.setattr(reservation, "read_metadata", lambda _directory, _generation: {"number": 7, "workers": WORKERS})
    with pytest.raises(RefusalError, match=r"the metadata on this host has no entry for this host \(worker 7\)"):
        reservation.Reservation(job).own_name()


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


def test_a_running_job_goes_on_while_names_cannot_be_looked_up(running, monkeypatch, capsys):
    def fail(_name):
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    unit, _identity = running
    monkeypatch.setattr(socket, "gethostbyname", fail)
    monkeypatch.setattr(reservation, "CONTAINER_TIMEOUT", 0)
    unit.check_entry()
    assert not unit.cancelled.is_set()
    assert "cannot be looked up" in capsys.readouterr().err


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
    assert commands[1][:3] == ["systemd-run", "--quiet", "--collect"]
    assert "--unit=deeplearning_hold-digits.service" in commands[1]
    assert "--property=TimeoutStopSec=90" in commands[1]
    assert commands[1][-3:] == ["/bin/sh", f"{directories.HELD}/digits/hold", "reserve"]
    with pytest.raises(systemd.UnitError, match=r"systemd-run could not start deeplearning_hold-digits\.service: no"):
        reservation.start(lambda _command: (1, "", "no\n"), "digits", 30)
