# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The interface between the inventory and the services that launch the nodes of clusters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Mapping, Protocol

from .iam_actions import IamActions
from .pricing.charges import Product

# An instance as EC2 describes it.
Instance = Mapping[str, Any]


class Reader(Protocol):
    """Reads data about one cluster from AWS. `AwsClient` implements this interface."""

    cluster: str

    def client(self, service: str) -> Any:
        """Return the SDK client of a service."""

    def retrieve(self, service: str, operation: str, key: str, **arguments: Any) -> list[Any]:
        """Return all items from all pages of a describe or list call."""


@dataclass(frozen=True)
class NodeService:
    """A service that launches the nodes of clusters. Only data that AWS itself sets identifies an instance as a node.

    `instances(reader)` returns the running instances that are nodes of the cluster.
    `group_of(cluster, instance)` returns the group of an instance, `master` or `workers`, or None if the instance is not a node.
    `launcher(cluster, group)` returns the name that messages use for the Auto Scaling group or EMR cluster of a group's nodes.
    `former(reader, since, current)` returns `instance_id`, `cause`, `replacement`, `launched_at` and `left_at` for each instance that left
    the cluster at or after the time `since`, in the order in which the instances left. `current` contains the IDs of instances that are in
    the cluster now. Times are in seconds since 1970, or None if they are unknown.
    `products(node)` returns the products that AWS charges for while a node is running, with their quantities. `node` has the fields of
    `Node`, or some of them.
    """

    instances: Callable[[Reader], list[Instance]]
    group_of: Callable[[str, Instance], str | None]
    launcher: Callable[[str, str], str]
    # Advice for the case in which several masters are running.
    second_master: str
    former: Callable[[Reader, datetime, Collection[str]], list[dict[str, Any]]]
    products: Callable[[Mapping[str, Any]], Iterable[tuple[Product, float]]]
    # The default login user of the nodes.
    login_user: str
    # The IAM actions that `instances` needs.
    iam_actions: IamActions
    former_actions: IamActions
