# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks the SSH certificates of the host."""

from __future__ import annotations

import contextlib
import time

from ..._common.node_health.check import CONFIGURE, MONITOR, RESTART, CheckedNode, Problem
from ..._common.ssh_trust.certificates import DAY, parse_certificate
from ..._common.ssh_trust.files import HOST_CERTIFICATE, USER_CERTIFICATE


def read_certificates(_node: CheckedNode) -> dict[str, str]:
    """Return the SSH certificates of this host, keyed by path.

    A host that does not trust a cluster's certificate authority has no certificates.
    """
    found = {}
    for path in (HOST_CERTIFICATE, USER_CERTIFICATE):
        with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8", errors="replace") as file:
            found[path] = file.read()
    return found


def decide_certificates(certificates: dict[str, str], _node: CheckedNode, now: float | None = None) -> list[Problem]:
    """Return a problem for each certificate that is not valid now or that expires within a day. `now` is in seconds since 1970."""
    moment, problems = time.time() if now is None else now, []
    for path, text in certificates.items():
        try:
            certificate = parse_certificate(text)
        except ValueError as error:
            problems.append((RESTART, f"{path}: {error}. {CONFIGURE}"))
            continue
        if not certificate.valid_after <= moment < certificate.valid_before:
            problems.append((RESTART, f"{path}: the certificate has expired or is not valid yet. {CONFIGURE}"))
        elif certificate.valid_before < moment + DAY:
            problems.append((MONITOR, f"{path}: the certificate expires in less than a day. {CONFIGURE}"))
    return problems
