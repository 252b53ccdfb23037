# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads the SSH host keys of instances from their console output."""

from __future__ import annotations

import threading
import time

from ..client import AwsClient, ClientError, ClusterError, WaitTimeout
from ..error_codes import error_code, is_missing
from .console import host_keys

QUIET_SECONDS = 2
PAUSE = 1  # seconds between the first two reads of an instance's console
KEPT = 60 * 1024  # bytes, a little less than the 64 KB of output that EC2 keeps


CONFLICTING, MISSING, TIMEOUT = "conflicting", "missing", "timeout"


class HostKeyError(ClusterError):
    """The host keys of one instance cannot be determined."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def console_output(cloud: AwsClient, instance_id: str, *, latest: bool) -> str:
    """Return the console output that EC2 saved at boot or, if `latest` is true, the current one, which only Nitro instances provide."""
    try:
        return str(cloud.ec2.get_console_output(InstanceId=instance_id, Latest=latest).get("Output", ""))
    except ClientError as error:
        if is_missing(error):
            raise HostKeyError(MISSING, f"there is no instance {instance_id} in {cloud.region}. Check the ID and the region.") from error
        if error_code(error) != "UnsupportedOperation":
            raise
        return ""


def is_whole(output: str) -> bool:
    """Return whether EC2 has kept the beginning of a console output."""
    return len(output.encode()) < KEPT


def find_host_keys(cloud: AwsClient, instance_id: str, *, is_new: bool = False) -> list[str]:
    """Return the SSH host keys from the console output at boot or, if it contains none, from the current console output.

    Raises HostKeyError if both outputs contain keys and these keys differ.

    EC2 keeps only the last 64 KB of each output. If the beginning of the current output is missing, the first keys in it may not be the
    keys that cloud-init printed. They count only if `is_new` is true and the output at boot contains none: a large instance prints more
    than this before cloud-init prints the keys, and EC2 may save the output at boot earlier.
    """
    latest = console_output(cloud, instance_id, latest=True)
    now = host_keys(latest) if is_whole(latest) else []
    if latest and is_whole(latest) and not now:
        return []  # the instance is still booting, so the output at boot contains no keys either
    at_boot = console_output(cloud, instance_id, latest=False)
    boot = host_keys(_whole_lines(at_boot))
    if boot and now and boot != now:
        raise HostKeyError(
            CONFLICTING,
            "the console output contains conflicting SSH host keys, so a process on the instance has printed keys after the first boot. "
            "Replace the instance, or specify its host keys in ssh_trust_host_keys.",
        )
    return boot or now or (host_keys(_whole_lines(latest)) if is_new else [])


def _whole_lines(output: str) -> str:
    """Return an output without a truncated first line, which may lack the prefix that marks it as a message of the kernel."""
    return output if is_whole(output) else output.partition("\n")[2]


class HostKeyProgress:
    """Reports how many instances have printed their SSH host keys."""

    def __init__(self, cloud: AwsClient, count: int) -> None:
        self._cloud, self._count, self._ready = cloud, count, 0
        self._lock, self._start = threading.Lock(), time.monotonic()

    def ready(self) -> None:
        with self._lock:
            self._ready += 1

    def tell(self) -> None:
        """Report the progress if the wait has taken longer than `QUIET_SECONDS`."""
        elapsed = time.monotonic() - self._start
        if elapsed > QUIET_SECONDS:
            with self._lock:
                self._cloud.progress(f"{self._ready} of {self._count} new nodes have printed their SSH host keys", elapsed)


def wait_for_host_keys(cloud: AwsClient, instance_id: str, progress: HostKeyProgress) -> list[str]:
    """Return the instance's host keys. Raises HostKeyError if the console output does not contain the keys before the timeout."""

    def probe() -> list[str]:
        keys = find_host_keys(cloud, instance_id, is_new=True)
        if keys:
            progress.ready()
        else:
            progress.tell()
        return keys

    try:
        return cloud.wait_until(f"the console output of {instance_id}", probe, pause=PAUSE)
    except WaitTimeout as error:
        raise HostKeyError(
            TIMEOUT,
            f"{instance_id} has not printed its SSH host keys to the console within {cloud.wait_timeout} s. "
            "The image must run cloud-init with ssh.emit_keys_to_console, which is the default. "
            "If EC2 no longer keeps the part of the console output with the keys, specify the keys in ssh_trust_host_keys. "
            f"To see whether the instance boots, run: aws ec2 get-console-output --latest --output text --instance-id {instance_id}",
        ) from error
