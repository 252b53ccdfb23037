# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The IAM actions for an FSx for Lustre file system and its links to S3."""

from ...iam_actions import IamActions

IAM_ACTIONS = IamActions(
    reads=(
        "ec2:DescribeNetworkInterfaces",
        "fsx:DescribeDataRepositoryAssociations",
        "fsx:DescribeFileSystems",
    ),
    present=(
        "ec2:ModifyNetworkInterfaceAttribute",
        "fsx:CreateDataRepositoryAssociation",
        "fsx:CreateFileSystem",
        "fsx:DeleteDataRepositoryAssociation",
        "fsx:TagResource",
        "fsx:UpdateDataRepositoryAssociation",
        "fsx:UpdateFileSystem",
    ),
    absent=(
        "fsx:DeleteDataRepositoryAssociation",
        "fsx:DeleteFileSystem",
    ),
)
