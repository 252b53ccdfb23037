"""The inventory and the number of API requests grow in proportion to the number of nodes."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ansible_commands
import pytest
from benchmarks.simulated_nodes import recorded, simulated_nodes

from .conftest import REGION

# The longest variable contains the ssh arguments. The limit is twice the length of these arguments with usual paths.
LONGEST_VARIABLE = 2500


def listed(answers: Mapping[str, str], count: int, folder: Path, name: str, *arguments: str) -> tuple[str, Counter[str]]:
    """Return the output of `ansible-inventory --list` for a cluster of `count` nodes, and how many requests of each kind it took."""
    (folder / "nodes.yml").write_text(json.dumps({"plugin": "deeplearning.cluster.nodes", "cluster": name, "region": REGION}))
    with simulated_nodes(answers, count) as (url, requests):
        command = ["ansible-inventory", "-i", str(folder / "nodes.yml"), "--list", *arguments]
        environment = {**os.environ, "AWS_ENDPOINT_URL": url, "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true"}
        done = ansible_commands.run(command, environment, folder)
    assert done.returncode == 0, done.stderr[:2000]
    return done.stdout, Counter(requests)


@pytest.fixture
def answers(cloud: Any, run: Callable[..., Any], definition: dict[str, Any], name: str) -> dict[str, str]:
    run("cluster", **definition)
    return recorded(cloud, name)


def test_each_node_adds_the_same(answers: dict[str, str], name: str, tmp_path: Path) -> None:
    small, _requests = listed(answers, 10, tmp_path, name)
    large, requests = listed(answers, 1000, tmp_path, name)
    assert 0.95 < len(large) / 100 / len(small) < 1.05
    hosts = json.loads(large)["_meta"]["hostvars"]
    assert len(hosts) == 1000
    longest = max(((len(json.dumps(value)), key) for host in hosts.values() for key, value in host.items()), default=(0, ""))
    assert longest[0] < LONGEST_VARIABLE, longest
    assert requests == {"DescribeInstances": 1, "DescribeAutoScalingGroups": 1, "GetCallerIdentity": 1}


def test_no_group_contains_the_nodes_variables(answers: dict[str, str], name: str, tmp_path: Path) -> None:
    """AWX reads the inventory in this form."""
    groups, requests = listed(answers, 2001, tmp_path, name, "--export")
    variables = {key: group.get("vars", {}) for key, group in json.loads(groups).items() if key != "_meta"}
    assert "deeplearning_cluster" in variables["all"]
    assert len(json.dumps(variables)) < LONGEST_VARIABLE
    assert requests == {"DescribeInstances": 3, "DescribeAutoScalingGroups": 1, "GetCallerIdentity": 1}
