# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Warns of misspelled and deprecated variables, which only the controller sees, and runs the module of the same name."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.answers import refuse_injected_facts
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.variable_names import warn_of_names


class ActionModule(NormalAction):
    """Runs the module and adds the warnings about variables to its own."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        refuse_injected_facts()
        warn_of_names(task_vars or {})
        return super().run(tmp, task_vars)
