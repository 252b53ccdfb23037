# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name in the same way as the module `cluster`."""

from __future__ import annotations

from .cluster import ActionModule

__all__ = ["ActionModule"]
