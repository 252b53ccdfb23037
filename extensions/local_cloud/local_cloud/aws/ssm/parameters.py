"""Parameter Store: encryption with a KMS key, and the public parameters of Deep Learning AMIs."""

from __future__ import annotations

import inspect
from typing import Any

from moto.ec2.models import ec2_backends
from moto.ssm.exceptions import SSMException
from moto.ssm.models import Parameter, ParameterDict, SimpleSystemManagerBackend

from ..context import CLOUD
from ..ec2.images import Release, releases
from ..kms.keys import usable_key
from ..override import override

TYPE_MISMATCH = (
    "Parameter Store doesn't support changing a parameter type in a hierarchy. For example, you can't change a parameter from a String "
    "type to a SecureString type. You must create a new, unique parameter."
)

moto_get_parameter = SimpleSystemManagerBackend.get_parameter
moto_put_parameter = SimpleSystemManagerBackend.put_parameter
moto_check_loading_status = ParameterDict._check_loading_status


@override(SimpleSystemManagerBackend)
def put_parameter(self: SimpleSystemManagerBackend, *args: Any, **kwargs: Any) -> Parameter:
    """Store a parameter. Raises `InvalidKeyId` for a key that does not exist or cannot encrypt, and `HierarchyTypeMismatchException` for an
    existing parameter of another type.
    """
    bound = inspect.signature(moto_put_parameter).bind(self, *args, **kwargs).arguments
    known = self._parameters[bound["name"]]
    if known and bound["parameter_type"] not in (None, "", known[-1].parameter_type):
        raise SSMException("HierarchyTypeMismatchException", TYPE_MISMATCH)
    identifier = bound["keyid"]
    if identifier and usable_key(self.account_id, self.region_name, identifier) is None:
        raise SSMException("InvalidKeyId", f"The key {identifier} cannot be found, or is not enabled. (Service: AWSKMS)")
    parameter = moto_put_parameter(self, *args, **kwargs)
    if CLOUD.reads_stale_parameters:
        CLOUD.unread_parameters.add(parameter.name)
    return parameter


@override(SimpleSystemManagerBackend)
def get_parameter(self: SimpleSystemManagerBackend, name: str) -> Parameter | None:
    """Return a parameter. If reads are stale, the first read after a change returns the state before the change."""
    own_name = self._strip_parameter_arn(name).split(":")[0]
    if own_name not in CLOUD.unread_parameters:
        return moto_get_parameter(self, name)
    CLOUD.unread_parameters.remove(own_name)
    versions = self._parameters[own_name]
    if len(versions) < 2:
        return None
    newest = versions.pop()
    try:
        return moto_get_parameter(self, name)
    finally:
        versions.append(newest)


@override(ParameterDict)
def _check_loading_status(self: Any, key: str) -> None:
    if str(key or "").startswith("/aws/service/deeplearning"):
        images = sorted(releases(ec2_backends[self.account_id][self.region_name]), key=lambda image: image.date)
        newest = {image.kind: image for image in images}
        for image in newest.values():
            _add_version(self, image)
    moto_check_loading_status(self, key)


def _add_version(parameters: Any, image: Release) -> None:
    """Add a version to the parameter for this kind of image, unless the latest version already contains the image's ID."""
    part, architecture = image.kind
    name = f"/aws/service/deeplearning/ami/{architecture}/{part}/latest/ami-id"
    versions = parameters.setdefault(name, [])
    if versions and versions[-1].value == image.id:
        return
    versions.append(
        Parameter(  # type: ignore[abstract]  # moto's class lacks methods for CloudFormation
            account_id=parameters.account_id,
            name=name,
            value=image.id,
            parameter_type="String",
            description=None,
            allowed_pattern=None,
            keyid=None,
            last_modified_date=image.creation_date,
            version=len(versions) + 1,
            data_type="aws:ec2:image",
        )
    )
