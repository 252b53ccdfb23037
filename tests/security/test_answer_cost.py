"""The largest result that the filter accepts costs Ansible's main process less than a second.

The tests build results from the documentation of each module: for each documented key, as many values as the filter accepts.
"""

from __future__ import annotations

import json

import pytest
from ansible import context
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.jobs import watch
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.schema import count_values
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import answers, documented_values, job_formatting
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.budget import Budget

from .hostile_answers import JOB, PROCESS, smallest, smallest_result
from .main_process import main_process_seconds
from .nodes import ON_NODES

# The actions of these modules run another module on nodes.
WITHOUT_OWN_MODULE = {"training_job_status", "training_job_logs", "training_job_wait"}
MODULES = sorted(set(ON_NODES) - WITHOUT_OWN_MODULE)


def variants(description):
    """Yield functions that return a value of about `count` members, one for each kind of key in a description."""
    element = {"type": description.get("elements", "raw"), "contains": description.get("contains")}
    if description["type"] == "list":
        yield lambda count: [smallest(element) for _unused in range(count)]
        for grown in variants(element) if element["type"] in ("dict", "list") else ():
            yield lambda count, grown=grown: [grown(count)]
            yield lambda count, grown=grown: [grown(1) for _unused in range(count)]
    elif description["type"] == "dict" and description.get("contains"):
        least = smallest(description)
        for name, one in of_each_kind(description["contains"]):
            for grown in variants(one):
                yield lambda count, name=name, grown=grown: {**least, name: grown(count)}
    elif description["type"] in ("dict", "raw"):
        yield lambda count: {str(number): [] for number in range(count)}
        yield lambda count: {str(number): str(number) for number in range(count)}
    elif description["type"] in ("str", "text"):
        yield lambda count: smallest(description) if description.get("choices") else "x" * count * 40


def of_each_kind(documented):
    """Return the name and description of each key that may be long. Of several texts and lists of texts, only the first is returned."""
    kinds = {}
    for name, one in documented.items():
        if name in documented_values.NAME_KEYS and one["type"] == "str":
            continue
        is_plain = not one.get("contains")
        kinds.setdefault((one["type"], one.get("elements"), bool(one.get("choices"))) if is_plain else name, (name, one))
    return kinds.values()


@pytest.fixture(autouse=True)
def _command_line(monkeypatch):
    monkeypatch.setattr(context, "CLIARGS", {"check": False})


# A quarter of the values takes a quarter of the time.
PART = 4
TRIES = 8


@pytest.mark.parametrize("module", MODULES)
def test_the_largest_result_of_each_key_takes_less_than_a_second(module):
    documented = {**documented_values.COMMON, **documented_values.returned_values(f"deeplearning.cluster.{module}")}
    least = {**smallest_result(module), "changed": True}
    # The result of a report does not reach the main process.
    limit = answers.VALUES if module == "training_job_report" else answers.LARGE.get(module, answers.USUAL).values
    slow = {}
    for name, description in of_each_kind(documented):
        for number, grown in enumerate(variants(description)):
            part = filtered(module, {**least, name: grown(size(grown, limit // PART))}, limit // PART + 100)
            assert not part.get("failed") or name == "failed", (name, number, part["msg"][:300])
            # Other programs on a busy machine only add to the time. A try that is fast enough ends the measurement.
            for _try in range(TRIES):
                seconds = PART * main_process_seconds(part)
                if seconds < 1:
                    break
            else:
                slow[f"{name} {number}"] = seconds
    assert slow == {}


def size(grown, limit):
    """Return the number of members with which a value consists of `limit` values."""
    each = (count_values(grown(101), 1 << 40) - count_values(grown(1), 1 << 40)) / 100
    return int((limit - count_values(grown(1), 1 << 40)) / each) if each else 100_000


def filtered(module, result, limit):
    return documented_values.documented_part(result, f"deeplearning.cluster.{module}", "bert-worker2", limit)


@pytest.mark.parametrize("module", MODULES)
def test_more_values_are_refused_before_they_are_read(module):
    result = {"changed": False, "forged": [[] for _unused in range(30_000)]}
    part = filtered(module, result, answers.VALUES)
    assert part["msg"].startswith(f"bert-worker2: the result of {module} is not valid: it has more than 100000 values. Check the host, ")


def test_the_status_of_a_job_on_1000_hosts_is_accepted_and_shown_completely():
    names = [f"deeplearning-worker{number}" for number in range(1000)]
    processes = [
        {**PROCESS, "name": f"rank{number}", "host": name, "ranks": list(range(8)), "instance": "i-0123456789abcdef0", "exit_code": 0}
        for number, name in enumerate(names)
    ]
    buckets = dict.fromkeys(("training", "recomputed", "checkpoint", "start", "waiting", "detection", "restart", "idle", "end"), 1.0)
    spent = {
        "nodes": 1000,
        "seconds": 9.0,
        "ratio": 0.5,
        "buckets": buckets,
        "hosts": [{"host": name, "buckets": buckets} for name in names],
    }
    log = {"name": "rank0", "path": "/efs/jobs/digits/logs/rank0.log", "lines": ["x" * 80] * 10, "left_out": 0}
    job = {
        **JOB,
        "processes": processes,
        "goodput": spent,
        "step_times": [{"name": name, "seconds": 1.0, "slow": False} for name in names],
        "logs": [log] * 1000,
    }
    assert not filtered("training_job_info", {"changed": False, "jobs": [job]}, answers.LARGE["training_job_info"].values).get("failed")
    lines = job_formatting.process_table(processes)
    assert Budget().lines(lines) == "\n".join(lines)


def test_the_end_of_a_log_of_64_mib_is_accepted(tmp_path):
    line = b"step 1234 loss 0.123 with a few more words\n"
    (tmp_path / "rank0.log").write_bytes(line * ((64 << 20) // len(line)) + b"the end\n")
    process = {**PROCESS, "log": str(tmp_path / "rank0.log"), "ranks": [0]}
    found = watch.read_logs([process], {"name": "digits", "log_lines": 10_000, "log_process": None, "log_offsets": {}})
    assert found["logs"][0]["lines"][-1] == "the end"
    assert len(found["logs"][0]["lines"]) == 10_000
    job = {**JOB, **found}
    assert not filtered("training_job_info", {"changed": False, "jobs": [job]}, answers.LARGE["training_job_info"].values).get("failed")


def test_a_list_of_10_000_files_is_accepted():
    result = {**smallest_result("dataset"), "shares": [[f"folder/{number:0200}" for number in range(10_000)]]}
    assert not filtered("dataset", result, answers.LARGE["dataset"].values).get("failed")
    assert len(json.dumps(result)) < answers.LARGE["dataset"].size
