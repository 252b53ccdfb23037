"""Jobs on two hosts with one GPU each. The ranks exchange gradients with NCCL over the network."""

from __future__ import annotations

import pickle
import re

from ansible_collections.deeplearning.cluster.plugins.plugin_utils.attempt_messages import attempt_cause

# Rank 1 suspends itself in the first attempt.
HANGS = """
    import faulthandler, json, os, signal, time
    import torch, torch.distributed as dist
    faulthandler.register(signal.SIGUSR1)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    for step in range(40):
        if step == 30 and dist.get_rank() == 1 and os.environ["DEEPLEARNING_ATTEMPT"] == "1":
            os.kill(os.getpid(), signal.SIGSTOP)
        total = torch.ones(1, device="cuda")
        dist.all_reduce(total)
        assert total.item() == 2
        if dist.get_rank() == 0:
            with open(os.environ["DEEPLEARNING_PROGRESS"], "a") as file:
                file.write(json.dumps({"step": step + 1, "steps": 40}) + "\\n")
        time.sleep(0.1)
    dist.destroy_process_group()
"""
# Each attempt continues from the newest checkpoint. The first attempt goes on until a host is lost.
ENDLESS = """
    import os, pathlib, time
    import torch, torch.distributed as dist
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, folder = dist.get_rank(), pathlib.Path(os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"])
    first = max((int(path.stem) for path in folder.glob("*.pt")), default=0) + 1
    dist.barrier()
    print(f"rank {rank} of {dist.get_world_size()} begins with epoch {first}", flush=True)
    for epoch in range(first, 10_000 if os.environ["DEEPLEARNING_ATTEMPT"] == "1" else first + 3):
        total = torch.ones(1, device="cuda")
        dist.all_reduce(total)
        if rank == 0:
            torch.save(total.cpu(), folder / f"{epoch}.tmp")
            (folder / f"{epoch}.tmp").rename(folder / f"{epoch}.pt")
        dist.barrier()
        time.sleep(0.1)
    dist.destroy_process_group()
"""
MPI = """
    import os
    import torch
    from mpi4py import MPI
    rank = MPI.COMM_WORLD.Get_rank()
    device = torch.device("cuda", int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]))
    total = MPI.COMM_WORLD.allreduce(torch.full((1,), rank + 1.0, device=device).item())
    print(f"rank {rank} on {os.uname().nodename} has {torch.cuda.device_count()} GPU, sum {total}", flush=True)
"""
COMMAND = """
    import os
    import torch
    print(os.environ["DEEPLEARNING_RANK"], os.environ["DEEPLEARNING_WORKER_GPU_COUNT"], torch.cuda.get_device_name(), flush=True)
"""


def last_epoch(log):
    return re.findall(r"^epoch \d+: .*$", log, re.MULTILINE)[-1]


def test_the_metadata_counts_the_gpus(cluster):
    for host in cluster.hosts:
        assert host.ssh("bash -lc 'echo $DEEPLEARNING_WORKERS_COUNT $DEEPLEARNING_WORKER_GPU_COUNT'").strip() == "2 1"


def test_digits_continues_after_a_rank_is_killed_and_the_model_is_the_same(cluster):
    """The last epoch of the disturbed run has the same metrics as that of the undisturbed run."""
    script = "examples/digits/train.py"
    assert cluster.train("undisturbed", script).returncode == 0
    log = cluster.read("undisturbed/logs/rank0.log")
    assert "rank 0 of 2 on gpu-1 (cuda:0)" in log
    assert float(re.search(r"accuracy ([0-9.]+)$", last_epoch(log))[1]) > 0.95
    assert cluster.train("disturbed", script, wait=False).returncode == 0
    cluster.hosts[1].ssh(
        "for i in $(seq 1500); do ls /efs/jobs/disturbed/checkpoints 2>/dev/null | grep -q epoch && break; sleep 0.02; done;"
        " sudo pkill -KILL -f '[d]isturbed/code.*train.py'"
    )
    assert cluster.train("disturbed", script).returncode == 0  # waits for the job
    job = cluster.info("disturbed")
    assert (job["state"], job["attempt"]) == ("succeeded", 2)
    assert "rank 1 on gpu-2 was killed by signal SIGKILL" in attempt_cause(job["attempts"][0])
    continued = cluster.read("disturbed/logs/attempt2/rank0.log")
    assert "rank 0: continues after epoch " in continued
    assert last_epoch(continued) == last_epoch(log)


def test_the_launchers_give_each_rank_a_gpu(cluster):
    assert cluster.train("command", COMMAND, launcher="command").returncode == 0
    for rank in (0, 1):
        assert re.match(rf"{rank} 1 NVIDIA ", cluster.read(f"command/logs/rank{rank}.log"))


def test_jax_trains_on_both_hosts(cluster):
    # The hosts share the GPU, so neither may reserve most of its memory.
    shared = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    assert cluster.train("jax", "examples/regression/jax_train.py", launcher="jax", environment=shared).returncode == 0
    for rank, host in enumerate(cluster.hosts):
        assert f"rank {rank} of 2 on {host.name}: starts from the beginning\nweights 1.0 -2.0 3.0" in cluster.read(
            f"jax/logs/rank{rank}.log"
        )


def test_mpi_runs_a_rank_on_each_gpu(cluster):
    assert cluster.train("mpi", MPI, launcher="mpi").returncode == 0
    log = cluster.read("mpi/logs/mpirun.log")
    for rank, host in enumerate(cluster.hosts):
        assert f"rank {rank} on {host.name} has 1 GPU, sum 3.0" in log


def test_all_reduce_measures_nccl(cluster):
    done = cluster.play("deeplearning.cluster.all_reduce")
    assert done.returncode == 0
    assert re.search(r"all 2 nodes: [0-9.]+ Gbit/s", done.stdout)


def test_a_suspended_rank_is_named_and_the_flight_recorder_is_kept(cluster):
    done = cluster.train("hangs", HANGS, restarts=3, hang_steps=3, hang_minimum=0)
    job = cluster.info("hangs")
    print(cluster.hosts[0].ssh("ls -l /efs/jobs/hangs/logs/stacks; cat /efs/jobs/hangs/logs/stacks/rank0.txt", check=False))
    assert done.returncode == 0
    assert (job["state"], job["attempt"]) == ("succeeded", 2)
    cause = attempt_cause(job["attempts"][0])
    assert cause.startswith("rank 1 on gpu-2 made no progress for "), cause
    assert "it is suspended" in cause
    recording = pickle.loads((cluster.storage / "jobs/hangs/logs/stacks/flight_recorder_rank0").read_bytes())
    assert any("all_reduce" in entry["profiling_name"] for entry in recording["entries"])


def test_a_job_goes_on_without_a_lost_host(own_cluster):
    """The other ranks wait in NCCL for the lost host. The next attempt continues from the checkpoint with two hosts."""
    options = {"restarts": 3, "min_hosts": 2, "heartbeat_timeout": 15}
    assert own_cluster.train("smaller", ENDLESS, wait=False, **options).returncode == 0
    first = own_cluster.hosts[0]
    first.ssh("for i in $(seq 300); do test -e /efs/jobs/smaller/checkpoints/3.pt && break; sleep 0.1; done")
    own_cluster.hosts[1].kill()
    first.ssh("for i in $(seq 500); do grep -qs succeeded /efs/jobs/smaller/status/attempt2/over && break; sleep 0.1; done")
    print(first.ssh("tail -n 20 /efs/jobs/smaller/logs/*.log /efs/jobs/smaller/logs/attempt2/*.log", check=False))
    job = own_cluster.info("smaller")
    assert (job["state"], job["attempt"]) == ("succeeded", 2)
    assert "gpu-2" in attempt_cause(job["attempts"][0])
    begin = re.search(r"rank 0 of 2 begins with epoch (\d+)", own_cluster.read("smaller/logs/attempt2/rank0.log"))
    assert begin is not None
    assert int(begin[1]) > 3
