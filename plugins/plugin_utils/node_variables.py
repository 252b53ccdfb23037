# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The node variables that the controller knows before the nodes exist.

A value is known if it is the same on all nodes and does not refer to host-specific variables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import jinja2
from ansible.errors import AnsibleError
from ansible.inventory.host import Host
from jinja2 import nodes as syntax

# A value that depends on the host, or cannot be evaluated on the controller.
UNKNOWN = object()

GROUPS = ("trainers", "master", "workers")
# Names that Jinja or Ansible provides in templates and that are not variables.
FUNCTIONS = frozenset({"dict", "lookup", "namespace", "now", "omit", "q", "query", "range"})
# Variables that Ansible sets for each host, in addition to those with a prefix in `HOST_PREFIXES`.
OF_THE_HOST = frozenset({"environment", "group_names", "groups", "hostvars", "inventory_dir", "inventory_file", "play_hosts", "vars"})
HOST_PREFIXES = ("ansible_", "inventory_hostname")


class NodeVariables:
    """The values of variables. `evaluate` returns a template's value, or raises AnsibleError if the template cannot be evaluated.

    `differing` contains the variables whose values differ between nodes. If `of_host` is true, a value is unknown if it depends on
    host-specific variables.
    """

    def __init__(
        self, raw: Mapping[str, Any], evaluate: Callable[[Any], Any], differing: Collection[str] = (), *, of_host: bool = True
    ) -> None:
        self._raw, self._evaluate, self._differing, self._of_host = raw, evaluate, frozenset(differing), of_host

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a variable, `default` if no node has it, or UNKNOWN if the controller cannot know it."""
        if name in self._differing:
            return UNKNOWN
        if name not in self._raw:
            return default
        if self._of_host and self._depends_on_host(self._raw[name], {name}):
            return UNKNOWN
        try:
            return self._evaluate(self._raw[name])
        except AnsibleError:
            return UNKNOWN

    def _depends_on_host(self, value: Any, seen: set[str]) -> bool:
        names = {name for text in _texts(value) for name in references(text)} - FUNCTIONS - seen
        seen |= names
        return any(
            name in OF_THE_HOST
            or name.startswith(HOST_PREFIXES)
            or name in self._differing
            or name not in self._raw
            or self._depends_on_host(self._raw[name], seen)
            for name in names
        )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in (*value.keys(), *value.values()):
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)


def references(text: str) -> set[str]:
    """Return the variables to which a template refers. For an invalid template, return a name that no variable has."""
    if "{{" not in text and "{%" not in text:
        return set()
    try:
        parsed = jinja2.Environment(extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"], autoescape=False).parse(text)
    except jinja2.TemplateError:
        return {"-"}
    return {found.name for found in parsed.find_all(syntax.Name) if found.ctx == "load"}


def node_variables(variables: Mapping[str, Any], templar: Any) -> NodeVariables | None:
    """Return the variables of nodes, derived from a controller task's variables, or None if this version of Ansible does not expose them.

    Variables that the task has in addition to its host's variables are play variables, which all hosts share.
    """
    hostvars = variables["hostvars"]
    try:
        inventory, manager = hostvars._inventory, hostvars._variable_manager
        members = [_member(inventory.groups, group) for group in GROUPS[1:]]
        members += inventory.groups[GROUPS[0]].get_hosts()[:2] if GROUPS[0] in inventory.groups else []
        samples = [manager.get_vars(host=host, include_hostvars=False) for host in members]
        own = hostvars.raw_get("localhost")
    except AttributeError:
        return None
    of_play = {name: value for name, value in variables.items() if name not in own or own[name] != value}
    names = set().union(*samples) - of_play.keys()
    differing = {name for name in names if any(sample.get(name, UNKNOWN) != samples[0].get(name, UNKNOWN) for sample in samples)}
    raw = {**samples[0], **of_play}
    return NodeVariables(raw, evaluation(templar, raw), differing)


def evaluation(templar: Any, raw: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Return a function that evaluates templates with these variables."""
    return templar.copy_with_new_env(available_variables=raw).template


def _member(groups: Mapping[str, Any], group: str) -> Host:
    """Return a host that has the variables of a node's groups and no variables of its own. The host is not part of the inventory."""
    host = Host("node")
    host.groups = [groups[name] for name in ("all", GROUPS[0], group) if name in groups]
    return host
