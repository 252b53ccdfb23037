# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The published public keys of the cluster's SSH certificate authority: a parameter that operators without the private key may read.

The first key belongs to the stored private key. During a rotation, the second key belongs to the previous private key, because some nodes
still have certificates of the previous authority.
"""

from __future__ import annotations

from typing import NamedTuple

from ..client import CLUSTER_TAG, COMPONENT_TAG, AwsClient, ClientError, if_exists, tag_list
from ..error_codes import error_code
from .parameter import public_parameter_name
from .visibility import wait_for_version


class Published(NamedTuple):
    """The lines of the parameter, and its version, which is 0 if the parameter does not exist."""

    keys: list[str]
    version: int


def read(cloud: AwsClient, version: int = 0) -> list[str]:
    """Return the lines of the parameter, or an empty list if it does not exist. Others may have changed the parameter.

    Wait until at least the given version is visible.
    """
    return wait_for_version(cloud, public_parameter_name(cloud.cluster), version, lambda: _read(cloud)).keys


def _read(cloud: AwsClient) -> Published:
    answer = if_exists(cloud.ssm.get_parameter, Name=public_parameter_name(cloud.cluster))
    return Published(str(answer["Parameter"]["Value"]).splitlines(), answer["Parameter"]["Version"]) if answer else Published([], 0)


def write(cloud: AwsClient, keys: list[str]) -> int:
    """Create or overwrite the parameter, and return its version. SSM accepts tags only for a new parameter."""
    arguments = {"Name": public_parameter_name(cloud.cluster), "Type": "String", "Value": "\n".join(keys)}
    tags = tag_list({CLUSTER_TAG: cloud.cluster, COMPONENT_TAG: "ssh_trust"})
    description = f"Public key of the SSH certificate authority of the training cluster {cloud.cluster}"
    try:
        answer = cloud.ssm.put_parameter(**arguments, Description=description, Tags=tags)
    except ClientError as error:
        if error_code(error) != "ParameterAlreadyExists":
            raise
        answer = cloud.ssm.put_parameter(**arguments, Overwrite=True)
    return int(answer["Version"])
