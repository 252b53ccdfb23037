# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Validators that check only the definition, without API calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._common.shared_storage import mounts
from ..component import Request
from ..message_parts import P
from ..network.addresses import AddressPlanError, network
from ..node_group.definition import OWN_TAGS
from ..plan.resources import Found
from ..storage import registry
from ..tags import CLUSTER_NAME, EMR_COMPONENT, INSTANCE_ROLE_COMPONENT, NETWORK_COMPONENT, NODES_COMPONENT
from ..validator import Validator

TAG_TEXT = re.compile(r"[\w .:/=+\-@]*")  # the characters that IAM, EFS and SSM accept; EC2 accepts more
RESERVED_TAGS = ("aws:", "deeplearning:")
MOST_TAGS = 50  # AWS's limit for a resource
IDLE_TAGS = 10  # for the function that ends idle nodes: what it finds, and holds
MOST_CHARACTERS = 256  # AWS's limit for the value of a tag
SMALLEST_ROOT_VOLUME = 1  # GiB. Another validator checks the minimum size, which depends on the image
MOST_HOPS = 64  # EC2's limit for the instance metadata service
ALL_COMPONENTS = registry.STORAGE_NAMES | {NETWORK_COMPONENT, INSTANCE_ROLE_COMPONENT, NODES_COMPONENT, EMR_COMPONENT}


def check_cluster_name(name: str) -> Iterator[str]:
    """Check the cluster name, which is part of the names of hosts, IAM roles and groups.

    The name must not begin with `sg-`, because EC2 rejects security groups with such names. The name must neither contain `-nodes-` nor
    end with `-nodes`, because the IAM policies of operators identify a cluster's roles by the pattern `CLUSTER-nodes-*`.
    """
    if not CLUSTER_NAME.fullmatch(name) or name.startswith("sg-") or "-nodes-" in f"{name}-":
        yield (
            f"cluster: '{name}' is not a valid name. Use 1 to 30 lowercase letters, digits and hyphens. The name must start with a letter, "
            "but not with sg-, must not contain -nodes-, and must not end with -nodes or a hyphen."
        )


def check_tags(wanted: Mapping[str, str], of_mounts: Mapping[str, Any] | None = None, most: int = MOST_TAGS) -> Iterator[str]:
    """Check that every AWS service accepts the tags. `of_mounts` contains the tags that describe the instances' mounts."""
    of_mounts = of_mounts or {}
    for key, text in of_mounts.items():
        if isinstance(text, str) and len(text) > MOST_CHARACTERS:
            yield (
                f"{P}tags: the tag '{key}' describes a mount and has {len(text)} characters, but EC2 allows at most {MOST_CHARACTERS}. "
                "Shorten the source or the path of the mount."
            )
    most -= len(OWN_TAGS) + len(of_mounts)
    if len(wanted) > most:
        yield f"{P}tags: {len(wanted)} tags exceed the limit. Specify at most {most}."
    keys = ["name", "nodetype"]
    for key, value in wanted.items():
        if not 0 < len(key) <= 128 or len(value) > MOST_CHARACTERS or not TAG_TEXT.fullmatch(key + value):
            yield f"{P}tags: '{key}' is not valid. Use 1 to 128 letters, digits, spaces or . : / = + - @ _ in keys and up to 256 in values."
        if key.lower().startswith(RESERVED_TAGS):
            yield f"{P}tags: '{key}' must not start with {' or '.join(RESERVED_TAGS)}. Rename or remove it."
        if key.lower() in keys:
            yield f"{P}tags: '{key}' duplicates another key, because IAM ignores case in tag keys. Rename or remove it."
        keys.append(key.lower())


def check_buckets(option: str, names: Sequence[str]) -> Iterator[str]:
    """Check that the values are valid bucket names, and not URLs or paths, because bucket names become part of ARNs."""
    for name in names:
        if not re.fullmatch(mounts.BUCKET_NAME, name):
            yield f"{P}{option}: '{name}' is not a valid bucket name. Specify a general purpose bucket, without s3:// and without a path."


def check_network_cidr(cidr: str) -> Iterator[str]:
    try:
        network(cidr)
    except AddressPlanError as error:
        yield str(error)


def check_nodes(options: Mapping[str, Any]) -> Iterator[str]:
    for name, example in (("instance_type", "p4d.24xlarge"), ("key_name", "my-key")):
        if not options.get(name):
            yield f"{P}{name}: missing. Specify a value, for example {example}."
    if options.get("worker_count") is None:
        yield f"{P}worker_count: missing. Specify the number of workers besides the master."
    elif options["worker_count"] < 0:
        yield (
            f"{P}worker_count: {options['worker_count']} is not valid. Specify the number of workers besides the master. "
            "With 0, the master is the only node."
        )
    if (options.get("spares") or 0) < 0:
        yield f"{P}spares: {options['spares']} is not valid. Specify the number of spares, or 0."
    if options["root_volume_size"] < SMALLEST_ROOT_VOLUME:
        yield f"{P}root_volume_size: {options['root_volume_size']} GiB is too small. Specify at least {SMALLEST_ROOT_VOLUME} GiB."
    if not 1 <= options["metadata_hop_limit"] <= MOST_HOPS:
        yield f"{P}metadata_hop_limit: {options['metadata_hop_limit']} is not valid. Specify a number from 1 to {MOST_HOPS}."
    try:
        mounts.check_mount_point(options["mount_point"])
    except ValueError as error:
        yield f"{P}mount_point: {error}."


class TagNames(Validator):
    name = "tags"
    components = ALL_COMPONENTS

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        of_mounts = {key: text for mount in registry.mounts(request, found) for key, text in mount.tags.items()}
        return check_tags(request.options["tags"], of_mounts, MOST_TAGS - (IDLE_TAGS if request.options.get("idle_after") else 0))


class EnforcedPrice(Validator):
    name = "enforced_price"
    components = ALL_COMPONENTS

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        if request.options["enforce_price_warning"] and request.options["price_warning"] is None:
            yield (
                f"{P}enforce_price_warning: there is no price to enforce. Set {P}price_warning, for example to 600, or remove this option."
            )
        elif request.options["enforce_price_warning"] and not request.options["prices"]:
            yield (
                f"{P}enforce_price_warning: there is no price to enforce, because the option {P}prices is false. Remove one of these "
                "options."
            )
        if (request.options["price_warning"] or 0) < 0:
            yield f"{P}price_warning: {request.options['price_warning']:g} is negative. Specify a price per day, such as 600."


class NetworkCidr(Validator):
    name = "network_cidr"
    components = frozenset({NETWORK_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        return check_network_cidr(request.options["network_cidr"])


class Buckets(Validator):
    name = "buckets"
    components = frozenset({INSTANCE_ROLE_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        for option in ("read_buckets", "write_buckets"):
            yield from check_buckets(option, request.options[option])


class Nodes(Validator):
    name = "nodes"
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        return check_nodes(request.options)
