# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The IAM actions that prices need. A run without these permissions uses published prices."""

from ..iam_actions import IamActions

LIST_PRICES = IamActions(reads=("pricing:GetProducts",))
PRICES = IamActions(reads=("ec2:DescribeSpotPriceHistory", *LIST_PRICES.reads))
