"""Programs run as transient units of systemd."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts import transient_units
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.transient_units import TransientUnit, UnitError

UNIT = TransientUnit("a.service", "An a", ["/bin/sh", "a"], ["User=b", "Slice=c.slice"])


class Systemd:
    """A stub of systemd, which answers each command with the same status, output and error."""

    def __init__(self, *answer):
        self.answer, self.commands = answer, []

    def __call__(self, command):
        self.commands.append(command)
        return self.answer


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_unit_is_started_and_only_kept_on_request(is_kept):
    systemd = Systemd(0, "", "")
    UNIT.start(systemd, is_kept=is_kept)
    assert systemd.commands[:-1] == [["systemctl", "reset-failed", "a.service"]] * is_kept
    first, rest = systemd.commands[-1][:2], systemd.commands[-1][2:]
    assert (first, rest[-2:]) == (["systemd-run", "--quiet"], ["/bin/sh", "a"])
    expected = {"--unit=a.service", "--description=An a", "--service-type=exec", "--property=User=b", "--property=Slice=c.slice"}
    assert set(rest[:-2]) == expected | ({"--collect"} if not is_kept else set())


def test_what_systemd_says_about_a_unit_that_cannot_start_is_told():
    with pytest.raises(UnitError, match=r"^systemd-run could not start a\.service: Unit a\.service already exists\.$"):
        UNIT.start(Systemd(1, "", "Unit a.service already exists.\n"))


@pytest.mark.parametrize(
    ("shown", "state"),
    [("active", "active"), ("activating", "active"), ("deactivating", "active"), ("failed", "failed"), ("inactive", "inactive")],
)
def test_a_unit_is_active_until_it_has_ended(shown, state):
    assert transient_units.unit_state(Systemd(0, f"{shown}\n", ""), "a.service") == state


def test_an_error_names_the_command():
    with pytest.raises(UnitError, match=r"^systemctl stop a\.service failed: no bus$"):
        transient_units.systemctl(Systemd(1, "", "no bus\n"), "stop", "a.service")
