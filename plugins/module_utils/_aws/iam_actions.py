# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The IAM actions that a component or a module declares. The policies for operators are generated from them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

Actions = Tuple[str, ...]


@dataclass(frozen=True)
class IamActions:
    """IAM actions by when they are needed.

    `reads`: always. `definition`: to validate and to plan a cluster that is to exist. `present`: to create and to change, which may include
    deletions. `absent`: to delete the cluster.
    """

    reads: Actions = ()
    definition: Actions = ()
    present: Actions = ()
    absent: Actions = ()
