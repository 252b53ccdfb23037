"""Health checks with the real nvidia-smi, driver and kernel log, and jobs that cause errors on the GPU.

The hosts share this machine's kernel log, so each test can see the errors that an earlier test has caused.
"""

from __future__ import annotations

import re

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.attempt_messages import attempt_cause

from .cluster import PYTHON

SETUP = """
    import os
    import torch, torch.distributed as dist
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    dist.barrier()
    bad = dist.get_rank() == 1
"""
# The error in rank 1, and the exception that names it.
ERRORS = {
    "assertion": ("torch.zeros(8, device='cuda')[torch.tensor([99 if bad else 0], device='cuda')].sum().item()", "device-side assert"),
    "memory": ("torch.empty((1 << 40) if bad else 1, device='cuda')", "CUDA out of memory"),
}


def test_a_healthy_gpu_has_no_finding(cluster):
    done = cluster.play("deeplearning.cluster.health")
    assert done.returncode == 0
    assert "All 2 nodes are healthy." in done.stdout
    # Earlier tests can have caused errors that the kernel log contains until this machine boots.
    assert re.findall(r"(?:monitor|restart|reboot|replace)  (?:gpu-\d|all 2 hosts): (?!xid: ).*", done.stdout) == []


def test_a_process_that_uses_the_gpu_but_belongs_to_no_job_is_found(cluster):
    host = cluster.hosts[0]
    code = 'import torch, time; x = torch.ones(1 << 28, device="cuda"); print("ready", flush=True); time.sleep(60)'
    host.ssh(f"setsid --fork {PYTHON} -c '{code}' >/tmp/out 2>&1; for i in $(seq 300); do grep -q ready /tmp/out && break; sleep 0.1; done")
    done = cluster.play("deeplearning.cluster.health")
    host.ssh("pkill -f '[t]ime.sleep'")
    assert re.search(r"python\S* of user ubuntu belongs to no job and uses \d+ MiB", done.stdout)


@pytest.mark.parametrize(("code", "message"), ERRORS.values(), ids=ERRORS)
def test_an_error_on_the_gpu_is_named_stops_the_job_and_excludes_no_node(cluster, request, code, message):
    name = request.node.callspec.id
    done = cluster.train(name, f"{SETUP}    {code}\n    dist.barrier()\n", restarts=3)
    job = cluster.info(name)
    print(cluster.hosts[0].ssh(f"tail -n 15 /efs/jobs/{name}/logs/rank*.log; sudo journalctl --dmesg --no-pager | tail -n 6", check=False))
    assert done.returncode != 0
    # The same error ends the first two attempts, so there is no third.
    assert (job["state"], job["attempt"]) == ("failed", 2)
    assert all("rank 1 on gpu-2" in attempt_cause(attempt) and message in attempt_cause(attempt) for attempt in job["attempts"])
    health = cluster.play("deeplearning.cluster.health").stdout
    assert "All 2 nodes are healthy." in health
    assert name != "assertion" or "Xid 43 (an application was terminated after its own error)" in health
