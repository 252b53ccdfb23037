# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""OpenSSH certificates and the files that make hosts trust them: read certificates, decide on renewal, write configuration."""

from __future__ import annotations

import base64
import binascii
import struct
from typing import NamedTuple, Sequence

CERTIFICATE_TYPE = "ssh-ed25519-cert-v01@openssh.com"
HOST, USER = "host", "user"
KINDS = {1: USER, 2: HOST}  # SSH_CERT_TYPE_USER, SSH_CERT_TYPE_HOST of OpenSSH's PROTOCOL.certkeys

DAY = 86400


class Certificate(NamedTuple):
    """What a certificate says; keys are OpenSSH lines without comment, times are seconds since the epoch."""

    kind: str
    public_key: str
    key_id: str
    principals: tuple[str, ...]
    valid_after: int
    valid_before: int
    authority: str


def bare_key(line: str) -> str:
    """Return type and key of an OpenSSH public key line, without its comment. Raises ValueError when it is not one."""
    fields = line.split()
    if len(fields) < 2 or not fields[0].startswith(("ssh-", "ecdsa-", "sk-")):
        raise ValueError(f"not an OpenSSH public key: {line[:40]!r}")
    return " ".join(fields[:2])


def parse_certificate(line: str) -> Certificate:
    """Return what an OpenSSH ed25519 certificate says. Its signature is not verified: sshd and ssh do that.

    Raises ValueError when the line is something else. The format is in OpenSSH's PROTOCOL.certkeys.
    """
    fields = line.split()
    if len(fields) < 2 or fields[0] != CERTIFICATE_TYPE:
        raise ValueError("not an ed25519 certificate")
    try:
        blob = base64.b64decode(fields[1], validate=True)
        _name, blob = _string(blob)
        _nonce, blob = _string(blob)
        key, blob = _string(blob)
        (_serial, kind), blob = struct.unpack(">QI", blob[:12]), blob[12:]
        key_id, blob = _string(blob)
        principals, blob = _string(blob)
        (valid_after, valid_before), blob = struct.unpack(">QQ", blob[:16]), blob[16:]
        _options, blob = _string(blob)
        _extensions, blob = _string(blob)
        _reserved, blob = _string(blob)
        authority, _signature = _string(blob)
        return Certificate(
            KINDS[kind],
            _line(b"ssh-ed25519", _pack(b"ssh-ed25519") + _pack(key)),
            key_id.decode(),
            tuple(_strings(principals)),
            valid_after,
            valid_before,
            _line(_string(authority)[0], authority),
        )
    except (binascii.Error, struct.error, KeyError, UnicodeDecodeError) as error:
        raise ValueError(f"damaged certificate: {error}") from error


def _pack(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def _string(blob: bytes) -> tuple[bytes, bytes]:
    (length,) = struct.unpack(">I", blob[:4])
    if len(blob) < 4 + length:
        raise ValueError("damaged certificate: it ends too early")
    return blob[4 : 4 + length], blob[4 + length :]


def _strings(blob: bytes) -> list[str]:
    result = []
    while blob:
        text, blob = _string(blob)
        result.append(text.decode())
    return result


def _line(name: bytes, blob: bytes) -> str:
    return f"{name.decode()} {base64.b64encode(blob).decode()}"


def renewal_reason(
    certificate: str | None, kind: str, public_key: str | None, principals: Sequence[str], authority: str, now: float, renew_days: int
) -> str | None:
    """Return why a new certificate is needed, None while the one at hand will do for I(renew_days) more days."""
    if certificate is None or public_key is None:
        return "there is none"
    try:
        found = parse_certificate(certificate)
    except ValueError as error:
        return str(error)
    reasons = [
        (found.kind != kind, f"it is a {found.kind} certificate"),
        (found.public_key != bare_key(public_key), "the key has changed"),
        (found.authority != bare_key(authority), "another authority signed it"),
        (set(found.principals) != set(principals), "the names have changed"),
        (found.valid_after > now, "it is not valid yet"),
        (found.valid_before < now + renew_days * DAY, f"it ends in less than {renew_days} days"),
    ]
    return next((reason for applies, reason in reasons if applies), None)


def daemon_configuration(user: str, authority_path: str, certificate_path: str) -> str:
    """Return the drop-in of sshd: who the host is, and that the authority vouches for the login user and nobody else."""
    return f"""# Written by deeplearning.cluster.ssh_trust
HostCertificate {certificate_path}
Match User {user}
    TrustedUserCAKeys {authority_path}
Match all
"""


def client_configuration(cluster: str) -> str:
    """Return the drop-in of ssh: no guessing when it talks to hosts of the cluster by name."""
    return """# Written by deeplearning.cluster.ssh_trust
Host {names}
    StrictHostKeyChecking yes
    CheckHostIP no
""".format(names=" ".join(name_patterns(cluster)))


def name_patterns(cluster: str) -> list[str]:
    """Return the patterns of the names that hosts of the cluster have."""
    return ["deeplearning-*", cluster + "-*"]


def known_hosts_line(authority: str, patterns: Sequence[str]) -> str:
    """Return the line of a known_hosts file that trusts the authority for host names that match."""
    return "@cert-authority {0} {1}\n".format(",".join(patterns), bare_key(authority))


def replace_known_hosts_line(text: str, cluster: str, authority: str, patterns: Sequence[str]) -> str:
    """Return the text of a known_hosts file with the line of the cluster's authority in it once, whatever else is there."""
    mark = f" deeplearning.cluster:{cluster}"
    lines = [line for line in text.splitlines() if not line.endswith(mark)]
    return "".join(line + "\n" for line in lines) + known_hosts_line(authority, patterns).rstrip("\n") + mark + "\n"
