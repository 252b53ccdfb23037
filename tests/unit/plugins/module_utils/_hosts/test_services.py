"""Tests of the systemd services of a host."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts import services


class Module:
    """A stub of a module, with the units that are active on the host."""

    check_mode = False

    def __init__(self, *active):
        self.active = active

    def run_command(self, command):
        return 0 if command[1] == "is-active" and command[-1] in self.active else 3, "", ""


def test_a_host_with_another_queue_is_refused():
    services.refuse_other_queue(Module("munge.service"), "slurmd.service", "Slurm", "slurm_state")
    with pytest.raises(services.ServiceError, match=r"^slurmd\.service runs on this host, .* Remove Slurm first: slurm_state=absent\.$"):
        services.refuse_other_queue(Module("slurmd.service"), "slurmd.service", "Slurm", "slurm_state")
