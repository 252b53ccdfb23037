"""Starts, stops, and destroys the local cloud in a home folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Protocol

import boto3

from .credentials import Credentials
from .home import FORMER_NETWORK, NETWORKS, REGION, Home, Setup
from .host_interface import HostInterface, NoHosts
from .hosts import fuse, user_namespace
from .hosts.address_ranges import free_range, used_ranges
from .hosts.podman import Podman
from .hosts.podman_hosts import PodmanHosts
from .image.builder import environment, machine_settings, node_image
from .private_files import CloudError, open_private

KEY_NAME = "local-cloud"
START_TIMEOUT = 180.0
STOP_TIMEOUT = 180.0
Progress = Callable[[str], None]
# In a user's shell, these variables would point AWS tools to other endpoints or accounts.
FOREIGN_VARIABLES = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_CA_BUNDLE")


class Server(Protocol):
    """The process of a server."""

    def poll(self) -> int | None: ...

    def wait(self, timeout: float) -> int: ...


class CloudManager:
    """The local cloud in a home folder, whether it is running or not."""

    def __init__(self, folder: Path, progress: Progress = print) -> None:
        self.home = Home(folder)
        self._progress = progress
        self._server: Server | None = None
        self._clients: dict[tuple[str, ...], Any] = {}

    @property
    def setup(self) -> Setup:
        """Return the options with which the local cloud was last started."""
        return self.home.read_setup()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.setup.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables that point AWS tools to this local cloud."""
        return self.home.environment(self.setup)

    def client(self, service: str, region: str = REGION) -> Any:
        """Return a boto3 client with the administrator's access key. Creating a client takes longer than most API calls."""
        keys, endpoint = self.home.administrator, self.endpoint
        place = (service, region, endpoint, keys.access_key_id)
        if place not in self._clients:
            session = boto3.Session(keys.access_key_id, keys.secret_access_key, region_name=region)
            self._clients[place] = session.client(service, endpoint_url=endpoint)
        return self._clients[place]

    @property
    def is_running(self) -> bool:
        return self.home.server_pid() is not None

    def start(
        self,
        name: str | None = None,
        port: int = 0,
        hosts: bool | None = None,
        environments: Collection[str] = (),
        *,
        new_account: bool = False,
    ) -> bool:
        """Build the image and environments that are missing, and start the server.

        Return False if the server was already running with all of these environments. Options that are not set keep their values from
        the last start. `environments` are added to the environments of earlier starts. With `new_account`, a new local cloud has the quotas
        of a new account. Otherwise, the quotas of the local cloud are practically unlimited. Raises `CloudError`, `PodmanError`, or
        `ValueError` for an unknown environment.
        """
        self.home.prepare()
        missing = set(environments) - set(self.setup.environments)
        if self.is_running and not missing:
            self._wait_for_answer()
            return False
        self.stop()
        setup = self.setup
        setup = replace(setup, name=name or setup.name, port=port or setup.port, hosts=setup.hosts if hosts is None else hosts)
        setup = replace(setup, new_account=new_account or setup.new_account)
        setup = replace(setup, environments={**dict.fromkeys(sorted(missing), ""), **setup.environments})
        if setup.hosts:
            setup = self._with_network(self.prepare_image(setup))
        self.home.write_setup(setup)
        self._progress("starting the API")
        self._launch_server()
        self._import_key_pair()
        return True

    def prepare_image(self, setup: Setup) -> Setup:
        """Build the image and environments of hosts that are missing, and return the setup with all of them."""
        self.home.prepare()
        podman = Podman(self.home.containers_conf)
        podman.write_configuration()
        image = node_image(podman, self._progress)
        possible = podman.configure(image, *user_namespace.OPTIONS)
        folders = {name: str(environment(podman, image, name, self._progress)) for name in setup.environments}
        setup = replace(setup, image=image, environments=folders)
        # Existing files of hosts belong to user IDs that differ with and without a user namespace, so this setting must not change.
        isolated = possible and (setup.user_namespace or not self._has_hosts(setup))
        host_options = list(user_namespace.OPTIONS) if isolated else []
        return replace(setup, user_namespace=isolated, fuse=fuse.works(podman, image, self.home.hosts, host_options))

    def _with_network(self, setup: Setup) -> Setup:
        """Return the setup, with an address range for the VPC. A new local cloud gets an unused range.

        Raises `CloudError` if no range is free.
        """
        if setup.network:
            return setup
        if self.home.state_file.exists():
            return replace(setup, network=FORMER_NETWORK)
        return replace(setup, network=self._free_network())

    def further_network(self) -> str:
        """Return an address range for an additional VPC, different from `LOCAL_CLOUD_NETWORK`. Raises `CloudError` if no range is free."""
        return self._free_network(self.setup.network)

    def _free_network(self, *reserved: str) -> str:
        network = free_range(self.home.networks, [*used_ranges(), *filter(None, reserved)])
        if network is None:
            first, last = NETWORKS[0], NETWORKS[-1]
            raise CloudError(
                f"All address ranges from {first} to {last} are in use on this machine. Stop other local clouds, or disconnect from a VPN."
            )
        return network

    def relaunch(self, environments: Collection[str]) -> list[str]:
        """Terminate the Auto Scaling group instances whose hosts lack at least one of the environments, and return their IDs.

        The groups launch replacement instances that have all of the environments.
        """
        if not self.setup.hosts:
            return []
        lacking = podman_hosts(self.home, self.setup).without(environments)
        members = self.client("autoscaling").describe_auto_scaling_instances()["AutoScalingInstances"]
        ids = sorted(lacking & {each["InstanceId"] for each in members})
        if ids:
            self._progress(f"replacing hosts that were created without {', '.join(environments)}: {', '.join(ids)}")
            self.client("ec2").terminate_instances(InstanceIds=ids)
        return ids

    def _has_hosts(self, setup: Setup) -> bool:
        """Return whether the local cloud has hosts or file systems."""
        containers, _networks = podman_hosts(self.home, setup).labelled()
        return bool(containers) or any(self.home.file_systems.glob("fs-*"))

    def stop(self) -> bool:
        """Stop the server, which saves its state. Hosts keep running. Return False if the server was not running. Raises `CloudError`."""
        pid = self.home.server_pid()
        if pid is None:
            return False
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT
        while self.is_running:
            if time.monotonic() > deadline:
                raise CloudError(
                    f"Timed out after {STOP_TIMEOUT:.0f} s waiting for the server (process {pid}) to stop. See {self.home.log_file}."
                )
            time.sleep(0.05)
        if self._server:
            self._server.wait(STOP_TIMEOUT)
        return True

    def destroy(self) -> None:
        """Stop the server, and remove hosts, networks, file systems, and state."""
        self.stop()
        setup = self.setup
        if setup.image:
            podman_hosts(self.home, setup).remove_all()
        self.home.delete()

    def operator(self, name: str, policies: Sequence[str]) -> Credentials:
        """Return the access key of an IAM user with exactly these policies. Create the user if it does not exist."""
        iam = self.client("iam")
        known = [user["UserName"] for user in iam.list_users()["Users"]]
        if name not in known:
            iam.create_user(UserName=name)
        self._attach(name, policies)
        path = self.home.operators / f"{name}.json"
        keys = Credentials.read(path)
        active = [key["AccessKeyId"] for key in iam.list_access_keys(UserName=name)["AccessKeyMetadata"]]
        if keys is None or keys.access_key_id not in active:
            path.unlink(missing_ok=True)
            made = iam.create_access_key(UserName=name)["AccessKey"]
            keys = Credentials(made["AccessKeyId"], made["SecretAccessKey"])
            keys.write(path)
        return keys

    def _attach(self, name: str, policies: Sequence[str]) -> None:
        iam = self.client("iam")
        for attached in iam.list_attached_user_policies(UserName=name)["AttachedPolicies"]:
            iam.detach_user_policy(UserName=name, PolicyArn=attached["PolicyArn"])
            iam.delete_policy(PolicyArn=attached["PolicyArn"])
        for number, policy in enumerate(policies, start=1):
            arn = iam.create_policy(PolicyName=f"{name}-{number}", PolicyDocument=policy)["Policy"]["Arn"]
            iam.attach_user_policy(UserName=name, PolicyArn=arn)

    def _import_key_pair(self) -> None:
        """Create an SSH key in the home folder, and import it as the account's key pair."""
        if not self.home.key_file.exists():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", KEY_NAME, "-f", str(self.home.key_file)], check=True)
        ec2 = self.client("ec2")
        if not ec2.describe_key_pairs(Filters=[{"Name": "key-name", "Values": [KEY_NAME]}])["KeyPairs"]:
            ec2.import_key_pair(KeyName=KEY_NAME, PublicKeyMaterial=self.home.key_file.with_suffix(".pub").read_bytes())

    def _launch_server(self) -> None:
        with open_private(self.home.log_file, "ab") as log:
            self._server = self._start_process(log)
        self._wait_for_answer(self._server)

    def _start_process(self, log: IO[bytes]) -> Server:
        return subprocess.Popen(
            [sys.executable, "-m", "local_cloud.server", str(self.home.folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=own_environment(),
            start_new_session=True,
        )

    def _wait_for_answer(self, server: Server | None = None) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while not (self.is_running and _answers(self.endpoint)):
            if server and server.poll() is not None:
                last = self.home.log_file.read_text(errors="replace").strip().splitlines()[-1:]
                raise CloudError(f"The server failed to start: {''.join(last)}. See {self.home.log_file}.")
            if time.monotonic() > deadline:
                raise CloudError(f"Timed out after {START_TIMEOUT:.0f} s waiting for the server to respond. See {self.home.log_file}.")
            time.sleep(0.05)


def own_environment() -> dict[str, str]:
    """Return this process's environment variables, without those that point AWS tools to other endpoints or accounts."""
    return {key: value for key, value in os.environ.items() if key not in FOREIGN_VARIABLES}


def select_hosts(home: Home, setup: Setup) -> HostInterface:
    """Return the implementation of hosts that the setup selects."""
    return podman_hosts(home, setup, machine_settings(home.pip_configuration)) if setup.hosts else NoHosts()


def podman_hosts(home: Home, setup: Setup, files: Mapping[str, str] = MappingProxyType({})) -> PodmanHosts:
    """Return the podman hosts of the local cloud. `files` maps files and folders of this machine to their paths on new hosts."""
    environments = {name: Path(folder) for name, folder in setup.environments.items()}
    name, folders = home.cloud_name(setup), (home.hosts, home.file_systems)
    return PodmanHosts(Podman(home.containers_conf), name, setup.image, *folders, environments, setup.user_namespace, setup.fuse, files)


def _answers(endpoint: str) -> bool:
    """Return whether an HTTP server responds."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(f"{endpoint}/_local_cloud/", timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
