"""More answers of hostile nodes, in the format that hostile_answers.py describes.

They attack what formats, sorts, numbers and cleans the values: regular expressions, ranges, tables, dates, and the width of text.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable

from .hostile_answers import INFO, JOB, LINES, PROCESS, STATUS, Program, result

LOGS = "training_job_logs"
WAIT = "training_job_wait"
REPORT = "training_job_report"

# int() refuses these, although str.isdigit() accepts the first two.
# What a host says about the process that has failed, with texts in places of names and numbers.
FAILURE = {
    **PROCESS,
    "name": "rank1",
    "host": "bert-worker3",
    "state": "failed",
    "cause": {"kind": "hang", "what": LINES, "name": LINES, "hang": {"seconds": 9.0, "median": 1.0, "lock": LINES, "most": LINES}},
}
ATTEMPT = {"hosts": 1, "state": "failed", "started": 1.0, "ended": 2.0, "logs": "/l", "action": "stop", "rule": LINES}
SUPERSCRIPT = "bert-worker\u00b2"
CIRCLED = "bert-worker\u2460"
MANY_DIGITS = "bert-worker" + "9" * 5000

HUGE = 10**400  # float() fails
LARGEST = 1.7976931348623157e308
BEYOND_DATES = [LARGEST, -LARGEST, -0.0, 5e-324, 253402300800.0, -62135596801.0, 2.0**63, -(2.0**63)]
NO_FLOATS = [HUGE, True, "NaN", 2**63, None]

# Where str.splitlines() ends a line, and str.split("\n") does not.
SEPARATORS = ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\r"]
INVISIBLE = "\u200b\u200c\u200d\u2060\u00ad\u061c\u115f\u3164\u2800\u180e\ufe0f\ufff9\ufffb\ufeff\U000e0041\U000e007f"
BIDIRECTIONAL = "\u2066\u2067\u2068\u2069\u202a\u202b\u202c\u202d\u202e\u200e\u200f"
SURROGATES = "\ud800\udfff\udc80\udcff"

# Beginnings without an end: a regular expression that searches for the end from each beginning is quadratic.
BEGINNINGS = {
    "operating system commands": "\x1b]",
    "device control strings": "\x1bP",
    "control sequences": "\x1b[1;",
    "C1 commands": "\x9d",
    "URLs with passwords": "https://u:",
    "secrets": "password=",
    "templates": "{{ {% {# ",
    "tags": "<a href='",
    "Markdown links": "[](",
    "tracebacks": 'File "a", line 1, in \n  ',
    "quotes": "'\\\"",
    "versions": "1.",
    "hyphens": "a-",
}


def job(**values: object) -> dict:
    """Return a job with all values that action plugins use, and these values in addition."""
    return {
        **JOB,
        "attempt": 1,
        "attempts": [],
        "printed": False,
        "progress": [],
        "progress_offset": 0,
        "logs": [],
        "log_offsets": {},
        "step_times": [],
        "checkpoint_directory": "/c",
        **values,
    }


def info(*jobs: dict, **values: object) -> str:
    """Return the result of training_job_info, which the action plugins for status, logs and waits read, too."""
    return result(INFO, jobs=list(jobs), **values)


def ended(**values: object) -> str:
    """Return a job that has ended, so that a wait for it ends."""
    values = {"processes": processes(1, state="succeeded"), **values}
    return info(job(name="digits-1", state="succeeded", over=True, **values))


def log(*logs: dict, **values: object) -> str:
    """Return the logs of a job that has ended."""
    values = {"state": "succeeded", "over": True, "attempt": 1, "log_offsets": {}, "processes": processes(1, state="succeeded"), **values}
    return info(job(name="digits-1", logs=list(logs), **values))


def lines_of(text: str) -> Callable[[], str]:
    return lambda: log({"name": "rank0", "path": "/l", "left_out": 0, "lines": [text]})


def processes(count: int, **values: object) -> list[dict]:
    return [{**PROCESS, "rank": rank, "name": f"rank{rank}", **values} for rank in range(count)]


def goodput(seconds: object, hosts: int) -> dict:
    buckets = dict.fromkeys(["training", "recomputed", "start", "waiting", "detection", "restart", "idle", "checkpoint", "end"], seconds)
    return {
        "nodes": hosts,
        "seconds": seconds,
        "ratio": seconds,
        "buckets": buckets,
        "hosts": [{"host": f"w{number}", "buckets": buckets} for number in range(hosts)],
    }


def failed(message: object, **values: object) -> str:
    return json.dumps({"changed": False, "failed": True, "msg": message, **values})


def chain(depth: int) -> dict:
    """Return an error of Ansible with this many causes."""
    event: dict = {"__ansible_type": "Event", "msg": "the first cause"}
    for number in range(depth):
        cause = {"__ansible_type": "EventChain", "msg_reason": "EVIL", "traceback_reason": "EVIL", "event": event}
        event = {"__ansible_type": "Event", "msg": f"EVIL {number}\nEVIL", "chain": cause}
    return {"__ansible_type": "ErrorSummary", "event": event}


ALL: list[tuple[str, str, Callable[[], str]]] = [
    # Regular expressions
    *(
        (f"a message of beginnings of {name}", "munge_key", lambda text=text: failed(text * (900_000 // len(text))))
        for name, text in BEGINNINGS.items()
    ),
    *((f"a log line of beginnings of {name}", LOGS, lines_of(text * (900_000 // len(text)))) for name, text in BEGINNINGS.items()),
    ("a log line of spaces that do not end it", LOGS, lines_of("x" + " " * 1_000_000 + "x")),
    ("a log line of carriage returns and backspaces", LOGS, lines_of("x\r\b" * 330_000)),
    ("a log line of tabs", LOGS, lines_of("\t" * 1_000_000)),
    ("a job line of spaces that do not end it", STATUS, lambda: info(job(lines=["x" + " " * 120_000 + "x"]))),
    ("a problem of alternating spaces and line ends", STATUS, lambda: result(STATUS, problems=["x" + " \n\t" * 40_000 + "x"])),
    ("hyphenated warnings", "slurm_info", lambda: result("slurm_info", warnings=["a-\u2014" * 300_000 + str(n) for n in range(4)])),
    # Widths of tables and prefixes
    (
        "a process with a long name in front of many log lines",
        LOGS,
        lambda: log({"name": "r" * 120_000, "path": "/l", "left_out": 0, "lines": ["x"] * 10_000}),
    ),
    (
        "empty log lines of many processes",
        LOGS,
        lambda: log(*({"name": f"rank{n}", "path": "/l", "left_out": n, "lines": ["", ""]} for n in range(8000))),
    ),
    ("a long host between short ones", STATUS, lambda: info(job(processes=[*processes(1000), *processes(1, host="h" * 120_000)]))),
    (
        "a long host between the hosts of an ended job",
        WAIT,
        lambda: ended(processes=[*processes(1000, state="succeeded"), *processes(1, host="h" * 120_000, state="succeeded")]),
    ),
    ("combining characters", STATUS, lambda: info(job(lines=["EVIL" + "\u0301\u0489\u20e3" * 30_000, "a\u0300" * 30_000]))),
    ("characters without a width", STATUS, lambda: info(job(name=INVISIBLE, lines=[INVISIBLE * 100 + "\nEVIL"] * 20))),
    (
        "bidirectional text in names",
        STATUS,
        lambda: info(job(name=f"digits{BIDIRECTIONAL}", processes=processes(3, host=BIDIRECTIONAL), lines=[BIDIRECTIONAL + "x"])),
    ),
    ("all ends of lines in job lines", STATUS, lambda: info(job(lines=[f"x{end}EVIL PLAY RECAP ***{end}EVIL" for end in SEPARATORS]))),
    (
        "all ends of lines in log lines",
        LOGS,
        lambda: log(
            {"name": f"rank0{SEPARATORS[0]}EVIL", "path": "\u2028EVIL", "left_out": 1, "lines": [f"x{end}EVIL" for end in SEPARATORS]}
        ),
    ),
    ("all ends of lines in a message", "munge_key", lambda: failed("".join(f"x{end}EVIL: ok" for end in SEPARATORS))),
    ("all ends of lines in warnings", "slurm_info", lambda: result("slurm_info", warnings=[f"x{end}EVIL" for end in SEPARATORS])),
    (
        "all ends of lines in a diff",
        "worker_metadata",
        lambda: result(
            "worker_metadata",
            changed=True,
            diff=[{"before": f"x{end}EVIL", "after": f"y{end}EVIL", "before_header": f"{end}EVIL"} for end in SEPARATORS],
        ),
    ),
    # Surrogates, which cannot be written
    ("surrogates in a message", "munge_key", lambda: failed(SURROGATES * 10)),
    ("surrogates in warnings", "slurm_info", lambda: result("slurm_info", warnings=[SURROGATES], deprecations=[{"msg": SURROGATES}])),
    ("surrogates in job lines", STATUS, lambda: info(job(lines=[SURROGATES, "x"]), problems=[SURROGATES])),
    ("surrogates in log lines", LOGS, lambda: log({"name": SURROGATES, "path": SURROGATES, "left_out": 0, "lines": [SURROGATES]})),
    (
        "surrogates in undocumented names",
        "slurm_drain",
        lambda: result("slurm_drain", **{SURROGATES: 1, f"a{SURROGATES}": {SURROGATES: 1}}),
    ),
    (
        "surrogates in a diff",
        "worker_metadata",
        lambda: result("worker_metadata", changed=True, diff={"before": SURROGATES, "after": "x" + SURROGATES, "after_header": SURROGATES}),
    ),
    (
        "surrogates in a key to sign",
        "ssh_trust",
        lambda: result("ssh_trust", unsigned={"host": {"public_key": SURROGATES, "reason": SURROGATES}}),
    ),
    # Numbers
    (
        "times beyond all dates in a list of jobs",
        STATUS,
        lambda: info(
            *(job(name=f"j{n}", created=time, processes=processes(1, started=time, heartbeat=time)) for n, time in enumerate(BEYOND_DATES))
        ),
    ),
    *(
        (
            f"an ended job with times of {str(time)[:12]}",
            WAIT,
            lambda time=time: ended(
                created=time,
                metrics={"step": time, "steps": time, "loss": time},
                goodput=goodput(time, 2),
                processes=processes(2, state="succeeded", started=time, finished=time, heartbeat=time),
                attempts=[{"attempt": 1, "hosts": 2, "started": time, "ended": time, "state": "succeeded", "logs": "/l"}],
                step_times=[{"name": "w0", "seconds": time, "slow": True}],
            ),
        )
        for time in [*BEYOND_DATES, *NO_FLOATS]
    ),
    ("a time that is no float", "node_health", lambda: result("node_health", time=HUGE)),
    (
        "a time at the end of floats",
        "node_health",
        lambda: result(
            "node_health",
            time=LARGEST,
            exclusions=[{"by": "person", "reason": "x", "since": -LARGEST, "text": "x", "severity": "", "boot": "", "gpus": []}],
        ),
    ),
    ("floats that overflow", "node_health", lambda: result("node_health").replace("0.5", "1e400")),
    ("a float of a million digits", "node_health", lambda: result("node_health").replace("0.5", "0." + "1" * 1_000_000 + "e-1000000")),
    (
        "numbers as texts",
        "slurm_info",
        lambda: result(
            "slurm_info", hardware={"cpus": "NaN", "sockets": "1_000", "cores": "\u0663", "threads": " 1 ", "memory": "0x10", "gpus": "1e9"}
        ),
    ),
    (
        "truth values as numbers",
        "slurm_info",
        lambda: result(
            "slurm_info", hardware={"cpus": True, "sockets": False, "cores": 1.0, "threads": -0.0, "memory": 1e308, "gpus": -1}, cgroups=2
        ),
    ),
    ("integers of the longest text that Python reads", "sge_info", lambda: result("sge_info", cpus=int("9" * 4299), gpus=-int("9" * 4299))),
    # Counts that are ranges
    (
        "more processes than there is memory",
        STATUS,
        lambda: info(job(process_count=10**15, attempt=10**15, processes=processes(2, processes=10**15, ranks=[0, 10**15]))),
    ),
    (
        "more processes than memory in an ended job",
        WAIT,
        lambda: ended(
            process_count=10**15, processes=processes(2, processes=10**15, ranks=[-(10**15), 10**15], state="succeeded", rank=10**15)
        ),
    ),
    ("more hosts than memory", WAIT, lambda: ended(goodput={**goodput(1.0, 1), "nodes": 10**15}, metrics={"step": -1, "steps": 10**18})),
    ("ranks of every second number", STATUS, lambda: info(job(processes=processes(3, ranks=list(range(0, 60_000, 2)))))),
    (
        "numbers of omitted bytes",
        LOGS,
        lambda: log(*({"name": "rank0", "path": "/l", "left_out": size, "lines": ["x"]} for size in [-1, HUGE, True, 10**4000])),
    ),
    ("offsets of any size", LOGS, lambda: log(log_offsets={f"rank{n}": -(10**300) for n in range(2000)} | {"": True, "../owned": "x"})),
    (
        "the progress of a data set beyond its total",
        "dataset",
        lambda: result(
            "dataset", current=True, progress={"done": 10**300, "total": 0, "seconds": -1, "source": 10**15, "sources": 0, "stage": "{0}"}
        ),
    ),
    (
        "sizes of an export",
        "training_job_export",
        lambda: result(
            "training_job_export", files=-1, size=10**300, uploaded=True, uploaded_size=-(10**300), changing=10**300, since=LARGEST
        ),
    ),
    (
        "a step that does not exist",
        "node_setup",
        lambda: result("node_setup", finished=True, progress={"number": -(10**18), "seconds": HUGE}, ran=[LINES] * 20_000, changed=True),
    ),
    # Names that look like numbers
    (
        "names with digits that are no numbers",
        "sge_drain",
        lambda: result(
            "sge_drain", drained=[SUPERSCRIPT, CIRCLED, MANY_DIGITS], jobs=["\u00b2", "12\u2460", "9" * 5000, "-1", "1e9"], changed=True
        ),
    ),
    (
        "Slurm jobs with digits that are no numbers",
        "slurm_drain",
        lambda: result(
            "slurm_drain", drained=[SUPERSCRIPT, MANY_DIGITS], jobs=["1_\u00b2", "\u0661", "9" * 5000 + "_1", "[1-999999999]"], changed=True
        ),
    ),
    (
        "processes with digits that are no numbers",
        STATUS,
        lambda: info(
            job(processes=[{**PROCESS, "name": name, "host": name} for name in [SUPERSCRIPT, CIRCLED, MANY_DIGITS, "", "-", "0" * 4000]])
        ),
    ),
    (
        "processes of an ended job with digits that are no numbers",
        WAIT,
        lambda: ended(
            processes=[{**PROCESS, "state": "succeeded", "name": name, "host": name} for name in [SUPERSCRIPT, CIRCLED, MANY_DIGITS, ""]],
            step_times=[{"name": name, "seconds": 1.0, "slow": True} for name in [SUPERSCRIPT, CIRCLED, MANY_DIGITS, ""]],
        ),
    ),
    (
        "logs of processes with digits that are no numbers",
        LOGS,
        lambda: log(*({"name": name, "path": "/l", "left_out": 0, "lines": ["x"]} for name in [SUPERSCRIPT, CIRCLED, MANY_DIGITS, ""])),
    ),
    # Formats
    (
        "tags that are formats",
        LOGS,
        lambda: log(
            {"name": "rank0", "path": "/l", "left_out": 0, "lines": ["{0.__class__} %s %n {:>1000000000}"]},
            processes=processes(3, tag="{:>1000000000}{0.__class__}{", state="succeeded"),
        ),
    ),
    ("formats in a message", "munge_key", lambda: failed("{0.__class__.__mro__} {:>1000000000} %(x)s %1000000000d $x ${x} %")),
    (
        "formats in metrics",
        WAIT,
        lambda: ended(metrics={"{:>1000000000}": 1, "%s%1000000000d": 2, "__class__": 3, "": 4, "\n# EVIL 1": 5, 'a"} 1\nEVIL': 6}),
    ),
    (
        "a metric of each type",
        WAIT,
        lambda: ended(
            metrics={"step": True, "steps": "1", "a": None, "b": [1] * 1000, "c": {"d": 1}, "e": HUGE, "f": "x" * 100_000, "loss": False}
        ),
    ),
    (
        "progress of each type",
        WAIT,
        lambda: info(
            job(
                name="digits-1",
                state="succeeded",
                over=True,
                attempt=1,
                progress_offset=-1,
                progress=[{"step": step, "steps": 0, "time": step, "loss": step, "rank_seconds": [step]} for step in BEYOND_DATES] * 50,
            )
        ),
    ),
    # Decisions
    (
        "an ended job that runs",
        WAIT,
        lambda: info(job(name="digits-1", state="running", over=True, progress=[])),
    ),
    (
        "another job than the requested one",
        WAIT,
        lambda: info(
            job(
                name="digits-2",
                state="failed",
                over=True,
                failure={**FAILURE, "name": "rank0", "lines": [LINES], "log": "/l"},
            )
        ),
    ),
    (
        "a failure of another host with many lines",
        WAIT,
        lambda: info(
            job(
                name="digits-1",
                state="failed",
                over=True,
                failure={**FAILURE, "lines": [LINES] * 5000, "log": LINES},
                attempts=[{**ATTEMPT, "attempt": n, "failure": FAILURE} for n in range(2000)],
            )
        ),
    ),
    ("no jobs", WAIT, lambda: result(INFO)),
    (
        "the requested job twice",
        WAIT,
        lambda: info(*(job(name="digits-1", state=state, over=True, attempt=1) for state in ["failed", "succeeded"])),
    ),
    ("states that do not exist", STATUS, lambda: info(job(state="exploded", processes=processes(2, state="EVIL\nEVIL", part="x")))),
    (
        "logs of another job",
        LOGS,
        lambda: info(job(name="../../owned", over=True, state="succeeded", logs=[{"name": "../owned", "lines": ["EVIL"]}])),
    ),
    ("other nodes are drained", "slurm_drain", lambda: result("slurm_drain", changed=True, drained=["bert-worker3", "bert-master"] * 5000)),
    ("all jobs run", "training_job", lambda: result("training_job", changed=True, running=[f"digits-{n}" for n in range(30_000)])),
    (
        "a cleanup of all jobs",
        "training_job_cleanup",
        lambda: result(
            "training_job_cleanup",
            changed=True,
            running=["../owned", LINES],
            pythons=["/" + "../" * 30_000] * 10,
            problems=[],
            kept=[{"name": LINES, "reason": LINES}] * 3000,
            jobs=[{"name": SUPERSCRIPT, "state": "running", "last": n} for n in BEYOND_DATES],
        ),
    ),
    (
        "a generation of another cluster",
        "worker_metadata",
        lambda: result("worker_metadata", generation="x" * 100_000, gpu_count=-(10**300)),
    ),
    (
        "findings about other nodes",
        "node_health",
        lambda: result(
            "node_health",
            stored=False,
            findings=[
                {"check": f"bert-worker{n}\nEVIL", "severity": "replace", "message": f"bert-worker{n}: {INVISIBLE}\x85EVIL"}
                for n in range(5000)
            ],
        ),
    ),
    # Lists that a controller joins, sorts or compares
    ("goodput of thousands of hosts", WAIT, lambda: ended(goodput=goodput(1e300, 5000), metrics={"step": 1, "steps": 1})),
    (
        "slow hosts with long names",
        WAIT,
        lambda: ended(
            goodput=goodput(1.0, 2), step_times=[{"name": "h" * 1000 + str(n), "seconds": 1e308, "slow": True} for n in range(1000)]
        ),
    ),
    (
        "attempts without a process",
        WAIT,
        lambda: ended(
            attempt=10**15,
            attempts=[
                {
                    "attempt": n,
                    "hosts": 10**15,
                    "started": 1.0,
                    "ended": -1.0,
                    "state": "lost",
                    "logs": LINES,
                    "cause": {"kind": "signal", "what": LINES, "name": LINES, "message": LINES, "listener": LINES},
                    "rule": "suspect_checkpoint",
                    "set_aside": LINES,
                    "damaged": [LINES],
                    "action": "restart",
                }
                for n in range(3000)
            ],
        ),
    ),
    (
        "an export that was never begun",
        WAIT,
        lambda: ended(
            export={
                "state": "failed",
                "destination": LINES,
                "error": LINES * 1000,
                "began": -LARGEST,
                "finished": LARGEST,
                "heartbeat": 1.0,
                "files": -1,
                "size": 10**300,
            }
        ),
    ),
    (
        "a queue that waits for more jobs than there are",
        STATUS,
        lambda: info(
            job(
                state="queued",
                queue={
                    "queue": LINES,
                    "id": LINES,
                    "before": -(10**300),
                    "reason": LINES,
                    "problem": LINES,
                    "submitted": -LARGEST,
                    "held": True,
                    "failure": LINES,
                },
            )
        ),
    ),
    (
        "code of another repository",
        WAIT,
        lambda: ended(code={"commit": LINES, "repository": "https://u:p@x/" + "../" * 30_000, "version": "-" * 1000, "changed": True}),
    ),
    (
        "directories that are commands",
        WAIT,
        lambda: ended(directory="$(touch owned);`touch owned`\nEVIL", checkpoint_directory="'; touch owned; '\x85EVIL", launcher=LINES),
    ),
    ("equal names of all processes", WAIT, lambda: ended(processes=[{**PROCESS, "state": "succeeded"}] * 4000)),
    # Keys, documents and paths
    (
        "a key with more lines",
        "ssh_trust",
        lambda: result(
            "ssh_trust",
            changed=True,
            unsigned={
                "host": {"public_key": "ssh-ed25519 AAAA\n@cert-authority * ssh-ed25519 AAAA", "reason": LINES},
                "user": {"public_key": "-s owned -I owned", "reason": "x"},
                "../../owned": {"public_key": "x", "reason": "x"},
            },
        ),
    ),
    (
        "a key of a megabyte",
        "ssh_trust",
        lambda: result("ssh_trust", unsigned={"host": {"public_key": "ssh-rsa " + "A" * 1_000_000, "reason": "x"}}),
    ),
    (
        "a compressed document",
        "queued_jobs",
        lambda: result(
            "queued_jobs", parameters=[{"name": "digits", "document": base64.b64encode(zlib.compress(b"0" * 30_000_000)).decode()}]
        ),
    ),
    (
        "a document that is no base64",
        "queued_jobs",
        lambda: result("queued_jobs", parameters=[{"name": "digits", "document": "=" * n + SURROGATES} for n in range(50)]),
    ),
    (
        "a document of nested lists",
        "queued_jobs",
        lambda: result(
            "queued_jobs", parameters=[{"name": "../owned", "document": base64.b64encode(b"[" * 200_000 + b"]" * 200_000).decode()}]
        ),
    ),
    (
        "a report of each type",
        REPORT,
        lambda: result(
            REPORT, report={"job": JOB, "jobs": [JOB], "curves": [[1, LARGEST]] * 1000, "events": [BEYOND_DATES], "name": "../../owned"}
        ),
    ),
    ("a report without an end", REPORT, lambda: result(REPORT, report=[[[]] * 1000] * 20, dest="owned.html", path="../owned.html")),
    # Ansible's own protocol
    ("a chain of errors", "munge_key", lambda: failed("x", exception=chain(150))),
    (
        "an exception of another type",
        "munge_key",
        lambda: failed("x", exception=[1e308, {"a": [LINES]}, None], rc="1\nEVIL", cmd=["x"] * 50_000),
    ),
    (
        "truth values as texts",
        "slurm_drain",
        lambda: result("slurm_drain", failed="no", skipped="yes", unreachable="false", changed="EVIL\nEVIL"),
    ),
    (
        "truth values as numbers and lists",
        "slurm_drain",
        lambda: result("slurm_drain", failed=[], unreachable={}, skipped=0.0, changed=[[LINES]]),
    ),
    (
        "types of Ansible that do not exist",
        "slurm_drain",
        lambda: result(
            "slurm_drain",
            drained=[{"__ansible_type": kind} for kind in [5, None, [], {}, "x" * 1000, "_datetime", "TaggedStr", "ErrorSummary"]],
        ),
    ),
    ("a vault", "slurm_drain", lambda: result("slurm_drain", drained=[{"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n" + "3" * 100_000}])),
    (
        "an asynchronous task",
        "slurm_drain",
        lambda: result(
            "slurm_drain", ansible_job_id="../../owned", started=1, finished=0, results_file="/tmp/owned", attempts=10**9, retries=10**9
        ),
    ),
    (
        "notified handlers and groups",
        "slurm_drain",
        lambda: result("slurm_drain", changed=True, _ansible_notify=["EVIL"], add_group="all", parent_groups=["all"], _ansible_no_log=True),
    ),
    (
        "a hidden failure",
        "munge_key",
        lambda: failed(
            LINES, _ansible_no_log=True, censored=LINES, _ansible_ignore_errors=True, ignore_errors=True, failed_when_result=False
        ),
    ),
    ("one name a hundred thousand times", "slurm_drain", lambda: '{"changed": false' + ', "drained": []' * 100_000 + ', "jobs": []}'),
    # Output of programs
    ("a byte order mark", "sge_info", lambda: "\ufeff" + result("sge_info")),
    ("zeros between characters", "sge_info", lambda: Program("printf '" + "\\000".join(["{", '"', "a", '"', ":", "1", "}"]) + "'; exit 0")),
    ("UTF-16", "sge_info", lambda: Program("printf '\\377\\376{\\000}\\000'; exit 0")),
    (
        "the status of SSH",
        "sge_info",
        lambda: Program("echo 'EVIL Permission denied (publickey).' >&2; echo 'Shared connection to x closed.' >&2; exit 255"),
    ),
    (
        "prompts for passwords",
        "sge_info",
        lambda: Program("echo 'EVIL [sudo via ansible] password:'; echo 'Sorry, try again.' >&2; echo 'BECOME-SUCCESS-' ; exit 1"),
    ),
    ("a killed program", "sge_info", lambda: Program("echo EVIL; kill -9 $$")),
    (
        "a result byte by byte",
        "sge_info",
        lambda: Program("for n in 1 2 3 4 5 6 7 8 9 10; do printf '{'; sleep 0.1; done; printf '\\n\\r\\302'; sleep 0.1; printf '\\205}'"),
    ),
    ("a child that keeps the output open", "sge_info", lambda: Program(f"(sleep 15) & cat <<'END'\n{result('sge_info')}\nEND")),
    ("lines of braces after the result", "sge_info", lambda: result("sge_info") + "\n" + "}\n{\n" * 300_000),
    (
        "tracebacks of a module",
        "sge_info",
        lambda: Program("i=0; while [ $i -lt 3000 ]; do echo 'Traceback:'; echo 'EVIL: No module named x'; i=$((i+1)); done >&2; exit 1"),
    ),
]

# Answers to the polls of waits and logs, and to the report. In the playbook of test_hostile_answers.py, the honest nodes answer
# these modules with the smallest documented result, which is no answer to a poll. There, these are results of training_job_info.
POLLS = [each for each in ALL if each[1] in (LOGS, WAIT, REPORT)]
ANSWERS = [(name, INFO if module in (LOGS, WAIT) else module, output) for name, module, output in ALL if module != REPORT]
