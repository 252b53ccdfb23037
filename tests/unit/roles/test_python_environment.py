"""Tests of the file that activates an environment in a login shell."""

from __future__ import annotations

import getpass
import shlex
import subprocess
from pathlib import Path

import jinja2
import pytest

TEMPLATE = Path(__file__).resolve().parents[3] / "roles/python_environment/templates/login.sh.j2"


def activated(prefix, *, shell, user):
    """Return PATH, VIRTUAL_ENV, CONDA_PREFIX and CONDA_DEFAULT_ENV after a shell has sourced the file."""
    environment = jinja2.Environment(autoescape=False, keep_trailing_newline=True)
    environment.filters["quote"] = shlex.quote
    text = environment.from_string(TEMPLATE.read_text()).render(prefix=str(prefix), python_environment_name="bert", ansible_user=user)
    show = 'printf "%s\\n" "$PATH" "$VIRTUAL_ENV" "$CONDA_PREFIX" "$CONDA_DEFAULT_ENV"'
    done = subprocess.run(
        [shell, "-eu", "-c", f"VIRTUAL_ENV= CONDA_PREFIX= CONDA_DEFAULT_ENV=\n{text}\n{show}"],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.fixture
def prefix(tmp_path):
    folder = tmp_path / "a 'b"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").touch(mode=0o755)
    return folder


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_login_shell_of_the_user_has_the_environment(prefix, shell):
    user = getpass.getuser()
    assert activated(prefix, shell=shell, user=user) == [f"{prefix}/bin:/usr/bin:/bin", str(prefix), "", ""]
    (prefix / "conda-meta").mkdir()
    assert activated(prefix, shell=shell, user=user) == [f"{prefix}/bin:/usr/bin:/bin", "", str(prefix), "bert"]


def test_other_users_and_missing_environments_are_left_alone(prefix):
    nothing = ["/usr/bin:/bin", "", "", ""]
    assert activated(prefix, shell="sh", user="somebody") == nothing
    assert activated(prefix / "gone", shell="sh", user=getpass.getuser()) == nothing
