"""Boxes, lids and labels: example resources for tests of plans, and a shelf that records what plans do to them."""

from __future__ import annotations

import threading

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import Kind
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Found, Ref, Wanted

BOX, LID = Address("box", "main"), Address("lid", "main")


class Shelf:
    """Records the operations on resources of the kinds below, in order."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.lock = threading.Lock()

    def note(self, text: str) -> None:
        with self.lock:
            self.done.append(text)


def create(shelf: Shelf, address: Address, properties: dict) -> Found:
    shelf.note(f"create {address} {properties}")
    return Found(address, f"{address.kind}-1", properties)


def settle(shelf: Shelf, found: Found) -> Found:
    shelf.note(f"settle {found.address}")
    return found


KINDS = {
    "box": Kind(
        "box",
        create,
        lambda shelf, found: shelf.note(f"delete {found.address}"),
        update=lambda shelf, found, _properties, changed: shelf.note(f"update {found.address} {sorted(changed)}"),
        settle=settle,
        updatable=frozenset({"colour"}),
        deleted_after=("lid",),
    ),
    "lid": Kind("lid", create, lambda shelf, found: shelf.note(f"delete {found.address}"), settle=settle, advice="Take another lid."),
    "label": Kind("label", create, lambda shelf, found: shelf.note(f"delete {found.address}")),
}
WANTED = [Wanted(LID, {"box": Ref(BOX)}), Wanted(BOX, {"colour": "red", "size": 3})]
