"""Running jobs: logs, status, code, interruption with Ctrl-C, and two jobs at the same time."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import threading
import time
from pathlib import Path

import pytest
import yaml
from local_cloud.testing import wait_until

from .cluster import CLUSTER, job_cluster

# Prints its rank, then waits for a file.
TALKER = """
    import os, pathlib, time
    rank, directory = os.environ["DEEPLEARNING_RANK"], pathlib.Path(os.environ["DEEPLEARNING_JOB_DIRECTORY"])
    print("\\033[1mworking in\\033[0m", os.getcwd())
    for number in range(5):
        print("line", number, "of", rank)
    (directory / ("ready" + rank)).touch()
    while not (directory / "go").exists():
        time.sleep(0.1)
    print("the end of", rank)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("logs"), [], count=2) as result:
        yield result


def talker(name, **variables):
    """Return the arguments of Cluster.train and similar methods for a job that prints to its logs."""
    return (name, TALKER), {"launcher": "command", "command": ["python3", f"{name}.py"], **variables}


def start(cluster, name, **variables):
    arguments, variables = talker(name, **variables)
    cluster.start(*arguments, **variables)
    wait_until(lambda: cluster.hosts[0].ssh(f"ls /efs/jobs/{name}").stdout.count("ready") == 2)


def end(cluster, name):
    cluster.hosts[0].ssh(f"touch /efs/jobs/{name}/go")


class Terminal:
    """A command on a pseudo-terminal, with methods that read its output and send input."""

    def __init__(self, command, cwd):
        self._main, terminal = pty.openpty()
        self.output = ""
        self._run = subprocess.Popen(["setsid", "--ctty", *command], cwd=cwd, stdin=terminal, stdout=terminal, stderr=terminal)
        os.close(terminal)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while True:
            try:
                data = os.read(self._main, 4096)
            except OSError:  # the other end of the pseudo-terminal is closed
                return
            self.output += data.decode("utf-8", "replace")

    def read(self, text, typing=""):
        """Wait until the given text appears, and discard the output up to the end of the text.

        Until the text appears, type `typing` every 5 s, because Ansible discards input that arrives right after its prompt.
        """
        begin = typed = time.monotonic()
        while text not in self.output:
            now = time.monotonic()
            assert now < begin + 300, f"{text!r} was not shown after {self.output}"
            if typing and now >= typed:
                self.type(typing)
                typed = now + 5
            time.sleep(0.2)
        self.output = self.output.split(text, 1)[1]

    def type(self, keys):
        os.write(self._main, keys.encode())

    def end(self):
        status = self._run.wait(timeout=300)
        os.close(self._main)
        return status


def test_logs_are_shown_with_their_processes_and_followed_to_the_end(cluster):
    start(cluster, "talks")
    shown = cluster.play("deeplearning.cluster.logs", "-e", "training_job_name=talks", "-e", "lines=2").stdout
    assert re.findall(r"^rank.*", shown, re.MULTILINE) == [f"rank {rank} | line {number} of {rank}" for rank in (0, 1) for number in (3, 4)]
    assert re.search(r"^talks running for .*, 2 processes on 2 hosts, command talks.py$", shown, re.MULTILINE)

    command = ["ansible-playbook", "-i", str(cluster.inventory), "deeplearning.cluster.logs", "-e", "training_job_name=talks"]
    with subprocess.Popen([*command, "-e", "follow=true", "-e", "rank=1"], cwd=cluster.folder, stdout=subprocess.PIPE, text=True) as run:
        lines = iter(run.stdout)
        assert any(line == "rank 1 | working in /efs/jobs/talks/code\n" for line in lines)
        end(cluster, "talks")
        rest = "".join(lines)
    assert run.returncode == 0
    assert "rank 1 | the end of 1\n" in rest
    assert "talks succeeded after" in rest
    assert "rank 0" not in rest

    refused = cluster.play("deeplearning.cluster.logs", "-e", "training_job_name=talks", "-e", "process=ps0")
    assert refused.returncode != 0
    assert "job talks has no process 'ps0'. Specify one of rank0, rank1" in refused.stdout.replace("\\", "")
    newest = cluster.play("deeplearning.cluster.logs").stdout
    assert "talks succeeded after" in newest, "without a name, the playbook shows the newest job"


@pytest.mark.exhaustive
def test_ctrl_c_ends_a_run_that_follows_logs_without_an_error(cluster):
    start(cluster, "watched")
    command = ["ansible-playbook", "-i", str(cluster.inventory), "deeplearning.cluster.logs", "-e", "training_job_name=watched"]
    terminal = Terminal([*command, "-e", "follow=true"], cluster.folder)
    terminal.read("press Ctrl-C to end this run; the job continues")
    terminal.type("\x03")
    terminal.read("watched: the job continues, and this run ends within 10 s; press Ctrl-C again to end it at once")
    terminal.read("watched running for")
    assert terminal.end() == 0
    assert len(cluster.members("watched")) >= 2
    end(cluster, "watched")


@pytest.mark.exhaustive
def test_status_tells_how_each_process_ended(cluster):
    script = """
        import os, sys, time
        if os.environ["DEEPLEARNING_RANK"] == "1":
            print("the disk is full")
            sys.exit(3)
        time.sleep(600)
    """
    failed = cluster.train("breaks", script, launcher="command", command=["python3", "breaks.py"])
    assert "job breaks failed: rank 1 on deeplearning-worker2 ended with exit status 3" in failed.stdout
    shown = cluster.play("deeplearning.cluster.status", "-e", "training_job_name=breaks").stdout
    assert re.search(r"^process +host +state +exit +started +ended$", shown, re.MULTILINE)
    moment = r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d"
    # Stopped by the job itself, or by the role that waited for the job
    reason = "was stopped (because rank 1 .*|by an operator .*)"
    assert re.search(rf"^rank 0 +deeplearning-worker1 +stopped +SIGTERM +{moment} +{moment} +{reason}$", shown, re.MULTILINE)
    assert re.search(rf"^rank 1 +deeplearning-worker2 +failed +3 +{moment} +{moment}$", shown, re.MULTILINE)
    assert "rank 1 on deeplearning-worker2 ended with exit status 3. The end of /efs/jobs/breaks/logs/rank1.log:\nthe disk is full" in shown
    listed = cluster.play("deeplearning.cluster.status").stdout
    assert re.search(r"^breaks failed after \d+ s \(20.* to 20.* UTC\), 2 processes on 2 hosts", listed, re.MULTILINE)
    assert cluster.play("deeplearning.cluster.status", "-e", "training_job_name=none").returncode != 0


@pytest.mark.exhaustive
def test_ctrl_c_asks_what_is_to_become_of_the_job(cluster):
    arguments, variables = talker("asked", show_logs=True)
    playbook = Path(cluster.playbook(*arguments, **variables))
    (play,) = yaml.safe_load(playbook.read_text())
    play["tasks"] = [{"ansible.builtin.debug": {"msg": "after the job"}}]
    playbook.write_text(yaml.safe_dump([play]))
    command = ["ansible-playbook", "-i", str(cluster.inventory), str(playbook)]

    terminal = Terminal(command, cluster.folder)
    terminal.read("press Ctrl-C to choose whether to stop the job or leave it running")
    terminal.read("rank 1 | line 4 of 1")
    terminal.type("\x03")
    terminal.read("asked: type s to stop the job or l to leave it running, then press Enter. To continue watching, press only Enter:")
    cluster.hosts[1].ssh("echo still there | sudo tee -a /efs/jobs/asked/logs/rank1.log")
    terminal.read("rank 1 | still there", typing="\r")
    terminal.type("\x03")
    terminal.read("asked: type s to stop the job")
    goes_on = "To watch it: ansible-playbook -i inventory.yml deeplearning.cluster.logs -e training_job_name=asked -e follow=true"
    terminal.read(goes_on, typing="l\r")
    assert terminal.end() == 0
    assert "after the job" not in terminal.output
    assert len(cluster.members("asked")) >= 2

    terminal = Terminal(command, cluster.folder)
    terminal.read("press Ctrl-C to choose whether to stop the job or leave it running")
    terminal.type("\x03")
    terminal.read("asked: type s to stop the job")
    terminal.read("Job asked was stopped on all hosts, as requested with Ctrl-C", typing="s\r")
    assert terminal.end() != 0
    assert cluster.members("asked") == []
    assert cluster.info("asked")["state"] == "stopped"
    shown = cluster.play("deeplearning.cluster.status", "-e", "training_job_name=asked").stdout
    stopped = r"^job asked stopped: rank \d on deeplearning-worker\d was stopped by an operator .*\. The logs are in .*$"
    assert re.search(stopped, shown, re.MULTILINE), shown
    assert "line 4 of" not in shown, "the log does not contain the reason"


@pytest.mark.exhaustive
def test_code_from_git_is_copied_to_the_hosts_own_disks(cluster):
    repository = cluster.folder / "repository"
    repository.mkdir()
    (repository / "train.py").write_text(re.sub("^    ", "", TALKER, flags=re.MULTILINE))
    git = ["git", "-C", str(repository), "-c", "user.name=Somebody", "-c", "user.email=somebody@example.com"]
    for arguments in (
        ["init", "-q"],
        ["add", "."],
        ["commit", "-qm", "first"],
        ["tag", "v1"],
        ["rm", "-q", "train.py"],
        ["commit", "-qm", "2"],
    ):
        subprocess.run([*git, *arguments], check=True)
    commit = subprocess.run([*git, "rev-parse", "v1"], check=True, capture_output=True, text=True).stdout.strip()
    variables = {
        "launcher": "command",
        "command": ["python3", "train.py"],
        "repository": str(repository),
        "version": "v1",
        "sync_directory": "/home/ubuntu/work",
    }
    cluster.start("cloned", "train.py", **variables)
    wait_until(lambda: cluster.hosts[0].ssh("ls /efs/jobs/cloned").stdout.count("ready") == 2)
    for rank in (0, 1):
        assert "working in" in cluster.read(f"/efs/jobs/cloned/logs/rank{rank}.log")
        assert cluster.read(f"/efs/jobs/cloned/logs/rank{rank}.log").splitlines()[0].endswith("/home/ubuntu/work")
        assert "deeplearning" in cluster.hosts[rank].ssh("stat -c %U /home/ubuntu/work/train.py").stdout
    assert f"commit {commit[:12]} of {repository}" in cluster.play("deeplearning.cluster.status").stdout

    arguments, others = talker("beside", sync_directory="/home/ubuntu/work")
    refused = cluster.train(*arguments, **others)
    assert refused.returncode != 0
    assert "job cloned runs in /home/ubuntu/work on deeplearning-worker" in refused.stdout
    assert cluster.info("cloned")["state"] == "running"
    end(cluster, "cloned")
    wait_until(lambda: cluster.info("cloned")["state"] == "succeeded")
    arguments, others = talker("later", sync_directory="/home/ubuntu/work")
    cluster.start(*arguments, **others)
    wait_until(lambda: cluster.hosts[0].ssh("ls /efs/jobs/later").stdout.count("ready") == 2)
    assert cluster.hosts[1].ssh("ls -A /home/ubuntu/work").stdout.split() == [".deeplearning-job", "later.py"]
    cluster.stop("later")

    arguments, others = talker("nowhere", sync_directory="/efs/work")
    refused = cluster.train(*arguments, **others)
    assert "sync_directory '/efs/work' is on shared storage" in refused.stdout.replace("\\", "")


@pytest.mark.exhaustive
def test_two_jobs_at_once_on_disjoint_hosts(cluster):
    for number in (1, 2):
        arguments, variables = talker(f"half{number}", wait=False)
        playbook = Path(cluster.playbook(*arguments, **variables))
        playbook.write_text(playbook.read_text().replace("hosts: trainers", f"hosts: {CLUSTER}-worker{number}"))
        assert cluster.play(str(playbook)).returncode == 0
    wait_until(lambda: all(len(cluster.members(f"half{number}")) >= 1 for number in (1, 2)))
    assert {line.split(":")[0] for line in cluster.members("half2")} == {cluster.hosts[1].name}
    assert [process["host"] for process in cluster.info("half2")["processes"]] == ["deeplearning-worker2"]
    cluster.stop("half1")
    assert cluster.info("half2")["state"] == "running"
    cluster.stop("half2")
    listing = cluster.play("deeplearning.cluster.train", "-e", f"training_job_hosts={CLUSTER}-worker2", "--list-hosts").stdout
    job = listing[listing.index("Run the training job") : listing.index("Check that no other job")]
    # The output contains the name twice: as the host pattern and as the host
    assert re.findall(rf"{CLUSTER}-worker\d", job) == [f"{CLUSTER}-worker2"] * 2
