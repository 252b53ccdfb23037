"""Operators: users of a local cloud who have only the policies of one playbook."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import iam_account, iam_policy_files
from local_cloud.testing import LocalCloud

# The policies of playbooks whose policies have different names. Playbooks that only find the nodes and log in use the policy `status`
POLICY = {
    "rotate_authority": "configure",
    "sge": "configure",
    "slurm": "configure",
    **dict.fromkeys(("all_reduce", "cleanup", "export", "health", "logs", "node_logs", "report", "ssh", "tensorboard"), "status"),
}


def policies(playbook: str, cluster: str, adopted: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the policies of a playbook for a cluster, or for the clusters that match a pattern."""
    account = iam_account.Account(cluster, adopted=tuple(adopted))
    policy = POLICY.get(playbook, playbook)
    found = [each for name, each in iam_policy_files.policies(account).items() if re.fullmatch(rf"{policy}(-\d+)?", name)]
    assert found, playbook
    return found


def operator(cloud: LocalCloud, playbook: str, cluster: str, adopted: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment of an operator who has only the playbook's policies for the cluster."""
    name = f"{cluster.rstrip('*')}-{POLICY.get(playbook, playbook)}"
    return cloud.operator(name, *policies(playbook, cluster, adopted))


class Operators:
    """Users who each have one playbook's policies for the clusters of one test."""

    def __init__(self, cloud: LocalCloud, cluster: str, patch: pytest.MonkeyPatch) -> None:
        self._cloud, self._cluster, self._patch = cloud, cluster, patch

    def be(self, playbook: str) -> None:
        """Set the environment so that later AWS calls in this process are made by a user who has only the playbook's policies."""
        for name, value in operator(self._cloud, playbook, f"{self._cluster}*").items():
            if name.startswith("AWS_"):
                self._patch.setenv(name, value)


@pytest.fixture
def operators(cloud: LocalCloud, name: str, monkeypatch: pytest.MonkeyPatch) -> Operators:
    return Operators(cloud, name, monkeypatch)
