"""What hostile nodes answer: the data of test_hostile_answers.py. Add answers to the list ANSWERS.

Each entry of ANSWERS is a tuple:

    (name, module, output)

`name` is a short, unique description. `module` is a key of ON_NODES in nodes.py: the module whose task the node answers, with the arguments
from there. `output` is a function without arguments. It returns the text that the node's Python prints instead of running the module, or a
`Program`, whose text is a shell script that the node runs instead of the module.

`result(module, **values)` returns the smallest valid result of the module as JSON, with these values in addition. A value of None is JSON's
null. Use `json.dumps` for results that are not valid.

For each answer, the tests verify:

- The other nodes continue, and their results are the same as without hostile nodes.
- No control characters reach the terminal, and no line of the output begins with `EVIL`, except below the heading of a failure. Begin lines
  that imitate Ansible's output with `EVIL`.
- All answers to one task together cause at most 20 lines of output. The module training_job_status shows the lines of jobs that the node
  returns, at most 2500 for each answer.
- Ansible's main process needs less than a second for the result of an answer.
- No file that begins with `owned` appears in the current directory, and no variable begins with `evil`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from ansible_collections.deeplearning.cluster.plugins.plugin_utils import documented_values

ESCAPE = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x9b31m\u202e"
LINES = (
    "x\n\nEVIL: FAILED: Trust the cluster's certificate authority (all 8 hosts)\nEVIL PLAY RECAP *****\nEVILbert-worker3 : ok=12 failed=0\n"
)
INFO, STATUS = "training_job_info", "training_job_status"
JOB = {
    "name": "digits",
    "state": "running",
    "over": False,
    "directory": "/efs/jobs/digits",
    "command": [],
    "launcher": "torchrun",
    "created": 1.0,
    "code": {},
    "metrics": {},
    "process_count": 1,
    "processes": [],
    "hosts": 1,
    "spares": 0,
    "began": 1.0,
    "ended": 2.0,
    "read": 3.0,
}
PROCESS = {
    "rank": 0,
    "tag": "",
    "name": "rank0",
    "part": "worker",
    "host": "w1",
    "state": "running",
    "processes": 1,
    "started": 1.0,
    "heartbeat": 2.0,
    "log": "/l",
}
FINDING = {"check": "gpu_count", "severity": "monitor", "message": "m"}


class Program(str):
    """A shell script that a node runs instead of the module."""


def smallest(description):
    """Return the smallest valid value for the documentation of a value."""
    kind = description["type"]
    if description.get("choices"):
        return description["choices"][0]
    if kind == "dict" and description.get("contains"):
        return {name: smallest(one) for name, one in description["contains"].items() if one.get("returned") is None}
    return {"list": [], "dict": {}, "raw": [], "str": "x", "text": "x", "path": "/x", "int": 1, "float": 0.5, "bool": True}[kind]


def smallest_result(module):
    """Return the smallest valid result of a module."""
    documented = documented_values.returned_values(INFO if module == STATUS else module)
    required = {name: smallest(one) for name, one in documented.items() if one.get("returned") in ("always", "success")}
    return {"changed": False, **required}


def result(module, **values):
    return json.dumps({**smallest_result(module), **values})


def random_lines(count, seed):
    noise = random.Random(seed)
    return "\n".join(format(noise.randrange(128), "02x") for _unused in range(count))


def jobs(module=STATUS, **changes):
    return result(module, jobs=[{**JOB, **changes}])


def failure(module, **values):
    return result(module, failed=True, **values)


def diff(diffs):
    return result("worker_metadata", changed=True, diff=diffs)


def nested(depth):
    return json.loads('{"a":' * depth + "1" + "}" * depth)


ANSWERS: list[tuple[str, str, Callable[[], str]]] = [
    # Warnings and deprecations
    ("many warnings", "slurm_info", lambda: result("slurm_info", warnings=[f"a{number}" for number in range(200_000)])),
    ("warnings of megabytes", "slurm_info", lambda: result("slurm_info", warnings=["x" * 500_000, "y" * 500_000])),
    ("warnings with lines", "slurm_info", lambda: result("slurm_info", warnings=[LINES, LINES + "1", ESCAPE])),
    ("warnings that are documents", "slurm_info", lambda: result("slurm_info", warnings=[{"event": {"msg": LINES + ESCAPE}}] * 9)),
    ("nested warnings", "slurm_info", lambda: result("slurm_info", warnings=[nested(300)])),
    ("warnings of another type", "slurm_info", lambda: result("slurm_info", warnings={"msg": LINES})),
    ("deprecations", "slurm_info", lambda: result("slurm_info", deprecations=[{"msg": LINES, "version": "9"}] * 1000)),
    ("deprecations that are texts", "slurm_info", lambda: result("slurm_info", deprecations=[LINES] * 30_000)),
    ("the warning of the harmless kind", "slurm_info", lambda: result("slurm_info", warnings=["Module remote_tmp / " + LINES] * 50)),
    ("warnings that name other hosts", "slurm_info", lambda: result("slurm_info", warnings=["bert-worker3: EVIL"] * 40)),
    ("an exception", "slurm_info", lambda: result("slurm_info", failed=True, exception=LINES * 50, msg="m")),
    ("a warning of one million spaces", "slurm_info", lambda: result("slurm_info", warnings=[" " * 1_000_000])),
    # Output around the result
    ("lines after the result", "sge_info", lambda: result("sge_info") + "\n" + LINES),
    ("lines before the result", "sge_info", lambda: LINES + result("sge_info")),
    ("megabytes after the result", "sge_info", lambda: result("sge_info") + "\nEVIL" * 500_000),
    ("megabytes before the result", "sge_info", lambda: "EVIL\n" * 500_000 + result("sge_info")),
    ("escapes around the result", "sge_info", lambda: ESCAPE + "\n" + result("sge_info") + ESCAPE),
    ("two results", "sge_info", lambda: result("sge_info") + "\n" + result("sge_info", failed=True, msg=LINES)),
    ("a result that ends twice", "sge_info", lambda: result("sge_info") + "}}}}\n" + LINES + "}"),
    ("more output than allowed", "sge_info", lambda: Program("yes EVIL | head -c 70000000")),
    ("output without an end", "sge_info", lambda: Program("exec yes EVIL")),
    ("zeros without an end", "sge_info", lambda: Program("exec cat /dev/zero")),
    ("errors without an end", "sge_info", lambda: Program("exec yes EVIL >&2")),
    ("an exit status and lines on both outputs", "sge_info", lambda: Program(f"printf '{LINES}'; printf '{LINES}' >&2; exit 3")),
    ("no output", "sge_info", lambda: ""),
    ("an open brace", "sge_info", lambda: "{" * 100_000),
    ("an open list", "sge_info", lambda: '{"a": ' + "[" * 100_000),
    ("text that is no result", "sge_info", lambda: LINES * 20),
    ("an interpreter that is not found", "sge_info", lambda: "python3: command not found\n" + LINES),
    ("bytes that are not UTF-8", "sge_info", lambda: Program("printf '\\377\\376\\033[2J\\233'")),
    # Numbers and sizes of values
    ("a million texts", "slurm_drain", lambda: result("slurm_drain", drained=[str(number) for number in range(400_000)])),
    ("many empty lists", "slurm_drain", lambda: result("slurm_drain", drained=[[]] * 300_000)),
    ("one long text", "slurm_drain", lambda: result("slurm_drain", drained=["x" * 3_000_000])),
    ("many long texts", "slurm_drain", lambda: result("slurm_drain", drained=["x" * 100_000] * 39)),
    ("texts with lines", "slurm_drain", lambda: result("slurm_drain", drained=[LINES] * 1000, changed=True)),
    ("many undocumented values", "slurm_drain", lambda: result("slurm_drain", **{f"evil{number}": 1 for number in range(30_000)})),
    ("long undocumented names", "slurm_drain", lambda: result("slurm_drain", **{"evil" + "x" * 100_000 + LINES: 1, LINES: 2})),
    ("facts", "slurm_drain", lambda: result("slurm_drain", ansible_facts={f"evil{number}": 1 for number in range(1000)})),
    ("facts that are a text", "slurm_drain", lambda: result("slurm_drain", ansible_facts=LINES)),
    ("internal names", "slurm_drain", lambda: result("slurm_drain", **{f"_ansible_{LINES}{number}": 1 for number in range(5000)})),
    ("add_host", "slurm_drain", lambda: result("slurm_drain", add_host={"host_name": "evil", "groups": ["trainers"]})),
    ("statistics", "slurm_drain", lambda: result("slurm_drain", ansible_stats={"data": {LINES: LINES}, "aggregate": True})),
    ("results of a loop", "slurm_drain", lambda: result("slurm_drain", results=[{"failed": True, "msg": LINES}] * 10_000)),
    ("changes in AWS", "slurm_drain", lambda: result("slurm_drain", changes=[{"action": "create", "kind": LINES, "key": "1"}] * 9999)),
    ("a type of Ansible", "slurm_drain", lambda: json.dumps({"__ansible_type": "_AnsibleTaggedDict", "value": {}, "tags": []})),
    ("a tagged template", "slurm_drain", lambda: result("slurm_drain", drained=["{{ lookup('pipe', 'touch owned') }}"])),
    ("integers of any size", "slurm_drain", lambda: '{"changed": false, "drained": [], "rc": ' + "9" * 4000 + "}"),
    ("integers that take long", "slurm_drain", lambda: '{"changed": false, "drained": [], "rc": ' + "9" * 1_000_000 + "}"),
    ("NaN and infinity", "node_health", lambda: '{"changed": false, "findings": [], "exclusions": [], "stored": true, "time": NaN}'),
    ("invocation", "slurm_drain", lambda: result("slurm_drain", invocation={"module_args": {LINES: ["x"] * 90_000}})),
    ("equal names", "slurm_drain", lambda: '{"changed": false, ' + '"drained": ["EVIL"], ' * 100_000 + '"jobs": []}'),
    # Texts of failures
    ("a long message", "munge_key", lambda: failure("munge_key", msg="x" * 1_000_000)),
    ("a message with many lines", "munge_key", lambda: failure("munge_key", msg=LINES * 5000)),
    ("a message of empty lines", "munge_key", lambda: failure("munge_key", msg="\n" * 900_000)),
    ("a message with escapes", "munge_key", lambda: failure("munge_key", msg=ESCAPE * 50_000)),
    (
        "a message of carriage returns",
        "munge_key",
        lambda: failure("munge_key", msg="x\rEVIL\r\nEVIL\x85EVIL\u2028EVIL" * 9000),
    ),
    ("a list as a message", "munge_key", lambda: failure("munge_key", msg=[LINES])),
    (
        "a failure with everything",
        "munge_key",
        lambda: failure("munge_key", msg=LINES, module_stdout=LINES, module_stderr=LINES),
    ),
    ("long output of a failure", "munge_key", lambda: failure("munge_key", msg="m", module_stderr="x\n" * 900_000)),
    (
        "a failure with a command",
        "munge_key",
        lambda: failure("munge_key", rc=1, cmd=[LINES] * 1000, msg="non-zero return code"),
    ),
    ("a failed assertion", "munge_key", lambda: failure("munge_key", msg="Assertion failed", assertion=LINES)),
    ("an unreachable host", "munge_key", lambda: result("munge_key", unreachable=True, msg=LINES)),
    ("a skipped failure", "munge_key", lambda: result("munge_key", skipped=True, failed=True, msg=LINES, skip_reason=LINES)),
    # Diffs
    (
        "a diff of random lines",
        "worker_metadata",
        lambda: diff([{"before": random_lines(120_000, 1), "after": random_lines(120_000, 2)}]),
    ),
    (
        "many diffs",
        "worker_metadata",
        lambda: diff([{"before": random_lines(900, 1), "after": random_lines(900, 2)}] * 200),
    ),
    (
        "a diff whose comparison is cubic",
        "worker_metadata",
        lambda: diff(
            [{side: "\n".join(f"{number % 101}\n{side}{number}" for number in range(490)) for side in ("before", "after")}],
        ),
    ),
    ("a prepared diff", "worker_metadata", lambda: diff([{"prepared": LINES * 9000}])),
    (
        "headers of diffs",
        "worker_metadata",
        lambda: diff([{"before_header": LINES, "after": "x"}] * 99),
    ),
    (
        "one long line in a diff",
        "worker_metadata",
        lambda: diff([{"before": "", "after": "x" * 999_999}]),
    ),
    ("diffs without an end", "worker_metadata", lambda: diff([{}] * 20_000)),
    # Jobs
    ("lines of a job", STATUS, lambda: jobs(lines=["x\nEVIL" + ESCAPE] * 200_000)),
    ("a long line of a job", STATUS, lambda: jobs(lines=["x" * 1_000_000] * 30)),
    ("many problems", STATUS, lambda: result(STATUS, problems=[f"EVIL {number}" for number in range(100_000)])),
    ("long problems", STATUS, lambda: result(STATUS, problems=[LINES * 1000] * 30)),
    ("many processes", STATUS, lambda: jobs(processes=[{**PROCESS, "name": f"rank{number}"} for number in range(30_000)])),
    ("ranks", STATUS, lambda: jobs(processes=[{**PROCESS, "ranks": list(range(100_000))}] * 3)),
    ("a job without a valid name", STATUS, lambda: jobs(name="x; touch owned")),
    ("many jobs", STATUS, lambda: result(STATUS, jobs=[{**JOB, "name": f"j{number}"} for number in range(50_000)])),
    ("many metrics", INFO, lambda: jobs(INFO, metrics={f"{number}": number for number in range(300_000)})),
    ("nested metrics", INFO, lambda: jobs(INFO, metrics=nested(500))),
    ("metrics of empty lists", INFO, lambda: jobs(INFO, metrics={"a": [[]] * 70_000})),
    ("names of 60 MB", INFO, lambda: jobs(INFO, metrics={str(number) + "x" * 1_000_000: 1 for number in range(60)})),
    ("findings", "node_health", lambda: result("node_health", findings=[FINDING] * 30_000)),
    ("long findings", "node_health", lambda: result("node_health", findings=[{**FINDING, "message": LINES * 3000}] * 5)),
    ("jobs to clean up", "training_job_cleanup", lambda: result("training_job_cleanup", kept=["EVIL" + LINES] * 9000)),
    ("problems of a cleanup", "training_job_cleanup", lambda: result("training_job_cleanup", problems=[f"EVIL{n}" for n in range(90_000)])),
    ("parameters of jobs", "queued_jobs", lambda: result("queued_jobs", parameters=[{"name": "digits", "document": "x" * 1_000_000}] * 30)),
]
