# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Whether the account has what the nodes are to be launched from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .._aws import CloudError, is_missing
from .._network.zones import available, offering, zones
from .._nodes import images
from .._nodes.definition import COMPONENT as NODES
from .._plan.resources import Found
from ..unit import Request
from .base import Validator

try:
    from botocore.exceptions import ClientError
except ImportError:
    pass  # AnsibleAWSModule reports it


class KeyPair(Validator):
    name = "key_pair"
    components = frozenset({NODES})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, name = request.cloud, request.options["key_name"]
        if not name:
            return
        try:
            cloud.facts("ec2", "describe_key_pairs", "KeyPairs", KeyNames=[name])
        except ClientError as error:
            if not is_missing(error):
                raise
            yield f"key_name: there is no key pair '{name}' in {cloud.region}. Create or import it, or give another name."


class InstanceTypeOffered(Validator):
    """Zones are a question of their own: only those that there are are asked."""

    name = "instance_type_offered"
    components = frozenset({NODES})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        cloud, instance_type = request.cloud, request.options["instance_type"]
        if not instance_type:
            return
        offered = offering(cloud, instance_type)
        if not offered:
            yield f"instance_type: {instance_type} is not offered in {cloud.region}. No zone of it has that type; check the name."
            return
        missing = [zone for zone in zones(request, found) if zone not in offered and zone in available(cloud)]
        if missing:
            yield f"instance_type: {instance_type} is not offered in {', '.join(missing)}. It is offered in {', '.join(sorted(offered))}."


class ImageFits(Validator):
    name = "image"
    components = frozenset({NODES})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        options = request.options
        if not options["image_id"] and not options["image_parameter"]:
            return
        try:
            image = images.find(request.cloud, images.choose(request, found).image_id)
        except CloudError as error:
            yield str(error)
            return
        smallest = images.root_volume_size(image)
        if options["root_volume_size"] < smallest:
            yield f"root_volume_size: {options['root_volume_size']} GiB cannot hold {image['ImageId']}, which needs {smallest}."
