"""The playbooks do not terminate nodes that run a job, or nodes whose jobs cannot be listed. The instances in these tests have no hosts."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import subprocess
import sys
import termios
import time

import ansible_commands
import pytest

from .clusters import numbers
from .conftest import REGION


@pytest.fixture
def command(definition, name, tmp_path):
    """Return a function that builds the command line that runs a playbook for this cluster."""
    inventory = tmp_path / "nodes.yml"
    inventory.write_text(
        json.dumps({"plugin": "deeplearning.cluster.nodes", "cluster": name, "region": REGION, "ssh_directory": str(tmp_path / "ssh")})
    )
    options = {f"deeplearning_{key}": value for key, value in definition.items() if key != "cluster"}

    def build(playbook, **variables):
        given = {**options, "ansible_ssh_retries": 0, **variables}
        return ["ansible-playbook", "-i", str(inventory), f"playbooks/{playbook}.yml", "-e", json.dumps(given)]

    return build


@pytest.fixture
def play(cloud, command, repository):
    """Run a playbook without a terminal and return its exit status and output."""

    def run(playbook, **variables):
        done = ansible_commands.run(command(playbook, **variables), cloud.environment, repository)
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    return run


@pytest.fixture
def shrink(play):
    """Run playbooks/provision.yml with one worker."""
    return lambda **variables: play("provision", deeplearning_worker_count=1, **variables)


@pytest.fixture
def asked_here(tmp_path, name):
    """Return variables that make this machine act as the master, with a running job on the last worker."""
    job = tmp_path / "jobs" / "long"
    (job / "status").mkdir(parents=True)
    now = time.time()
    (job / "job.json").write_text(json.dumps({"launcher": "command", "command": ["sleep"], "created": now}))
    record = {
        "name": "rank0",
        "rank": 0,
        "ranks": [0],
        "part": "worker",
        "host": f"{name}-worker3",
        "processes": 1,
        "state": "running",
    }
    (job / "status" / "rank0.json").write_text(json.dumps({**record, "started": now, "heartbeat": now}))
    return {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "training_job_directory": str(job.parent),
        "training_job_heartbeat_timeout": 600,
    }


REFUSED = "cannot list the running jobs"


@pytest.mark.exhaustive
def test_a_cluster_that_was_never_configured(cloud, run, definition, name, shrink, play):
    run("cluster", **definition)
    status, words = shrink()
    assert status == 0, words
    assert f"because cluster {name} has never been configured: it has no SSH certificate authority" in words
    assert "AWS launches nodes" not in words
    assert sorted(numbers(cloud, name).values()) == [1, 2]
    status, words = play("destroy")
    assert status == 0, words
    assert "continues to cost money. To delete it as well, run ansible-playbook -i " in words
    assert f"because cluster {name} has never been configured: it has no SSH certificate authority" in words
    assert numbers(cloud, name) == {}


@pytest.mark.parametrize("playbook", ["destroy", pytest.param("provision", marks=pytest.mark.exhaustive)])
def test_nodes_that_the_inventory_lacks_are_not_terminated(cloud, run, definition, name, command, repository, tmp_path, playbook):
    """A copy of an inventory, as in AWX, can be older than the newest nodes. Nobody has asked them for jobs."""
    run("cluster", **definition)
    inventory = tmp_path / "nodes.yml"
    listed = ansible_commands.run(["ansible-inventory", "-i", str(inventory), "--list", "--export"], cloud.environment, repository).stdout
    copy = tmp_path / "copy.py"
    copy.write_text(f"#!/bin/sh\ncat <<'END'\n{listed}\nEND\n")
    copy.chmod(0o755)
    run("cluster", **{**definition, "worker_count": 3})
    found = {number: instance for instance, number in numbers(cloud, name).items()}

    def play(**variables):
        words = command(playbook, deeplearning_worker_count=1, **variables)
        environment = {**cloud.environment, "ANSIBLE_INVENTORY_ENABLED": "script"}
        done = ansible_commands.run([str(copy) if word == str(inventory) else word for word in words], environment, repository)
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    status, words = play()
    assert (status != 0, f"nodes: this run would terminate {name}-worker4 ({found[4]})" in words) == (True, True), words
    assert f"{name}-worker3 (" not in words.partition("nodes: this run")[2].partition("which the inventory")[0]
    assert len(numbers(cloud, name)) == 4
    status, words = play(deeplearning_ignore_running_jobs=True)
    assert status == 0, words
    assert len(numbers(cloud, name)) == (0 if playbook == "destroy" else 2)
    run("cluster", cluster=name, state="absent", delete_data=True)


def test_nodes_are_named_before_they_are_terminated(cloud, run, definition, name, shrink, asked_here, tmp_path):
    run("cluster", **definition)
    status, words = shrink(**{**asked_here, "training_job_directory": str(tmp_path / "no-jobs")})
    assert status == 0, words
    told = (
        f"This run terminates {name}-worker3, and the data on its disk is lost, because the definition has 1 worker. To keep all nodes, "
        "use -e deeplearning_worker_count=2."
    )
    assert told in words
    before, after = words.split(told)
    assert "PLAY [Provision the cluster]" not in before
    assert "PLAY [Provision the cluster]" in after


def test_spares_stay(cloud, run, definition, name, shrink):
    """The playbook has no node to terminate, so it does not list the running jobs."""
    run("cluster", **definition)
    run("ssh_authority", cluster=name)
    status, words = shrink(deeplearning_spares=1)
    assert status == 0, words
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3]


@pytest.mark.parametrize(("playbook", "left"), [("provision", [1, 2]), pytest.param("destroy", [], marks=pytest.mark.exhaustive)])
def test_a_cluster_that_another_controller_has_configured(cloud, run, definition, name, play, playbook, left):
    run("cluster", **definition)
    run("ssh_authority", cluster=name)
    status, words = play(playbook, deeplearning_worker_count=1)
    assert (status, REFUSED in words) == (2, True), words
    assert "This run would terminate " in words
    assert f"{name}-worker3, but {name}-master cannot list" in words
    assert f"{REFUSED}: Data could not be sent to remote host" in words
    assert "Connection refused. If the cluster has not been configured" in words, words
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3]
    status, words = play(playbook, deeplearning_worker_count=1, deeplearning_ignore_running_jobs=True)
    assert status == 0, words
    assert "because deeplearning_ignore_running_jobs is true" in words
    assert sorted(numbers(cloud, name).values()) == left


@pytest.mark.parametrize(
    ("playbook", "variables"), [pytest.param("destroy", {}, marks=pytest.mark.exhaustive), ("provision", {"deeplearning_state": "absent"})]
)
def test_a_job_keeps_its_cluster(cloud, run, definition, name, play, shrink, asked_here, playbook, variables, tmp_path, repository):
    run("cluster", **definition)
    status, words = play(playbook, **asked_here, **variables)
    assert status == 2, words
    assert f"Cluster {name} cannot be destroyed while long runs on {name}-worker3. Wait until the job ends, or run" in words
    stop = f"ansible-playbook -i {tmp_path / 'nodes.yml'} deeplearning.cluster.stop -e training_job_name=long"
    assert stop in words or stop.replace(str(tmp_path), os.path.relpath(tmp_path, repository)) in words
    assert "add -e deeplearning_ignore_running_jobs=true" in words
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3]
    if playbook == "destroy":
        status, words = shrink(**asked_here)
        kept = "Wait until the job ends, keep the number of workers with -e deeplearning_worker_count=2, or run"
        assert (status, f"Nodes cannot be removed while long runs on {name}-worker3. {kept}" in words) == (2, True), words
        assert play(playbook, **asked_here, deeplearning_ignore_running_jobs=True)[0] == 0
        assert numbers(cloud, name) == {}


def on_terminal(command, cloud, repository, answer, meanwhile=lambda: None):
    """Run a command on a pseudo-terminal, answer the command's question, and return the exit status and output of the command.

    `meanwhile` is called while the question is open.
    """
    main, terminal = pty.openpty()
    started = subprocess.Popen(
        command,
        env=cloud.environment,
        cwd=repository,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(terminal)
    shown = b""
    with started:
        while True:
            try:
                part = os.read(main, 1 << 16)
            except OSError:  # all processes of the command have ended
                break
            shown += part
            if b"yes and press Enter" in shown and answer:
                meanwhile()
                time.sleep(0.2)  # Ansible discards input that arrives before it starts to read
                os.write(main, answer.encode() + b"\r")
                answer = ""
    os.close(main)
    return started.returncode, " ".join(shown.decode(errors="replace").split())


def test_destroy_asks_on_a_terminal(cloud, run, definition, name, command, repository):
    made = run("cluster", **definition)
    file_system = made["resources"]["file_system"]["main"]
    status, words = on_terminal(command("destroy"), cloud, repository, "no")
    assert status == 2, words
    assert f"running nodes {name}-master, {name}-worker2, {name}-worker3" in words
    assert "- auto scaling group workers" in words
    assert f"to keep {file_system}, with all data" in words
    assert f"Delete cluster {name}? Type yes" in words
    assert "Nothing was changed because the answer was 'no'" in words
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3]
    status, words = on_terminal(command("destroy", deeplearning_delete_data=True), cloud, repository, "yes")
    assert status == 0, words
    assert f"Delete cluster {name}, with all its data? Type yes" in words
    assert "- file system main" in words
    assert numbers(cloud, name) == {}


def test_a_job_that_starts_while_destroy_asks_is_not_terminated(cloud, run, definition, name, command, repository):
    """When the cluster is configured, jobs can run on it. The instances of this test cannot be asked for their jobs."""
    run("cluster", **definition)
    status, words = on_terminal(command("destroy"), cloud, repository, "yes", lambda: run("ssh_authority", cluster=name))
    assert status == 2, words
    assert "cannot list the running jobs" in words
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3]


def test_a_cluster_that_this_controller_knows(cloud, run, definition, name, shrink, tmp_path):
    run("cluster", **definition)
    (tmp_path / "ssh").mkdir()
    (tmp_path / "ssh" / "known_hosts").write_text(f"{min(numbers(cloud, name))} ssh-ed25519 AAAA\n")
    status, words = shrink()
    assert (status, REFUSED in words) == (2, True), words
    (tmp_path / "ssh" / "known_hosts").write_text("i-0123456789abcdef0 ssh-ed25519 AAAA\n@cert-authority * ssh-ed25519 AAAA\n")
    assert shrink()[0] == 0, "a former instance is not a node"


def test_an_authority_of_the_users_own_is_in_no_parameter(cloud, run, definition, name, shrink):
    run("cluster", **definition)
    status, words = shrink(ssh_trust_authority_public_key="ssh-ed25519 AAAA")
    assert (status, REFUSED in words) == (2, True), words
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3]
    assert run("ssh_authority_info", cluster=name)["exists"] is False
    run("ssh_authority", cluster=name)
    assert run("ssh_authority_info", cluster=name)["exists"] is True
