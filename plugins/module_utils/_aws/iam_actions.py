# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What a component or a module declares about its calls to AWS. Policies for operators are made from it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

Actions = Tuple[str, ...]


@dataclass(frozen=True)
class IamActions:
    """IAM actions by when they are needed.

    C(reads) always; C(definition) to validate what is to be and to plan it; C(present) to create and to change, which may take something
    away again; C(absent) to delete.
    """

    reads: Actions = ()
    definition: Actions = ()
    present: Actions = ()
    absent: Actions = ()
