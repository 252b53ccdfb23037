"""Certificates that the action signs for a temporary key with a temporary certificate authority."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.action import ssh_trust
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

NAMES = ["i-1", "deeplearning-worker2", "10.0.1.5"]


def key_pair():
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    return private, key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


AUTHORITY, AUTHORITY_PUBLIC = key_pair()
_OWN, PUBLIC = key_pair()
ARGUMENTS = {"authority": AUTHORITY_PUBLIC + " demo", "principals": NAMES, "user": "ubuntu", "validity_days": 100}
SOURCES = ["10.0.1.5"]


def signed(kind, **changes):
    found = ssh_trust.certificates({kind: {"public_key": PUBLIC}}, {**ARGUMENTS, **changes}, AUTHORITY)
    return found[f"{kind}_certificate"]
