"""Tests that the mounts of nodes are read from their tags."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage import kinds

LUSTRE_SOURCE = "fs-2.fsx.us-east-1.amazonaws.com@tcp:/abcdefgh"


def test_tags_tell_what_nodes_mount():
    told = {"deeplearning:lustre-source": LUSTRE_SOURCE, "deeplearning:file-system": "fs-1", "deeplearning:file-system-tls": "preferred"}
    assert kinds.told({**told, "Name": "bert-Master"}) == [
        {"kind": "efs", "source": "fs-1", "encrypt_in_transit": None},
        {"kind": "lustre", "source": LUSTRE_SOURCE},
    ]
    assert kinds.told({"deeplearning:file-system-tls": "true"}) == [], "nothing is mounted"
    assert kinds.told({"deeplearning:file-system": "fs-1", "deeplearning:file-system-tls": "none"}) == [
        {"kind": "efs", "source": "fs-1"}
    ], "an invalid value is ignored"
