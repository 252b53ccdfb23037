# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests of the default values of the role shared_storage. The definition consists of the controller's variables."""

from __future__ import annotations

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
