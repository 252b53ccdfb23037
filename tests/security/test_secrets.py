"""Secrets stay out of the nodes' logs, and unpacked files have no setuid or setgid bits (L1 and L9 of the security review)."""

from __future__ import annotations

import io
import os
import tarfile

from ansible.plugins.action import ActionBase
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset import tools
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job import unpack
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.answers import NodeAction


def test_no_module_on_nodes_writes_its_arguments_to_the_syslog(monkeypatch):
    class Action(NodeAction, module="dataset"):
        """An action whose module runs on a node."""

    def update(self, module_name, module_args, task_vars, *_unused, **_options):
        module_args["_ansible_no_log"] = False

    monkeypatch.setattr(ActionBase, "_update_module_args", update)
    arguments = {"source": "https://example.org/set.tar?X-Amz-Signature=secret"}
    Action.__new__(Action)._update_module_args("deeplearning.cluster.dataset", arguments, {})
    assert arguments["_ansible_no_log"] is True


def test_unpacked_files_are_without_setuid_and_setgid_bits(tmp_path):
    with tarfile.open(tmp_path / "set.tar", "w") as archive:
        for name, mode in (("tool", 0o4755), ("other", 0o2711), ("text", 0o644)):
            member = tarfile.TarInfo(f"folder/{name}")
            member.mode = mode
            archive.addfile(member, io.BytesIO(b""))
    tools.unpack(str(tmp_path / "set.tar"), str(tmp_path / "here"), "set.tar")
    modes = {name: os.stat(tmp_path / "here/folder" / name).st_mode & 0o7777 for name in ("tool", "other", "text")}
    assert modes == {"tool": 0o755, "other": 0o755, "text": 0o644}


def test_code_is_unpacked_without_setuid_bits():
    member = tarfile.TarInfo("tool")
    for shared in (False, True):
        member.mode = 0o6755
        assert unpack.readable(member, shared).mode == 0o755
