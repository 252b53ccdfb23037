"""Snapshots of the account: the moto backends in use and the local cloud's own state."""

from __future__ import annotations

import os
import pickle
import threading
import weakref
from collections import defaultdict
from functools import partial
from pathlib import Path
from types import GeneratorType
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from moto import backends
from moto.core.base_backend import BackendDict
from moto.ec2.models.vpcs import VPCBackend
from moto.iam.models import AWSManagedPolicy, iam_backends
from moto.ssm.models import ParameterDict, SimpleSystemManagerBackend

from ..private_files import CloudError, check_owner, open_private
from .context import CLOUD
from .override import override

# The first line of a snapshot. Increase the number when the format of the state or the path of a saved class changes.
FORMAT = b"local cloud, state 7\n"
# Saved attributes of the local cloud's own state.
SAVED = ("clock", "capacity", "spot_prices", "quotas", "failing_launches", "delays", "latest_public", "service_roles", "invocations")
LOCKS = {type(threading.Lock()): threading.Lock, type(threading.RLock()): threading.RLock}

PRIVATE_KEYS = (RSAPrivateKey, EllipticCurvePrivateKey, Ed25519PrivateKey)

moto_ssm_backend = SimpleSystemManagerBackend.__init__


@override(SimpleSystemManagerBackend)
def __init__(self: Any, region_name: str, account_id: str) -> None:
    moto_ssm_backend(self, region_name, account_id)
    self._resource_tags = defaultdict(partial(defaultdict, dict))  # moto's dictionary contains a lambda, which cannot be pickled


@override(ParameterDict)
def __reduce__(self: Any) -> tuple[Any, ...]:
    return type(self), (self.account_id, self.region_name), dict(self.__dict__), None, iter(self.items())


def _private_key(pem: bytes) -> Any:
    return load_pem_private_key(pem, None)


def _managed_policy(account: str, partition: str, arn: str) -> Any:
    return iam_backends[account][partition].managed_policies[arn]


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        """Save a lock as an unlocked lock, a private key in PEM format, and a generator as an empty iterator.

        Of AWS managed policies, only the identity is saved. They are large (megabytes in total) and never change.
        """
        if isinstance(obj, AWSManagedPolicy):
            return _managed_policy, (obj.account_id, obj.partition, obj.arn)
        if type(obj) in LOCKS:
            return LOCKS[type(obj)], ()
        if isinstance(obj, PRIVATE_KEYS):
            pem = obj.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            return _private_key, (pem,)
        if isinstance(obj, GeneratorType):  # further pages of a response, which moto keeps until a client requests these pages
            return iter, ((),)
        return NotImplemented


def save(path: Path) -> None:
    """Write a snapshot. The file is replaced only when the snapshot is complete."""
    with CLOUD.lock:
        in_use: list[Any] = BackendDict._instances  # type: ignore[misc]
        state = {
            "backends": {each.service_name: {account: dict(regions) for account, regions in each.items()} for each in in_use},
            **{name: getattr(CLOUD, name) for name in SAVED},
        }
        new = path.with_name(path.name + ".new")
        new.unlink(missing_ok=True)
        # The snapshot contains private keys.
        with open_private(new, "xb") as file:
            file.write(FORMAT)
            _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(state)
        os.replace(new, path)


def load(path: Path) -> None:
    """Replace the state with a snapshot.

    Raises `ForeignFile` if another user owns the file, because unpickling executes code. Raises `CloudError` if a different version of the
    local cloud wrote the snapshot.
    """
    with CLOUD.lock:
        with path.open("rb") as file:
            check_owner(os.fstat(file.fileno()), path)
            if file.readline(len(FORMAT)) != FORMAT:
                raise CloudError(
                    "The state was written by a different version. Delete this local cloud (make clean, or local-cloud destroy) and start "
                    "again."
                )
            state = pickle.load(file)
        for service, accounts in state["backends"].items():
            backend_dict = backends.get_backend(service)
            for account, regions in accounts.items():
                for region, backend in regions.items():
                    dict.__setitem__(backend_dict[account], region, backend)
                    if isinstance(backend, VPCBackend):
                        VPCBackend.vpc_refs[type(backend)].add(weakref.ref(backend))
        for name in SAVED:
            setattr(CLOUD, name, state.get(name, getattr(CLOUD, name)))
