# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name on a host, and returns only the documented return values."""

from ..plugin_utils.answers import NodeAction


class ActionModule(NodeAction):
    """Runs the module on a node and filters the module result."""
