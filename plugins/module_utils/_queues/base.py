# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The types of queues. A queue decides when and on which hosts a job runs. A launcher decides which processes run on these hosts.

The job's entry in the queue belongs to root and reserves entire hosts. When the queue allocates the hosts, it runs a program of this
collection as root on each host. The program starts the job's units, and ends after the units have ended. Users of the queue cannot run this
program.
"""

from __future__ import annotations

import re
from typing import Any, Callable, List, Mapping, NamedTuple, Sequence

Command = List[str]

# The user who owns all entries in the queue.
USER = "root"

# Matches the ID of an entry in the queue.
ID = r"[0-9]{1,18}"

# Matches the ID of an entry in YARN.
APPLICATION_ID = r"application_[0-9]{1,18}_[0-9]{1,18}"

# The variable with the names of the allocated hosts, separated by colons, for queues that do not pass these names to all hosts.
HOSTS = "DEEPLEARNING_QUEUE_HOSTS"

# Maximum number of characters in a reason that the queue reports. Users of the queue can influence some reasons.
REASON_LIMIT = 200


# The stages of an entry in the queue: the job waits, has hosts, had hosts, or was cancelled while it waited.
WAITING, ALLOCATED, ENDED, CANCELLED = "waiting", "allocated", "ended", "cancelled"


class QueueError(Exception):
    """A queue refuses a job or does not respond. The message states the reason and the remedy."""


class QueueRequest(NamedTuple):
    """What a job requests from a queue: `host_count` entire hosts, chosen from `hosts`.

    `excluded` contains all hosts of the queue that are not in `hosts`. `hold` is the command that runs the job's processes on one host and
    keeps the host allocated until they have ended. When `hold` has ended on all hosts, `finish` runs on the first host. The last argument
    of `finish` is the highest exit status, or CANCELLED. Both commands are lists of words. No shell expands them. Slurm and SGE end the job
    after `minutes`. YARN does not, because its limit would include the time in which the job waits. If `minutes` is 0, the job has no time
    limit.

    `lead` is for queues that start one program on the first host only. This program runs `hold` on all hosts, and then finishes the job.
    `answers` contains the output of each of the queue's `questions`. `nonce` is a random string that only root on the job's hosts can read.
    Queues to which other users can submit jobs need it.
    """

    job: str
    hosts: Sequence[str]
    excluded: Sequence[str]
    host_count: int
    hold: Sequence[str]
    finish: Sequence[str]
    minutes: int
    lead: Sequence[str] = ()
    answers: Sequence[str] = ()
    nonce: str = ""


class QueueEntry(NamedTuple):
    """A job in the queue. `before` is the number of waiting jobs with a higher priority, or 0 if this job does not wait.

    An entry that has ended stays visible for a few minutes.
    """

    id: str
    stage: str
    reason: str
    before: int

    @property
    def is_active(self) -> bool:
        """True if the job waits for hosts, or if hosts are allocated to it."""
        return self.stage in (WAITING, ALLOCATED)


class OneProgram(NamedTuple):
    """The functions of a queue that starts only one program, `lead`, on the first host of a job.

    `mark_started` returns the command that marks an entry, by its ID, as the entry of a running job. `on_host` returns the command that
    runs a command on one of the allocated hosts and passes its own standard input to that command. `environment` contains the names of
    the variables that `allocation` and `identity` read there. `entry_state` returns ENDED or CANCELLED if the entry with the ID is in
    that state, otherwise an empty string, from the output of `show_own`. `abandon` returns the command that another host runs if the
    first one is lost.
    """

    mark_started: Callable[[str, str], Command]
    on_host: Callable[[str, Sequence[str], Sequence[str]], Command]
    environment: Sequence[str]
    entry_state: Callable[[str, str], str]
    abandon: Callable[[str], Command]


class Reservations(NamedTuple):
    """The functions of a queue that only reserves hosts. A unit on each host waits until the queue has allocated the hosts.

    Other users can submit jobs that look like training jobs. Therefore, `read_entries` has a third argument, a function that returns
    whether an entry belongs to a job. `is_proven` returns such a function for the nonces of jobs, and `has_id` for the IDs of entries, both
    keyed by the name of the job. `questions` are the requests whose answers `submit` needs.
    """

    is_proven: Callable[[Mapping[str, str]], Callable[[Mapping[str, Any]], bool]]
    has_id: Callable[[Mapping[str, str]], Callable[[Mapping[str, Any]], bool]]
    questions: Sequence[Command]


class Queue(NamedTuple):
    """A queue: its commands, and the functions that read their output.

    `title` is the name of the queue in messages. `setup` is a sentence without a full stop that says how to add a host to the queue.
    `show_host` returns the command that shows the state of a host on which `service` runs, and `is_open` returns whether jobs can start on
    a host in this state. `read_hosts` returns the names of the queue's hosts from the output of `show_hosts`.

    `show_own` is the command that shows the entries of USER, and `show_waiting` is the command that shows the waiting entries of all users.
    `allocation` returns the command that shows the allocated hosts, and `identity` returns the ID of the entry. Both functions read the
    environment of a program that runs on one of these hosts. The first allocated host tells the queue that the job has ended. If that
    host is lost, another one runs `cancel`. `one_program` is set only for queues that start a single program.

    `reservations` is set only for queues that reserve hosts and start nothing there. The commands of such a queue, except `allocation`, are
    HTTP requests (a method, a path, and a body if there is one). The queue has its own names for the hosts.
    """

    title: str
    setup: str
    programs: Sequence[str]
    service: str
    show_host: Callable[[str], Command]
    is_open: Callable[[str], bool]
    show_hosts: Command
    submit: Callable[[QueueRequest], Command]
    show_own: Command
    show_waiting: Command
    read_entries: Callable[..., dict[str, QueueEntry]]
    cancel: Callable[[Sequence[str]], Command]
    allocation: Callable[[Mapping[str, str]], Command]
    identity: Callable[[Mapping[str, str]], str]
    one_program: OneProgram | None = None
    reservations: Reservations | None = None
    read_hosts: Callable[[str], list[str]] = str.split


def unit_name(job: str) -> str:
    """Return the name of the unit that holds a host for a job. Only queues that do not run `hold` themselves need this unit."""
    return f"deeplearning_hold-{job}.service"


def read_id(output: str) -> str:
    """Read the ID of the job's entry from the output of the command that submits a job. Raises QueueError."""
    found = re.match(rf"({APPLICATION_ID}|{ID})(?:;\S*)?\s*$", output)
    if not found:
        raise QueueError(f"the queue returned {output.strip()[:REASON_LIMIT]!r} instead of the job's ID. Check the queue.")
    return found[1]
