"""Tests of the ports that jobs use."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.ports import port


def test_port_depends_on_the_job_and_is_not_an_ephemeral_one():
    ports = {port(f"job-{number}") for number in range(200)}
    assert len(ports) > 190
    assert all(20500 <= number < 32000 for number in ports)
    assert port("digits") == port("digits")
