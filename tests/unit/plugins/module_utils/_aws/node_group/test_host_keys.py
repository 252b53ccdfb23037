"""Tests that host keys are read from the latest console output and from the output that EC2 stored at boot, and that both must agree."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import host_keys
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.host_keys import (
    HostKeyError,
    HostKeyProgress,
    find_host_keys,
    wait_for_host_keys,
)
from botocore.exceptions import ClientError

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{}"
BOOT_KEY, NOW_KEY = ED25519.format("B" * 43), ED25519.format("N" * 43)
BOOT = f"-----BEGIN SSH HOST KEY KEYS-----\n{BOOT_KEY} root@ip\n-----END SSH HOST KEY KEYS-----\n"
NOW = BOOT.replace(BOOT_KEY, NOW_KEY)
FLOOD = "much said since\n" * 4096


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
        (BOOT, BOOT, [BOOT_KEY]),
        (NOW, "", [NOW_KEY]),
        (NOW, "posted before cloud-init printed the keys\n", [NOW_KEY]),
        (FLOOD, BOOT, [BOOT_KEY]),
        (FLOOD + NOW, BOOT, [BOOT_KEY]),
        (FLOOD + NOW, "", []),
        (FLOOD + NOW, FLOOD, []),
        (None, BOOT, [BOOT_KEY]),
        (BOOT + NOW, BOOT + NOW, [BOOT_KEY]),
        (BOOT + NOW, "", [BOOT_KEY]),
        ("", "", []),
    ],
    ids=["both", "now", "late", "boot", "flooded", "only flooded", "never", "not supported", "later", "later now", "neither"],
)
def test_keys_are_the_first_that_the_instance_has_printed(now, boot, keys):
    assert find_host_keys(Console(now, boot), "i-1") == keys


@pytest.mark.parametrize(
    ("now", "boot", "keys"),
    [
        (FLOOD + NOW, "saved before cloud-init printed the keys\n", [NOW_KEY]),
        (FLOOD + NOW + BOOT, "", [NOW_KEY]),
        (FLOOD + NOW, BOOT, [BOOT_KEY]),
        (FLOOD + f"[   99.123456] x {NOW.replace(chr(10), ' ')}\n", "", []),
        (NOW.replace("\n", " ") + "\n" + FLOOD, "", []),
    ],
    ids=["large instance", "later", "boot", "kernel", "truncated line"],
)
def test_a_new_instance_may_print_more_than_ec2_keeps_before_it_prints_its_keys(now, boot, keys):
    assert find_host_keys(Console(now, boot), "i-1", is_new=True) == keys


@pytest.mark.parametrize("cut", range(len(" 99.123456] x ")))
def test_a_truncated_kernel_message_has_no_keys(cut):
    """A job can write a block to the kernel log. If EC2 keeps only the end of a line, the kernel's prefix may be missing."""
    forged = f"[   99.123456] x {NOW.replace(chr(10), ' ')}\n"
    boot = forged[len(forged) - len(NOW) - cut - 1 :] + FLOOD
    assert find_host_keys(Console(FLOOD, boot), "i-1") == []
    assert find_host_keys(Console(FLOOD, boot + BOOT), "i-1") == [BOOT_KEY]


def test_an_instance_that_still_boots_is_asked_once():
    console = Console("[    1.2] Booting\n", "")
    assert find_host_keys(console, "i-1") == []
    assert console.asked == 1


def test_keys_that_differ_are_refused():
    with pytest.raises(HostKeyError, match="the console output contains conflicting SSH host keys") as caught:
        find_host_keys(Console(NOW, BOOT), "i-1")
    assert caught.value.kind == "conflicting"


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
    assert wait_for_host_keys(cloud, "i-1", progress) == [BOOT_KEY]
    assert cloud.told == told
