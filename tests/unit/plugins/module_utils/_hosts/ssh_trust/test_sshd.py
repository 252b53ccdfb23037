"""Tests that reload the SSH daemon, whose service has a different name on each distribution."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.ssh_trust import sshd


class Module:
    """A stub of a module, with the units that are active on the host."""

    def __init__(self, *active):
        self.active, self.reloaded, self.warnings = active, [], []

    def run_command(self, command, check_rc=False):
        if command[1] == "reload":
            assert check_rc
            self.reloaded.append(command[2])
            return 0, "", ""
        assert command[:3] == ["systemctl", "is-active", "--quiet"]
        return 0 if command[3] in self.active else 3, "", ""

    def warn(self, message):
        self.warnings.append(message)


@pytest.mark.parametrize(
    ("active", "reloaded"),
    [(["ssh.service"], "ssh.service"), (["sshd.service"], "sshd.service"), (["ssh.service", "sshd.service"], "ssh.service")],
    ids=["Debian", "Amazon Linux", "Debian with an alias"],
)
def test_the_service_of_the_distribution_is_reloaded(active, reloaded):
    module = Module(*active)
    sshd.reload_daemon(module)
    assert (module.reloaded, module.warnings) == ([reloaded], [])


def test_a_daemon_that_does_not_run_reads_the_files_at_its_next_start():
    module = Module()
    sshd.reload_daemon(module)
    assert module.reloaded == []
    assert module.warnings == ["Neither ssh.service nor sshd.service is running. sshd will read the new files at its next start."]
