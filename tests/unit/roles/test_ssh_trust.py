"""Tests of when the role ssh_trust publishes the public key of the authority, and of what it knows about the hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.ansible_templates import evaluated, loaded, task_of

ROLE = Path(__file__).resolve().parents[3] / "roles" / "ssh_trust"
DEFAULTS, INTERNAL = (loaded(ROLE / folder / "main.yml") for folder in ("defaults", "vars"))
KEY = "ssh-ed25519 AAAA"


@pytest.mark.parametrize(
    ("published", "is_published_again"),
    [
        ({"public_keys": [KEY]}, False),
        ({"public_keys": [f"{KEY} of an earlier run"]}, False),
        ({"public_keys": ["ssh-ed25519 BBBB demo"]}, True),
        ({"public_keys": [KEY, "ssh-ed25519 BBBB demo"]}, True),
        ({"public_keys": []}, True),
        ({"msg": "AccessDenied"}, False),
    ],
)
def test_a_key_that_differs_from_the_published_one_is_published(published, is_published_again):
    conditions = task_of(ROLE / "tasks" / "main.yml", "Publish the current public key of the certificate authority")["when"]
    given = {"__ssh_trust_public_key": f"{KEY} demo", "__ssh_trust_published": published}
    assert evaluated(conditions, INTERNAL, **given, ansible_check_mode=False) == is_published_again
    assert not evaluated(conditions, INTERNAL, **given, ansible_check_mode=True)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"deeplearning_account": "1", "deeplearning_region": "us-east-1"}, "~/.ssh/deeplearning/1/us-east-1/demo"),
        ({}, "~/.ssh/deeplearning/demo"),
        ({"deeplearning_ssh_directory": "/node"}, "/node"),
        ({"deeplearning_ssh_directory": "/node", "hostvars": {"localhost": {"deeplearning_ssh_directory": "/controller"}}}, "/controller"),
    ],
)
def test_the_ssh_files_are_in_the_directory_of_the_cluster(variables, expected):
    given = {"deeplearning_cluster": "demo", "hostvars": {"localhost": {}}, **variables}
    assert evaluated("{{ __ssh_trust_directory }}", DEFAULTS, INTERNAL, given) == expected


@pytest.mark.parametrize(("number", "more"), [(1, ["deeplearning-master"]), ("1", ["deeplearning-master"]), (2, [])])
def test_a_certificate_is_for_the_names_of_the_host(number, more):
    node = {"instance_id": "i-1", "hostname": "demo-1", "number": number, "private_ip": "10.0.0.1"}
    found = evaluated("{{ ssh_trust_principals }}", DEFAULTS, INTERNAL, __ssh_trust_node=node, inventory_hostname="demo-1")
    assert found == ["i-1", "demo-1", f"deeplearning-worker{number}", "10.0.0.1", *more]


@pytest.mark.parametrize(
    ("table", "expected"), [({}, ["i-1", "i-2"]), ({"a": {"instance_id": "i-8"}, "b": {"instance_id": "i-9"}}, ["i-8", "i-9"])]
)
def test_the_ids_of_instances_come_from_the_inventory_plugin_if_it_was_used(table, expected):
    hosts = {"a": {"deeplearning_instance_id": "i-1"}, "b": {"deeplearning_instance_id": "i-2"}}
    given = {"groups": {"trainers": ["a", "b"]}, "hostvars": hosts, "__ssh_trust_table": table}
    assert evaluated("{{ __ssh_trust_instance_ids }}", INTERNAL, **given) == expected


FILES = {"cached": False, "unknown": [], "authority": KEY, "gone": []}


@pytest.mark.parametrize(
    ("files", "authority", "given_ids", "is_asked", "is_first"),
    [
        ({}, {"private_key": "x"}, [], True, False),
        ({"cached": True}, {"private_key": "x"}, [], False, False),
        ({}, {"private_key": "x", "changed": True}, [], False, False),
        ({}, {}, [], False, False),
        ({}, {"private_key": "x"}, ["i-1"], False, False),
        ({"gone": ["i-2"]}, {}, [], False, True),
        ({"gone": ["i-2"]}, {"private_key": "x"}, [], True, False),
        ({"unknown": ["i-1"]}, {"private_key": "x"}, [], True, True),
        ({"authority": ""}, {"private_key": "x"}, [], True, True),
    ],
)
def test_hosts_are_asked_for_keys_only_if_certificates_can_prove_them(files, authority, given_ids, is_asked, is_first):
    given = {
        "__ssh_trust_files": {**FILES, **files},
        "__ssh_trust_authority": authority,
        "__ssh_trust_instance_ids": ["i-1"],
        "__ssh_trust_given_ids": given_ids,
        "ssh_trust_authority_private_key": "",
    }
    assert evaluated("{{ [__ssh_trust_ask, __ssh_trust_is_first_contact] }}", INTERNAL, **given) == [is_asked, is_first]
