# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The clusters, the partition and the resources to which IAM policies apply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

EXAMPLE = "example-*"
PARTITIONS = ("aws", "aws-cn", "aws-eusc", "aws-us-gov")


@dataclass(frozen=True)
class Account:
    cluster: str = EXAMPLE
    partition: str = "aws"
    # ARN of the permissions boundary of the nodes' roles.
    permissions_boundary: str = ""
    # ARNs of the resources to which definitions refer, but which the clusters do not own.
    adopted: tuple[str, ...] = ()
    # The only allowed region. An empty string allows all regions.
    region: str = ""

    def own_or_adopted(self, service: str, *arns: str) -> tuple[str, ...]:
        return (*arns, *(arn for arn in self.adopted if arn.split(":")[2] == service))

    @property
    def bounded(self) -> dict[str, Any]:
        return {"ArnEquals": {"iam:PermissionsBoundary": self.permissions_boundary}} if self.permissions_boundary else {}

    def arns(self, *names: str) -> tuple[str, ...]:
        """Return the ARNs of an account's resources, each given as a string such as `service:resource`. IAM ARNs contain no region."""
        parts = [name.split(":", 1) for name in names]
        return tuple(f"arn:{self.partition}:{service}:{'' if service == 'iam' else '*'}:*:{resource}" for service, resource in parts)

    def public(self, name: str) -> str:
        """Return the ARN of resources that belong to AWS or to an account that shares them."""
        service, resource = name.split(":", 1)
        return f"arn:{self.partition}:{service}:*::{resource}"

    @property
    def new(self) -> dict[str, Any]:
        return {"StringLike": {"aws:RequestTag/deeplearning:cluster": self.cluster}}

    @property
    def own(self) -> dict[str, Any]:
        return {"StringLike": {"aws:ResourceTag/deeplearning:cluster": self.cluster}}
