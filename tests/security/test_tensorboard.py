"""L15: who answers on TensorBoard's port is TensorBoard's own service, and no job that was there first."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

TASKS = Path(__file__).resolve().parents[2] / "roles/tensorboard/tasks/started.yml"

# As ss prints them
OWN = 'LISTEN 0 128 127.0.0.1:606 0.0.0.0:* users:(("python3",pid=42,fd=7))'
FOREIGN = 'LISTEN 0 128 127.0.0.1:606 0.0.0.0:* users:(("python3",pid=421,fd=3))'
SHARED = 'LISTEN 0 128 127.0.0.1:606 0.0.0.0:* users:(("python3",pid=42,fd=7),("python3",pid=43,fd=7))'


@pytest.fixture(scope="module")
def block():
    (found,) = [task for task in yaml.safe_load(TASKS.read_text()) if task["name"] == "Wait until TensorBoard answers"]
    return found


@pytest.mark.parametrize(
    ("pid", "sockets", "is_own"),
    [
        ("42", [OWN], True),
        ("42", [SHARED], True),
        ("42", [FOREIGN], False),
        ("42", [OWN, FOREIGN], False),
        ("42", [], False),
        ("0", [FOREIGN], False),
        ("", [FOREIGN], False),
    ],
)
def test_only_the_service_s_own_process_may_have_the_port(block, tmp_path, pid, sockets, is_own):
    for name, text in {"systemctl": pid, "ss": "\n".join(sockets)}.items():
        (tmp_path / f"{name}.answer").write_text(text + "\n" if text else "")
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/calls\ncat {tmp_path}/{name}.answer\n')
        program.chmod(0o755)
    (check,) = [task for task in block["block"] if task["name"] == "Check that the answer is the service's own"]
    argv = [str(word) for word in check["ansible.builtin.command"]["argv"]]
    words = {"{{ __tensorboard_unit }}": "deeplearning-tensorboard.service", "{{ tensorboard_port }}": "606"}
    done = subprocess.run([words.get(word, word) for word in argv], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=False)
    assert (done.returncode == 0) is is_own
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == [
        "systemctl show --property=MainPID --value deeplearning-tensorboard.service",
        "ss -Hltnp src 127.0.0.1:606",
    ]


def test_the_check_is_made_before_anybody_is_sent_there(block):
    tasks = yaml.safe_load(TASKS.read_text())
    assert block["block"][-1]["name"] == "Check that the answer is the service's own"
    assert block["rescue"][-1]["ansible.builtin.fail"]
    assert [task["name"] for task in tasks].index("Open a tunnel") > tasks.index(block)


def test_no_job_can_take_the_port_while_the_service_starts_again():
    defaults = yaml.safe_load((TASKS.parents[1] / "defaults/main.yml").read_text())
    assert defaults["tensorboard_port"] < 1024, "ordinary users cannot have it"
    assert defaults["tensorboard_local_port"] >= 1024, "the operator is one"
    unit = (TASKS.parents[1] / "templates/tensorboard.service.j2").read_text()
    assert "AmbientCapabilities=CAP_NET_BIND_SERVICE\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE\n" in unit
