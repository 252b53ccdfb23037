"""Signing, reading and renewing certificates, with the real ssh-keygen as a second opinion."""

from __future__ import annotations

import subprocess
import time

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.action import ssh_trust
from ansible_collections.deeplearning.cluster.plugins.module_utils import ssh_certificates
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

NAMES = ["i-1", "deeplearning-worker2", "10.0.1.5"]


def key_pair():
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    return private, key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


AUTHORITY, AUTHORITY_PUBLIC = key_pair()
_OWN, PUBLIC = key_pair()
ARGUMENTS = {"authority": AUTHORITY_PUBLIC + " demo", "principals": NAMES, "user": "ubuntu", "validity_days": 100}


def signed(kind, **changes):
    found = ssh_trust.certificates({kind: {"public_key": PUBLIC}}, {**ARGUMENTS, **changes}, AUTHORITY)
    return found[f"{kind}_certificate"]


@pytest.mark.parametrize(("kind", "principals"), [("host", NAMES), ("user", ["ubuntu"])])
def test_ssh_keygen_agrees(tmp_path, kind, principals):
    path = tmp_path / "key-cert.pub"
    path.write_text(signed(kind))
    text = subprocess.run(["ssh-keygen", "-L", "-f", path], capture_output=True, text=True, check=True).stdout
    assert f"ed25519-cert-v01@openssh.com {kind} certificate" in text
    listed = text.split("Principals:")[1].split("Critical")[0].split()
    assert listed == principals
    assert ("permit-pty" in text) is (kind == "user")
    assert "agent-forwarding" not in text


def test_parse_reads_what_was_signed():
    certificate = ssh_certificates.parse_certificate(signed("host"))
    assert certificate.kind == "host"
    assert certificate.public_key == PUBLIC
    assert certificate.authority == AUTHORITY_PUBLIC
    assert certificate.principals == tuple(NAMES)
    assert certificate.valid_before == pytest.approx(time.time() + 100 * 86400, abs=60)
    assert certificate.valid_after < time.time() - 600


@pytest.mark.parametrize("line", ["", "ssh-ed25519 AAAA", "ssh-ed25519-cert-v01@openssh.com AAAA", "ssh-ed25519-cert-v01@openssh.com %%"])
def test_parse_refuses(line):
    with pytest.raises(ValueError, match="certificate"):
        ssh_certificates.parse_certificate(line)


def test_parse_refuses_a_cut_certificate():
    name, blob = signed("host").split()[:2]
    for length in range(4, len(blob) - 120, 40):
        with pytest.raises(ValueError, match="certificate"):
            ssh_certificates.parse_certificate(f"{name} {blob[:length]}")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"certificate": None}, "none"),
        ({"certificate": "garbage"}, "not an ed25519 certificate"),
        ({"kind": "user"}, "host certificate"),
        ({"public_key": AUTHORITY_PUBLIC}, "key has changed"),
        ({"authority": PUBLIC}, "another authority"),
        ({"principals": NAMES[:2]}, "names"),
        ({"principals": NAMES[::-1]}, None),
        ({"now": time.time() - 86400}, "not valid yet"),
        ({"now": time.time() + 69 * 86400}, None),
        ({"now": time.time() + 71 * 86400}, "less than 30 days"),
    ],
)
def test_renewal(changes, reason):
    arguments = {
        "certificate": signed("host"),
        "kind": "host",
        "public_key": PUBLIC + " root@ip-10-0-1-5\n",
        "principals": NAMES,
        "authority": AUTHORITY_PUBLIC + " demo",
        "now": time.time(),
        "renew_days": 30,
        **changes,
    }
    found = ssh_certificates.renewal_reason(**arguments)
    assert found is None if reason is None else reason in found


def test_a_host_does_not_choose_its_names():
    need = {"host": {"public_key": PUBLIC, "principals": ["deeplearning-master"], "reason": "there is none"}}
    line = ssh_trust.certificates(need, ARGUMENTS, AUTHORITY)["host_certificate"]
    assert ssh_certificates.parse_certificate(line).principals == tuple(NAMES)


@pytest.mark.parametrize(
    ("private", "message"),
    [(None, "required"), ("secret words", "not an OpenSSH private key"), (key_pair()[0], "does not belong")],
)
def test_unusable_authority(private, message):
    with pytest.raises(AnsibleActionFail, match=message) as failure:
        ssh_trust.certificates({"host": {"public_key": PUBLIC}}, ARGUMENTS, private)
    assert not private or private not in str(failure.value)


def test_known_hosts_line_is_there_once():
    line = f"@cert-authority deeplearning-*,demo-* {AUTHORITY_PUBLIC} deeplearning.cluster:demo\n"
    old = f"github.com ssh-ed25519 AAAA\n@cert-authority * {PUBLIC} deeplearning.cluster:demo"
    new = ssh_certificates.replace_known_hosts_line(old, "demo", AUTHORITY_PUBLIC, ["deeplearning-*", "demo-*"])
    assert new == "github.com ssh-ed25519 AAAA\n" + line
    assert ssh_certificates.replace_known_hosts_line(new, "demo", AUTHORITY_PUBLIC, ["deeplearning-*", "demo-*"]) == new
