# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Fourth stage: apply the plan. If a failed change may have taken effect, the run reads all resources again and makes a new plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ..error_codes import outcome_is_unknown
from ..plan.errors import ApplyError
from ..plan.execute import apply_plan
from ..plan.planning import Action, Change
from ..plan.resources import Found
from .components import KINDS
from .context import Run
from .read import read_all

MAX_PLANS = 5  # the maximum number of plans in one run
REPLAN_AFTER = 3  # seconds for new resources to become visible in AWS


def converge(run: Run, make: Callable[[Sequence[Found]], list[Change]], found: Sequence[Found]) -> tuple[list[Change], list[Found]]:
    """Apply the plan that `make` returns. Return the applied changes and the resulting resources.

    If a failed change may have taken effect, read all resources again and make a new plan. The second read finds new resources by their
    tags, so that no resource is created twice after a lost response. Raises ApplyError after any other failure.
    """
    applied = list[Change]()
    for plans_left in reversed(range(MAX_PLANS)):
        plan = make(found)
        try:
            after = apply_plan(
                run.request.cloud,
                plan,
                found,
                KINDS,
                wait_for_all=run.request.options["wait"],
                before_each=partial(run.request.cloud.pause, 0),
            )
        except ApplyError as error:
            new = _new(error.applied, applied)
            applied += new
            run.applied += new
            error.applied = applied
            if not plans_left or not outcome_is_unknown(error.cause):
                raise
            run.request.cloud.pause(REPLAN_AFTER)
            found = read_all(run.request)
        else:
            done = _new([change.applied(after) for change in plan], applied)
            run.applied += done
            return [*applied, *done], list(after.values())
    raise AssertionError("the last attempt returns or raises an exception")


def _new(changes: Sequence[Change], former: Sequence[Change]) -> list[Change]:
    """Return the changes without deletions of what an earlier plan has half deleted, which count once."""
    deleted = {change.address for change in former if change.action is Action.DELETE}
    return [change for change in changes if change.action is not Action.DELETE or change.address not in deleted]
