# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Combines identical text from several hosts into one entry that names these hosts. Performs no I/O."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

# Maximum number of hosts to name. Additional hosts are only counted.
NAMED_HOSTS = 4


class Folded:
    """Messages, each with the hosts that reported it."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._hosts: dict[str, list[str]] = {}

    def add(self, text: str, host: str, aliases: Iterable[str] = ()) -> None:
        """Add a message from a host. Messages that differ only in the `aliases` (the host's names and addresses) are grouped."""
        key = without_names(text, aliases)
        self._texts.setdefault(key, text)
        hosts = self._hosts.setdefault(key, [])
        if host not in hosts:
            hosts.append(host)

    def __iter__(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each text in the wording of the first host that reported it, with the names of all hosts that reported it."""
        return iter([(text, self._hosts[key]) for key, text in self._texts.items()])

    def __len__(self) -> int:
        return len(self._texts)


def without_names(text: str, names: Iterable[str]) -> str:
    """Return the text with a placeholder in place of each name."""
    known = sorted(filter(None, names), key=len, reverse=True)
    return re.sub(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, known))})(?![\w-])", "\0", text) if known else text


def host_names(hosts: Sequence[str], everybody: Collection[str]) -> str:
    """Return the names of hosts as text, in the order of their numbers, such as `all 3 hosts` or
    `demo-master, demo-worker2`. `everybody` contains all hosts of the play."""
    if len(hosts) > 1 and set(hosts) == set(everybody):
        return f"all {len(hosts)} hosts"
    hosts = sorted(hosts, key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])
    if len(hosts) <= NAMED_HOSTS:
        return ", ".join(hosts)
    return f"{', '.join(hosts[: NAMED_HOSTS - 1])} and {len(hosts) - NAMED_HOSTS + 1} more hosts"
