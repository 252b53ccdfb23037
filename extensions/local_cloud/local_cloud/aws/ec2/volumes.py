"""The encryption and deletion of EBS volumes."""

from __future__ import annotations

from functools import partial
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.models import EC2Backend
from moto.ec2.models.elastic_block_store import Volume
from moto.ec2.responses import EC2Response

from ..context import CLOUD
from ..kms.keys import usable_key
from ..override import override

moto_create_volume = EC2Response.create_volume
moto_delete_volume = EC2Backend.delete_volume
moto_status: Any = vars(Volume)["status"].fget


@override(EC2Response)
def create_volume(self: EC2Response) -> ActionResult:
    """Create a volume. EC2 accepts an unusable KMS key: the volume stays `creating` for a while and then disappears."""
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


def _status(self: Any) -> str:
    return "creating" if self.__dict__.get("lacks_key") else str(moto_status(self))


Volume.status = property(_status)  # type: ignore[assignment, method-assign]


def _remove_volume(backend: EC2Backend, identifier: str) -> None:
    backend.volumes.pop(identifier, None)
    backend.tags.pop(identifier, None)


@override(EC2Backend)
def delete_volume(self: EC2Backend, volume_id: str) -> Any:
    volume = moto_delete_volume(self, volume_id)
    self.tags.pop(volume_id, None)
    return volume
