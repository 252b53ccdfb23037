"""Inventories for tests, as plugins on the controller see them."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any


class HostVars(dict[str, Mapping[str, Any]]):
    """The variables of hosts, and the inventory that contains them. `nodes` are the hosts that the inventory plugin has found."""

    def __init__(self, hosts: Mapping[str, Mapping[str, Any]], nodes: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        super().__init__({**hosts, **(nodes or {})})
        of_all = {"deeplearning_inventory_file": "nodes.yml", "deeplearning_cluster": "c"} if nodes else {}
        own = {name: SimpleNamespace(vars=variables) for name, variables in self.items()}
        self._inventory = SimpleNamespace(hosts=own, groups={"all": SimpleNamespace(vars=of_all)})


def node(number: int, **changes: Any) -> dict[str, Any]:
    """Return the inventory variables of a node of cluster `c`."""
    return {
        "deeplearning_number": number,
        "deeplearning_hostname": f"c-{number}",
        "deeplearning_private_ip": f"10.0.0.{number}",
        "deeplearning_instance_id": f"i-{number:017x}",
        "deeplearning_instance_type": "p4d.24xlarge",
        "ansible_host": f"10.0.0.{number}",
        "ansible_user": "ubuntu",
        "ansible_ssh_args": "-o StrictHostKeyChecking=yes",
        **changes,
    }
