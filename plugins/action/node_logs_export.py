# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name as the action `idle_reports` runs its own."""

from . import idle_reports


class ActionModule(idle_reports.ActionModule):
    """Differs only in the module."""
