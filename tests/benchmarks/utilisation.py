"""Days of clusters as AWS's metrics of their instances show them, with and without work. The figures have sources, which each day names.

Nothing here was chosen with a rule for idleness in mind. Work lasts from its start to its end: its pauses belong to it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

MINUTES, PERIOD, REPEATED = 24 * 60, 5, 10
Range = tuple[float, float]
Series = list[float | None]


@dataclass(frozen=True)
class Day:
    """288 periods of 5 minutes from midnight."""

    name: str
    instance_type: str
    vcpus: int
    has_gpu_power: bool
    nodes: list[dict[str, Series]]  # of each node: metric -> values; that of GPU 3 is "GPUPowerUtilization/3". None: AWS has no datapoint
    busy: list[bool]  # whether work ran on any node
    visible: bool  # False: these metrics cannot tell it, be it work that looks idle or idleness that looks like work
    source: str
    phases: list[list[Phase | None]]  # for each node: what the work does in each minute


class Type(NamedTuple):
    """An instance type. Power is in percent of its limit; how likely AWS publishes it is an assumption: it names no types."""

    vcpus: int
    gpus: int
    idle: Range
    context: Range
    published: float


class Phase(NamedTuple):
    """One part of work: its minutes, busy cores, MB/s in and out, power of the GPUs from an open context (0) to the limit (1), typing."""

    minutes: Range
    cores: Range = (0, 0)
    inward: Range = (0, 0)
    outward: Range = (0, 0)
    power: Range | None = None  # None: no context
    typing: Range | None = None  # minutes between two inputs on a terminal

    @classmethod
    def parse(cls, text: str) -> Phase:
        spans = [tuple(map(float, WORDS.get(word, word).split(":"))) for word in text.split()]
        return cls(*((low, rest[0] if rest else low) for low, *rest in spans))

    def settled(self, rng: random.Random) -> Phase:
        minutes, cores, inward, outward = ((rng.uniform(*span),) * 2 for span in self[:4])
        return Phase(minutes, cores, inward, outward, self.power and (rng.uniform(*self.power),) * 2, self.typing)


class Kind(NamedTuple):
    types: str
    phases: str  # repeated until the run ends: minutes, cores, in, out, power
    source: str
    hours: Range = (1, 14)  # of one run
    runs: tuple[int, int] = (1, 3)
    nodes: tuple[int, int] = (1, 1)
    others: str = (
        "idle"  # what the nodes but the first do: nothing, the same, or wait for it in a collective operation with a spinning core per GPU
    )
    gpus: float = 1.0  # share of the GPUs in use
    gaps: Range = (0, 0.02)  # share of periods without datapoint


TYPES = {
    "g4dn.xlarge": Type(4, 1, (13, 21), (41, 45), 0),
    "g5.xlarge": Type(4, 1, (3, 5), (17, 20), 0.3),
    "g5.2xlarge": Type(8, 1, (3, 5), (17, 20), 0.3),
    "g5.12xlarge": Type(48, 4, (3, 5), (17, 20), 0.3),
    "g5.48xlarge": Type(192, 8, (3, 5), (17, 20), 0.3),
    "g6.xlarge": Type(4, 1, (12.5, 26), (37, 39), 0.5),
    "g6e.12xlarge": Type(48, 4, (6, 10), (25, 29), 0.5),
    "p3.8xlarge": Type(32, 4, (8, 15), (13, 18), 0),
    "p4d.24xlarge": Type(96, 8, (10.5, 15), (17, 25), 0.5),
    "p5.48xlarge": Type(192, 8, (9.5, 11.5), (15.5, 18), 0.8),
    "p5en.48xlarge": Type(192, 8, (10.4, 11.5), (16.5, 18), 0.8),
    "p6-b200.48xlarge": Type(192, 8, (13.5, 14.6), (18.5, 20), 0.8),
}
ANY = " ".join(TYPES)
BIG = " ".join(name for name, of in TYPES.items() if of.gpus > 1)
WORDS = {"logs": ".0003:.008", "spin": ".95:1.05", "open": "0:.01", "train": ".25:.85"}
TRAIN = "20:240 spin logs logs train"
WHOLE = f"{MINUTES}"
DAY, ONCE = (24, 24), (1, 1)
PHILLY = "affinode.io: Philly, 65 % of idle GPU minutes lie in the middle of jobs"
PARKED = "arXiv 2605.23918: power with an open context"
VLLM = "vllm-project/vllm issues 19036 and 16968, pull request 16226"
NINFER = "Neroued/ninfer issue 301: CUDA waits with a spinning core"
LOOPS = "amazon-ssm-agent issue 353: 300 %; dcgm-exporter issue 311: 131 %"
EVALUATION = "3:12 .5:1.5 50:400 logs open/5:60 spin logs logs .1:.5/2:20 .7:1 logs logs open"

WORK = {
    "one process trains": Kind(ANY, TRAIN, NINFER),
    "one process trains, waits without spinning": Kind(ANY, "20:240 .05:.3 logs logs train", NINFER),
    "one GPU of many": Kind(BIG, TRAIN, PHILLY, gpus=0.125),
    "reinforcement learning": Kind(ANY, "30:300 1:2 logs logs .01:.06", "datascience.stackexchange.com 103100: GPU at 2 %"),
    "shared storage": Kind(ANY, "30:120 1.5:12 10:300 logs .03:.3/2:15 1:2 1:20 logs open", "ICSE 2024: low GPU utilization"),
    "evaluation": Kind(ANY, EVALUATION, "arXiv 2403.07648: GPU idle in evaluation"),
    "serving, spinning": Kind(BIG, "2:40 3.8:8.4 logs logs open/.2:2 4:9 .001:.05 .001:.05 .1:.5", VLLM, (6, 24), ONCE),
    "tokenisation": Kind(ANY, "30:300 .9:1.1 logs logs", "hiyouga/LlamaFactory issues 1555, 2656", (0.5, 8)),
    "flash-attn without ninja": Kind(ANY, "100:480 .95:2", "Dao-AILab/flash-attention issues 150, 945, 1560", (1.5, 8), ONCE),
    "compile, then train": Kind(ANY, f"2:20 1:3 logs logs 0:.03/{TRAIN}", "pytorch/torchdynamo issue 1807, pytorch issue 172819"),
    "downloads": Kind(ANY, "5:40 .1:.4 1:11 .02:.2/5:20 .01:.05 .2:1 .005:.02", "huggingface_hub issues 3580, 4528", (0.5, 5)),
    "checkpoints to S3": Kind(BIG, f"{TRAIN}/5:20 .5:2 logs 30:400 open", PHILLY, nodes=(1, 3), others="same"),
    "copy to shared storage": Kind(ANY, "20:200 .3:2 5:200 5:200", "inferred: rsync, aws s3 sync", (0.5, 8)),
    "first rank prepares": Kind(
        BIG, "5:28 spin logs logs 0:.05/30:200 8:20 .1:5 .1:5 .3:.8", "NVIDIA/nccl issue 1111", nodes=(2, 4), others="wait"
    ),
    "one node of several works": Kind(ANY, f"{TRAIN}/1:15 .05:.5 logs logs open", PHILLY, nodes=(2, 4)),
    "trials with pauses": Kind(ANY, "5:40 spin logs logs .1:.7/1:20 .02:.05", "AcmeTrace: median job 122 s, mean 24 minutes"),
    "pipeline that waits for data": Kind(ANY, "5:20 .01:.05/5:30 .8:3 2:60 logs/10:60 spin logs logs .1:.6", PHILLY),
    "training with pauses": Kind(ANY, "5:60 spin logs logs train/2:20 .02:1 logs logs open", PHILLY, nodes=(1, 2)),
    "notebook in use": Kind(ANY, "1:20 .003:.02 logs logs open/.2:8 .9:2.5 logs logs .02:.5", "inferred: time to think", (2, 9), (1, 2)),
    "simulation on one core": Kind(ANY, "60:600 .97:1", "inferred: 100 / vCPUs", (2, 20), ONCE),
}
UNSEEN_WORK = {
    "breakpoint": Kind(ANY, "60:600 0:.005 0 0 open", PARKED),
    "answers of a judge": Kind(ANY, "30:300 .01:.05 .001:.01 .001:.01 open", "EvolvingLMMs-Lab/lmms-eval issue 908"),
    "debugging": Kind(ANY, "30:180 0:.005 0 0 open 1:20", "inferred: time to think", (1, 6)),
    "editing in a terminal": Kind(ANY, "20:120 .001:.02 logs logs open .1:12", "inferred: time to think", (1, 6)),
    "sleeps and polls": Kind(ANY, "60:600 .001:.02", "jupyterhub/jupyterhub issue 1498"),
    "storage hangs": Kind(ANY, "10:120 0:.01 0 0 open", "inferred: waiting for storage is not CPU", (0.5, 4)),
    "slow local disk": Kind(BIG, "30:300 .02:.1", "inferred: EBS is not network"),
    "serving, workers that sleep": Kind(ANY, "5:60 0:.01 0 0 open/.1:.5 .3:1 logs logs .1:.5", VLLM, (6, 24), ONCE),
}
NO_WORK = {
    "nothing": Kind(ANY, WHOLE, "AcmeTrace: 0.09-0.42 % and 1.3-1.7 % CPU", nodes=(1, 3)),
    "agents": Kind(ANY, "4:6 .003:.05 logs logs", "node_exporter issue 1880; gpu-operator issue 340", DAY, nodes=(1, 3)),
    "monitoring": Kind(ANY, "30:90 .05:.3 .0005:.003 .001:.014", "gpu-monitoring-tools issue 133", DAY, nodes=(1, 4)),
    "upgrades": Kind(ANY, "240:700/1:4 .5:1 1:12/1:14 .8:1.2 0:8", "mvo5/unattended-upgrades issue 402", DAY),
    "rotated logs": Kind(ANY, "55:65/.3:2 .3:1 logs .1:6", "inferred: logrotate, shipping", DAY),
    "shared storage mounted": Kind(ANY, "200:700 0:.003 logs logs/2:25 .1:.6 .05:2 .02:.5", "inferred: updatedb, lease renewal", DAY),
    "ssh left open": Kind(ANY, "60:600 .002:.05 0:.0005 0:.002", "inferred: keepalive, htop", (8, 24)),
    "scanned": Kind(ANY, "5:60 .002:.02 .0003:.004 .0003:.004", "inferred: scans of a public address", DAY),
    "notebook left open": Kind(ANY, "60:600 .001:.01 logs logs open", PARKED, (8, 24), ONCE),
    "late and missing metrics": Kind(ANY, WHOLE, "docs.opsramp.com: cloud metrics delay", nodes=(1, 3), gaps=(0.05, 0.2)),
}
UNSEEN_IDLENESS = {
    "agent in a loop": Kind(ANY, "200:1400 .9:3", LOOPS, (4, 24), ONCE),
    "server without requests": Kind(BIG, "60:600 3.8:8.4 logs logs open", VLLM, (12, 24), ONCE),
}
KINDS = [
    (name, kind, kinds is WORK or kinds is UNSEEN_WORK, kinds is WORK or kinds is NO_WORK)
    for kinds in (WORK, UNSEEN_WORK, NO_WORK, UNSEEN_IDLENESS)
    for name, kind in kinds.items()
]


def spread(rng: random.Random, low: float, high: float) -> float:
    """Between both, each order of magnitude as likely as the next."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def plan(rng: random.Random, kind: Kind) -> list[Phase | None]:
    """What the work does in each minute of the day."""
    minutes: list[Phase | None] = [None] * MINUTES
    phases = [Phase.parse(text) for text in kind.phases.split("/")]
    for _ in range(rng.randint(*kind.runs)):
        length = int(spread(rng, *kind.hours) * 60)
        start = rng.randrange(MINUTES - length // 2) if length < MINUTES else 0
        end, step = min(MINUTES, start + length), 0
        while start < end:
            phase = phases[step % len(phases)]
            until = min(end, start + max(1, round(spread(rng, *phase.minutes))))
            minutes[start:until] = [phase.settled(rng)] * (until - start)
            start, step = until, step + 1
    return minutes


def elsewhere(phase: Phase | None, others: str, gpus: int) -> Phase | None:
    """What a node other than the first does meanwhile."""
    if others == "wait" and phase:
        return phase._replace(cores=(gpus, gpus), inward=(0.003, 0.003), outward=(0.003, 0.003))
    return phase if others == "same" else None


def holes(rng: random.Random, share: float) -> list[bool]:
    """The periods without datapoint: a few in a row, and the last ones, which come late."""
    count = MINUTES // PERIOD
    gone = {count - 1 - late for late in range(rng.choice([0, 0, 0, 1, 1, 2, 3]))}
    while len(gone) < share * count:
        start = rng.randrange(count)
        gone |= set(range(start, min(count, start + rng.randint(1, 4))))
    return [period in gone for period in range(count)]


def processor(rng: random.Random, vcpus: int, minutes: list[Phase | None]) -> list[float]:
    floor = spread(rng, 0.0008, 0.005) * vcpus + spread(rng, 0.005, 0.08)
    if rng.random() < 0.15:
        floor += rng.uniform(0.008, 0.012) * vcpus  # the second of AcmeTrace's clusters
    drift, unsteady, timer, values = 0.0, rng.uniform(0.05, 0.3), rng.randrange(60), []
    for start in range(0, MINUTES, PERIOD):
        drift = 0.8 * drift + rng.gauss(0, unsteady * 0.6)
        hourly = rng.uniform(0.01, 0.1) if start % 60 <= timer < start % 60 + PERIOD else 0
        work = sum(phase.cores[0] * rng.gauss(1, 0.02) for phase in minutes[start : start + PERIOD] if phase) / PERIOD
        values.append(min(100.0, 100 * (floor * math.exp(drift) + hourly + work) / vcpus))
    return values


def network(rng: random.Random, always: float, rates: list[float]) -> list[float]:
    return [
        60e6
        * (PERIOD * always * rng.lognormvariate(0, 0.35) + sum(rate * rng.lognormvariate(0, 0.3) for rate in rates[start : start + PERIOD]))
        for start in range(0, MINUTES, PERIOD)
    ]


def power(rng: random.Random, of: Type, minutes: list[Phase | None], pinned: bool, zero: float) -> list[float]:
    idle = rng.uniform(*(of.context if pinned else of.idle))
    context = max(idle, rng.uniform(*of.context))
    levels = [context + phase.power[0] * (100 - context) if phase and phase.power else idle for phase in minutes]
    means = [sum(levels[start : start + PERIOD]) / PERIOD + rng.gauss(0, 0.25) for start in range(0, MINUTES, PERIOD)]
    return [min(100.0, max(0.0, 100 * (mean - zero) / (100 - zero))) for mean in means]


def node(rng: random.Random, kind: Kind, of: Type, minutes: list[Phase | None], zero: float | None) -> dict[str, Series]:
    values = {"CPUUtilization": processor(rng, of.vcpus, minutes)}
    values["NetworkIn"] = network(rng, spread(rng, 0.0001, 0.008), [phase.inward[0] if phase else 0 for phase in minutes])
    values["NetworkOut"] = network(rng, spread(rng, 0.0001, 0.014), [phase.outward[0] if phase else 0 for phase in minutes])
    pinned = rng.random() < 0.2  # without persistence mode, an idle GPU takes as much power as one with an open context
    for gpu in range(of.gpus if zero is not None else 0):
        used = gpu < max(1, of.gpus * kind.gpus)
        values[f"GPUPowerUtilization/{gpu}"] = power(rng, of, minutes if used else [None] * MINUTES, pinned, zero or 0)
    gone = holes(rng, rng.uniform(*kind.gaps))
    return {name: [None if hole else round(value, 4) for hole, value in zip(gone, series)] for name, series in values.items()}


def days(seed: int) -> Iterator[Day]:
    """Some days of each kind, on different instance types. The same seed gives the same days."""
    for name, kind, works, visible in KINDS:
        for number in range(REPEATED):
            rng = random.Random(f"{seed}/{name}/{number}")
            instance_type = rng.choice(kind.types.split())
            of = TYPES[instance_type]
            # AWS does not say whether the metric starts at 0 W or at what an idle GPU takes.
            zero = rng.choice([0.0, 0.0, of.idle[0]]) if rng.random() < of.published else None
            first = plan(rng, kind)
            rest = [elsewhere(phase, kind.others, of.gpus) for phase in first]
            phases = [rest if index else first for index in range(rng.randint(*kind.nodes))]
            nodes = [node(rng, kind, of, each, zero) for each in phases]
            busy = [works and any(first[start : start + PERIOD]) for start in range(0, MINUTES, PERIOD)]
            yield Day(f"{name} {number}", instance_type, of.vcpus, zero is not None, nodes, busy, visible, kind.source, phases)
