"""Tests of the role shared_storage: when jobs are on the own disk of a host, and directories on a host's own disk.

The definition consists of the controller's variables.
"""

from __future__ import annotations

import getpass
import json
import os
import sys
from pathlib import Path

import ansible_commands
import jinja2
import pytest
import yaml
from ansible.module_utils.parsing.convert_bool import boolean

INTERNAL = yaml.safe_load((Path(__file__).resolve().parents[3] / "roles" / "shared_storage" / "vars" / "main.yml").read_text())


@pytest.mark.parametrize(
    ("definition", "paths", "own_disk"),
    [
        ({}, [], False),
        ({"deeplearning_efs": True}, [], False),
        ({"deeplearning_efs": False}, [], True),
        ({"deeplearning_efs": "no"}, [], True),
        ({"deeplearning_efs": False}, ["/efs"], False),
        ({"deeplearning_efs": False}, ["/bucket"], True),
    ],
)
def test_jobs_are_on_the_own_disk_of_a_host_that_mounts_nothing_in_their_place(definition, paths, own_disk):
    environment = jinja2.Environment()
    environment.filters["bool"] = boolean
    variables = {"__shared_storage_of_jobs": "/efs", "shared_storage_mounts": [{"path": path} for path in paths], **definition}
    assert environment.from_string(INTERNAL["__shared_storage_own_disk"]).render(variables) == str(own_disk)


def test_only_a_missing_directory_on_the_own_disk_gets_an_owner_and_a_mode(tmp_path):
    existing, missing = tmp_path / "existing", tmp_path / "missing"
    existing.mkdir(mode=0o700)
    hosts = {path.name: {"deeplearning_mount_point": str(path)} for path in (existing, missing)}
    # The host is this machine, and this user may not be allowed to use sudo.
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}
    variables = {**local, "ansible_user": getpass.getuser(), "deeplearning_region": "us-east-1", "deeplearning_efs": False}
    (tmp_path / "inventory.json").write_text(json.dumps({"all": {"hosts": hosts, "vars": variables}}))
    role = {"import_role": {"name": "deeplearning.cluster.shared_storage"}}
    (tmp_path / "play.json").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [role]}]))
    done = ansible_commands.run(["ansible-playbook", "-i", "inventory.json", "play.json"], os.environ, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.stat().st_mode & 0o777 for path in (existing, missing)] == [0o700, 0o755]
