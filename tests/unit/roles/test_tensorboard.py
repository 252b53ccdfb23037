"""Tests of the user who runs TensorBoard, and of the files that this user can read."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.ansible_templates import evaluated, loaded

ROLE = Path(__file__).resolve().parents[3] / "roles" / "tensorboard"
DEFAULTS, INTERNAL = (loaded(ROLE / folder / "main.yml") for folder in ("defaults", "vars"))


@pytest.mark.parametrize(
    ("user", "present", "absent"), [("", {"DynamicUser=yes", "ProtectHome=yes"}, "User="), ("ubuntu", {"User=ubuntu"}, "ProtectHome=")]
)
def test_only_a_user_that_is_specified_can_read_home_directories(user, present, absent):
    unit = evaluated((ROLE / "templates" / "tensorboard.service.j2").read_text(), DEFAULTS, INTERNAL, tensorboard_user=user)
    assert present <= {*unit.splitlines()}
    assert not [line for line in unit.splitlines() if line.startswith(absent)]
    assert 'RequiresMountsFor="/efs/jobs"' in unit.splitlines()
