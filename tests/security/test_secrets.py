"""Secrets stay out of the nodes' logs, and unpacked files have no setuid or setgid bits (L1 and L9 of the security review)."""

from __future__ import annotations

import io
import os
import tarfile

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset import archives
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.start import unpack
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.answers import NodeAction

from .nodes import Nodes


@pytest.fixture
def nodes(tmp_path):
    return Nodes(tmp_path)


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
    archives.unpack(str(tmp_path / "set.tar"), str(tmp_path / "here"), "set.tar")
    modes = {name: os.stat(tmp_path / "here/folder" / name).st_mode & 0o7777 for name in ("tool", "other", "text")}
    assert modes == {"tool": 0o755, "other": 0o755, "text": 0o644}


def test_code_is_unpacked_without_setuid_bits():
    member = tarfile.TarInfo("tool")
    for shared in (False, True):
        member.mode = 0o6755
        assert unpack.readable(member, shared).mode == 0o755


def answer(number, **more):
    """Return what an honest node returns when it is prepared for a job."""
    host = {
        "name": f"deeplearning-worker{number}",
        "address": f"10.0.0.{number}",
        "number": number,
        "gpus": [],
        "interface": "ens5",
        "efa": False,
    }
    result = {"changed": False, "job_state": "new", "job_directory": "/efs/jobs/digits", "other_jobs": [], "queues": [], "processes": []}
    return {**result, "excluded": "", "host": host, **more}


LIE = {"host": answer(2)["host"]}


@pytest.mark.parametrize(
    ("second", "variables", "receivers"),
    [
        ({}, {}, [2, 3]),
        ({"excluded": "Xid 79"}, {}, [2]),
        ({"excluded": "Xid 79"}, {"training_job_min_hosts": 2}, []),
        (LIE, {}, []),
        ({}, {"training_job_state": "printed"}, []),
        ({}, {"__training_job_predict": True}, []),
        ({"job_state": "running"}, {}, [2]),
    ],
    ids=["honest", "excluded", "too few hosts", "wrong identity", "printed", "predicted", "already running"],
)
def test_only_hosts_that_start_the_job_receive_its_secrets_and_its_key(nodes, second, variables, receivers):
    job = {
        "training_job_name": "digits",
        "training_job_command": ["true"],
        "training_job_secrets": {"TOKEN": "hunter2-hunter2"},
        "training_job_min_hosts": 1,
        "training_job_wait": False,
        "training_job_directory": "/efs/jobs",
        "__training_job_key": "k3y" * 14,
    }
    role = {"include_role": {"name": "deeplearning.cluster.training_job"}, "vars": {**job, **variables}}
    play = {"hosts": "trainers", "gather_facts": False, "vars": {"ansible_become": False}, "tasks": [role]}
    hosts = {f"bert-worker{number}": nodes.node(number, given) for number, given in ((2, answer(2)), (3, answer(3, **second)))}
    done = nodes.play([play], hosts)
    received = {number: nodes.received(number) for number in (2, 3)}
    assert all("digits" in text for text in received.values()), done.stdout + done.stderr
    for secret in ("hunter2-hunter2", '"key": '):
        assert [number for number, text in received.items() if secret in text] == receivers, done.stdout + done.stderr
