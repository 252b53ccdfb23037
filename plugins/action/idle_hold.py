# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name as the action `former_nodes_info` runs its own."""

from . import former_nodes_info


class ActionModule(former_nodes_info.ActionModule):
    """Differs only in the module."""
