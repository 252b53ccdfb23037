"""Tests that reload the SSH daemon, whose service has a different name on each distribution."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.ssh_trust import sshd


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


class Offering(Module):
    """A stub of a module on a host whose sshd offers a certificate, or does not answer."""

    params = {"user": "ubuntu"}

    def __init__(self, *offers):
        super().__init__()
        self.offers, self.scanned = list(offers), []

    has_client = True

    def get_bin_path(self, name, **_options):
        return f"/usr/sbin/{name}" if self.has_client or name == "sshd" else None

    def run_command(self, command, check_rc=False):
        if command[0] != "ssh-keyscan":
            return 0, "port 22\nlistenaddress [::]:22\nlistenaddress 0.0.0.0:2222\n", ""
        self.scanned.append(command[-2:])
        offered = self.offers.pop(0) if len(self.offers) > 1 else self.offers[0]
        return 0, f"{offered}\n", ""


OWN, OTHER = f"{sshd.CERTIFICATE_TYPE} AAAAown", f"{sshd.CERTIFICATE_TYPE} AAAAother"


@pytest.mark.parametrize(
    ("offers", "problem", "warnings"),
    [([f"{OWN} comment"], False, 0), ([OTHER, OTHER, OWN], False, 0), ([OTHER], True, 0), ([""], False, 1)],
    ids=["own", "own after the reload", "other", "no answer"],
)
def test_what_clients_are_offered_decides(monkeypatch, tmp_path, offers, problem, warnings):
    """`sshd -T` prints the certificates of all authorities, but sshd offers only one for each key."""
    (tmp_path / "cert.pub").write_text(f"{OWN} root@host\n")
    monkeypatch.setattr(sshd, "HOST_CERTIFICATE", str(tmp_path / "cert.pub"))
    monkeypatch.setattr(sshd, "OFFER", 1.0)
    module = Offering(*offers)
    found = sshd.offer_problem(module)
    assert bool(found) is problem
    assert len(module.warnings) == warnings
    assert module.scanned[0] == ["22", "::1"]
    if not any(offers):
        assert ["2222", "127.0.0.1"] in module.scanned


def test_a_host_without_ssh_keyscan_says_that_the_certificate_was_not_verified(monkeypatch, tmp_path):
    (tmp_path / "cert.pub").write_text(f"{OWN} root@host\n")
    monkeypatch.setattr(sshd, "HOST_CERTIFICATE", str(tmp_path / "cert.pub"))
    module = Offering(OWN)
    module.has_client = False
    assert sshd.offer_problem(module) is None
    assert (module.scanned, len(module.warnings)) == ([], 1)
