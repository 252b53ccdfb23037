# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The IAM actions for the end of idle nodes, in addition to those for the instance role and for schedules."""

from ..iam_actions import IamActions

IAM_ACTIONS = IamActions(
    reads=("lambda:GetFunction", "lambda:ListTags"),
    present=(
        "lambda:CreateFunction",
        "lambda:DeleteFunction",
        "lambda:TagResource",
        "lambda:UntagResource",
        "lambda:UpdateFunctionCode",
        "lambda:UpdateFunctionConfiguration",
    ),
    absent=("lambda:DeleteFunction",),
)

# Those of the module `idle_hold`.
HOLD = IamActions(reads=("lambda:GetFunction", "lambda:ListTags"), present=("lambda:TagResource", "lambda:UntagResource"))
