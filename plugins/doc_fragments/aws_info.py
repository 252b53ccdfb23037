# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Documentation shared by the modules that only read from AWS."""

from __future__ import annotations


class ModuleDocFragment:
    """Attributes of modules that only read from AWS."""

    DOCUMENTATION = r"""
attributes:
  check_mode:
    description: The module only reads.
    support: full
  diff_mode:
    description: The module changes nothing.
    support: none
  idempotent:
    description: The module only reads.
    support: full
"""
