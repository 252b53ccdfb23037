"""The folder of one cloud: what is where, what is remembered, and the names derived from it."""

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
    """Where the cloud lives when nobody says where."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return Path(os.environ.get("LOCAL_CLOUD_HOME") or state / "deeplearning-local-cloud")


DEFAULT_ENVIRONMENT = "pytorch"


@dataclass(frozen=True)
class Setup:
    """How a cloud was started, so that it starts the same way again."""

    name: str = "local-cloud"
    port: int = 0
    """Of the API on 127.0.0.1; 0 before the first start."""
    hosts: bool = True
    image: str = ""
    environments: dict[str, str] = field(default_factory=lambda: {DEFAULT_ENVIRONMENT: ""})
    """By name, the folder that hosts see as /opt/<name>; empty before it is built."""
    user_namespace: bool = False
    """Whether root of a host is an ordinary user of this machine."""


class Home:
    """Paths and names of one cloud. Two clouds with different folders share neither containers nor networks nor addresses."""

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
        """Access keys of users that `operator` made."""
        self.ssh = self.folder / "ssh"
        """For what inventories of this cloud keep about its hosts."""
        self.hosts = self.folder / "hosts"
        self.file_systems = self.folder / "file-systems"
        self._digest = hashlib.sha256(str(self.folder).encode()).digest()

    def cloud_name(self, setup: Setup) -> str:
        """What containers and networks of this cloud are labelled with."""
        return f"{setup.name}-{self._digest.hex()[:8]}"

    @property
    def public_prefix(self) -> str:
        """Public addresses of this cloud's instances: one of 1024 parts of 127.64.0.0/10, 4096 addresses each."""
        return f"127.{64 + self._digest[0] % 64}.{self._digest[1] & 0xF0}.0/20"

    def read_setup(self) -> Setup:
        """The remembered set-up, or the default one. Raises ForeignFile."""
        if self.folder.exists():
            check_owner(self.folder.stat(), self.folder)
        try:
            return Setup(**json.loads(self.setup_file.read_text()))
        except FileNotFoundError:
            return Setup()

    def prepare(self) -> None:
        """Make the folder, for its owner alone, and close up one of before. Raises ForeignFile."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_owner(self.folder.stat(), self.folder)
        self.folder.chmod(0o700)
        secrets_of_it = (self.administrator_file, self.token_file)
        for file in (*secrets_of_it, self.setup_file, self.state_file, self.log_file, self.lock_file, self.containers_conf):
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
        """The access key of who may do everything in this cloud, made when it is asked for the first time."""
        known = Credentials.read(self.administrator_file)
        if known is None:
            Credentials().write(self.administrator_file)
        return known or self.administrator

    def control_token(self) -> str:
        """What the control API of this cloud asks for, made on first use."""
        try:
            with open_private(self.token_file, "x") as file:
                file.write(secrets.token_urlsafe(40) + "\n")
        except FileExistsError:
            pass
        return self.token_file.read_text().strip()

    def server_pid(self) -> int | None:
        """Process id of the server, None when none runs."""
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
        """Be the one server of this cloud. Raises BlockingIOError when there is another one."""
        with open_private(self.lock_file, "a+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def environment(self, setup: Setup) -> dict[str, str]:
        """What makes AWS tools talk to this cloud."""
        bypass = [*filter(None, os.environ.get("NO_PROXY", os.environ.get("no_proxy", "")).split(",")), "127.0.0.1"]
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{setup.port}",
            **self.administrator.environment,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": ",".join(dict.fromkeys(bypass)),
            "LOCAL_CLOUD_HOME": str(self.folder),
        }

    def delete(self) -> None:
        """Delete what belongs to the cloud, and the folder when nothing else is in it."""
        for folder in (self.hosts, self.file_systems, self.ssh, self.operators):
            remove_as_root(folder)
        keys = (self.key_file, self.key_file.with_suffix(".pub"))
        secrets_of_it = (*keys, self.administrator_file, self.token_file)
        for file in (*secrets_of_it, self.setup_file, self.state_file, self.log_file, self.lock_file, self.containers_conf):
            file.unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()
