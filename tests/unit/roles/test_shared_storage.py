# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests of the role shared_storage: its default values, and directories on a host's own disk.

The definition consists of the controller's variables.
"""

from __future__ import annotations

import getpass
import json
import subprocess
import sys
from pathlib import Path

import jinja2
import pytest
import yaml
from ansible.module_utils.parsing.convert_bool import boolean

DEFAULTS = yaml.safe_load((Path(__file__).resolve().parents[3] / "roles" / "shared_storage" / "defaults" / "main.yml").read_text())


@pytest.mark.parametrize(
    ("default", "option"),
    [
        ("shared_storage_file_system_adopted", "deeplearning_file_system_id"),
        ("shared_storage_file_system_adopted", "deeplearning_file_system"),
        ("shared_storage_lustre_adopted", "deeplearning_lustre_file_system_id"),
    ],
)
def test_what_the_definition_names_is_adopted(default, option):
    def adopted(definition):
        template = jinja2.Template(DEFAULTS[default])
        return template.render({"hostvars": {"localhost": definition}, option: "fs-found-by-the-inventory"})

    assert adopted({option: "fs-0123456789abcdef0"}) == "True"
    assert adopted({option: ""}) == adopted({}) == "False"


@pytest.mark.parametrize(
    ("efs", "file_system_id", "lustre_source", "own_disk"),
    [
        (None, "", "", False),
        (True, "", "", False),
        (False, "", "", True),
        ("no", "", "", True),
        (False, "fs-1", "", False),
        (False, "", "fs-1.fsx.us-east-1.amazonaws.com@tcp:/x", False),
    ],
)
def test_jobs_are_on_the_own_disk_of_a_host_without_a_file_system(efs, file_system_id, lustre_source, own_disk):
    environment = jinja2.Environment()
    environment.filters["bool"] = boolean
    variables = {"shared_storage_file_system_id": file_system_id, "shared_storage_lustre_source": lustre_source}
    definition = {} if efs is None else {"deeplearning_efs": efs}
    assert environment.from_string(DEFAULTS["shared_storage_own_disk"]).render({**variables, **definition}) == str(own_disk)


def test_only_a_missing_directory_on_the_own_disk_gets_an_owner_and_a_mode(tmp_path):
    existing, missing = tmp_path / "existing", tmp_path / "missing"
    existing.mkdir(mode=0o700)
    hosts = {path.name: {"shared_storage_path": str(path)} for path in (existing, missing)}
    # The host is this machine, and this user may not be allowed to use sudo.
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}
    variables = {**local, "ansible_user": getpass.getuser(), "deeplearning_region": "us-east-1", "deeplearning_efs": False}
    (tmp_path / "inventory.json").write_text(json.dumps({"all": {"hosts": hosts, "vars": variables}}))
    role = {"import_role": {"name": "deeplearning.cluster.shared_storage"}}
    (tmp_path / "play.json").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [role]}]))
    done = subprocess.run(
        ["ansible-playbook", "-i", "inventory.json", "play.json"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.stat().st_mode & 0o777 for path in (existing, missing)] == [0o700, 0o755]
