# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What the definition says by itself, without a look at the account."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Request
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network import adopted
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network.definition import SSH_GROUP
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Found
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.registry import STORAGE_NAMES, mounts
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.tags import (
    INSTANCE_ROLE_COMPONENT,
    NETWORK_COMPONENT,
    NODES_COMPONENT,
)
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validator import Validator
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validators import rules

EVERY_UNIT = STORAGE_NAMES | {NETWORK_COMPONENT, INSTANCE_ROLE_COMPONENT, NODES_COMPONENT}


class Tags(Validator):
    name = "tags"
    components = EVERY_UNIT

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        return rules.tags(request.options["tags"], [tag for mount in mounts(request, found) for tag in mount.tags])


class NetworkCidr(Validator):
    name = "network_cidr"
    components = frozenset({NETWORK_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        return rules.network_cidr(request.options["network_cidr"])


class SshCidrs(Validator):
    name = "ssh_cidrs"
    components = frozenset({NETWORK_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        options = request.options
        needed = options["master_public_address"] and SSH_GROUP.key not in adopted.group_ids(request)
        return rules.ssh_cidrs(options["ssh_cidrs"], options["allow_ssh_from_anywhere"], needed=needed)


class Buckets(Validator):
    name = "buckets"
    components = frozenset({INSTANCE_ROLE_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        for option in ("read_buckets", "write_buckets"):
            yield from rules.buckets(option, request.options[option])


class Nodes(Validator):
    name = "nodes"
    components = frozenset({NODES_COMPONENT})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        return rules.nodes(request.options)
