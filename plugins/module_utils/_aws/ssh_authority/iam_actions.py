# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The calls to AWS for the KMS key of a cluster's SSH authority."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.iam_actions import IamActions

# The policy of a new key lets its creator schedule the deletion. For those who destroy the cluster, IAM allows it.
IAM_ACTIONS = IamActions(
    reads=("kms:DescribeKey",),
    present=("kms:CreateAlias", "kms:CreateKey", "sts:GetCallerIdentity"),
    absent=("kms:DeleteAlias", "kms:ScheduleKeyDeletion"),
)
