"""Measures the cost of supervising a job in which nothing goes wrong: CPU time while the job runs, and time until the job starts.

While the job runs: A script with a fixed amount of work keeps one core of each host busy and reports its steps. The script runs in three
ways: started by hand with ssh; as a job that no play watches; and as a job that a play watches until its end, as playbooks/train.yml does.
On each host, the script measures the seconds that the work takes, and the CPU time of all other processes on the host: supervisors, and the
modules that the play runs on one of the hosts. The CPU time of the controller does not count. The benchmark subtracts the CPU time that
other processes use when the script is started by hand. It fails if the supervisors use a larger percentage of one core of each host than
the goal.

Until the job starts: the role training_job starts a script with and without health checks, restarts and checks for hangs. The time
runs from the start of ansible-playbook to the first line of the script. The benchmark fails if the median difference is more than the goal.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

# This import sets the environment of everything that tests start.
import conftest  # noqa: F401  # pylint: disable=unused-import
from comparison import report
from hosts.cluster import FILE_SYSTEM, Cluster, job_cluster
from local_cloud.hosts.podman import as_root
from local_cloud.testing import wait_until

# Percent of one core of each host that supervisors may use, and seconds by which supervision may delay the start of a job.
PERCENT_GOAL, START_GOAL = 0.5, 0.5

HAND, UNWATCHED, WATCHED = "by hand", "unwatched job", "watched job"

PYTHON = "/usr/bin/python3"
# Seconds after which the script has failed.
PATIENCE = 1800.0

OPTIONS: Mapping[str, Any] = {"launcher": "command", "python": PYTHON, "report": False}
SUPERVISED: Mapping[str, Any] = {"restarts": 3, "hang_steps": 3, "hang_minimum": 0, "hang_timeout": 60, "health_check": True}
BARE: Mapping[str, Any] = {"restarts": 0, "health_check": False}

# The script. The files in /sys/fs/cgroup are those of cgroup v1 and of cgroup v2, and count the CPU time of the whole host.
WORK = """
    import json, os, time

    def host():
        try:
            with open("/sys/fs/cgroup/cpuacct/cpuacct.usage") as file:
                return int(file.read()) / 1e9
        except OSError:
            with open("/sys/fs/cgroup/cpu.stat") as file:
                return int(dict(line.split() for line in file)["usage_usec"]) / 1e6

    def moment():
        return time.monotonic(), host(), time.process_time()

    steps, first = int(os.environ["STEPS"]), moment()
    for step in range(1, steps + 1):
        sum(number * number for number in range(1_000_000))
        if os.environ["DEEPLEARNING_RANK"] == "0":
            with open(os.environ["DEEPLEARNING_PROGRESS"], "a") as file:
                file.write(json.dumps({"step": step, "steps": steps}) + "\\n")
    seconds, total, own = (after - before for before, after in zip(first, moment()))
    print(json.dumps({"seconds": seconds, "others": total - own}), flush=True)
"""

FIRST_LINE = "import time\nprint(time.time(), flush=True)\n"


class Cost(NamedTuple):
    """The mean seconds that the work took on a host, and the CPU time of other processes as a percentage of this time."""

    seconds: float
    percent: float


class Bench:
    """Hosts, and the ways to run the script on them."""

    def __init__(self, cluster: Cluster, steps: int) -> None:
        self.cluster, self.steps = cluster, steps
        self.jobs = 0

    def name(self) -> str:
        """Return the name of a new job."""
        self.jobs += 1
        return f"job{self.jobs}"

    def by_hand(self) -> Cost:
        """Run the script with one ssh command for each host."""
        folder = f"/efs/by-hand/{self.name()}"
        path = self.cluster.folder / "work.py"
        self.cluster.hosts[0].ssh(f"mkdir -p {folder} && cat >{folder}/work.py <<'END'\n{path.read_text()}END\n")
        environment = f"STEPS={self.steps} DEEPLEARNING_PROGRESS={folder}/progress.jsonl"

        def on_host(rank: int) -> str:
            command = f"env {environment} DEEPLEARNING_RANK={rank} {PYTHON} -u {folder}/work.py"
            return str(self.cluster.hosts[rank].ssh(command, timeout=PATIENCE).stdout)

        with ThreadPoolExecutor(len(self.cluster.hosts)) as pool:
            return cost(list(pool.map(on_host, range(len(self.cluster.hosts)))))

    def as_job(self, wait: bool) -> Cost:
        """Run the script as a job. If `wait` is true, a play watches the job."""
        name = self.name()
        options = {**OPTIONS, **SUPERVISED, "environment": {"STEPS": str(self.steps)}}
        done = self.cluster.train(name, str(self.cluster.folder / "work.py"), wait=wait, **options)
        check(done)
        # A poll over ssh would use CPU time on a host.
        over = self.cluster.folder / "file-systems" / FILE_SYSTEM / "jobs" / name / "status" / "over"
        wait_until(lambda: subprocess.run(as_root("test", "-e", str(over)), check=False).returncode == 0, PATIENCE, 1.0)
        return cost([self.cluster.read(f"/efs/jobs/{name}/logs/rank{rank}.log") for rank in range(len(self.cluster.hosts))])

    def start(self, options: Mapping[str, Any]) -> float:
        """Start a job, and return the seconds until the script prints its first line."""
        name, started = self.name(), time.time()
        check(self.cluster.train(name, str(self.cluster.folder / "first_line.py"), **OPTIONS, **options))
        return float(self.cluster.read(f"/efs/jobs/{name}/logs/rank0.log").split()[0]) - started


def check(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode:
        sys.exit(f"the job failed:\n{done.stdout}{done.stderr}")


def cost(outputs: Sequence[str]) -> Cost:
    """Return the cost, derived from the output of the script on each host."""
    try:
        found = [json.loads(output.splitlines()[-1]) for output in outputs]
    except (ValueError, IndexError):
        sys.exit(f"the script has printed no result:\n{outputs}")
    seconds = [each["seconds"] for each in found]
    return Cost(statistics.fmean(seconds), 100 * sum(each["others"] for each in found) / sum(seconds))


def measure_costs(bench: Bench, rounds: int) -> list[dict[str, Cost]]:
    """For each round, return the cost of each way to run the script. The order alternates between rounds."""
    ways = {HAND: bench.by_hand, UNWATCHED: lambda: bench.as_job(wait=False), WATCHED: lambda: bench.as_job(wait=True)}
    costs = []
    for number in range(1, rounds + 1):
        names = list(ways)[:: 1 if number % 2 else -1]
        costs.append({name: ways[name]() for name in names})
        told = "  ".join(f"{name} {cost.seconds:.2f} s, others {cost.percent:.2f} %" for name, cost in costs[-1].items())
        print(f"round {number}  {told}", flush=True)
    return costs


def measure_starts(bench: Bench, rounds: int) -> list[tuple[float, float]]:
    """For each round, return the seconds until the start with and without supervision. The order alternates between rounds."""
    bench.start(SUPERVISED)  # the first start on new hosts takes longer
    starts = []
    for number in range(1, rounds + 1):
        if number % 2:
            ours, bare = bench.start(SUPERVISED), bench.start(BARE)
        else:
            bare, ours = bench.start(BARE), bench.start(SUPERVISED)
        print(f"start {number}  supervised {ours:.2f} s  without {bare:.2f} s  more {ours - bare:.2f} s", flush=True)
        starts.append((ours, bare))
    return starts


def report_costs(costs: Sequence[Mapping[str, Cost]]) -> bool:
    """Print the medians; return whether the goal is met."""
    print(f"\n{'median':16}{'seconds of work':>18}{'more':>10}{'CPU of others':>16}{'more':>10}{'goal':>8}")
    more = {}
    for name in (HAND, UNWATCHED, WATCHED):
        seconds, percent = (statistics.median(each[name][index] for each in costs) for index in (0, 1))
        slower = statistics.median(100 * (each[name].seconds / each[HAND].seconds - 1) for each in costs)
        more[name] = statistics.median(each[name].percent - each[HAND].percent for each in costs)
        goal = f"{PERCENT_GOAL:7.2f}%" if name == UNWATCHED else ""
        print(f"{name:16}{seconds:17.2f}s{slower:9.2f}%{percent:15.2f}%{more[name]:9.2f}%{goal}")
    return more[UNWATCHED] <= PERCENT_GOAL


def main() -> int:
    """Return 0 if the goals are met, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="how often the script runs in each way (default: %(default)s)")
    parser.add_argument("--starts", type=int, default=5, help="how often a job starts in both ways (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=400, help="steps of the script, about 0.1 s each (default: %(default)s)")
    parser.add_argument("--hosts", type=int, default=2, help="hosts of the job (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder, job_cluster(Path(folder), [], count=options.hosts) as cluster:
        (Path(folder) / "work.py").write_text(textwrap.dedent(WORK))
        (Path(folder) / "first_line.py").write_text(FIRST_LINE)
        print(f"{os.cpu_count()} cores, {options.hosts} hosts, Python {sys.version.split()[0]}, load {os.getloadavg()[0]:.1f}")
        bench = Bench(cluster, options.steps)
        starts, costs = measure_starts(bench, options.starts), measure_costs(bench, options.rounds)
    met = [report(starts, "supervised", "without", START_GOAL) if starts else True, report_costs(costs) if costs else True]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
