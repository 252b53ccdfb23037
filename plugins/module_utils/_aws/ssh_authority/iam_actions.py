# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The IAM actions for a cluster's SSH certificate authority and its KMS key."""

from ..iam_actions import IamActions

# `present` needs no permission to schedule the deletion of a new key, because the key's policy grants this permission to the creator of the
# key.
KEY = IamActions(
    reads=("kms:DescribeKey",),
    present=("kms:CreateAlias", "kms:CreateKey", "sts:GetCallerIdentity"),
    absent=("kms:DeleteAlias", "kms:ScheduleKeyDeletion"),
)

AUTHORITY = IamActions(
    reads=("ssm:DescribeParameters",),
    present=("ssm:GetParameter", "ssm:PutParameter"),
    absent=("ec2:DescribeInstances", "ssm:DeleteParameter"),
)
AUTHORITY_INFO = IamActions(reads=("ssm:GetParameter", "ssm:ListTagsForResource"))
# For operators who only verify nodes.
PUBLIC_KEY = IamActions(reads=("ssm:GetParameter",))
