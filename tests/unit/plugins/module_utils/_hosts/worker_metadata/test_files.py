"""Tests of the files that the module describes."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.files import FileState, HostFiles
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.worker_metadata import files

PARAMS = {
    "cluster": "demo",
    "number": 1,
    "workers": [
        {"number": 2, "name": "demo-worker2", "address": "10.0.1.30"},
        {"number": 1, "name": "demo-master", "address": "10.0.0.4"},
    ],
    "user": "ubuntu",
    "efs_mount": "/efs",
    "directory": "/opt/deeplearning",
    "worker_ip_file": None,
}


@pytest.mark.parametrize(
    ("content", "lines"), [("names", ["deeplearning-worker1", "deeplearning-worker2"]), ("addresses", ["10.0.0.4", "10.0.1.30"])]
)
def test_the_list_of_workers_has_names_or_addresses(content, lines):
    described = {file.path: file.content for file in files.described({**PARAMS, "workers_content": content}, 0, HostFiles())}
    assert described["/opt/deeplearning/workers"].splitlines() == lines


def test_a_further_file_of_addresses_belongs_to_the_user():
    params = {**PARAMS, "workers_content": "names", "worker_ip_file": "/home/ubuntu/worker_ip_file"}
    described = {file.path: file for file in files.described(params, 0, HostFiles())}
    addresses = described["/home/ubuntu/worker_ip_file"]
    assert (addresses.content, addresses.owner) == ("10.0.0.4\n10.0.1.30\n", "ubuntu")
    assert described["/opt/deeplearning/workers"].content.startswith("deeplearning-worker1\n")


class OtherHost(HostFiles):
    """A host on which /etc/environment is the only file."""

    def __init__(self, environment):
        self.environment = environment

    def find(self, path):
        return self.environment if path == files.ENVIRONMENT else None

    def exists(self, path):
        return self.find(path) is not None


@pytest.mark.parametrize(
    ("found", "others", "mode"),
    [(FileState("http_proxy=http://me:secret@proxy", 0o640, 0, 0), "http_proxy=http://me:secret@proxy\n", 0o640), (None, "", 0o644)],
)
def test_other_lines_of_the_environment_stay_and_are_not_shown(found, others, mode):
    described = {file.path: file for file in files.described({**PARAMS, "workers_content": "names"}, 0, OtherHost(found))}
    environment = described["/etc/environment"]
    assert environment.content.startswith(others + "# BEGIN deeplearning.cluster\nDEEPLEARNING_WORKERS_COUNT=2\n")
    assert (environment.mode, environment.owner) == (mode, "root")
    assert environment.shown(environment.content) == environment.content.removeprefix(others)
    gone = files.environment_file(OtherHost(FileState(environment.content, mode, 0, 0)), "")
    assert gone.content == others
