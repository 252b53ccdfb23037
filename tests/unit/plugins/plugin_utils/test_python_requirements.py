"""Tests that check how the controller reads requirements files."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.python_requirements import read_requirements


@pytest.mark.parametrize("line", ["-r base.txt", "--constraint=pins.txt", "-e .", "./wheels/a.whl", "-cpins.txt"])
def test_requirements_that_need_other_files_are_refused(tmp_path, line):
    (tmp_path / "requirements.txt").write_text(f"torch==2.7\n{line}\n")
    with pytest.raises(AnsibleActionFail, match=f"'requirements.txt': line 2, '{line}', refers to another file"):
        read_requirements("requirements.txt", ["/nowhere", str(tmp_path)])


def test_requirements_are_read_on_the_controller(tmp_path):
    text = "--index-url https://example.com/simple\ntorch==2.7 ; python_version > '3'\nown @ https://example.com/own.whl\n"
    (tmp_path / "requirements.txt").write_text(text)
    assert read_requirements("requirements.txt", ["/nowhere", str(tmp_path)]) == text
    with pytest.raises(AnsibleActionFail, match=r"'other.txt' is not a file on the controller \(searched in /nowhere\)"):
        read_requirements("other.txt", ["/nowhere"])
