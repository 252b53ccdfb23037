# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The IAM actions for EMR clusters, and for the default roles of EMR."""

from ..iam_actions import IamActions

IAM_ACTIONS = IamActions(
    reads=(
        "ec2:DescribeInstances",
        "ec2:DescribeVolumes",
        "elasticmapreduce:DescribeCluster",
        "elasticmapreduce:GetAutoTerminationPolicy",
        "elasticmapreduce:ListBootstrapActions",
        "elasticmapreduce:ListClusters",
        "elasticmapreduce:ListInstanceGroups",
        "elasticmapreduce:ListInstances",
        "elasticmapreduce:ListSteps",
        "ssm:GetParameters",
    ),
    definition=(
        "ec2:DescribeKeyPairs",
        "elasticmapreduce:GetBlockPublicAccessConfiguration",
        "elasticmapreduce:ListSupportedInstanceTypes",
        "iam:GetInstanceProfile",
        "iam:GetRole",
        "iam:ListAttachedRolePolicies",
    ),
    present=(
        "ec2:CreateTags",
        "elasticmapreduce:AddInstanceGroups",
        "elasticmapreduce:AddJobFlowSteps",
        "elasticmapreduce:AddTags",
        "elasticmapreduce:ModifyInstanceGroups",
        "elasticmapreduce:PutAutoTerminationPolicy",
        "elasticmapreduce:RemoveAutoTerminationPolicy",
        "elasticmapreduce:RemoveTags",
        "elasticmapreduce:RunJobFlow",
        "elasticmapreduce:SetTerminationProtection",
        "elasticmapreduce:TerminateJobFlows",
        "s3:GetObject",
        "ssm:DeleteParameter",
        "ssm:PutParameter",
    ),
    absent=(
        "elasticmapreduce:SetTerminationProtection",
        "elasticmapreduce:TerminateJobFlows",
        "ssm:DeleteParameter",
    ),
)
# The actions that create EMR's default roles. A test compares all declarations with the code. No policy for operators contains these
# actions, because EMR's default role may pass every role in the account to EC2.
DEFAULT_ROLES = IamActions(
    present=(
        "iam:AddRoleToInstanceProfile",
        "iam:AttachRolePolicy",
        "iam:CreateInstanceProfile",
        "iam:CreateRole",
    ),
)
# The action that reads which EMR cluster belongs to a training cluster
RECORD = IamActions(reads=("ssm:GetParameters",))
# The action that reads when EMR terminates an idle cluster
AUTO_TERMINATION = IamActions(reads=("elasticmapreduce:GetAutoTerminationPolicy",))
# The actions that the inventory and the search for former nodes need
NODES = IamActions(
    reads=(
        "ec2:DescribeInstances",
        "ec2:DescribeVolumes",
        "elasticmapreduce:DescribeCluster",
        "elasticmapreduce:ListClusters",
        "elasticmapreduce:ListInstances",
        "ssm:GetParameters",
    )
)
