"""What runs on GPU nodes beside work, and how work is started. Written from published figures, before the limits of the product were read.

Each line: how often a node has it, where it runs, its command, processor seconds per minute, and MB per minute that it receives, sends, and
reads or writes. Alternatives are separated by `|`. A service with `own:` is one whose file is where people write theirs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from utilisation import MINUTES, Phase, spread

USER = "user.slice/user-1000.slice"
PLACES = {
    "session": f"{USER}/session-3.scope",
    "detached": f"{USER}/session-1.scope",
    "vscode": f"{USER}/session-5.scope",
    "container": "system.slice/docker-{name}.scope",
    "service-of-user": f"{USER}/user@1000.service/app.slice/study.service",
    "transient": "system.slice/run-r7.service",
    "job": "deeplearning.slice/deeplearning-digits.slice/deeplearning-digits-0.service",
    "slurm": "system.slice/slurmstepd.scope/job_7/step_0",
}
PACKAGED = ("amazon-", "newrelic-", "oneagent", "slurmd")
ROOT = ("container", "transient", "job")
ANYWHERE = "session|detached|vscode|container|job|slurm|service-of-user|transient|own:study.service|ssm.service|cron.service"
SSM = ("amazon-ssm-agent", "snap.amazon-ssm-agent.amazon-ssm-agent")
PEOPLE = "session|detached|vscode|container"

# Ubuntu and Amazon Linux as in AWS's Deep Learning AMIs, with the agents that people add.
# node_exporter issue 1880: 80 ms per scrape, 2966: seconds on large servers. gpu-monitoring-tools issue 133: dcgm-exporter takes 15-20 % of
# a core, nvidia-smi dmon 7.5 %. compute-image-tools issue 2154: snapd took 280 s in 7 hours. The others: inferred from `ps` on such images.
DAEMONS = """
1 systemd-journald.service systemd-journald .005:.1 0 0 .01:.3
1 systemd-udevd.service systemd-udevd 0:.01 0 0 0
1 systemd-logind.service systemd-logind 0:.01 0 0 0
1 dbus.service dbus-daemon 0:.02 0 0 0
1 chrony.service chronyd .001:.01 0 0 0
1 cron.service cron .001:.01 0 0 0
1 ssh.service sshd 0:.05 0:.1 0:.1 0
1 multipathd.service multipathd .03:.1 0 0 0
.8 irqbalance.service irqbalance .02:.3 0 0 0
.8 rsyslog.service rsyslogd .005:.1 0 0 .01:.3
.8 snapd.service snapd .02:.7 0:.05 0:.01 0:.05
1 ssm.service amazon-ssm-agent .01:.1 0 0 0
1 ssm.service ssm-agent-worker .02:.3 .005:.05 .005:.05 0:.02
.5 own:amazon-cloudwatch-agent.service amazon-cloudwatch-agent .1:1.5 .01:.1 .05:.8 0:.1
1 nvidia-persistenced.service nvidia-persistenced 0:.001 0 0 0
.5 nvidia-fabricmanager.service nv-fabricmanager .01:.1 0 0 0
.4 nvidia-dcgm.service nv-hostengine .1:4 0 0 0:.01
.3 dcgm-exporter.service|own:dcgm-exporter.service|container dcgm-exporter .2:12 .01:.1 .05:.5 0
.4 prometheus-node-exporter.service|own:node_exporter.service|container node_exporter .05:3 .01:.1 .05:1 0
.8 containerd.service containerd .02:.4 0 0 0:.02
.8 docker.service dockerd .02:.3 0 0 0:.02
.3 own:slurmd.service slurmd .001:.1 0:.02 0:.02 0:.01
.3 munge.service munged 0:.02 0 0 0
.5 amazon-efs-mount-watchdog.service amazon-efs-mount-watchdog .05:.4 0 0 0:.01
.5 amazon-efs-mount-watchdog.service efs-proxy 0:.05 .001:.05 .001:.05 0
.1 own:newrelic-infra.service newrelic-infra .2:2 .05:.3 .1:1 0
.05 own:oneagent.service oneagentos .3:3 .05:.3 .1:1 0:.2
.2 datadog-agent.service agent .3:3 .05:.3 .1:1 0:.2
.1 falcon-sensor.service falcon-sensor .2:3 .05:.3 .05:.5 0:.2
"""

# Timers: the same fields, but first minutes between runs and minutes of a run, and all figures per minute of the run.
# mvo5/unattended-upgrades issue 402: minutes of a core. aws-parallelcluster issue 3269: apt-daily on compute nodes.
TIMERS = """
300:720 .3:3 .9 apt-daily.service apt.systemd.dai 20:60 5:60 .1:.5 5:100
1200:1440 1:14 .9 apt-daily-upgrade.service unattended-upgr 45:70 5:200 .1:1 50:900
300:420 .3:4 .7 snapd.service snapd 5:50 20:150 .1:1 20:200
60 .02:.1 1 cron.service run-parts .05:1 0 0 0:.1
10 .02:.1 .6 sysstat-collect.service sadc .05:.5 0 0 .01:.1
1440 .1:2 1 logrotate.service gzip 5:55 0 0 5:300
1440 .5:10 .6 plocate-updatedb.service updatedb.plocat 5:50 0:30 0:5 1:50
1440 .1:1 .8 man-db.service mandb 5:50 0 0 1:20
1440 .02:.1 1 systemd-tmpfiles-clean.service systemd-tmpfile .1:2 0 0 0:1
720 .02:.1 .7 motd-news.service curl .05:.3 .01:.1 .01:.1 0
60 .1:.5 .3 dnf-makecache.service dnf 5:40 .5:40 .1:.5 1:80
30 .05:.5 .4 ssm.service ssm-document-wo 1:20 .1:2 .1:2 .1:2
1440 .5:4 .2 ssm.service python3 20:60 5:100 .1:2 5:100
15 .02:.2 .2 cron.service python3 .3:4 .01:.3 .01:.3 0:.1
10080 .1:3 1 fstrim.service fstrim .5:5 0 0 0
"""

# What people leave running overnight, with nobody there. Servers of users, such as Ray, are no idleness.
# Measured on 2 processors with 550 threads: jupyter-lab took 0.03 %, each of its idle kernels 0.004 %, TensorBoard with 20 runs 0.07 %,
# tmux 0.03 %, vim nothing, watch 0.17 %; top 0.23 % and 28 kB/s, glances 1.7 % and 287 kB/s, which they read in /proc. Issues report more:
# idle kernels 0.3-1 % (spyder 1450, jupynium.nvim 14), TensorBoard up to 20 % of the processors (766) and 3.7 MB/s (3177), the server of
# VS Code 4 s in 8 hours (vscode-remote-release 245), while connected 2 % (11283). The agent of wandb polls after a sweep (3961).
LEFT = """
.5 detached tmux:server .01:.2 0 0 0:.1
.5 detached|session bash 0 0 0 0
.3 detached vim .001:.02 0 0 0:.001
.15 session|detached top .1:1 0 .02:.3 1:10
.15 session|detached htop .1:2 0 .02:.3 2:60
.05 detached glances .5:3 0 0 10:60
.1 detached watch .05:.3 0 0 .2:1
.1 detached nvidia-smi .5:10 0 0 .2:2
.1 detached nvtop .5:4 0 0 1:10
.1 own:gpumon.service python3 .1:.5 .01:.05 .02:.2 0
.1 detached tail .001:.05 0 0 0
.3 vscode node .01:.6 0:.01 0:.01 0:.01
.1 vscode pylance .01:1.2 0 0 0
.3 detached|container|service-of-user jupyter-lab .01:.6 0:.01 0:.01 0
.3 detached|container|service-of-user ipykernel_launc .002:.6 0 0 0
.2 detached tensorboard .02:6 0|0:200 0:1 0 0:.1
.1 detached wandb .02:.3 .005:.05 .005:.05 0:.01
.1 detached mlflow .02:.6 0 0 0
.1 detached bash .05:.6 .01:.1 .01:.1 0
.2 container sleep 0 0 0 0
.1 container gunicorn .01:.3 0 0 0
.1 container redis-server .06:.3 0 0 0:.01
.1 container postgres .01:.1 0 0 .01:.1
.2 detached pt_data_worker 0 0 0 0
"""

# Where work runs, its commands, the share of its traffic that /proc counts as read or written, and the share of time that it waits for
# storage. Sockets of Python and mapped files do not count.
WORK = {
    "shared storage": f"{ANYWHERE} pt_data_worker 0:1 .05:.5",
    "storage hangs": f"{ANYWHERE} python3 0 1",
    "slow local disk": f"{ANYWHERE} python3 1 .3:.9",
    "copy to shared storage": f"{ANYWHERE} rsync|aws|cp 1 .1:.4",
    "downloads": f"{ANYWHERE} hf|aws|wget 1 0:.1",
    "checkpoints to S3": f"{ANYWHERE} pt_main_thread 1 0:.1",
    "notebook in use": "session|detached|vscode|container|service-of-user ipykernel_launc 0:1 0",
    "breakpoint": f"{PEOPLE} python3 0 0",
    "debugging": f"{PEOPLE} python3 0 0",
    "editing in a terminal": "session|detached vim|emacs 1 0",
    "agents": "prometheus-node-exporter.service|own:node_exporter.service|container node_exporter 1 0",
    "monitoring": "nvidia-dcgm.service|own:dcgm-exporter.service|container dcgm-exporter 1 0",
    "upgrades": "apt-daily-upgrade.service unattended-upgr 1 .1:.4",
    "rotated logs": "logrotate.service gzip 1 .1:.4",
    "shared storage mounted": "plocate-updatedb.service|cron.service updatedb 1 .1:.6",
    "ssh left open": "session|detached htop 1 0",
    "scanned": "ssh.service sshd 1 0",
    "notebook left open": "session|detached|vscode|container|service-of-user ipykernel_launc 0:1 0",
    "agent in a loop": "ssm.service ssm-agent-worke 0 0",
    "server without requests": "detached|container|own:vllm.service VLLM::EngineCor 0 0",
}
BETWEEN = ("upgrades", "rotated logs", "shared storage mounted")  # do not run all the time


class Use(NamedTuple):
    """Seconds of a processor and bytes in a minute, the share of it spent waiting for storage, and whether it is another process."""

    seconds: float
    bytes: float = 0.0
    waits: float = 0.0
    life: int = 0


@dataclass
class Program:
    name: str
    group: str
    user: int
    is_own: bool  # a unit with a file in /etc/systemd/system
    use: Callable[[int], Use | None]  # in a minute; None: it does not run


def programs(rng: random.Random, kind: str, phases: list[Phase | None], is_left: bool) -> Iterator[Program]:
    """Yield the programs of a node on a day. On some nodes, people have left theirs running."""
    for line in DAEMONS.strip().splitlines():
        yield from _steady(rng, line)
    for line in LEFT.strip().splitlines() if is_left else ():
        yield from _steady(rng, line)
    for line in TIMERS.strip().splitlines():
        yield from _timed(rng, *line.split(" ", 2))
    if any(phases):
        places, names, counted, waits = WORK.get(kind, f"{ANYWHERE} python3|pt_main_thread 0:1 0").split()
        part, waiting, fresh, noise = draw(rng, counted), draw(rng, waits), rng.random() < 0.5, [rng.gauss(1, 0.02) for _each in range(60)]

        def use(minute: int) -> Use | None:
            phase = phases[minute]
            if not phase or (kind in BETWEEN and phase.cores[0] <= 0.003):
                return None
            moved = part * (phase.inward[0] + phase.outward[0]) * 60e6
            return Use(60 * phase.cores[0] * noise[minute % 60], moved, waiting, id(phase) if fresh else 0)

        work = _program(rng, places, names, use)
        yield work
        if work.group == PLACES["slurm"]:
            yield replace(work, name="slurmstepd", user=0, use=lambda minute: Use(0.01) if phases[minute] else None)


def draw(rng: random.Random, text: str) -> float:
    low, _colon, high = rng.choice(text.split("|")).partition(":")
    return spread(rng, float(low), float(high)) if high and float(low) else rng.uniform(float(low), float(high or low))


def _program(rng: random.Random, places: str, names: str, use: Callable[[int], Use | None]) -> Program:
    own, _colon, place = rng.choice(places.split("|")).rpartition(":")
    group, name = PLACES.get(place, f"system.slice/{place}".replace("/ssm.", f"/{rng.choice(SSM)}.")), rng.choice(names.split("|"))[:15]
    # Many instructions create the users of monitoring as if they were people
    user = 1000 if place in PLACES and place not in ROOT else rng.choice([0, 1001]) if own and not place.startswith(PACKAGED) else 0
    return Program(name, group.format(name=name), user, bool(own), use)


def _steady(rng: random.Random, line: str) -> Iterator[Program]:
    share, places, names, seconds, *amounts = line.split()
    if rng.random() < float(share):
        computes, waits = draw(rng, seconds), draw(rng, amounts[3]) if amounts[3:] else 0.0
        moves, hours = 1e6 * sum(draw(rng, each) for each in amounts[:3]), [rng.lognormvariate(0, 0.2) for _hour in range(24)]
        yield _program(rng, places, names, lambda minute: Use(computes * hours[minute // 60], moves * hours[minute // 60], waits))


def _timed(rng: random.Random, period: str, length: str, line: str) -> Iterator[Program]:
    share, places, names, seconds, *amounts = line.split()
    if rng.random() > float(share):
        return
    runs: dict[int, Use] = {}
    start = rng.uniform(0, float(period.partition(":")[0]))
    while start < MINUTES:
        lasts = draw(rng, length)
        if lasts > 1 or rng.random() < lasts:  # otherwise nobody sees it
            use = Use(min(lasts, 1) * draw(rng, seconds), min(lasts, 1) * 1e6 * sum(draw(rng, each) for each in amounts), 0.1, int(start))
            runs.update(dict.fromkeys(range(int(start), min(MINUTES, int(start + lasts) + 1)), use))
        start += draw(rng, period)
    yield _program(rng, places, names, runs.get)
