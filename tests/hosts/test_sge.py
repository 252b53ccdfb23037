"""SGE (Grid Engine) on real hosts: users' scripts, GPUs, failing hosts, and nodes that are added and removed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from . import queues
from .sge import QUEUE, Sge


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sge]:
    with queues.queue_hosts(Sge, tmp_path_factory.mktemp("sge"), ["mxnet", "pytorch"]) as queue:
        yield queue


@pytest.fixture(autouse=True)
def restored(queue: Sge) -> None:
    queue.restore()


def test_a_job_runs_on_all_hosts_with_its_gpus_and_a_second_run_changes_nothing(queue: Sge) -> None:
    show = "echo $(hostname) $(id -un) $CUDA_VISIBLE_DEVICES"
    tasks = f"for host in $(cut -d' ' -f1 $PE_HOSTFILE); do qrsh -inherit -nostdin $host '{show}'; done"
    job = queue.submit(f"#$ -pe nodes 3\n#$ -l gpu=2\n{tasks}")
    queue.wait_for(job, "")
    assert sorted(queue.output(job).splitlines()) == [f"{name} ubuntu 0,1" for name in queue.names]
    assert queue.hosts[2].ssh("qrsh -now n hostname").stdout.startswith("trust-"), "every host has the commands"
    assert set(queue.converge().values()) == {0}


def test_neither_the_key_nor_the_queue_is_open_to_jobs(queue: Sge) -> None:
    keys = {host.ssh(f"sudo sha256sum {queues.KEY} && sudo stat -c '%U %a' {queues.KEY}").stdout for host in queue.hosts}
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


@pytest.mark.exhaustive
def test_a_training_job_waits_for_its_turn_and_can_be_stopped_while_it_waits(queue: Sge) -> None:
    queues.check_that_a_waiting_job_is_stopped(queue, "its hosts are not free", "-N", "train-second")


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", ["stop", "cancel", "kill"])
def test_a_running_training_job_is_stopped(queue: Sge, how: str) -> None:
    queues.check_that_a_running_job_is_stopped(queue, how)


@pytest.mark.exhaustive
def test_a_job_that_cannot_start_on_one_of_its_hosts_fails_on_all(queue: Sge) -> None:
    queues.check_that_a_job_needs_all_its_hosts(queue)


@pytest.mark.exhaustive
def test_nodes_leave_and_enter_under_running_jobs(queue: Sge) -> None:
    job = queue.submit("while ! [ -e /efs/go ]; do sleep 0.2; done; echo done $RESTARTED", "-q '*@trust-worker3'")
    queue.wait_for(job, "r")
    refused = queue.run("deeplearning.cluster.check_jobs", ("-e", "deeplearning_state=absent"), check=False)
    assert refused.returncode != 0
    assert re.search(rf"SGE job\s+{job} is\s+running on nodes that this run would", refused.stdout), refused.stdout
    assert set(queue.nodes()) == {"trust-worker3"}, "no job starts on the other hosts"
    queue.converge()
    queue.wait_for_nodes()

    queue.converge(2)
    assert queue.nodes()["trust-worker3"] == "o", "a job is running there"
    queue.master.ssh("touch /efs/go")
    queue.wait_for(job, "")
    assert queue.output(job) == "done 0\n"
    queue.converge(2)
    assert queue.nodes() == dict.fromkeys(queue.names[:2], "")
    assert "trust-worker3" not in queue.master.ssh("qconf -sel").stdout

    job = queue.submit("#$ -pe nodes 2\nsleep 600")
    queue.wait_for(job, "r")
    queue.converge(3)
    assert queue.nodes() == dict.fromkeys(queue.names, "")
    assert queue.state(job) == "r"


@pytest.mark.exhaustive
def test_a_job_of_a_host_that_dies_is_finished_elsewhere(queue: Sge) -> None:
    job = queue.submit("hostname; [ $RESTARTED = 1 ] || sleep 600", "-q '*@trust-worker2'")
    queue.wait_for(job, "r")
    queues.wait(lambda: "trust-worker2" in queue.output(job))
    queue.master.ssh(f"qalter -q '*@trust-worker3' {job}")
    queue.runtime.remove(queue.hosts[1].name)
    queue.wait_for(job, "")
    assert queue.output(job).split()[-1] == "trust-worker3"


@pytest.mark.exhaustive
def test_a_new_master_has_the_old_queue(queue: Sge) -> None:
    """The master dies, and its replacement has a different address.

    A job on another host keeps running, and a waiting job still runs later.
    """
    waiting = queue.submit("echo waited", "-h")
    running = queue.submit("while ! [ -e /efs/go ]; do sleep 0.2; done; echo ran $RESTARTED", "-q '*@trust-worker3'")
    queue.wait_for(running, "r")
    key = queue.hosts[1].ssh(f"sudo sha256sum {queues.KEY}").stdout
    queue.runtime.remove(queue.master.name)
    queue.replace(1)
    assert queue.master.ssh(f"sudo sha256sum {queues.KEY}").stdout == key
    assert queue.state(waiting) == "hqw"
    assert queue.state(running) == "r"
    queue.master.ssh(f"touch /efs/go && qrls {waiting}")
    queue.wait_for(waiting, "")
    queue.wait_for(running, "")
    assert (queue.output(waiting), queue.output(running)) == ("waited\n", "ran 0\n")
    queue.wait_for_nodes()


@pytest.mark.exhaustive
def test_torchrun_by_the_script_of_the_documentation(queue: Sge) -> None:
    queues.check_the_script_of_the_documentation(queue, lambda script: script.replace("gpu=8", "gpu=2").replace("#$ -N digits\n", ""))


@pytest.mark.exhaustive
def test_sge_goes_away_once_its_queue_is_empty(queue: Sge) -> None:
    files = f"{QUEUE} /etc/systemd/system/sge_*.service /usr/local/lib/deeplearning/sge_shepherd"
    queues.check_that_the_queue_goes_away_once_it_is_empty(queue, files, "sge_execd sge_qmaster")
    unit = "/run/systemd/system/slurmd.service"
    start = "sudo systemctl daemon-reload && sudo systemctl start slurmd"
    queue.hosts[1].ssh(f"printf '[Service]\\nExecStart=/bin/sleep 600\\n' | sudo tee {unit} && {start}")
    queue.write(3, **queue.parameters)
    refused = queue.play("sge", check=False)
    fatal = [line for line in refused.stdout.splitlines() if line.startswith("fatal: ")]
    assert len(fatal) == 1
    assert "sge: slurmd.service runs on this host" in fatal[0]
    queue.hosts[1].ssh(f"sudo systemctl stop slurmd && sudo rm {unit} && sudo systemctl daemon-reload")
    queue.converge()


@pytest.mark.exhaustive
def test_a_job_continues_without_its_first_host(queue: Sge) -> None:
    """The program that leads the job dies with that host. The other host tells SGE when the job has ended."""
    queues.check_that_a_job_continues_on_the_other_host(queue, "survivor", loses_first=True)


@pytest.mark.exhaustive
def test_a_job_continues_without_one_of_its_other_hosts(queue: Sge) -> None:
    queues.check_that_a_job_continues_on_the_other_host(queue, "smaller", loses_first=False, stop_timeout=5)


@pytest.mark.exhaustive
def test_the_role_installs_missing_packages(queue: Sge) -> None:
    packages = ["gridengine-master", "gridengine-exec", "gridengine-client", "munge", "esmtp-run"]
    queues.check_that_missing_packages_are_installed(queue, packages, ["sge_qmaster.service", "sge_execd.service", "munge.service"])


# The tracker of MXNet's last release assigns no roles to the tasks that SGE numbers, so the script derives its role from its number.
ROLE = """
import os
if "DMLC_ROLE" not in os.environ:
    is_worker = int(os.environ["SGE_TASK_ID"]) <= int(os.environ["DMLC_NUM_WORKER"])
    os.environ["DMLC_ROLE"] = "worker" if is_worker else "server"
"""


@pytest.mark.exhaustive
def test_mxnets_own_launcher_submits_workers_and_servers(queue: Sge) -> None:
    """The test corrects two errors in MXNet's last release: a method that Python 3.9 removed, and the names of two options."""
    launcher = queue.master.ssh("find /opt/mxnet -name launch.py").stdout.split()[0]
    tracker = launcher.removesuffix("mxnet/tools/launch.py") + "dmlc_tracker"
    options = "s/args.logdir/args.sge_log_dir/g; s/args.vcores/args.worker_cores/"
    queue.master.ssh(
        f"mkdir /efs/by-hand && cp -r {launcher} {tracker} /efs/by-hand && cat >/efs/by-hand/sum.py <<'END'\n{ROLE}{queues.MXNET_SUM}END\n"
        f"cd /efs/by-hand/dmlc_tracker && sed -i s/isAlive/is_alive/ tracker.py && sed -i '{options}' sge.py"
    )
    command = "launch.py -n 2 -s 1 --launcher sge /opt/mxnet/bin/python sum.py"
    done = queue.master.ssh(f"cd /efs/by-hand && timeout 300 /opt/mxnet/bin/python {command} 2>&1", check=False, timeout=600)
    assert done.returncode == 0, done.stdout
    queues.wait(lambda: queue.master.ssh("qstat -u '*'").stdout == "")
    assert queue.master.ssh("cat /efs/by-hand/dmlc*.log/*.o*").stdout.count("the sum is 3.0") == 2
