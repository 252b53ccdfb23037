"""Training jobs on three real hosts, run with the role."""

from __future__ import annotations

import json
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.attempt_messages import describe_failure
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.job_formatting import step_time_lines
from local_cloud.testing import wait_until

from .cluster import job_cluster

COLLECTION = Path(__file__).resolve().parents[2]


# The launcher of jobs that do not need PyTorch, because the import of PyTorch takes long.
COMMAND = {"launcher": "command", "launcher_options": {"hosts": "all"}, "python": "/usr/bin/python3"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jobs")
    with job_cluster(folder, ["pytorch"]) as result:
        yield result


def test_digits_is_trained_by_three_hosts(cluster):
    result = cluster.train("digits", "train.py", source=str(COLLECTION / "examples/digits"))
    assert result.returncode == 0, result.stdout + result.stderr
    logs = [cluster.read(f"/efs/jobs/digits/logs/rank{rank}.log") for rank in range(3)]
    for rank, log in enumerate(logs):
        address = cluster.workers[rank]["address"].replace(".", "-")
        assert f"rank {rank} of 3 on ip-{address} (cpu): 479 of 1437 images" in log
    last = json.loads(cluster.read("/efs/jobs/digits/progress.jsonl").splitlines()[-1])
    assert last["accuracy"] >= 0.95
    assert last["step"] == last["steps"]
    assert len(last["rank_seconds"]) == 3
    assert min(last["rank_seconds"]) > 0
    assert re.search(r"^digits: step \d+/300, epoch \d+, loss", result.stdout, re.MULTILINE)
    assert "job digits succeeded after" in result.stdout
    assert "3 (deeplearning-worker1, deeplearning-worker2, deeplearning-worker3)" in result.stdout
    assert "epoch-0020.pt" in cluster.hosts[0].ssh("ls /efs/jobs/digits/checkpoints").stdout
    assert "events.out.tfevents" in cluster.hosts[0].ssh("ls /efs/jobs/digits/tensorboard").stdout


def test_a_finished_job_is_not_overwritten(cluster):
    script = "import sys\nprint('once')\n"
    assert cluster.train("once", script, **COMMAND).returncode == 0
    result = cluster.train("once", script, **COMMAND)
    assert result.returncode != 0
    assert "job once has already run (succeeded)" in result.stdout
    assert cluster.read("/efs/jobs/once/logs/rank0.log").count("once") == 1


@pytest.mark.exhaustive
def test_a_job_continues_from_the_checkpoints_of_an_earlier_one(cluster):
    script = """
        import os, pathlib, sys
        folder = pathlib.Path(os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"])
        if os.environ["DEEPLEARNING_RANK"] == "0":
            number = len(list(folder.iterdir())) + 1
            (folder / f"epoch-{number}").touch()
            print(f"epoch {number}")
            sys.exit(1 if number == 1 else 0)
    """
    failed = cluster.train("begins", script, **COMMAND)
    assert "deeplearning.cluster.train -e training_job_name=begins-2 -e training_job_resume=begins" in failed.stdout
    continued = cluster.train("continues", script, resume="newest", **COMMAND)
    assert continued.returncode == 0, continued.stdout + continued.stderr
    assert "/efs/jobs/begins/checkpoints (continued from job begins)" in continued.stdout
    assert "epoch 2" in cluster.read("/efs/jobs/continues/logs/rank0.log")
    third = cluster.train("continues-again", script, resume="continues", **COMMAND)
    assert third.returncode == 0, third.stdout + third.stderr
    assert "epoch 3" in cluster.read("/efs/jobs/continues-again/logs/rank0.log")
    assert "/efs/jobs/begins/checkpoints/epoch-3" in cluster.hosts[0].ssh("ls -d /efs/jobs/begins/checkpoints/*").stdout
    cluster.train("saves-nothing", "print('done')\n", **COMMAND)
    refused = cluster.train("refused", script, resume="saves-nothing", **COMMAND)
    assert "job 'saves-nothing' has left no complete checkpoint in /efs/jobs/saves-nothing/checkpoints" in refused.stdout


def test_the_first_failing_rank_is_named_and_nothing_is_left(cluster):
    script = """
        import os, sys, time
        if os.environ["RANK"] == "1":
            sys.exit("the disk of the second host is full")
        time.sleep(600)
    """
    result = cluster.train("fails", script)
    assert result.returncode != 0
    assert "job fails failed: rank 1 on deeplearning-worker2 ended with exit status 1" in result.stdout
    assert "the disk of the second host is full" in result.stdout
    assert "ChildFailedError" not in result.stdout, "torchrun's messages hide the script's message"
    assert cluster.processes("/efs/jobs/fails/code") == []
    assert [process["state"] for process in cluster.info("fails")["processes"]] == ["stopped", "failed", "stopped"]


def test_commands_are_shown_and_written_as_scripts_that_run_by_hand(cluster):
    script = """
        import json, os, pathlib, sys, time
        print(json.dumps([sys.argv[1:], os.environ["KIND"], os.environ["TOKEN"], os.environ["DEEPLEARNING_WORKERS_COUNT"]]), flush=True)
        # The job stops its server when all workers have ended, so a worker waits until the server has printed as much as the worker itself.
        kind, number = (argument.partition("=")[2] for argument in sys.argv[-2:])
        logs = pathlib.Path(os.environ["DEEPLEARNING_JOB_DIRECTORY"], "logs")
        server, own = logs / "ps0.log", logs / f"{kind}{number}.log"
        while not server.exists() or len(server.read_text().splitlines()) < len(own.read_text().splitlines()):
            time.sleep(0.1)
    """
    secret = "battery-horse"
    job = {
        "launcher": "tensorflow",
        "launcher_options": {"strategy": "flags", "servers": 1},
        "arguments": ["two words"],
        "environment": {"KIND": "any"},
        "environment_by_task": {"ps": {"KIND": "server"}},
        "secrets": {"TOKEN": secret},
    }
    printed = cluster.train("by-hand", script, **job, state="printed", scripts_directory="scripts")
    assert printed.returncode == 0, printed.stdout + printed.stderr
    assert cluster.info("by-hand")["printed"]
    scripts = {path.stem: path.read_text() for path in (cluster.folder / "scripts").iterdir()}
    assert sorted(scripts) == [worker["name"] for worker in cluster.workers]
    assert secret not in printed.stdout + "".join(scripts.values())
    assert cluster.info("by-hand")["state"] == "pending"
    for host, worker in zip(cluster.hosts, cluster.workers, strict=True):
        by_hand = f"export TOKEN={secret}\n{scripts[worker['name']]}wait\n"
        host.ssh(f"sudo runuser -u deeplearning -- bash -s <<'ALL'\n{by_hand}ALL\n")
    started = cluster.train("by-hand", script, **job)
    assert started.returncode == 0, started.stdout + started.stderr
    assert not cluster.info("by-hand")["printed"], "a printed job that starts counts as a job that is starting"
    for name, kind in (("ps0", "server"), ("worker0", "any"), ("worker1", "any"), ("worker2", "any")):
        by_script, by_unit = cluster.read(f"/efs/jobs/by-hand/logs/{name}.log").splitlines()
        assert by_script == by_unit
        arguments, *found = json.loads(by_script)
        assert found == [kind, secret, "3"]
        assert arguments[0] == "two words"
        assert arguments[-2:] == [f"--job_name={name[:-1]}", f"--task_index={name[-1]}"]

    predicted = cluster.play(cluster.playbook("predicted", script, launcher="command"), "--check")
    assert predicted.returncode == 0, predicted.stdout + predicted.stderr
    for rank, worker in enumerate(cluster.workers):
        assert f"rank{rank} on {worker['name']}: /opt/pytorch/bin/python /efs/jobs/predicted/code/predicted.py" in predicted.stdout
    assert cluster.hosts[0].ssh("ls /efs/jobs/predicted", check=False).returncode != 0


def test_stop_ends_one_job_and_leaves_another(cluster):
    script = """
        import os, pathlib, time
        pathlib.Path("/dev/shm", os.environ["DEEPLEARNING_JOB"]).touch()
        time.sleep(600)
    """
    for name in ("sleep", "sleep-2"):
        result = cluster.train(name, script, wait=False, **COMMAND)
        assert result.returncode == 0, result.stdout + result.stderr
        logs = f"-i inventory.yml deeplearning.cluster.logs -e training_job_name={name} -e follow=true"
        shown = " ".join(result.stdout.split())
        assert f"ansible-playbook {logs}" in shown
        shares = "Job sleep-2 shares processors and memory with sleep, which is running on the same hosts."
        assert (shares in shown) == (name == "sleep-2")
    wait_until(lambda: all(len(cluster.processes(f"python3 /efs/jobs/{name}/code")) == 3 for name in ("sleep", "sleep-2")))
    unit = "deeplearning-sleep-rank0.service"
    assert "remote-fs.target" in cluster.hosts[0].ssh(f"systemctl show --property=After {unit}").stdout
    main = cluster.hosts[0].ssh(f"systemctl show --property=MainPID --value {unit}").stdout.strip()
    assert cluster.hosts[0].ssh(f"sudo ls /proc/{main}/root/dev/shm").stdout.split() == ["sleep"]
    listing = cluster.play("deeplearning.cluster.status").stdout
    assert re.search(r"^sleep-2 running for .* \(since .* UTC\), 3 processes on 3 hosts", listing, re.MULTILINE)
    assert re.search(r"^processes of sleep-2, the newest job:\nprocess +host", listing, re.MULTILINE)

    result = cluster.play("deeplearning.cluster.stop", "-e", "training_job_name=sleep")
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"Stopped job sleep on \S+, \S+, \S+\.", result.stdout)
    assert cluster.processes("/efs/jobs/sleep/code") == []
    assert len(cluster.processes("python3 /efs/jobs/sleep-2/code")) == 3
    assert cluster.info("sleep")["state"] == "stopped"
    assert cluster.info("sleep-2")["state"] == "running"

    again = cluster.play("deeplearning.cluster.stop", "-e", "training_job_name=sleep")
    assert again.returncode != 0
    assert "Running jobs:" in again.stdout
    assert " ".join(again.stdout.split()).count(": sleep-2") >= 3, again.stdout
    unnamed = cluster.play("deeplearning.cluster.stop")
    assert unnamed.returncode != 0
    assert "training_job_name: no job is specified" in unnamed.stdout
    assert "run ansible-playbook -i inventory.yml deeplearning.cluster.status" in " ".join(unnamed.stdout.split())
    assert cluster.play("deeplearning.cluster.stop", "-e", "training_job_name=sleep-2").returncode == 0
    for host in cluster.hosts:
        assert host.ssh("systemctl list-units --all --no-legend 'deeplearning-*rank*'").stdout == ""
        assert host.ssh("ls /run/deeplearning/jobs", check=False).stdout == ""
        assert host.ssh("sudo ls /dev/shm /run/deeplearning/shm").stdout.split() == ["/dev/shm:", "/run/deeplearning/shm:"]


def test_processes_of_a_job_share_memory_on_a_host_and_with_nobody_else(cluster):
    """NCCL compares the /dev/shm of two processes to decide whether both run on the same machine."""
    script = """
        import os, pathlib, sys, time
        rank, memory = int(os.environ["DEEPLEARNING_RANK"]), pathlib.Path("/dev/shm")
        (memory / f"rank{rank}").touch()
        peer = memory / f"rank{rank ^ 1}"
        while not peer.exists():
            time.sleep(0.1)
        statistics = os.statvfs(memory)
        print(f"sees {sorted(os.listdir(memory))} on {os.stat(memory).st_dev}, {statistics.f_blocks * statistics.f_frsize} bytes")
        (memory / f"seen{rank}").touch()
        while not (memory / f"seen{rank ^ 1}").exists():
            time.sleep(0.1)
    """
    result = cluster.train("share", script, launcher="command", processes_per_host=2, time_limit=60)
    assert result.returncode == 0, result.stdout + result.stderr
    total = int(cluster.hosts[0].ssh("grep MemTotal /proc/meminfo").stdout.split()[1]) * 1024
    for first in (0, 2, 4):
        said = [cluster.read(f"/efs/jobs/share/logs/rank{rank}.log") for rank in (first, first + 1)]
        devices = {re.search(r" on (\d+), (\d+) bytes", line).groups() for line in said}
        assert len(devices) == 1
        assert int(devices.pop()[1]) >= 0.9 * total
        assert all(f"'rank{first}', 'rank{first + 1}'" in line for line in said)
    for host in cluster.hosts:
        # The supervisor of another host ends some time after its process
        wait_until(lambda host=host: host.ssh("sudo ls /dev/shm /run/deeplearning/shm/share | grep -v :").stdout.strip() == "", 60)


def test_temporary_files_belong_to_an_attempt_and_code_in_tmp_does_not(cluster):
    script = """
        import os, pathlib, time
        print([sorted(os.listdir(place)) for place in ("/tmp", "/var/tmp")], os.environ["PYTHONUSERBASE"], flush=True)
        for place in ("/tmp", "/var/tmp"):
            pathlib.Path(place, "left").mkdir()
            pathlib.Path(place, "left/file").touch()
        if os.environ["DEEPLEARNING_ATTEMPT"] == "1":
            if os.environ["DEEPLEARNING_RANK"] != "0":
                time.sleep(600)
            os._exit(3)
    """
    result = cluster.train("temporary", script, launcher="command", sync_directory="/tmp/code", restarts=1)
    assert result.returncode == 0, result.stdout + result.stderr
    for log in ("rank0.log", *(f"attempt2/rank{rank}.log" for rank in range(3))):
        assert cluster.read(f"/efs/jobs/temporary/logs/{log}").splitlines()[0] == "[['code'], []] /tmp/python-user"
    for host in cluster.hosts:
        assert host.ssh("ls /tmp/code").stdout.split() == ["temporary.py"]
        assert host.ssh("ls -d /tmp/left /var/tmp/left", check=False).stdout == ""
        assert host.ssh("sudo find /var/lib/deeplearning-tmp/temporary -name 'left*'").stdout == ""


@pytest.mark.exhaustive
def test_a_process_that_ignores_sigterm_is_killed(cluster):
    script = """
        import pathlib, signal, os, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pathlib.Path(os.environ["DEEPLEARNING_JOB_DIRECTORY"], "ready" + os.environ["DEEPLEARNING_RANK"]).touch()
        time.sleep(3600)
    """
    assert cluster.train("stubborn", script, wait=False, stop_timeout=2, **COMMAND).returncode == 0
    wait_until(lambda: cluster.hosts[0].ssh("ls /efs/jobs/stubborn").stdout.count("ready") == 3)
    assert cluster.play("deeplearning.cluster.stop", "-e", "training_job_name=stubborn").returncode == 0
    assert cluster.processes("/efs/jobs/stubborn/code") == []


def test_arguments_and_environment_arrive_as_given_and_secrets_stay_secret(cluster):
    arguments = [
        "two words",
        "it's",
        '"quoted"',
        "$HOME",
        "100%",
        "%n",
        "line\nbreak",
        "grüße ☃",
        "",
        "--epochs",
        "back\\slash",
        "{x}",
        "*",
    ]
    script = """
        import json, os, pathlib, sys, time
        directory = pathlib.Path(os.environ["DEEPLEARNING_JOB_DIRECTORY"])
        (directory / ("seen" + os.environ["DEEPLEARNING_RANK"])).write_text(json.dumps([sys.argv[1:], dict(os.environ)]))
        while not (directory / "go").exists():
            time.sleep(0.1)
    """
    secret = "correct-horse-battery"
    variables = {"environment": {"GREETING": "grüße $USER 100%\nmore"}, "secrets": {"TOKEN": secret}}
    result = cluster.train("odd", script, arguments=arguments, wait=False, **variables, **COMMAND)
    assert result.returncode == 0, result.stdout + result.stderr
    wait_until(lambda: cluster.hosts[0].ssh("ls /efs/jobs/odd").stdout.count("seen") == 3)
    for rank, host in enumerate(cluster.hosts):
        seen_arguments, environment = json.loads(cluster.read(f"/efs/jobs/odd/seen{rank}"))
        assert seen_arguments == arguments
        assert environment["GREETING"] == "grüße $USER 100%\nmore"
        assert environment["TOKEN"] == secret
        assert environment["DEEPLEARNING_WORKERS_COUNT"] == "3"
        assert environment["USER"] == "deeplearning"
        visible = host.ssh("ps -eo args; systemctl show 'deeplearning-odd-*' deeplearning-odd.slice; journalctl --no-pager").stdout
        assert "deeplearning-odd-rank" in visible
        assert secret not in visible
        modes = host.ssh(
            "sudo sh -c 'stat -c \"%a %U\" /run/deeplearning/jobs/odd-rank* /run/deeplearning/jobs/odd-rank*/spec.json'"
        ).stdout
        assert modes.split("\n")[:2] == ["700 deeplearning", "600 deeplearning"]
    assert secret not in result.stdout
    assert cluster.hosts[0].ssh(f"grep -r {secret} /efs/jobs/odd --include='*.json' --include='*.log'", check=False).stdout == ""

    # While the job runs, a second start with the same name waits for the job.
    cluster.hosts[0].ssh("touch /efs/jobs/odd/go")
    assert cluster.info("odd")["state"] in ("running", "succeeded")


def test_a_running_job_is_waited_for_again(cluster, monkeypatch, tmp_path):
    script = """
        import os, pathlib, time
        while not pathlib.Path(os.environ["DEEPLEARNING_JOB_DIRECTORY"], "go").exists():
            time.sleep(0.1)
    """
    assert cluster.train("again", script, wait=False, **COMMAND).returncode == 0
    wait_until(lambda: len(cluster.info("again")["processes"]) == 3)
    started = [process["started"] for process in cluster.info("again")["processes"]]
    log = tmp_path / "log"
    monkeypatch.setenv("ANSIBLE_LOG_PATH", str(log))
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(cluster.train, "again", script, **COMMAND)
        wait_until(lambda: waiting.done() or (log.exists() and "Wait for the job" in log.read_text()))
        cluster.hosts[0].ssh("touch /efs/jobs/again/go")
        result = waiting.result()
    assert result.returncode == 0, result.stdout + result.stderr
    assert "job again succeeded" in result.stdout
    assert [process["started"] for process in cluster.info("again")["processes"]] == started


def test_the_time_limit_ends_the_job(cluster):
    result = cluster.train("limited", "import time\ntime.sleep(600)\n", time_limit=6, **COMMAND)
    assert result.returncode != 0
    assert "reached its time limit of 6 s" in result.stdout
    assert cluster.processes("/efs/jobs/limited/code") == []


@pytest.mark.exhaustive
def test_a_killed_agent_leaves_no_worker(cluster):
    assert cluster.train("killed", "import time\ntime.sleep(600)\n", wait=False).returncode == 0
    wait_until(lambda: len(cluster.processes("python.* -u /efs/jobs/killed/code")) == 3)
    cluster.hosts[1].ssh("sudo pkill -KILL -f '[t]orch.distributed.run.*/efs/jobs/killed/'")
    result = cluster.train("killed", "import time\ntime.sleep(600)\n")
    assert result.returncode != 0
    assert cluster.processes("/efs/jobs/killed/code") == []
    # The second form occurs on kernels that count the processes killed by the OOM killer.
    how = "was killed by signal SIGKILL"
    assert describe_failure(cluster.info("killed")["failure"]) in (how, f"{how} (not by the kernel's OOM killer)")


def test_a_job_is_restarted_from_its_checkpoint_and_finishes(cluster):
    script = """
        import json, os, pathlib, signal, time
        import torch, torch.distributed as dist
        dist.init_process_group("gloo")
        rank, folder = dist.get_rank(), pathlib.Path(os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"])
        first = max((int(path.stem) for path in folder.glob("*.pt")), default=0) + 1
        print(f"begins with epoch {first}", flush=True)
        dist.barrier()
        for epoch in range(first, 5):
            for step in range(3 * epoch, 3 * epoch + 3):
                total = torch.ones(1)
                dist.all_reduce(total)
                time.sleep(0.2)
                if rank == 0:
                    with open(os.environ["DEEPLEARNING_PROGRESS"], "a") as file:
                        entry = {"step": step, "steps": 14, "time": time.time(), "rank_seconds": [0.2, 0.2, 0.3]}
                        file.write(json.dumps({**entry, "checkpoint_seconds": 0.1} if step % 3 == 0 else entry) + "\\n")
                dist.barrier()
                if (rank, step, os.environ["DEEPLEARNING_ATTEMPT"]) == (1, 10, "1"):
                    os.kill(os.getpid(), signal.SIGKILL)
            if rank == 0:
                torch.save(total, folder / f"{epoch}.tmp")
                (folder / f"{epoch}.tmp").rename(folder / f"{epoch}.pt")
            dist.barrier()
        dist.destroy_process_group()
    """
    directories = {"metrics_directory": str(cluster.folder / "metrics"), "host_metrics_directory": "/var/lib/deeplearning-metrics"}
    result = cluster.train("survives", script, restarts=3, **directories)
    assert result.returncode == 0, result.stdout + result.stderr
    shown = " ".join(result.stdout.split())
    assert "survives: attempt 1 failed: rank 1 on deeplearning-worker2 was killed by signal SIGKILL" in shown
    assert "The job continues on the same hosts." in shown
    # torchrun writes to these logs, too, when its rendezvous ends before it has left: a warning after the job.
    for rank in range(3):
        assert cluster.read(f"/efs/jobs/survives/logs/attempt2/rank{rank}.log").splitlines()[0] == "begins with epoch 3"
    found = cluster.info("survives", goodput="always")
    assert (found["state"], found["attempt"], [one["state"] for one in found["attempts"]]) == ("succeeded", 2, ["failed", "succeeded"])
    assert "begins with epoch 1" in cluster.read("/efs/jobs/survives/logs/rank1.log")
    assert cluster.processes("/efs/jobs/survives/code") == []
    assert [host.ssh("ls /run/deeplearning/jobs", check=False).stdout for host in cluster.hosts] == [""] * 3
    check_goodput(cluster, found, shown)


def check_goodput(cluster, found, shown):
    """Check that the goodput of a restarted job accounts for all of its time, and that the goodput is shown."""
    spent = found["goodput"]
    wall = max(process["finished"] for process in found["processes"]) - found["created"]
    assert (spent["nodes"], spent["seconds"]) == (3, pytest.approx(wall, rel=0.01))
    assert sum(spent["buckets"].values()) == pytest.approx(3 * wall, rel=0.01)
    assert sorted(each["host"] for each in spent["hosts"]) == [worker["name"] for worker in cluster.workers]
    for each in spent["hosts"]:
        assert sum(each["buckets"].values()) == pytest.approx(wall, rel=0.01)
    assert min(seconds for bucket, seconds in spent["buckets"].items() if bucket != "idle") > 0, spent
    assert found["step_times"][0] == {"name": "deeplearning-worker3", "seconds": 0.3, "slow": True}
    assert "deeplearning-worker3 is slow: 0.3 s per step, 1.5 times the median" in " ".join(step_time_lines(found))
    assert f"goodput {100 * spent['ratio']:.1f} % of the time (3 nodes for " in shown
    on_hosts = [host.ssh("cat /var/lib/deeplearning-metrics/*.prom", check=False).stdout for host in cluster.hosts]
    assert on_hosts[1:] == ["", ""], "only the first host writes metrics"
    (on_controller,) = (cluster.folder / "metrics").glob("deeplearning-*survives.prom")
    for metrics in (on_controller.read_text(), on_hosts[0]):
        seconds = [float(line.split()[-1]) for line in metrics.splitlines() if line.startswith("deeplearning_job_node_seconds{")]
        assert sum(seconds) == pytest.approx(3 * wall, rel=0.01)
    assert "<h2>Goodput</h2>" in next((cluster.folder / "reports").rglob("survives.html")).read_text()


@pytest.mark.parametrize(
    ("name", "variables", "message"),
    [
        ("no-script", {"script": "missing.py"}, "script: 'missing.py' is not a file on the controller"),
        ("no-python", {"python": "/opt/none/bin/python"}, "python: '/opt/none/bin/python' does not exist"),
        ("local-disk", {"directory": "/home/ubuntu/jobs"}, "is on this host's own disk"),
        ("Bad_Name", {}, "name: 'Bad_Name' is not a valid job name"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_runs(cluster, name, variables, message):
    result = cluster.train(name, **{"script": "print('hello')\n", **variables})
    assert result.returncode != 0
    assert message in result.stdout.replace("\\", "")
    assert "Start" not in result.stdout


def test_a_refused_job_leaves_nothing_that_seems_to_start(cluster):
    """The first host has unpacked the code when another host, the controller or the start refuses the job."""
    cluster.hosts[0].ssh("sudo ln -s /usr/bin/python3 /usr/local/bin/python-of-first-host")
    saves = "import os, pathlib, time\npathlib.Path(os.environ['DEEPLEARNING_CHECKPOINT_DIRECTORY'], 'a').touch()\ntime.sleep(600)\n"
    cluster.start("earlier", saves, sync_directory="/home/ubuntu/synced", **COMMAND)
    charge = {"kind": "auto_scaling_group", "key": "workers", "product": "instance", "quantity": 3, "hourly": 3.0}
    price = {"currency": "USD", "charges": [charge], "published": "", "read_at": 0, "problem": ""}
    (cluster.folder / "price.yml").write_text(
        json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [{"set_fact": {"provision_result": {"price": price}}}]}])
    )
    refused = {
        "host": ({"python": "/usr/local/bin/python-of-first-host"}, "does not exist"),
        "start": ({"sync_directory": "/home/ubuntu/synced"}, "job earlier runs in /home/ubuntu/synced"),
        "cost": ({"max_cost": 0.0501, "resume": "earlier"}, "does not pay for a minute"),
    }
    try:
        for name, (variables, message) in refused.items():
            if name == "cost":
                cluster.stop("earlier")
            play = cluster.playbook(name, "print('hello')\n", **{**COMMAND, **variables})
            result = cluster.play(*([str(cluster.folder / "price.yml")] if name == "cost" else []), play)
            assert result.returncode != 0
            assert message in result.stdout.replace("\\", ""), result.stdout
            assert cluster.hosts[0].ssh(f"ls -d /efs/jobs/{name} /efs/jobs/.deleted*", check=False).stdout == ""
    finally:
        cluster.play("deeplearning.cluster.stop", "-e", "training_job_name=earlier")


def test_a_job_that_no_run_has_started_can_be_deleted(cluster):
    description = {"name": "never", "launcher": "command", "script": "train.py", "command": [], "created": time.time() - 300}
    cluster.hosts[0].ssh(f"mkdir -p /efs/jobs/never/status && cat > /efs/jobs/never/job.json <<'END'\n{json.dumps(description)}\nEND\n")
    told = {
        playbook: cluster.play(f"deeplearning.cluster.{playbook}", "-e", "training_job_name=never").stdout.replace("\\", "")
        for playbook in ("stop", "cleanup")
    }
    assert re.search(
        r"no run has started it, run .*deeplearning\.cluster\.cleanup -e training_job_name=never -e cleanup_days=0", told["stop"]
    )
    assert "job 'never' is pending. It was prepared less than 10 minutes ago" in told["cleanup"]
    assert "has no attribute" not in told["cleanup"]
    deleted = cluster.play("deeplearning.cluster.cleanup", "-e", "training_job_name=never", "-e", "cleanup_days=0")
    assert deleted.returncode == 0, deleted.stdout
    assert cluster.hosts[0].ssh("ls -d /efs/jobs/never", check=False).stdout == ""


def test_a_start_that_fails_on_one_host_is_undone_on_the_others(cluster):
    cluster.hosts[2].ssh(
        "sudo touch /run/deeplearning/started.txt && sudo mv -T /run/deeplearning/started /run/deeplearning/kept; "
        "sudo mv -T /run/deeplearning/started.txt /run/deeplearning/started"
    )
    try:
        result = cluster.train("half", "import time\ntime.sleep(600)\n", **COMMAND)
    finally:
        cluster.hosts[2].ssh("sudo rm /run/deeplearning/started && sudo mv -T /run/deeplearning/kept /run/deeplearning/started")
    assert result.returncode != 0
    assert "/run/deeplearning/started" in result.stdout
    assert cluster.processes("/efs/jobs/half/code") == []


# The job seems to be lost: its newest attempt has no records.
HIDES = """
    import json, os, pathlib, time
    status = pathlib.Path(os.environ["DEEPLEARNING_JOB_DIRECTORY"], "status")
    for attempt in (1023, 1024):
        (status / f"attempt{attempt}").mkdir(exist_ok=True)
    decision = {"action": "restart", "rule": "same_hosts", "decided": 1.0}
    (status / "attempt1023" / "next").write_text(json.dumps(decision))
    time.sleep(600)
"""


@pytest.mark.exhaustive
def test_cleanup_deletes_what_has_ended_and_nothing_that_is_needed(cluster):
    writes = """
        import os, pathlib
        for folder in (os.environ["DEEPLEARNING_JOB_DIRECTORY"], os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"], os.getcwd()):
            (pathlib.Path(folder) / "deep" / "er").mkdir(parents=True, exist_ok=True)
            (pathlib.Path(folder) / "deep" / "er" / "file").touch()
    """
    for name, more in (("base", {}), ("upper", {"resume": "base"})):
        trained = cluster.train(name, writes, **more, **COMMAND)
        assert trained.returncode == 0, trained.stdout + trained.stderr
    cluster.start("busy", HIDES, **COMMAND)
    wait_until(lambda: cluster.hosts[0].ssh("ls /efs/jobs/busy/status/attempt1023/next", check=False).returncode == 0)
    every = ["-e", "cleanup_days=0", "-e", "cleanup_keep=0"]
    try:
        refused = cluster.play("deeplearning.cluster.cleanup", "-e", "training_job_name=base")
        assert "the directory of job 'base' contains the checkpoints of upper. Delete upper first." in refused.stdout.replace("\\", "")
        refused = cluster.play("deeplearning.cluster.cleanup", "-e", "training_job_name=busy")
        assert "job 'busy' is running." in refused.stdout.replace("\\", "")
        before = cluster.hosts[0].ssh("ls -a /efs/jobs").stdout
        planned = cluster.play("deeplearning.cluster.cleanup", "--check", "--diff", *every)
        assert planned.returncode == 0, planned.stdout + planned.stderr
        assert "-upper\n-base\n" in planned.stdout
        assert re.search(r"jobs to keep *\n +busy: running\n", planned.stdout)
        assert cluster.hosts[0].ssh("ls -a /efs/jobs").stdout == before
        one = cluster.play("deeplearning.cluster.cleanup", "-e", "training_job_name=upper")
        assert one.returncode == 0, one.stdout + one.stderr
        assert cluster.hosts[0].ssh("ls -d /efs/jobs/base /efs/jobs/upper", check=False).stdout == "/efs/jobs/base\n"
        cleaned = cluster.play("deeplearning.cluster.cleanup", *every)
        assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
        assert cluster.hosts[0].ssh("ls -A /efs/jobs").stdout == ".host-failures\nbusy\n"
        again = cluster.play("deeplearning.cluster.cleanup", *every).stdout
        assert re.search(r"changed=0 ", again)
        assert not re.search(r"changed=[1-9]", again)
    finally:
        cluster.stop("busy")


def test_stale_metadata_is_refused(cluster):
    host = cluster.hosts[2]
    host.ssh('sudo cp /opt/deeplearning/metadata.json /tmp/saved && sudo sed -i \'s/"generation": "/&0/\' /opt/deeplearning/metadata.json')
    try:
        result = cluster.train("stale", "print('hello')\n")
    finally:
        host.ssh("sudo cp /tmp/saved /opt/deeplearning/metadata.json")
    assert result.returncode != 0
    assert "the cluster has changed since" in result.stdout
    assert cluster.hosts[0].ssh("ls /efs/jobs/stale/status", check=False).stdout == ""


@pytest.mark.exhaustive
def test_a_dead_host_is_noticed_and_the_others_are_stopped(cluster):
    playbook = cluster.playbook("dead", "import time\ntime.sleep(600)\n", heartbeat_timeout=15, **COMMAND)
    command = ["ansible-playbook", "-i", str(cluster.inventory), playbook]
    with subprocess.Popen(command, cwd=cluster.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        try:
            wait_until(lambda: len(cluster.processes("python3 /efs/jobs/dead/code")) == 3)
            cluster.runtime.remove(cluster.hosts.pop().name)
            output = run.communicate(timeout=300)[0]
        finally:
            run.kill()  # nothing reads the playbook's output any more
    assert run.returncode != 0
    assert "job dead lost: deeplearning-worker3 does not answer" in " ".join(output.split()), output
    assert cluster.processes("/efs/jobs/dead/code") == []
