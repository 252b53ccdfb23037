"""Tests that read, compare and renew certificates. The tests also check the results with ssh-keygen."""

from __future__ import annotations

import subprocess
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.ssh_trust import certificates

from .signing import AUTHORITY_PUBLIC, NAMES, PUBLIC, SOURCES, signed


def test_parse_reads_what_was_signed():
    certificate = certificates.parse_certificate(signed("host"))
    assert certificate.kind == "host"
    assert certificate.public_key == PUBLIC
    assert certificate.authority == AUTHORITY_PUBLIC
    assert certificate.principals == tuple(NAMES)
    assert certificate.valid_before == pytest.approx(time.time() + 100 * 86400, abs=60)
    assert certificate.valid_after < time.time() - 600


@pytest.mark.parametrize("line", ["", "ssh-ed25519 AAAA", "ssh-ed25519-cert-v01@openssh.com AAAA", "ssh-ed25519-cert-v01@openssh.com %%"])
def test_parse_refuses(line):
    with pytest.raises(ValueError, match="certificate"):
        certificates.parse_certificate(line)


def test_parse_refuses_a_cut_certificate():
    name, blob = signed("host").split()[:2]
    for length in range(4, len(blob) - 120, 40):
        with pytest.raises(ValueError, match="certificate"):
            certificates.parse_certificate(f"{name} {blob[:length]}")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"certificate": None}, "does not exist"),
        ({"certificate": "garbage"}, "not an ed25519 certificate"),
        ({"kind": "user"}, "host certificate"),
        ({"public_key": AUTHORITY_PUBLIC}, "key has changed"),
        ({"authority": PUBLIC}, "a different certificate authority"),
        ({"principals": NAMES[:2]}, "names"),
        ({"principals": NAMES[::-1]}, None),
        ({"now": time.time() - 86400}, "not valid yet"),
        ({"now": time.time() + 69 * 86400}, None),
        ({"now": time.time() + 71 * 86400}, "less than 30 days"),
        ({"validity_days": 98, "renew_days": 10}, "valid for more than 98 days"),
    ],
)
def test_renewal(changes, reason):
    given = {
        "certificate": signed("host"),
        "kind": "host",
        "public_key": PUBLIC + " root@ip-10-0-1-5\n",
        "principals": NAMES,
        "authority": AUTHORITY_PUBLIC + " demo",
        "now": time.time(),
        "validity_days": 100,
        "renew_days": 30,
        **changes,
    }
    terms = certificates.Terms(*(given[name] for name in ("kind", "principals", "authority", "validity_days", "renew_days")))
    found = certificates.renewal_reason(given["certificate"], given["public_key"], terms, given["now"])
    assert found is None if reason is None else reason in found


@pytest.mark.parametrize(
    ("signed_for", "wanted", "reason"),
    [(SOURCES, SOURCES, None), ([], SOURCES, "different source addresses"), (SOURCES, [], "different source addresses"), ([], [], None)],
)
def test_a_certificate_for_other_addresses_is_replaced(signed_for, wanted, reason):
    terms = certificates.Terms("user", ["ubuntu"], AUTHORITY_PUBLIC, 100, 30, wanted)
    found = certificates.renewal_reason(signed("user", source_addresses=signed_for), PUBLIC, terms, time.time())
    assert found is None if reason is None else reason in found


def test_ssh_keygen_finds_revoked_certificates(tmp_path):
    (tmp_path / "krl").write_bytes(certificates.revocation_list(AUTHORITY_PUBLIC, ["i-1", "ubuntu@i-1"]))
    (tmp_path / "nothing").write_bytes(certificates.revocation_list(AUTHORITY_PUBLIC, []))
    for kind in ("host", "user"):
        for name, key_id in (("revoked", "i-1"), ("other", "i-2")):
            (tmp_path / name).write_text(signed(kind, principals=[key_id]))
            asked = ["ssh-keygen", "-Qf", tmp_path / "krl", tmp_path / name]
            assert subprocess.run(asked, capture_output=True, check=False).returncode == (1 if name == "revoked" else 0)
            asked[2] = tmp_path / "nothing"
            assert subprocess.run(asked, capture_output=True, check=False).returncode == 0
