# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests of finding errors in the tags of a cluster's instances."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.membership import problems
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.nodes import AUTO_SCALING

from .described import instance


def test_all_that_is_wrong_is_said_at_once():
    tags = {"deeplearning:cluster": "theirs", "deeplearning:file-system": "fs-1 /etc", "deeplearning:file-system-address": "10.0.0.1\n"}
    found = problems(
        "bert", [instance("i-a", "bert-workers", 1, "0", more=tags), instance("i-z", "other-workers", 1, "0", more=tags)], AUTO_SCALING
    )
    assert len(found) == 4
    assert all(text.startswith("Instance i-a") for text in found)
