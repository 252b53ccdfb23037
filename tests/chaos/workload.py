"""The script of the chaos suite's jobs: a linear regression whose loss depends only on the number of steps.

The script needs only Python's standard library. The process that the job starts is a launcher. The launcher starts the rank, as torchrun
does, and fails if the rank fails. The ranks exchange gradients over TCP and load the newest checkpoint. Rank 0 writes everything that the
judge reads:

- `curve.jsonl`: an entry at the start of each attempt, and an entry per step with the attempt, the number of ranks, the
  addresses of their hosts, and the loss.
- `result.json`: the parameters after the last step.

CHAOS_BUG specifies a bug in the script: `KIND STEP` for a bug in every attempt, or `KIND STEP once` for a bug in the first attempt. Only
rank 1 has the bug.
"""

from __future__ import annotations

import faulthandler
import json
import math
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

STEPS = int(os.environ.get("CHAOS_STEPS", "60"))
PAUSE = float(os.environ.get("CHAOS_STEP_SECONDS", "0.1"))
INTERVAL = 10
SAMPLES = [(x / 7.0, 3.0 * x / 7.0 - 1.0 + 0.1 * math.sin(5.0 * x)) for x in range(12)]
RATE = 0.05


class Ranks:
    """The connections of rank 0 to all other ranks, or the connection of another rank to rank 0.

    `hosts` are the addresses of the ranks' hosts, as far as this rank knows them: rank 0 knows all of them if there are other ranks.
    """

    def __init__(self, rank, size, directory, attempt):
        self.rank, self.peers, self.hosts = rank, [], []
        meeting = directory / f".rendezvous-{attempt}"
        if rank == 0:
            with socket.create_server(("", 0)) as server:
                write(meeting, str(server.getsockname()[1]))
                while len(self.peers) < size - 1:
                    connection, (address, _port) = server.accept()
                    self.hosts = sorted({*self.hosts, address, connection.getsockname()[0]})
                    self.peers.append(connection.makefile("rw"))
            self.peers.sort(key=lambda peer: int(peer.readline()))
        else:
            self.peers = [self.connect(meeting).makefile("rw")]
            self.send(rank)

    def connect(self, meeting):
        first = pathlib.Path(os.environ["DEEPLEARNING_HOSTFILE"]).read_text().split()[0]
        while True:
            try:
                return socket.create_connection((first, int(meeting.read_text())))
            except (OSError, ValueError):
                time.sleep(0.1)

    def send(self, value):
        for peer in self.peers:
            peer.write(json.dumps(value) + "\n")
            peer.flush()

    def receive(self):
        """Return what each peer has sent. Raises ConnectionError if a peer has ended."""
        lines = [peer.readline() for peer in self.peers]
        if not all(lines):
            raise ConnectionError("Connection closed by peer")
        return [json.loads(line) for line in lines]

    def sum(self, values):
        """Return the element-wise sums of the values of all ranks."""
        if self.rank:
            self.send(values)
            return self.receive()[0]
        total = [math.fsum(each) for each in zip(values, *self.receive())]
        self.send(total)
        return total


def write(path, text):
    """Write a file atomically, so that it exists only when it is complete."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text)
    temporary.replace(path)


def append(path, **entry):
    with path.open("a") as file:
        file.write(json.dumps({**entry, "time": time.time()}) + "\n")


def load(folder):
    """Return the last step and the parameters of the newest checkpoint."""
    steps = [int(path.stem) for path in folder.glob("[0-9]*.json")]
    if not steps:
        return 0, [0.0, 0.0]
    state = json.loads((folder / f"{max(steps)}.json").read_text())
    return state["step"], state["parameters"]


def undefined():
    return this_name_is_not_defined  # noqa: F821  # pylint: disable=undefined-variable


def stuck():
    while True:
        time.sleep(1)


def grow():
    """Use 400 MB more memory."""
    parts = []
    for _number in range(40):
        parts.append(b"." * 10_000_000)
        time.sleep(0.02)


BUGS = {
    "grow": grow,
    "value": lambda: int("not a number"),
    "key": lambda: {}["missing"],
    "zero": lambda: 1 // 0,
    "memory": lambda: bytearray(1 << 60),
    "name": undefined,
    "import": lambda: __import__("a_module_that_does_not_exist"),
    "syntax": lambda: compile("x = = 1", "generated.py", "exec"),
    "exit": lambda: sys.exit(7),
    "abort": os.abort,
    "segv": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "stuck": stuck,
}


def fail(rank, step, attempt):
    kind, _space, rest = os.environ.get("CHAOS_BUG", "").partition(" ")
    if kind and rank == 1 and rest.split()[0] == str(step) and (attempt == 1 or "once" not in rest):
        BUGS[kind]()


def gradient(parameters, samples):
    slope, offset = parameters
    errors = [(x, slope * x + offset - y) for x, y in samples]
    return [math.fsum(x * e for x, e in errors), math.fsum(e for _x, e in errors), math.fsum(e * e for _x, e in errors)]


def train():
    rank, size, attempt = (int(os.environ[f"DEEPLEARNING_{name}"]) for name in ("RANK", "WORLD_SIZE", "ATTEMPT"))
    directory, folder = (pathlib.Path(os.environ[f"DEEPLEARNING_{name}_DIRECTORY"]) for name in ("JOB", "CHECKPOINT"))
    curve, progress = directory / "curve.jsonl", pathlib.Path(os.environ["DEEPLEARNING_PROGRESS"])
    faulthandler.register(signal.SIGUSR1)
    folder.mkdir(parents=True, exist_ok=True)
    first, parameters = load(folder)
    if rank == 0:
        append(curve, attempt=attempt, ranks=size, begins=first)
    ranks = Ranks(rank, size, directory, attempt)
    for step in range(first + 1, STEPS + 1):
        fail(rank, step, attempt)
        slope, offset, loss = ranks.sum(gradient(parameters, SAMPLES[rank::size]))
        if not math.isfinite(loss):
            raise FloatingPointError(f"the loss at step {step} is {loss}")
        parameters = [parameters[0] - RATE * slope / len(SAMPLES), parameters[1] - RATE * offset / len(SAMPLES)]
        if rank == 0:
            if step % INTERVAL == 0:
                write(folder / f"{step}.json", json.dumps({"step": step, "parameters": parameters, "padding": "." * 100_000}))
            append(curve, attempt=attempt, ranks=size, hosts=ranks.hosts, step=step, loss=loss)
            append(progress, step=step, steps=STEPS, loss=loss)
        time.sleep(PAUSE)
    if rank == 0:
        write(directory / "result.json", json.dumps({"step": STEPS, "parameters": parameters}))


def launch():
    """Start the rank, wait until it ends, and return its exit status as a shell reports it."""
    environment = {**os.environ, "RANK": os.environ["DEEPLEARNING_RANK"]}
    status = subprocess.run([sys.executable, __file__, "rank"], env=environment, check=False).returncode
    return 128 - status if status < 0 else status


if __name__ == "__main__":
    sys.exit(train() if sys.argv[1:] == ["rank"] else launch())
