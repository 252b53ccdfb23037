"""Tests that check how certificates are signed. The tests also check the certificates with ssh-keygen."""

from __future__ import annotations

import subprocess

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.action import ssh_trust
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.ssh_trust import certificates

from unit.plugins.module_utils._common.ssh_trust.signing import ARGUMENTS, AUTHORITY, NAMES, PUBLIC, key_pair, signed


@pytest.mark.parametrize(("kind", "principals"), [("host", NAMES), ("user", ["ubuntu"])])
def test_ssh_keygen_agrees(tmp_path, kind, principals):
    path = tmp_path / "key-cert.pub"
    path.write_text(signed(kind))
    text = subprocess.run(["ssh-keygen", "-L", "-f", path], capture_output=True, text=True, check=True).stdout
    assert f"ed25519-cert-v01@openssh.com {kind} certificate" in text
    listed = text.split("Principals:")[1].split("Critical")[0].split()
    assert listed == principals
    assert ("permit-pty" in text) is (kind == "user")
    assert "forwarding" not in text
    assert "user-rc" not in text


def test_ssh_keygen_reads_the_source_addresses(tmp_path):
    path = tmp_path / "key-cert.pub"
    path.write_text(signed("user", source_addresses=["10.0.1.5", "10.1.0.0/16"]))
    text = subprocess.run(["ssh-keygen", "-L", "-f", path], capture_output=True, text=True, check=True).stdout
    assert "source-address 10.0.1.5,10.1.0.0/16" in text


def test_a_host_does_not_choose_its_names():
    need = {"host": {"public_key": PUBLIC, "principals": ["deeplearning-master"], "reason": "it does not exist"}}
    line = ssh_trust.certificates(need, ARGUMENTS, AUTHORITY)["host_certificate"]
    assert certificates.parse_certificate(line).principals == tuple(NAMES)


@pytest.mark.parametrize(
    ("private", "message"),
    [(None, "required"), ("secret words", "not an OpenSSH private key"), (key_pair()[0], "does not match the public key")],
    ids=["none", "no key", "another key"],
)
def test_unusable_authority(private, message):
    with pytest.raises(AnsibleActionFail, match=message) as failure:
        ssh_trust.certificates({"host": {"public_key": PUBLIC}}, ARGUMENTS, private)
    assert not private or private not in str(failure.value)


@pytest.mark.parametrize(
    "key",
    [
        None,
        7,
        "",
        "ssh-rsa AAAA",
        "ssh-ed25519 AAAA",
        f"{PUBLIC}\ni-2 {PUBLIC}",
        f"{PUBLIC} comment\x1b[2J",
        PUBLIC.replace("ed25519 ", "ed25519  "),
    ],
    ids=["none", "number", "empty", "RSA", "short", "two lines", "control characters", "two spaces"],
)
def test_only_one_ed25519_key_is_signed(key):
    with pytest.raises(AnsibleActionFail, match="cannot be signed"):
        ssh_trust.certificates({"host": {"public_key": key}}, ARGUMENTS, AUTHORITY)


@pytest.mark.parametrize("unsigned", [["host"], "host", {"host": "x"}])
def test_an_answer_of_another_shape_is_refused(unsigned):
    with pytest.raises(AnsibleActionFail, match=r"cannot be signed|does not list"):
        ssh_trust.certificates(unsigned, ARGUMENTS, AUTHORITY)


def test_a_revoked_host_gets_no_certificate():
    with pytest.raises(AnsibleActionFail, match="i-1: this instance's certificates have been revoked"):
        signed("host", revoked=["i-1"])
