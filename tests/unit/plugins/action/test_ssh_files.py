from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from ansible_collections.deeplearning.cluster.plugins.action.ssh_files import ActionModule, _write, check_key_files, delete_empty, learn
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.ssh_files import (
    KnownHosts,
    SshNode,
    known_hosts_file,
    parse_known_hosts,
)


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


@pytest.mark.parametrize(("others", "left"), [((), ()), (("deeplearning/1/us-east-1/other/config",), ("deeplearning/1/us-east-1/other",))])
def test_only_the_directory_of_the_cluster_and_empty_parents_are_deleted(tmp_path, others, left):
    directory = tmp_path / "deeplearning/1/us-east-1/demo"
    for path in (directory / "config", directory / "known_hosts", *(tmp_path / other for other in others)):
        _write(path, b"x\n")
    action = ActionModule(MagicMock(check_mode=False), *(MagicMock() for _argument in range(5)))
    assert action._delete(directory)
    assert not action._delete(directory)
    assert not directory.exists()
    assert all((tmp_path / path).exists() for path in left)
    assert (tmp_path / "deeplearning").exists() == bool(left)
    assert tmp_path.exists()


def test_a_directory_outside_the_default_layout_leaves_its_parents(tmp_path):
    _write(tmp_path / "ssh/demo/config", b"x\n")
    delete_empty(tmp_path / "ssh/demo")
    assert (tmp_path / "ssh/demo").exists(), "it is not empty"
    (tmp_path / "ssh/demo/config").unlink()
    delete_empty(tmp_path / "ssh/demo")
    assert not (tmp_path / "ssh/demo").exists()
    assert (tmp_path / "ssh").exists()


def test_during_a_rotation_known_hosts_has_both_authorities():
    """The keys of hosts stay, because nodes still have certificates of the previous authority."""
    old, new = (f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'A' * 42}{letter}" for letter in "AE")
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHost"
    before = KnownHosts((old,), (), {"i-1": (key,)})
    arguments = {"answers": {}, "host_keys": [], "revoked": [], "former": None, "forget_authority": False}
    nodes = [SshNode("demo-master", "i-1", "10.0.0.1", "ubuntu")]
    known, _gone = learn(before, nodes, {**arguments, "authority": f"{new} demo\n{old} demo"})
    assert parse_known_hosts(known_hosts_file(known, ["i-1"])) == known == KnownHosts((new, old), (), {"i-1": (key,)})
    after, _gone = learn(known, nodes, {**arguments, "authority": f"{new} demo"})
    assert after == KnownHosts((new,), (), {"i-1": (key,)})
    other, _gone = learn(before, nodes, {**arguments, "authority": f"{new} demo"})
    assert other.keys == {"i-1": ()}, "keys that were learned under another authority are not trusted"
