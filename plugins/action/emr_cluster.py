# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name as the action `cluster` runs its own."""

from . import cluster


class ActionModule(cluster.ActionModule):
    """Differs only in the module."""
