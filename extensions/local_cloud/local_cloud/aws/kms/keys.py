"""KMS keys as the services see them that encrypt with them, and volumes that vanish for want of one."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.models import EC2Backend
from moto.ec2.models.elastic_block_store import Volume
from moto.ec2.responses import EC2Response
from moto.kms.models import kms_backends
from moto.kms.utils import RESERVED_ALIASES
from moto.ssm.exceptions import SSMException
from moto.ssm.models import Parameter, SimpleSystemManagerBackend

from ..context import CLOUD
from ..override import override

# moto's own list of the keys that services bring along lacks that of FSx.
RESERVED_ALIASES.append("alias/aws/fsx")

moto_create_volume = EC2Response.create_volume
moto_put_parameter = SimpleSystemManagerBackend.put_parameter
moto_status: Any = vars(Volume)["status"].fget


def find_key(account: str, region: str, identifier: str) -> Any:
    """The key with this id, ARN, alias or alias ARN; None when there is none."""
    backend = kms_backends[account][region]
    name = backend.get_alias_name(identifier)
    return backend.keys.get((backend.get_key_id_from_alias(name) if name.startswith("alias/") else backend.get_key_id(name)) or "")


def usable_key(account: str, region: str, identifier: str) -> str | None:
    """The ARN of the key with this id, ARN, alias or alias ARN; None when there is none that is enabled and symmetric."""
    key = find_key(account, region, identifier)
    if key is None or key.key_state != "Enabled" or key.key_spec != "SYMMETRIC_DEFAULT":
        return None
    return str(key.arn)


@override(EC2Response)
def create_volume(self: EC2Response) -> ActionResult:
    """Create a volume. A bad key is not refused: the volume is creating for a while, and then it is gone."""
    result = moto_create_volume(self)
    identifier, backend = self._get_param("KmsKeyId"), self.ec2_backend
    if identifier:
        volume: Any = list(backend.volumes.values())[-1]
        arn = usable_key(backend.account_id, backend.region_name, identifier)
        volume.kms_key_id = arn or identifier
        if arn is None:
            volume.lacks_key = True
            CLOUD.clock.after(CLOUD.delays.file_system, partial(_remove_volume, backend, volume.id))
    return result


@override(SimpleSystemManagerBackend)
def put_parameter(self: SimpleSystemManagerBackend, *args: Any, **kwargs: Any) -> Parameter:
    """Store a parameter. A key that there is not, or that cannot encrypt, is refused."""
    bound = inspect.signature(moto_put_parameter).bind(self, *args, **kwargs).arguments
    identifier = bound["keyid"]
    if identifier and usable_key(self.account_id, self.region_name, identifier) is None:
        raise SSMException("InvalidKeyId", f"The key {identifier} cannot be found, or is not enabled. (Service: AWSKMS)")
    return moto_put_parameter(self, *args, **kwargs)


def _status(self: Any) -> str:
    return "creating" if self.__dict__.get("lacks_key") else str(moto_status(self))


Volume.status = property(_status)  # type: ignore[assignment, method-assign]


def _remove_volume(backend: EC2Backend, identifier: str) -> None:
    backend.volumes.pop(identifier, None)
    backend.tags.pop(identifier, None)
