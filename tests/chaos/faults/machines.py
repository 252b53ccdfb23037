"""Faults that affect an entire host: loss, suspension, shutdown."""

from __future__ import annotations

import subprocess

from local_cloud.hosts.podman import as_root
from local_cloud.testing import wait_until

from . import health


def lose(job, number=None):
    """Remove a host without a warning, as if its hardware had failed. Afterwards, a new host replaces the removed host."""
    target = job.target if number is None else number
    job.target = target
    job.wait_for_step()
    replace_later(job)
    job.gone.add(job.host.name)
    job.struck()
    job.cluster.runtime.remove(job.host.name)


def lose_spare(job, step):
    """Remove the spare, which is the last host, and kill a rank at a later step."""
    job.wait_for_step(5)
    target, job.target = job.target, len(job.cluster.hosts) - 1
    replace_later(job)
    job.gone.add(job.host.name)
    job.cluster.runtime.remove(job.host.name)
    job.target = target
    job.wait_for_step(step)
    job.signal(job.target, "KILL")


def shut_down(job):
    """Shut a host down, as AWS does before it stops or terminates an instance."""
    job.wait_for_step()
    replace_later(job)
    job.strike(job.host, "systemctl poweroff --no-block")
    wait_until(lambda: not job.cluster.runtime.is_alive(job.host.name))
    job.gone.add(job.host.name)


def interrupt(job, number=None):
    """Announce that AWS interrupts the Spot Instance of a host in two minutes."""
    job.target = job.target if number is None else number
    job.wait_for_step()
    metadata = job.cluster.metadata[job.host]
    job.cluster.repairs.append(metadata.withdraw)
    job.struck()
    metadata.announce(120)


def suspend(job, number=None):
    """Suspend all processes on a host until the job continues without the host, and then resume the processes."""
    job.target = job.target if number is None else number
    job.wait_for_step()
    container = next(name for name in job.cluster.runtime.labelled()[0] if name.endswith(job.host.name))
    job.gone.add(job.host.name)
    job.undo.callback(job.gone.discard, job.host.name)
    job.undo.callback(subprocess.run, as_root("podman", "unpause", container), check=True, capture_output=True)
    job.struck()
    subprocess.run(as_root("podman", "pause", container), check=True, capture_output=True)
    job.wait_for_attempt(2)
    job.undo.close()


def report_xid(job, code, text, is_cause=False, kills=True):
    """Replay a kernel log with a GPU error on a host, and kill the rank on a different host unless `kills` is false.

    If the GPU error is the cause of the failure, the fault is aimed at its host, and otherwise at the rank that is killed.
    """
    job.wait_for_step()
    health.xid_of_driver(job.host, code, f"pid='<unknown>', name=<unknown>, {text}")
    job.undo.callback(job.host.ssh, f"sudo rm -f {health.PROGRAMS}/journalctl {health.EXCLUSIONS}")
    if is_cause:
        job.struck()
    if is_cause and kills:
        job.cluster.hosts[0].ssh(f"sudo pkill -KILL -f '/jobs/{job.name}/[c]ode/workload.py rank'")
    elif kills:
        job.signal(0, "KILL")


def reboot(job, code, text):
    """Replay a kernel log with a GPU error while the ranks run, and wait until the host reboots itself."""
    job.wait_for_step()
    replace_later(job)
    health.xid_of_driver(job.host, code, f"pid='<unknown>', name=<unknown>, {text}")
    job.struck()
    wait_until(lambda: not job.cluster.runtime.is_alive(job.host.name), 120)
    job.gone.add(job.host.name)
    if not job.cluster.runtime.is_rebooting(job.host.name):
        raise OSError(f"{job.host.name} has ended without a reboot")


def replace_later(job):
    """After the judge has examined the job, replace the lost host with a new host that has the same address."""

    def replace(host=job.host, number=job.target + 1):
        job.cluster.runtime.remove(host.name)
        job.cluster.runtime.start(host.spec())
        wait_until(lambda: job.cluster.runtime.is_booted(host.name))
        job.cluster.prepare_host(number)

    job.cluster.repairs.append(replace)
