"""Tests that host keys are read from the console output of an instance, and that later or damaged text is not mistaken for host keys."""

from __future__ import annotations

import base64
import struct

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.console import host_keys


def key(kind: str, *fields: bytes) -> str:
    blob = b"".join(struct.pack(">I", len(field)) + field for field in (kind.encode(), *fields))
    return f"{kind} {base64.b64encode(blob).decode()}"


ECDSA = key("ecdsa-sha2-nistp256", b"nistp256", b"\4" + bytes(64))
ED25519 = key("ssh-ed25519", bytes(range(32)))
RSA = key("ssh-rsa", b"\1\0\1", b"\0" + b"\xff" * 384)
OTHER = key("ssh-ed25519", bytes(range(1, 33)))
BEGIN, END = "-----BEGIN SSH HOST KEY KEYS-----", "-----END SSH HOST KEY KEYS-----"
KERNEL = "[   14.203871] nvidia: loading out-of-tree module taints kernel.\n"


def block(*keys: str) -> str:
    return "".join(f"{line}\n" for line in (BEGIN, *(f"{each} root@ip-10-0-0-4" for each in keys), END))


CONSOLE = f"[    0.000000] Linux version 6.8\nip-10-0-0-4 login: {block(ECDSA, ED25519, RSA)}[   30.1] done\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_all_keys_of_the_block_are_returned(end):
    assert host_keys(CONSOLE.replace("\n", end)) == [ECDSA, ED25519, RSA]


def test_a_block_that_is_not_whole_yet_has_no_keys():
    assert host_keys(CONSOLE.partition("-----END")[0]) == []
    assert host_keys("") == []


def test_only_the_first_block_counts():
    assert host_keys(CONSOLE + block(OTHER)) == [ECDSA, ED25519, RSA]
    assert host_keys(block("ssh-ed25519 AAAA") + CONSOLE) == []


@pytest.mark.parametrize("position", range(len(block(ED25519))))
def test_a_kernel_message_may_interrupt_a_line(position):
    text = block(ED25519)
    assert host_keys(text[:position] + KERNEL.replace("\n", "\r\n") + text[position:]) == [ED25519]


def test_kernel_messages_contain_no_keys():
    """A job can write text with line breaks to the kernel log. The kernel prints its prefix before each line."""
    lines = f"tmpfs: Unknown parameter 'z\n{block(OTHER)}'".splitlines()
    forged = "".join(f"[   99.{100000 + number}] {line}\n" for number, line in enumerate(lines))
    assert host_keys(forged) == []
    assert host_keys(forged + CONSOLE) == [ECDSA, ED25519, RSA]
    assert host_keys(forged.replace("\n", "\r")) == []
    with_thread = forged.replace("] ", "][   T77] ")
    assert host_keys(with_thread) == []


@pytest.mark.parametrize(
    "damaged",
    [
        ED25519[:-4],
        ED25519[:-8] + "====",
        ED25519[:40] + " " + ED25519[40:],
        ED25519.replace("ssh-ed25519", "ssh-rsa"),
        key("ssh-ed25519", bytes(31)),
        key("ssh-ed25519", bytes(32), b""),
        key("ssh-rsa", b"\1\0\1"),
        key("ecdsa-sha2-nistp256", b"nistp384", b"\4" + bytes(64)),
        key("ecdsa-sha2-nistp999", b"nistp999", b"\4" + bytes(64)),
        key("ssh-rsa", b"\1\0\1", bytes(3000)),
        "ssh-ed25519 AAAA\u00e4",
    ],
)
def test_damaged_keys_are_dropped(damaged):
    assert host_keys(block(damaged)) == []
    assert host_keys(block(ECDSA, damaged)) == [ECDSA]
