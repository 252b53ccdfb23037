# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""SGE (Grid Engine): the commands that submit, show and cancel jobs. Sources: qsub(1), qrsh(1), qstat(1), qdel(1) and sge_pe(5)."""

from __future__ import annotations

import re
from typing import Mapping, Sequence

from .base import ALLOCATED, CANCELLED, ENDED, HOSTS, ID, REASON_LIMIT, USER, WAITING, Command, OneProgram, Queue, QueueEntry, QueueRequest

# The parallel environment of training jobs: one slot on each host. Only root can use it, so it distinguishes training jobs from other
# jobs.
ENVIRONMENT = "training_jobs"
# The host group that contains the hosts on which jobs can start.
GROUP = "@deeplearning"

# The names of a job before and after it has started. Names must not begin with a digit. SGE shows an ended job only under its latest name,
# and without its hosts.
WAITS, STARTED = "train-", "training-"

ENTRY = re.compile(rf"\s*({ID})\s+\S+\s+\S+\s+(\S+)\s+(\S+)\s")
NAME = re.compile(rf"\s+Full jobname:\s+({WAITS}|{STARTED})([a-z0-9-]+)\s*")
REQUEST = re.compile(rf"\s+Requested PE:\s+{ENVIRONMENT} \d+\s*")
ROW = re.compile(rf"\s*({ID})\s")

# The job's environment, which replaces the environment of the user who submits the job.
PATH = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"


def show_host(name: str) -> Command:
    return ["qstat", "-f", "-q", f"*@{name}"]


def is_open(output: str) -> bool:
    """Return whether jobs can start on a host in this state.

    The state is the last column, which is empty if nothing is wrong. No job starts on hosts that are disabled (d), do not respond (u), have
    an error (E), or have left the host group (o, or no row at all).
    """
    rows = [line.split() for line in output.splitlines() if re.match(r"\S+@\S+\s", line)]
    return any(len(row) < 6 or not set(row[5]) & set("dDuEo") for row in rows)


def submit(request: QueueRequest) -> Command:
    """Return the command that submits a job and prints its ID.

    A job that is cancelled gets SIGUSR2 before SIGKILL. SGE never starts the job a second time. With `-R`, jobs on fewer hosts cannot delay
    the job forever. Options in files (`.sge_request`) are ignored.
    """
    return [
        *("qsub", "-clear", "-terse", "-N", WAITS + request.job, "-pe", ENVIRONMENT, str(request.host_count), "-l", "exclusive=true"),
        *("-q", ",".join(f"*@{host}" for host in request.hosts), "-R", "y", "-r", "n", "-notify"),
        *(["-l", f"h_rt={request.minutes * 60}"] if request.minutes else []),
        *("-v", PATH, "-wd", "/", "-i", "/dev/null", "-o", "/dev/null", "-e", "/dev/null", "-b", "y", "-shell", "n", *request.lead),
    ]


def read_entries(own: str, waiting: str) -> dict[str, QueueEntry]:
    """Return the training jobs in the queue, keyed by name, from the output of the two commands that show jobs.

    If several entries have the same name, only the newest is returned.
    """
    order = {found[1]: place for place, found in enumerate(filter(None, map(ROW.match, waiting.splitlines())))}
    found: dict[str, QueueEntry] = {}
    identity = owner = state = name = prefix = ""
    for line in own.splitlines():
        entry, named = ENTRY.match(line), NAME.fullmatch(line)
        if entry:
            identity, owner, state, name = *entry.groups(), ""
        elif named and owner == USER:
            prefix, name = named.groups()
        elif name and REQUEST.fullmatch(line) and not (name in found and int(found[name].id) > int(identity)):
            reached = stage(state, prefix)
            before = order.get(identity, 0) if reached == WAITING else 0
            found[name] = QueueEntry(identity, reached, reason(state)[:REASON_LIMIT] if reached == WAITING else "", before)
    return found


def stage(state: str, prefix: str) -> str:
    """Return the stage of an entry, which depends on its state and on the prefix of its name."""
    if "w" in state:
        return WAITING
    if state != "z":
        return ALLOCATED
    return ENDED if prefix == STARTED else CANCELLED


def reason(state: str) -> str:
    """Return why an entry waits. SGE itself states the reason only in the long output of `qstat -j`."""
    if "E" in state:
        return "SGE could not start the job (state E)"
    return "on hold" if "h" in state else "its hosts are not free"


def cancel(ids: Sequence[str]) -> Command:
    return ["qdel", *ids]


def abandon(identity: str) -> Command:
    """Return the command that removes an entry whose first host is lost. Without this command, SGE waits for the lost host."""
    return ["qdel", "-f", identity]


def mark_started(identity: str, job: str) -> Command:
    """Return the command that marks an entry as started."""
    return ["qalter", "-N", STARTED + job, identity]


def on_host(host: str, hosts: Sequence[str], command: Sequence[str]) -> Command:
    """Return the command that runs a given command on one of the allocated hosts, with the same standard input."""
    return ["qrsh", "-inherit", "-v", f"{PATH},{HOSTS}={':'.join(hosts)}", host, *command]


def allocation(environment: Mapping[str, str]) -> Command:
    """Return the command that shows the names of the allocated hosts, one per line."""
    if environment.get(HOSTS):
        return ["printf", r"%s\n", *environment[HOSTS].split(":")]
    return ["cut", "--delimiter= ", "--fields=1", environment.get("PE_HOSTFILE", "")]


def identity(environment: Mapping[str, str]) -> str:
    return environment.get("JOB_ID", "")


def entry_state(own: str, identity: str) -> str:
    """Return ENDED or CANCELLED (state d) for such an entry, otherwise an empty string, from the output of the command that shows entries.

    SGE itself cancels an entry that has lost its first host.
    """
    states = [found[3] for found in filter(None, map(ENTRY.match, own.splitlines())) if found[1] == identity]
    if not states or "z" in states[0]:
        return ENDED
    return CANCELLED if "d" in states[0] else ""


QUEUE = Queue(
    title="SGE",
    setup="Run the playbook deeplearning.cluster.sge",
    programs=("cut", "printf", "qalter", "qconf", "qdel", "qrsh", "qstat", "qsub"),
    service="sge_execd.service",
    show_host=show_host,
    is_open=is_open,
    show_hosts=["qconf", "-shgrp_resolved", GROUP],
    submit=submit,
    show_own=["qstat", "-r", "-s", "prsz", "-u", USER],
    show_waiting=["qstat", "-s", "p", "-u", "*"],
    read_entries=read_entries,
    cancel=cancel,
    allocation=allocation,
    identity=identity,
    one_program=OneProgram(
        mark_started=mark_started,
        on_host=on_host,
        environment=("JOB_ID", HOSTS),
        entry_state=entry_state,
        abandon=abandon,
    ),
)
