# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The lines for a cluster's certificate authority in known_hosts files."""

from __future__ import annotations

import fnmatch
import re
from typing import Sequence

from .certificates import bare_key
from .ssh_configuration import name_patterns


def known_hosts_line(authority: str, patterns: Sequence[str]) -> str:
    """Return the known_hosts line that makes ssh trust the certificate authority for matching host names."""
    return "@cert-authority {0} {1}\n".format(",".join(patterns), bare_key(authority))


def replace_known_hosts_line(text: str, cluster: str, authority: str, patterns: Sequence[str]) -> tuple[str, list[str]]:
    """Return the text of a known_hosts file with one line for the cluster's certificate authority, and the older lines that this replaces.

    Older lines for the cluster's host names are replaced, whoever wrote them. Their other host names and revoked keys are kept.
    """
    mark = f" deeplearning.cluster:{cluster}"
    kept, older = [], []
    for line in text.splitlines():
        if line.endswith(mark):
            continue
        others = _without_hosts(line, patterns, name_patterns(cluster))
        kept += [others] if others or not line else []
        older += [line] if others != line else []
    return "".join(f"{line}\n" for line in [*kept, known_hosts_line(authority, patterns).rstrip("\n") + mark]), older


def _without_hosts(line: str, patterns: Sequence[str], names: Sequence[str]) -> str:
    """Return a line of a known_hosts file without these patterns and host names that match `names`.

    Return an empty string if no host is left.
    """
    found = re.fullmatch(r"(@cert-authority\s+)?([^\s#@|]\S*)(\s.*)", line)
    if not found:
        return line
    marker, listed, key = found.groups(default="")
    hosts = listed.split(",")
    rest = [host for host in hosts if host not in patterns and not any(fnmatch.fnmatchcase(host.lower(), name) for name in names)]
    return line if rest == hosts else f"{marker}{','.join(rest)}{key}" if rest else ""
