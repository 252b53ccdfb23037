# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The data that all stages of a run use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..client import AnsibleAWSModule, AwsClient, ClusterError
from ..component import Component, Request
from ..node_group import images
from ..node_group.component import NODE_GROUP
from ..options.registry import OPTIONS
from ..plan.planning import Change
from ..plan.resources import Found
from ..storage.registry import STORAGE
from ..validator import Validator
from ..validators import definition
from ..validators.registry import VALIDATORS
from .components import CHOICES, is_chosen


@dataclass
class Run:
    """One run of a module: its request, the resources that existed at the start, and the applied changes."""

    module: AnsibleAWSModule
    components: Sequence[Component]
    request: Request
    validators: Sequence[Validator] = VALIDATORS
    before: list[Found] = field(default_factory=list)
    applied: list[Change] = field(default_factory=list)

    @property
    def manages_nodes(self) -> bool:
        return NODE_GROUP in self.components


def make_run(module: AnsibleAWSModule, components: Sequence[Component], validators: Sequence[Validator]) -> Run:
    """Return a run that provisions `components` or, if the module has the option `components`, those that it chooses.

    The run has no options of other components. `validators` contains the validators of components that only this module manages.
    Raises ClusterError for an invalid cluster name, and if no component is chosen.
    """
    choices = module.params.get("components", CHOICES)
    components = tuple(component for component in components if is_chosen(component, choices))
    if not components:
        raise ClusterError("components: the list is empty. Specify at least one component.")
    managed = frozenset(component.name for component in components)
    ignored = {option.name for option in OPTIONS if managed.isdisjoint(option.components)}
    options = {**images.with_default(module.params), "tags": {name: str(value) for name, value in module.params["tags"].items()}}
    options = {name: value for name, value in options.items() if name not in ignored}
    findings = list(definition.check_cluster_name(options["cluster"]))
    if findings:
        raise ClusterError(" ".join(findings))
    cloud = AwsClient(module, options["cluster"], wait_timeout=options["wait_timeout"], tags=options["tags"])
    request = Request(cloud, options, managed, storage=STORAGE)
    return Run(module, components, request, (*VALIDATORS, *validators))
