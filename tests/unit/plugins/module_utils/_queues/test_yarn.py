"""Tests of requests to YARN and of YARN's responses. tests/yarn_cluster.py answers such requests in other tests."""

from __future__ import annotations

import json
import subprocess

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues import yarn
from ansible_collections.deeplearning.cluster.plugins.module_utils._queues.base import (
    ALLOCATED,
    CANCELLED,
    ENDED,
    WAITING,
    QueueEntry,
    QueueError,
    QueueRequest,
)

FIRST, SECOND, TENTH = (f"application_1404198295326_{number}" for number in ("0001", "0002", "10000"))


def node(name="h1", used=0, free=12288, cores=4, state="RUNNING"):
    memory = {"usedMemoryMB": used, "availMemoryMB": free}
    return {"nodeHostName": name, "state": state, "usedVirtualCores": 1, "availableVirtualCores": cores - 1, **memory}


def tags(identity=FIRST, name="digits", count=2, nonce="n"):
    return f"hosts={count},{yarn.proof(nonce, identity, name, count)}"


def application(identity=FIRST, name="digits", state="ACCEPTED", **changes):
    defaults = {"user": "deeplearning", "applicationType": "training_job", "applicationTags": tags(identity, name), "runningContainers": 0}
    return {"id": identity, "name": name, "state": state, **defaults, **changes}


def apps(*found):
    return json.dumps({"apps": {"app": list(found)} if found else None})


NODES, NONE = (node(), node("h2")), apps()


def request(nodes=NODES, own=NONE, memory=12288, cores=32, **changes):
    new = {"application-id": FIRST, "maximum-resource-capability": {"memory": memory, "vCores": cores}}
    answers = [json.dumps({"nodes": {"node": list(nodes)}}), own, json.dumps(new)]
    given = QueueRequest("digits", ["w1", "w2", "w3"], [], 2, ["hold"], ["finish"], 0, ["lead"], answers, "n")
    return given._replace(**changes)


def test_a_job_requests_whole_hosts():
    method, path, body = yarn.submit(request())
    assert (method, path) == ("POST", "/ws/v1/cluster/apps")
    found = json.loads(body)
    command = found["am-container-spec"]["commands"].pop("command")
    assert found == {
        "application-id": FIRST,
        "application-name": "digits",
        "application-type": "training_job",
        "application-tags": {"tag": tags().split(",")},
        "am-container-spec": {"commands": {}},
        "resource": {"memory": 1024, "vCores": 1},
        "keep-containers-across-application-attempts": True,
    }
    assert command == yarn.master_command("digits", 2, 11264, 3)


def test_the_command_writes_the_containers_command_in_javas_format(tmp_path):
    """The test runs the command as a NodeManager does. The command calls `java` with the class path."""
    (tmp_path / "bin").mkdir()
    for name, text in (("java", 'printf "%s\\n" "$@"'), ("yarn", "echo '/etc/hadoop/conf:/usr/lib/hadoop/*'")):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    for job in ("7", "a" * 63):
        command = yarn.master_command(job, 3, 11264, 3)
        for word, value in {"{{JAVA_HOME}}": "$HERE", "{{HADOOP_YARN_HOME}}": "$HERE", "<LOG_DIR>": str(tmp_path)}.items():
            command = command.replace(word, value)
        script = f'exec /bin/bash -c "{command}"\n'
        environment = {"HERE": str(tmp_path), "PATH": "/usr/bin:/bin"}
        subprocess.run(["/bin/bash", "-c", script], cwd=tmp_path, env=environment, check=True)
        content = (tmp_path / "shellCommands").read_bytes()
        assert int.from_bytes(content[:2], "big") == len(content) - 2
        is_held = f"systemctl is-active --quiet deeplearning_hold-{job}.service"
        assert content[2:].decode() == f"{is_held} && while {is_held}; do sleep 2; done"
        assert (tmp_path / "AppMaster.stdout").read_text().splitlines() == [
            *("-Xmx512m", "-cp", "/etc/hadoop/conf:/usr/lib/hadoop/*"),
            "org.apache.hadoop.yarn.applications.distributedshell.ApplicationMaster",
            *("-num_containers", "3", "-container_memory", "11264", "-container_vcores", "3", "-priority", "0"),
        ]


@pytest.mark.parametrize(("actives", "status"), [([0, 0, 3], 0), ([3], 3)])
def test_a_container_lives_as_long_as_the_unit(tmp_path, actives, status):
    (tmp_path / "answers").write_text("".join(f"{each}\n" for each in actives))
    (tmp_path / "systemctl").write_text(
        f"#!/bin/sh\nread answer <{tmp_path}/answers; sed -i 1d {tmp_path}/answers; echo $@ >{tmp_path}/asked; exit $answer\n"
    )
    (tmp_path / "sleep").write_text("#!/bin/sh\n")
    for name in ("systemctl", "sleep"):
        (tmp_path / name).chmod(0o755)
    command = yarn.container_command("digits") + "  1>out 2>err "
    done = subprocess.run(["/bin/bash", "-c", command], cwd=tmp_path, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=False)
    assert done.returncode == status
    assert (tmp_path / "asked").read_text() == "is-active --quiet deeplearning_hold-digits.service\n"
    assert (tmp_path / "answers").read_text() == ""


@pytest.mark.parametrize(
    ("changes", "size"),
    [
        ({}, (11264, 3)),
        ({"nodes": [node(used=4096, free=8192)]}, (11264, 3)),
        ({"nodes": [node(), node("h2", free=16384, cores=2)]}, (11264, 1)),
        ({"nodes": [node(), node("h2", free=2048, state="LOST")]}, (11264, 3)),
        ({"nodes": [node(cores=1)]}, (11264, 1)),
        ({"cores": 2}, (11264, 2)),
        ({"nodes": [node(free=2049)]}, (1025, 3)),
        ({"memory": 11264}, (11264, 3)),
    ],
)
def test_the_size_of_a_container(changes, size):
    command = json.loads(yarn.submit(request(**changes))[2])["am-container-spec"]["commands"]["command"]
    words = command.split()
    assert tuple(int(words[words.index(f"-container_{name}") + 1]) for name in ("memory", "vcores")) == size


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"excluded": ["w8", "w9"]}, "queue: YARN chooses from all of its hosts, but the job excludes w8, w9. Add these hosts to "),
        (
            {"nodes": [node(), node("h2", free=22528)]},
            "queue: YARN's hosts have between 12288 MB and 22528 MB of memory, so no container can reserve an entire host. Use hosts ",
        ),
        ({"nodes": [node(free=1024)]}, "queue: YARN's hosts have between 1024 MB and 1024 MB of memory, "),
        ({"nodes": [node(free=2048)]}, "queue: YARN's hosts have between 2048 MB and 2048 MB of memory, "),
        (
            {"memory": 11263},
            "queue: an entire host needs a container of 11264 MB, but YARN's containers have at most 11263 MB. Increase "
            "yarn.scheduler.maximum-allocation-mb.",
        ),
        (
            {"own": apps(application(name="first", state="RUNNING", runningContainers=2))},
            "queue: job first already waits in YARN. Two jobs that wait for entire hosts could wait for each other forever. Submit this "
            "job when first has started, or stop first.",
        ),
    ],
)
def test_a_job_that_yarn_cannot_start_is_refused(changes, message):
    with pytest.raises(QueueError) as error:
        yarn.submit(request(**changes))
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        ("[]", "TypeError"),
        ("{}", "KeyError('application-id')"),
        ('{"application-id": "application_1_1/../x"}', "ValueError"),
        (f'{{"application-id": "{FIRST}"}}', "KeyError('maximum-resource-capability')"),
        (f'{{"application-id": "{FIRST}", "maximum-resource-capability": {{}}}}', "KeyError('memory')"),
        (f'{{"application-id": "{FIRST}", "maximum-resource-capability": {{"memory": Infinity}}}}', "OverflowError"),
        ("[" * 100000, "RecursionError"),
    ],
)
def test_a_response_that_is_not_valid_is_reported(new, reason):
    answers = [*request().answers[:2], new]
    with pytest.raises(QueueError) as error:
        yarn.submit(request(answers=answers))
    assert str(error.value).startswith(f"queue: YARN's response is not valid: {reason}")
    assert str(error.value).endswith(". Check the version of YARN.")


@pytest.mark.parametrize(
    ("state", "containers", "stage"),
    [
        *((state, 0, WAITING) for state in ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED")),
        ("RUNNING", 1, WAITING),
        ("RUNNING", 2, WAITING),
        ("RUNNING", 3, ALLOCATED),
        ("FINISHED", -1, ENDED),
        ("FAILED", -1, ENDED),
        ("KILLED", -1, CANCELLED),
    ],
)
def test_stages(state, containers, stage):
    found = yarn.read_entries(apps(application(state=state, runningContainers=containers)), "")
    assert found["digits"].stage == stage
    assert bool(found["digits"].reason) == (stage == WAITING)


def test_entries_are_read_with_their_reasons_and_places():
    accepted = application(TENTH, "later", diagnostics=" AM resource limit\nexceeded \n")
    own = apps(accepted, application(FIRST, "digits", "RUNNING", runningContainers=2), application(SECOND, "new"))
    assert yarn.read_entries(own, apps(application(FIRST, type="SPARK"), accepted, application(SECOND))) == {
        "digits": QueueEntry(FIRST, WAITING, "it has 1 of 2 hosts", 0),
        "new": QueueEntry(SECOND, WAITING, "its ApplicationMaster has not started", 1),
        "later": QueueEntry(TENTH, WAITING, "AM resource limit exceeded", 2),
    }
    for nothing in (apps(), '{"apps": {}}', '{"apps": 7}', '{"apps": {"app": [7]}}', "[]"):
        assert yarn.read_entries(nothing, nothing) == {}


def test_a_job_that_is_not_accepted_any_more_has_no_place():
    assert yarn.read_entries(apps(application(SECOND, state="RUNNING")), apps(application(FIRST)))["digits"].before == 0


def test_a_long_reason_is_cut():
    assert yarn.read_entries(apps(application(diagnostics="x" * 1000)), "")["digits"].reason == "x" * 200


@pytest.mark.parametrize(
    "changes",
    [
        {"user": "hadoop"},
        {"applicationType": "SPARK"},
        {"applicationTags": ""},
        {"applicationTags": None},
        {"applicationTags": "hosts=0"},
        {"applicationTags": "xhosts=2"},
        {"name": "../etc"},
        {"name": "\x1b[2J"},
        {"name": None},
        {"id": "application_1"},
        {"id": f"{FIRST}/state"},
    ],
)
def test_other_applications_are_not_read(changes):
    other = {**application(), **changes}
    assert yarn.read_entries(apps(other), "") == {}
    assert yarn.read_entries(apps(other, application(TENTH)), "")["digits"].id == TENTH


def test_only_applications_with_the_tag_of_the_job_belong_to_it():
    """Every user can read the tags of an application and use the tags in another application."""
    is_own = yarn.is_proven({"digits": "n", "unknown": ""})
    good = application()
    assert yarn.read_entries(apps(good), "", is_own)["digits"].id == FIRST
    forged = [
        application(SECOND, applicationTags=tags(FIRST)),
        application(name="other"),
        application(name="unknown", applicationTags=tags(name="unknown", nonce="")),
        application(applicationTags=tags().replace("hosts=2", "hosts=1")),
        application(applicationTags=tags(nonce="m")),
        application(applicationTags="hosts=2"),
        application(applicationTags="hosts=2,job="),
        application(applicationTags="hosts=2,job=\ud800"),
    ]
    for each in forged:
        assert yarn.read_entries(apps(each), "", is_own) == {}
        for order in ((application(TENTH), each), (each, application(TENTH))):
            assert yarn.read_entries(apps(*order), "", is_own)["digits"].id == TENTH, "another one does not hide it"
    assert len(tags().split(",")[1]) <= 100
    assert tags() == tags().lower()


def test_applications_are_found_by_their_ids():
    shown = apps(application(), application(SECOND), application(TENTH, name="other"))
    assert {name: entry.id for name, entry in yarn.read_entries(shown, "", yarn.has_id({"digits": FIRST})).items()} == {"digits": FIRST}
    assert yarn.read_entries(apps(application(None)), "", yarn.has_id({})) == {}


@pytest.mark.parametrize("output", ["", "<html>", "[" * 100000])
def test_a_response_that_is_not_json_is_an_error_of_the_queue(output):
    for read in (yarn.read_nodes, yarn.read_containers, yarn.read_application, lambda text: yarn.read_entries(text, "")):
        with pytest.raises(QueueError, match=r"YARN's response is not valid: .*\. Check the version of YARN\."):
            read(output)


@pytest.mark.parametrize("value", [None, "x", [], {}, float("inf"), float("nan")])
def test_numbers_that_are_not_valid_are_zero(value):
    found = yarn.read_entries(apps(application(state="RUNNING", runningContainers=value)), "")
    assert found["digits"].reason == "it has 0 of 2 hosts"
    attempts = json.dumps({"appAttempts": {"appAttempt": [{"id": value}]}})
    assert yarn.show_containers(FIRST, attempts)[1].endswith("_000001/containers")
    assert not yarn.has_progress({"progress": value if value != float("inf") else 0})
    assert yarn.has_progress({"progress": 1, "state": value})
    assert yarn.has_progress({"progress": 0.5})
    assert yarn.has_progress({"progress": 0.5, "state": "RUNNING"})
    assert not yarn.has_progress({"progress": 100, "state": "KILLED"}), "it was cancelled"


def test_what_yarn_says_is_one_short_line():
    assert yarn.diagnostics({"diagnostics": " a\n\x1b[2Jb\n" + "x" * 1000}) == "a b " + "x" * 196
    assert yarn.final_status({"finalStatus": "FAILED\n" + "x" * 1000}) == "FAILED " + "x" * 193


@pytest.mark.parametrize("order", [(SECOND, TENTH), (TENTH, SECOND)])
def test_the_newest_application_of_a_name_counts(order):
    states = {SECOND: "KILLED", TENTH: "ACCEPTED"}
    found = yarn.read_entries(apps(*(application(identity, state=states[identity]) for identity in order)), "")
    assert (found["digits"].id, found["digits"].stage) == (TENTH, WAITING)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_containers_without_the_application_master(wrapped, count):
    """Jersey writes a list with one object as an object. Attempts take over the containers of earlier attempts."""
    rows = [
        {"containerId": f"container_1404198295326_0001_02_{number:06d}", "assignedNodeId": f"ip-10-0-0-{number}.ec2.internal:8041"}
        for number in (12, 1, 2)
    ][:count]
    found = {"container": rows[0] if count == 1 else rows}
    names = yarn.read_containers(json.dumps({"containers": found} if wrapped else found))
    assert names == [f"ip-10-0-0-{number}.ec2.internal" for number in {0: (), 1: (12,), 3: (2, 12)}[count]]


def test_containers_are_ordered_by_attempt_and_number():
    rows = [
        ("e17_7_0001_02_000002", "c"),
        ("e17_7_0001_01_000010", "b"),
        ("7_0001_01_000009", "a"),
        ("7_0001_02_000001", "master"),
        ("?", "x"),
    ]
    found = [{"containerId": f"container_{identity}", "assignedNodeId": f"{node}:8041"} for identity, node in rows]
    assert yarn.read_containers(json.dumps({"container": found})) == ["a", "b", "c"]


def test_the_containers_of_the_last_attempt_are_shown():
    attempts = json.dumps({"appAttempts": {"appAttempt": [{"id": 2}, {"id": 1}]}})
    path = f"/ws/v1/cluster/apps/{FIRST}/appattempts"
    assert yarn.show_attempts(FIRST) == ["GET", path]
    assert yarn.show_containers(FIRST, attempts) == ["GET", f"{path}/appattempt_1404198295326_0001_000002/containers"]
    none = json.dumps({"appAttempts": {}})
    assert yarn.show_containers(FIRST, none) == ["GET", f"{path}/appattempt_1404198295326_0001_000001/containers"]


def test_hosts_are_the_running_nodes():
    output = json.dumps({"nodes": {"node": [node(), node("h2", state="UNHEALTHY"), node("h3")]}})
    assert yarn.QUEUE.read_hosts(output) == ["h1", "h3"]
    assert yarn.QUEUE.is_open(output)
    assert not yarn.QUEUE.is_open(json.dumps({"nodes": {"node": [node(state="LOST")]}}))
    assert not yarn.QUEUE.is_open(json.dumps({"nodes": None}))


def test_the_other_requests():
    queue = yarn.QUEUE
    assert (queue.title, queue.service, bool(queue.reservations)) == ("YARN", "hadoop-yarn-nodemanager.service", True)
    assert queue.setup.startswith("Run the job on nodes of an EMR cluster on which YARN starts containers (training_job_hosts: workers; ")
    assert queue.programs == ("printf", "yarn")
    assert queue.show_hosts == queue.show_host("w1") == ["GET", "/ws/v1/cluster/nodes"]
    assert queue.show_own == ["GET", "/ws/v1/cluster/apps?applicationTypes=training_job"]
    assert queue.show_waiting == ["GET", "/ws/v1/cluster/apps?states=ACCEPTED"]
    assert list(queue.reservations.questions) == [queue.show_hosts, queue.show_own, ["POST", "/ws/v1/cluster/apps/new-application"]]
    assert queue.cancel([FIRST]) == ["PUT", f"/ws/v1/cluster/apps/{FIRST}/state", '{"state": "KILLED"}']
    assert yarn.show(FIRST) == ["GET", f"/ws/v1/cluster/apps/{FIRST}"]
    assert yarn.read_application('{"app": {"progress": 50.0}}') == {"progress": 50.0}
    assert yarn.read_application("{}") == yarn.read_application("[]") == {}
    environment = {"DEEPLEARNING_QUEUE_HOSTS": "w1:w2", "DEEPLEARNING_QUEUE_ID": FIRST}
    assert subprocess.run(queue.allocation(environment), capture_output=True, text=True, check=True).stdout == "w1\nw2\n"
    assert queue.allocation({}) == ["printf", r"%s\n", ""]
    assert (queue.identity(environment), queue.identity({})) == (FIRST, "")
