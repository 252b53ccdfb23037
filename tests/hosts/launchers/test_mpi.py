"""MPI on two real hosts. Both hosts have a bridge with the same address, like the bridge that Docker creates."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from local_cloud.testing import wait_until

from ..cluster import job_cluster
from .conftest import Endless
from .ranks import CONSIDERATE, is_training

pytestmark = pytest.mark.frameworks

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "from-horovod-stack.md"
WRITES_ARGUMENTS = """
import os, pathlib, sys
file = pathlib.Path(os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"], os.environ["OMPI_COMM_WORLD_RANK"] + ".arguments")
file.write_text(" ".join([os.environ["PYTHONPATH"], *sys.argv[1:]]) + "\\n")
"""
MPI = {"launcher": "mpi", "python": "/opt/horovod/bin/python", "processes_per_host": 2, "environment": CONSIDERATE}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("mpi"), ["horovod"], count=2) as result:
        for host in result.hosts:
            host.ssh("sudo ip link add docker0 type bridge && sudo ip address add 172.17.0.1/16 dev docker0 && sudo ip link set docker0 up")
        yield result


def ranks(log, pattern):
    """Return the text after the pattern in the output of each rank. Rank tags may also be in the middle or at the end of lines."""
    return {int(rank): text for rank, text in re.findall(rf"\[1,(\d+)\]<stdout>:{pattern}(.*?)(?=\[1,\d+\]<|$)", log, re.MULTILINE)}


def test_ranks_talk_to_each_other_on_all_hosts_and_have_their_environment(cluster):
    script = """
        import os, sys
        from mpi4py import MPI
        world = MPI.COMM_WORLD
        assert os.environ["TOKEN"] == "correct-horse-battery"
        print(f"rank on {os.environ['DEEPLEARNING_HOST']} sum {world.allreduce(world.rank)} {sys.argv[1:]}")
        commands = os.popen("ps -eo args").read()
        assert "orted" in commands or "mpirun" in commands
        assert "correct-horse" not in commands
    """
    result = cluster.train("hello", script, arguments=["two words", "$HOME", ""], secrets={"TOKEN": "correct-horse-battery"}, **MPI)
    assert result.returncode == 0, result.stdout + result.stderr
    said = ranks(cluster.read("/efs/jobs/hello/logs/mpirun.log"), "rank on ")
    host = ["deeplearning-worker1", "deeplearning-worker1", "deeplearning-worker2", "deeplearning-worker2"]
    assert said == {rank: f"{host[rank]} sum 6 ['two words', '$HOME', '']" for rank in range(4)}
    assert {process["name"]: process["state"] for process in cluster.info("hello")["processes"]} == {
        "mpirun": "succeeded",
        "orted1": "succeeded",
    }


def test_without_the_choice_of_network_the_bridge_would_stop_it(cluster):
    """The job fails, which shows that the other tests pass only because the launcher selects the network."""
    script = """
        from mpi4py import MPI
        MPI.COMM_WORLD.allreduce(1)
        print("through")
    """
    left_alone = {**CONSIDERATE, "OMPI_MCA_btl_tcp_if_include": "", "OMPI_MCA_oob_tcp_if_include": ""}
    result = cluster.train("bridge", script, time_limit=10, stop_timeout=2, **{**MPI, "environment": left_alone})
    assert "reached its time limit of 10 s" in result.stdout
    assert "through" not in cluster.read("/efs/jobs/bridge/logs/mpirun.log")


def test_a_script_for_torch_learns_the_same_under_mpirun_and_torchrun(cluster):
    script = """
        import gc, os
        import torch
        import torch.distributed as dist
        rank = int(os.environ.get("RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
        world = int(os.environ.get("WORLD_SIZE") or os.environ["OMPI_COMM_WORLD_SIZE"])
        dist.init_process_group("gloo", rank=rank, world_size=world)
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
        model = torch.nn.parallel.DistributedDataParallel(network)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        inputs = torch.randn(64, 8)[rank::world]
        for _ in range(20):
            optimizer.zero_grad()
            loss = (model(inputs)[:, 0] - inputs.prod(1)).square().mean()
            loss.backward()
            optimizer.step()
        dist.all_reduce(loss.detach())
        if rank == 0:
            print(f"loss {loss.item():.9f} of {world}")
        del model
        gc.collect()
        dist.destroy_process_group()
    """
    losses = []
    for launcher, process in (("mpi", "mpirun"), ("torchrun", "rank0")):
        result = cluster.train(f"same-{launcher}", script, **{**MPI, "launcher": launcher, "processes_per_host": 1})
        assert result.returncode == 0, result.stdout + result.stderr
        loss = re.search(r"loss ([\d.]+) of 2", cluster.read(f"/efs/jobs/same-{launcher}/logs/{process}.log"))
        losses.append(float(loss.group(1)))
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)


def test_a_parameter_follows_the_number_of_processes(cluster, tmp_path):
    """The ranks run the script of the guide for users of the Horovod stack. A program that writes its arguments replaces the training."""
    source = tmp_path / "src"
    program = source / "tensorpack" / "examples" / "FasterRCNN" / "train.py"
    program.parent.mkdir(parents=True)
    program.write_text(WRITES_ARGUMENTS)
    (source / "train.sh").write_text(re.search(r"^```bash\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)[1])
    definition = {**MPI, "launcher": "horovod", "source": str(source), "command": ["bash", "train.sh"]}
    result = cluster.train("follows", "", **definition, arguments=["TRAIN.STARTING_EPOCH=11"])
    assert result.returncode == 0, result.stdout + result.stderr
    written = cluster.hosts[0].ssh("cat /efs/jobs/follows/checkpoints/*.arguments").stdout.splitlines()
    assert len(written) == 4
    for arguments in written:
        assert "/tensorpack --logdir /efs/jobs/follows/checkpoints/follows --config " in arguments
        assert arguments.endswith(" TRAIN.STEPS_PER_EPOCH=30000 TRAIN.STARTING_EPOCH=11")


def test_the_rank_that_fails_is_named_with_its_host(cluster):
    script = """
        import os, sys, time
        if os.environ["OMPI_COMM_WORLD_RANK"] == "3":
            sys.exit("the disk of the second host is full")
        time.sleep(600)
    """
    result = cluster.train("fails", script, **MPI)
    assert result.returncode != 0
    assert (
        "job fails failed: mpirun on deeplearning-worker1 ended with exit status 1, because rank 3 ended with exit status 1"
        in result.stdout
    )
    assert "[1,3]<stderr>:the disk of the second host is full" in result.stdout
    assert "rank 3 on deeplearning-worker2 ended with exit status 1" in result.stdout
    assert len(re.findall(r"rank \d on deeplearning-worker\d ended", cluster.read("/efs/jobs/fails/logs/mpirun.log"))) == 1
    shown = cluster.play("deeplearning.cluster.logs", "-e", "training_job_name=fails", "-e", "rank=3").stdout
    lines = re.findall(r"^mpirun +\| (.*)$", shown, re.MULTILINE)
    assert "[1,3]<stderr>:the disk of the second host is full" in lines
    assert all(line.startswith("[1,3]<") for line in lines)
    assert cluster.members("fails") == []


def test_stop_asks_the_ranks_of_all_hosts_to_end(cluster):
    script = """
        import os, pathlib, signal, sys, time
        rank = os.environ["OMPI_COMM_WORLD_RANK"]

        def save(*_):
            pathlib.Path(os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"], rank).touch()
            sys.exit(0)

        signal.signal(signal.SIGTERM, save)
        print("ready", flush=True)
        while True:
            time.sleep(0.1)
    """
    cluster.start("asked", script, **MPI)
    wait_until(lambda: cluster.read("/efs/jobs/asked/logs/mpirun.log").count("ready") == 4)
    cluster.stop("asked")
    assert cluster.hosts[0].ssh("ls /efs/jobs/asked/checkpoints").stdout.split() == ["0", "1", "2", "3"]
    assert cluster.members("asked") == []


def test_an_endless_job_survives_or_ends(cluster, survive):
    script = """
        import time
        from mpi4py import MPI
        while True:
            total = MPI.COMM_WORLD.allreduce(MPI.COMM_WORLD.rank)
            if MPI.COMM_WORLD.rank == 0:
                print(f"sum {total}", flush=True)
            time.sleep(0.1)
    """
    variables = {**MPI, "stop_timeout": 5}
    survive(
        cluster, Endless(script, variables, launcher="orted .*-mca ess", rank="/opt/horovod/bin/python /efs/jobs", training=is_training)
    )
    for host in cluster.hosts:
        assert host.ssh("ls -d /tmp/ompi* /tmp/pmix* /dev/shm/*", check=False).stdout == ""


def test_a_spare_becomes_a_host_of_the_job_after_the_first_host_is_lost(tmp_path):
    """The second host runs mpirun in the next attempt, and starts ranks on the host that was waiting."""
    script = """
        import os, time
        from mpi4py import MPI
        world = MPI.COMM_WORLD
        print(f"rank on {os.environ['DEEPLEARNING_HOST']} sum {world.allreduce(world.rank)}", flush=True)
        time.sleep(600 if os.environ["DEEPLEARNING_ATTEMPT"] == "1" else 0)
    """
    with job_cluster(tmp_path, ["horovod"]) as cluster:
        cluster.start("spare", script, restarts=3, spares=1, heartbeat_timeout=15, **MPI)
        left = cluster.hosts[1]
        wait_until(lambda: left.ssh("grep -c sum /efs/jobs/spare/logs/mpirun.log", check=False).stdout.strip() == "4")
        cluster.runtime.remove(cluster.hosts[0].name)
        wait_until(lambda: '"succeeded"' in left.ssh("cat /efs/jobs/spare/status/attempt2/over", check=False).stdout)
        said = ranks(left.ssh("cat /efs/jobs/spare/logs/attempt2/mpirun.log").stdout, "rank on ")
        host = ["deeplearning-worker2", "deeplearning-worker2", "deeplearning-worker3", "deeplearning-worker3"]
        assert said == {rank: f"{host[rank]} sum 6" for rank in range(4)}
        cluster.hosts.pop(0)
        wait_until(lambda: cluster.members("spare") == [])
