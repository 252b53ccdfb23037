"""EC2's error messages, in place of messages in which moto prints its own data structures."""

from __future__ import annotations

from typing import Any

from moto.ec2.exceptions import EC2ClientError, InvalidKeyPairNameError, InvalidSecurityGroupNotFoundError, InvalidVPCIdError

from ..override import override

TEXTS: dict[type[EC2ClientError], tuple[str, str]] = {
    InvalidVPCIdError: ("InvalidVpcID.NotFound", "The vpc ID '{}' does not exist"),
    InvalidSecurityGroupNotFoundError: ("InvalidGroup.NotFound", "The security group '{}' does not exist"),
    InvalidKeyPairNameError: ("InvalidKeyPair.NotFound", "The key pair '{}' does not exist"),
}


def _set_message(kind: type[EC2ClientError], code: str, text: str) -> None:
    def __init__(self: EC2ClientError, names: Any) -> None:
        first = names if isinstance(names, str) else sorted(map(str, names))[0]
        EC2ClientError.__init__(self, code, text.format(first))

    override(kind)(__init__)


for _kind, _message in TEXTS.items():
    _set_message(_kind, *_message)
