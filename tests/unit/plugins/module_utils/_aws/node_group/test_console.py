# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests that host keys are read from the console output of an instance."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.console import host_keys

CONSOLE = """[   11.2] cloud-init[500]: -----BEGIN SSH HOST KEY KEYS-----
ecdsa-sha2-nistp256 AAAAE2VjZHNh root@ip-10-0-0-4
[   11.3] cloud-init[500]: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA root@ip-10-0-0-4
-----END SSH HOST KEY KEYS-----
"""


def test_all_host_keys_on_the_console_agree():
    keys = ["ecdsa-sha2-nistp256 AAAAE2VjZHNh", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA"]
    assert host_keys(CONSOLE) == keys
    assert host_keys(CONSOLE + "a reboot\n" + CONSOLE) == keys
    with pytest.raises(ValueError, match="conflicting SSH host keys"):
        host_keys(CONSOLE + CONSOLE.replace("IA root", "IB root"))


def test_a_block_that_is_not_whole_yet_has_no_keys():
    assert host_keys(CONSOLE[:-20]) == []
    assert host_keys("") == []
