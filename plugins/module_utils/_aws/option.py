# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The declaration of an option."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

# The default maximum time that modules wait for one resource, in seconds.
DEFAULT_WAIT_TIMEOUT = 900

# The name of an option's variable consists of this prefix and the option's name.
PREFIX = "deeplearning_"

# Advice for options that cannot be changed.
DELETE_AND_CREATE = "Delete the cluster (the data is kept) and create it again"
COPY_DATA = "Copy the data to another file system, then adopt that file system"


class UpdatePolicy(Enum):
    """The effect of changing an option of an existing cluster. `docs/changes.md` lists the values."""

    IN_PLACE = "in place"
    REPLACES_NODES = "replaces nodes"
    REPLACES_EMR_CLUSTER = "replaces the EMR cluster"
    FORBIDDEN = "cannot be changed"
    NOT_STORED = "not stored"
    SUBJECT = "specifies the target or the action of a run"


class UnusedRule(NamedTuple):
    """The options `names` have no effect if `applies` returns true. `because` states the reason and the remedy, with names of variables.

    The argument of `applies` is a function that returns the value of an option, or None if the option is empty or has its default value.
    """

    names: tuple[str, ...]
    applies: Callable[[Callable[[str], Any]], bool]
    because: str


@dataclass(frozen=True)
class Update:
    """The update policy of an option.

    `details` adds conditions or exceptions to the policy. `advice` describes alternatives or additional steps.
    """

    policy: UpdatePolicy
    details: str = ""
    advice: str = ""

    @property
    def summary(self) -> str:
        separator = ", " if self.policy is UpdatePolicy.IN_PLACE else " "
        return self.policy.value + (separator + self.details if self.details else "")

    @property
    def sentences(self) -> str:
        """Return the policy as the last paragraph of a description. The paragraph is empty for the policy `SUBJECT`."""
        sentence = {
            UpdatePolicy.IN_PLACE: f"This option can be changed {self.summary}.",
            UpdatePolicy.REPLACES_NODES: "Changing this option replaces the nodes, which requires O(replace_nodes).",
            UpdatePolicy.REPLACES_EMR_CLUSTER: "Changing this option replaces the EMR cluster, which requires O(emr_replace).",
            UpdatePolicy.FORBIDDEN: f"This option {self.summary}.",
            UpdatePolicy.NOT_STORED: "This option applies to one run and is not stored.",
            UpdatePolicy.SUBJECT: "",
        }[self.policy]
        return f"{sentence} {self.advice}." if self.advice else sentence


SUBJECT = Update(UpdatePolicy.SUBJECT)
NOT_STORED = Update(UpdatePolicy.NOT_STORED)
IN_PLACE = Update(UpdatePolicy.IN_PLACE)
REPLACES_NODES = Update(UpdatePolicy.REPLACES_NODES)
REPLACES_EMR_CLUSTER = Update(UpdatePolicy.REPLACES_EMR_CLUSTER)


def in_place(details: str, advice: str = "") -> Update:
    return Update(UpdatePolicy.IN_PLACE, details, advice)


def forbidden(advice: str, *, details: str = "") -> Update:
    return Update(UpdatePolicy.FORBIDDEN, details, advice)


@dataclass(frozen=True)
class Suboption:
    """A key of a dictionary option, or of each dictionary in a list option."""

    name: str
    spec: Mapping[str, Any]
    description: str


@dataclass(frozen=True)
class Option:
    """An option of the provisioning modules, and a variable of the role `provision`.

    `spec` is the option's part of the argument spec, without `suboptions`. Each string in `description` is a paragraph. `O(x)` refers to
    another option. In the documentation, the update policy follows the paragraphs of `description`. A run that manages none of
    `components` ignores the option. The role omits the option if any option in `yields_to` is set. If `has_variable` is false, only
    playbooks and actions of the collection set the option, and the roles have no variable for it.
    """

    name: str
    spec: Mapping[str, Any]
    components: tuple[str, ...]
    update: Update
    description: tuple[str, ...]
    suboptions: tuple[Suboption, ...] = ()
    yields_to: tuple[str, ...] = ()
    has_variable: bool = True

    @property
    def variable(self) -> str:
        return PREFIX + self.name

    @property
    def argument_spec(self) -> dict[str, Any]:
        options = {"options": {each.name: dict(each.spec) for each in self.suboptions}} if self.suboptions else {}
        return {**self.spec, **options}
