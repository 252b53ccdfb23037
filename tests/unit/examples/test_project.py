# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests that the template of a project has the files that the README shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", ["ansible.cfg"])
def test_the_template_has_the_file_of_the_readme(name):
    shown = re.search(rf"^`{re.escape(name)}`.*?^```\w+\n(.*?)^```", (REPOSITORY / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert shown
    assert (REPOSITORY / "examples" / "project" / name).read_text() == shown[1]
