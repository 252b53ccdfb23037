# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name."""

from ..plugin_utils.in_process import InProcessAction


class ActionModule(InProcessAction):
    """Runs the module in the process of the action, because runs of jobs wait for it."""
