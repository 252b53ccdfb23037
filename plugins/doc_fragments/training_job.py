# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Documentation of a training job's options, from the declarations in plugins/module_utils/_job/definition/options.py."""

from __future__ import annotations

import json

from ..module_utils._job.definition.options import OPTIONS
from ..plugin_utils.option_documentation import documented


class ModuleDocFragment:
    """The options that the module `training_job` has in common with the role."""

    # With an annotation, because ansible-test expects a literal in an assignment without one.
    DOCUMENTATION: str = json.dumps(
        {
            "options": {
                option.name: {"description": [*option.description, *option.of_module], **documented(option.spec)} for option in OPTIONS
            }
        }
    )
