# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What the definition says by itself, without a look at the account."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .. import validation
from .._file_system.resources import COMPONENT as FILE_SYSTEM
from .._instance_role.resources import COMPONENT as INSTANCE_ROLE
from .._lustre.resources import COMPONENT as LUSTRE
from .._network import adopted
from .._network.definition import SSH_GROUP
from .._network.resources import COMPONENT as NETWORK
from .._nodes.definition import COMPONENT as NODES
from .._plan.resources import Found
from ..unit import Request
from .base import Validator

EVERY_UNIT = frozenset({NETWORK, FILE_SYSTEM, LUSTRE, INSTANCE_ROLE, NODES})


class Tags(Validator):
    name = "tags"
    components = EVERY_UNIT

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        return validation.tags(request.options["tags"])


class NetworkCidr(Validator):
    name = "network_cidr"
    components = frozenset({NETWORK})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        return validation.network_cidr(request.options["network_cidr"])


class SshCidrs(Validator):
    name = "ssh_cidrs"
    components = frozenset({NETWORK})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        options = request.options
        needed = options["master_public_address"] and SSH_GROUP.key not in adopted.group_ids(request)
        return validation.ssh_cidrs(options["ssh_cidrs"], options["allow_ssh_from_anywhere"], needed=needed)


class Buckets(Validator):
    name = "buckets"
    components = frozenset({INSTANCE_ROLE})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        for option in ("read_buckets", "write_buckets"):
            yield from validation.buckets(option, request.options[option])


class Nodes(Validator):
    name = "nodes"
    components = frozenset({NODES})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        return validation.nodes(request.options)
