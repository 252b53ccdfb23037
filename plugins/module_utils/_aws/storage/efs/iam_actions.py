# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The IAM actions for an EFS file system, its policy, its access points and its mount targets."""

from ...iam_actions import IamActions

IAM_ACTIONS = IamActions(
    reads=(
        "ec2:DescribeInstances",
        "ec2:DescribeNetworkInterfaces",
        "elasticfilesystem:DescribeAccessPoints",
        "elasticfilesystem:DescribeFileSystemPolicy",
        "elasticfilesystem:DescribeFileSystems",
        "elasticfilesystem:DescribeMountTargetSecurityGroups",
        "elasticfilesystem:DescribeMountTargets",
    ),
    present=(
        "elasticfilesystem:CreateAccessPoint",
        "elasticfilesystem:CreateFileSystem",
        "elasticfilesystem:CreateMountTarget",
        "elasticfilesystem:DeleteAccessPoint",
        "elasticfilesystem:DeleteMountTarget",
        "elasticfilesystem:ModifyMountTargetSecurityGroups",
        "elasticfilesystem:PutFileSystemPolicy",
        "elasticfilesystem:TagResource",
        "elasticfilesystem:UpdateFileSystem",
    ),
    absent=(
        "elasticfilesystem:DeleteAccessPoint",
        "elasticfilesystem:DeleteFileSystem",
        "elasticfilesystem:DeleteFileSystemPolicy",
        "elasticfilesystem:DeleteMountTarget",
    ),
)
