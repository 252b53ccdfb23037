"""Injects faults into jobs and hosts of the local cloud, and judges the results: `make chaos CHAOS=n SEED=s`."""

from __future__ import annotations

import argparse
import json
import logging
import random
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# This import sets the environment of all processes that tests start.
import conftest  # noqa: F401  # pylint: disable=unused-import

from . import checks, runner
from .catalogue import HEALTH_FAULTS, JOB_FAULTS, JobFault
from .judge import failed_attempts, judge, noticed_after, restarted_after
from .schedule import schedule

Row = dict[str, Any]

# The file for the requests of hosts to their metadata services.
LOG = Path(__file__).resolve().parents[2] / ".cache" / "chaos.log"

# Number of health checks of healthy hosts, if the options do not specify the number.
HEALTHY = 40


def main() -> int:
    options = parse()
    log_to(LOG)
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder, runner.chaos_cluster(Path(folder)) as cluster:
        rows = [*run_jobs(cluster, options), *run_checks(cluster, options)]
    if options.output:
        Path(options.output).write_text("".join(json.dumps(row) + "\n" for row in rows))
    failed = [row["fault"] for row in rows if row["complaints"]]
    print(
        f"{len(rows) - len(failed)} of {len(rows)} faults had the expected result (seed {options.seed})."
        f" Others: {', '.join(failed) or 'none'}"
    )
    return 1 if failed else 0


def log_to(path: Path) -> None:
    """Write the log messages of this process to a file, because they would interrupt the list of results."""
    path.parent.mkdir(exist_ok=True)
    logging.basicConfig(filename=path, filemode="w", level=logging.INFO)


def run_jobs(cluster: runner.ChaosCluster, options: argparse.Namespace) -> list[Row]:
    """Run the jobs of the schedule. Faults that affect other jobs come last, one at a time."""
    named = [fault for fault in JOB_FAULTS if re.fullmatch(options.only, fault.name)]
    chosen = [fault for fault in named if runner.can_inject(cluster, fault)]
    if len(chosen) < len(named):
        print(f"SKIPPED: {len(named) - len(chosen)} storage faults need loop devices, which this machine does not have.")
    planned = list(enumerate(schedule(chosen, options.count or len(chosen), options.seed))) if chosen else []
    print(f"{len(planned)} jobs, seed {options.seed}", flush=True)
    curves = {each: runner.undisturbed(*each) for each in {runner.undisturbed_job(fault) for _number, fault in planned}}

    def judged(number: int, fault: JobFault) -> Row:
        began = time.monotonic()
        try:
            seen = runner.run(cluster, fault, options.seed, number)
        except (AssertionError, OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
            return show(
                {"fault": fault.name, "complaints": [f"the suite has no evidence: {type(error).__name__}: {error}"]}, options.verbose
            )
        complaints = judge(fault, seen, curves[runner.undisturbed_job(fault)], options.slack)
        attempts = seen.said["attempts"]
        noticed = [noticed_after(fault, seen, attempt) for attempt in failed_attempts(seen)]
        row = {
            "fault": fault.name,
            "complaints": complaints,
            "seconds": round(time.monotonic() - began),
            "noticed": [seconds and round(seconds, 1) for seconds in noticed],
            "restarted": [round(seconds, 1) for seconds in restarted_after(seen)],
            "causes": [attempt.get("cause") for attempt in attempts],
            "why": attempts[-1].get("why"),
        }
        return show(row, options.verbose)

    with ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(lambda each: judged(*each), [each for each in planned if not each[1].alone]))
    return rows + [judged(*each) for each in planned if each[1].alone]


def run_checks(cluster: runner.ChaosCluster, options: argparse.Namespace) -> list[Row]:
    """For each fault, run health checks on a host with the fault. Also run health checks on healthy hosts."""
    chosen = [fault for fault in HEALTH_FAULTS if re.fullmatch(options.only, fault.name) and runner.can_inject(cluster, fault)]
    found = checks.judge_faults(cluster, chosen) if chosen else []
    rows = [show({"fault": fault.name, "complaints": complaints}, options.verbose) for fault, complaints in found]
    healthy = options.healthy if options.healthy is not None else HEALTHY if chosen else 0
    if healthy:
        count, wrong = checks.wrong_verdicts(cluster, healthy)
        print(f"{len(wrong)} wrong findings in {count} checks of healthy hosts")
        rows.append(show({"fault": "none", "complaints": wrong}, options.verbose))
    return rows


def show(row: Row, verbose: bool) -> Row:
    print(json.dumps(row) if verbose or row["complaints"] else f"ok {row['fault']}", flush=True)
    return row


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--count", type=int, default=0, help="number of jobs; 0 means one for each job fault")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 16), help="seed of the schedule")
    parser.add_argument("--only", default=".*", help="regular expression for the names of faults")
    parser.add_argument("--jobs", type=int, default=2, help="number of jobs that run at the same time, if their faults allow it")
    parser.add_argument(
        "--healthy",
        type=int,
        help=f"number of health checks of healthy hosts; {HEALTHY} by default if --only selects a fault of hosts, else 0",
    )
    parser.add_argument("--slack", type=float, default=3.0, help="factor for time limits; 1 on a machine with nothing else to do")
    parser.add_argument("--output", help="file for the results, one JSON document per line")
    parser.add_argument("--verbose", action="store_true", help="show the details of each fault")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
