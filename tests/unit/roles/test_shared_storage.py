# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests that storage counts as adopted only if the definition names it. The definition consists of the controller's variables."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest
import yaml

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
