# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name as the action `sge_drain` runs its own."""

from . import sge_drain


class ActionModule(sge_drain.ActionModule):
    """Differs only in the module."""
