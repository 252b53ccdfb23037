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
    hosts = [("rank0", "w1", "i-1"), ("rank1", "w2", "i-2")]
    job = {"processes": [{"name": name, "host": host, "instance": instance, "state": "running"} for name, host, instance in hosts]}
    losses = {"nodes": {}, "former": [{"instance_id": "i-1", "cause": "", "replacement": ""}], "unreachable": []}
    gone = "w1 is gone: i-1 is no longer running, and no instance has been launched to replace it yet."
    assert job_messages.failed_job("The host is unreachable.", job, losses) == f"{gone} The host is unreachable."
    assert job_messages.failed_job("The host is unreachable.", {}, losses) == "The host is unreachable."
    failure = {"name": "rank0", "host": "w1", "state": "failed", "exit_code": 1, "lines": ["x"], "log": "/l"}
    failed = {**job, "name": "bert-1", "directory": "/j/bert-1", "state": "failed", "attempts": [], "failure": failure}
    assert job_messages.failed_job("", failed, losses).startswith(f"job bert-1 failed: {gone}")
    *_failure, logs, again = job_messages.failed_job("", failed, {**losses, "former": []}).splitlines()
    assert logs.endswith(f"{RUN}logs -e training_job_name=bert-1")
    assert again.endswith(f"{RUN}train -e training_job_name=bert-2 -e training_job_resume=bert-1")


@pytest.mark.parametrize(
    ("jobs", "environments", "expected"),
    [
        (["a"], [], "Delete 1 job with its checkpoints, and 0 environments?"),
        (["a", "b"], ["e"], "Delete 2 jobs with their checkpoints, and 1 environment?"),
    ],
)
def test_the_clean_up_counts_what_it_deletes(jobs, environments, expected):
    assert job_messages.cleanup_question(jobs, environments) == expected


def test_what_is_deleted_and_kept_is_shown():
    kept = [{"name": "c", "reason": "running"}, {"name": "b", "reason": "newest"}, {"name": "d", "reason": "running"}]
    assert job_messages.cleanup([{"name": "a"}], kept, ["e", "f"], ["/efs/jobs", "/efs/environments"]) == (
        "In /efs/jobs and /efs/environments:\n"
        "  jobs to delete          a\n"
        "  jobs to keep\n"
        "    b: newest\n"
        "    c, d: running\n"
        "  environments to delete  e, f"
    )
    assert job_messages.cleanup([], [], [], ["/j", "/e"]) == (
        "In /j and /e:\n  jobs to delete          none\n  jobs to keep            none\n  environments to delete  none"
    )


@pytest.mark.parametrize(
    ("job", "reason", "told"),
    [
        ("bert", "image: missing.", "Job bert was not started: image: missing."),
        ("", "", "The job of this run was not started: the output of the run says why."),
    ],
)
def test_a_job_that_was_not_started_has_a_reason(job, reason, told):
    assert job_messages.unstarted_job(job, reason) == told


def test_hosts_that_a_job_cannot_use_are_told():
    lost = "Job bert was not started: a, b could not be reached or failed earlier in this run. Correct the error above, or run the job on"
    assert job_messages.lost_hosts("bert", ["a", "b"]).startswith(lost)
    unused = f"Job bert runs without these hosts: a is full. b is full. To see how to let jobs use them again, run {RUN}health"
    assert job_messages.unused_hosts("bert", ["a is full.", "b is full."]) == unused
    queues = job_messages.hosts_of_queues("bert", ["slurm", "sge"])
    assert queues.startswith("A queue (slurm, sge) manages the hosts of job bert, and is not aware of this job.")
    assert "set training_job_queue: slurm." in queues
    told = job_messages.unmatched_hosts("trainer", "", "", ["a", "b"])
    assert told.startswith("training_job_hosts: 'trainer' matches no host. The nodes of cluster (none) in (no region) are a, b. Use")


def test_a_job_for_which_the_run_does_not_wait_can_be_followed():
    assert job_messages.started_job("bert", "/j").splitlines() == [
        "Job bert runs in /j/bert.",
        f"To watch it: {RUN}logs -e training_job_name=bert -e follow=true",
        f"To show its status: {RUN}status -e training_job_name=bert",
        f"To stop it: {RUN}stop -e training_job_name=bert",
    ]


@pytest.mark.parametrize(("running", "others"), [({"a": ["x", "y"], "b": [], "c": ["x"]}, "a: x, y; c: x"), ({"a": []}, "none")])
def test_a_job_that_does_not_run_is_not_stopped(running, others):
    told = job_messages.nothing_to_stop("bert", running)
    assert told.startswith('training_job_name: no process of job "bert" is running on any host, so there is nothing to stop.')
    assert f" Running jobs: {others}. {RUN}status shows all jobs" in told
    assert told.endswith(f"run {RUN}cleanup -e training_job_name=bert -e cleanup_days=0")


def test_a_cluster_that_does_not_exist_has_no_job_to_continue():
    told = job_messages.continued_job_without_cluster("bert", "demo", "us-east-1")
    assert told.startswith(
        "training_job_resume: there is no job bert to continue, because cluster demo in us-east-1 has neither nodes nor a"
    )
