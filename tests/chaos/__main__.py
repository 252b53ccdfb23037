"""Injects faults into jobs on hosts of the local cloud and judges the jobs: `make chaos CHAOS=n SEED=s`."""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import conftest  # noqa: F401  (the environment of everything that tests start)

from . import runner
from .catalogue import JOB_FAULTS
from .judge import judge, noticed_after, restarted_after
from .schedule import schedule


def main() -> int:
    options = parse()
    chosen = [fault for fault in JOB_FAULTS if re.fullmatch(options.only, fault.name)]
    planned = schedule(chosen, options.count or len(chosen), options.seed)
    print(f"{len(planned)} jobs, seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder, runner.chaos_cluster(Path(folder)) as cluster:
        curves = {steps: runner.undisturbed(steps) for steps in {runner.steps_of(fault) for fault in planned}}

        def judged(number, fault):
            began = time.monotonic()
            seen = runner.run(cluster, fault, options.seed, number)
            complaints = judge(fault, seen, curves[runner.steps_of(fault)], options.slack)
            noticed = noticed_after(seen)
            row = {
                "fault": fault.name,
                "noticed": noticed and round(noticed, 1),
                "restarted": [round(seconds, 1) for seconds in restarted_after(seen)],
                "attempts": len(seen.said["attempts"]),
                "causes": [attempt.get("cause") for attempt in seen.said["attempts"]],
                "why": seen.said["attempts"][-1].get("why"),
                "seconds": round(time.monotonic() - began),
                "complaints": complaints,
            }
            print(json.dumps(row) if options.verbose or complaints else f"ok {fault.name} {row['seconds']} s", flush=True)
            return row

        together = [(number, fault) for number, fault in enumerate(planned) if not fault.alone]
        alone = [(number, fault) for number, fault in enumerate(planned) if fault.alone]
        with ThreadPoolExecutor(options.jobs) as pool:
            rows = list(pool.map(lambda each: judged(*each), together))
        rows += [judged(*each) for each in alone]
    if options.output:
        Path(options.output).write_text("".join(json.dumps(row) + "\n" for row in rows))
    failed = [row for row in rows if row["complaints"]]
    print(f"{len(rows) - len(failed)} of {len(rows)} jobs ended as they must, seed {options.seed}")
    return 1 if failed else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--count", type=int, default=0, help="number of jobs; 0 means each fault of the catalogue once")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 16), help="seed of the schedule")
    parser.add_argument("--only", default=".*", help="regular expression for the names of faults")
    parser.add_argument("--jobs", type=int, default=2, help="number of jobs that run at the same time, if their faults allow it")
    parser.add_argument("--slack", type=float, default=3.0, help="factor for limits on time; 1 on a machine with nothing else to do")
    parser.add_argument("--output", help="file for the results, one JSON document per line")
    parser.add_argument("--verbose", action="store_true", help="show the details of each job")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
