# Copyright: Contributors to the deeplearning.cluster project
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

from collections.abc import Iterator, Mapping
from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible.utils.display import Display
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.option import PREFIX
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.kinds import KINDS, OPTIONS, Kind

MOUNTS = f"{PREFIX}mounts"
BY_NAME = {option.name: option for option in OPTIONS}

# Former variables of the role `shared_storage`, which still replace arguments of mounts.
FORMER: Mapping[str, tuple[str, str]] = {
    "shared_storage_file_system_id": ("efs", "source"),
    "shared_storage_region": ("efs", "region"),
    "shared_storage_file_system_address": ("efs", "address"),
    "shared_storage_access_point": ("efs", "access_point"),
    "shared_storage_directory": ("efs", "directory"),
    "shared_storage_encrypt_in_transit": ("efs", "encrypt_in_transit"),
    "shared_storage_path": ("efs", "path"),
    "shared_storage_file_system_adopted": ("efs", "adopted"),
    "shared_storage_lustre_source": ("lustre", "source"),
    "shared_storage_lustre_path": ("lustre", "path"),
    "shared_storage_lustre_adopted": ("lustre", "adopted"),
}


def variables_of(name: str) -> tuple[str, ...]:
    """Return the variable of a storage tag or of an option, and the former names of an option's variable."""
    return (f"{PREFIX}{name}", *(BY_NAME[name].former_names if name in BY_NAME else ()))


# All variables that mounts depend on.
VARIABLES = (
    MOUNTS,
    *FORMER,
    *(variable for kind in KINDS.values() for tag in kind.tags if tag.variable for variable in variables_of(tag.variable)),
    *(variable for kind in KINDS.values() for option in kind.settings.values() for variable in variables_of(option)),
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
    former = {argument: host[name] for name, (of, argument) in FORMER.items() if of == mount["kind"] and name in host}
    return {**_arguments(kind, host, controller), **mount, **former} if kind else dict(mount)


def _arguments(kind: Kind, host: Mapping[str, Any], controller: Mapping[str, Any]) -> dict[str, Any]:
    settings = {argument: _value(option, host) for argument, option in kind.settings.items()}
    told = {tag.argument: value for tag in kind.tags if tag.variable for value in _values(tag.variable, host) if value != ""}
    adopted = bool(kind.adopted) and any(controller.get(variable) for variable in variables_of(kind.adopted))
    return {"adopted": adopted, **{argument: value for argument, value in settings.items() if value is not None}, **told}


def _value(option: str, host: Mapping[str, Any]) -> Any:
    """Return the value of an option or its default. An empty string has the same effect as an omitted variable."""
    return next((value for value in _values(option, host) if value not in (None, "")), BY_NAME[option].spec.get("default"))


def _values(name: str, host: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the value of the first of a name's variables that is set, if there is one."""
    yield from [host[variable] for variable in variables_of(name) if variable in host][:1]


class LookupModule(LookupBase):
    """Lists the mounts of the host whose variables a template uses."""

    def run(self, terms: Any, variables: Mapping[str, Any] | None = None, **kwargs: Any) -> list[dict[str, Any]]:
        own = variables or {}
        host = {name: self._templar.template(own[name]) for name in VARIABLES if name in own}
        for name in FORMER:
            if name in host:
                message = f"Variable '{name}' is deprecated. Use 'shared_storage_mounts', or a variable of the definition."
                Display().deprecated(message, version="0.3.0", collection_name="deeplearning.cluster")
        return storage_mounts(host, own["hostvars"]["localhost"], bool(kwargs.get("unused")))
