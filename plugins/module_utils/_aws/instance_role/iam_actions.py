# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The IAM actions for the nodes' IAM role and instance profile."""

from ..iam_actions import IamActions

# Runs that remove a lease delete its role.
REMOVALS = (
    "iam:DeleteRole",
    "iam:DeleteRolePolicy",
    "iam:DetachRolePolicy",
    "iam:ListAttachedRolePolicies",
    "iam:ListRolePolicies",
)

READ_ROLE = IamActions(reads=("iam:GetRole", "iam:GetRolePolicy"))

IAM_ACTIONS = IamActions(
    reads=("iam:GetInstanceProfile", *READ_ROLE.reads),
    present=(
        "iam:AddRoleToInstanceProfile",
        "iam:CreateInstanceProfile",
        "iam:CreateRole",
        "iam:PutRolePermissionsBoundary",
        "iam:PutRolePolicy",
        "iam:TagInstanceProfile",
        "iam:TagRole",
        *REMOVALS,
    ),
    absent=(
        "iam:DeleteInstanceProfile",
        "iam:RemoveRoleFromInstanceProfile",
        *REMOVALS,
    ),
)
