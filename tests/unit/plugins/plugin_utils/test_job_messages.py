"""Tests of the messages of roles and playbooks about one job."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import job_messages

RUN = "ansible-playbook deeplearning.cluster."


@pytest.mark.parametrize(
    ("wanted", "why"), [("newest", "no job in /j has ended"), ("a", "job a has not ended"), ("b", "there is no job b in /j")]
)
def test_only_a_job_that_has_ended_is_continued(wanted, why):
    told = job_messages.continued_job(wanted, ["a"], "/j")
    advice = f"Specify a job that has ended, or remove this variable. To list the jobs, run {RUN}status"
    assert told == f"training_job_resume: {why}. {advice}"


@pytest.mark.parametrize(("has_failed", "what"), [(True, "failed"), (False, "was not exported")])
def test_nodes_stay_after_a_job_without_success(has_failed, what):
    always = " To apply it even if a job fails, set training_job_then_always: true." if has_failed else ""
    told = job_messages.kept_nodes("destroy", has_failed, False, "2 nodes keep running.")
    assert told == f"The job {what}, as shown above, so training_job_then: destroy is not applied.{always} 2 nodes keep running."
    told = job_messages.kept_nodes("destroy", True, True, "2 nodes run.")
    assert told == "This run no longer reaches the job, as shown above, so training_job_then: destroy is not applied. 2 nodes run."


def test_nodes_stay_if_the_job_was_not_started():
    told = job_messages.kept_nodes("destroy", True, False, "2 nodes run.", True)
    assert told == "The job was not started, as shown above, so training_job_then: destroy is not applied. 2 nodes run."


@pytest.mark.parametrize(
    ("then", "advice"),
    [
        ("keep", "Choose another name, or remove this variable to get a name that contains the current time."),
        (
            "destroy",
            "Because it had ended before this run, training_job_then: destroy is not applied, and the nodes continue to cost money. To "
            f"delete the cluster and keep the file systems, run {RUN}destroy",
        ),
    ],
)
def test_the_name_of_a_job_that_has_succeeded_is_not_used_again(then, advice):
    told = f"training_job_name: job bert has already run and its results are in /j/bert. {advice}"
    assert job_messages.used_name("bert", "/j/bert", then) == told


@pytest.mark.parametrize(
    ("excluded", "has_queue", "node", "fewer"),
    [
        (["a is excluded."], False, "this node", ", or set training_job_min_hosts to the minimum number of hosts"),
        (["a is excluded.", "b is excluded."], True, "these nodes", ""),
    ],
)
def test_a_job_does_not_start_on_excluded_hosts(excluded, has_queue, node, fewer):
    assert job_messages.excluded_hosts("bert", excluded, has_queue) == (
        f"Job bert was not started: {' '.join(excluded)} To run the job on the other nodes, set training_job_hosts{fewer}. To see how to "
        f"let jobs use {node} again, run {RUN}health"
    )


@pytest.mark.parametrize(
    ("others", "are", "that"), [(["a"], "a, which is", "that job"), (["a", "b"], "a, b, which are", "one of these jobs")]
)
def test_a_job_names_those_with_which_it_shares_hosts(others, are, that):
    assert job_messages.shared_hosts("bert", others) == (
        f"Job bert shares processors and memory with {are} running on the same hosts. To stop {that}, run {RUN}stop -e training_job_name=a"
    )


STARTS = "Job bert would start these processes on the nodes that exist now, in /j/bert"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, f"{STARTS}:\nrank 0\nrank 1"),
        ({"nodes": 2}, f"{STARTS}:\nrank 0\nrank 1"),
        (
            {"nodes": 4},
            f"{STARTS}. The definition has 4 nodes, so the job would run on 4 hosts, and not on 2 as shown here:\nrank 0\nrank 1",
        ),
        (
            {"unprepared": "no systemd", "printed": {}},
            "The processes of job bert cannot be predicted, because a host is not ready: no systemd",
        ),
        (
            {"is_running": True},
            "Job bert has already started, so this run would start nothing. It would wait for the job and show its progress. To stop the "
            f"job, run: {RUN}stop -e training_job_name=bert",
        ),
        (
            {"is_running": True, "waits": False},
            "Job bert has already started, so this run would start nothing. It would show how to watch the job. To stop the job, run: "
            f"{RUN}stop -e training_job_name=bert",
        ),
        ({"state": "printed", "is_running": True}, "run 0\nrun 1"),
        ({"state": "printed", "scripts_directory": "/s"}, "The commands of job bert are in /s: 0.sh, 1.sh. No process was started."),
    ],
)
def test_a_plan_shows_the_processes_of_a_job(facts, expected):
    printed = {"lines": ["rank 0", "rank 1"], "scripts": {"0": "run 0", "1": "run 1"}}
    default = {
        "job": "bert",
        "directory": "/j",
        "state": "started",
        "unprepared": "",
        "is_running": False,
        "waits": True,
        "nodes": 0,
        "hosts": 2,
    }
    assert job_messages.job_plan(**{**default, "printed": printed, "scripts_directory": "", **facts}) == expected


def test_an_interrupted_job_can_be_continued():
    stopped = "was stopped on all hosts, as requested with Ctrl-C."
    again = "To continue the job, run the same command again with -e training_job_name=bert-1"
    assert job_messages.interrupted_job("bert-1", False) == f"Job bert-1 {stopped} {again}"
    assert job_messages.interrupted_job("bert-1", True) == (
        f"Job bert-1 {stopped} To continue from the newest checkpoint, if there is one, run: {RUN}train -e training_job_name=bert-2 -e "
        "training_job_resume=bert-1"
    )


@pytest.mark.parametrize(("reason", "why"), [("No access", "No access"), ("No access.\n", "No access"), ("", "the host does not answer")])
def test_a_job_that_was_not_exported_can_be_exported_later(reason, why):
    assert job_messages.unexported_job("bert", "/j", reason, "s3://b/p") == (
        f"Job bert was not exported: {why}. Its files are in /j/bert. To export them, run {RUN}export -e training_job_name=bert -e "
        "training_job_export=s3://b/p"
    )


@pytest.mark.parametrize(
    ("hosts", "names"),
    [(["w2"], "w2"), (["w10", "w2", "w3", "w4"], "w2, w3, w4, w10"), ([f"w{n}" for n in range(9)], "w0, w1, w2 and 6 more hosts")],
)
def test_a_stopped_job_names_few_hosts(hosts, names):
    assert job_messages.stopped_job("bert", hosts) == f"Stopped job bert on {names}."


def test_a_run_that_no_longer_reaches_the_job_names_the_nodes_that_are_gone():
    job = {"processes": [{"host": "w1", "instance": "i-1", "state": "running"}, {"host": "w2", "instance": "i-2", "state": "running"}]}
    losses = {"nodes": {}, "former": [{"instance_id": "i-1", "cause": "", "replacement": ""}], "unreachable": []}
    gone = "w1 is gone: i-1 is no longer running, and no instance has been launched to replace it yet."
    assert job_messages.failed_job("The host is unreachable.", job, losses) == f"{gone} The host is unreachable."
    assert job_messages.failed_job("The host is unreachable.", {}, losses) == "The host is unreachable."
