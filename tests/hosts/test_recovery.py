"""Jobs that are restarted on three real hosts, one of which is lost. Each test loses a host, so each test has its own hosts."""

from __future__ import annotations

import pytest
from local_cloud.testing import wait_until

from .cluster import job_cluster

pytestmark = pytest.mark.exhaustive

# Each attempt continues after the newest checkpoint. The first one waits, so that a host can be lost.
SCRIPT = """
    import os, pathlib, time
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    rank, folder = dist.get_rank(), pathlib.Path(os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"])
    first = max((int(path.stem) for path in folder.glob("*.pt")), default=0) + 1
    dist.barrier()
    print(f"rank {rank} of {dist.get_world_size()} begins with epoch {first}", flush=True)
    for epoch in range(first, 10_000 if os.environ["DEEPLEARNING_ATTEMPT"] == "1" else first + 3):
        total = torch.ones(1)
        dist.all_reduce(total)
        if rank == 0:
            torch.save(total, folder / f"{epoch}.tmp")
            (folder / f"{epoch}.tmp").rename(folder / f"{epoch}.pt")
        dist.barrier()
        time.sleep(0.2)
    dist.destroy_process_group()
"""


@pytest.fixture
def cluster(tmp_path):
    with job_cluster(tmp_path, ["pytorch"]) as result:
        yield result


@pytest.mark.parametrize("lost", [0, 2], ids=["the first host", "the last host"])
def test_a_job_goes_on_without_a_host_and_without_the_controller(cluster, lost):
    cluster.start("smaller", SCRIPT, restarts=3, min_hosts=2, heartbeat_timeout=15)
    left = cluster.hosts[1]
    wait_until(lambda: "3.pt" in left.ssh("ls /efs/jobs/smaller/checkpoints", check=False).stdout)
    cluster.runtime.remove(cluster.hosts[lost].name)

    def log(name):
        return left.ssh(f"cat /efs/jobs/smaller/{name}", check=False).stdout

    wait_until(lambda: '"succeeded"' in log("status/attempt2/over"))
    hosts = [worker["name"] for number, worker in enumerate(cluster.workers) if number != lost]
    for rank, host in enumerate(hosts):
        assert f"rank {rank} of 2 begins with epoch " in log(f"logs/attempt2/rank{rank}.log")
        assert "begins with epoch 1\n" not in log(f"logs/attempt2/rank{rank}.log")
        assert f'"host": "{host}"' in log(f"status/attempt2/rank{rank}.json")
    assert f"The job continues without {cluster.workers[lost]['name']}." in log("status/next")
    cluster.hosts.pop(lost)
    wait_until(lambda: cluster.processes("/efs/jobs/smaller/code") == [])
