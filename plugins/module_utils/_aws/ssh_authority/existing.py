# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks whether the cluster has an SSH certificate authority, without reading its private key."""

from __future__ import annotations

from ..client import AwsClient, ClientError
from ..error_codes import error_code
from .parameter import parameter_name


def exists(cloud: AwsClient) -> bool:
    """Return whether the parameter exists. The check reads only the parameter's tags and needs no permission to read the private key."""
    try:
        cloud.ssm.list_tags_for_resource(ResourceType="Parameter", ResourceId=parameter_name(cloud.cluster))
    except ClientError as error:
        if error_code(error) == "InvalidResourceId":
            return False
        raise
    return True
