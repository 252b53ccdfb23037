"""Tests that hosts which do not acknowledge data are found in the kernel's tables of connections."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import connections

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def row(peer, inode, state="01", timer="00", again=0, probes=0, local="0100000A"):
    return (
        f"   0: {local}:1F90 {peer}:C350 {state} 00000000:00000000 {timer}:00000014 {again:08X}  1000        {probes} {inode} 1"
        " 0000000000000000 20 4 30 10 -1\n"
    )


@pytest.fixture
def proc(tmp_path):
    """Return a function that writes a /proc folder in which process 7 has the sockets 11 to 15."""

    def write(*rows, tcp6=()):
        (tmp_path / "7/fd").mkdir(parents=True)
        (tmp_path / "net").mkdir()
        for inode in range(11, 16):
            os.symlink(f"socket:[{inode}]", tmp_path / f"7/fd/{inode}")
        os.symlink("/dev/null", tmp_path / "7/fd/0")
        (tmp_path / "net/tcp").write_text(HEAD + "".join(rows))
        (tmp_path / "net/tcp6").write_text(HEAD + "".join(tcp6))
        return str(tmp_path)

    return write


def test_the_share_of_silent_hosts_counts_each_host_once(proc):
    rows = [row("0200000A", 11, timer="01", again=4), row("0200000A", 12), row("0300000A", 13), row("0400000A", 14, timer="01", again=2)]
    assert connections.silent_peers(7, proc(*rows)) == 67


@pytest.mark.parametrize(
    "other",
    [
        row("0300000A", 99, timer="01", again=9),
        row("0300000A", 12, state="06", timer="01", again=9),
        row("0100000A", 12, timer="01", again=9),
        row("0300000A", 12, timer="01", again=1),
        row("0300000A", 12, timer="04", again=9, probes=1),
        row("0300000A", 12, timer="02", again=9, probes=9),
        "damaged\n",
    ],
    ids=["another process", "closed", "the same host", "a single loss", "a peer that does not read", "keepalive", "damaged"],
)
def test_other_connections_are_not_silent(proc, other):
    assert connections.silent_peers(7, proc(row("0200000A", 11), other)) == 0


def test_a_host_that_answers_no_probe_is_silent(proc):
    assert connections.silent_peers(7, proc(row("0200000A", 11, timer="04", probes=2), row("0300000A", 12))) == 50


def test_ipv6_counts_too(proc):
    peer, local = "0000000000000000FFFF00000200000A", "0000000000000000FFFF00000100000A"
    assert connections.silent_peers(7, proc(tcp6=[row(peer, 11, timer="01", again=3, local=local)])) == 100


def test_open_connections_are_those_of_the_process_to_one_of_the_addresses(proc):
    found = proc(
        row("0200000A", 11),
        row("0300000A", 12, state="08"),
        row("0400000A", 99),
        tcp6=[row("0000000000000000FFFF00000500000A", 13, local="0000000000000000FFFF00000100000A")],
    )
    names = [f"10.0.0.{number}" for number in range(2, 7)]
    assert connections.open_to([7, 8], names, found) == {"10.0.0.2", "10.0.0.5"}
    assert connections.open_to([7], ["10.0.0.3"], found) == set()


def test_each_table_is_read_once_for_all_processes(proc, monkeypatch, tmp_path):
    """A table can have thousands of lines, and a job can have hundreds of processes."""
    found = proc(row("0200000A", 11), row("0300000A", 21))
    (tmp_path / "8/fd").mkdir(parents=True)
    os.symlink("socket:[21]", tmp_path / "8/fd/3")
    read, paths = connections._lines, []
    monkeypatch.setattr(connections, "_lines", lambda path: paths.append(os.path.basename(path)) or read(path))
    assert connections.open_to([7, 8], ["10.0.0.2", "10.0.0.3"], found) == {"10.0.0.2", "10.0.0.3"}
    assert paths == ["tcp", "tcp6"]


def test_a_process_without_connections_has_no_silent_peers(tmp_path):
    assert connections.silent_peers(7, str(tmp_path)) == 0
    assert connections.silent_peers(os.getpid()) == 0


def test_the_kernel_writes_the_table_in_this_format():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        found = [line.split() for line in connections._lines("/proc/net/tcp")]
        inode = os.readlink(f"/proc/self/fd/{client.fileno()}")[len("socket:[") : -1]
        assert inode in connections._sockets("/proc/self/fd")
        (own,) = (fields for fields in found if fields[9] == inode)
        assert (own[2], own[3], own[6]) == (f"0100007F:{server.getsockname()[1]:04X}", connections.ESTABLISHED, "00000000")


def test_the_process_that_listens_on_a_port_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        name = Path("/proc/self/comm").read_text().strip()
        assert connections.listener(port) == f"process {os.getpid()} {name!r}"
        (tmp_path / "net").mkdir()
        for table in ("tcp", "tcp6"):
            (tmp_path / "net" / table).write_text(Path("/proc/net", table).read_text())
        assert connections.listener(port, str(tmp_path)) == f"a process of the user with ID {os.geteuid()}"
    assert connections.listener(port) == ""
