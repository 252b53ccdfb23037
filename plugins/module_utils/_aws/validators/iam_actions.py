# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The IAM actions that only validators need."""

from ..iam_actions import IamActions

IAM_ACTIONS = IamActions(
    definition=(
        "ec2:DescribeAddresses",
        "ec2:DescribeInstances",
        "ec2:DescribeInstanceTypes",
        "ec2:DescribeKeyPairs",
        "ec2:DescribeVpcBlockPublicAccessExclusions",
        "ec2:DescribeVpcBlockPublicAccessOptions",
        "ec2:DescribeVpcs",
        "iam:SimulatePrincipalPolicy",
        "kms:DescribeKey",
        "servicequotas:ListServiceQuotas",
        "sns:GetTopicAttributes",
        "ssm:DescribeParameters",
        "sts:GetCallerIdentity",
    ),
)
