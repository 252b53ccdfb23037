"""A short run of the chaos suite: jobs with a few faults, and health checks on hosts with a few other faults."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import checks, runner
from .catalogue import HEALTH_FAULTS, JOB_FAULTS
from .judge import judge
from .schedule import schedule

SEED = 12
# The machine also runs other tests.
SLACK = 6.0

# Faults of different kinds, each of which affects only its own job.
CHOSEN = ("rank_sigkill", "checkpoint_garbage", "bug_value")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with runner.chaos_cluster(tmp_path_factory.mktemp("chaos")) as result:
        yield result


@pytest.mark.parametrize("name", CHOSEN)
def test_a_job_with_a_fault_ends_as_it_must(cluster, name):
    (fault,) = (each for each in JOB_FAULTS if each.name == name)
    seen = runner.run(cluster, fault, SEED)
    assert judge(fault, seen, runner.undisturbed(*runner.undisturbed_job(fault)), SLACK) == []


def test_health_checks_find_the_faults_that_hosts_have(cluster):
    of_one_run = [fault for fault in HEALTH_FAULTS if not fault.parameters and runner.can_inject(cluster, fault)]
    chosen = schedule(of_one_run, len(cluster.hosts), SEED)
    assert {fault.name: complaints for fault, complaints in checks.judge_faults(cluster, chosen)} == {fault.name: [] for fault in chosen}
    assert checks.wrong_verdicts(cluster, 1) == (len(cluster.hosts), [])


def test_requests_of_hosts_go_to_the_log_and_not_between_the_results(tmp_path):
    """werkzeug shows each request on standard error, unless the process has configured its log."""
    code = """
import logging, sys
from pathlib import Path
from chaos.__main__ import log_to
from werkzeug.serving import WSGIRequestHandler
log_to(Path(sys.argv[1]))
from werkzeug._internal import _log
_log("info", "GET /latest/meta-data")
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    log = tmp_path / "new" / "log"
    done = subprocess.run([sys.executable, "-c", code, log], env=environment, capture_output=True, text=True, timeout=300, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    assert "GET /latest/meta-data" in log.read_text()
