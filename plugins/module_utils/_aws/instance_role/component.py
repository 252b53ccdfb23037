# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The component for the nodes' IAM role and instance profile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..component import Component, Request
from ..plan.resources import Found, Wanted
from ..storage.registry import mounts
from ..tags import INSTANCE_ROLE_COMPONENT
from . import definition, resources
from .iam_actions import IAM_ACTIONS


def _read(request: Request, _network: Sequence[Found]) -> list[Found]:
    # The cluster's own role is kept until the cluster is deleted, because nodes that were launched with this role still use it
    adopted = request.options.get("instance_profile") if request.present else None
    return resources.read_adopted(request.cloud, adopted) if adopted else resources.read(request.cloud)


def _wanted(request: Request, found: Sequence[Found]) -> Iterable[Wanted]:
    cloud, options = request.cloud, request.options
    if options["instance_profile"]:
        return []
    policy = nodes_policy(request, found)
    return definition.wanted(cloud.cluster, cloud.region, policy, request.tags(INSTANCE_ROLE_COMPONENT), options["permissions_boundary"])


def nodes_policy(request: Request, found: Sequence[Found]) -> dict[str, Any]:
    options = request.options
    return definition.policy(
        request.cloud.region,
        options["read_buckets"],
        options["write_buckets"],
        [statement for mount in mounts(request, found) for statement in mount.statements],
        options["additional_policy_statements"],
        export_destinations=options["export_destinations"],
        session_manager=options["session_manager"],
    )


INSTANCE_ROLE = Component(INSTANCE_ROLE_COMPONENT, resources.KINDS, IAM_ACTIONS, _read, _wanted)
