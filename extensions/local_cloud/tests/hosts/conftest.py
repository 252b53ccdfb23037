"""Two booted hosts that the tests in this folder share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from local_cloud.hosts.podman_hosts import PodmanHosts
from local_cloud.testing import BareHost, bare_hosts

FILE_SYSTEM = "fs-0123456789abcdef0"
SERVER = f"{FILE_SYSTEM}.efs.us-east-1.amazonaws.com"
USER_DATA = f"""#cloud-config
write_files:
  - path: /etc/written
    content: by cloud-init
mounts:
  - ["{SERVER}:/", /efs, nfs4, "nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport,_netdev,nofail", "0", "0"]
runcmd:
  - echo done > /run/user-data
"""


@dataclass(frozen=True)
class Hosts:
    """Two booted hosts, the `PodmanHosts` that runs them, and their folder."""

    runtime: PodmanHosts
    first: BareHost
    second: BareHost
    folder: Path


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    folder = tmp_path_factory.mktemp("hosts")
    with bare_hosts(folder, 2, USER_DATA.encode()) as (runtime, (first, second)):
        for host in (first, second):
            host.ssh("cloud-init status --wait")
        yield Hosts(runtime, first, second, folder)
