"""How often the reports of the nodes would end them in the middle of their work, or never: `python tests/benchmarks/idle_reports.py`.

The real program of the nodes and the real function run with a virtual clock. They see the /proc, the terminals and the GPUs of nodes whose
work is that of `utilisation.py` and whose other programs are those of `node_programs.py`. docs/cost.md quotes the result.
"""

from __future__ import annotations

import io
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.idle import function
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.idle_reports import report
from node_programs import PLACES, programs
from utilisation import MINUTES, PERIOD, Day, Phase, days, spread

AFTER, EVERY = 30, 5  # minutes: idle nodes are ended, and calls of the function
RACE = 5  # minutes for which work may have run when the nodes end
LEFT = {False: 0.7, True: 0.2}  # how often people have left programs running on the first node, on days without and with work
MIDNIGHT = 1.8e9 // 86400 * 86400
SCREEN, TERMINAL = 1, 2  # device numbers
GPU = "<gpu><persistence_mode>{}</persistence_mode><utilization><gpu_util>{} %</gpu_util></utilization><processes>{}</processes></gpu>"


class Node:
    """What the program of the nodes sees of one: it replaces the modules `os` and `time` in it."""

    def __init__(self, rng: random.Random, kind: str, phases: list[Phase | None], is_left: bool, state: str) -> None:
        self.rng, self.phases, self.state = rng, phases, state
        self.programs = list(programs(rng, kind, phases, is_left))
        self.units = {f"/etc/systemd/system/{each.group.rpartition('/')[2]}" for each in self.programs if each.is_own}
        self.transient = {f"/run/systemd/transient/{PLACES['transient'].rpartition('/')[2]}"}
        self.persists, self.waiting = rng.random() < 0.8, rng.choice("DDI")  # Lustre waits with TASK_IDLE, shown as I
        self.now, self.booted, self.typed, self.types = 0.0, -spread(rng, 60, 1e6), -1e5, 0.0
        self.console = ""
        self.processes: dict[int, list[Any]] = {}  # the program, life, seconds, bytes, state, start
        self.down = 0.0

    def reboot(self) -> None:
        self.booted, self.processes, self.down = self.now, {}, self.now + self.rng.uniform(60, 240)
        if os.path.exists(self.state):
            os.unlink(self.state)

    def run(self, until: float) -> None:
        """Let the timer run the program until this time."""
        while self.now < until:
            passed = self.rng.uniform(60, 61.5) + (0 if self.persists else self.rng.uniform(1, 8))
            end = self.now + passed
            while self.now < end:
                step = min(end, 60 * (self.now // 60 + 1)) - self.now
                self._live(step, min(MINUTES - 1, int(self.now // 60)))
                self.now += step
            if self.now >= self.down:
                # A message of the kernel can interrupt a line, and a line can get lost
                for line in ([], [f"[{self.now - self.booted:13.6f}] nfs: server fs-1 not responding"])[self.rng.random() < 0.01]:
                    self._print(f"{line}\n")
                report.main([])

    def _live(self, passed: float, minute: int) -> None:
        phase = self.phases[minute]
        for number, program in enumerate(self.programs):
            use, found = program.use(minute), self.processes.get(number)
            if use is None:
                self.processes.pop(number, None)
                continue
            if not found or found[1] != use.life:
                found = self.processes[number] = [program, use.life, 0.0, 0.0, "S", int(100 * (self.now - self.booted))]
            found[2] += use.seconds * passed / 60
            found[3] += use.bytes * passed / 60
            found[4] = self.waiting if self.rng.random() < use.waits else "S"
        if phase and phase.typing and self.now >= self.types:
            self.typed, self.types = self.now, self.now + 60 * self.rng.uniform(*phase.typing)

    def _print(self, text: str) -> None:
        self.console = (self.console + text)[-65536:]

    # The modules os and time
    def __getattr__(self, name: str) -> Any:
        return getattr(os, name) if hasattr(os, name) else getattr(time, name)

    @property
    def path(self) -> SimpleNamespace:
        return SimpleNamespace(join=os.path.join, isfile=lambda path: path in self.units | self.transient)

    def listdir(self, path: str) -> list[str]:
        return ["1", *(str(number + 300) for number in self.processes)] if path == "/proc" else self.listing(path)

    def listing(self, path: str) -> list[str]:
        groups = {each[0].group for each in self.processes.values()}
        there = {"/dev/pts": ["0", "1", "ptmx"], "/run/deeplearning/jobs": ["digits-0"] if PLACES["job"] in groups else []}
        return there.get(path, [])

    def stat(self, path: str) -> SimpleNamespace:
        if path.startswith("/proc/"):
            number = int(path[6:])
            return SimpleNamespace(st_uid=0 if number == 1 else self._process(number)[0].user)
        if path == report.CONSOLE:
            return SimpleNamespace(st_rdev=SCREEN)
        return SimpleNamespace(st_rdev=TERMINAL, st_atime=MIDNIGHT + (self.typed if path.endswith("/1") else -1e5))

    def _process(self, number: int) -> list[Any]:
        try:
            return self.processes[number - 300]
        except KeyError:
            raise FileNotFoundError from None

    def open(self, path: str, *_arguments: Any, **_options: Any) -> Any:
        if path == report.CONSOLE:
            return 99
        _empty, _proc, text, name = path.split("/")
        if text == "1":
            return io.StringIO({"cgroup": "0::/init.scope\n", "io": "rchar: 5\nwchar: 5\n"}.get(name, f"1 (systemd) S {'0 ' * 50}"))
        program, _life, seconds, moved, state, start = self._process(int(text))
        if name == "cgroup":
            return io.StringIO(f"0::/{program.group}\n")
        if name == "io":
            return io.StringIO(f"rchar: {moved * 0.6:.0f}\nwchar: {moved * 0.4:.0f}\nsyscr: 7\n")
        zeros = "0 " * 7
        return io.StringIO(f"{text} ({program.name}) {state} 1 1 1 0 -1 4194304 0 0 0 0 {seconds * 100:.0f} 0 0 0 20 0 1 0 {start} {zeros}")

    def write(self, _descriptor: int, content: bytes) -> None:
        text, at = content.decode(), self.rng.randrange(len(content))
        if self.rng.random() < 0.02:
            text = f"{text[:at]}[{self.now - self.booted:13.6f}] NVRM: GPU has fallen off the bus\r\n{text[at:]}"
        if self.rng.random() > 0.01:
            self._print(text)

    def close(self, _descriptor: int) -> None:
        pass

    CLOCK_BOOTTIME = 7

    def clock_gettime(self, _clock: int) -> float:
        return self.now - self.booted

    def time(self) -> float:
        return MIDNIGHT + self.now

    def gpus(self, _limit: float) -> Any:
        phase = self.phases[min(MINUTES - 1, int(self.now // 60))]
        power = phase.power[0] if phase and phase.power else 0.0
        is_open = bool(phase and phase.power)
        # Without persistence mode, nvidia-smi itself initializes the GPU, and measures that
        computes = power > 0.005 and self.rng.random() < 4 * power if is_open else not self.persists
        return interpret(self.persists, self.rng.randint(1, 100) if computes else 0, is_open)


@cache
def interpret(persists: bool, use: int, is_open: bool) -> Any:
    gpu = GPU.format("Enabled" if persists else "Disabled", use, "<process_info><pid>7</pid></process_info>" if is_open else "")
    return report.gpus.interpret(f"<nvidia_smi_log>{gpu}</nvidia_smi_log>", "", 0)


class Cloud:
    """What the function sees of AWS. Consoles are up to two minutes old."""

    exceptions = SimpleNamespace(ClientError=OSError)

    def __init__(self, rng: random.Random, nodes: list[Node]) -> None:
        self.rng, self.nodes, self.tags = rng, nodes, {}  # type: ignore[var-annotated]
        self.consoles: list[list[str]] = []
        self.now, self.deletions = 0.0, 0

    def client(self, _service: str, config: object = None) -> Cloud:
        return self

    get_paginator = client

    def list_tags(self, **_arguments: Any) -> dict[str, Any]:
        date = format_datetime(datetime.fromtimestamp(MIDNIGHT + self.now, UTC), usegmt=True)
        return {"Tags": dict(self.tags), "ResponseMetadata": {"HTTPHeaders": {"date": date}}}

    def tag_resource(self, **arguments: Any) -> None:
        self.tags.update(arguments["Tags"])

    def untag_resource(self, **arguments: Any) -> None:
        self.tags = {key: value for key, value in self.tags.items() if key not in arguments["TagKeys"]}

    def delete_auto_scaling_group(self, **_arguments: Any) -> None:
        self.deletions += 1

    def paginate(self, **_arguments: Any) -> list[Any]:
        launched = datetime.fromtimestamp(MIDNIGHT - 86400, UTC)
        common = {"State": {"Name": "running"}, "LaunchTime": launched, "Tags": [{"Key": "aws:autoscaling:groupName", "Value": "bert"}]}
        return [{"Reservations": [{"Instances": [{"InstanceId": f"i-{number}", **common} for number in range(len(self.nodes))]}]}]

    def get_console_output(self, **arguments: Any) -> dict[str, str]:
        age = self.rng.randint(0, min(2, len(self.consoles) - 1))
        return {"Output": self.consoles[-1 - age][int(arguments["InstanceId"][2:])]}


def decisions(day: Day, seed: int, folder: str) -> Iterator[tuple[int, bool, bool]]:
    """Yield for each call of the function its minute, whether it ended the nodes, and whether a hold kept them."""
    rng, kind = random.Random(f"{seed}/{day.name}"), day.name.rpartition(" ")[0]
    nodes = []
    for number, phases in enumerate(day.phases):
        nodes.append(Node(rng, kind, phases, number == 0 and rng.random() < LEFT[any(day.busy)], f"{folder}/{number}.json"))
        if os.path.exists(nodes[-1].state):
            os.unlink(nodes[-1].state)
    cloud = Cloud(rng, nodes)
    held, reboots = (rng.randrange(MINUTES) if rng.random() < 0.1 else MINUTES + 1 for _event in range(2))
    sys.modules["boto3"] = cloud  # type: ignore[assignment]
    for minute in range(1, MINUTES + 1):
        for node in nodes:
            with (
                mock.patch.multiple(report, os=node, time=node, open=node.open, STATE=node.state, create=True),
                mock.patch.multiple(report.directories, listing=node.listing),
                mock.patch.object(report.gpus, "query", node.gpus),
            ):
                if minute == reboots and not day.busy[(minute - 1) // PERIOD]:
                    node.reboot()
                node.run(60.0 * minute)
        cloud.consoles = [*cloud.consoles[-4:], [node.console for node in nodes]]
        if minute == held:
            cloud.tags[f"{function.HOLD}me"] = function.iso(datetime.fromtimestamp(MIDNIGHT + (held + 240) * 60, UTC))
        if minute % EVERY == 0:
            cloud.now = 60.0 * minute
            before = cloud.deletions
            function.handler({}, SimpleNamespace(invoked_function_arn="arn"))
            yield minute, cloud.deletions > before, held <= minute < held + 240


def judge(job: tuple[Day, int]) -> tuple[int, bool, int, str]:
    """Return the minute of the first end, whether one is false, how many came as work had just begun, and why nodes were kept."""
    day, seed = job
    busy, why = [any(day.busy) and bool(phase) for phase in day.phases[0]], Counter[str]()
    first, false, races, before = 0, False, 0, False
    os.environ.update(CLUSTER="bert", GROUPS="bert", IDLE_SECONDS=str(AFTER * 60), THEN="terminate", AWS_REGION="us-east-1")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, mock.patch("builtins.print", lambda text, **_options: why.update([text])):
        for minute, ended, held in decisions(day, seed, folder):
            if ended:
                first = first or minute
                # After an earlier end there would be no nodes, but they must not look idle for so long either
                false |= held or all(busy[max(0, minute - (AFTER if before else RACE + 1)) : minute])
                races += busy[minute - 1] and not before
            before = ended
    return first, false, races, "; ".join(f"{count} x {text}" for text, count in why.most_common(6))


def main(seed: int, show: str = "") -> None:
    count: Counter[str] = Counter()
    ends: list[int] = []
    jobs = [(day, seed) for day in days(seed) if show in day.name]
    with ProcessPoolExecutor() as pool:
        for (day, _seed), (first, false, races, why) in zip(jobs, pool.map(judge, jobs)):
            works = any(day.busy)
            group = f"{'work' if works else 'idleness'} that metrics {'show' if day.visible else 'hide'}"
            bad = false if works else not first or false
            count[f"days of {group}"] += 1
            count[f"days of {group}, judged wrongly"] += bad
            count[f"days of {group}, that began within {RACE} minutes before an end"] += bool(races)
            if bad or show:
                print(f"{day.name}: first end {first}, false {false}: {why}", flush=True)
            if not works and day.visible and first:
                ends.append(first)
    print("\n".join(f"{name}: {number}" for name, number in sorted(count.items())))
    if ends:
        ends.sort()
        print(f"idle nights end after {ends[len(ends) // 2]} minutes in the median, and the last one after {ends[-1]}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1, *sys.argv[2:3])
