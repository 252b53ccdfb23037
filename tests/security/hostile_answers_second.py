"""More answers of hostile nodes, in the format of hostile_answers.py, from the documentation and the sources of Ansible."""

from __future__ import annotations

import json
from collections.abc import Callable

from .hostile_answers import FINDING, JOB, PROCESS, Program, failure, jobs, result

# Written with the error handler surrogateescape, as Ansible does in places, these are the bytes of U+009B, of U+202E and of ESC.
HALVES = "\udcc2\udc9b31m \udce2\udc80\udcae \udc1b[2J \udc9b2J \ud83d"
# Each is the end of a line for str.splitlines, for a terminal or for an editor.
ENDS = "\u2028EVIL 1\u2029EVIL 2\u0085EVIL 3\x0bEVIL 4\x0cEVIL 5\x1cEVIL 6\x1dEVIL 7\x1eEVIL 8\rEVIL 9"
INVISIBLE = "\u2066\u2067\u2068\u2069\u200e\u200f\u061c\u200b\ufeff\u00ad\u2800\u3164\U000e0041\ufe0f"
ZALGO = "e" + "\u0301\u0489\u20dd" * 400
SHELL = 'x\'; touch owned; "$(touch owned)" `touch owned` | touch owned & -o=ProxyCommand=touch\\ owned'
TEMPLATE = "{{ lookup('ansible.builtin.pipe', 'touch owned') }}{% for i in range(10**9) %}{% endfor %}{#"
# The end of a line of most terminals, so that the terminal starts a new line with what follows.
PADDING = "".join(f"{' ' * width}EVIL at column {width}" for width in (60, 72, 80, 100, 120, 132, 150, 200))
DIGITS = "9" * 4300
LOG = {"name": "rank0", "path": "/l", "left_out": 0, "lines": []}


def typed(kind, **values):
    return {"__ansible_type": kind, **values}


def chain(depth):
    event = typed("Event", msg="EVIL")
    for number in range(depth):
        link = typed("EventChain", msg_reason=f"EVIL {number}", traceback_reason="EVIL", event=event)
        event = typed("Event", msg=f"EVIL {number}\nEVIL", formatted_traceback="EVIL\nEVIL", help_text="EVIL", chain=link)
    return event


def deep(depth, key="x"):
    value = {}
    for _number in range(depth):
        value = {key: value}
    return value


def info(**changes):
    return result("training_job_info", jobs=[{**JOB, **changes}])


def over(**changes):
    return jobs(**{"state": "failed", "over": True, **changes})


def goodput(value):
    names = ("checkpoint", "detection", "end", "idle", "recomputed", "restart", "start", "training", "waiting")
    buckets = dict.fromkeys(names, value)
    return {"buckets": buckets, "hosts": [{"host": "w1", "buckets": buckets}], "nodes": 1, "ratio": value, "seconds": value}


def sent(text, before="", after=""):
    """Return a program that prints a result without `echo`, which would interpret escapes."""
    return Program(f"{before}\ncat <<'END'\n{text}\nEND\n{after}")


ANSWERS: list[tuple[str, str, Callable[[], str]]] = [
    # Characters.
    ("surrogates that become control characters", "slurm", lambda: failure("slurm", msg=HALVES, warnings=[HALVES], **{HALVES: HALVES})),
    ("surrogates in a status", "training_job_status", lambda: jobs(lines=[HALVES, ENDS], name=HALVES, directory=HALVES)),
    (
        "halves of a character from two encodings",
        "sge",
        lambda: Program(
            r"""printf '{"failed": true, "msg": "\302\\udc9b31m \342\200\\udcae \\u001b[2J \033[2J", "warnings": ["\302\\udc9b"]}\n'"""
        ),
    ),
    ("ends of lines that are not line feeds", "shared_storage", lambda: failure("shared_storage", msg=ENDS, warnings=[ENDS])),
    ("ends of lines in names", "training_job_status", lambda: over(metrics={ENDS: 1.0, "\nEVIL": 2.0, "": 3.0}, name="digits\nEVIL")),
    ("invisible characters", "munge_key", lambda: failure("munge_key", msg=INVISIBLE * 500 + "EVIL", warnings=[INVISIBLE])),
    ("invisible characters in lines of a job", "training_job_status", lambda: jobs(lines=[INVISIBLE + "EVIL" + INVISIBLE, ZALGO])),
    ("characters on top of each other", "slurm_info", lambda: failure("slurm_info", msg=ZALGO * 20, warnings=[ZALGO])),
    ("spaces up to the end of the terminal", "slurm_drain", lambda: failure("slurm_drain", msg=PADDING, warnings=[PADDING])),
    ("spaces up to the end of the terminal in a status", "training_job_status", lambda: jobs(lines=[PADDING])),
    ("spaces up to the end of the terminal in a summary", "training_job_status", lambda: result("training_job_info", summary=[PADDING])),
    (
        "other spaces up to the end of the terminal",
        "sge_drain",
        lambda: failure("sge_drain", msg="\u3000" * 76 + "EVIL" + "\t" * 10 + "EVIL"),
    ),
    ("tabs and backspaces", "ssh_trust", lambda: failure("ssh_trust", msg="a" + "\t" * 50_000 + "\b" * 50_000 + "EVIL\x7f\x00")),
    ("wide characters", "sge_info", lambda: failure("sge_info", msg="\u4e00\U0001f600" * 60_000)),
    ("one repeated brace", "node_setup", lambda: failure("node_setup", msg="{{" * 60_000, warnings=["{%" * 500_000])),
    ("one repeated backslash", "node_setup", lambda: failure("node_setup", msg="\\" * 120_000, warnings=["\\'" * 200_000])),
    ("one repeated slash", "dataset", lambda: failure("dataset", msg="/" * 120_000, stderr="/." * 100_000)),
    ("repeated words with colons", "dataset", lambda: failure("dataset", msg="a: " * 43_000, warnings=["a: " * 100_000])),
    ("empty lines of spaces", "dataset", lambda: failure("dataset", msg=" \n" * 60_000 + "EVIL", stderr="\n \n" * 60_000)),
    # The text before EVIL fills the rest of a line of 80 columns, after the indentation of `concise`.
    (
        "a line after a full line of the terminal",
        "slurm_drain",
        lambda: failure("slurm_drain", msg="-" * 76 + "EVIL [sudo] password for you:"),
    ),
    ("a line after a full line of a status", "training_job_status", lambda: jobs(lines=["-" * 78 + "EVIL [WARNING]: bert-honest1"])),
    ("many lines of a terminal in a few lines", "sge_info", lambda: failure("sge_info", msg="\n".join(["-" * 25_000] * 5))),
    # Prompts, commands and templates.
    (
        "a question for a password",
        "munge_key",
        lambda: failure("munge_key", msg="EVIL\n\n[sudo] password for operator: ", warnings=["Password: \nEVIL Password:"]),
    ),
    (
        "a question on the error output",
        "sge",
        lambda: sent(result("sge"), "printf 'EVIL Password: \\r\\nEVIL (yes/no)? ' >&2"),
    ),
    ("a directory that is a command", "training_job_status", lambda: over(directory=SHELL, name="digits", resume=SHELL, script=SHELL)),
    (
        "a failure that is a command",
        "training_job_status",
        lambda: over(
            failure={
                "host": SHELL,
                "cause": {"kind": SHELL, "what": ENDS},
                "lines": [SHELL, "\nEVIL"],
                "log": SHELL,
                "name": SHELL,
                "state": SHELL,
            }
        ),
    ),
    (
        "a code that is a command",
        "training_job_status",
        lambda: jobs(code={"repository": SHELL, "version": SHELL, "commit": SHELL, "changed": True}),
    ),
    (
        "a queue that is a command",
        "training_job_status",
        lambda: jobs(state="waiting", queue={"queue": "slurm", "id": SHELL, "before": 10**30}),
    ),
    (
        "a path that is a template",
        "python_environment",
        lambda: result("python_environment", python=TEMPLATE, prefix="../../" + TEMPLATE, origin="-c\nEVIL"),
    ),
    ("a name that is a template", "training_job_status", lambda: over(name=TEMPLATE, directory=TEMPLATE, checkpoint_directory=TEMPLATE)),
    ("a generation that is a template", "worker_metadata", lambda: result("worker_metadata", generation=TEMPLATE, gpu_count=10**18)),
    (
        "legacy types of Ansible",
        "queued_jobs",
        lambda: result(
            "queued_jobs",
            parameters=[
                {"name": "digits", "document": {"__ansible_unsafe": TEMPLATE}},
                {"name": "digits", "document": {"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n616161"}},
                {"name": "digits", "document": "$ANSIBLE_VAULT;1.2;AES256;EVIL\n616161"},
                {"name": "../../owned", "document": json.dumps({"name": TEMPLATE, "user": "root", "directory": "/etc"})},
            ],
        ),
    ),
    (
        "types of Ansible with invalid contents",
        "slurm_info",
        lambda: result(
            "slurm_info",
            missing_packages=[
                typed("_AnsibleTaggedDateTime", value={"iso8601": "EVIL", "fold": 2}),
                typed("_AnsibleTaggedSet", value=[[], {}]),
                typed("_AnsibleTaggedBytes", value="EVIL"),
            ],
            hardware=typed("_AnsibleTaggedDict", value=[["cpus", 1]], tags=[typed("Deprecated", msg="EVIL\nEVIL")]),
        ),
    ),
    (
        "a deprecated value",
        "sge_info",
        lambda: result(
            "sge_info",
            key_digest=typed("_AnsibleTaggedStr", value="EVIL", tags=[typed("Deprecated", msg="EVIL\nEVIL", help_text="EVIL", date="x")]),
        ),
    ),
    ("a chain of errors", "node_health", lambda: failure("node_health", exception=typed("ErrorSummary", event=chain(150)), msg="EVIL")),
    ("a chain of warnings", "node_health", lambda: result("node_health", warnings=[typed("WarningSummary", event=chain(100))] * 30)),
    (
        "deprecations with unknown contents",
        "node_health",
        lambda: result(
            "node_health",
            deprecations=[
                {"msg": "EVIL\nEVIL", "collection_name": {"a": 1}, "version": [], "date": "EVIL", "evil": 1},
                {"msg": None, "deprecator": "EVIL"},
                typed("DeprecationSummary", event=chain(3), date="EVIL", deprecator=typed("PluginInfo", resolved_name="EVIL", type="EVIL")),
            ],
        ),
    ),
    # Names that Ansible itself interprets.
    (
        "states of other types",
        "ssh_trust",
        lambda: result("ssh_trust", failed="false", changed={"evil": 1}, unreachable="no", skipped=[0], rc="EVIL", failed_when_result=[1]),
    ),
    ("a loop that was skipped", "ssh_trust", lambda: result("ssh_trust", results=[{"skipped": True, "failed_when_result": True}, 5, None])),
    (
        "a handler and a group",
        "slurm",
        lambda: result("slurm", changed=True, _ansible_notify=["EVIL", 5], add_group="evil", parent_groups=["trainers"], notify="EVIL"),
    ),
    (
        "a delegation to an honest node",
        "slurm",
        lambda: failure(
            "slurm",
            msg="EVIL",
            _ansible_delegated_vars={"ansible_delegated_host": "bert-honest1", "ansible_host": "EVIL\nEVIL", "ansible_port": 22},
            _ansible_item_label="EVIL\nEVIL",
            _ansible_item_result=True,
            ansible_loop_var="groups",
            item="EVIL",
        ),
    ),
    (
        "a hidden failure that is retried",
        "slurm",
        lambda: failure("slurm", msg="x", _ansible_no_log=True, _ansible_retry=True, attempts=10**9, retries="EVIL", censored="EVIL\nEVIL"),
    ),
    (
        "outputs of other types",
        "shared_storage",
        lambda: failure(
            "shared_storage",
            stdout=5,
            stderr=["EVIL"],
            stdout_lines=5,
            cmd={"a": 1},
            module_stdout="EVIL\nEVIL",
            module_stderr=[[]],
            rc=[1],
        ),
    ),
    (
        "an asynchronous job",
        "shared_storage",
        lambda: result(
            "shared_storage",
            ansible_job_id="../../owned",
            started=1,
            finished=0,
            results_file="/tmp/owned",
            _ansible_suppress_tmpdir_delete=True,
            async_result={"failed": True},
            include="/etc/passwd",
            include_args={"evil": 1},
        ),
    ),
    (
        "an interpreter and a connection",
        "sge_drain",
        lambda: result(
            "sge_drain",
            ansible_facts={
                "discovered_interpreter_python": "/tmp/owned",
                "ansible_connection": "local",
                "evil_fact": 1,
                "ansible_local": {"evil": TEMPLATE},
            },
            _ansible_facts_cacheable=True,
            ansible_included_var_files=["/etc/passwd"],
            drained=["bert-honest1", "localhost", "all", "\nEVIL"],
            jobs=[SHELL, ENDS],
        ),
    ),
    # Numbers.
    ("sums with too many digits", "training_job_status", lambda: jobs(attempt=-1, process_count=-1, rank=-1).replace("-1", DIGITS)),
    ("numbers with many digits", "slurm_info", lambda: result("slurm_info").replace("1", DIGITS)),
    (
        "times outside of the calendar",
        "training_job_status",
        lambda: jobs(created=1e308, processes=[{**PROCESS, "started": -1e308, "heartbeat": 1e18}]),
    ),
    (
        "times before the calendar",
        "training_job_status",
        lambda: jobs(created=-1e12, export={"began": -1e15, "state": "failed", "finished": 253402300800}),
    ),
    (
        "whole numbers as times",
        "training_job_status",
        lambda: over(created=10**400, processes=[{**PROCESS, "started": -(10**400), "finished": 10**310}]),
    ),
    (
        "negative counts",
        "training_job_status",
        lambda: jobs(process_count=-(10**9), attempt=-1, queue={"queue": "", "id": "", "before": -5}),
    ),
    (
        "a goodput of large numbers",
        "training_job_status",
        lambda: over(goodput=goodput(1e308), step_times=[{"name": "\nEVIL", "seconds": -1e308, "slow": True}]),
    ),
    (
        "a goodput of zero",
        "training_job_info",
        lambda: info(goodput=goodput(-0.0), step_times=[{"name": "x", "seconds": 5e-324, "slow": False}] * 2000),
    ),
    (
        "impossible progress",
        "dataset",
        lambda: result(
            "dataset", progress={"stage": ENDS, "done": 10**300, "total": 0, "seconds": -(10**300), "source": 10**9, "sources": 0}
        ),
    ),
    (
        "shares without an end",
        "dataset",
        lambda: result("dataset", current=False, download=TEMPLATE, single=True, shares=[[["evil"]]] * 20_000, version=ENDS),
    ),
    (
        "numbers of other types",
        "training_job_info",
        lambda: info(attempt=1e300, process_count=True, created="0x10", log_offsets={"rank0": "1e9", "../owned": -1}),
    ),
    (
        "an exit code and a signal",
        "training_job_status",
        lambda: over(
            processes=[{**PROCESS, "exit_code": 10**4000, "signal": "\nEVIL", "stopped_for": ENDS, "cause": None, "ranks": [-1, 10**4000]}]
        ),
    ),
    # Results of jobs.
    (
        "lines that were left out",
        "training_job_info",
        lambda: info(logs=[{**LOG, "left_out": -1, "lines": [ENDS, HALVES, PADDING]}] * 400),
    ),
    (
        "names of logs",
        "training_job_info",
        lambda: info(logs=[{**LOG, "name": f"\nEVIL{number}", "path": SHELL, "lines": ["x"]} for number in range(5000)]),
    ),
    (
        "offsets of other files",
        "training_job_info",
        lambda: info(log_offsets={f"../../{number}": 10**18 for number in range(20_000)}, progress_offset=-(10**30)),
    ),
    (
        "a job that is not over",
        "training_job_status",
        lambda: result("training_job_info", out_of_reach=True, interrupted="EVIL\nEVIL\n" * 1000, summary=["\nEVIL"] * 5000),
    ),
    ("deep dictionaries", "training_job_info", lambda: info(metrics=deep(300, "rank0"), code=deep(300, "commit"), log_offsets=deep(300))),
    (
        "attempts that contradict each other",
        "training_job_status",
        lambda: jobs(
            attempts=[
                {"attempt": n % 3 - 1, "rule": "\nEVIL", "missing": [PADDING], "logs": "..", "hosts": 10**40, "ended": -1.0}
                for n in range(3000)
            ]
        ),
    ),
    (
        "processes on other nodes",
        "training_job_status",
        lambda: jobs(
            processes=[
                {**PROCESS, "host": h, "state": "EVIL", "tag": "\nEVIL", "name": ""}
                for h in ("bert-honest1", "localhost", "", "\nEVIL", ZALGO)
            ]
            * 300
        ),
    ),
    ("one kept job", "training_job_cleanup", lambda: result("training_job_cleanup", kept=[{"name": "digits", "reason": "it is running"}])),
    (
        "kept jobs",
        "training_job_cleanup",
        lambda: result(
            "training_job_cleanup",
            kept=[{"name": "\nEVIL", "reason": ENDS + PADDING}] * 3000,
            running=[ENDS] * 3000,
            pythons=["/", "~", "-rf", ""],
        ),
    ),
    (
        "files on the controller",
        "training_job",
        lambda: result(
            "training_job",
            scripts={"../owned": "x", "/tmp/owned-x1": "x", "\nEVIL": TEMPLATE},
            lines=["EVIL", "\nEVIL", PADDING],
            running=["EVIL"],
        ),
    ),
    (
        "a host with the address of another",
        "training_job",
        lambda: result(
            "training_job",
            host={
                "address": "127.0.0.1\nEVIL",
                "efa": True,
                "gpus": list(range(20_000)),
                "interface": SHELL,
                "name": "bert-honest1",
                "number": -1,
            },
        ),
    ),
    (
        "endless exclusions",
        "node_health",
        lambda: result(
            "node_health",
            exclusions=[
                {
                    "boot": ENDS,
                    "by": "\nEVIL",
                    "reason": PADDING,
                    "severity": "\nEVIL",
                    "since": -1e308,
                    "text": SHELL,
                    "gpus": ["EVIL"] * 50,
                }
            ]
            * 200,
            time=1e308,
        ),
    ),
    (
        "findings that compare equal",
        "node_health",
        lambda: result("node_health", findings=[{**FINDING, "check": "", "severity": "MONITOR", "message": PADDING}] * 3000, time=-0.0),
    ),
    (
        "keys for certificates",
        "ssh_trust",
        lambda: result(
            "ssh_trust",
            unsigned={
                "host": {"reason": "\nEVIL", "public_key": "ssh-ed25519 AAAA\nEVIL"},
                "user": {"reason": PADDING, "public_key": "-D/tmp/owned.so"},
                "evil": {},
            },
        ),
    ),
    (
        "packages with options",
        "sge_info",
        lambda: result(
            "sge_info", missing_packages=["-oAPT::Update::Pre-Invoke::=touch owned", SHELL, "\nEVIL"] * 5000, cpus=-1, gpus=10**18
        ),
    ),
    (
        "a client that is a text",
        "shared_storage",
        lambda: result("shared_storage", source=ENDS, client_packages={TEMPLATE: [SHELL], "\nEVIL": deep(200), "name": "EVIL"}),
    ),
    (
        "environments of other directories",
        "python_environment_cleanup",
        lambda: result("python_environment_cleanup", changed=True, environments=["/", "../..", ENDS, PADDING, HALVES] * 4000),
    ),
    (
        "logs in another bucket",
        "node_logs_export",
        lambda: result("node_logs_export", changed=True, destination="s3://evil/\nEVIL" + PADDING, logs=[ENDS, SHELL, HALVES] * 3000),
    ),
    (
        "an upload that is too large",
        "training_job_export",
        lambda: result(
            "training_job_export",
            files=-(10**300),
            size=10**300,
            uploaded=10**300,
            uploaded_size=-1,
            changing=10**300,
            since=-1e308,
            destination="\nEVIL",
        ),
    ),
    # Diffs.
    (
        "diffs of other types",
        "worker_metadata",
        lambda: result(
            "worker_metadata",
            changed=True,
            diff=[5, None, "EVIL\nEVIL", [], {"before": 5, "after": [1]}, {"before": {"a": HALVES}, "after": None}],
        ),
    ),
    ("a diff that is a text", "worker_metadata", lambda: result("worker_metadata", changed=True, diff="EVIL\n" * 3000)),
    (
        "reasons for no diff",
        "worker_metadata",
        lambda: result(
            "worker_metadata",
            changed=True,
            diff={
                "src_larger": "%s" * 500,
                "dst_larger": 10**4000,
                "src_binary": "EVIL\nEVIL",
                "dst_binary": 1,
                "before_header": "EVIL\nEVIL",
                "before": "a",
                "after": "b",
            },
        ),
    ),
    (
        "a diff of ends of lines",
        "worker_metadata",
        lambda: result(
            "worker_metadata",
            changed=True,
            diff={"before": ENDS, "after": ENDS + HALVES + "\r\nEVIL\r\rEVIL", "before_header": PADDING, "after_header": "\x85EVIL"},
        ),
    ),
    # Documents.
    ("many lines that begin with a brace", "sge", lambda: "{\n" * 200_000 + result("sge")),
    ("many lines that end with a brace", "sge", lambda: result("sge") + "\n" + "x}\n" * 200_000),
    ("a document in UTF-16", "sge_drain", lambda: Program("""printf '\\377\\376{\\000"\\000a\\000"\\000:\\0001\\000}\\000\\n\\000'""")),
    (
        "a mark at the begin and zeros",
        "sge_drain",
        lambda: Program("""printf '\\357\\273\\277{"changed": false, "drained": ["a\\000EVIL"], "jobs": []}\\000\\000\\n'"""),
    ),
    ("characters as escapes", "sge", lambda: '{"changed": false, "failed": true, "msg": "' + "\\u000aEVIL" * 90_000 + '"}'),
    (
        "names that are equal after the removal of control characters",
        "slurm",
        lambda: '{"changed": false, "failed\\u0007": true, "fa\\u200biled": true, "msg": "EVIL", "failed ": true, "Failed": true}',
    ),
    ("spaces in the document", "slurm", lambda: result("slurm").replace(" ", " \n\t" * 500_000)),
    ("a document of another type", "munge_key", lambda: '"{\\"changed\\": true}"\n[{"changed": true}]\nnull\n'),
    (
        "names of Python",
        "munge_key",
        lambda: result(
            "munge_key",
            __class__="EVIL",
            __dict__={},
            items=5,
            keys=5,
            get="EVIL",
            update=None,
            self={},
            result=1,
            task_vars=TEMPLATE,
            **{"": 1, "0": 2},
        ),
    ),
    ("a key without an end", "munge_key", lambda: result("munge_key", key=TEMPLATE + HALVES + ENDS + "A" * 3_000_000)),
    # Programs.
    ("one character per second", "munge_key", lambda: Program('while :; do printf " "; sleep 1; done')),
    (
        "a result in two parts",
        "munge_key",
        lambda: Program("""printf '{"changed": false, '; sleep 2; printf '"failed": true, "msg": "EVIL'; sleep 2; printf '\\nEVIL"}\\n'"""),
    ),
    ("a program that remains in the background", "slurm", lambda: sent(result("slurm"), "(sleep 60; echo EVIL) &")),
    ("a program that leaves its session", "slurm", lambda: sent(result("slurm"), "setsid sh -c 'sleep 60; echo EVIL; echo EVIL >&2' &")),
    (
        "a program that is stopped",
        "slurm",
        lambda: Program('setsid sh -c "sleep 70; kill -9 $$" >/dev/null 2>&1 </dev/null & kill -STOP $$; echo EVIL'),
    ),
    ("a program that is killed", "slurm", lambda: sent(result("slurm"), "", "printf EVIL >&2; kill -9 $$")),
    ("a closed input", "slurm", lambda: sent(result("slurm"), "exec <&-; sleep 1")),
    ("closed outputs", "slurm", lambda: Program("exec >&- 2>&-; sleep 20")),
    ("the exit status of ssh", "slurm", lambda: sent(result("slurm"), "echo 'EVIL: Host key verification failed.' >&2", "exit 255")),
    ("a signal for the end", "slurm", lambda: Program("trap '' TERM INT HUP PIPE; for i in $(seq 90); do sleep 1; printf '{'; done")),
    ("a result on the error output", "slurm", lambda: Program('echo \'{"changed": true, "failed": false}\' >&2; echo EVIL >&2; exit 1')),
    (
        "megabytes of one line on the error output",
        "slurm",
        lambda: sent(result("slurm"), "head -c 3000000 /dev/zero | tr '\\0' 'E' >&2; printf '\\033[2J\\r\\nEVIL' >&2"),
    ),
]

# Not in ANSWERS, because the smallest valid result of the module has no report, and the task fails on the honest nodes too.
REPORTS: list[tuple[str, str, Callable[[], str]]] = [
    ("no report", "training_job_report", lambda: result("training_job_report")),
    (
        "a report with markup",
        "training_job_report",
        lambda: result(
            "training_job_report",
            report={"</script><script>alert(1)</script>": ENDS, "title": "<img src=x onerror=alert(1)>", "path": "../owned"},
        ),
    ),
    (
        "a report of another path",
        "training_job_report",
        lambda: result("training_job_report", path="/tmp/owned-x1", dest="owned.html", report=None),
    ),
    ("a deep report", "training_job_report", lambda: result("training_job_report", report=deep(400))),
]
