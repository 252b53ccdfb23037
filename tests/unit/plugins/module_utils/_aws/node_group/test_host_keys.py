# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests that host keys are read from the latest console output and from the output that EC2 stored at boot, and that both must agree."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import ClusterError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import host_keys
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.host_keys import (
    HostKeyProgress,
    find_host_keys,
    wait_for_host_keys,
)
from botocore.exceptions import ClientError

BOOT = "-----BEGIN SSH HOST KEY KEYS-----\nssh-ed25519 AAAAboot root@ip\n-----END SSH HOST KEY KEYS-----\n"
NOW = BOOT.replace("AAAAboot", "AAAAnow")


class Console:
    """A stub of EC2 with the only API call that the code makes.

    If `now` is None, the instance does not support the latest console output.
    """

    region = "us-east-1"

    def __init__(self, now: str | None, boot: str) -> None:
        self.outputs = {True: now, False: boot}
        self.ec2, self.asked = self, 0

    def get_console_output(self, **request: str | bool) -> dict[str, str]:
        self.asked += 1
        output = self.outputs[bool(request["Latest"])]
        if output is None:
            raise ClientError({"Error": {"Code": "UnsupportedOperation"}}, "GetConsoleOutput")
        return {"Output": output} if output else {}


@pytest.mark.parametrize(
    ("now", "boot", "keys"),
    [
        (BOOT, BOOT, ["ssh-ed25519 AAAAboot"]),
        (NOW, "", ["ssh-ed25519 AAAAnow"]),
        ("much said since\n" * 4096, BOOT, ["ssh-ed25519 AAAAboot"]),
        (None, BOOT, ["ssh-ed25519 AAAAboot"]),
        (BOOT + "a second boot\n" + BOOT, BOOT, ["ssh-ed25519 AAAAboot"]),
        ("", "", []),
    ],
    ids=["both", "now", "boot", "not supported", "twice", "neither"],
)
def test_keys_are_on_either_output(now, boot, keys):
    assert find_host_keys(Console(now, boot), "i-1") == keys


def test_an_instance_that_still_boots_is_asked_once():
    console = Console("[    1.2] Booting\n", "")
    assert find_host_keys(console, "i-1") == []
    assert console.asked == 1


@pytest.mark.parametrize(("now", "boot"), [(NOW, BOOT), (BOOT + NOW, BOOT), (NOW + BOOT, ""), (None, BOOT + NOW)])
def test_keys_that_differ_are_refused(now, boot):
    with pytest.raises(ClusterError, match="i-1: the console output contains conflicting SSH host keys"):
        find_host_keys(Console(now, boot), "i-1")


class Booting(Console):
    """A console whose output contains the keys only at the second poll."""

    wait_timeout = 10

    def __init__(self) -> None:
        super().__init__("", "")
        self.told: list[str] = []

    def wait_until(self, _what, probe, *, pause):
        assert pause >= 1, "the code requests the output of many consoles at once"
        assert not probe()
        self.outputs[True] = BOOT
        return probe()

    def progress(self, what, _elapsed):
        self.told.append(what)


@pytest.mark.parametrize(("quiet", "told"), [(-1, ["1 of 3 new nodes have printed their SSH host keys"]), (60, [])])
def test_a_long_wait_is_shown(monkeypatch, quiet, told):
    monkeypatch.setattr(host_keys, "QUIET_SECONDS", quiet)
    cloud = Booting()
    progress = HostKeyProgress(cloud, 3)
    progress.ready()
    assert wait_for_host_keys(cloud, "i-1", progress) == ["ssh-ed25519 AAAAboot"]
    assert cloud.told == told
