"""Console output, read from the instance's host."""

from __future__ import annotations

from moto.core.responses import ActionResult
from moto.core.types import Base64EncodedString
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.responses import EC2Response

from ..context import CLOUD
from ..override import override

# EC2 keeps 64 KB of console output.
SIZE = 64 * 1024
# The kernel and programs write to the same serial console, and a kernel message can interrupt the line of a program.
KERNEL_LINE = "[   14.203871] nvidia-nvlink: Nvlink Core is being initialized, major device number 236\r\n"
INTERVAL = 3  # lines of programs from one kernel message to the next


def as_serial_console(text: str) -> str:
    """Return the output of a host as EC2 returns it: with CRLF, with kernel messages in the middle of lines, and only its last 64 KB."""
    lines = text.splitlines()
    for index in range(1, len(lines), INTERVAL):
        middle = len(lines[index]) // 2
        lines[index] = lines[index][:middle] + KERNEL_LINE + lines[index][middle:]
    return "".join(f"{line}\r\n" for line in lines)[-SIZE:]


@override(EC2Response)
def get_console_output(self: EC2Response) -> ActionResult:
    """Return the console output of the host. The caller does not hold the local cloud's lock, because reading takes time."""
    with CLOUD.lock:
        instance = self.ec2_backend.get_instance(self._get_param("InstanceId"))
    latest = bool(self._get_bool_param("Latest"))
    # EC2 API Reference, GetConsoleOutput: "supported on all instance types on the Nitro System"
    if latest and INSTANCE_TYPES[instance.instance_type].get("Hypervisor") == "xen":
        raise EC2ClientError("UnsupportedOperation", "This instance type does not support retrieving the latest console logs")
    text = as_serial_console(CLOUD.hosts.console_output(instance.id, latest=latest))
    return ActionResult({"InstanceId": instance.id, "Timestamp": CLOUD.utcnow(), "Output": Base64EncodedString.from_raw_string(text)})
