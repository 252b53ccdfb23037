# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The declaration of an option. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

# The modules that take an option, each of one component; those of storage are in its packages. `cluster` and `cluster_validation` take what
# any of them takes.
NETWORK = "network"
INSTANCE_ROLE = "instance_role"
NODE_GROUP = "node_group"

#: Seconds for which modules wait for one resource.
DEFAULT_WAIT_TIMEOUT = 900

#: The variable of an option is this and its name.
PREFIX = "deeplearning_"
#: What variables of the role `provision` began with before.
FORMER_PREFIX = "provision_"

# What to do where an option cannot be changed.
DELETE_AND_CREATE = "Delete the cluster, which keeps the data, and create it again"
COPY_DATA = "Copy the data to another file system and adopt that"


class Policy(Enum):
    """What a run does when an option of an existing cluster changes. The values are the words of `docs/changes.md`."""

    IN_PLACE = "in place"
    REPLACES_NODES = "replaces nodes"
    FORBIDDEN = "cannot be changed"
    NOT_STORED = "not stored"
    SUBJECT = "names what the run is about"


@dataclass(frozen=True)
class Update:
    """The update policy of an option: `details` say when or how, `advice` what to do instead or besides."""

    policy: Policy
    details: str = ""
    advice: str = ""

    @property
    def summary(self) -> str:
        """Return the policy as a table cell."""
        separator = ", " if self.policy is Policy.IN_PLACE else " "
        return self.policy.value + (separator + self.details if self.details else "")

    @property
    def sentences(self) -> str:
        """Return the policy as the last paragraph of a description. It is empty for what a run is about."""
        sentence = {
            Policy.IN_PLACE: f"Changed {self.summary}.",
            Policy.REPLACES_NODES: "Changing it replaces the nodes, which happens only with O(replace_nodes).",
            Policy.FORBIDDEN: f"It {self.summary}.",
            Policy.NOT_STORED: "It counts for one run and is not stored.",
            Policy.SUBJECT: "",
        }[self.policy]
        return f"{sentence} {self.advice}." if self.advice else sentence


SUBJECT = Update(Policy.SUBJECT)
NOT_STORED = Update(Policy.NOT_STORED)
IN_PLACE = Update(Policy.IN_PLACE)
REPLACES_NODES = Update(Policy.REPLACES_NODES)


def in_place(details: str, advice: str = "") -> Update:
    return Update(Policy.IN_PLACE, details, advice)


def forbidden(advice: str, *, details: str = "") -> Update:
    return Update(Policy.FORBIDDEN, details, advice)


@dataclass(frozen=True)
class Suboption:
    """A key of a dictionary option, or of the dictionaries in a list option."""

    name: str
    spec: Mapping[str, Any]
    description: str


@dataclass(frozen=True)
class Option:
    """An option of the modules that provision, and a variable of the role `provision`.

    `spec` is its part of the argument spec, without `suboptions`. Each string of `description` is a paragraph, in which `O(x)` names
    another option; the update policy is added. With `whole` false only modules of one component have the option. The role leaves it out
    while one of `yields_to` is given. `former_variables` are former names of its variable. `provision_<name>` is one too, unless they
    have one that begins like it.
    """

    name: str
    spec: Mapping[str, Any]
    components: tuple[str, ...]
    update: Update
    description: tuple[str, ...]
    suboptions: tuple[Suboption, ...] = ()
    whole: bool = True
    yields_to: tuple[str, ...] = ()
    former_variables: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        return PREFIX + self.name

    @property
    def former_names(self) -> tuple[str, ...]:
        """Return the former names of the variable, in the order of precedence."""
        of_the_role = [name for name in self.former_variables if name.startswith(FORMER_PREFIX)] or [FORMER_PREFIX + self.name]
        return (*of_the_role, *(name for name in self.former_variables if name not in of_the_role))

    @property
    def argument_spec(self) -> dict[str, Any]:
        options = {"options": {each.name: dict(each.spec) for each in self.suboptions}} if self.suboptions else {}
        return {**self.spec, **options}
