# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Code that all kinds of file systems share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Mapping

from ..client import AwsClient, ClusterError, if_exists
from ..component import Component
from ..iam_actions import IamActions
from ..message_parts import P
from ..own_resources import with_keys
from ..plan.planning import Kind
from ..plan.resources import Address, Found
from ..tags import NETWORK_COMPONENT

FileSystemDescription = Mapping[str, Any]


@dataclass(frozen=True)
class FileSystems:
    """The file systems of one AWS service.

    `is_usable` returns whether a description belongs to a file system of this kind that is not being deleted. `address` identifies
    the file system that the cluster uses.
    """

    service: str
    component: str
    address: Address
    # The name of this kind of file system in messages.
    name: str
    # The option that contains the ID of an adopted file system.
    option: str
    is_usable: Callable[[FileSystemDescription], bool]

    @property
    def former(self) -> Address:
        """Return the `Address` that the cluster's own file system has while the cluster uses an adopted file system."""
        return Address(self.address.kind, "former")

    def find(self, found: Iterable[Found]) -> Found | None:
        return find(found, self.address)

    def is_adopted(self, found: Iterable[Found]) -> bool:
        file_system = self.find(found)
        return file_system is not None and file_system.adopted

    def component_of(self, kinds: tuple[Kind, ...], iam_actions: IamActions, **hooks: Any) -> Component:
        """Return the component that provisions these file systems."""
        kind = self.address.kind
        return Component(
            self.component,
            kinds,
            iam_actions,
            **hooks,
            reads_after=(NETWORK_COMPONENT,),
            data_kinds=frozenset({kind}),
            billed={kind: self.name},
        )

    def describe(self, cloud: AwsClient, **ids: Any) -> dict[str, Any] | None:
        describe = partial(cloud.retrieve, self.service, "describe_file_systems", "FileSystems", **ids)
        return next((dict(item) for item in if_exists(describe, "BadRequest", "ValidationException") or () if self.is_usable(item)), None)

    def owned(self, cloud: AwsClient) -> dict[str, Any] | None:
        """Return the cluster's own file system, or None if there is none.

        Raises ClusterError if several file systems have the cluster's tags.
        """
        described = cloud.retrieve(self.service, "describe_file_systems", "FileSystems")
        matches = [dict(item) for item in described if self.is_own(cloud, item) and self.is_usable(item)]
        if len(matches) > 1:
            ids = " and ".join(item["FileSystemId"] for item in matches)
            raise ClusterError(
                f"{P}{self.option}: {ids} are tagged as the {self.name} of {cloud.cluster}. "
                "Specify one of them in this option, or remove the tags from all but one."
            )
        return matches[0] if matches else None

    def is_own(self, cloud: AwsClient, description: FileSystemDescription) -> bool:
        return any(with_keys(cloud, [description], self.component))


@dataclass(frozen=True)
class Lookup:
    """Looks up resources of one type.

    `name` is the name of the type in messages. `arguments` returns the arguments of the API call for an ID.
    """

    name: str
    service: str
    operation: str
    key: str
    arguments: Callable[[str], dict[str, Any]]
    not_found: tuple[str, ...] = ()

    def settle(
        self, cloud: AwsClient, found: Found, is_available: Callable[[FileSystemDescription], bool], *, timeout: float | None = None
    ) -> Found:
        call, arguments = self._call(cloud), self.arguments(found.id)

        def available() -> Found | None:
            return found if is_available(cloud.once_visible(call, *self.not_found, **arguments)[self.key][0]) else None

        return cloud.wait_until(f"{self.name} {found.id} to become available", available, timeout=timeout)

    def wait_until_gone(self, cloud: AwsClient, found: Found, *, timeout: float | None = None) -> None:
        """Wait until AWS no longer lists the resource, or lists it as deleted."""
        call, arguments = self._call(cloud), self.arguments(found.id)

        def gone() -> bool:
            answer = if_exists(call, **arguments)
            return answer is None or all(item.get("LifeCycleState") == "deleted" for item in answer[self.key])

        cloud.wait_until(f"the deletion of {self.name} {found.id}", gone, timeout=timeout)

    def _call(self, cloud: AwsClient) -> Callable[..., Any]:
        call: Callable[..., Any] = getattr(cloud.client(self.service), self.operation)
        return call


def find(found: Iterable[Found], address: Address) -> Found | None:
    return next((item for item in found if item.address == address), None)


def comparable_key(wanted: str | None, arn: str | None) -> str | None:
    """Return the key with this ARN in the form that the definition uses: either the key's ID or its ARN."""
    same = bool(wanted and arn) and str(arn).endswith(str(wanted).rpartition("/")[2])
    return wanted if same else arn
