# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Lists the shared storage that a host mounts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: storage_mounts
version_added: 0.2.0
short_description: Lists the shared storage that a host mounts
description:
  - Returns the mounts of the host for which the template is evaluated, as arguments of M(deeplearning.cluster.shared_storage).
  - The mounts are those in C(deeplearning_mounts), which the inventory plugin P(deeplearning.cluster.nodes#inventory) sets. If
    C(deeplearning_mounts) contains no EFS file system, for example on EMR or on your own hosts, and C(deeplearning_file_system_id) is set,
    the host mounts that file system. The same applies to the other inventory variables that contain the source of a mount.
  - The definition provides what the inventory does not, such as the mount point from C(deeplearning_mount_point).
options:
  unused:
    description:
      - Whether to also return the file systems for jobs that the host does not mount, with their mount points and without a source, so that
        former mounts can be removed.
    type: bool
    default: false
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
- name: Show where a host mounts shared storage
  ansible.builtin.debug:
    msg: "{{ query('deeplearning.cluster.storage_mounts') | map(attribute='path') }}"
"""

RETURN = r"""
_raw:
  description: One dictionary per mount.
  type: list
  elements: dict
  sample:
    - kind: efs
      source: fs-0123456789abcdef0
      path: /efs
      adopted: false
"""

from collections.abc import Mapping
from typing import Any

from ansible.plugins.lookup import LookupBase

from ..module_utils._aws.option import PREFIX
from ..module_utils._aws.storage.kinds import KINDS, OPTIONS, Kind

MOUNTS = f"{PREFIX}mounts"
BY_NAME = {option.name: option for option in OPTIONS}

# All variables that mounts depend on.
VARIABLES = (
    MOUNTS,
    *(f"{PREFIX}{tag.variable}" for kind in KINDS.values() for tag in kind.tags if tag.variable),
    *(f"{PREFIX}{option}" for kind in KINDS.values() for option in kind.settings.values()),
)


def storage_mounts(host: Mapping[str, Any], controller: Mapping[str, Any], unused: bool = False) -> list[dict[str, Any]]:
    """Return the mounts of a host from its variables, and from the controller's variables, which name adopted file systems.

    With `unused`, the list also contains the file systems for jobs that the host does not mount, without a source.
    """
    listed: list[dict[str, Any]] = host.get(MOUNTS) or []
    others = [{"kind": name} for name in KINDS if name not in [mount["kind"] for mount in listed]]
    mounts = [_completed(mount, host, controller) for mount in [*listed, *others]]
    return [mount for mount in mounts if mount.get("source") or (unused and KINDS[mount["kind"]].adopted)]


def _completed(mount: Mapping[str, Any], host: Mapping[str, Any], controller: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mount with the arguments that it lacks. The module `shared_storage` refuses unknown kinds of storage."""
    kind = KINDS.get(mount["kind"])
    return {**_arguments(kind, host, controller), **mount} if kind else dict(mount)


def _arguments(kind: Kind, host: Mapping[str, Any], controller: Mapping[str, Any]) -> dict[str, Any]:
    settings = {argument: _value(option, host) for argument, option in kind.settings.items()}
    told = {tag.argument: host[f"{PREFIX}{tag.variable}"] for tag in kind.tags if host.get(f"{PREFIX}{tag.variable}", "") != ""}
    adopted = bool(kind.adopted and controller.get(f"{PREFIX}{kind.adopted}"))
    return {"adopted": adopted, **{argument: value for argument, value in settings.items() if value is not None}, **told}


def _value(option: str, host: Mapping[str, Any]) -> Any:
    """Return the value of an option or its default. An empty string has the same effect as an omitted variable."""
    value = host.get(f"{PREFIX}{option}")
    return BY_NAME[option].spec.get("default") if value in (None, "") else value


class LookupModule(LookupBase):
    """Lists the mounts of the host whose variables a template uses."""

    def run(self, terms: Any, variables: Mapping[str, Any] | None = None, **kwargs: Any) -> list[dict[str, Any]]:
        own = variables or {}
        host = {name: self._templar.template(own[name]) for name in VARIABLES if name in own}
        return storage_mounts(host, own["hostvars"]["localhost"], bool(kwargs.get("unused")))
