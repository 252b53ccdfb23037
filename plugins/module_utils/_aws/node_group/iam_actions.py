# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The IAM actions for launch templates, Auto Scaling groups and nodes."""

from ..iam_actions import IamActions

# An attempt that finds no capacity deletes the resources that it has created
REMOVALS = (
    "autoscaling:DeleteAutoScalingGroup",
    "ec2:DeleteLaunchTemplate",
    "ec2:DeletePlacementGroup",
    "ec2:ReleaseAddress",
)

IAM_ACTIONS = IamActions(
    reads=(
        "autoscaling:DescribeAutoScalingGroups",
        "autoscaling:DescribeNotificationConfigurations",
        "ec2:DescribeAddresses",
        "ec2:DescribeInstances",
        "ec2:DescribeLaunchTemplateVersions",
        "ec2:DescribeLaunchTemplates",
        "ec2:DescribePlacementGroups",
    ),
    definition=(
        "ec2:DescribeImages",
        "ec2:DescribeInstanceTypes",
        "ssm:GetParameters",
        "ssm:GetParametersByPath",
    ),
    present=(
        "autoscaling:CreateAutoScalingGroup",
        "autoscaling:CreateOrUpdateTags",
        "autoscaling:DeleteNotificationConfiguration",
        "autoscaling:DeleteTags",
        "autoscaling:DescribeScalingActivities",
        "autoscaling:PutNotificationConfiguration",
        "autoscaling:ResumeProcesses",
        "autoscaling:SuspendProcesses",
        "autoscaling:TerminateInstanceInAutoScalingGroup",
        "autoscaling:UpdateAutoScalingGroup",
        "ec2:AllocateAddress",
        "ec2:AssociateAddress",
        "ec2:CreateLaunchTemplate",
        "ec2:CreateLaunchTemplateVersion",
        "ec2:CreatePlacementGroup",
        "ec2:CreateTags",
        "ec2:ModifyLaunchTemplate",
        *REMOVALS,
    ),
    absent=REMOVALS,
)

# The actions that the inventory needs
NODES = IamActions(reads=("autoscaling:DescribeAutoScalingGroups", "ec2:DescribeCapacityReservations", "ec2:DescribeInstances"))
FORMER_NODES = IamActions(reads=(*NODES.reads, "autoscaling:DescribeScalingActivities"))
HOST_KEYS = IamActions(reads=("ec2:GetConsoleOutput",))
