"""Tests of the findings about host names."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import CheckedNode
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import gpu_counts, host_names

from .problems import severities


def metadata(folder, *workers):
    document = {"cluster": "c", "generation": "g", "number": 1, "workers": list(workers), "gpu_count": 8}
    (folder / "metadata.json").write_text(json.dumps(document))
    return CheckedNode("ubuntu", metadata_directory=str(folder))


def test_names_resolve_to_the_addresses_of_the_metadata(tmp_path, monkeypatch):
    monkeypatch.setattr(host_names.socket, "gethostbyname", {"c-master": "10.0.0.1", "deeplearning-worker1": "10.0.0.1"}.__getitem__)
    node = metadata(tmp_path, {"number": 1, "name": "c-master", "address": "10.0.0.1"})
    assert host_names.decide_names(host_names.read_names(node), node) == []


def test_names_that_resolve_to_something_else(tmp_path, monkeypatch):
    def resolve(name):
        if name == "c-worker2":
            raise OSError("unknown")
        return "10.0.0.9"

    monkeypatch.setattr(host_names.socket, "gethostbyname", resolve)
    node = metadata(tmp_path, {"number": 2, "name": "c-worker2", "address": "10.0.0.2"})
    found = host_names.decide_names(host_names.read_names(node), node)
    assert severities(found) == ["restart", "restart"]
    assert found[0][1].startswith("c-worker2: resolves to no address, but the host's address is 10.0.0.2.")
    assert found[1][1].startswith("deeplearning-worker2: resolves to 10.0.0.9, but")


@pytest.mark.parametrize(
    "content", [None, "no json", "[]", '{"cluster": 1}', '{"cluster": 1, "generation": 1, "number": 1, "workers": 3, "gpu_count": 1}']
)
def test_a_host_without_metadata_is_not_configured(tmp_path, content):
    if content is not None:
        (tmp_path / "metadata.json").write_text(content)
    node = CheckedNode("ubuntu", metadata_directory=str(tmp_path))
    ((severity, message),) = host_names.decide_names(host_names.read_names(node), node)
    assert severity == "restart"
    assert message.startswith(f"{tmp_path}/metadata.json: ")
    assert gpu_counts.read_configured_gpus(node) in (None, 1)
