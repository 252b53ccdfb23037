# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Documentation of the provisioning modules' options, from the declarations in plugins/module_utils/_aws/options/registry.py."""

from __future__ import annotations

import json
from typing import Any

from ..module_utils._aws.message_parts import ARGUMENT_SPEC
from ..module_utils._aws.options.common import COMPONENTS
from ..module_utils._aws.options.registry import OPTIONS, options_of
from ..module_utils._aws.tags import EMR_COMPONENT
from ..plugin_utils.option_documentation import documentation

SHARED = [option for option in OPTIONS if option.components == COMPONENTS]
# What the actions of the modules tell them. Users need not set it.
PARTS = {
    "option_prefix": "Text before the names of options in messages. The roles of this collection set it to C(deeplearning_).",
    "run_options": "Options of C(ansible-playbook) in the commands that messages suggest, with a space at the end.",
}
ATTRIBUTES = {
    "check_mode": {"description": "Predicts exactly what a run would change, and changes nothing.", "support": "full"},
    "diff_mode": {"description": "For every change, shows the properties that differ.", "support": "full"},
    "idempotent": {"description": "A second run changes nothing and makes only read-only API calls.", "support": "full"},
}


def further_options(component: str) -> str:
    """Return the documentation of a module's options except the shared options, in JSON, which is YAML. Without a component: `cluster`."""
    options = options_of(component)
    known = {option.name for option in options}
    return json.dumps({"options": {option.name: documentation(option, known=known) for option in options if option not in SHARED}})


def shared_options() -> dict[str, Any]:
    known = {option.name for option in SHARED}
    parts = {name: {"description": [text], **ARGUMENT_SPEC[name]} for name, text in PARTS.items()}
    return {**{option.name: documentation(option, known=known) for option in SHARED}, **parts}


class ModuleDocFragment:
    """Documentation that all provisioning modules share, and the options of each module under its name."""

    # With an annotation, because ansible-test expects a literal in an assignment without one.
    DOCUMENTATION: str = json.dumps({"options": shared_options(), "attributes": ATTRIBUTES})
    CLUSTER: str = further_options("")
    EMR: str = further_options(EMR_COMPONENT)
