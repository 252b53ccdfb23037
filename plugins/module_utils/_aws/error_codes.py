# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""AWS's error codes: what they mean, and which calls can be repeated."""

from __future__ import annotations

try:
    import botocore.exceptions
except ImportError:
    pass  # AnsibleAWSModule reports the missing library

# AWS is eventually consistent. For a while, API calls that refer to a new resource may fail with these error codes.
NOT_YET_VISIBLE = (
    "InvalidAllocationID.NotFound",
    "InvalidGatewayID.NotFound",
    "InvalidGroup.NotFound",
    "InvalidGroupId.Malformed",
    "InvalidInternetGatewayID.NotFound",
    "InvalidLaunchTemplateId.NotFound",
    "InvalidNatGatewayID.NotFound",
    "InvalidRouteTableID.NotFound",
    "InvalidRouteTableId.NotFound",
    "InvalidSecurityGroupID.NotFound",
    "InvalidSubnetID.NotFound",
    "InvalidVpcID.NotFound",
    "InvalidVpcEndpointId.NotFound",
    "NatGatewayNotFound",
    "NoSuchEntity",
    "SubnetNotFound",
)
# Error codes for a resource that is in use, for example by a resource that is itself being deleted, or by a scaling activity.
IN_USE = (
    "DeleteConflict",
    "DependencyViolation",
    "FileSystemInUse",
    "InvalidGroup.InUse",
    "InvalidPlacementGroup.InUse",
    "InvalidIPAddress.InUse",
    "ResourceInUse",
    "ScalingActivityInProgress",
)
# Error codes for invalid credentials, and for valid credentials in a region that the account has not enabled.
REJECTED = (
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidToken",
    "OptInRequired",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
)
# Error codes for throttled API calls. AWS does not execute a throttled call.
THROTTLED = ("RequestLimitExceeded", "RequestThrottled", "Throttling", "ThrottlingException", "TooManyRequestsException")
# Error codes for an API call that has already taken effect, possibly in an earlier attempt whose response was lost.
DONE_BEFORE = (
    "AccessPointAlreadyExists",
    "AlreadyExists",
    "AlreadyExistsFault",
    "EntityAlreadyExists",
    "Gateway.NotAttached",
    "InvalidGroup.Duplicate",
    "InvalidPermission.Duplicate",
    "InvalidPlacementGroup.Duplicate",
    "InvalidSubnet.Conflict",
    "MountTargetConflict",
    "Resource.AlreadyAssociated",
    "RouteAlreadyExists",
)
# For certain operations, other error codes also mean that the call has already taken effect. AddRoleToInstanceProfile returns LimitExceeded
# if the profile already has a role. For other operations, LimitExceeded means that a quota of IAM or Auto Scaling is exhausted.
DONE_BEFORE_IN = {("AddRoleToInstanceProfile", "LimitExceeded")}
# Error codes for denied API calls. AWS also returns these codes for a new resource until the resource is visible to IAM.
DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")


def error_code(error: BaseException) -> str:
    """Return the error code from AWS, or an empty string if there is none."""
    return str(getattr(error, "response", {}).get("Error", {}).get("Code", ""))


def outcome_is_unknown(error: BaseException) -> bool:
    """Return whether a failed call may have taken effect: the server failed, the response was lost, or an earlier attempt succeeded."""
    if isinstance(error, botocore.exceptions.HTTPClientError):
        return True
    status = getattr(error, "response", {}).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    broken = status >= 500 and error_code(error) not in THROTTLED
    done = error_code(error) in DONE_BEFORE or (getattr(error, "operation_name", ""), error_code(error)) in DONE_BEFORE_IN
    return bool(broken or done or is_missing(error))


def is_missing(error: BaseException) -> bool:
    code = error_code(error)
    return (
        code in ("NoSuchEntity", "InvalidPlacementGroup.Unknown")
        or code.endswith(("NotFound", "NotFoundException"))
        or (code == "ValidationError" and "AutoScalingGroup name not found" in str(error))
    )
