"""The judge: pure code that compares what happened to a job with its row in the catalogue. The judge shares no code with the collection.
The judge trusts the script's own records, process tables, the modification times of files, and the loss of an undisturbed run. The judge
compares what the collection reports about the job with these sources and with the injected fault.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .catalogue import HOST, NOTICED, RANKS, HealthFault, JobFault

# Steps between two checkpoints of the script.
INTERVAL = 10

# Maximum number of seconds from the verdict about an attempt to the first line of the script in the next attempt.
#
# RESTARTED applies to the same hosts, and REPLACED applies if a spare takes the place of a host.
RESTARTED, REPLACED = 10.0, 20.0

# Maximum number of steps of an earlier attempt after a later attempt has begun.
LATE_STEPS = 5

# Maximum relative difference of losses after a change of the number of ranks, which changes the order of additions.
CLOSE = 1e-9

# Maximum relative difference between the sum of the goodput buckets and the time of all nodes.
SHARE = 0.01

# Maximum number of seconds between an event and its record, for each node and attempt. Files are written a fraction of a second late.
WRITTEN = 0.25

# Number of seconds between two heartbeats. The time after the last heartbeat of a lost host counts as detection.
HEARTBEAT = 5.0

# The goodput buckets for the time in which no step is computed before the first step of an attempt.
STARTUP = ("waiting", "start", "restart")


@dataclass(frozen=True)
class Curve:
    """What the script reports: losses by step, and the parameters after the last step."""

    losses: Mapping[int, float]
    parameters: Sequence[float]


class Strike(NamedTuple):
    """A fault that the injector caused at a time in seconds since 1970, in an attempt, at a rank. The rank is the index of its host."""

    attempt: int
    rank: int
    time: float


@dataclass(frozen=True)
class Evidence:
    """What is known about a job after the job has ended. Times are in seconds since 1970."""

    # Whether all units ended before the timeout.
    has_ended: bool
    # Entries that the script wrote: `attempt`, `ranks`, `time`, and either `begins` or `step`, `loss` and `hosts`.
    curve: Sequence[Mapping[str, Any]]
    # The parameters after the last step, or None.
    result: Sequence[float] | None
    # Processes of the job that are still running.
    survivors: Sequence[str]
    # The time at which the verdict of each attempt and the decision about the next attempt were written.
    verdicts: Mapping[int, float]
    decisions: Mapping[int, float]
    # What the collection reports: the result of training_job_info.
    said: Mapping[str, Any]
    # The rank at which the fault was aimed, as the index of its host.
    rank: int
    # What the injector did. Faults of the script itself are not in this list.
    strikes: Sequence[Strike]
    # The names and addresses of the job's hosts in their order, with the spares at the end.
    names: Sequence[str]
    addresses: Sequence[str]
    # The time at which the job was prepared, and the seconds from this time to the job's last record.
    created: float
    wall: float
    # What went wrong in the suite itself.
    problems: Sequence[str] = field(default_factory=tuple)


def judge(fault: JobFault, seen: Evidence, undisturbed: Curve, slack: float = 1.0) -> list[str]:
    """Return the complaints about a job, or an empty list. Time limits are multiplied by `slack`."""
    complaints = list(seen.problems)
    if not seen.has_ended:
        complaints.append("the job has not ended")
    complaints += [f"a process is left: {line}" for line in seen.survivors]
    complaints += judge_end(fault, seen)
    complaints += judge_hosts(fault, seen)
    complaints += judge_metrics(fault, seen, undisturbed)
    complaints += judge_lost_work(fault, seen)
    complaints += judge_causes(fault, seen)
    complaints += judge_times(fault, seen, slack)
    complaints += judge_goodput(seen)
    complaints += judge_buckets(fault, seen)
    return complaints


def judge_end(fault: JobFault, seen: Evidence) -> Iterator[str]:
    """Yield complaints about how the job ended."""
    expected = "succeeded" if fault.survivable else "failed"
    if seen.said["state"] != expected:
        yield f"the collection reports that the job {seen.said['state']}, and not that it {expected}"
    if (seen.result is not None) != fault.survivable:
        yield "the script has not finished" if fault.survivable else "the script has finished in spite of the fault"
    if not fault.survivable:
        why = str(seen.said["attempts"][-1].get("why"))
        if not re.search(fault.why, why):
            yield f"the collection explains the end with {why!r}, which does not match {fault.why!r}"
    count = len(seen.said["attempts"])
    if count > fault.attempts or (count < fault.attempts and not fault.at_most):
        yield f"there were {count} attempts, and not {fault.attempts}"
    if fault.survivable and seen.curve and not fault.at_most and seen.curve[-1]["ranks"] != fault.ranks:
        yield f"the job ended with {seen.curve[-1]['ranks']} ranks, and not with {fault.ranks}"


def judge_hosts(fault: JobFault, seen: Evidence) -> Iterator[str]:
    """Yield complaints about the hosts that took part in the last step. Ranks connect to each other from the addresses of their hosts.

    If the last attempt began after the last step, because the fault was noticed late, the hosts of the last attempt are unknown.
    """
    if not fault.survivable or fault.at_most or not seen.curve or "begins" in seen.curve[-1]:
        return
    expected, spares = set(seen.addresses[: fault.began_with]), seen.addresses[fault.began_with :]
    if fault.replaced or fault.ranks < fault.began_with:
        expected.discard(seen.addresses[seen.rank])
    if fault.replaced:
        expected.add(spares[0])
    found = seen.curve[-1].get("hosts")
    if found != sorted(expected):
        yield f"the job ended on {found}, and not on {sorted(expected)}"


def judge_metrics(fault: JobFault, seen: Evidence, undisturbed: Curve) -> Iterator[str]:
    """Yield complaints about losses and results that differ from those of the undisturbed run."""
    tolerance = 0.0
    for entry in seen.curve:
        if entry["ranks"] != fault.began_with:
            tolerance = CLOSE
        if "step" in entry and not is_close(entry["loss"], undisturbed.losses[entry["step"]], tolerance):
            yield f"the loss at step {entry['step']} of attempt {entry['attempt']} is {entry['loss']}"
            return
    if seen.result is not None and not all(map(is_close, seen.result, undisturbed.parameters, itertools.repeat(tolerance))):
        yield f"the result is {seen.result}, and not {undisturbed.parameters}"


def is_close(value: float, expected: float, tolerance: float) -> bool:
    return math.isclose(value, expected, rel_tol=tolerance, abs_tol=0.0)


def judge_lost_work(fault: JobFault, seen: Evidence) -> Iterator[str]:
    """Yield complaints about steps that were lost or skipped, and about ranks of earlier attempts that continue to run.

    A host that was suspended may complete a step or two of its attempt before it detects that the job has continued without this host.
    """
    reached, newest, late, at = 0, 0, 0, {}
    for entry in seen.curve:
        attempt = entry["attempt"]
        if "begins" in entry:
            newest, at[attempt] = attempt, entry["begins"]
            if fault.survivable and reached - entry["begins"] > fault.lost * INTERVAL:
                yield f"attempt {attempt} begins after step {entry['begins']}, but step {reached} was reached"
            continue
        if entry["step"] != at[attempt] + 1:
            yield f"step {entry['step']} of attempt {attempt} follows step {at[attempt]}"
        late += attempt != newest
        at[attempt], reached = entry["step"], max(reached, entry["step"])
    if late > LATE_STEPS:
        yield f"{late} steps of earlier attempts came after a later attempt had begun"


def judge_causes(fault: JobFault, seen: Evidence) -> Iterator[str]:
    """Yield complaints about reported causes that do not match the fault, and about ranks that the collection assigns to a wrong host."""
    found = [str(attempt.get("cause")) for attempt in seen.said["attempts"] if attempt["state"] != "succeeded"]
    for number, (cause, pattern) in enumerate(zip(found, fault.causes), 1):
        expected = [
            pattern.replace("{rank}", str(rank)).replace("{host}", re.escape(seen.names[rank]))
            for rank in dict.fromkeys([strike.rank for strike in seen.strikes if strike.attempt == number] or [seen.rank])
        ]
        if not any(re.search(each, cause) for each in expected):
            yield f"attempt {number}: the cause is {cause!r}, which does not match {' or '.join(map(repr, expected))}"
        named = re.match(r"rank (\d+) on (\S+) ", cause)
        ranks = [entry["ranks"] for entry in seen.curve if entry["attempt"] == number]
        runs_on_all = number == 1 or (ranks and ranks[0] == fault.began_with and not fault.replaced)
        if named and runs_on_all and seen.names[int(named[1])] != named[2]:
            yield f"attempt {number}: the cause is {cause!r}, but rank {named[1]} ran on {seen.names[int(named[1])]}"


def attempt_steps(seen: Evidence, attempt: int) -> list[Mapping[str, Any]]:
    """Return the entries about the steps of an attempt before its verdict."""
    end = seen.verdicts.get(attempt, math.inf)
    return [entry for entry in seen.curve if entry["attempt"] == attempt and "step" in entry and entry["time"] <= end]


def failed_attempts(seen: Evidence) -> list[int]:
    return [number for number, attempt in enumerate(seen.said["attempts"], 1) if attempt["state"] != "succeeded"]


def began_at(fault: JobFault, seen: Evidence, attempt: int) -> float | None:
    """Return the time at which a fault began to have an effect in an attempt, or None if it is unknown.

    This is the time of the injection or, if there is none or the fault is delayed, the time of the attempt's last step.
    """
    struck = [strike.time for strike in seen.strikes if strike.attempt == attempt]
    if struck and not fault.delayed:
        return min(struck)
    return max([*struck, *(entry["time"] for entry in attempt_steps(seen, attempt))], default=None)


def noticed_after(fault: JobFault, seen: Evidence, attempt: int) -> float | None:
    """Return the seconds from the fault to the verdict about an attempt that failed, or None if a time is unknown.

    In an attempt without steps, the time is measured from the decision to start it, and the time that a restart may take is subtracted.
    """
    began = began_at(fault, seen, attempt)
    if began is None and attempt - 1 in seen.decisions:
        began = seen.decisions[attempt - 1] + RESTARTED
    return None if began is None or attempt not in seen.verdicts else seen.verdicts[attempt] - began


def restarted_after(seen: Evidence) -> list[float]:
    """Return the seconds from the verdict about each attempt to the first line that the script writes in the next attempt."""
    begun = {entry["attempt"]: entry["time"] for entry in seen.curve if "begins" in entry}
    return [begun[attempt + 1] - verdict for attempt, verdict in sorted(seen.verdicts.items()) if attempt + 1 in begun]


def judge_times(fault: JobFault, seen: Evidence, slack: float) -> Iterator[str]:
    """Yield complaints about times that are too long."""
    limit = NOTICED[fault.noticed] if fault.noticed else 0.0
    for attempt in failed_attempts(seen):
        noticed = noticed_after(fault, seen, attempt)
        if noticed is None:
            yield f"attempt {attempt}: it is not known when the fault was detected"
        elif noticed > limit * slack:
            yield f"attempt {attempt}: the fault was detected after {noticed:.1f} s, and not within {limit:g} s"
    if fault.ranks == fault.began_with and fault.noticed:
        limit = REPLACED if fault.replaced else RESTARTED
        for seconds in restarted_after(seen):
            if seconds > limit * slack:
                yield f"the job was restarted after {seconds:.1f} s, and not within {limit:g} s"


def judge_goodput(seen: Evidence) -> Iterator[str]:
    """Yield complaints about goodput buckets that do not account for the total time of all nodes."""
    goodput = seen.said.get("goodput")
    if not goodput:
        yield "there is no goodput"
        return
    total, most = sum(goodput["buckets"].values()), seen.wall * RANKS
    # The hosts notice a few seconds later that the script has finished.
    has_finished = seen.result is not None and seen.curve
    least = (seen.curve[-1]["time"] - seen.created) * RANKS if has_finished else most
    tolerance = SHARE * most + WRITTEN * RANKS
    if goodput["nodes"] != RANKS:
        yield f"the goodput has {goodput['nodes']} nodes, and not {RANKS}"
    if not least - tolerance <= total <= most + tolerance:
        yield f"the goodput buckets add up to {total:.1f} node-seconds, and not to {least:.1f} to {most:.1f}"


@dataclass
class Range:
    """The lowest and highest time that a bucket may contain, in node-seconds."""

    low: float = 0.0
    high: float = 0.0

    def add(self, ranks: int, low: float, high: float) -> None:
        self.low += ranks * low
        self.high += ranks * max(high, low)


def expected_buckets(fault: JobFault, seen: Evidence) -> dict[str, Range]:
    """Return the time that each bucket may contain, from the entries of the script and the times of verdicts and decisions.

    The time at which a process failed is between the last step and the verdict, or between the injection and the last step if the ranks
    computed further steps.
    """
    found = {name: Range() for name in ("startup", "training", "recomputed", "end", "detection")}
    highest, ranks, before = 0, fault.began_with, seen.created
    for attempt, said in enumerate(seen.said["attempts"], 1):
        steps = attempt_steps(seen, attempt)
        has_failed = said["state"] != "succeeded"
        end = seen.created + seen.wall
        decided = seen.decisions.get(attempt, end)
        over = min(seen.verdicts.get(attempt, end), decided) if has_failed else end
        ranks = next((entry["ranks"] for entry in seen.curve if entry["attempt"] == attempt), ranks)
        last, early = before, 0.0
        if steps:
            last = steps[-1]["time"]
            early = max(0.0, last - (began_at(fault, seen, attempt) or last)) if has_failed else 0.0
            found["startup"].add(ranks, steps[0]["time"] - before, steps[0]["time"] - before)
            if attempt == 1:  # spares wait, too, until the first attempt begins
                found["startup"].add(RANKS - ranks, 0.0, steps[0]["time"] - before)
            for entry, later in itertools.pairwise(steps):
                bucket = "recomputed" if later["step"] <= highest else "training"
                found[bucket].add(ranks, later["time"] - entry["time"], later["time"] - entry["time"])
            unfinished = "recomputed" if steps[-1]["step"] < highest else "training"
            bucket = unfinished if has_failed and steps[-1]["step"] < steps[-1].get("steps", math.inf) else "end"
            found[bucket].add(ranks, -early, over - last)
            highest = max(highest, *(entry["step"] for entry in steps))
        else:
            found["startup"].add(ranks, 0.0, over - before)
        if has_failed:
            found["detection"].add(ranks, decided - over, decided - last + early)
        before = decided
    return found


def judge_buckets(fault: JobFault, seen: Evidence) -> Iterator[str]:
    """Yield complaints about goodput buckets that differ from the times of the steps, verdicts and decisions."""
    buckets = (seen.said.get("goodput") or {}).get("buckets")
    if not buckets:
        return
    late = HEARTBEAT if fault.noticed == HOST else 0.0
    tolerance = RANKS * (WRITTEN * len(seen.said["attempts"]) + late) + SHARE * seen.wall * RANKS
    for name, expected in expected_buckets(fault, seen).items():
        seconds = sum(buckets.get(each, 0.0) for each in (STARTUP if name == "startup" else (name,)))
        if not expected.low - tolerance <= seconds <= expected.high + tolerance:
            yield f"goodput: {name} has {seconds:.1f} node-seconds, and not {expected.low:.1f} to {expected.high:.1f}"


def judge_health(fault: HealthFault, findings: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the complaints about the findings on a host with this fault: complaints about missing, wrong and unexpected findings."""
    complaints, left = [], dict(fault.expected)
    for finding in findings:
        severity, message = left.pop(finding["check"], ("", ""))
        if finding["severity"] != severity or not re.search(message, finding["message"]):
            complaints.append(f"found {finding['severity']} {finding['check']}: {finding['message']}")
    return complaints + [f"did not find {check}: {severity} {message}" for check, (severity, message) in left.items()]
