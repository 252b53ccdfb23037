"""Tests that the message about a refused login names the user, the key, and where both are set."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.ssh_login import login_advice

REFUSED = "Failed to connect to the host via ssh: ubuntu@192.0.2.1: Permission denied (publickey)."


@pytest.mark.parametrize(("key", "named"), [("/home/me/team.pem", "the key file '/home/me/team.pem'"), (None, "ssh's default keys")])
def test_a_refused_login(key, named):
    advice = login_advice(REFUSED, "ubuntu", key)
    assert advice.startswith(f"The login used user 'ubuntu' with {named}.")
    for variable in ("private_key_file", "deeplearning_login_user", "deeplearning_key_name"):
        assert variable in advice


def test_a_node_behind_a_host_that_refuses_the_login():
    told = "kex_exchange_identification: Connection closed by remote host\nConnection closed by UNKNOWN port 65535"
    assert "If the master is unreachable too, solve the master's problem first." in login_advice(told, "ubuntu", None)


@pytest.mark.parametrize("message", ["Connection timed out", "cp: Permission denied", "Host key verification failed."])
def test_another_failure(message):
    assert login_advice(message, "ubuntu", "/home/me/team.pem") == ""
