"""SGE (Grid Engine) on real hosts: users' scripts, GPUs, failing hosts, and nodes that are added and removed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .project import CLUSTER, changes
from .queues import KEY, UNTIL_GO, QueueHosts, queue_hosts, wait

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sge.md"
QUEUE = f"/efs/sge-{CLUSTER}"
#: After some seconds without a response, the state of a node is unknown, and SGE starts the node's jobs elsewhere.
PARAMETERS = {"sge_parameters": {"load_report_time": "00:00:04", "max_unheard": "00:00:20", "reschedule_unknown": "00:00:10"}}
HOSTS = ["trust-master", "trust-worker2", "trust-worker3"]


class Sge(QueueHosts):
    """The hosts as nodes of an SGE cluster."""

    role, parameters = "sge", PARAMETERS

    def qsub(self, script: str, *options: str) -> str:
        """Submit a script as the login user and return the ID of the job."""
        command = f"cd /efs && qsub -terse -cwd -j y -N script {' '.join(options)} <<'END'\n#!/bin/bash\n{script}\nEND"
        return self.master.ssh(command).stdout.split()[-1]

    def state(self, job: str) -> str:
        """Return the state of a user's job, or '' if it has left the queue."""
        shown = self.master.ssh("qstat -u '*'").stdout
        found = re.search(rf"^\s*{job}\s+\S+\s+\S+\s+\S+\s+(\S+)", shown, re.MULTILINE)
        return found[1] if found else ""

    def wait_for(self, job: str, state: str) -> None:
        wait(lambda: self.state(job) == state)

    def output(self, job: str) -> str:
        return self.master.ssh(f"cat /efs/script.o{job}").stdout

    def entries(self) -> dict[str, str]:
        """Return the names and states of root's jobs in the queue."""
        shown = self.master.ssh("qstat -r -u root").stdout
        states = re.findall(r"^\s*\d+ \S+ \S+ +root +(\S+)", shown, re.MULTILINE)
        names = re.findall(r"Full jobname: +train(?:ing)?-(\S+)", shown)
        return dict(zip(names, states, strict=True))

    def identity(self, name: str) -> str:
        shown = self.master.ssh("qstat -r -u root").stdout
        return re.findall(rf"^\s*(\d+) [^\n]*\n\s+Full jobname: +train(?:ing)?-{name}\n", shown, re.MULTILINE)[0]

    def nodes(self) -> dict[str, str]:
        """Return the state of each node as qstat shows it: '' if nothing is wrong."""
        shown = self.master.ssh("qstat -f", check=False).stdout
        rows = [line.split() for line in shown.splitlines() if line.startswith("trainers@")]
        return {row[0].partition("@")[2]: row[5] if len(row) > 5 else "" for row in rows}

    def restore(self) -> None:
        """Undo what a failed test may have left behind: jobs, drained nodes and removed hosts."""
        for number, host in enumerate(self.hosts, 1):
            if not self.runtime.is_alive(host.name):
                self.replace(number)
        self.master.ssh("sudo qdel -u '*'; rm -f /efs/go /efs/later", check=False)
        wait(lambda: self.master.ssh("qstat -u '*'", check=False).stdout == "")
        if self.nodes() != dict.fromkeys(HOSTS, ""):
            self.converge()
            wait(lambda: self.nodes() == dict.fromkeys(HOSTS, ""))


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sge]:
    with queue_hosts(Sge, tmp_path_factory.mktemp("sge"), ["mxnet", "pytorch"]) as queue:
        yield queue


@pytest.fixture(autouse=True)
def restored(queue: Sge) -> None:
    queue.restore()


def test_a_job_runs_on_all_hosts_with_its_gpus_and_a_second_run_changes_nothing(queue: Sge) -> None:
    show = "echo $(hostname) $(id -un) $CUDA_VISIBLE_DEVICES"
    tasks = f"for host in $(cut -d' ' -f1 $PE_HOSTFILE); do qrsh -inherit -nostdin $host '{show}'; done"
    job = queue.qsub(f"#$ -pe nodes 3\n#$ -l gpu=2\n{tasks}")
    queue.wait_for(job, "")
    assert sorted(queue.output(job).splitlines()) == [f"{name} ubuntu 0,1" for name in HOSTS]
    assert queue.hosts[2].ssh("qrsh -now n hostname").stdout.startswith("trust-"), "every host has the commands"
    assert set(queue.converge().values()) == {0}


def test_neither_the_key_nor_the_queue_is_open_to_jobs(queue: Sge) -> None:
    keys = {host.ssh(f"sudo sha256sum {KEY} && sudo stat -c '%U %a' {KEY}").stdout for host in queue.hosts}
    assert len(keys) == 1
    assert keys.pop().endswith("\nmunge 400\n")
    assert queue.master.ssh(f"stat -c '%U %a' {QUEUE}").stdout == "sgeadmin 700\n"
    queue.master.ssh("sudo useradd --system outsider")
    refused = queue.master.ssh("cd / && sudo -u outsider qsub -b y true", check=False)
    assert refused.returncode != 0
    assert "outsider@trust-master is not allowed to submit jobs" in refused.stdout + refused.stderr
    refused = queue.master.ssh("cd / && qsub -pe training_jobs 1 -b y true; qconf -am ubuntu; qdel -u root", check=False)
    assert queue.master.ssh("qconf -sm").stdout == "root\nsgeadmin\n"
    owners = queue.master.ssh("sudo stat -c '%U %a' /usr/local/lib/deeplearning /usr/local/lib/deeplearning/sge_shepherd").stdout
    assert owners == "root 755\nroot 755\n"


def test_a_training_job_waits_for_its_turn_and_can_be_stopped_while_it_waits(queue: Sge) -> None:
    queue.train("first", UNTIL_GO)
    queue.train("second", "exit 1")
    wait(lambda: queue.entries() == {"first": "r", "second": "qw"})
    assert re.search(r"^second queued since .* UTC, in SGE as job \d+: its hosts are not free, command bash$", queue.status("second"))
    same = queue.qsub("true", "-h", "-N", "train-second")
    queue.stop("second")
    assert queue.entries() == {"first": "r"}
    assert queue.status("second").startswith("second stopped before it started, ")
    assert queue.left("second") == []
    assert queue.state(same) == "hqw", "another user's job of the same name"
    queue.master.ssh("touch /efs/go")
    queue.wait_for_end("first")
    assert queue.status("first").startswith("first succeeded after ")
    assert queue.left("first") == []


@pytest.mark.exhaustive
def test_twenty_training_jobs_never_share_a_host(queue: Sge) -> None:
    """Some jobs use all hosts; other jobs run on hosts that SGE chooses. All jobs wait until the first job ends."""
    queue.train("blocks", UNTIL_GO)
    turn = "echo $(hostname) $(date +%s.%N) >turn-$(hostname); sleep 2; date +%s.%N >>turn-$(hostname)"
    counts = {f"turn-{number}": (3, 1, 2, 1)[number % 4] for number in range(20)}
    for name, count in counts.items():
        queue.train(name, turn, host_count=count % 3)
    assert queue.entries() == {"blocks": "r", **dict.fromkeys(counts, "qw")}
    queue.master.ssh("touch /efs/go")
    for name in counts:
        queue.wait_for_end(name)
    check_turns(queue, [line for name in counts for line in queue.master.ssh(f"cat /efs/jobs/{name}/code/turn-*").stdout.split()])
    assert all(queue.status(name).startswith(f"{name} succeeded after ") for name in counts)


def check_turns(queue: Sge, turns: list[str]) -> None:
    """Check that the intervals of each place, given as place, start and end, do not overlap."""
    uses: dict[str, list[tuple[float, float]]] = {}
    for place, start, end in zip(turns[::3], turns[1::3], turns[2::3], strict=True):
        uses.setdefault(place, []).append((float(start), float(end)))
    assert len(uses) >= 3
    for times in uses.values():
        times.sort()
        assert all(end <= start for (_start, end), (start, _end) in itertools.pairwise(times))


@pytest.mark.exhaustive
def test_twenty_jobs_never_share_a_gpu(queue: Sge) -> None:
    job = queue.qsub("echo $(hostname):$CUDA_VISIBLE_DEVICES $(date +%s.%N); sleep 1; date +%s.%N", "-t 1-20", "-l gpu=1")
    job = job.partition(".")[0]
    queue.wait_for(job, "")
    turns = queue.master.ssh(f"cat /efs/script.o{job}.*").stdout.split()
    assert len(turns) == 60
    assert {place.partition(":")[2] for place in turns[::3]} == {"0", "1"}
    check_turns(queue, turns)


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", ["stop", "qdel", "kill"])
def test_a_running_training_job_is_stopped(queue: Sge, how: str) -> None:
    """A running job is stopped by the playbook, by SGE, and when SGE loses the process that holds a host for the job."""
    name = f"stopped-by-{how}"
    queue.train(name, UNTIL_GO)
    wait(lambda: queue.entries() == {name: "r"})
    queue.wait_for_start(name, 3)
    if how == "stop":
        queue.stop(name)
        assert queue.entries() == {}
        assert queue.left(name) == []
    elif how == "qdel":
        identity = queue.identity(name)
        queue.master.ssh(f"qdel {identity}", check=False)
        assert queue.entries() == {name: "r"}, "only root cancels training jobs with qdel"
        queue.master.ssh(f"sudo qdel {identity}")
    else:
        queue.hosts[1].ssh(f"sudo pkill --signal KILL --full /var/lib/deeplearning-queue/{name}/[h]old.zip")
    queue.wait_for_end(name)
    wait(lambda: [path for path in queue.left(name) if path.startswith("/proc")] == [])
    assert queue.status(name).startswith(f"{name} stopped after ")


@pytest.mark.exhaustive
def test_a_job_that_cannot_start_on_one_of_its_hosts_fails_on_all(queue: Sge) -> None:
    queue.train("rogue", UNTIL_GO, "--limit", queue.name(2), queue="")
    done = queue.train("refused", "sleep 600", wait=True, check=False)
    assert re.search(r"job refused was not started: trust-worker2: job\s+rogue uses GPU 0, 1 of trust-worker2", done.stdout), done.stdout
    assert queue.left("refused") == []
    wait(lambda: queue.entries() == {})
    assert queue.status("refused").startswith("refused failed ")
    queue.stop("rogue")


@pytest.mark.exhaustive
def test_nodes_leave_and_enter_under_running_jobs(queue: Sge) -> None:
    job = queue.qsub("while ! [ -e /efs/go ]; do sleep 0.2; done; echo done $RESTARTED", "-q '*@trust-worker3'")
    queue.wait_for(job, "r")
    refused = queue.run("deeplearning.cluster.check_jobs", ("-e", "deeplearning_state=absent"), check=False)
    assert refused.returncode != 0
    assert re.search(rf"SGE job\s+{job} is\s+running on nodes that this run would", refused.stdout), refused.stdout
    assert set(queue.nodes()) == {"trust-worker3"}, "no job starts on the other hosts"
    queue.converge()
    wait(lambda: queue.nodes() == dict.fromkeys(HOSTS, ""))

    queue.converge(2)
    assert queue.nodes()["trust-worker3"] == "o", "a job is running there"
    queue.master.ssh("touch /efs/go")
    queue.wait_for(job, "")
    assert queue.output(job) == "done 0\n"
    queue.converge(2)
    assert queue.nodes() == dict.fromkeys(HOSTS[:2], "")
    assert "trust-worker3" not in queue.master.ssh("qconf -sel").stdout

    job = queue.qsub("#$ -pe nodes 2\nsleep 600")
    queue.wait_for(job, "r")
    queue.converge(3)
    assert queue.nodes() == dict.fromkeys(HOSTS, "")
    assert queue.state(job) == "r"


@pytest.mark.exhaustive
def test_a_job_of_a_host_that_dies_is_finished_elsewhere(queue: Sge) -> None:
    job = queue.qsub("hostname; [ $RESTARTED = 1 ] || sleep 600", "-q '*@trust-worker2'")
    queue.wait_for(job, "r")
    wait(lambda: "trust-worker2" in queue.output(job))
    queue.master.ssh(f"qalter -q '*@trust-worker3' {job}")
    queue.runtime.remove(queue.hosts[1].name)
    queue.wait_for(job, "")
    assert queue.output(job).split()[-1] == "trust-worker3"


@pytest.mark.exhaustive
def test_a_new_master_has_the_old_queue(queue: Sge) -> None:
    """The master dies, and its replacement has a different address.

    A job on another host keeps running, and a waiting job still runs later.
    """
    waiting = queue.qsub("echo waited", "-h")
    running = queue.qsub("while ! [ -e /efs/go ]; do sleep 0.2; done; echo ran $RESTARTED", "-q '*@trust-worker3'")
    queue.wait_for(running, "r")
    key = queue.hosts[1].ssh(f"sudo sha256sum {KEY}").stdout
    queue.runtime.remove(queue.master.name)
    queue.replace(1)
    assert queue.master.ssh(f"sudo sha256sum {KEY}").stdout == key
    assert queue.state(waiting) == "hqw"
    assert queue.state(running) == "r"
    queue.master.ssh(f"touch /efs/go && qrls {waiting}")
    queue.wait_for(waiting, "")
    queue.wait_for(running, "")
    assert (queue.output(waiting), queue.output(running)) == ("waited\n", "ran 0\n")
    wait(lambda: queue.nodes() == dict.fromkeys(HOSTS, ""))


@pytest.mark.exhaustive
def test_torchrun_by_the_script_of_the_documentation(queue: Sge) -> None:
    script = re.findall(r"^```bash\n#!/bin/bash\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0]
    queue.master.ssh(
        "cat >/efs/train.py <<'END'\nimport torch.distributed as dist\n"
        "dist.init_process_group('gloo')\nprint(f'rank {dist.get_rank()} of {dist.get_world_size()}')\nEND"
    )
    job = queue.qsub(script.replace("--nproc-per-node=gpu", "--nproc-per-node=1").replace("gpu=8", "gpu=2").replace("#$ -N digits\n", ""))
    queue.wait_for(job, "")
    assert sorted(line for line in queue.output(job).splitlines() if line.startswith("rank")) == [f"rank {rank} of 3" for rank in range(3)]


@pytest.mark.exhaustive
def test_sge_goes_away_once_its_queue_is_empty(queue: Sge) -> None:
    job = queue.qsub("sleep 600", "-h")
    queue.write(3, **PARAMETERS, sge_state="absent")
    refused = queue.play("sge", check=False)
    assert f"the queue contains job {job}" in refused.stdout
    queue.master.ssh(f"qdel {job}")
    assert set(changes(queue.play("sge", arguments=("--check",))).values()) == {2, 3}
    assert changes(queue.play("sge")) == {queue.name(1): 3, queue.name(2): 2, queue.name(3): 2}
    for host in queue.hosts:
        left = f"ls -d {KEY} {QUEUE} /etc/systemd/system/sge_*.service /usr/local/lib/deeplearning/sge_shepherd"
        assert host.ssh(left, check=False).stdout == ""
        assert host.ssh("systemctl is-active munge sge_execd sge_qmaster", check=False).stdout.split() == ["inactive"] * 3
    assert set(changes(queue.play("sge")).values()) == {0}
    refused = queue.train("without-sge", "true", check=False)
    fatal = [line for line in refused.stdout.splitlines() if line.startswith("fatal: ")]
    assert len(fatal) == 1
    assert "Run the playbook deeplearning.cluster.sge, or remove training_job_queue." in fatal[0]
    assert queue.master.ssh("ls /efs/jobs/without-sge", check=False).returncode != 0
    unit = "/run/systemd/system/slurmd.service"
    start = "sudo systemctl daemon-reload && sudo systemctl start slurmd"
    queue.hosts[1].ssh(f"printf '[Service]\\nExecStart=/bin/sleep 600\\n' | sudo tee {unit} && {start}")
    queue.write(3, **PARAMETERS)
    refused = queue.play("sge", check=False)
    fatal = [line for line in refused.stdout.splitlines() if line.startswith("fatal: ")]
    assert len(fatal) == 1
    assert "sge: slurmd.service runs on this host" in fatal[0]
    queue.hosts[1].ssh(f"sudo systemctl stop slurmd && sudo rm {unit} && sudo systemctl daemon-reload")
    queue.converge()


@pytest.mark.exhaustive
def test_a_job_continues_without_its_first_host(queue: Sge) -> None:
    """The program that leads the job dies with that host. The other host tells SGE when the job has ended."""
    script = "[ $DEEPLEARNING_ATTEMPT != 1 ] || sleep 600"
    others = ("--limit", f"{queue.name(2)},{queue.name(3)}")
    queue.train("survivor", script, *others, restarts=1, min_hosts=1, heartbeat_timeout=30)
    queue.wait_for_start("survivor", 2)
    first = re.findall(r"Master Queue: +trainers@trust-worker(\d)", queue.master.ssh("qstat -r -u root").stdout)
    queue.runtime.remove(queue.hosts[int(first[0]) - 1].name)
    queue.wait_for_end("survivor")
    assert queue.status("survivor").startswith("survivor succeeded after ")


@pytest.mark.exhaustive
def test_a_job_continues_without_one_of_its_other_hosts(queue: Sge) -> None:
    script = "[ $DEEPLEARNING_ATTEMPT != 1 ] || sleep 600"
    others = ("--limit", f"{queue.name(2)},{queue.name(3)}")
    queue.train("smaller", script, *others, restarts=1, min_hosts=1, heartbeat_timeout=30, stop_timeout=5)
    queue.wait_for_start("smaller", 2)
    first = re.findall(r"Master Queue: +trainers@trust-worker(\d)", queue.master.ssh("qstat -r -u root").stdout)
    queue.runtime.remove(queue.hosts[{"2": 2, "3": 1}[first[0]]].name)
    queue.wait_for_end("smaller")
    assert queue.status("smaller").startswith("smaller succeeded after ")


# The tracker of MXNet's last release assigns no roles to the tasks that SGE numbers, so the script derives its role from its number.
SUM = """
import os
if "DMLC_ROLE" not in os.environ:
    is_worker = int(os.environ["SGE_TASK_ID"]) <= int(os.environ["DMLC_NUM_WORKER"])
    os.environ["DMLC_ROLE"] = "worker" if is_worker else "server"
import mxnet as mx
store = mx.kvstore.create("dist_sync")
total = mx.nd.zeros(1)
store.init("sum", total)
store.push("sum", mx.nd.array([store.rank + 1]))
store.pull("sum", total)
print(f"the sum is {total.asscalar()}", flush=True)
mx.nd.waitall()
"""


@pytest.mark.exhaustive
def test_mxnets_own_launcher_submits_workers_and_servers(queue: Sge) -> None:
    """The test corrects two errors in MXNet's last release: a method that Python 3.9 removed, and the names of two options."""
    launcher = queue.master.ssh("find /opt/mxnet -name launch.py").stdout.split()[0]
    tracker = launcher.removesuffix("mxnet/tools/launch.py") + "dmlc_tracker"
    options = "s/args.logdir/args.sge_log_dir/g; s/args.vcores/args.worker_cores/"
    queue.master.ssh(
        f"mkdir /efs/by-hand && cp -r {launcher} {tracker} /efs/by-hand && cat >/efs/by-hand/sum.py <<'END'\n{SUM}END\n"
        f"cd /efs/by-hand/dmlc_tracker && sed -i s/isAlive/is_alive/ tracker.py && sed -i '{options}' sge.py"
    )
    command = "launch.py -n 2 -s 1 --launcher sge /opt/mxnet/bin/python sum.py"
    done = queue.master.ssh(f"cd /efs/by-hand && timeout 300 /opt/mxnet/bin/python {command} 2>&1", check=False, timeout=600)
    assert done.returncode == 0, done.stdout
    wait(lambda: queue.master.ssh("qstat -u '*'").stdout == "")
    assert queue.master.ssh("cat /efs/by-hand/dmlc*.log/*.o*").stdout.count("the sum is 3.0") == 2
