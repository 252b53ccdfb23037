"""Tests that check which mounts the arguments of the module shared_storage describe."""

from __future__ import annotations

import errno
import os

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage import converge
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage.mount_table import MountTableEntry

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
    """A module whose commands are recorded. `stat` fails with an error."""

    def __init__(self, check_mode, error):
        self.check_mode, self.error, self.commands = check_mode, error, []

    def run_command(self, command, **_options):
        self.commands.append(command)
        return 0, "", f"stat: cannot statx '/data': {os.strerror(self.error)}" if self.error else ""


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize(
    ("error", "is_dead"),
    [(errno.ENOTCONN, True), (errno.ECONNABORTED, True), (errno.ESTALE, True), (errno.EACCES, False), (None, False)],
    ids=str,
)
def test_a_mount_that_nothing_serves_any_longer_is_unmounted(monkeypatch, error, is_dead, check_mode):
    """The process of Mountpoint for Amazon S3 may have ended. The mount table still contains the mount."""
    found = MountTableEntry(source="mountpoint-s3", kind="fuse", root="/", options="rw", port="")
    monkeypatch.setattr(converge, "current_mount", lambda path: found)
    module = Module(check_mode, error)
    assert converge.working_mount(module, "/data") == (None if is_dead else found)
    looked, *more = module.commands
    assert looked == ["timeout", "--signal=KILL", "20", "stat", "/data"], "a server that does not answer does not hold the run"
    assert more == ([["umount", "--lazy", "/data"]] if is_dead and not check_mode else [])
