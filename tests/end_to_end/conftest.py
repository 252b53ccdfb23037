"""A local cloud with real hosts for the whole test session. The tests use the local cloud through commands, as users do."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import ansible_commands
import permissions
import pytest
from local_cloud.testing import LocalCloud, unused_range

REPOSITORY = Path(__file__).resolve().parents[2]
INVENTORY = REPOSITORY / "inventory" / "local"
# The definition of a small cluster that the tests use with inventories of their own.
DEFINITION = {
    "deeplearning_instance_type": "c5.large",
    "deeplearning_worker_count": 1,
    "deeplearning_image_parameter": "/aws/service/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.7-ubuntu-22.04/latest/ami-id",
    "deeplearning_key_name": "local-cloud",
    "deeplearning_ssh_cidrs": ["203.0.113.0/24"],
}


@dataclass(frozen=True)
class Finished:
    """The exit status and output of a playbook run, and its recap by host."""

    status: int
    output: str

    @property
    def recap(self) -> dict[str, dict[str, int]]:
        lines = re.findall(r"^(\S+)\s+: (ok=.*)$", self.output, re.MULTILINE)
        return {host: {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", counts)} for host, counts in lines}


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A local cloud with hosts that have the AWS CLI."""
    with LocalCloud(tmp_path_factory.mktemp("cloud"), environments=["aws-cli"]) as started:
        yield started


@pytest.fixture(scope="module", autouse=True)
def _no_faults_and_the_real_time_afterwards(cloud: LocalCloud) -> Iterator[None]:
    yield
    cloud.control.reset()


@pytest.fixture(scope="session")
def network() -> Iterator[str]:
    """The CIDR range of the cluster `demo`."""
    with unused_range() as cidr:
        yield cidr


@pytest.fixture(scope="session")
def operator(cloud: LocalCloud) -> Callable[..., dict[str, str]]:
    """Return a function that returns the environment of a user who has only the given playbooks' policies for a cluster."""

    def login(playbooks: str, cluster: str, adopted: tuple[str, ...] = ()) -> dict[str, str]:
        policies = [policy for name in playbooks.split("+") for policy in permissions.policies(name, cluster, adopted)]
        return cloud.operator(f"{cluster}-{playbooks}", *policies)

    return functools.cache(login)


@pytest.fixture(scope="session")
def command(network: str) -> Callable[..., list[str]]:
    """Return the command that runs one of the collection's playbooks with the inventory of `make train`."""

    def command(name: str, *arguments: str) -> list[str]:
        path, cidr = REPOSITORY / "playbooks" / name, f"deeplearning_network_cidr={network}"
        return ["ansible-playbook", "-i", str(INVENTORY), str(path), "-e", cidr, *arguments]

    return command


@pytest.fixture(scope="session")
def playbook(operator: Callable[..., dict[str, str]], command: Callable[..., list[str]]) -> Callable[..., Finished]:
    """Run one of the collection's playbooks, by default as an operator who has only the playbook's policies.

    `settings` are more environment variables.
    """

    def run(
        name: str,
        *arguments: str,
        status: int | None = 0,
        callback: str | None = None,
        policies: str = "",
        settings: Mapping[str, str] | None = None,
    ) -> Finished:
        environment = {**operator(policies or Path(name).stem, "demo"), **(settings or {})}
        if callback:
            environment["ANSIBLE_STDOUT_CALLBACK"] = callback
        finished = ansible_commands.run(command(name, *arguments), environment, REPOSITORY, merged=True)
        assert status is None or finished.returncode == status, finished.stdout
        return Finished(finished.returncode, finished.stdout)

    return run


@pytest.fixture(scope="session")
def on_master(cloud: LocalCloud) -> Callable[[str], str]:
    """Run a command in a login shell on the master and return what it prints."""

    def run(command: str) -> str:
        home = Path(cloud.environment["LOCAL_CLOUD_HOME"])
        ssh = ["ssh", "-F", str(home / "ssh" / "demo" / "config"), "-i", str(home / "id_ed25519"), "demo-master", "bash -ls"]
        finished = subprocess.run(ssh, input=command, capture_output=True, text=True, check=False)
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    return run
