"""Tests that check how a job is displayed."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.naming import JOB_NAME
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import job_formatting


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ({"step": 20, "steps": 100, "loss": 0.312345}, "step 20/100, loss 0.3123"),
        ({"loss": 1.0, "step": 7}, "step 7, loss 1"),
        ({"step": 7, "time": 1790000000.5}, "step 7"),
        ({"phase": "warm up", "weights": [1]}, "phase warm up"),
        ({}, ""),
    ],
)
def test_progress_line(entry, line):
    assert job_formatting.progress_line(entry) == line


def job(**changes):
    processes = [
        {"name": "rank0", "host": "w1", "state": "stopped", "started": 0.0, "finished": 60.0, "heartbeat": 60.0, "signal": "SIGTERM"},
        {"name": "rank1", "host": "w10", "state": "failed", "started": 1.0, "finished": 65.0, "heartbeat": 65.0, "exit_code": 3},
    ]
    processes[0]["stopped_for"] = "rank1"
    for process in processes:
        process["part"] = "worker"
    found = {"name": "digits", "state": "failed", "directory": "/efs/jobs/digits", "processes": processes, "process_count": 2}
    facts = {"hosts": 2, "spares": 0, "began": 0.0, "ended": 65.0, "read": 120.0, "created": 0.0}
    return {**found, **facts, "script": "src/train.py", "command": [], "launcher": "torchrun", "code": {}, "metrics": {}, **changes}


LOGS = "/efs/jobs/digits/logs"
FAILURE = {"name": "rank1", "host": "w2", "state": "failed", "exit_code": 3, "log": f"{LOGS}/rank1.log", "lines": []}
FAILED = {"name": "digits", "state": "failed", "directory": "/efs/jobs/digits", "processes": [], "command": []}
NOT_STARTED = {"processes": [], "process_count": 0, "hosts": 0}
ENTRY = {"queue": "slurm", "id": "7", "submitted": 5.0}
DAY = "1970-01-01 00"


def running(**changes):
    return job(state="running", **changes)


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (
            job(),
            "digits failed after 1 min 5 s (1970-01-01 00:00:00 to 1970-01-01 00:01:05 UTC), 2 processes on 2 hosts, torchrun train.py",
        ),
        (
            running(metrics={"step": 2, "steps": 9}),
            f"digits running for 2 min 0 s (since {DAY}:00:00 UTC), 2 processes on 2 hosts, torchrun train.py, step 2/9",
        ),
        (
            running(quiet=4000.0),
            f"digits running for 2 min 0 s (since {DAY}:00:00 UTC), no output, step or checkpoint for 1 h 6 min, "
            "2 processes on 2 hosts, torchrun train.py",
        ),
        (job(state="pending", **NOT_STARTED, read=600), "digits pending since 1970-01-01 00:00:00 UTC, torchrun train.py"),
        (
            job(state="pending", **NOT_STARTED, read=601),
            "digits pending since 1970-01-01 00:00:00 UTC, but no run has started it, torchrun train.py",
        ),
        (
            job(state="queued", **NOT_STARTED, queue={**ENTRY, "reason": "Resources", "before": 2}),
            "digits queued since 1970-01-01 00:00:05 UTC, in Slurm as job 7: Resources, after 2 other jobs, torchrun train.py",
        ),
        (job(state="stopped", **NOT_STARTED, queue=ENTRY), "digits stopped before it started, torchrun train.py"),
        (
            running(script=None, command=["bash", "x"], launcher="command"),
            f"digits running for 2 min 0 s (since {DAY}:00:00 UTC), 2 processes on 2 hosts, command bash",
        ),
        (running(code={"commit": "0123456789abcdef", "changed": True}), ", commit 0123456789ab with changes"),
        (running(code={"commit": "0123456789abcdef", "changed": False, "repository": "git@x:y"}), ", commit 0123456789ab of git@x:y"),
    ],
)
def test_a_job_in_one_line(found, line):
    told = job_formatting.job_line(found)
    assert told == line or (line.startswith(", ") and told.endswith(line))


def test_an_earlier_attempt_has_a_line_of_its_own():
    first = {"attempt": 1, "state": "failed", "started": 0.0, "ended": 60.0, "hosts": 2, "failure": FAILURE}
    last = {"attempt": 2, "state": "stopped", "started": 70.0, "hosts": 2}
    found = job(state="stopped", attempt=1, attempts=[first, last])
    assert job_formatting.job_line(found) == (
        "digits, attempt 1 failed on 2 hosts, 1970-01-01 00:00:00 to 1970-01-01 00:01:00 UTC: rank 1 on w2 ended with exit status 3"
    )
    assert job_formatting.job_line({**found, "attempt": 2}).startswith("digits stopped after ")


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({}, "in Slurm as job 7"),
        ({"reason": "", "before": 0}, "in Slurm as job 7"),
        ({"reason": "Priority", "before": 1}, "in Slurm as job 7: Priority, after 1 other job"),
        ({"reason": "a\nb", "before": 0}, "in Slurm as job 7: a b"),
        ({"problem": "squeue failed.", "reason": "Priority"}, "in Slurm as job 7: squeue failed."),
        ({"queue": "other"}, "in other as job 7"),
    ],
)
def test_what_a_queue_says_about_a_waiting_job(entry, text):
    assert job_formatting.waiting({**ENTRY, **entry}) == text


def test_a_job_that_did_not_start_has_a_summary_and_a_reason():
    removed = job(state="stopped", **NOT_STARTED, queue=ENTRY)
    assert job_formatting.summary(removed, {}) == ["job digits stopped before it started"]
    assert job_formatting.failure_message(removed, str).startswith("job digits was removed from the queue before it started. ")
    failed = job(state="failed", **NOT_STARTED, queue={**ENTRY, "failure": "w1: no\nspace"})
    assert job_formatting.failure_message(failed, str) == "job digits was not started: w1: no space"
    stopped = {**failed, "processes": job()["processes"], "failure": {"name": "rank0"}}
    assert job_formatting.failure_message(stopped, str) == "job digits was not started: w1: no space", "on all of its hosts"


def test_the_table_of_processes_tells_where_they_run_and_how_they_ended():
    assert job_formatting.process_table(job()["processes"]) == [
        "process  host  state    exit     started              ended",
        f"rank 0   w1    stopped  SIGTERM  {DAY}:00:00  {DAY}:01:00  was stopped because rank 1 on w10 ended with exit status 3",
        "rank 1   w10   failed   3        1970-01-01 00:00:01  1970-01-01 00:01:05",
    ]


def test_a_table_is_not_long_whatever_a_host_returns_about_one_process():
    first, second = job()["processes"]
    long = {**second, "signal": "A" * (1 << 20), "cause": {"kind": "killed", "what": "A" * (1 << 20)}}
    table = job_formatting.process_table([long, *({**first, "stopped_for": second["name"]} for _ in range(400))])
    assert max(map(len, table)) < 1200


def test_summary_names_hosts_time_values_and_places():
    lines = "\n".join(job_formatting.summary(job(state="succeeded"), {"step": 10, "steps": 10, "accuracy": 0.97}))
    for part in ("job digits succeeded after 1 min 5 s", "2 (w1, w10)", "step 10/10, accuracy 0.97"):
        assert part in lines
    assert "  results      /efs/jobs/digits (code, logs, checkpoints, tensorboard)" in lines
    assert "  code " not in lines


def test_the_summary_warns_of_processes_that_the_kernel_has_killed():
    found = job(state="succeeded")
    ended = {"name": "rank0", "host": "w1", "part": "worker", "started": 0.0, "finished": 60.0, "heartbeat": 60.0, "exit_code": 0}
    found["processes"][0] = {**ended, "state": "succeeded", "oom_kills": 1}
    found["processes"][1] |= {"state": "succeeded", "oom_kills": 0}
    lines = job_formatting.summary(found, {})
    assert "  warning      rank 0 on w1 ended with exit status 0 after the kernel's OOM killer had killed one of its processes" in lines
    assert sum("warning" in line for line in lines) == 1
    assert not any("warning" in line for line in job_formatting.summary(job(), {}))


def test_summary_names_the_commit():
    assert "  code         commit 0123456789ab" in job_formatting.summary(job(code={"commit": "0123456789abcdef", "changed": False}), {})


def test_summary_names_the_job_that_is_continued():
    continued = job(state="succeeded", resume="bug", checkpoint_directory="/efs/jobs/bug/checkpoints")
    assert "  checkpoints  /efs/jobs/bug/checkpoints (continued from job bug)" in job_formatting.summary(continued, {})


def test_failure_message_names_rank_host_end_and_last_lines():
    failed = {**FAILED, "failure": {**FAILURE, "lines": ["Traceback", "boom"]}}
    message = job_formatting.failure_message(failed, "run {}".format)
    assert message.splitlines() == [
        "job digits failed: rank 1 on w2 ended with exit status 3. The end of /efs/jobs/digits/logs/rank1.log:",
        "Traceback",
        "boom",
        *NEXT,
    ]


def test_a_job_that_has_used_up_its_maximum_cost_says_what_it_has_cost():
    cost = {"limit": 5.0, "spent": 5.016, "currency": "USD", "seconds": 7800.4}
    cause = {"kind": "time_limit", "cost": cost}
    failure = {**FAILURE, "log": "/l", "lines": ["x"], "cause": cause}
    found = {**FAILED, "failure": failure}
    told = "job digits failed: it reached training_job_max_cost (5.00 USD): it had run for 2 h 10 min and cost about 5.02 USD."
    assert job_formatting.failure_message(found, str).splitlines()[0] == f"{told} The end of /l:"
    assert "so set a higher training_job_max_cost." in job_formatting.failure_message(found, str)
    cost["earlier"] = 1.5
    assert job_formatting.failure_cause(found) == f"{told.rstrip('.')}, 1.50 USD of it before it was continued."
    failure["gone"] = "w2 is gone."
    assert "w2 is gone." in job_formatting.failure_cause(found), "a lost host is told first"


NEXT = (
    "To read all logs, run: run logs -e training_job_name=digits",
    "To continue from the newest checkpoint, if there is one, add the job's other variables to this command: "
    "run train -e training_job_name=digits-2 -e training_job_resume=digits",
)
KEEPS_NAME = "To continue the job, run the same command again with -e training_job_name=digits"
ANEW = "To start a new job, run the same command again, with a new name if you set training_job_name."


SIGKILL = {"kind": "signal", "what": "signal SIGKILL", "name": "SIGKILL"}
NOT_THERE = {"kind": "not_started", "what": "No such file or directory: 'nope'", "name": "nope"}
OUT_OF_MEMORY = "Usually, the kernel sends SIGKILL because the host has run out of memory."


@pytest.mark.parametrize(
    ("end", "how", "more", "steps"),
    [
        ({"state": "stopped"}, "was stopped by an operator (for example with stop.yml)", {}, (NEXT[0], KEEPS_NAME)),
        ({"exit_code": 3}, "ended with exit status 3", {}, ("Search the script for calls such as sys.exit", NEXT[1])),
        (
            {"exit_code": 3},
            "ended with exit status 3",
            {"script": "/src/train.py"},
            ("Search train.py for calls such as sys.exit", NEXT[1]),
        ),
        ({"signal": "SIGKILL"}, "was killed by signal SIGKILL", {}, (OUT_OF_MEMORY, *NEXT)),
        ({"exit_code": 247}, "ended with exit status 247", {}, (OUT_OF_MEMORY, *NEXT)),
        ({"exit_code": 137}, "ended with exit status 137", {}, (OUT_OF_MEMORY, *NEXT)),
        (
            {"exit_code": 1, "tag": "[rank {}] ", "culprit": {"rank": "3", "signal": "SIGKILL"}},
            "ended with exit status 1, because rank 3 was killed by signal SIGKILL",
            {},
            (OUT_OF_MEMORY, *NEXT),
        ),
        (
            {"signal": "SIGKILL", "oom_kills": 0, "cause": SIGKILL},
            "was killed by signal SIGKILL (not by the kernel's OOM killer)",
            {},
            ("The script itself, a user, or a program such as earlyoom", *NEXT),
        ),
        (
            {"signal": "SIGTERM"},
            "was killed by signal SIGTERM",
            {},
            ("The script itself, a user or another program on w2 has sent SIGTERM.", *NEXT),
        ),
        ({"signal": "SIGSEGV"}, "was killed by signal SIGSEGV", {}, ("SIGSEGV comes from an error in compiled code", *NEXT)),
        (
            {"exit_code": 1, "oom_kills": 1},
            "ended with exit status 1 after the kernel's OOM killer had killed one of its processes",
            {},
            ("To use less memory, reduce the batch size", *NEXT),
        ),
        (
            {"cause": NOT_THERE},
            "could not be started: No such file or directory: 'nope'",
            {"command": ["nope"]},
            ("training_job_command: specify a program that is installed on all hosts",),
        ),
        (
            {"cause": {**NOT_THERE, "name": "n" * 300}},
            "could not be started: No such file or directory: 'nope'",
            {"command": ["n" * 301]},
            ("training_job_command: specify a program that is installed on all hosts",),
        ),
        (
            {"cause": {**NOT_THERE, "name": "mpirun"}},
            "could not be started: No such file or directory: 'nope'",
            {"command": ["nope"]},
            ("training_job_launcher_options: specify a program that is installed on all hosts",),
        ),
        (
            {"signal": "SIGTERM", "cause": {"kind": "hang", "hang": {"seconds": 9.0}}},
            "made no progress for 9 s, with no output, reported step or checkpoint",
            {},
            (f"The stacks of all processes are in {LOGS}/stacks on the cluster.", *NEXT),
        ),
    ],
)
def test_failure_message_without_last_words_says_what_to_do(end, how, more, steps):
    failure = {key: value for key, value in {**FAILURE, **end}.items() if key != "exit_code" or "exit_code" in end}
    first, *rest = job_formatting.failure_message({**FAILED, "failure": failure, **more}, "run {}".format).splitlines()
    ended = how.startswith(("ended", "was killed"))
    place = f" It has printed nothing to {LOGS}/rank1.log." if ended else "" if "not be started" in how else f" The logs are in {LOGS}"
    assert first == f"job digits failed: rank 1 on w2 {how}.{place}"
    assert len(rest) == len(steps)
    assert all(line.startswith(step) for line, step in zip(rest, steps, strict=True))
    assert ("journalctl" in rest[0]) == ("137" in how or "247" in how or "SIGKILL" in how or "SIGTERM" in how)


def test_a_lost_process_whose_rank_was_killed_has_the_advice_about_the_signal():
    failure = {**FAILURE, "state": "lost", "heartbeat": 5.0, "tag": "[rank {}] ", "culprit": {"rank": "1", "signal": "SIGSEGV"}}
    first, advice, *_rest = job_formatting.failure_message({**FAILED, "failure": failure}, "run {}".format).splitlines()
    assert first.endswith(f"UTC, because rank 1 was killed by signal SIGSEGV. The logs are in {LOGS}")
    assert advice.startswith("SIGSEGV comes from an error in compiled code")


def test_after_a_time_out_no_library_is_accused():
    cause = {"kind": "hang", "what": "a time-out of ALLREDUCE with SeqNum 57", "message": "Watchdog caught ..."}
    found = {**FAILED, "failure": {**FAILURE, "signal": "SIGABRT", "cause": cause}}
    _first, advice, *rest = job_formatting.failure_message(found, "run {}".format).splitlines()
    assert advice.startswith("A rank did not take part in a collective operation in time")
    assert f"{LOGS}/stacks" in advice
    assert rest == list(NEXT)


@pytest.mark.parametrize("tag", ["", "[rank1]: ", None])
def test_a_missing_module_is_installed_or_added_to_the_code(tag):
    lines = ["Traceback (most recent call last):", f"{tag}ModuleNotFoundError: No module named 'transformerz'"]
    cause = {}
    if tag is None:
        lines = [lines[0], "subprocess.CalledProcessError: Command '['python']' returned non-zero exit status 1."]
        cause = {"cause": {"kind": "script_error", "name": "ModuleNotFoundError", "message": "No module named 'transformerz'"}}
    found = {**FAILED, "failure": {**FAILURE, "lines": lines, **cause}}
    _first, *rest = job_formatting.failure_message(found, "run {}".format).splitlines()
    assert rest[2].startswith(
        "Correct the name 'transformerz' if it is misspelled. If it is a package, add it to a requirements file, and set "
        "python_environment_requirements to the path of the file and python_environment_name to a name. If it is your own module"
    )
    assert rest[3:] == ["To read all logs, run: run logs -e training_job_name=digits"]


@pytest.mark.parametrize(
    ("export", "text"),
    [
        ({"state": "running"}, "s3://results/digits/ (running)"),
        ({"state": "succeeded", "files": 3}, "s3://results/digits/ (succeeded, 3 files)"),
        ({"state": "failed", "error": "S3 denies it."}, "s3://results/digits/ (failed): S3 denies it."),
    ],
)
def test_the_summary_says_where_the_job_is_exported_to(export, text):
    found = job(export={"destination": "s3://results/digits/", **export})
    assert f"  export       {text}" in job_formatting.summary(found, {})
    assert not any("export" in line for line in job_formatting.summary(job(), {}))


GOODPUT = {
    "nodes": 2,
    "seconds": 7460.0,
    "ratio": 0.93,
    "buckets": {"training": 13875.6, "recomputed": 0.0, "waiting": 100.0, "idle": 944.4},
    "hosts": [],
}


def test_the_goodput_is_a_table_without_empty_buckets():
    assert job_formatting.goodput_table({"goodput": GOODPUT}) == [
        "goodput 93.0 % of the time (2 nodes for 2 h 4 min) was spent on training",
        "  training               13876 node-seconds   93.0 %",
        "  waiting for nodes        100 node-seconds    0.7 %",
        "  idle                     944 node-seconds    6.3 %",
    ]
    assert job_formatting.goodput_table({}) == []
    assert job_formatting.goodput_table({"goodput": {**GOODPUT, "nodes": 0}}) == []


def test_the_summary_contains_the_goodput():
    measured = {"goodput": {**GOODPUT, "nodes": 1}}
    line = "  goodput      93.0 % of the time (1 node for 2 h 4 min) was spent on training"
    assert line in job_formatting.summary(job(**measured), {"step": 3})
    assert line in job_formatting.summary(job(state="succeeded", **measured), {})
    assert line not in job_formatting.summary(job(state="failed", **measured), {}), "what a failed job without progress did is unknown"


@pytest.mark.parametrize(
    ("known", "line"),
    [
        ({}, "To continue from the newest checkpoint, if there is one, run: AGAIN"),
        ({"has_checkpoint": True}, "To continue from the newest checkpoint, run: AGAIN"),
        ({"has_checkpoint": False}, f"The job has completed no checkpoint, so it cannot be continued. {ANEW}"),
    ],
)
def test_a_job_is_continued_only_from_a_checkpoint(known, line):
    found = {**FAILED, "failure": {**FAILURE, "lines": ["boom"]}, **known}
    assert job_formatting.failure_message(found, "run {}".format, "AGAIN").splitlines()[-1] == line


@pytest.mark.parametrize(
    ("changes", "keeps"),
    [
        ({"state": "lost", "heartbeat": 1.0}, True),
        ({"state": "failed", "cause": {"kind": "spot_interruption"}}, True),
        ({"state": "failed", "cause": {"kind": "capacity_block_end"}}, True),
        ({"state": "failed", "cause": {"kind": "host_shut_down"}}, True),
        ({"state": "failed", "cause": {"kind": "script_error"}}, False),
        ({"state": "failed", "cause": {"kind": "disk_full"}}, True),
        ({"state": "failed", "cause": {"kind": "script_error", "storage": [{"path": "/ck", "problem": "space"}]}}, True),
        ({"state": "failed", "cause": {"kind": "time_limit"}}, True),
        ({"state": "failed", "cause": {"kind": "hardware"}}, True),
        ({"state": "failed", "cause": {"kind": "gpu_memory"}}, False),
        ({"state": "stopped"}, True),
        ({"state": "failed", "cause": {"kind": "out_of_memory"}}, False),
    ],
)
def test_a_job_whose_definition_is_not_the_cause_continues_under_its_name(changes, keeps):
    found = {**FAILED, "failure": {**FAILURE, **changes}}
    assert (job_formatting.failure_message(found, "run {}".format, "AGAIN").splitlines()[-1] == KEEPS_NAME) == keeps
    queued = {**found, "queue": {"queue": "slurm", "id": "7", "submitted": 5.0}}
    assert job_formatting.failure_message(queued, "run {}".format, "AGAIN").splitlines()[-1] != KEEPS_NAME


@pytest.mark.parametrize(
    ("job", "name"),
    [
        ("digits", "digits-2"),
        ("digits-2", "digits-3"),
        ("a-99", "a-100"),
        ("d-20261125-042959", "d-20261125-042959-2"),
        ("x" * 63, "x" * 60 + "-2"),
    ],
)
def test_the_name_of_a_job_that_continues_another(job, name):
    assert job_formatting.next_name(job) == name
    assert JOB_NAME.fullmatch(name)


def test_slow_hosts_are_named():
    def times(*seconds):
        return {"step_times": [{"name": f"w{index}", "seconds": each, "slow": each > 0.5} for index, each in enumerate(seconds)]}

    assert job_formatting.step_time_lines({}) == job_formatting.step_time_lines({"step_times": []}) == []
    assert job_formatting.step_time_lines(times(0.41, 0.4)) == ["step time 0.4 s (median)"]
    assert job_formatting.step_time_lines(times(0.615, 0.41, 0.41)) == [
        "step time 0.41 s (median)",
        "  w0 is slow: 0.615 s per step, 1.5 times the median",
    ]
    assert job_formatting.step_time_lines(times(*[1.0] * 6, *[0.5] * 7))[-2:] == [
        "  w4 is slow: 1 s per step, 2.0 times the median",
        "  and 1 more",
    ]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({}, ""),
        ({"omitted": ["a.tmp"], "omitted_count": 1}, ", without a.tmp"),
        ({"omitted": ["a", "b", "c", "d"], "omitted_count": 9}, ", without a, b, c and others"),
        ({"omitted": ["a"]}, ", without a"),
        ({"omitted_count": 9}, ""),
    ],
)
def test_an_export_says_what_it_leaves_out(more, text):
    found = {"destination": "s3://b/j/", "state": "succeeded", "files": 2, **more}
    assert job_formatting.export(found) == f"s3://b/j/ (succeeded, 2 files{text})"


def test_each_line_of_a_log_tells_its_process():
    parts = [
        {"name": "rank0", "path": "/l/rank0.log", "lines": ["a", ""], "left_out": 0},
        {"name": "rank10", "path": "/l/rank10.log", "lines": ["b"], "left_out": 9},
    ]
    assert job_formatting.log_lines(parts, [{"name": "rank0"}, {"name": "rank10"}]) == [
        "rank 0  | a",
        "rank 0  | ",
        "rank 10 | ... 9 bytes omitted; the full log is in /l/rank10.log",
        "rank 10 | b",
    ]
