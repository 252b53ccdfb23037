# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators for the image of the nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Mapping

from ..._common.shared_storage.mounts import REQUIRED_TYPES, TYPES
from ..client import ClusterError
from ..component import Request
from ..message_parts import P
from ..node_group import images, instance_types
from ..node_group.instance_types import InstanceType
from ..plan.resources import Found
from ..storage import registry
from ..tags import NODES_COMPONENT
from ..validator import Level, Validator


class ImageFits(Validator):
    """Checks that the image matches the instance type. Another validator checks whether the instance type exists."""

    name = "image"
    for_launches = True
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        # All instance types with the same architecture use the same image
        for instance_type in {item.architecture: item for item in instance_types.in_definition(request)}.values():
            yield from self._check(request, found, instance_type)

    def _check(self, request: Request, found: Sequence[Found], instance_type: InstanceType) -> Iterator[str]:
        options = request.options
        try:
            chosen = images.choose(request, found, instance_type.architecture)
        except ClusterError as error:
            yield str(error)
            return
        image = images.find(request.cloud, chosen.image_id)
        if image is None:
            yield (
                images.missing(request.cloud, chosen.image_id)
                if options["image_id"]
                else f"{P}image_update: the image {chosen.image_id} for {chosen.source} no longer exists. "
                f"To get a new image, set {P}image_update: true."
            )
            return
        if image.get("Architecture", instance_type.architecture) not in instance_type.architectures:
            yield (
                f"{P}{_image_option(options)}: {chosen.image_id} is for {image['Architecture']}, but {instance_type.name} is "
                f"{' or '.join(sorted(instance_type.architectures))}. Choose an image and an instance type with the same architecture."
            )
        system = images.unsupported_system(image)
        if system:
            yield (
                f"{P}{_image_option(options)}: {chosen.image_id} ({image['Name']}) runs {system}, which Ansible and the storage clients "
                "do not support. Choose an Ubuntu, Debian or Amazon Linux 2023 image."
            )
        smallest = images.root_volume_size(image)
        if options["root_volume_size"] < smallest:
            yield (
                f"{P}root_volume_size: {options['root_volume_size']} GiB is too small for {image['ImageId']}, which needs {smallest} GiB. "
                "Specify at least that size."
            )


def _image_option(options: Mapping[str, Any]) -> str:
    return next(name for name in images.OPTIONS if options[name])


class ImageAccelerators(Validator):
    """Checks that the image has a driver for the GPUs or other accelerators of the instance type."""

    name = "image_accelerators"
    for_launches = True
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        for instance_type, image in _unlisted(request, found):
            without = images.without_driver(instance_type.accelerators)
            if without:
                yield (
                    f"{P}instance_type: {instance_type.name} has {', '.join(without)} accelerators, for which {image['ImageId']} "
                    f"({image['Name']}) has no driver. Choose another instance type, or set {P}image_id or {P}image_parameter to an image "
                    f"for {instance_type.family}."
                )


class ImageFamilies(Validator):
    """Warns if AWS does not list the instance family for a Deep Learning AMI.

    For accelerators that the image's driver does not support, another validator reports an error.
    """

    name = "image_families"
    level = Level.WARNING
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        base = request.options["image_framework"] == images.BASE
        advice = "" if base else f", such as {P}image_framework: {images.BASE} with your own Python environment"
        for instance_type, image in _unlisted(request, found):
            if not images.without_driver(instance_type.accelerators):
                yield (
                    f"{P}instance_type: AWS does not list {instance_type.family} for the image {image['ImageId']} ({image['Name']}), whose "
                    f"driver may not support {', '.join(instance_type.accelerators)}. Choose another image{advice}, or another instance "
                    "type."
                )


class StorageClients(Validator):
    """Checks that nodes can mount the storage: that the image, or a package of its distribution, contains the client."""

    name = "storage_clients"
    for_launches = True
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        chosen = [chosen_image(request, found, item) for item in instance_types.in_definition(request)]
        plain = {image["ImageId"]: image["Name"] for image in chosen if image and images.is_plain_debian(image)}
        for mount in registry.mounts(request, found):
            client = TYPES[REQUIRED_TYPES[mount.kind]]
            if plain and not client.packages.get("Debian"):
                listed = ", ".join(f"{identifier} ({name})" for identifier, name in plain.items())
                yield (
                    f"{P}{mount.option}: nodes cannot mount {mount.mount_point}, because neither the image {listed} nor its distribution "
                    f"contains {client.helper}. Set {P}image_os: amazon-linux-2023, or set {P}image_id to your own image with this client."
                )


def _unlisted(request: Request, found: Sequence[Found]) -> Iterator[tuple[InstanceType, Mapping[str, Any]]]:
    """Yield the instance types with accelerators whose family is not listed for their image, and the image."""
    for instance_type in instance_types.in_definition(request):
        image = chosen_image(request, found, instance_type) if instance_type.accelerators else None
        if image and not images.is_listed(image, instance_type.family):
            yield instance_type, image


def chosen_image(request: Request, found: Sequence[Found], instance_type: InstanceType) -> Mapping[str, Any] | None:
    """Return EC2's description of the image for an instance type, or None if there is no such image. `ImageFits` reports such images."""
    try:
        return images.find(request.cloud, images.choose(request, found, instance_type.architecture).image_id)
    except ClusterError:
        return None
