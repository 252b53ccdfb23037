# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The program that a queue runs as root on the first host of a job, if the queue itself starts nothing on the other hosts.

``lead`` runs ``hold`` (see hold.py) on all hosts, and then ``finish``. If one host refuses the job, ``lead`` cancels the job on all hosts.
``lead`` does not wait for lost hosts, because the queue may never detect their loss.

``attach`` runs on each host. It starts ``hold`` as a unit, and waits for it. ``attach`` stops the unit if ``lead`` writes a line to the
standard input of ``attach``. ``attach`` ignores the queue's signals, because a signal does not mean that the job was cancelled: the queue
also sends signals, and marks the job as cancelled, if the first host is lost. The queue then ends ``attach``, but the unit and the job
continue until the entry has left the queue.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

from ...._job.definition.refusal import RefusalError
from ...._job.state_names import RUNNING
from ...._queues.base import CANCELLED, OneProgram, unit_name
from ...._queues.registry import QUEUES
from ...transient_units import TransientUnit
from . import hold, queries, reservation

# Seconds between two checks of whether a host has ended.
INTERVAL = 1.0

# Seconds for which ``hold`` may continue on a host after it has ended on all other hosts and the host's processes are gone. The job's stop
# timeout is added.
PATIENCE = 30.0


class Lead:
    def __init__(self, job: hold.QueuedJob, program: OneProgram) -> None:
        self.job, self.queue, self.program = job, QUEUES[job.queue], program
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.cancelled = False
        self.status = 0

    def run(self) -> int:
        for number in hold.SIGNALS:
            signal.signal(number, self.cancel)
        identity = self.queue.identity(os.environ)
        self.ask(self.program.mark_started(identity, self.job.name))
        try:
            self.start()
        except (RefusalError, OSError) as error:
            hold.warn(str(error))
            self.status = 1
            self.stop()
        self.wait(identity)
        return hold.finish(self.job, CANCELLED if self.cancelled and not self.status else str(self.status))

    def cancel(self, *_signal: object) -> None:
        """Stop the job on all hosts at once, because the queue soon kills this program."""
        self.cancelled = True
        self.stop()

    def start(self) -> None:
        """Run `hold` on all hosts unless the job is cancelled. Raises RefusalError or OSError."""
        hosts = [str(host["name"]) for host in hold.allocated_hosts(self.job)]
        command = hold.command(self.job.name, "attach")
        for host in hosts:
            if not self.cancelled:
                self.running[host] = start(self.program.on_host(host, hosts, command), subprocess.PIPE)
        if self.cancelled:  # perhaps while a command started
            self.stop()

    def stop(self) -> None:
        """Make `attach` on each host stop the job."""
        for process in list(self.running.values()):
            try:
                if process.stdin:
                    os.write(process.stdin.fileno(), b"stop\n")
            except (OSError, ValueError):  # the command has ended
                pass

    def wait(self, identity: str) -> None:
        """Wait until `hold` has ended on all hosts that are not lost."""
        running = self.running
        last = time.monotonic()
        while running:
            for host, process in list(running.items()):
                if process.poll() is None:
                    continue
                running.pop(host).communicate()  # closes the standard input
                last = time.monotonic()
                if process.returncode and not self.status and not self.cancelled:
                    hold.warn(f"{host}: the job ended with exit status {process.returncode}, so it is stopped on all hosts.")
                    self.status = process.returncode
                    self.stop()
                    self.ask(self.queue.cancel([identity]))
            if (
                running
                and time.monotonic() > last + self.job.parameters["stop_timeout"] + PATIENCE
                and not any(map(self.is_running, running))
            ):
                hold.warn("{}: lost. The job ends without waiting for lost hosts.".format(", ".join(running)))
                for process in running.values():
                    process.kill()
                    process.communicate()
                return
            time.sleep(INTERVAL)

    def is_running(self, host: str) -> bool:
        """Return whether processes of the job are running on a host. If this is unknown, return True."""
        try:
            return RUNNING in hold.states_of(self.job, host)
        except hold.ERRORS as error:
            hold.warn(str(error))
            return True

    def ask(self, command: list[str]) -> None:
        status, output, error = queries.run(["timeout", queries.COMMAND_TIMEOUT, *command])
        if status:
            hold.warn((error or output).strip())


def start(command: list[str], stdin: int) -> subprocess.Popen[bytes]:
    """Start a command that the queue's signals do not end."""
    patient = ["/bin/sh", "-c", "trap '' USR2; exec \"$@\"", "sh", *command]
    return subprocess.Popen(patient, stdin=stdin, start_new_session=True)


def attach(job: hold.QueuedJob, program: OneProgram) -> int:
    """Run `hold` as a unit on this host, and return its exit status."""
    passed = {hold.CLIENT: str(os.getpid()), **{name: os.environ[name] for name in program.environment if name in os.environ}}
    for number in (*hold.SIGNALS, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    properties = [f"SyslogIdentifier=deeplearning_queue-{job.name}", "KillMode=process"]
    command, variables = ["/bin/sh", f"{job.directory}/hold", "hold"], [f"--setenv={name}={value}" for name, value in passed.items()]
    unit = TransientUnit(unit_name(job.name), f"Queue: training job {job.name}", command, properties)
    running = start(unit.command("--collect", "--wait", *variables), subprocess.DEVNULL)

    def follow() -> None:
        asked = os.read(sys.stdin.fileno(), 1)  # empty if the first host is lost
        while asked and running.poll() is None and queries.run(["systemctl", "kill", "--kill-who=main", "--signal=SIGTERM", unit.name])[0]:
            time.sleep(INTERVAL)  # the unit is only starting

    threading.Thread(target=follow, daemon=True).start()
    return running.wait()


def main(arguments: list[str]) -> int:
    """Run one of the actions `lead`, `attach`, `reserve`, `hold` and `finish`."""
    if arguments[0] not in ("lead", "attach", "reserve"):
        return hold.main(arguments)
    os.umask(0o022)
    job = hold.read_job(arguments[1])
    if job is None:
        hold.warn(f"{arguments[1]} contains no job")
        return 1
    if arguments[0] == "reserve":
        return reservation.Reservation(job).run()
    program = QUEUES[job.queue].one_program
    if program is None:
        hold.warn(f"queue: {job.queue} itself starts a program on each host of a job, so {arguments[0]} cannot run.")
        return 1
    return Lead(job, program).run() if arguments[0] == "lead" else attach(job, program)
