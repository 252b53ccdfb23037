"""Console output, read from the instance's host."""

from __future__ import annotations

from moto.core.responses import ActionResult
from moto.core.types import Base64EncodedString
from moto.core.utils import utcnow
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.responses import EC2Response

from ..context import CLOUD
from ..override import override


@override(EC2Response)
def get_console_output(self: EC2Response) -> ActionResult:
    """Return the console output of the host. The caller does not hold the local cloud's lock, because reading takes time."""
    with CLOUD.lock:
        instance = self.ec2_backend.get_instance(self._get_param("InstanceId"))
    # EC2 API Reference, GetConsoleOutput: "supported on all instance types on the Nitro System"
    if self._get_bool_param("Latest") and INSTANCE_TYPES[instance.instance_type].get("Hypervisor") == "xen":
        raise EC2ClientError("UnsupportedOperation", "This instance type does not support retrieving the latest console logs")
    text = CLOUD.hosts.console_output(instance.id)
    return ActionResult({"InstanceId": instance.id, "Timestamp": utcnow(), "Output": Base64EncodedString.from_raw_string(text)})
