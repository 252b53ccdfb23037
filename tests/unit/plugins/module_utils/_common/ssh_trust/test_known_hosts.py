"""Tests of the lines in known_hosts files."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.ssh_trust import known_hosts

from .signing import AUTHORITY_PUBLIC, PUBLIC


def test_known_hosts_line_is_there_once():
    line = f"@cert-authority deeplearning-*,demo-* {AUTHORITY_PUBLIC} deeplearning.cluster:demo\n"
    old = f"github.com ssh-ed25519 AAAA\n@cert-authority * {PUBLIC} deeplearning.cluster:demo"
    new = known_hosts.replace_known_hosts_line(old, "demo", AUTHORITY_PUBLIC, ["deeplearning-*", "demo-*"])
    assert new == ("github.com ssh-ed25519 AAAA\n" + line, [])
    assert known_hosts.replace_known_hosts_line(new[0], "demo", AUTHORITY_PUBLIC, ["deeplearning-*", "demo-*"]) == new


@pytest.mark.parametrize(
    ("older", "rest"),
    [
        ("deeplearning-worker2 ssh-ed25519 AAAA old", ""),
        ("Demo-Worker2,10.0.0.5 ssh-rsa AAAA", "10.0.0.5 ssh-rsa AAAA\n"),
        ("@cert-authority deeplearning-*,demo-*,10.0.1.* ssh-ed25519 AAAA", ""),
        (
            "@cert-authority deeplearning-*,old-* ssh-ed25519 AAAA deeplearning.cluster:old",
            "@cert-authority old-* ssh-ed25519 AAAA deeplearning.cluster:old\n",
        ),
    ],
)
def test_older_lines_for_the_names_of_the_cluster_are_replaced(older, rest):
    others = (
        "# demo-worker2\n@revoked demo-worker2 ssh-ed25519 AAAA\n@cert-authority *.example.com ssh-ed25519 AAAA\n"
        "10.0.1.9 ssh-ed25519 AAAA a file server in the same network\n|1|c2FsdA==|aGFzaA== ssh-ed25519 AAAA\n\n"
    )
    patterns = ["deeplearning-*", "demo-*", "10.0.1.*"]
    text, replaced = known_hosts.replace_known_hosts_line(f"{others}{older}\n", "demo", AUTHORITY_PUBLIC, patterns)
    line = f"@cert-authority deeplearning-*,demo-*,10.0.1.* {AUTHORITY_PUBLIC} deeplearning.cluster:demo\n"
    assert (text, replaced) == (f"{others}{rest}{line}", [older])
    assert known_hosts.replace_known_hosts_line(text, "demo", AUTHORITY_PUBLIC, patterns) == (text, [])
