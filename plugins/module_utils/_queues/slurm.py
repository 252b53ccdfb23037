# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Slurm: the commands that submit, show and cancel jobs. Sources: sbatch(1), srun(1), squeue(1), scancel(1) and scontrol(1)."""

from __future__ import annotations

import re
from typing import Mapping, Sequence

from .base import ALLOCATED, CANCELLED, ENDED, ID, REASON_LIMIT, USER, WAITING, Command, Queue, QueueEntry, QueueRequest

# The comment of training jobs, which distinguishes them from root's other jobs.
COMMENT = "deeplearning.cluster"

# Slurm has chosen or checked all parts that precede the reason. The reason may contain any text.
ENTRY = re.compile(rf"({ID}) ([A-Z_]+) {re.escape(COMMENT)} ([a-z0-9-]+) <([^<>]*)> (.*)")

# The state of a job that waits, and the states of a job that has ended.
PENDING = "PENDING"
FINAL = ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT")

# The beginnings of the states, as sinfo shows them, of hosts on which no job starts: drained hosts, hosts that are down, hosts with less
# hardware than slurm.conf describes. In all other states, some jobs can start, now or later.
CLOSED = ("down", "drain", "error", "fail", "futr", "future", "inval", "power", "unk")

# The job's environment, which replaces the environment of the user who submits the job.
PATH = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"


def show_host(name: str) -> Command:
    return ["sinfo", "--noheader", "--format=%T", f"--nodes={name}"]


def is_open(output: str) -> bool:
    return not output.strip().startswith(CLOSED)


def submit(request: QueueRequest) -> Command:
    """Return the command that submits a job and prints its ID.

    The job keeps its allocation if it loses hosts, because its supervisors decide whether to continue. Slurm never starts a job a second
    time.
    """
    hosts = [f"--nodelist={','.join(request.hosts)}"]
    if request.host_count < len(request.hosts):
        hosts = [f"--exclude={','.join(request.excluded)}"] if request.excluded else []
    return [
        *("sbatch", "--parsable", f"--job-name={request.job}", f"--comment={COMMENT}"),
        *(f"--nodes={request.host_count}", *hosts, "--ntasks-per-node=1", "--exclusive", "--no-kill", "--no-requeue"),
        *([f"--time={request.minutes}"] if request.minutes else []),
        *(f"--export={PATH}", "--chdir=/", "--input=/dev/null", "--output=/dev/null"),
        f"--wrap={script(request)}",
    ]


def script(request: QueueRequest) -> str:
    """Return the commands that run on the first of the allocated hosts."""
    step = [
        "srun",
        f"--nodes={request.host_count}",
        f"--ntasks={request.host_count}",
        "--ntasks-per-node=1",
        "--no-kill",
        "--kill-on-bad-exit=1",
    ]
    step += ["--mpi=none", "--cpu-bind=none", "--input=none", "--output=none", *request.hold]
    # Slurm sends SIGTERM to the shell too if the job is cancelled. The shell continues when srun has ended.
    return "trap 'end={}' TERM; {}; status=$?; {} ${{end:-$status}}".format(CANCELLED, " ".join(step), " ".join(request.finish))


def read_entries(own: str, waiting: str) -> dict[str, QueueEntry]:
    """Return the training jobs in the queue, keyed by name, from the output of the two commands that show jobs.

    If several entries have the same name, only the newest is returned.
    """
    order = {identity: place for place, identity in enumerate(waiting.split())}
    found: dict[str, QueueEntry] = {}
    for words in filter(None, map(ENTRY.fullmatch, own.splitlines())):
        identity, state, job, hosts, reason = words.groups()
        if job in found and int(found[job].id) > int(identity):
            continue
        before = order.get(identity, 0) if state == PENDING else 0
        found[job] = QueueEntry(identity, stage(state, hosts), reason.strip()[:REASON_LIMIT], before)
    return found


def stage(state: str, hosts: str) -> str:
    if state == PENDING:
        return WAITING
    if state not in FINAL:
        return ALLOCATED
    return ENDED if hosts else CANCELLED


def cancel(ids: Sequence[str]) -> Command:
    return ["scancel", *ids]


def allocation(environment: Mapping[str, str]) -> Command:
    """Return the command that shows the names of the allocated hosts, one per line."""
    return ["scontrol", "show", "hostnames", environment.get("SLURM_JOB_NODELIST", "")]


def identity(environment: Mapping[str, str]) -> str:
    return environment.get("SLURM_JOB_ID", "")


QUEUE = Queue(
    title="Slurm",
    setup="Run the playbook deeplearning.cluster.slurm",
    programs=("sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun"),
    service="slurmd.service",
    show_host=show_host,
    is_open=is_open,
    show_hosts=["sinfo", "--noheader", "--Node", "--format=%N"],
    submit=submit,
    show_own=["squeue", "--noheader", f"--user={USER}", "--states=all", "--format=%i %T %k %j <%N> %r"],
    show_waiting=["squeue", "--noheader", f"--states={PENDING}", "--sort=-p,i", "--format=%i"],
    read_entries=read_entries,
    cancel=cancel,
    allocation=allocation,
    identity=identity,
)
