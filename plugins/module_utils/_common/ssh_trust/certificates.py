# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads OpenSSH certificates, decides whether to renew them, and lists the revoked ones."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import struct
from typing import NamedTuple, Sequence

CERTIFICATE_TYPE = "ssh-ed25519-cert-v01@openssh.com"
HOST, USER = "host", "user"
KINDS = {1: USER, 2: HOST}  # SSH_CERT_TYPE_USER and SSH_CERT_TYPE_HOST in OpenSSH's PROTOCOL.certkeys

DAY = 86400

# Certificates are valid from this number of seconds before the current time, because the clock of a newly booted host may be slow.
CLOCK_SKEW = 3600

# Critical option: the addresses from which a user certificate may be used.
SOURCE_ADDRESS = "source-address"
# A user certificate permits only a terminal: no port, agent or X11 forwarding, and no `~/.ssh/rc`.
PERMISSIONS = ("permit-pty",)

# Values allowed in SSH certificates and configuration files. A value must match its pattern in full.
PUBLIC_KEY = re.compile(r"(ssh-ed25519 [A-Za-z0-9+/=]{1,200})(?: [^\x00-\x1f\x7f]*)?")
CLUSTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
USER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,252}")
ADDRESS_PATTERN = re.compile(r"[0-9A-Fa-f.:*?]{1,64}")


class Certificate(NamedTuple):
    """The contents of a certificate. Keys are OpenSSH public key lines without comments, and times are seconds since 1970."""

    kind: str
    public_key: str
    key_id: str
    principals: tuple[str, ...]
    valid_after: int
    valid_before: int
    authority: str
    critical_options: dict[str, str]
    extensions: tuple[str, ...]


class Terms(NamedTuple):
    """The required contents of a certificate.

    If `sources` is not empty, a user certificate is valid only for connections from the networks in `sources`.
    """

    kind: str
    principals: Sequence[str]
    authority: str
    validity_days: int
    renew_days: int
    sources: Sequence[str] = ()

    @property
    def critical_options(self) -> dict[str, str]:
        return {SOURCE_ADDRESS: ",".join(self.sources)} if self.kind == USER and self.sources else {}

    @property
    def extensions(self) -> tuple[str, ...]:
        return PERMISSIONS if self.kind == USER else ()


def bare_key(line: str) -> str:
    """Return an OpenSSH ed25519 public key line without its comment. Raises ValueError if the line is not such a key."""
    found = PUBLIC_KEY.fullmatch(line.strip())
    if not found:
        raise ValueError(f"{line[:40]!r} is not an OpenSSH ed25519 public key.")
    return found[1]


def check_names(pattern: re.Pattern[str], option: str, values: Sequence[str]) -> None:
    """Raise ValueError for a value that does not match the pattern in full. All values are written to SSH configuration files."""
    for value in values:
        if not pattern.fullmatch(value):
            raise ValueError(f"{option}: {value!r} is not valid. Use a value that matches the regular expression {pattern.pattern}")


def check_networks(option: str, values: Sequence[str]) -> None:
    """Raise ValueError for a value that is neither an IP address nor a network in CIDR notation."""
    for value in values:
        try:
            ipaddress.ip_network(value)
        except ValueError:
            raise ValueError(f"{option}: {value!r} is neither an IP address nor a network in CIDR notation.") from None


def parse_certificate(line: str) -> Certificate:
    """Return the contents of an OpenSSH ed25519 certificate. The signature is not verified, because sshd and ssh verify it.

    Raises ValueError if the line is not an ed25519 certificate. OpenSSH's PROTOCOL.certkeys describes the format.
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
        options, blob = _string(blob)
        extensions, blob = _string(blob)
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
            {name: _strings(data)[0] if data else "" for name, data in _pairs(options)},
            tuple(name for name, _data in _pairs(extensions)),
        )
    except (binascii.Error, struct.error, KeyError, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"damaged certificate: {error}") from error


def _pack(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def _string(blob: bytes) -> tuple[bytes, bytes]:
    (length,) = struct.unpack(">I", blob[:4])
    if len(blob) < 4 + length:
        raise ValueError("damaged certificate: unexpected end of data")
    return blob[4 : 4 + length], blob[4 + length :]


def _strings(blob: bytes) -> list[str]:
    result = []
    while blob:
        text, blob = _string(blob)
        result.append(text.decode())
    return result


def _pairs(blob: bytes) -> list[tuple[str, bytes]]:
    result = []
    while blob:
        name, blob = _string(blob)
        data, blob = _string(blob)
        result.append((name.decode(), data))
    return result


def _line(name: bytes, blob: bytes) -> str:
    return f"{name.decode()} {base64.b64encode(blob).decode()}"


def renewal_reason(certificate: str | None, public_key: str | None, terms: Terms, now: float) -> str | None:
    """Return why a new certificate is needed, or None if the current one meets the requirements and is valid for `renew_days` more days."""
    if certificate is None or public_key is None:
        return "the certificate or its key does not exist"
    try:
        found = parse_certificate(certificate)
    except ValueError as error:
        return str(error)
    reasons = [
        (found.kind != terms.kind, f"the certificate is a {found.kind} certificate"),
        (found.public_key != bare_key(public_key), "the key has changed"),
        (found.authority != bare_key(terms.authority), "a different certificate authority signed the certificate"),
        (set(found.principals) != set(terms.principals), "the names have changed"),
        (found.critical_options != terms.critical_options, "the certificate is restricted to different source addresses"),
        (set(found.extensions) != set(terms.extensions), "the certificate's permissions have changed"),
        (found.valid_after > now, "the certificate is not valid yet"),
        (found.valid_before < now + terms.renew_days * DAY, f"the certificate expires in less than {terms.renew_days} days"),
        # Allow one more day, because this host's clock may be slow.
        (found.valid_before > now + (terms.validity_days + 1) * DAY, f"the certificate is valid for more than {terms.validity_days} days"),
    ]
    return next((reason for applies, reason in reasons if applies), None)


def key_ids(instance_id: str, user: str) -> dict[str, str]:
    """Return the key IDs of an instance's host certificate and user certificate. Revocation lists contain these IDs."""
    return {HOST: instance_id, USER: f"{user}@{instance_id}"}


def revocation_list(authority: str, ids: Sequence[str]) -> bytes:
    """Return an OpenSSH key revocation list for the certificates that the SSH certificate authority signed with these key IDs.

    The same IDs always produce the same bytes. OpenSSH's PROTOCOL.krl describes the format.
    """
    version, generated, flags = 0, 0, 0
    header = struct.pack(">QIQQQ", 0x5353484B524C0A00, 1, version, generated, flags) + _pack(b"") + _pack(b"")
    if not ids:
        return header
    listed = b"".join(_pack(key_id.encode()) for key_id in sorted(set(ids)))
    authority_blob = base64.b64decode(bare_key(authority).split()[1])
    by_key_id = b"\x23" + _pack(listed)  # KRL_SECTION_CERT_KEY_ID
    return header + b"\x01" + _pack(_pack(authority_blob) + _pack(b"") + by_key_id)  # KRL_SECTION_CERTIFICATES
