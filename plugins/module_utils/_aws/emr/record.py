# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Records in Parameter Store which EMR cluster belongs to a training cluster.

Names and tags do not identify the EMR cluster reliably, because anyone who may create or tag EMR clusters can set them. Only users who may
change the cluster can change the parameter.
"""

from __future__ import annotations

import re
import secrets
from typing import NamedTuple

from ..client import AwsClient, ClientError, ClusterError
from ..error_codes import is_missing
from ..node_service import Reader

# The tag for the token of a new EMR cluster.
#
# EMR chooses the cluster's ID, so the token identifies the cluster until the ID is recorded.
CREATION_TAG = "deeplearning:creation"
VALUE = re.compile(r"creating-(?P<token>[0-9a-f]{32})|(?P<cluster>j-[0-9A-Z]{1,30})")


class ClusterRecord(NamedTuple):
    """The value and the version of the parameter. The value contains the ID of the EMR cluster or, while a run creates it, a token."""

    value: str
    version: int

    @property
    def cluster_id(self) -> str:
        return self._part("cluster")

    @property
    def token(self) -> str:
        return self._part("token")

    def _part(self, name: str) -> str:
        found = VALUE.fullmatch(self.value)
        return (found and found[name]) or ""


def parameter_name(cluster: str) -> str:
    return f"/deeplearning/{cluster}/emr-cluster"


def read(reader: Reader, version: int | None = None) -> ClusterRecord | None:
    """Return the current record or, if `version` is specified, that version of the record. Return None if no such record exists."""
    name = parameter_name(reader.cluster)
    names = [name if version is None else f"{name}:{version}"]
    found = reader.client("ssm").get_parameters(Names=names)["Parameters"]
    return ClusterRecord(str(found[0]["Value"]), int(found[0]["Version"])) if found else None


def begin(cloud: AwsClient) -> ClusterRecord:
    """Record that a run is about to create the cluster, and return the record. If an interrupted run left a token, reuse the token."""
    found = read(cloud)
    return found if found and found.token else _write(cloud, f"creating-{secrets.token_hex(16)}")


def complete(cloud: AwsClient, begun: ClusterRecord, cluster_id: str) -> None:
    """Record the ID of the cluster. Raises ClusterError if another run has recorded a cluster since `begun` was read."""
    written = _write(cloud, cluster_id)
    before = begun if written.version == begun.version + 1 else read(cloud, written.version - 1)
    if before and before.value not in (begun.value, cluster_id):
        raise ClusterError(
            f"Another run created an EMR cluster for {cloud.cluster} at the same time. From now on, runs use {cluster_id}. "
            f"Terminate all other EMR clusters with the name {cloud.cluster}, because they cost money."
        )


def _write(cloud: AwsClient, value: str) -> ClusterRecord:
    description = f"EMR cluster of the training cluster {cloud.cluster}"
    name = parameter_name(cloud.cluster)
    answer = cloud.ssm.put_parameter(Name=name, Description=description, Type="String", Value=value, Overwrite=True)
    return ClusterRecord(value, int(answer["Version"]))


def delete(cloud: AwsClient) -> None:
    try:
        cloud.ssm.delete_parameter(Name=parameter_name(cloud.cluster))
    except ClientError as error:
        if not is_missing(error):
            raise
