"""Tests that check which mounts the arguments of the module shared_storage describe."""

from __future__ import annotations

import errno
import os

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.shared_storage import converge
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.shared_storage.mounts import MountTableEntry

from .described import LUSTRE_SOURCE


@pytest.mark.parametrize(
    ("older", "kind", "source"),
    [("file_system_id", "efs", "fs-1"), ("lustre_source", "lustre", LUSTRE_SOURCE)],
)
def test_older_arguments_of_the_module_say_the_same(older, kind, source):
    arguments = {"path": "/data", "owner": "ubuntu", "region": "us-east-1", "adopted": True}
    both = [{older: source, **arguments}, {"kind": kind, "source": source, **arguments}]
    parsed = [ArgumentSpecValidator(**converge.SPECIFICATION).validate(each) for each in both]
    assert [each.error_messages for each in parsed] == [[], []]
    first, second = (converge.described(each.validated_parameters) for each in parsed)
    assert first == second
    assert (second.mount_point, second.adopted) == ("/data", True)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"source": "fs-1"}, {"kind": "efs", "source": "fs-1"}, {"kind": "efs", "source": "fs-1", "file_system_id": "fs-1", "region": "a"}],
)
def test_the_module_needs_to_know_what_to_mount(arguments):
    parsed = ArgumentSpecValidator(**converge.SPECIFICATION).validate({"owner": "ubuntu", **arguments})
    assert parsed.error_messages


class Module:
    """A module whose commands are recorded."""

    def __init__(self, check_mode):
        self.check_mode, self.commands = check_mode, []

    def run_command(self, command, **_options):
        self.commands.append(command)
        return 0, "", ""


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize(
    ("error", "is_dead"), [(errno.ENOTCONN, True), (errno.ESTALE, True), (errno.EACCES, False), (None, False)], ids=str
)
def test_a_mount_that_nothing_serves_any_longer_is_unmounted(monkeypatch, tmp_path, error, is_dead, check_mode):
    """The process of Mountpoint for Amazon S3 may have ended. The mount table still contains the mount."""

    read = os.stat

    def stat(path, **options):
        if error and path == str(tmp_path):
            raise OSError(error, os.strerror(error), path)
        return read(path, **options)

    found = MountTableEntry(source="mountpoint-s3", kind="fuse", root="/", options="rw", port="")
    monkeypatch.setattr(converge, "current_mount", lambda path: found)
    monkeypatch.setattr(os, "stat", stat)
    module = Module(check_mode)
    assert converge.working_mount(module, str(tmp_path)) == (None if is_dead else found)
    assert module.commands == ([["umount", "--lazy", str(tmp_path)]] if is_dead and not check_mode else [])
