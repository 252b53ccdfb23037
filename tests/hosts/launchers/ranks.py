"""Ranks under mpirun that share their cores with other hosts, and whether they train."""

from __future__ import annotations

from local_cloud.testing import wait_until

# Ranks that wait for others look for messages all the time: here they share their cores with other hosts.
CONSIDERATE = {"OMPI_MCA_mpi_yield_when_idle": "1"}


def is_training(cluster, name):
    """Whether the sums of all ranks go on."""

    def size():
        return int(cluster.hosts[0].ssh(f"stat -c %s /efs/jobs/{name}/logs/mpirun.log", check=False).stdout or 0)

    before = size()
    wait_until(lambda: size() > before)
    return "[1,0]<stdout>:sum 6" in cluster.read(f"/efs/jobs/{name}/logs/mpirun.log")
