"""Settings for mpirun ranks that share processor cores with the ranks on other hosts, and a check that the ranks are training."""

from __future__ import annotations

from local_cloud.testing import wait_until

# Waiting ranks poll for messages. With this setting, they yield the cores, which ranks on other hosts share in these tests.
CONSIDERATE = {"OMPI_MCA_mpi_yield_when_idle": "1"}


def is_training(cluster, name):
    """Wait until the log of mpirun grows, and return whether it contains a sum that rank 0 printed."""

    def size():
        return int(cluster.hosts[0].ssh(f"stat -c %s /efs/jobs/{name}/logs/mpirun.log", check=False).stdout or 0)

    before = size()
    wait_until(lambda: size() > before)
    return "[1,0]<stdout>:sum 6" in cluster.read(f"/efs/jobs/{name}/logs/mpirun.log")
