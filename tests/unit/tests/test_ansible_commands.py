"""Tests of commands in forked processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import ansible_commands
import pytest
from local_cloud.testing import wait_until

COMMAND = ["ansible-playbook", "-i", "localhost,", "play.yml", "-e", "given=7"]


@pytest.fixture
def folder(tmp_path):
    tasks = [{"ansible.builtin.command": "echo {{ given }}"}, {"ansible.builtin.fail": {"msg": "on purpose"}}]
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    play = {"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": tasks}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    return tmp_path


def test_status_and_output_are_those_of_a_process_of_its_own(folder):
    own = subprocess.run(COMMAND, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    for _time in range(2):
        done = ansible_commands.run(COMMAND, os.environ, folder)
        assert (done.returncode, done.stdout, done.stderr) == (own.returncode, own.stdout, own.stderr)
    assert "on purpose" in own.stdout + own.stderr


def test_a_setting_that_ansible_reads_when_it_is_imported_has_an_effect(folder):
    ansible_commands.run(COMMAND, {**os.environ, "ANSIBLE_LOG_PATH": str(folder / "log")}, folder)
    assert "on purpose" in (folder / "log").read_text()


def test_all_processes_of_a_command_can_be_killed(folder):
    sleeping = f'{sys.executable} -c \'import os, time; open("pid", "w").write(str(os.getpid())); time.sleep(300)\''
    (folder / "play.yml").write_text((folder / "play.yml").read_text().replace('"echo {{ given }}"', json.dumps(sleeping)))

    def kill(pid):
        wait_until(lambda: (folder / "pid").exists() and (folder / "pid").read_text())
        ansible_commands.kill(pid)

    assert ansible_commands.run(COMMAND, os.environ, folder, started=kill).returncode == -signal.SIGKILL
    command_line = Path("/proc", (folder / "pid").read_text(), "cmdline")
    wait_until(lambda: not command_line.exists() or not command_line.read_bytes())  # a process that nobody has waited for has none


def test_modules_contain_their_bytecode(folder):
    (folder / "library").mkdir()
    (folder / "library" / "origin.py").write_text(
        "from ansible.module_utils import basic\nbasic.AnsibleModule({}).exit_json(file=basic.__file__)\n"
    )
    interpreter = f"ansible_python_interpreter={sys.executable}"
    command = ["ansible", "localhost", "-i", "localhost,", "-c", "local", "-e", interpreter, "-M", "library", "-m", "origin"]
    assert "/ansible/module_utils/basic.pyc" in ansible_commands.run(command, os.environ, folder).stdout
