# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The IAM actions for the events of a cluster. Without `cloudtrail:LookupEvents`, the events do not contain who did what."""

from ..iam_actions import IamActions

EVENTS = IamActions(reads=("autoscaling:DescribeAutoScalingGroups", "cloudtrail:LookupEvents", "ec2:DescribeInstances"))
