"""Faults in the network between hosts, injected with nftables on one host."""

from __future__ import annotations

from local_cloud.testing import wait_until

from ..job import PATIENCE

TABLE = "inet chaos"
SSH = "tcp dport 22 accept; tcp sport 22 accept;"

# The rules of the input and the output chain.
RULES = {
    "everything": (f"{SSH} iif lo accept; drop;", f"{SSH} oif lo accept; drop;"),
    "incoming": (f"{SSH} iif lo accept; drop;", "accept;"),
    "outgoing": ("accept;", f"{SSH} oif lo accept; drop;"),
    "reset": (f"{SSH} iif lo accept; meta l4proto tcp reject with tcp reset;", "accept;"),
    "ssh": ("tcp dport 22 drop;", "accept;"),
}


def cut(job, kind):
    """Drop or refuse the traffic of a host, except SSH, until the hosts have detected the fault and the rank on this host has ended.

    The supervisor of the rank reads the verdict up to two seconds later, and examines the rank's connections before it stops the rank.
    """
    job.wait_for_step()
    rank = job.pid_of_rank(job.host)
    job.undo.callback(job.host.ssh, f"sudo nft delete table {TABLE}", check=False)
    job.strike(job.host, apply(kind))
    job.wait_for_verdict()
    wait_until(lambda: job.host.ssh(f"test -d /proc/{rank}", check=False).returncode, PATIENCE, 0.2)
    job.undo.close()


def cut_for(job, kind, seconds):
    """Drop the traffic of a host for some seconds. The host itself restores the traffic, because the host might not be reachable."""
    job.wait_for_step()
    job.strike(job.host, f"systemd-run --quiet --on-active={seconds} nft delete table {TABLE} && {apply(kind)}")


def apply(kind):
    chains = "".join(
        f"chain {hook} {{ type filter hook {hook} priority 0; policy accept; {rules} }}; "
        for hook, rules in zip(("input", "output"), RULES[kind], strict=True)
    )
    return f'nft "table {TABLE} {{ {chains}}}"'
