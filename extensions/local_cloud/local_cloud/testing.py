"""Functions and classes that provide local clouds and hosts for tests."""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import ipaddress
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from .aws.capacity import Limits
from .control_signature import signature
from .home import REGION
from .host_interface import HostSpec
from .hosts import fuse, user_namespace
from .hosts.address_ranges import overlaps, used_ranges
from .hosts.podman import Podman
from .hosts.podman_hosts import PodmanHosts
from .image.builder import environment, node_image
from .manager import CloudManager, Server, own_environment
from .private_files import CloudError

if TYPE_CHECKING:
    from .server_template import Request

# CIDR ranges for the VPCs of tests. Bare hosts and `make train` use different ranges.
RANGES = tuple(f"10.{number}.0.0/16" for number in range(100, 200))
Result = TypeVar("Result")


@dataclass(frozen=True)
class BareHost:
    """A booted host without an instance."""

    name: str
    private_ip: str
    public_ip: str
    key_file: Path
    user: str = "ubuntu"

    def spec(self, user_data: bytes = b"") -> HostSpec:
        """Return the specification of the host, in a network with a /24 range."""
        network = ipaddress.ip_network(f"{self.private_ip}/24", strict=False)
        return HostSpec(
            instance_id=self.name,
            network=f"vpc-{self.name[2:10]}",
            network_cidr=str(network),
            private_ip=self.private_ip,
            public_ip=self.public_ip,
            hostname="ip-" + self.private_ip.replace(".", "-"),
            user_data=user_data,
            public_keys=(self.key_file.with_suffix(".pub").read_text().strip(),),
            image_id="ami-00000000000000000",
            instance_type="p4d.24xlarge",
            zone="us-east-1a",
            region="us-east-1",
        )

    def ssh(self, command: str, *, check: bool = True, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a shell command on the host as its login user."""
        options = ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "ConnectTimeout=60"]
        argv = ["ssh", "-i", str(self.key_file), *(f"-o{option}" for option in options), f"{self.user}@{self.private_ip}", command]
        return subprocess.run(argv, capture_output=True, text=True, check=check, timeout=timeout)


@contextmanager
def bare_hosts(
    folder: Path, count: int = 1, user_data: bytes = b"", environments: Collection[str] = (), *, with_fuse: bool = False
) -> Iterator[tuple[PodmanHosts, list[BareHost]]]:
    """Boot hosts without an AWS API. `folder` contains the hosts' files and determines the hosts' network: use a new folder each time.

    Without user data, the hosts do not run cloud-init, which takes most of the processor time of a boot.
    With `with_fuse`, the hosts have the device /dev/fuse, unless this machine forbids the use of FUSE in containers.
    """
    digest = hashlib.sha256(str(folder.resolve()).encode()).digest()
    key = folder / "id_ed25519"
    if not key.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    podman_hosts = bare_podman_hosts(folder, environments, with_fuse=with_fuse, with_cloud_init=bool(user_data))
    hosts = [
        BareHost(
            f"i-{digest.hex()[:12]}{number:05x}",
            f"10.{200 + digest[0] % 50}.{digest[1]}.{10 + number}",
            f"127.{40 + digest[0] % 20}.{digest[1]}.{digest[2] % 12 * 20 + number}",  # for at most 20 hosts
            key,
        )
        for number in range(1, count + 1)
    ]
    try:
        for host in hosts:
            podman_hosts.start(host.spec(user_data))
        wait_until(lambda: all(podman_hosts.is_booted(host.name) for host in hosts))
        yield podman_hosts, hosts
    finally:
        podman_hosts.remove_all()


@contextmanager
def unused_range() -> Iterator[str]:
    """Claim a CIDR range for the VPC of a test. Nothing else on this machine uses the range, not even another running test.

    Containers of two VPCs with the same range cannot run on one machine.
    """
    claims = Path(tempfile.gettempdir(), f"local-cloud-ranges-{os.getuid()}")
    claims.mkdir(mode=0o700, exist_ok=True)
    for candidate in RANGES:
        with (claims / candidate.replace("/", "-")).open("w") as claim:
            try:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if not overlaps(candidate, used_ranges()):
                yield candidate
                return
    raise RuntimeError(
        f"All address ranges for tests are in use, {RANGES[0]} to {RANGES[-1]}. End other tests, or run `podman network prune`."
    )


def bare_podman_hosts(
    folder: Path, environments: Collection[str] = (), *, with_fuse: bool = False, with_cloud_init: bool = True
) -> PodmanHosts:
    """Return the `PodmanHosts` of the bare hosts whose files are in `folder`."""
    podman = Podman(folder / "containers.conf")
    podman.write_configuration()
    image = node_image(podman)
    isolated = podman.configure(image, *user_namespace.OPTIONS)
    places = {each: environment(podman, image, each) for each in environments}
    name = "bare-" + hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]
    has_fuse = with_fuse and fuse.works(podman, image, folder / "hosts", list(user_namespace.OPTIONS) if isolated else [])
    disabled = folder / "cloud-init.disabled"
    disabled.touch()
    files = {} if with_cloud_init else {str(disabled): f"/etc/cloud/{disabled.name}"}
    return PodmanHosts(podman, name, image, folder / "hosts", folder / "file-systems", places, isolated, has_fuse, files)


class Control:
    """A client of the control API."""

    def __init__(self, endpoint: str, token: str) -> None:
        self._endpoint, self._token = endpoint, token
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def set_capacity(self, limits: Limits) -> None:
        """Set limits on live instances.

        Use `{type: {zone: limit}}` for On-Demand Instances, or `{type: {zone: {"on-demand": limit, "spot": limit}}}`. None removes a
        limit. Instances in Capacity Reservations are not counted.
        """
        self._ask("PUT", "capacity", limits)

    def set_spot_prices(self, prices: dict[str, float | None]) -> None:
        """Set prices in dollars per hour by instance type. None restores the default."""
        self._ask("PUT", "prices", prices)

    def cost(self, region: str) -> dict[str, float]:
        """Return the cost of what exists in a region, in dollars per hour by kind. Data and requests are not included."""
        return dict(self._ask("POST", "cost", {"region": region}))

    def set_quotas(self, values: dict[str, float | None]) -> None:
        """Set quotas by code, such as L-417A185B for vCPUs of P instances. None restores the default, which is unlimited."""
        self._ask("PUT", "quotas", values)

    def fail_launches(self, counts: dict[str, int]) -> None:
        """Make the next launches fail while they are pending. `counts` contains the number of failures by instance type."""
        self._ask("PUT", "failing", counts)

    def kill(self, instance: str) -> None:
        """Terminate an instance as if its hardware had failed."""
        self._ask("POST", "kill", {"instance": instance})

    def interrupt(self, instance: str, notice: float = 0.0) -> None:
        """Interrupt a Spot Instance, `notice` seconds after its metadata has announced the interruption."""
        self._ask("POST", "interrupt", {"instance": instance, "notice": notice})

    def suspend(self, group: str, process: str) -> None:
        """Suspend a process of an Auto Scaling group as AWS does after a day of failed launches."""
        self._ask("POST", "suspend", {"group": group, "process": process})

    def enable_guardduty(self) -> None:
        """Let GuardDuty Runtime Monitoring add an endpoint and a security group to the VPC of each new instance."""
        self._ask("PUT", "guardduty", True)

    def read_stale_parameters(self) -> None:
        """Let the first GetParameter after each PutParameter return the previous state. Parameter Store is eventually consistent."""
        self._ask("PUT", "stale_parameters", True)

    def limit_lookups(self, per_second: float) -> None:
        """Throttle look-ups in CloudTrail's event history. AWS allows two per second."""
        self._ask("PUT", "lookup_rate", per_second)

    def reserve_capacity_block(self, instance_type: str, zone: str, count: int, **options: Any) -> str:
        """Create a Capacity Block and return its ID.

        The options are `tags`, and, in seconds, `start` (default: 0) and `duration` (default: one day).
        """
        return str(self._ask("POST", "capacity_block", {"type": instance_type, "zone": zone, "count": count, **options})["id"])

    def set_faults(self, faults: list[dict[str, Any]]) -> None:
        """Replace all faults. An empty list removes all faults. `local_cloud.aws.requests.faults.Rule` defines the fields of a fault."""
        self._ask("PUT", "faults", faults)

    def paused(self) -> list[dict[str, str]]:
        """Return the held calls: service, action, stage."""
        return list(self._ask("GET", "paused"))

    def wait_until_paused(self, count: int = 1, timeout: float = 60.0) -> list[dict[str, str]]:
        """Wait until `count` calls are held, and return them. Raises `TimeoutError`."""
        wait_until(lambda: len(self.paused()) >= count, timeout)
        return self.paused()

    def resume(self, execute: bool = True) -> None:
        """Resume held calls. Calls held before their execution are dropped if `execute` is false or if their client has disconnected."""
        self._ask("POST", "resume", {"execute": execute})

    def set_delays(self, **seconds: float) -> None:
        """Set delays in seconds. `local_cloud.aws.settings.Delays` defines their names."""
        self._ask("PUT", "delays", seconds)

    def advance(self, seconds: float) -> float:
        """Let time pass for delayed changes and schedules, with all calls and retries of schedules that become due.

        Return the local cloud's time, which the Date header of responses also shows. `local_cloud.aws.clock.Clock` defines for what the
        time passes. `reset` sets the clock to this machine's time again.
        """
        return float(self._ask("POST", "advance", {"seconds": seconds})["now"])

    def print_on_console(self, instance_id: str, text: str) -> None:
        """Let an instance without a host print text on its console."""
        self._ask("POST", "console", {"instance": instance_id, "text": text})

    def decisions(self) -> list[dict[str, Any]]:
        """Return the authorization decisions so far for calls by users and roles: caller, call, action, resource, effect, statements."""
        return list(self._ask("GET", "decisions"))

    def invocations(self, function: str = "") -> list[dict[str, Any]]:
        """Return the invocations of functions, or of one function, that have ended: function, request_id, time, event, failed, value, log.

        `value` is what the function has returned, or the description of its error.
        """
        return [each for each in self._ask("GET", "invocations") if each["function"].endswith(f":{function}") or not function]

    def forget_decisions(self) -> None:
        self._ask("DELETE", "decisions")

    def record_parameters(self) -> None:
        """Start recording which parameters requests contain, and which parameters are never read."""
        self._ask("PUT", "parameters")

    def parameters(self) -> dict[str, list[str]]:
        """Return the recorded parameters: `{"sent": ["ec2:CreateVpc CidrBlock", ...], "ignored": [...]}`."""
        return dict(self._ask("GET", "parameters"))

    def calls(self) -> list[dict[str, Any]]:
        """Return the API calls so far: service, region, action, read_only, and the parameters of executed calls that change something."""
        return list(self._ask("GET", "calls"))

    def forget_calls(self) -> None:
        self._ask("DELETE", "calls")

    def reset(self) -> None:
        """Clear calls, faults, limits, prices, quotas, changed delays, and advances of the clock. Resources are kept."""
        self._ask("POST", "reset")

    def _ask(self, method: str, name: str, data: Any = None) -> Any:
        body = None if data is None else json.dumps(data).encode()
        headers = {"Authorization": signature(self._token, method, name, body or b"", time.time()), "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._endpoint}/_local_cloud/{name}", body, headers, method=method)
        try:
            with self._open(request, timeout=120) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise ValueError(json.load(error)["error"]) from None


class ForkedServer:
    """A server that was forked from the process in `server_template`, with the methods of `subprocess.Popen` that a manager needs."""

    def __init__(self, request: Request) -> None:
        # On a busy machine, the process that forks servers was once seen to have ended. A new one takes its place.
        pid = self._fork(request) or self._fork(request)
        if not pid:
            raise CloudError("The process that forks servers has ended.")
        self._process = Path("/proc") / pid

    @staticmethod
    def _fork(request: Request) -> str:
        """Return the ID of a new server process, or an empty string if the process that forks servers has ended."""
        template = server_template()
        assert template.stdin
        assert template.stdout
        template.stdin.write(json.dumps(request) + "\n")
        template.stdin.flush()
        pid = template.stdout.readline().strip()
        if not pid:
            template.wait(10)
        return pid

    def poll(self) -> int | None:
        """Return None while the server runs."""
        return None if self._process.exists() else 0

    def wait(self, timeout: float) -> int:
        """Wait until the server has ended. Raises `TimeoutError`."""
        wait_until(lambda: self.poll() is not None, timeout)
        return 0


_templates: list[subprocess.Popen[str]] = []


def server_template() -> subprocess.Popen[str]:
    """Return the process that forks into the servers of this process's local clouds. It ends with this process."""
    if not _templates or _templates[-1].poll() is not None:
        command = [sys.executable, "-m", "local_cloud.server_template"]
        pipe = subprocess.PIPE
        _templates.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=own_environment(), start_new_session=True))
        atexit.register(_templates[-1].communicate)  # closes standard input, and waits
    return _templates[-1]


class ForkedCloudManager(CloudManager):
    """A manager whose server starts faster."""

    def _start_process(self, log: IO[bytes]) -> Server:
        umask = os.umask(0)
        os.umask(umask)
        return ForkedServer(
            {"home": str(self.home.folder), "log": log.name, "environment": own_environment(), "umask": umask, "directory": os.getcwd()}
        )


class LocalCloud:
    """A local cloud that a `with` block starts and destroys."""

    def __init__(self, home: Path, hosts: bool = True, environments: Collection[str] = ()) -> None:
        self.cloud = ForkedCloudManager(home)
        self._hosts = hosts
        self._environments = environments

    def __enter__(self) -> LocalCloud:
        self.cloud.start(hosts=self._hosts, environments=self._environments)
        return self

    def __exit__(self, *_: object) -> None:
        self.cloud.destroy()

    @property
    def endpoint(self) -> str:
        """Return the URL of the API."""
        return self.cloud.endpoint

    @property
    def environment(self) -> dict[str, str]:
        """Return this process's environment variables and the variables that point AWS tools to this local cloud."""
        return own_environment() | self.cloud.environment

    @property
    def control(self) -> Control:
        return Control(self.endpoint, self.cloud.home.control_token())

    def client(self, service: str, region: str = REGION) -> Any:
        """Return a boto3 client with the administrator's access key."""
        return self.cloud.client(service, region)

    def operator(self, name: str, *policies: dict[str, Any]) -> dict[str, str]:
        """Return the environment variables for an IAM user with exactly these policies."""
        return self.environment | self.cloud.operator(name, [json.dumps(policy) for policy in policies]).environment

    def other_account(self, account: str) -> dict[str, str]:
        """Return the environment variables for an administrator of another account. Its resources are separate from those of all others."""
        role = {"RoleArn": f"arn:aws:iam::{account}:role/administrators", "RoleSessionName": "administrator"}
        keys = self.client("sts").assume_role(**role)["Credentials"]
        names = {"AWS_ACCESS_KEY_ID": "AccessKeyId", "AWS_SECRET_ACCESS_KEY": "SecretAccessKey", "AWS_SESSION_TOKEN": "SessionToken"}
        return self.environment | {name: keys[key] for name, key in names.items()}

    def restart(self) -> None:
        """Restart the server. Hosts keep running."""
        self.cloud.stop()
        self.cloud.start()


def wait_until(condition: Callable[[], Result], timeout: float = 300.0, interval: float = 0.05) -> Result:
    """Poll the condition until it returns a true value, and return that value. Raises `TimeoutError`.

    The default timeout allows for a machine under heavy load. A test that passes never reaches this timeout. Between two polls, this
    function waits at least as long as a poll takes, because polls that open connections use much processor time.
    """
    deadline = time.monotonic() + timeout
    while True:
        began = time.monotonic()
        if result := condition():
            return result
        ended = time.monotonic()
        if ended > deadline:
            raise TimeoutError(f"Timed out after {timeout:.0f} s waiting for a condition.")
        time.sleep(max(interval, ended - began))


def main(count: int) -> None:
    """Boot bare hosts, and remove them on an interrupt."""
    with tempfile.TemporaryDirectory(prefix="bare-hosts-") as folder, bare_hosts(Path(folder), count) as (_runtime, hosts):
        for host in hosts:
            print(f"ssh -i {host.key_file} {host.user}@{host.private_ip}   # also {host.public_ip}", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
