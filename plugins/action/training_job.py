# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Sends a job's code to the first host in one transfer, then runs the module of the same name."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.deeplearning.cluster.plugins.module_utils.metadata import generation

LEFT_OUT = {".git", "__pycache__"}


class ActionModule(ActionBase):
    """Adds to the task's arguments what only the controller knows: the code and the cluster of the inventory."""

    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        variables = task_vars or {}
        arguments = dict(self._task.args)
        state = arguments.get("state", "started")
        if state != "stopped" and not arguments.get("generation"):
            arguments["generation"] = inventory_generation(variables)
        if state == "prepared" and arguments.get("efa") is None:
            arguments["efa"] = variables.get("deeplearning_has_efa", False)
        if state == "prepared" and is_first(variables):
            root, names = code_to_send(arguments, [os.getcwd(), self._loader.get_basedir()])
            if not self._task.check_mode:
                arguments["archive"] = self._send(root, names)
        try:
            return self._execute_module("deeplearning.cluster.training_job", module_args=arguments, task_vars=variables)
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)

    def _send(self, root: str, names: list[str]) -> str:
        """Copy the named entries of a directory to the host as one archive and return its path there."""
        if self._connection._shell.tmpdir is None:
            self._make_tmp_path()
        remote = self._connection._shell.join_path(self._connection._shell.tmpdir, "code.tar.gz")
        with tempfile.NamedTemporaryFile(suffix=".tar.gz") as local:
            write_archive(local.name, root, names)
            self._transfer_file(local.name, remote)
        self._fixup_perms2((self._connection._shell.tmpdir, remote))
        return remote


def inventory_generation(variables: Mapping[str, Any]) -> str:
    """Return the generation that hosts have when they were told the cluster that the inventory describes."""
    cluster = variables.get("deeplearning_cluster_name")
    if not cluster:
        raise AnsibleActionFail("the inventory has no deeplearning_cluster_name for this host: use the nodes inventory or give generation")
    members = [host for host in variables["hostvars"].values() if host.get("deeplearning_cluster_name") == cluster]
    return generation(cluster, [{"number": host["deeplearning_number"], "address": host["deeplearning_private_ip"]} for host in members])


def is_first(variables: Mapping[str, Any]) -> bool:
    """Return whether the host of this task is the one with the lowest number in the play."""
    hostvars = variables["hostvars"]
    numbers = [int(hostvars[host]["deeplearning_number"]) for host in variables["ansible_play_hosts_all"]]
    return int(variables["deeplearning_number"]) == min(numbers)


def code_to_send(arguments: Mapping[str, Any], bases: list[str]) -> tuple[str, list[str]]:
    """Return the directory and the names in it that are the job's code. Raises AnsibleActionFail when the script is missing."""
    source, script = arguments.get("source"), arguments.get("script") or ""
    if source:
        root = find(source, bases)
        if root is None or not os.path.isdir(root):
            raise AnsibleActionFail(f"source {source!r} is not a directory on the controller")
        if script and (os.path.isabs(script) or not os.path.isfile(os.path.join(root, script))):
            raise AnsibleActionFail(f"script {script!r} is not a file in source {source!r}: give its path inside that directory")
        return root, sorted(set(os.listdir(root)) - LEFT_OUT)
    if not script:  # a command that is on the hosts
        return os.curdir, []
    path = find(script, bases)
    if path is None or not os.path.isfile(path):
        raise AnsibleActionFail(f"script {script!r} is not a file on the controller (looked in {', '.join(bases)})")
    return os.path.dirname(path), [os.path.basename(path)]


def find(path: str, bases: list[str]) -> str | None:
    """Return the first of the paths that exists when a relative one is taken from each of the bases."""
    expanded = os.path.expanduser(path)
    candidates = [os.path.join(base, expanded) for base in bases]
    return next((os.path.abspath(candidate) for candidate in candidates if os.path.exists(candidate)), None)


def write_archive(path: str, root: str, names: list[str]) -> None:
    """Write a tar file of the named entries of a directory, with nobody's user ids and without what is not code."""

    def entry(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        return None if os.path.basename(info.name) in LEFT_OUT else info

    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name in names:
            archive.add(os.path.join(root, name), arcname=name, filter=entry)
