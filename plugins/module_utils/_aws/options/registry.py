# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Collects the options of all packages, and returns the options of each module or component."""

from __future__ import annotations

from typing import Any

from ..option import Option
from ..tags import EMR_COMPONENT
from . import common, emr, instance_role, network, node_group, storage

# All options, in the order of the documentation.
OPTIONS: tuple[Option, ...] = (
    *common.OPTIONS,
    *network.OPTIONS,
    *storage.OPTIONS,
    *instance_role.OPTIONS,
    *node_group.OPTIONS,
    *emr.OPTIONS,
)


def options_of(component: str = "") -> list[Option]:
    """Return the options of one component. Without a component, return the options of the module `cluster`."""
    return [option for option in OPTIONS if (component in option.components if component else option.components != (EMR_COMPONENT,))]


def argument_spec(component: str = "") -> dict[str, Any]:
    """Return the argument spec for the options of one component. Without a component, return that of the module `cluster`."""
    return {option.name: option.argument_spec for option in options_of(component)}
