"""Tests that launch templates define the mounts."""

from __future__ import annotations

import json
from types import SimpleNamespace

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Mount
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import definition
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Computed, Found, Ref, resolve
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage import mounts


def test_nodes_know_no_more_of_storage_than_mounts():
    """Tags and the boot script depend only on the mounts, not on the kinds of storage, once the IDs are known."""
    tape, disk = Address("tape", "main"), Address("disk", "main")

    def mount(kind, address, mount_point):
        return Mount(
            kind,
            mount_point,
            "mount_point",
            {kind: Ref(address)},
            Computed(lambda first, second: mounts.lustre(f"{first}@tcp:/{second}", mount_point), (Ref(address), Ref(address, "name"))),
        )

    settings = SimpleNamespace(mounts=(mount("tape", tape, "/tape"), mount("disk", disk, "/disk")), login_user="ubuntu")
    known = {address: Found(address, f"id-{address.kind}", {}, {"name": f"name-{address.kind}"}) for address in (tape, disk)}
    assert resolve(definition._storage_tags(settings), known) == {"tape": "id-tape", "disk": "id-disk"}
    script = json.loads(resolve(definition._user_data(settings), known).split("\n", 1)[1])["write_files"][0]["content"]
    for kind in ("tape", "disk"):
        assert f"add 'id-{kind}@tcp:/name-{kind} /{kind} lustre" in script
    assert "known after apply" in repr(resolve(definition._user_data(settings), {tape: known[tape]}))
