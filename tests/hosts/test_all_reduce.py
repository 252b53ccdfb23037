"""The playbook that measures all-reduce names the host whose network is slow."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from .cluster import job_cluster

pytestmark = pytest.mark.exhaustive

PYTHON = "/opt/pytorch/bin/python"

# The host drops received packets beyond this rate, so TCP slows down in both directions. SSH has no limit.
TABLE = "inet slow"
RULES = "tcp dport 22 accept; tcp sport 22 accept; iif lo accept; limit rate over 2 mbytes/second drop;"
LIMIT = f'nft "table {TABLE} {{ chain input {{ type filter hook input priority 0; policy accept; {RULES} }}; }}"'

# The machine also runs other tests, which slow down single hosts.
OPTIONS = {"all_reduce_megabytes": 4, "all_reduce_share": 0.1}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("all-reduce"), ["pytorch"]) as result:
        yield result


def measure(cluster, **variables):
    """Run the playbook. Return the completed process, and the bandwidths in Gbit/s by pair."""
    # Variables of the user's own jobs do not apply to the measurement.
    own = {"training_job_name": "own", "training_job_script": "own.py", "training_job_restarts": 3, "training_job_hang_timeout": 60}
    cluster.inventory.write_text(json.dumps(with_variables(cluster.describe(), own)))
    done = cluster.play("deeplearning.cluster.all_reduce", "-e", json.dumps({**OPTIONS, **variables}))
    found = re.findall(r"(deeplearning-worker\d) and (deeplearning-worker\d): ([\d.e+-]+) Gbit/s", done.stdout)
    return done, {(first, second): float(rate) for first, second, rate in found}


def with_variables(inventory, variables):
    inventory["trainers"]["vars"].update(variables)
    return inventory


def test_hosts_with_equal_networks_pass_and_a_minimum_can_be_set(cluster):
    done, found = measure(cluster)
    assert done.returncode == 0, done.stdout + done.stderr
    names = [worker["name"] for worker in cluster.workers]
    assert sorted(found) == [(names[0], names[1]), (names[0], names[2]), (names[1], names[2])]
    assert "all 3 nodes: " in done.stdout
    done, _found = measure(cluster, all_reduce_minimum=1e6)
    assert done.returncode != 0
    assert re.search(
        r"deeplearning-worker1: all-reduce reaches [\d.]+ Gbit/s, less than the minimum of 1e\+06 Gbit/s\.", " ".join(done.stdout.split())
    )


@pytest.mark.parametrize("fault", ["import time; time.sleep(3600)", "raise RuntimeError('no EFA provider')"], ids=["blocks", "fails"])
def test_a_host_whose_all_reduce_fails_is_named(cluster, fault):
    """A change in PyTorch on one host stands in for NCCL or an adapter that does not work."""
    path = cluster.hosts[1].ssh(f"{PYTHON} -c 'import torch.distributed as d; print(d.distributed_c10d.__file__)'").stdout.strip()
    broken = f"\ndef all_reduce(*_arguments, **_options):\n    {fault}\n"
    copy = f"sudo cp {path} /root/broken.py && printf %s {shlex.quote(broken)} | sudo tee -a /root/broken.py >/dev/null"
    cluster.hosts[1].ssh(f"{copy} && sudo mount --bind /root/broken.py {path}")
    try:
        done, found = measure(cluster, all_reduce_timeout=5)
    finally:
        cluster.hosts[1].ssh(f"sudo umount {path}")
    told = " ".join(done.stdout.split())
    assert done.returncode != 0, told
    failed = "all-reduce with each other node failed or took longer than 5 s."
    assert re.findall(rf"(deeplearning-worker\d): {failed}", told)[-1:] == ["deeplearning-worker2"], told
    assert "deeplearning-worker1: all-reduce" not in told
    assert {pair for pair, rate in found.items() if rate} == {("deeplearning-worker1", "deeplearning-worker3")}


def test_a_host_with_a_slow_network_is_named(cluster):
    cluster.hosts[1].ssh(f"sudo sh -c '{LIMIT}'")
    try:
        done, found = measure(cluster)
    finally:
        cluster.hosts[1].ssh(f"sudo nft delete table {TABLE}")
    told = " ".join(done.stdout.split())
    assert done.returncode != 0, told
    assert set(re.findall(r"(deeplearning-worker\d): all-reduce reaches", told)) == {"deeplearning-worker2"}, found
    assert min(found, key=found.get) != ("deeplearning-worker1", "deeplearning-worker3")
