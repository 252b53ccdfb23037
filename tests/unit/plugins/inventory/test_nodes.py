"""Tests that check which files the inventory plugin reads, and how it reports an error."""

from __future__ import annotations

from dataclasses import asdict
from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleParserError
from ansible_collections.deeplearning.cluster.plugins.inventory import nodes

NODE = nodes.Node("c-master", "c-master", "master", 1, "i-1", "c5.large", "us-east-1a", "10.0.0.4", None)
OURS = "plugin: deeplearning.cluster.nodes\ncluster: demo\n"


@pytest.mark.parametrize(
    ("name", "content", "is_ours"),
    [
        ("nodes.yml", OURS, True),
        ("a_nodes.yaml", "cluster: demo\n", True),
        ("other.yml", OURS, True),
        ("other.yaml", "---\n# our cluster\ncluster: demo\nplugin: 'deeplearning.cluster.nodes'  # live\n", True),
        ("other.yml", "plugin: amazon.aws.aws_ec2\n", False),
        ("other.yml", "vars:\n  plugin: deeplearning.cluster.nodes\n", False),
        ("other.yml", b"\xff\xfe", False),
        ("other.yml", "plugin: deeplearning.cluster.nodes2\n", False),
        ("hosts.ini", OURS, False),
    ],
)
def test_a_file_is_for_the_plugin_by_its_name_or_its_content(tmp_path, name, content, is_ours):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert nodes.InventoryModule().verify_file(str(tmp_path / name)) == is_ours
    assert not nodes.InventoryModule().verify_file(str(tmp_path / "missing.yml"))


@pytest.mark.parametrize(
    ("ends", "arguments", "error"), [(True, {"x": 1}, SystemExit), (False, {"x": 1}, AnsibleParserError), (True, {}, AnsibleParserError)]
)
def test_an_error_ends_a_command_that_is_configured_so(monkeypatch, ends, arguments, error):
    """A program that uses Ansible as a library has no command-line arguments, and gets an exception."""
    told, inventory = [], MagicMock()
    monkeypatch.setattr(nodes.constants, "INVENTORY_ANY_UNPARSED_IS_FAILED", ends)
    monkeypatch.setattr(nodes.context, "CLIARGS", arguments)
    monkeypatch.setattr(nodes.Display, "error", lambda _self, message: told.append(message))
    loader = MagicMock(load_from_file=MagicMock(side_effect=AnsibleParserError("damaged")))
    with pytest.raises(error):
        nodes.InventoryModule().parse(inventory, loader, "nodes.yml")
    message = "nodes.yml: damaged"
    inventory.set_variable.assert_called_once_with("all", "deeplearning_inventory_error", message)
    assert told == ([message] if error is SystemExit else [])


def test_processes_of_tasks_do_not_examine_the_objects_of_the_inventory(monkeypatch):
    """Ansible forks these processes after it has read the inventory."""
    done = []
    monkeypatch.setattr(nodes.InventoryModule, "_parse", lambda *_arguments: done.append("read"))
    monkeypatch.setattr(nodes.gc, "freeze", lambda: done.append("frozen"))
    nodes.InventoryModule().parse(MagicMock(), MagicMock(), "nodes.yml")
    assert done == ["read", "frozen"]


@pytest.mark.parametrize(
    ("answer", "is_used"),
    [
        (["123456789012", [asdict(NODE)]], True),
        (["210987654321", [asdict(NODE)]], False),
        (["123456789012", [{**asdict(NODE), "former": 1}]], False),
        (["123456789012", [{"name": "c-master"}]], False),
        (None, False),
    ],
)
def test_a_cache_of_another_account_or_version_is_not_used(monkeypatch, answer, is_used):
    monkeypatch.setattr(nodes.InventoryModule, "get_cached_result", lambda *_arguments: (answer is not None, answer))
    assert nodes.InventoryModule()._cached_nodes("nodes.yml", True, "123456789012") == ([NODE] if is_used else None)


def test_a_refreshed_inventory_uses_its_clients_again_for_a_while(monkeypatch):
    clock, made = iter([0.0, 10.0, 400.0, 410.0]), []
    monkeypatch.setattr(nodes, "CLIENTS", {})
    monkeypatch.setattr(nodes.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(
        nodes.InventoryModule, "client", lambda self, service, region, **_options: made.append((service, region)) or object()
    )
    monkeypatch.setattr(nodes, "limit_members", lambda client, service: None)
    first, second, third = (nodes.InventoryModule()._client("a.nodes.yml", "us-east-1", "ec2") for _round in range(3))
    assert first is second
    assert third is not first, "the credentials are read again"
    nodes.InventoryModule()._client("b.nodes.yml", "eu-west-1", "ec2")
    assert made == [("ec2", "us-east-1"), ("ec2", "us-east-1"), ("ec2", "eu-west-1")]


@pytest.mark.parametrize("name", ["ssh_args", "ssh_common_args", "ssh_extra_args"])
def test_a_space_in_the_settings_of_ssh_that_is_none_is_refused(monkeypatch, name):
    monkeypatch.setenv(f"ANSIBLE_{name.upper()}", "-C\u00a0-o ControlMaster=auto")
    with pytest.raises(AnsibleParserError, match=rf"^{name}: character 3 is U\+00A0 \(NO-BREAK SPACE\)\. Replace it"):
        nodes.configured_ssh_args()
    monkeypatch.setenv(f"ANSIBLE_{name.upper()}", "-o ControlMaster=auto")
    assert "ControlMaster=auto" in nodes.configured_ssh_args()
