"""Faults in single processes: signals, suspended processes, a memory limit, exits of the supervisor."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor

from local_cloud.hosts.podman import as_root
from local_cloud.testing import wait_until

# In bytes. The script needs 10 MB, and the bug `grow` takes 400 MB more.
MEMORY = 100 << 20
MEMORY_CGROUPS = "/sys/fs/cgroup/memory"


def send(job, signal, part="rank", count=1):
    """Send a signal to a rank, its launcher or its supervisor, on one host or on several at the same time."""
    job.wait_for_step()
    numbers = [(job.target + number) % len(job.cluster.hosts) for number in range(count)]
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(lambda number: job.signal(number, signal, part, must_run=number == job.target), numbers))


def kill_in_recovery(job):
    """Kill a rank, and kill a different rank as soon as the next attempt has begun."""
    send(job, "KILL")
    job.wait_for_attempt(2)
    job.signal((job.target + 1) % len(job.cluster.hosts), "KILL")


def kill_in_each_attempt(job, steps, same_host=False):
    """Kill a rank in several attempts, each time after this number of steps: a different rank each time, or always the same rank."""
    for attempt, count in enumerate(steps, 1):
        job.wait_for_attempt(attempt)
        begins = [entry["begins"] for entry in job.curve() if "begins" in entry][-1]
        job.wait_for_step(begins + count)
        job.signal(job.target if same_host else (job.target + attempt) % len(job.cluster.hosts), "KILL")


def suspend_supervisor(job):
    """Suspend a supervisor until the job continues without the supervisor's host."""
    job.undo.callback(job.resume_supervisor, job.target)
    send(job, "STOP", "supervisor")
    job.wait_for_attempt(2)
    job.undo.close()


def limit_memory(job):
    """Limit the memory of the rank with the bug `grow`, so that the rank exceeds the limit."""
    job.target = 1
    job.wait_for_step(5)
    if has_unified_memory():
        unit = f"deeplearning-{job.name}-rank{job.target}.service"
        job.strike(job.host, f"systemctl set-property --runtime {unit} MemoryMax={MEMORY} MemorySwapMax=0")
        return
    rank = next(pid for pid in pids(f"/jobs/{job.name}/code/workload.py rank") if has_rank(pid, job.target))
    with open(f"/proc/{rank}/cgroup", encoding="ascii") as file:
        parent = next(line.strip().split(":")[2] for line in file if ":memory:" in line)
    child = f"{MEMORY_CGROUPS}{parent}/{job.name}"
    script = f"mkdir {child} && echo {MEMORY} >{child}/memory.limit_in_bytes && echo {rank} >{child}/cgroup.procs && date +%s.%N"
    job.undo.callback(subprocess.run, as_root("rmdir", child), check=False)
    job.struck(at=float(subprocess.run(as_root("sh", "-c", script), check=True, capture_output=True, text=True).stdout))
    wait_until(lambda: not pids(f"/jobs/{job.name}/code/workload.py rank") or job.verdicts())


def has_unified_memory():
    """Return whether hosts use cgroup v2, which counts out-of-memory kills. The collection needs this count to identify the cause."""
    return subprocess.run(["mountpoint", "-q", MEMORY_CGROUPS], check=False).returncode != 0


def pids(pattern):
    found = subprocess.run(as_root("pgrep", "-f", pattern), check=False, capture_output=True, text=True).stdout
    return [int(line) for line in found.split()]


def has_rank(pid, rank):
    found = subprocess.run(as_root("cat", f"/proc/{pid}/environ"), check=False, capture_output=True).stdout
    return f"DEEPLEARNING_RANK={rank}".encode() in found.split(b"\0")
