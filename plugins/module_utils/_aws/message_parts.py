# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The parts of messages that depend on how the user runs the module, as in `f"{P}zones: missing. Set {P}zones or {P}vpc_id."`.

The action that runs the module sets them.
"""

from __future__ import annotations

from collections import UserString
from collections.abc import Mapping
from typing import Any

ARGUMENT_SPEC = {"option_prefix": {"type": "str", "default": ""}, "run_options": {"type": "str", "default": ""}}

# Precedes the name of an option: the beginning of the name of the variable with which a role sets the option, or nothing.
P = UserString("")
# Precedes the name of a playbook in a command: the options of ansible-playbook that select the inventory and the cluster.
RUN_OPTIONS = UserString("")


def use(parameters: Mapping[str, Any]) -> None:
    """Use the parts that are in the module's parameters, from now on."""
    P.data, RUN_OPTIONS.data = parameters["option_prefix"], parameters["run_options"]
