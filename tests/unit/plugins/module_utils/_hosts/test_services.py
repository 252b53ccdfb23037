"""Tests of the systemd services of a host."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts import services

from unit.modules import Module


def with_active(unit):
    return Module(lambda command: "" if "is-active" in command and command.endswith(unit) else (3, ""))


def test_a_host_with_another_queue_is_refused():
    services.refuse_other_queue(with_active("munge.service"), "slurmd.service", "Slurm", "slurm_state")
    with pytest.raises(services.ServiceError, match=r"^slurmd\.service runs on this host, .* Remove Slurm first: slurm_state=absent\.$"):
        services.refuse_other_queue(with_active("slurmd.service"), "slurmd.service", "Slurm", "slurm_state")
