# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The IAM actions for schedules, in addition to those for the instance role, which the roles of schedules need, too."""

from ..iam_actions import IamActions

IAM_ACTIONS = IamActions(
    reads=("scheduler:GetSchedule",),
    present=(
        "scheduler:CreateSchedule",
        "scheduler:CreateScheduleGroup",
        "scheduler:DeleteSchedule",
        "scheduler:DeleteScheduleGroup",
        "scheduler:GetScheduleGroup",
        "scheduler:UpdateSchedule",
    ),
    absent=("scheduler:DeleteSchedule", "scheduler:DeleteScheduleGroup"),
)

# Those of the module `lease`, which completes a lease, in addition to those that read the role.
PROLONG = IamActions(
    reads=("scheduler:GetSchedule",),
    present=("scheduler:CreateSchedule", "scheduler:GetScheduleGroup", "scheduler:UpdateSchedule"),
)
