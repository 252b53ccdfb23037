# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The class in which components and modules declare the IAM actions that they need.

The operator policies are generated from the declarations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

Actions = Tuple[str, ...]


@dataclass(frozen=True)
class IamActions:
    """IAM actions, grouped by the kind of run that needs them.

    The actions in `reads` are always needed. The actions in `definition` are needed to validate and plan a cluster. The actions in
    `present` are needed to create and change a cluster. Changes may include deletions. The actions in `absent` are needed to delete a
    cluster.
    """

    reads: Actions = ()
    definition: Actions = ()
    present: Actions = ()
    absent: Actions = ()
