# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.action.ssh_files import _write, check_key_files


@pytest.mark.parametrize("name", ["id", "id.pub"])
def test_a_key_file_or_a_public_key_is_enough(tmp_path, name):
    (tmp_path / name).touch()
    check_key_files([SimpleNamespace(private_key_file=str(tmp_path / "id")), SimpleNamespace(private_key_file=None)])


def test_a_key_file_that_does_not_exist_is_told_before_a_login(tmp_path):
    with pytest.raises(ValueError, match=r"private_key_file: '.*/id' is not a file on the controller\. In the inventory file, specify"):
        check_key_files([SimpleNamespace(private_key_file=str(tmp_path / "id"))])


def test_new_directories_are_private(tmp_path):
    """Before a user's first SSH connection, the directory ~/.ssh does not exist."""
    file = tmp_path / ".ssh" / "deeplearning" / "demo" / "config"
    _write(file, b"Host demo-master\n")
    assert {oct(parent.stat().st_mode & 0o777) for parent in list(file.parents)[:3]} == {"0o700"}
