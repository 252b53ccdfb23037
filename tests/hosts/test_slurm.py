"""Slurm on real hosts: users' scripts, GPUs, failing hosts, and nodes that are added and removed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.slurm.membership import REASON

from . import queues
from .project import CLUSTER, changes
from .slurm import QUEUE, Slurm


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with queues.queue_hosts(Slurm, tmp_path_factory.mktemp("slurm"), ["mxnet", "pytorch"]) as queue:
        yield queue


@pytest.fixture(autouse=True)
def restored(queue: Slurm) -> None:
    queue.restore()


def test_a_job_runs_on_all_hosts_and_a_second_run_changes_nothing(queue: Slurm) -> None:
    script = "#SBATCH --nodes=3 --ntasks-per-node=1 --gpus-per-node=2\nsrun sh -c 'echo $(hostname) $(id -un) $CUDA_VISIBLE_DEVICES'"
    job = queue.submit(script)
    queue.wait_for(job, "COMPLETED")
    assert sorted(queue.output(job).splitlines()) == [f"{name} ubuntu 0,1" for name in queue.names]
    assert queue.hosts[2].ssh("srun --ntasks=1 hostname").stdout.startswith("trust-"), "every host has the commands"
    assert set(queue.converge().values()) == {0}


def test_scripts_of_other_clusters_run(queue: Slurm) -> None:
    """They request GPUs of a type, a part of /tmp, and PMIx."""
    done = queue.master.ssh("srun --nodes=2 --ntasks-per-node=1 --gres=gpu:h100:2 --tmp=1G --mpi=pmix sh -c 'echo $CUDA_VISIBLE_DEVICES'")
    assert done.stdout == "0,1\n" * 2
    refused = queue.master.ssh("srun --nodes=4 true", check=False)
    assert refused.returncode != 0, "a job that can never start does not wait"
    assert "RebootProgram" in queue.master.ssh("scontrol show config | grep /sbin/reboot").stdout


@pytest.mark.exhaustive
def test_files_come_with_the_parameters_that_need_them(queue: Slurm) -> None:
    names = ",".join(queue.names)
    files = {"topology.conf": f"SwitchName=s0 Nodes={names}\n", "prolog.sh": "#!/bin/sh\ntouch /run/prolog-ran\n"}
    parameters = {**queue.parameters["slurm_parameters"], "TopologyPlugin": "topology/tree", "Prolog": "/etc/slurm/prolog.sh"}
    queue.write(3, slurm_parameters=parameters)
    assert "needs the file topology.conf" in queue.play("slurm", check=False).stdout
    queue.write(3, slurm_parameters=parameters, slurm_files=files)
    assert any(changes(queue.play("slurm")).values())
    assert set(changes(queue.play("slurm")).values()) == {0}
    queue.wait_for_nodes()
    queue.master.ssh("srun --nodes=3 --ntasks-per-node=1 true")
    for host in queue.hosts:
        assert host.ssh("ls /run/prolog-ran; sudo rm /run/prolog-ran").stdout
    assert "SwitchName=s0" in queue.master.ssh("scontrol show topology").stdout
    queue.converge()
    assert queue.hosts[1].ssh("ls /etc/slurm/prolog.sh", check=False).returncode != 0
    queue.wait_for_nodes()


def test_neither_the_key_nor_the_queue_is_open_to_jobs(queue: Slurm) -> None:
    keys = {host.ssh(f"sudo sha256sum {queues.KEY} && sudo stat -c '%U %a' {queues.KEY}").stdout for host in queue.hosts}
    assert len(keys) == 1
    assert keys.pop().endswith("\nmunge 400\n")
    assert queue.master.ssh(f"stat -c '%U %a' {QUEUE}").stdout == "slurm 700\n"
    assert queue.master.ssh(f"sudo find {QUEUE} -name job_state").stdout
    queue.master.ssh("sudo useradd --system outsider")
    refused = queue.master.ssh("cd / && sudo -u outsider srun --ntasks=1 true", check=False)
    assert refused.returncode != 0
    assert "not permitted to use this partition" in refused.stderr


def test_a_training_job_waits_for_its_turn_and_can_be_stopped_while_it_waits(queue: Slurm) -> None:
    queues.check_that_a_waiting_job_is_stopped(queue, "Resources", "--job-name=second", "--comment=deeplearning.cluster")


@pytest.mark.exhaustive
def test_a_run_waits_for_its_job_and_shows_the_report_and_the_log(queue: Slurm) -> None:
    queue.train("blocks", queues.UNTIL_GO)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queue.train, "waited", "echo this is the log", wait=True, host_count=2, report=True)
        queues.wait(lambda: queue.entries() == {"blocks": "RUNNING", "waited": "PENDING"})
        queue.master.ssh("touch /efs/go")
        waited = waiting.result()
    assert "job waited succeeded" in waited.stdout
    assert "waited: the report is at " in waited.stdout
    logs = queue.run("deeplearning.cluster.logs", ("-e", "training_job_name=waited")).stdout
    assert logs.count("| this is the log") == 2
    again = queue.train("waited", "true", check=False)
    assert "job waited has already run (succeeded)" in again.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", ["stop", "cancel", "kill"])
def test_a_running_training_job_is_stopped(queue: Slurm, how: str) -> None:
    queues.check_that_a_running_job_is_stopped(queue, how)


@pytest.mark.exhaustive
def test_a_second_run_waits_for_the_job_in_the_queue(queue: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.train("again", queues.UNTIL_GO)
    queues.wait(lambda: queue.entries() == {"again": "RUNNING"})
    queue.train("behind", "until [ -e /efs/later ]; do sleep 0.2; done")
    queue.train("behind", "exit 1")
    assert queue.entries() == {"again": "RUNNING", "behind": "PENDING"}
    log = tmp_path / "log"
    monkeypatch.setenv("ANSIBLE_LOG_PATH", str(log))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queue.train, "behind", "exit 1", wait=True)
        queues.wait(lambda: log.exists() and "behind: queued in Slurm as job " in log.read_text())
        queue.master.ssh("touch /efs/go /efs/later")
    assert "job behind succeeded" in waiting.result().stdout


@pytest.mark.exhaustive
def test_a_job_that_slurm_cancels_while_it_waits_ends_the_run_that_waits_for_it(queue: Slurm) -> None:
    queue.train("holds", queues.UNTIL_GO)
    queue.train("cancelled", "true")
    queue.master.ssh("sudo scancel --name=cancelled")
    done = queue.train("cancelled", "true", wait=True, check=False)
    assert "job cancelled was removed from the queue before it started. To submit the job again, choose another name." in done.stdout
    assert queue.left("cancelled") == []


@pytest.mark.exhaustive
def test_supervisors_restart_a_job_while_slurm_holds_its_hosts(queue: Slurm) -> None:
    script = "[ $DEEPLEARNING_ATTEMPT != 1 ] || kill -9 $$; echo $SLURM_JOB_ID attempt $DEEPLEARNING_ATTEMPT"
    done = queue.train("restarted", script, wait=True, restarts=2)
    assert "restarted: attempt 1 failed: " in done.stdout
    assert queue.master.ssh("cat /efs/jobs/restarted/logs/attempt2/rank0.log").stdout == "attempt 2\n"


@pytest.mark.exhaustive
def test_a_job_continues_without_its_first_host(queue: Slurm) -> None:
    """The batch script ends when the first host dies. A different host tells Slurm when the job has ended."""
    queues.check_that_a_job_continues_on_the_other_host(queue, "survivor", loses_first=True)


@pytest.mark.exhaustive
def test_a_job_that_cannot_start_on_one_of_its_hosts_fails_on_all(queue: Slurm) -> None:
    queues.check_that_a_job_needs_all_its_hosts(queue)


@pytest.mark.exhaustive
def test_nodes_leave_and_enter_under_running_jobs(queue: Slurm) -> None:
    job = queue.submit("#SBATCH --nodelist=trust-worker3\nwhile ! [ -e /efs/go ]; do sleep 0.2; done; echo done $SLURM_RESTART_COUNT")
    queue.wait_for(job, "RUNNING")
    refused = queue.run("deeplearning.cluster.check_jobs", ("-e", "deeplearning_state=absent"), check=False)
    assert refused.returncode != 0
    assert re.search(rf"Slurm job\s+{job} is\s+running on nodes that this run would", refused.stdout), refused.stdout
    queue.wait_for_nodes(**{**dict.fromkeys(queue.names, "drained"), "trust-worker3": "draining"})
    check = queue.play("slurm", arguments=("--check", "--diff"))
    assert "+resume" in check.stdout
    assert set(changes(queue.play("slurm")).values()) == {1}
    queues.wait(lambda: queue.nodes()["trust-worker2"] == "idle")

    assert queue.converge(2) == {queue.name(1): 1, queue.name(2): 0}
    assert queue.nodes()["trust-worker3"] == "draining", "a job is running there"
    queue.master.ssh("touch /efs/go")
    queue.wait_for(job, "COMPLETED")
    assert queue.output(job) == "done\n"
    queues.wait(lambda: queue.nodes()["trust-worker3"] == "drained")
    assert queue.converge(2) == {queue.name(1): 1, queue.name(2): 0}
    queues.wait(lambda: queue.nodes() == {"trust-master": "idle", "trust-worker2": "idle"})

    job = queue.submit("#SBATCH --nodes=2\nsrun sleep 600")
    queue.wait_for(job, "RUNNING")
    queue.converge(3)
    queues.wait(lambda: queue.nodes()["trust-worker3"] == "idle")
    assert queue.state(job) == "RUNNING"
    assert queue.job(job, "Restarts") == "0"
    queue.master.ssh(f"scancel {job}")
    queue.wait_for_nodes()
    across = queue.submit("#SBATCH --nodes=3\nsrun hostname")
    queue.wait_for(across, "COMPLETED")
    assert sorted(queue.output(across).split()) == queue.names


@pytest.mark.exhaustive
def test_torchrun_by_the_script_of_the_documentation(queue: Slurm) -> None:
    queues.check_the_script_of_the_documentation(queue)


@pytest.mark.exhaustive
def test_mxnets_tracker_starts_workers_and_servers(queue: Slurm) -> None:
    """The test corrects two errors in MXNet's last release: a method that Python 3.9 removed, and an option that Slurm removed."""
    page = (queues.DOCS / "slurm.md").read_text()
    commands = re.findall(r"^```text\n(environment=.*?)^```", page, re.MULTILINE | re.DOTALL)[0]
    commands = commands.replace("/efs/environments/mxnet/x86_64-python3.10/current", "/opt/mxnet").replace("python3.10", "python3.*")
    queue.master.ssh(f"mkdir /efs/by-hand && cat >/efs/by-hand/train.py <<'END'\n{queues.MXNET_SUM}END")
    script = f"set -e; cd /efs/by-hand\n{commands}"
    done = queue.master.ssh(f"timeout 300 bash <<'END' 2>&1\n{script}END", check=False, timeout=600)
    assert done.returncode == 0, done.stdout
    assert len(set(re.findall(r"the sum is 3.0 on (\S+)", done.stdout))) == 2, done.stdout
    queues.wait(lambda: queue.master.ssh("squeue --noheader").stdout == "")


@pytest.mark.exhaustive
def test_jobs_that_have_ended_are_listed(queue: Slurm) -> None:
    page = (queues.DOCS / "slurm.md").read_text()
    (example,) = re.findall(r"^```yaml\n(slurm_parameters:\n.*?)^```", page, re.MULTILINE | re.DOTALL)
    parameters = yaml.safe_load(example.replace("/efs/slurm-demo", QUEUE))["slurm_parameters"]
    queue.converge(slurm_parameters={**queue.parameters["slurm_parameters"], **parameters})
    queue.wait_for_nodes()
    ends = [queue.submit("true", "--job-name=ends"), queue.submit("exit 3", "--job-name=fails")]
    queues.wait(lambda: queue.master.ssh("squeue --noheader").stdout == "")
    command = re.findall(r"`(sudo sacct [^`]*)`", page)[0]
    shown = sorted(line.split() for line in queue.master.ssh(command).stdout.splitlines())
    assert shown == [[ends[0], "ends", "COMPLETED"], [ends[1], "fails", "FAILED"]]
    assert queue.master.ssh(f"sudo cat {QUEUE}/jobs.log").stdout.count("JobState=COMPLETED") == 1
    queue.converge()
    queue.wait_for_nodes()


@pytest.mark.exhaustive
def test_salloc_runs_a_users_shell(queue: Slurm) -> None:
    done = queue.master.ssh("salloc --nodes=2 --quiet bash -c 'srun hostname | sort; echo $SLURM_JOB_NUM_NODES'")
    assert len(set(done.stdout.split()[:2])) == 2
    assert done.stdout.split()[2] == "2"


@pytest.mark.exhaustive
def test_another_key_is_refused_and_replaced(queue: Slurm) -> None:
    host = queue.hosts[1]
    key = host.ssh(f"sudo sha256sum {queues.KEY}").stdout
    host.ssh(f"head -c 128 /dev/urandom | sudo tee {queues.KEY} >/dev/null && sudo systemctl restart munge")
    refused = host.ssh("squeue", check=False)
    assert refused.returncode != 0, refused.stdout
    assert queue.converge()[queue.name(2)] == 1
    assert host.ssh(f"sudo sha256sum {queues.KEY}").stdout == key
    host.ssh("squeue")


@pytest.mark.exhaustive
def test_a_job_of_a_host_that_dies_is_finished_elsewhere(queue: Slurm) -> None:
    script = 'hostname; [ -n "$SLURM_RESTART_COUNT" ] || sleep 600'
    job = queue.submit(script, "--open-mode=append", "--exclude=trust-master")
    queue.wait_for(job, "RUNNING")
    name = queue.job(job, "BatchHost")
    number = queue.number(name)
    queues.wait(lambda: name in queue.output(job))
    queue.runtime.remove(queue.hosts[number - 1].name)
    queue.wait_for(job, "COMPLETED")
    assert queue.output(job).split()[0] == name
    assert queue.output(job).split()[-1] in set(queue.names) - {name}
    queue.replace(number)
    queue.wait_for_nodes()


@pytest.mark.exhaustive
def test_a_new_master_has_the_old_queue(queue: Slurm) -> None:
    """The master dies, and its replacement has a different address. A job that ends in the meantime and a job that keeps running both
    report to the master.
    """
    waiting = queue.submit("echo waited", "--hold")
    ending, running = (
        queue.submit(f"while ! [ -e /efs/{file} ]; do sleep 0.2; done; echo ran $SLURM_RESTART_COUNT", f"--nodelist=trust-worker{number}")
        for number, file in ((2, "go"), (3, "later"))
    )
    for job in (ending, running):
        queue.wait_for(job, "RUNNING")
    # The command that runs before all nodes are replaced
    queue.master.ssh(f"sudo scontrol update nodename=trust-worker3 state=drain reason='{REASON}'")
    queue.wait_until_saved()
    key = queue.hosts[1].ssh(f"sudo sha256sum {queues.KEY}").stdout
    queue.runtime.remove(queue.master.name)
    queue.hosts[1].ssh("touch /efs/go")
    queues.wait(lambda: queue.hosts[1].ssh(f"cat /efs/slurm-{ending}.out").stdout == "ran\n")
    queue.replace(1)
    assert queue.master.ssh(f"sudo sha256sum {queues.KEY}").stdout == key
    assert queue.state(waiting) == "PENDING"
    assert queue.state(running) == "RUNNING"
    queue.wait_for(ending, "COMPLETED")
    queue.master.ssh(f"touch /efs/later && scontrol release {waiting}")
    queue.wait_for(waiting, "COMPLETED")
    queue.wait_for(running, "COMPLETED")
    assert queue.output(running) == "ran\n"
    queue.wait_for_nodes()


@pytest.mark.exhaustive
def test_slurmctld_starts_with_a_thousand_emulated_nodes_in_less_than_five_seconds(queue: Slurm) -> None:
    """The module writes the configuration, in which only three nodes have hosts. A unit test measures how long this writing takes."""
    job = queue.submit("hostname", "--hold", queue.on.format(queue.name(2)))
    hardware = {"cpus": 96, "sockets": 2, "cores": 24, "threads": 2, "memory": 1_090_000, "gpus": 8}
    nodes = [{"name": name, "address": host.private_ip} for name, host in zip(queue.names, queue.hosts, strict=True)]
    for number in range(len(nodes) + 1, 1001):
        nodes.append({"name": f"trust-worker{number}", "address": f"10.9.{number // 250}.{number % 250 + 4}", "hardware": hardware})
    controller = {
        "component": "controller",
        "cluster": CLUSTER,
        "nodes": nodes,
        "state_directory": QUEUE,
        "user": "ubuntu",
        "groups": ["ubuntu"],
        "cgroups": "{{ found.cgroups }}",
        **{name.removeprefix("slurm_"): value for name, value in queue.parameters.items()},
    }
    tasks = [
        {"deeplearning.cluster.slurm_info": {"controller": True}, "register": "found"},
        {"deeplearning.cluster.slurm": controller},
    ]
    play = queue.folder / "thousand.yml"
    play.write_text(yaml.safe_dump([{"hosts": queue.name(1), "gather_facts": False, "become": True, "tasks": tasks}]))
    queue.run(str(play))
    # While slurmctld stops, it waits for the nodes that do not respond.
    start = "systemctl start slurmctld; until [ $(sinfo --noheader --Node | wc -l) = 1000 ]; do sleep 0.1; done"
    shown = queue.master.ssh(f"sudo systemctl stop slurmctld && sudo bash -c 'TIMEFORMAT=%R; time {{ {start}; }} 2>/dev/null'").stderr
    assert float(shown) < 5
    queue.master.ssh(f"scontrol release {job}")
    queue.wait_for(job, "COMPLETED")
    assert queue.output(job) == f"{queue.name(2)}\n"
    queue.converge()
    queue.wait_for_nodes()


@pytest.mark.exhaustive
def test_parameters_that_slurm_refuses_leave_the_queue_running(queue: Slurm) -> None:
    queue.write(3, slurm_parameters={"SelectType": "select/none_such"}, slurm_timeout=10)
    refused = queue.play("slurm", check=False)
    assert "so the old one was restored" in refused.stdout
    assert "select/none_such" in refused.stdout, "the message from slurmctld"
    queue.wait_for_nodes()
    assert set(queue.converge().values()) == {0}


@pytest.mark.exhaustive
def test_the_key_is_in_no_output(queue: Slurm) -> None:
    """The role runs with -vvv and --diff. Before the run, only the master has the MUNGE key."""
    key = queue.master.ssh(f"sudo base64 -w0 {queues.KEY}").stdout
    for host in queue.hosts[1:]:
        host.ssh(f"sudo rm {queues.KEY}")
    done = queue.play("slurm", arguments=("-vvv", "--diff"))
    assert key not in done.stdout + done.stderr
    for host in queue.hosts:
        assert key not in host.ssh("sudo journalctl --no-pager").stdout
    assert queue.master.ssh(f'sudo grep -rlF -e "$(sudo base64 -w0 {queues.KEY})" /efs', check=False).returncode == 1, "no match"


@pytest.mark.exhaustive
def test_slurm_goes_away_once_its_queue_is_empty(queue: Slurm) -> None:
    # The packages install a file plugstack.conf in the same directory.
    files = f"{QUEUE} /etc/slurm/{{slurm,gres,cgroup}}.conf /etc/systemd/system/*/deeplearning.conf"
    queues.check_that_the_queue_goes_away_once_it_is_empty(queue, files, "slurmd slurmctld")
    queue.converge()
    queue.wait_for_nodes()


@pytest.mark.exhaustive
def test_the_role_installs_missing_packages(queue: Slurm) -> None:
    packages = ["slurmctld", "slurmd", "slurm-client", "munge", "libpmix-dev"]
    queues.check_that_missing_packages_are_installed(queue, packages, ["slurmctld.service", "slurmd.service", "munge.service"])
