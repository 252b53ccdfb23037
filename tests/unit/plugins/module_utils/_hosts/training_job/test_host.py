"""What a host tells of itself."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import host


def test_the_loopback_interface_has_the_loopback_address():
    assert host.interface_address("lo") == "127.0.0.1"
    assert host.interface_address("none0") == ""
