# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Whether an adopted instance profile can be used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .._instance_role.definition import INSTANCE_PROFILE
from .._instance_role.resources import COMPONENT as INSTANCE_ROLE
from .._nodes.definition import COMPONENT as NODES
from .._plan.resources import Found
from ..unit import Request
from .base import Level, Validator


class InstanceProfile(Validator):
    name = "instance_profile"
    components = frozenset({INSTANCE_ROLE, NODES})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        name = request.options["instance_profile"]
        if not name:
            return
        profile = next((item for item in found if item.address == INSTANCE_PROFILE), None)
        if not profile:
            yield f"instance_profile: there is no instance profile '{name}'. Give the name of one, or none to have one created."
        elif not profile.properties["role"]:
            yield f"instance_profile: {name} holds no role, so nodes could do nothing. Add a role to it, or give another one."


class IgnoredRights(Validator):
    name = "ignored_rights"
    level = Level.WARNING
    components = frozenset({INSTANCE_ROLE})

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        options = request.options
        ignored = [name for name in ("read_buckets", "write_buckets", "session_manager") if options[name]]
        if options["instance_profile"] and ignored:
            yield (
                f"instance_profile: {options['instance_profile']} is left as it is, so {', '.join(ignored)} "
                "have no effect. See that its role allows them."
            )
