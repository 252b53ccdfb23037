# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Messages about errors of AWS."""

from __future__ import annotations

import os
from typing import Any, NoReturn

try:
    import botocore.exceptions
except ImportError:
    pass  # AnsibleAWSModule reports the missing library

from ansible.module_utils.common.dict_transformations import camel_dict_to_snake_dict

from .client import AnsibleAWSModule, ClientError
from .error_codes import DENIED, REJECTED, error_code
from .regions import is_always_enabled

NO_CREDENTIALS = (
    "No AWS credentials found. Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or sign in first."
    " For the local cloud, run `make shell` first."
)


def fail(module: AnsibleAWSModule, error: Exception, **result: Any) -> NoReturn:
    if isinstance(error, botocore.exceptions.NoCredentialsError):
        module.fail_json(msg=NO_CREDENTIALS, **result)
    if error_code(error) in REJECTED:
        module.fail_json(msg=rejection(error, module.region), **result)
    if error_code(error) in DENIED:
        module.fail_json(msg=denial(error), **{**camel_dict_to_snake_dict(error.response), **result})  # type: ignore[attr-defined]
    if isinstance(error, ClientError):
        module.fail_json_aws(error, **result)
    module.fail_json(msg=f"{error}{connection_advice(error)}", **result)
    raise AssertionError("fail_json returned")


def rejection(error: BaseException, region: str) -> str:
    """Return a message about credentials that AWS does not accept. The message contains AWS's error code and advice."""
    key = os.environ.get("AWS_ACCESS_KEY_ID")
    where = f" The environment variables AWS_ACCESS_KEY_ID ({key}) and AWS_SECRET_ACCESS_KEY set them." if key else ""
    enable = "" if is_always_enabled(region) else f" If other regions accept these credentials, enable {region} for the account."
    return (
        f"AWS does not accept the credentials in {region} ({error_code(error)}).{where} Sign in again, or correct the keys.{enable} To see "
        "where the keys come from, run: aws configure list\nTo test the credentials, run: aws sts get-caller-identity"
    )


def denial(error: Any) -> str:
    """Return a message about a denied API call: which identity is not allowed to make which call, and what to do."""
    message = error.response["Error"].get("Message", "")
    told = message.removeprefix("You are not authorized to perform this operation.").strip().rstrip(".")
    if "is not authorized to perform" not in told:
        told = f"These credentials may not call {error.operation_name} ({': '.join(filter(None, (error_code(error), told)))})"
    return f"{told}.{denial_advice(error)}"


def denial_advice(error: BaseException) -> str:
    """Return what to do about a denied API call, or an empty string for any other error.

    If Auto Scaling may not launch instances on behalf of the caller, AWS tells neither the action nor the resource.
    """
    if error_code(error) not in DENIED:
        return ""
    checked = (
        " Auto Scaling checks ec2:RunInstances for the template and for each resource in it, ec2:CreateTags and iam:PassRole. If the "
        "template refers to security groups or a role of yours, the policies must allow their ARNs (--adopt)."
    )
    return (
        f"{checked if 'to use launch template' in str(error) else ''} Attach the policies from docs/permissions.md to this identity, "
        "or use other credentials."
    )


def connection_advice(error: Exception) -> str:
    """Return advice for an unreachable AWS endpoint, or an empty string for any other error."""
    if not isinstance(error, (botocore.exceptions.EndpointConnectionError, botocore.exceptions.ConnectTimeoutError)):
        return ""
    if os.environ.get("AWS_ENDPOINT_URL"):
        return (
            ". The environment variable AWS_ENDPOINT_URL sets this address. If a local cloud uses the address, start the local cloud again "
            "with local-cloud start or make train. Otherwise, correct the variable or unset it."
        )
    return ". Check the network connection and the region name. In a VPC without internet access, the service needs a VPC endpoint."
