"""The home folder of a local cloud: its files, its setup, and the names derived from its path."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .credentials import Credentials
from .hosts.podman import remove_as_root
from .private_files import check_owner, open_private

REGION = "us-east-1"


def default_home() -> Path:
    """Return the default home folder."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return Path(os.environ.get("LOCAL_CLOUD_HOME") or state / "deeplearning-local-cloud")


DEFAULT_ENVIRONMENT = "pytorch"
# The VPC range of local clouds that were first started before each local cloud chose its own range. The range of an existing VPC cannot
# change.
FORMER_NETWORK = "10.97.0.0/16"
NETWORKS = tuple(f"10.{number}.0.0/16" for number in range(40, 97))


@dataclass(frozen=True)
class Setup:
    """The options with which the local cloud was last started. The next start uses them."""

    name: str = "local-cloud"
    # Port of the API on 127.0.0.1, or 0 before the first start.
    port: int = 0
    hosts: bool = True
    image: str = ""
    # Folders that hosts see as /opt/<name>, by name. A path is empty until the environment is built.
    environments: dict[str, str] = field(default_factory=lambda: {DEFAULT_ENVIRONMENT: ""})
    # Whether hosts run in a user namespace, in which root is an ordinary user of this machine.
    user_namespace: bool = False
    # Whether programs on hosts can mount FUSE file systems, such as buckets.
    fuse: bool = False
    # Whether the local cloud had the quotas of a new account when it was first started.
    new_account: bool = False
    # An address range for a VPC. Nothing else on this machine used the range when the local cloud was first started with hosts.
    network: str = ""


class Home:
    """Paths and names of one local cloud. Local clouds with different home folders do not share containers, networks, or addresses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.expanduser().resolve()
        self.setup_file = self.folder / "setup.json"
        self.state_file = self.folder / "state.pickle"
        self.log_file = self.folder / "server.log"
        self.lock_file = self.folder / "server.lock"
        self.token_file = self.folder / "control-token"
        self.containers_conf = self.folder / "containers.conf"
        self.key_file = self.folder / "id_ed25519"
        self.administrator_file = self.folder / "administrator.json"
        self.operators = self.folder / "operators"
        """Access keys of IAM users that `operator` created."""
        self.ssh = self.folder / "ssh"
        """SSH files that the inventories of this local cloud use."""
        self.hosts = self.folder / "hosts"
        # The settings of pip on hosts.
        self.pip_configuration = self.folder / "pip.conf"
        self.file_systems = self.folder / "file-systems"
        self._digest = hashlib.sha256(str(self.folder).encode()).digest()

    def cloud_name(self, setup: Setup) -> str:
        """Return the label of the local cloud's containers and networks."""
        return f"{setup.name}-{self._digest.hex()[:8]}"

    @property
    def public_prefix(self) -> str:
        """Return the range of public addresses: one of 1024 parts of 127.64.0.0/10 with 4096 addresses each."""
        return f"127.{64 + self._digest[0] % 64}.{self._digest[1] & 0xF0}.0/20"

    @property
    def networks(self) -> list[str]:
        """Return candidate address ranges for a VPC.

        The order of the ranges differs between local clouds, so that local clouds that start together rarely choose the same range.
        """
        first = self._digest[2] % len(NETWORKS)
        return [*NETWORKS[first:], *NETWORKS[:first]]

    def read_setup(self) -> Setup:
        """Return the setup of the last start, or the default setup. Raises `ForeignFile`."""
        if self.folder.exists():
            check_owner(self.folder.stat(), self.folder)
        try:
            return Setup(**json.loads(self.setup_file.read_text()))
        except FileNotFoundError:
            return Setup()

    def prepare(self) -> None:
        """Create the folder, and restrict it and its files to their owner. Raises `ForeignFile`."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_owner(self.folder.stat(), self.folder)
        self.folder.chmod(0o700)
        secret_files = (self.administrator_file, self.token_file)
        for file in (
            *secret_files,
            self.setup_file,
            self.state_file,
            self.log_file,
            self.lock_file,
            self.containers_conf,
            self.pip_configuration,
        ):
            if file.exists():
                check_owner(file.stat(), file)
                file.chmod(0o600)

    def write_setup(self, setup: Setup) -> None:
        self.prepare()
        unfinished = self.setup_file.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        with open_private(unfinished, "x") as file:
            file.write(json.dumps(asdict(setup), indent=1) + "\n")
        unfinished.replace(self.setup_file)

    @property
    def administrator(self) -> Credentials:
        """Return the access key of the administrator, which is created on first use."""
        known = Credentials.read(self.administrator_file)
        if known is None:
            Credentials().write(self.administrator_file)
        return known or self.administrator

    def control_token(self) -> str:
        """Return the token that signs requests to the control API. The token is created on first use."""
        try:
            with open_private(self.token_file, "x") as file:
                file.write(secrets.token_urlsafe(40) + "\n")
        except FileExistsError:
            pass
        return self.token_file.read_text().strip()

    def server_pid(self) -> int | None:
        """Return the process ID of the server, or None if the server is not running."""
        try:
            with self.lock_file.open() as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return int(lock.read() or 0) or None
        except FileNotFoundError:
            pass
        return None

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Hold the lock of the server process. Raises `BlockingIOError` if another server is running."""
        with open_private(self.lock_file, "a+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def environment(self, setup: Setup) -> dict[str, str]:
        """Return the environment variables that point AWS tools to this local cloud."""
        bypass = [*filter(None, os.environ.get("NO_PROXY", os.environ.get("no_proxy", "")).split(",")), "127.0.0.1"]
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{setup.port}",
            **self.administrator.environment,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": ",".join(dict.fromkeys(bypass)),
            "LOCAL_CLOUD_HOME": str(self.folder),
            **({"LOCAL_CLOUD_NETWORK": setup.network} if setup.network else {}),
        }

    def delete(self) -> None:
        """Delete the files of the local cloud, and the folder if it is empty."""
        for folder in (self.hosts, self.file_systems, self.ssh, self.operators):
            remove_as_root(folder)
        keys = (self.key_file, self.key_file.with_suffix(".pub"))
        secret_files = (*keys, self.administrator_file, self.token_file)
        for file in (*secret_files, self.setup_file, self.state_file, self.log_file, self.lock_file, self.containers_conf):
            file.unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()
