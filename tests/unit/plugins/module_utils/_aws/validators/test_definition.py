"""Tests that invalid input is refused with the name of the option, the value, and the allowed values."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validators import definition, ssh_access

NODES = {
    "instance_type": "c5.large",
    "worker_count": 1,
    "key_name": "k",
    "root_volume_size": 100,
    "metadata_hop_limit": 1,
    "mount_point": "/efs",
}


@pytest.mark.parametrize("name", ["a", "bert", "gpt-2", "a" * 30])
def test_good_names(name):
    assert not list(definition.check_cluster_name(name))


@pytest.mark.parametrize("name", ["", "Bert", "2fast", "a_b", "a-", "a" * 31, "a b", "sg-1", "bert-nodes-a", "bert-nodes"])
def test_bad_names(name):
    assert list(definition.check_cluster_name(name)) == [
        f"cluster: '{name}' is not a valid name. Use 1 to 30 lowercase letters, digits and hyphens. The name must start with a letter, "
        "but not with sg-, must not contain -nodes-, and must not end with -nodes or a hyphen."
    ]


@pytest.mark.parametrize("cidr", ["10.1.0.0/16", "10.1.0.0/99"])
def test_the_range_of_a_network(cidr):
    findings = list(definition.check_network_cidr(cidr))
    assert [finding.startswith("network_cidr: ") for finding in findings] == [True] * (cidr != "10.1.0.0/16")


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({"instance_type": ""}, "instance_type: missing. Specify a value, for example p4d.24xlarge."),
        ({"key_name": None}, "key_name: missing. Specify a value, for example my-key."),
        ({"worker_count": None}, "worker_count: missing. Specify the number of workers besides the master."),
        (
            {"worker_count": -1},
            "worker_count: -1 is not valid. Specify the number of workers besides the master. With 0, the master is the only node.",
        ),
        ({"metadata_hop_limit": 65}, "metadata_hop_limit: 65 is not valid. Specify a number from 1 to 64."),
        ({"metadata_hop_limit": 0}, "metadata_hop_limit: 0 is not valid. Specify a number from 1 to 64."),
        ({"spares": -1}, "spares: -1 is not valid. Specify the number of spares, or 0."),
        ({"root_volume_size": 0}, "root_volume_size: 0 GiB is too small. Specify at least 1 GiB."),
        ({"mount_point": "efs"}, "mount_point: 'efs' is not a valid mount point. Use an absolute path"),
        ({"mount_point": "/efs/"}, "mount_point: '/efs/' is not a valid mount point. Use an absolute path"),
    ],
)
def test_nodes(change, finding):
    (found,) = definition.check_nodes({**NODES, **change})
    assert found == finding or ("mount_point" in change and found.startswith(finding))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"worker_count": 500},
        {"worker_count": 0},
        {"spares": 2},
        {"root_volume_size": 8},
        {"metadata_hop_limit": 64},
    ],
)
def test_what_a_group_of_nodes_can_do_with(change):
    assert list(definition.check_nodes({**NODES, **change})) == []


def test_all_that_is_missing_is_said_at_once():
    assert len(list(definition.check_nodes({"root_volume_size": 0, "metadata_hop_limit": 0, "mount_point": ""}))) == 6


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"team": "speech", "Kostenstelle/EU": "Müller & Co"}, "'Kostenstelle/EU' is not valid. Use 1 to 128"),
        ({"": "x"}, "'' is not valid. Use 1 to 128"),
        ({"k": "v" * 257}, "up to 256 in values"),
        ({"AWS:x": "y"}, "'AWS:x' must not start with aws:"),
        ({"deeplearning:number": "1"}, "must not start with aws: or deeplearning:"),
        ({"k" * 129: "v"}, "' is not valid. Use 1 to 128"),
        ({"name": "x"}, "'name' duplicates another key"),
        ({"NodeType": "x"}, "'NodeType' duplicates another key, because IAM ignores case in tag keys. Rename or remove it."),
        ({"Team": "a", "team": "b"}, "'team' duplicates another key"),
        ({f"k{number}": "v" for number in range(44)}, "44 tags exceed the limit. Specify at most 42"),
    ],
)
def test_tags(wanted, message):
    (finding,) = definition.check_tags(wanted, dict.fromkeys(["deeplearning:file-system", "deeplearning:file-system-tls"], ""))
    assert message in finding


def test_what_nodes_mount_takes_tags():
    wanted = {f"k{number}": "v" for number in range(43)}
    assert list(definition.check_tags(wanted, {"deeplearning:file-system": ""})) == []
    assert list(definition.check_tags(wanted, dict.fromkeys(["deeplearning:file-system", "deeplearning:lustre-source"], ""))) != []
    assert list(definition.check_tags({}, {"deeplearning:mount": "x" * 256})) == []
    (finding,) = definition.check_tags({}, {"deeplearning:mount": "x" * 257})
    assert "tags: the tag 'deeplearning:mount' describes a mount and has 257 characters" in finding


def test_good_tags():
    assert not list(definition.check_tags({"team": "Sprache und Übersetzung", "cost-center": "a_b@c=1+2/3:4.5", "empty": ""}))
    assert not list(definition.check_tags({"k": "v" * 256, "k" * 128: "v"}))


@pytest.mark.parametrize("name", ["s3://data", "data/part", "arn:aws:s3:::data", "Data", "ab", "*", "data--use1-az4--x-s3"])
def test_buckets(name):
    (finding,) = definition.check_buckets("read_buckets", ["data-1.example", name])
    assert f"read_buckets: '{name}' is not a valid bucket name" in finding


REQUEST = {
    "cluster": "bert",
    "tags": {},
    "network_cidr": "10.0.0.0/16",
    "ssh_cidrs": ["203.0.113.0/24"],
    "allow_ssh_from_anywhere": False,
    "master_public_address": True,
    "security_group_ids": {},
    "read_buckets": [],
    "write_buckets": [],
    "prices": True,
    "price_warning": None,
    "enforce_price_warning": False,
    **NODES,
}
LIMIT = definition.MOST_TAGS - len(definition.OWN_TAGS) - 1  # one more tag describes a mount
MANY = {f"k{number}": "v" for number in range(LIMIT + 1)}
FEWER = {f"k{number}": "v" for number in range(LIMIT - definition.IDLE_TAGS + 1)}


@pytest.mark.parametrize(
    ("validator", "change", "findings"),
    [
        (definition.TagNames(), {"tags": MANY}, [f"tags: {LIMIT + 1} tags exceed the limit. Specify at most {LIMIT}."]),
        (definition.TagNames(), {"tags": {}}, []),
        (definition.TagNames(), {"tags": FEWER}, []),
        (definition.TagNames(), {"tags": FEWER, "idle_after": "30m"}, [f"tags: {len(FEWER)} tags exceed the limit. "]),
        (
            definition.NetworkCidr(),
            {"network_cidr": "10.0.0.0/8"},
            ["network_cidr: '10.0.0.0/8' is too large, because the largest VPC is a /16. "],
        ),
        (definition.NetworkCidr(), {}, []),
        (ssh_access.SshCidrs(), {"ssh_cidrs": []}, ["ssh_cidrs: no address range is set. "]),
        (ssh_access.SshCidrs(), {"ssh_cidrs": [], "master_public_address": False}, []),
        (ssh_access.SshCidrs(), {"ssh_cidrs": [], "security_group_ids": {"ssh": "sg-1"}}, []),
        (ssh_access.SshCidrs(), {"ssh_cidrs": ["0.0.0.0/0"]}, ["ssh_cidrs: 0.0.0.0/0 would open SSH"]),
        (ssh_access.SshCidrs(), {"ssh_cidrs": ["0.0.0.0/0"], "allow_ssh_from_anywhere": True}, []),
        (definition.Buckets(), {"read_buckets": ["s3://a"]}, ["read_buckets: 's3://a' is not"]),
        (definition.Buckets(), {"write_buckets": ["s3://b"]}, ["write_buckets: 's3://b' is not"]),
        (definition.EnforcedPrice(), {}, []),
        (definition.EnforcedPrice(), {"price_warning": 0.5}, []),
        (definition.EnforcedPrice(), {"price_warning": 0, "enforce_price_warning": True}, []),
        (definition.EnforcedPrice(), {"price_warning": -0.5}, ["price_warning: -0.5 is negative. "]),
        (
            definition.EnforcedPrice(),
            {"enforce_price_warning": True},
            ["enforce_price_warning: there is no price to enforce. Set price_warning, "],
        ),
        (
            definition.EnforcedPrice(),
            {"enforce_price_warning": True, "price_warning": 600, "prices": False},
            ["enforce_price_warning: there is no price to enforce, because the option prices is false. Remove one of these options."],
        ),
        (definition.Nodes(), {"worker_count": -1}, ["worker_count: -1 is not valid."]),
        (definition.Nodes(), {}, []),
    ],
)
def test_validators_check_the_options_of_the_request(monkeypatch, validator, change, findings):
    request, found = SimpleNamespace(options={**REQUEST, **change}), [object()]
    mounts = {(id(request), id(found)): [SimpleNamespace(tags={"deeplearning:mount:1": "x"})]}
    monkeypatch.setattr(definition.registry, "mounts", lambda of, known: mounts[id(of), id(known)])
    told = list(validator.check(request, found))
    assert len(told) == len(findings)
    assert all(message.startswith(beginning) for message, beginning in zip(told, findings))
