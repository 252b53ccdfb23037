"""Tests that all tables of storage kinds are complete."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage import kinds
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.registry import STORAGE
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage import mounts


def test_every_kind_of_storage_is_known_everywhere():
    """Each kind has a component, tags, and an entry in the module that mounts it."""
    assert set(kinds.KINDS) == set(mounts.KINDS)
    assert len(STORAGE) == len(kinds.KINDS)
