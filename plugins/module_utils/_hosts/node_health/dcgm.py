# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the diagnostic tests of NVIDIA's Data Center GPU Manager (DCGM) on all GPUs of a host.

The formats are those that `dcgmi diag --json` of DCGM 2 to 4 writes. DCGM 4 names the GPU of a result with `entity_group` and `entity_id`,
DCGM 3 with `gpu_id`, and older versions with `gpu_ids`. Before DCGM 3.3, a warning is a text without a severity. DCGM 3 writes the text of
warnings about the whole host to `warnings` instead of `warning`. Sources: https://github.com/NVIDIA/DCGM, dcgmi/Diag.cpp and
dcgmlib/dcgm_errors.h.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import subprocess
from functools import partial
from typing import Any, Iterator, NamedTuple, Sequence

from ..._common import gpus
from ..._common.node_health.check import DEEP, MONITOR, REBOOT, REPLACE, RESTART, SEVERITIES, Check, CheckedNode, Problem
from . import gpu
from .gpu_counts import has_nvlinks

PROGRAM = "dcgmi"
# The default level of the tests, and the time limit in seconds. According to NVIDIA, level 2 takes about two minutes.
LEVEL, SECONDS = 2, 900

# Seconds that dcgmi has to stop the tests, which run in a different process, and seconds for everything else that the check does.
GRACE, MARGIN = 10, 60
# The log of the tests, and the brackets of JSON.
LOG, PAIRS = "/var/log/nvidia-dcgm/nvvs.log", {"{": "}", "[": "]"}
# Parts of what dcgmi prints, in lower case, if it cannot reach the daemon that runs the tests, or if the daemon was started when the driver
# was not loaded.
NEEDS_START = ("host engine", "nvml doesn't exist", "no gpus")

# Numbers of GPUs are less than this number. DCGM 3 writes larger or negative numbers if a fault belongs to no GPU.
GPUS = 1024
FAILED, PASSED = "failed", "Pass"
# The statuses of tests that have found something, and of those that have not.
VERBS, FOUND_NOTHING = {"Fail": FAILED, "Warn": "warns", PASSED: "passed with a warning"}, ("Skip", "Not Run", "")
# DCGM's severities (dcgmErrorSeverity_t). A failed test with any other severity, or without a severity, requires `restart`.
DCGM_MONITOR, DCGM_ISOLATE, DCGM_CONFIG, DCGM_RESET = 1, 2, 5, 6
CONSEQUENCES = {DCGM_MONITOR: MONITOR, DCGM_CONFIG: MONITOR, DCGM_ISOLATE: REPLACE, DCGM_RESET: REBOOT}


class Diagnosis(NamedTuple):
    """The output and the exit status of dcgmi, or the reason why the tests did not run.

    All are empty if the host has no GPUs or no dcgmi.
    """

    output: str = ""
    error: str = ""
    status: int = 0


def check(level: int, seconds: int) -> Check:
    """Return the check that runs the tests of a level for at most `seconds`."""
    return Check(
        name="dcgm",
        read=partial(read, level, seconds),
        decide=decide,
        severities=(MONITOR, RESTART, REBOOT, REPLACE),
        description="failed [tests of DCGM](#deep-checks); tests that do not run, or that do not end in time. Runs only with "
        "`node_health_deep`",
        contexts=(DEEP,),
        limit=seconds + MARGIN,
        subject=PROGRAM,
    )


def read(level: int, seconds: int, node: CheckedNode) -> Diagnosis:
    """Run the tests, unless a process uses a GPU, which would make tests fail."""
    program = shutil.which(PROGRAM, path=gpus.DIRECTORIES)
    if program is None or not gpu.has_gpus(node):
        return Diagnosis()
    users = [f"process {process.pid} ({process.name})" for each in gpu.read_gpus(node).gpus for process in each.processes]
    if users:
        return Diagnosis(error=f"the GPUs are in use by {users[0]}, and the tests need idle GPUs. Wait until no job is running")
    process = subprocess.Popen(
        [program, "diag", "--run", str(level), "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        output, error = (stream.decode("utf-8", "replace") for stream in process.communicate(timeout=seconds))
    except subprocess.TimeoutExpired:
        _stop(process)
        return Diagnosis(error=f"no result within {seconds} s")
    if process.returncode and not output.strip() and not error.strip():
        return Diagnosis(error=f"exit status {process.returncode}. Read {LOG}")
    return Diagnosis(output if output.strip() else error, status=process.returncode)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End dcgmi. After SIGINT, dcgmi first stops the tests."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.send_signal(number)
            process.communicate(timeout=GRACE)
            return


def decide(diagnosis: Diagnosis, node: CheckedNode) -> list[Problem]:
    """Return a problem for each test that has failed on a GPU, worst first, or one problem if the tests did not run."""
    if diagnosis == Diagnosis():
        return []
    error, problems = diagnosis.error, []
    if not error:
        try:
            tests, error = parse(diagnosis.output, diagnosis.status)
            problems = [_without_nvlinks(problem, node) for test in tests for problem in _failures(test)]
        except (ValueError, KeyError, TypeError, AttributeError):
            error = next((line.strip() for line in diagnosis.output.splitlines() if line.strip()), "no output")
    if error:
        needs_start = any(words in error.lower() for words in NEEDS_START)
        start = " To restart the DCGM daemon, run: systemctl restart nvidia-dcgm" if needs_start else ""
        did = "the tests did not end" if problems else "the tests did not run"
        problems.append((MONITOR, f"{PROGRAM} diag: {did}: {error.rstrip('.')}.{start}"))
    return sorted(problems, key=lambda problem: -SEVERITIES.index(problem[0]))


def _without_nvlinks(problem: Problem, node: CheckedNode) -> Problem:
    """Return a problem of NVLinks as information on hosts without NVLinks, on which DCGM can report that NVLinks are down."""
    is_link = re.search(r"nvlink.* down", problem[1], re.IGNORECASE)
    return (MONITOR, problem[1]) if is_link and has_nvlinks(node.instance_type) is False else problem


def parse(output: str, status: int = 0) -> tuple[list[dict[str, Any]], str]:
    """Return the tests in the output of dcgmi, and the error that ended them.

    Raises ValueError, KeyError, TypeError or AttributeError if the output has a different format. dcgmi may print other lines before and
    after the JSON document. An incomplete document is read up to its last complete value.
    """
    start, error = output.index("{"), ""
    try:
        document, _end = json.JSONDecoder().raw_decode(output, start)
    except ValueError:
        document, error = json.loads(_completed(output[start:])), f"the output is incomplete (exit status {status}). Read {LOG}"
    found = document.get("DCGM Diagnostic") or document["DCGM GPU Diagnostic"]
    tests = [test for category in found.get("test_categories") or () for test in category.get("tests") or () if "name" in test]
    return tests, error or found.get("runtime_error") or ("" if tests else "the output contains no results")


def _completed(text: str) -> str:
    """Return an incomplete JSON document up to its last complete object or list, with all brackets closed."""
    opened: list[str] = []
    complete = ""
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[{\]}]', text):
        if match[0] in PAIRS:
            opened.append(PAIRS[match[0]])
        elif match[0] in PAIRS.values() and opened:
            opened.pop()
            complete = text[: match.end()] + "".join(reversed(opened))
    return complete


def _failures(test: dict[str, Any]) -> Iterator[Problem]:
    """Yield the problems that a test has found. With DCGM 4, only the summary of a test mentions problems that belong to no GPU."""
    results = [result for result in test.get("results") or () if _has_found_something(result)]
    for result in results or filter(_has_found_something, [test.get("test_summary") or {}]):
        verb = VERBS.get(_status(result), f"has the unknown status {_status(result)!r}")
        for severity, text in _warnings(result) or [(RESTART, "")]:
            message = f"{_subject(result)}: DCGM test {test['name']!r} {verb}{': ' if text else '.'}{text}"
            yield severity if verb == FAILED else MONITOR, message


def _has_found_something(result: dict[str, Any]) -> bool:
    return _status(result) not in FOUND_NOTHING and (_status(result) != PASSED or bool(_warnings(result)))


def _status(result: dict[str, Any]) -> str:
    return str(result.get("status", ""))


def _subject(result: dict[str, Any]) -> str:
    """Return the GPU or other device that a result is about, such as `GPU 3`.

    For tests of the whole host, DCGM 3 reports a single result for all GPUs, with the number of the GPU of the last warning.
    """
    if "entity_id" in result:
        return f"{result.get('entity_group', 'GPU')} {result['entity_id']}"
    number = str(result.get("gpu_id", result.get("gpu_ids")))
    is_single = number.isdigit() and int(number) < GPUS and (isinstance(result.get("gpu_id"), str) or len(_warnings(result)) == 1)
    return f"GPU {number}" if is_single or "gpu_ids" in result else "GPUs"


def _warnings(result: dict[str, Any]) -> Sequence[Problem]:
    """Return the warnings of a failed result as pairs of severity and text."""
    given = result.get("warnings") or []
    found = []
    for each in [given] if isinstance(given, str) else given:
        if isinstance(each, dict):
            text = str(each.get("warning") or each.get("warnings") or "")
            found.append((CONSEQUENCES.get(each.get("error_severity", -1), RESTART), text))
        elif each:
            found.append((RESTART, str(each)))
    return found
