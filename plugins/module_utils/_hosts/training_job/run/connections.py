# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds out whether a process can still communicate with other hosts, from the kernel's tables of TCP connections.

If a host has lost its network, the processes on it wait in the same place as all others. Only the connections show the difference: none of
the other hosts acknowledges the data of this host, and each of the others misses this host only. If a host receives no data, its
connections also stay open after the processes at their other ends have ended.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from typing import Iterable, NamedTuple

# Maximum size of a table of connections in bytes, and maximum number of open files of a process.
TABLE_LIMIT, FILES_LIMIT = 1 << 22, 1 << 16

# A peer is silent if it has not answered this number of retransmissions or probes. One of them can follow the loss of a single packet.
UNANSWERED = 2

# The states of an established connection and of a socket that waits for connections, the timer that retransmits data, and the timer that
# probes a peer to which no data can be sent: either the peer does not read, and answers the probes, or the firewall of this host drops the
# data. Source: include/net/tcp_states.h and get_tcp4_sock() in net/ipv4/tcp_ipv4.c of Linux.
ESTABLISHED, LISTENS, RETRANSMITS, PROBES = "01", "0A", "01", "04"


class Connection(NamedTuple):
    """An established TCP connection to another host. `inode` identifies its socket."""

    peer: str
    inode: str
    is_silent: bool


def silent_peers(pid: int, proc: str = "/proc") -> int:
    """Return the percentage of the hosts connected to a process that do not acknowledge its data. The result is 0 without connections."""
    found = _of_processes([pid], proc)
    peers = {each.peer for each in found}
    return round(100 * len({each.peer for each in found if each.is_silent}) / len(peers)) if peers else 0


def open_to(pids: Iterable[int], addresses: Iterable[str], proc: str = "/proc") -> set[str]:
    # The table shows an address as a number. An IPv4 address in the table for IPv6 is at the end of a longer number.
    numbers = {f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}": address for address in addresses}
    peers = {each.peer[-8:] for each in _of_processes(pids, proc)}
    return {address for number, address in numbers.items() if number in peers}


def listener(port: int, proc: str = "/proc") -> str:
    """Return a description of a process on this host that listens on a port, or an empty string if none does.

    The processes of other users are unknown, so their user ID is returned.
    """
    sockets = {
        fields[9]: fields[7]
        for table in ("tcp", "tcp6")
        for fields in map(str.split, _lines(os.path.join(proc, "net", table)))
        if len(fields) >= 10 and fields[3] == LISTENS and int(fields[1].rpartition(":")[2], 16) == port
    }
    for pid in filter(str.isdigit, os.listdir(proc) if sockets else ()):
        if sockets.keys() & _sockets(os.path.join(proc, pid, "fd")):
            with contextlib.suppress(OSError), open(os.path.join(proc, pid, "comm"), encoding="utf-8", errors="replace") as file:
                return f"process {pid} {file.read().strip()!r}"
    return f"a process of the user with ID {min(sockets.values())}" if sockets else ""


def _of_processes(pids: Iterable[int], proc: str) -> list[Connection]:
    """Return the established connections of processes to other hosts. Each table can be long, and is read once."""
    inodes = {inode for pid in pids for inode in _sockets(os.path.join(proc, str(pid), "fd"))}
    tables = (_lines(os.path.join(proc, "net", name)) for name in ("tcp", "tcp6"))
    return [each for lines in tables for each in connections(lines) if each.inode in inodes]


def connections(lines: Iterable[str]) -> Iterable[Connection]:
    """Yield the established connections to other hosts in a table such as /proc/net/tcp."""
    for line in lines:
        fields = line.split()
        if len(fields) < 10 or fields[3] != ESTABLISHED:
            continue
        local, peer, timer = fields[1].partition(":")[0], fields[2].partition(":")[0], fields[5].partition(":")[0]
        if local != peer:
            unanswered = {RETRANSMITS: int(fields[6], 16), PROBES: int(fields[8])}.get(timer, 0)
            yield Connection(peer, fields[9], unanswered >= UNANSWERED)


def _sockets(folder: str) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(folder)[:FILES_LIMIT]:
            with contextlib.suppress(OSError):
                kind, _colon, inode = os.readlink(os.path.join(folder, name)).partition(":")
                if kind == "socket":
                    found.add(inode.strip("[]"))
    return found


def _lines(path: str) -> list[str]:
    with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
        return file.read(TABLE_LIMIT).splitlines()[1:]
    return []
