"""Tests that ranges from which SSH is not to be allowed are refused with the option, the ranges, and what to do."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validators import ssh_access


@pytest.mark.parametrize(
    ("cidrs", "anywhere", "message"),
    [
        ([], False, "Specify the address ranges"),
        (["300.1.1.1/8"], False, "'300.1.1.1/8' is not an address range"),
        (["10.0.0.1/8"], False, "'10.0.0.1/8' is not an address range. Specify 10.0.0.0/8."),
        (["0.0.0.0/0"], False, "would open SSH to the whole internet"),
        (["203.0.113.0/24", "::/0"], False, "::/0 would open SSH"),
        (["0.0.0.0/1", "128.0.0.0/1"], False, "0.0.0.0/1, 128.0.0.0/1 would open SSH to the whole internet"),
        (["::/1", "8000::/1"], False, "would open SSH to the whole internet"),
        (["8.0.0.0/7"], False, "8.0.0.0/7 would open SSH to more internet addresses than a /8 contains"),
        (["11.0.0.0/8", "198.51.100.0/24"], False, "would open SSH to more internet addresses than a /8"),
        (["2001:db8::/31"], False, "would open SSH to more internet addresses than a /32"),
        (["0.0.0.0/1", "128.0.0.0/1"], True, ""),
        (["0.0.0.0/0"], True, ""),
        (["11.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "2001:db8::/32", "fd00::/8"], False, ""),
        (["203.0.113.7", "2001:db8::/64"], False, ""),
    ],
)
def test_ssh_cidrs(cidrs, anywhere, message):
    findings = list(ssh_access.check_ssh_cidrs(cidrs, anywhere))
    assert bool(findings) == bool(message)
    assert not message or message in findings[0]


@pytest.mark.parametrize(
    ("cidrs", "finding"),
    [
        (
            [],
            "no address range is set. Specify the address ranges from which SSH is allowed to reach the master, for example "
            "203.0.113.0/24.",
        ),
        (
            ["11.0.0.0/8", "10.0.0.0/8", "12.0.0.0/32"],
            "11.0.0.0/8, 12.0.0.0/32 would open SSH to more internet addresses than a /8 contains. "
            "Specify your own ranges. To allow this anyway, set allow_ssh_from_anywhere: true.",
        ),
        (
            ["::/0", "fd00::/8"],
            "::/0 would open SSH to the whole internet. Specify your own ranges. To allow this anyway, set allow_ssh_from_anywhere: true.",
        ),
    ],
)
def test_what_is_said_of_ranges(cidrs, finding):
    assert list(ssh_access.check_ssh_cidrs(cidrs, False)) == [f"ssh_cidrs: {finding}"]


def test_a_master_that_nobody_reaches_from_outside_needs_no_ranges():
    assert list(ssh_access.check_ssh_cidrs([], False, needed=False)) == []
    assert len(list(ssh_access.check_ssh_cidrs(["x", "y"], True))) == 2
