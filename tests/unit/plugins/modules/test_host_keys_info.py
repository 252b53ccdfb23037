# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Where host keys are looked for: on the console as it is now, and in what EC2 kept of the boot."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.modules.host_keys_info import find_host_keys
from botocore.exceptions import ClientError

BOOT = "-----BEGIN SSH HOST KEY KEYS-----\nssh-ed25519 AAAAboot root@ip\n-----END SSH HOST KEY KEYS-----\n"
NOW = BOOT.replace("AAAAboot", "AAAAnow")


class Console:
    """The one call of EC2 that is made here; an output that is None is one that the instance does not support."""

    region = "us-east-1"

    def __init__(self, now: str | None, boot: str) -> None:
        self.outputs = {True: now, False: boot}
        self.ec2 = self

    def get_console_output(self, **request: str | bool) -> dict[str, str]:
        output = self.outputs[bool(request["Latest"])]
        if output is None:
            raise ClientError({"Error": {"Code": "UnsupportedOperation"}}, "GetConsoleOutput")
        return {"Output": output} if output else {}


@pytest.mark.parametrize(
    ("now", "boot", "keys"),
    [
        (NOW, BOOT, ["ssh-ed25519 AAAAnow"]),
        ("much said since", BOOT, ["ssh-ed25519 AAAAboot"]),
        (None, BOOT, ["ssh-ed25519 AAAAboot"]),
        ("", "", []),
    ],
)
def test_the_present_output_goes_first(now, boot, keys):
    assert find_host_keys(Console(now, boot), "i-1") == keys
