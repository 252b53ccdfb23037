"""The files that the module describes."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.files import Host
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
    described = {file.path: file.content for file in files.described({**PARAMS, "workers_content": content}, 0, Host())}
    assert described["/opt/deeplearning/workers"].splitlines() == lines


def test_a_further_file_of_addresses_belongs_to_the_user():
    params = {**PARAMS, "workers_content": "names", "worker_ip_file": "/home/ubuntu/worker_ip_file"}
    described = {file.path: file for file in files.described(params, 0, Host())}
    addresses = described["/home/ubuntu/worker_ip_file"]
    assert (addresses.content, addresses.owner) == ("10.0.0.4\n10.0.1.30\n", "ubuntu")
    assert described["/opt/deeplearning/workers"].content.startswith("deeplearning-worker1\n")
