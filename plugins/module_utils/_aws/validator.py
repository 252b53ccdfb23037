# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The base class of validators, and a function that runs all of them concurrently."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum

from .client import ClusterError
from .component import Request
from .plan.resources import Found


class Level(Enum):
    """The severity of a finding. An error stops the run. A warning is shown and the run continues."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Finding:
    """One problem in a definition, with advice on how to correct it."""

    validator: str
    level: Level
    message: str

    def as_dict(self) -> dict[str, str]:
        return {"validator": self.validator, "level": self.level.value, "message": self.message}


class Validator:
    """A check of a cluster definition and of the AWS account.

    `check` yields one message for each problem, and changes nothing. `check` yields nothing for a problem that another validator reports,
    such as an option that cannot be parsed or an ID that does not exist. `check` raises ClusterError if the check cannot finish. This
    ClusterError stops the run only if no other validator finds an error. A validator runs if the module manages any component in
    `components`.

    If `for_launches` is true, the findings concern only new nodes. If the run launches no nodes and does not change how nodes are launched,
    these findings are warnings. For example, a cluster whose reservation has ended, or whose key pair was deleted, can still be used and
    scaled in.
    """

    name = ""
    level = Level.ERROR
    for_launches = False
    components: frozenset[str] = frozenset()

    def check(self, request: Request, found: Sequence[Found]) -> Iterator[str]:
        raise NotImplementedError


def find_all(
    validators: Iterable[Validator], request: Request, found: Sequence[Found], *, suppressed: Iterable[str] = (), launches: bool = True
) -> list[Finding]:
    """Run all validators that apply to the request, except the suppressed ones. Return the findings of these validators, errors first.

    `launches` is true if the run launches nodes, or changes how nodes are launched.
    """
    ignored = set(suppressed)
    asked = [item for item in validators if item.name not in ignored and item.components & request.components]
    unanswered: list[ClusterError] = []

    def answer(item: Validator) -> list[Finding]:
        harmless = item.for_launches and not launches
        level = Level.WARNING if harmless else item.level
        try:
            return [Finding(item.name, level, message) for message in item.check(request, found)]
        except ClusterError as error:
            if harmless:
                return [Finding(item.name, level, str(error))]
            unanswered.append(error)
            return []

    with ThreadPoolExecutor(8) as pool:
        findings = [finding for findings in pool.map(answer, asked) for finding in findings]
    if unanswered and not any(finding.level is Level.ERROR for finding in findings):
        raise unanswered[0]
    return sorted(findings, key=lambda finding: finding.level is not Level.ERROR)
