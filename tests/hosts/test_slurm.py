"""Slurm on real hosts: users' scripts, GPUs, failing hosts, and nodes that are added and removed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm.membership import REASON

from .project import CLUSTER, changes
from .queues import KEY, UNTIL_GO, QueueHosts, queue_hosts, wait

PAGE = Path(__file__).resolve().parents[2] / "docs" / "slurm.md"
QUEUE = f"/efs/slurm-{CLUSTER}"
#: Seconds after which a node that does not respond is down.
SLURMD_TIMEOUT = 20
PARAMETERS = {"slurm_parameters": {"SlurmdTimeout": SLURMD_TIMEOUT}}
ALL_IDLE = {"trust-master": "idle", "trust-worker2": "idle", "trust-worker3": "idle"}


class Queue(QueueHosts):
    """The hosts as nodes of a Slurm cluster."""

    role, parameters = "slurm", PARAMETERS

    def sbatch(self, script: str, *options: str) -> str:
        """Submit a script as the login user and return the ID of the job."""
        command = f"cd /efs && sbatch --parsable {' '.join(options)} <<'END'\n#!/bin/bash\n{script}\nEND"
        return self.master.ssh(command).stdout.strip()

    def job(self, job: str, field: str) -> str:
        """Return the value that scontrol shows for a field of a job, or '' if Slurm no longer knows the job."""
        shown = self.master.ssh(f"scontrol --oneliner show job {job}", check=False).stdout
        found = re.search(rf"\b{field}=(\S+)", shown)
        return found[1] if found else ""

    def wait_for(self, job: str, state: str) -> None:
        def reached() -> bool:
            found = self.job(job, "JobState")
            assert found not in {"FAILED", "CANCELLED", "NODE_FAIL"} - {state}, self.output(job)
            return found == state

        wait(reached)

    def output(self, job: str) -> str:
        return self.master.ssh(f"cat /efs/slurm-{job}.out").stdout

    def wait_until_saved(self, held: str) -> None:
        """Wait until slurmctld has saved the current state of all jobs, which happens at most 5 s after a change.

        `held` is the ID of a job that is on hold. This method changes the job's comment and waits until the file contains the comment.
        """
        mark = f"saved-{held}"
        self.master.ssh(f"scontrol update jobid={held} comment={mark}")
        wait(lambda: self.master.ssh(f"sudo grep -q {mark} {QUEUE}/job_state", check=False).returncode == 0)

    def entries(self) -> dict[str, str]:
        """Return the names and states of root's jobs in the queue."""
        shown = self.master.ssh("squeue --noheader --user=root --format='%j %T'").stdout
        return dict(line.split() for line in shown.splitlines())

    def identity(self, name: str) -> str:
        return self.master.ssh(f"squeue --noheader --user=root --name={name} --format=%i").stdout.strip()

    def restore(self) -> None:
        """Undo what a failed test may have left behind: jobs, drained nodes and removed hosts."""
        for number, host in enumerate(self.hosts, 1):
            if not self.runtime.is_alive(host.name):
                self.replace(number)
        self.master.ssh("scancel --user=$USER; sudo scancel --user=root; rm -f /efs/go /efs/later", check=False)
        wait(lambda: self.master.ssh("squeue --noheader", check=False).stdout == "")
        if self.nodes() != ALL_IDLE:
            self.converge()
            self.wait_for_nodes(ALL_IDLE)

    def nodes(self) -> dict[str, str]:
        """Return the state of each node as sinfo shows it, or nothing if slurmctld does not answer."""
        shown = self.master.ssh("sinfo --Node --noheader --format='%N %T'", check=False).stdout
        return dict(line.split() for line in shown.splitlines())

    def wait_for_nodes(self, states: dict[str, str]) -> None:
        """Wait until the nodes have these states. For a moment, a node whose slurmd has just started counts as not responding (`idle*`)."""
        wait(lambda: self.nodes() == states)


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queue]:
    with queue_hosts(Queue, tmp_path_factory.mktemp("slurm")) as queue:
        yield queue


@pytest.fixture(autouse=True)
def restored(queue: Queue) -> None:
    queue.restore()


def test_a_job_runs_on_all_hosts_and_a_second_run_changes_nothing(queue: Queue) -> None:
    script = "#SBATCH --nodes=3 --ntasks-per-node=1 --gpus-per-node=2\nsrun sh -c 'echo $(hostname) $(id -un) $CUDA_VISIBLE_DEVICES'"
    job = queue.sbatch(script)
    queue.wait_for(job, "COMPLETED")
    assert sorted(queue.output(job).splitlines()) == [f"{name} ubuntu 0,1" for name in ALL_IDLE]
    assert queue.hosts[2].ssh("srun --ntasks=1 hostname").stdout.startswith("trust-"), "every host has the commands"
    assert set(queue.converge().values()) == {0}


def test_neither_the_key_nor_the_queue_is_open_to_jobs(queue: Queue) -> None:
    keys = {host.ssh(f"sudo sha256sum {KEY} && sudo stat -c '%U %a' {KEY}").stdout for host in queue.hosts}
    assert len(keys) == 1
    assert keys.pop().endswith("\nmunge 400\n")
    assert queue.master.ssh(f"stat -c '%U %a' {QUEUE}").stdout == "slurm 700\n"
    assert queue.master.ssh(f"sudo find {QUEUE} -name job_state").stdout
    queue.master.ssh("sudo useradd --system outsider")
    refused = queue.master.ssh("cd / && sudo -u outsider srun --ntasks=1 true", check=False)
    assert refused.returncode != 0
    assert "not permitted to use this partition" in refused.stderr


def test_a_training_job_waits_for_its_turn_and_can_be_stopped_while_it_waits(queue: Queue) -> None:
    queue.train("first", UNTIL_GO)
    queue.train("second", "exit 1")
    wait(lambda: queue.entries() == {"first": "RUNNING", "second": "PENDING"})
    assert re.search(r"^second queued since .* UTC, in Slurm as job \d+: Resources, command bash$", queue.status("second"))
    kept = queue.master.ssh("sudo find /var/lib/deeplearning-queue -type d -printf '%u %m\\n'").stdout
    assert set(kept.splitlines()) == {"root 700"}, "they contain secrets, and the program that root runs"
    same = queue.sbatch("true", "--hold", "--job-name=second", "--comment=deeplearning.cluster")
    queue.stop("second")
    assert queue.entries() == {"first": "RUNNING"}
    assert queue.status("second").startswith("second stopped before it started, ")
    assert queue.left("second") == []
    assert queue.job(same, "JobState") == "PENDING", "another user's job of the same name"
    queue.master.ssh("touch /efs/go")
    queue.wait_for_end("first")
    assert queue.status("first").startswith("first succeeded after ")
    assert queue.left("first") == []


@pytest.mark.exhaustive
def test_six_training_jobs_never_share_a_host(queue: Queue) -> None:
    """Some jobs use all hosts; other jobs run on hosts that Slurm chooses. One playbook run waits for its job."""
    turn = "echo $(hostname) $(date +%s.%N) >turn-$(hostname); sleep 4; date +%s.%N >>turn-$(hostname)"
    counts = {"turn-1": 3, "turn-2": 1, "turn-3": 2, "turn-4": 1, "turn-5": 3}
    for name, count in counts.items():
        queue.train(name, turn, host_count=count % 3)
    waited = queue.train("turn-6", f"echo this is the log; {turn}", wait=True, host_count=2, report=True)
    assert "job turn-6 succeeded" in waited.stdout
    assert "turn-6: the report is at " in waited.stdout
    for name in counts:
        queue.wait_for_end(name)
    uses: dict[str, list[tuple[float, float]]] = {}
    for name, count in {**counts, "turn-6": 2}.items():
        turns = queue.master.ssh(f"cat /efs/jobs/{name}/code/turn-*").stdout.split()
        assert len(turns) == 3 * count, name
        for host, start, end in zip(turns[::3], turns[1::3], turns[2::3], strict=True):
            uses.setdefault(host, []).append((float(start), float(end)))
    for times in uses.values():
        times.sort()
        assert all(end <= start for (_start, end), (start, _end) in itertools.pairwise(times))
    logs = queue.run("deeplearning.cluster.logs", ("-e", "training_job_name=turn-6")).stdout
    assert logs.count("| this is the log") == 2
    again = queue.train("turn-6", "true", check=False)
    assert "job turn-6 has already run (succeeded)" in again.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", ["stop", "scancel", "kill"])
def test_a_running_training_job_is_stopped(queue: Queue, how: str) -> None:
    """A running job is stopped by the playbook, by Slurm's scancel, and when Slurm loses the process that holds a host for the job."""
    name = f"stopped-by-{how}"
    queue.train(name, UNTIL_GO)
    wait(lambda: queue.entries() == {name: "RUNNING"})
    queue.wait_for_start(name, 3)
    if how == "stop":
        queue.stop(name)
        assert queue.entries() == {}
        assert queue.left(name) == []
    elif how == "scancel":
        refused = queue.master.ssh(f"scancel --name={name}; squeue --noheader --name={name} --format=%T").stdout
        assert refused == "RUNNING\n", "only root cancels training jobs with scancel"
        queue.master.ssh(f"sudo scancel --name={name}")
    else:
        queue.hosts[1].ssh(f"sudo pkill --signal KILL --full /var/lib/deeplearning-queue/{name}/[h]old.zip")
    queue.wait_for_end(name)
    wait(lambda: [path for path in queue.left(name) if path.startswith("/proc")] == [])
    assert queue.status(name).startswith(f"{name} stopped after ")


@pytest.mark.exhaustive
def test_a_second_run_waits_for_the_job_in_the_queue(queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.train("again", UNTIL_GO)
    wait(lambda: queue.entries() == {"again": "RUNNING"})
    queue.train("behind", "until [ -e /efs/later ]; do sleep 0.2; done")
    queue.train("behind", "exit 1")
    assert queue.entries() == {"again": "RUNNING", "behind": "PENDING"}
    log = tmp_path / "log"
    monkeypatch.setenv("ANSIBLE_LOG_PATH", str(log))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queue.train, "behind", "exit 1", wait=True)
        wait(lambda: log.exists() and "behind: queued in Slurm as job " in log.read_text())
        queue.master.ssh("touch /efs/go /efs/later")
    assert "job behind succeeded" in waiting.result().stdout


@pytest.mark.exhaustive
def test_a_job_that_slurm_cancels_while_it_waits_ends_the_run_that_waits_for_it(queue: Queue) -> None:
    queue.train("holds", UNTIL_GO)
    queue.train("cancelled", "true")
    queue.master.ssh("sudo scancel --name=cancelled")
    done = queue.train("cancelled", "true", wait=True, check=False)
    assert "job cancelled was removed from the queue before it started. To submit the job again, choose another name." in done.stdout
    assert queue.left("cancelled") == []


@pytest.mark.exhaustive
def test_supervisors_restart_a_job_while_slurm_holds_its_hosts(queue: Queue) -> None:
    script = "[ $DEEPLEARNING_ATTEMPT != 1 ] || kill -9 $$; echo $SLURM_JOB_ID attempt $DEEPLEARNING_ATTEMPT"
    done = queue.train("restarted", script, wait=True, restarts=2)
    assert "restarted: attempt 1 failed: " in done.stdout
    assert queue.master.ssh("cat /efs/jobs/restarted/logs/attempt2/rank0.log").stdout == "attempt 2\n"


@pytest.mark.exhaustive
def test_a_job_continues_without_its_first_host(queue: Queue) -> None:
    """The batch script ends when the first host dies. A different host tells Slurm when the job has ended."""
    script = "[ $DEEPLEARNING_ATTEMPT != 1 ] || sleep 600"
    others = ("--limit", f"{queue.name(2)},{queue.name(3)}")
    queue.train("survivor", script, *others, restarts=1, min_hosts=1, heartbeat_timeout=30)
    queue.wait_for_start("survivor", 2)
    assert queue.job(queue.identity("survivor"), "BatchHost") == queue.name(2)
    queue.runtime.remove(queue.hosts[1].name)
    queue.wait_for_end("survivor")
    assert queue.status("survivor").startswith("survivor succeeded after ")


@pytest.mark.exhaustive
def test_a_job_that_cannot_start_on_one_of_its_hosts_fails_on_all(queue: Queue) -> None:
    queue.train("rogue", UNTIL_GO, "--limit", queue.name(2), queue="")
    done = queue.train("refused", "sleep 600", wait=True, check=False)
    assert re.search(r"job refused was not started: trust-worker2: job\s+rogue uses GPU 0, 1 of trust-worker2", done.stdout), done.stdout
    assert queue.left("refused") == []
    assert queue.entries() == {}
    assert queue.status("refused").startswith("refused failed ")
    queue.stop("rogue")


@pytest.mark.exhaustive
def test_nodes_leave_and_enter_under_running_jobs(queue: Queue) -> None:
    job = queue.sbatch("#SBATCH --nodelist=trust-worker3\nwhile ! [ -e /efs/go ]; do sleep 0.2; done; echo done $SLURM_RESTART_COUNT")
    queue.wait_for(job, "RUNNING")
    refused = queue.run("deeplearning.cluster.check_jobs", ("-e", "deeplearning_state=absent"), check=False)
    assert refused.returncode != 0
    assert re.search(rf"Slurm job\s+{job} is\s+running on nodes that this run would", refused.stdout), refused.stdout
    queue.wait_for_nodes({**dict.fromkeys(ALL_IDLE, "drained"), "trust-worker3": "draining"})
    check = queue.play("slurm", arguments=("--check", "--diff"))
    assert "+resume" in check.stdout
    assert set(changes(queue.play("slurm")).values()) == {1}
    wait(lambda: queue.nodes()["trust-worker2"] == "idle")

    assert queue.converge(2) == {queue.name(1): 1, queue.name(2): 0}
    assert queue.nodes()["trust-worker3"] == "draining", "a job is running there"
    queue.master.ssh("touch /efs/go")
    queue.wait_for(job, "COMPLETED")
    assert queue.output(job) == "done\n"
    wait(lambda: queue.nodes()["trust-worker3"] == "drained")
    assert queue.converge(2) == {queue.name(1): 1, queue.name(2): 0}
    queue.wait_for_nodes({"trust-master": "idle", "trust-worker2": "idle"})

    job = queue.sbatch("#SBATCH --nodes=2\nsrun sleep 600")
    queue.wait_for(job, "RUNNING")
    queue.converge(3)
    wait(lambda: queue.nodes()["trust-worker3"] == "idle")
    assert queue.job(job, "JobState") == "RUNNING"
    assert queue.job(job, "Restarts") == "0"
    queue.master.ssh(f"scancel {job}")
    queue.wait_for_nodes(ALL_IDLE)
    across = queue.sbatch("#SBATCH --nodes=3\nsrun hostname")
    queue.wait_for(across, "COMPLETED")
    assert sorted(queue.output(across).split()) == list(ALL_IDLE)


@pytest.mark.exhaustive
def test_twenty_jobs_never_share_a_gpu(queue: Queue) -> None:
    turn = "echo $(date +%s.%N) $(hostname) $CUDA_VISIBLE_DEVICES"
    job = queue.sbatch(f"{turn}; sleep 1; {turn}", "--array=1-20", "--gres=gpu:1", "--output=/efs/turn-%a.out")
    wait(lambda: queue.master.ssh(f"squeue --noheader --jobs={job}", check=False).stdout == "")
    turns = [line.split() for line in queue.master.ssh("cat /efs/turn-*.out").stdout.splitlines()]
    assert len(turns) == 40
    uses: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for (start, host, gpu), (end, *_same) in zip(turns[::2], turns[1::2], strict=True):
        uses.setdefault((host, gpu), []).append((float(start), float(end)))
    assert {gpu for _host, gpu in uses} == {"0", "1"}
    for times in uses.values():
        times.sort()
        assert all(end <= start for (_start, end), (start, _end) in itertools.pairwise(times))


@pytest.mark.exhaustive
def test_torchrun_by_the_script_of_the_documentation(queue: Queue) -> None:
    script = re.findall(r"^```bash\n#!/bin/bash\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0]
    queue.master.ssh(
        "cat >/efs/train.py <<'END'\nimport torch.distributed as dist\n"
        "dist.init_process_group('gloo')\nprint(f'rank {dist.get_rank()} of {dist.get_world_size()}')\nEND"
    )
    job = queue.sbatch(script.replace("--nproc-per-node=gpu", "--nproc-per-node=1"))
    queue.wait_for(job, "COMPLETED")
    assert sorted(line for line in queue.output(job).splitlines() if line.startswith("rank")) == [f"rank {rank} of 3" for rank in range(3)]


@pytest.mark.exhaustive
def test_salloc_runs_a_users_shell(queue: Queue) -> None:
    done = queue.master.ssh("salloc --nodes=2 --quiet bash -c 'srun hostname | sort; echo $SLURM_JOB_NUM_NODES'")
    assert len(set(done.stdout.split()[:2])) == 2
    assert done.stdout.split()[2] == "2"


@pytest.mark.exhaustive
def test_another_key_is_refused_and_replaced(queue: Queue) -> None:
    host = queue.hosts[1]
    key = host.ssh(f"sudo sha256sum {KEY}").stdout
    host.ssh(f"head -c 128 /dev/urandom | sudo tee {KEY} >/dev/null && sudo systemctl restart munge")
    refused = host.ssh("squeue", check=False)
    assert refused.returncode != 0, refused.stdout
    assert queue.converge()[queue.name(2)] == 1
    assert host.ssh(f"sudo sha256sum {KEY}").stdout == key
    host.ssh("squeue")


@pytest.mark.exhaustive
def test_a_job_of_a_host_that_dies_is_finished_elsewhere(queue: Queue) -> None:
    script = 'hostname; [ -n "$SLURM_RESTART_COUNT" ] || sleep 600'
    job = queue.sbatch(script, "--open-mode=append", "--exclude=trust-master")
    queue.wait_for(job, "RUNNING")
    name = queue.job(job, "BatchHost")
    number = next(number for number in (2, 3) if queue.name(number) == name)
    wait(lambda: name in queue.output(job))
    queue.runtime.remove(queue.hosts[number - 1].name)
    queue.wait_for(job, "COMPLETED")
    assert queue.output(job).split()[0] == name
    assert queue.output(job).split()[-1] in ALL_IDLE.keys() - {name}
    queue.replace(number)
    queue.wait_for_nodes(ALL_IDLE)


@pytest.mark.exhaustive
def test_a_new_master_has_the_old_queue(queue: Queue) -> None:
    """The master dies, and its replacement has a different address. A job that ends in the meantime and a job that keeps running both
    report to the master.
    """
    waiting = queue.sbatch("echo waited", "--hold")
    ending, running = (
        queue.sbatch(f"while ! [ -e /efs/{file} ]; do sleep 0.2; done; echo ran $SLURM_RESTART_COUNT", f"--nodelist=trust-worker{number}")
        for number, file in ((2, "go"), (3, "later"))
    )
    for job in (ending, running):
        queue.wait_for(job, "RUNNING")
    # The command that runs before all nodes are replaced
    queue.master.ssh(f"sudo scontrol update nodename=trust-worker3 state=drain reason='{REASON}'")
    queue.wait_until_saved(waiting)
    key = queue.hosts[1].ssh(f"sudo sha256sum {KEY}").stdout
    queue.runtime.remove(queue.master.name)
    queue.hosts[1].ssh("touch /efs/go")
    wait(lambda: queue.hosts[1].ssh(f"cat /efs/slurm-{ending}.out").stdout == "ran\n")
    queue.replace(1)
    assert queue.master.ssh(f"sudo sha256sum {KEY}").stdout == key
    assert queue.job(waiting, "JobState") == "PENDING"
    assert queue.job(running, "JobState") == "RUNNING"
    queue.wait_for(ending, "COMPLETED")
    queue.master.ssh(f"touch /efs/later && scontrol release {waiting}")
    queue.wait_for(waiting, "COMPLETED")
    queue.wait_for(running, "COMPLETED")
    assert queue.output(running) == "ran\n"
    queue.wait_for_nodes(ALL_IDLE)


@pytest.mark.exhaustive
def test_parameters_that_slurm_refuses_leave_the_queue_running(queue: Queue) -> None:
    queue.write(3, slurm_parameters={"SelectType": "select/none_such"}, slurm_timeout=10)
    refused = queue.play("slurm", check=False)
    assert "so the old one was restored" in refused.stdout
    assert "select/none_such" in refused.stdout, "the message from slurmctld"
    queue.wait_for_nodes(ALL_IDLE)
    assert set(queue.converge().values()) == {0}


@pytest.mark.exhaustive
def test_the_key_is_in_no_output(queue: Queue) -> None:
    """The role runs with -vvv and --diff. Before the run, only the master has the MUNGE key."""
    key = queue.master.ssh(f"sudo base64 -w0 {KEY}").stdout
    for host in queue.hosts[1:]:
        host.ssh(f"sudo rm {KEY}")
    done = queue.play("slurm", arguments=("-vvv", "--diff"))
    assert key not in done.stdout + done.stderr
    for host in queue.hosts:
        assert key not in host.ssh("sudo journalctl --no-pager").stdout
    assert queue.master.ssh(f'sudo grep -rlF -e "$(sudo base64 -w0 {KEY})" /efs', check=False).returncode == 1, "no match"


@pytest.mark.exhaustive
def test_slurm_goes_away_once_its_queue_is_empty(queue: Queue) -> None:
    job = queue.sbatch("sleep 600", "--hold")
    queue.write(3, **PARAMETERS, slurm_state="absent")
    refused = queue.play("slurm", check=False)
    assert f"the queue contains job {job}" in refused.stdout
    queue.master.ssh(f"scancel {job}")
    wait(lambda: queue.master.ssh("squeue --noheader").stdout == "")
    assert set(changes(queue.play("slurm", arguments=("--check",))).values()) == {2, 3}
    assert changes(queue.play("slurm")) == {queue.name(1): 3, queue.name(2): 2, queue.name(3): 2}
    for host in queue.hosts:
        # The packages install a file plugstack.conf in the same directory.
        left = f"ls -d {KEY} {QUEUE} /etc/slurm/{{slurm,gres,cgroup}}.conf /etc/systemd/system/*/deeplearning.conf"
        assert host.ssh(left, check=False).stdout == ""
        assert host.ssh("systemctl is-active munge slurmd slurmctld", check=False).stdout.split() == ["inactive"] * 3
    assert set(changes(queue.play("slurm")).values()) == {0}
    refused = queue.train("without-slurm", "true", check=False)
    fatal = [line for line in refused.stdout.splitlines() if line.startswith("fatal: ")]
    assert len(fatal) == 1
    assert "Run the playbook deeplearning.cluster.slurm, or remove training_job_queue." in fatal[0]
    assert queue.master.ssh("ls /efs/jobs/without-slurm", check=False).returncode != 0
    queue.converge()
    queue.wait_for_nodes(ALL_IDLE)
