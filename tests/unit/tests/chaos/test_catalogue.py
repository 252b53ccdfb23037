"""Tests of the catalogue of the chaos suite."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import yaml
from chaos import runner
from chaos.catalogue import HEALTH_FAULTS, JOB_FAULTS, NOTICED, SCRIPT, line_of
from chaos.faults import health
from chaos.job import EARLY, OPTIONS

DEFAULTS = Path(__file__).resolve().parents[4] / "roles/training_job/defaults/main.yml"
ALL = (*JOB_FAULTS, *HEALTH_FAULTS)


def test_at_least_60_faults_have_different_names():
    assert len({fault.name for fault in ALL}) == len(ALL) >= 60


@pytest.mark.parametrize("fault", ALL, ids=lambda fault: fault.name)
def test_each_fault_has_an_injector_that_accepts_its_arguments(fault):
    module, _dot, name = fault.injector.partition(".")
    function = getattr({**runner.INJECTORS, "health": health}[module], name)
    inspect.signature(function).bind("the job or the host", **fault.arguments)


@pytest.mark.parametrize("fault", JOB_FAULTS, ids=lambda fault: fault.name)
def test_what_is_expected_of_a_job_is_complete(fault):
    assert fault.survivable or (fault.causes and fault.why)
    assert bool(fault.causes) == (fault.noticed in NOTICED), "each detection has a time limit"
    for pattern in (*fault.causes, fault.why):
        re.compile(pattern.replace("{rank}", "1").replace("{host}", "host"))
    assert re.fullmatch(r"[a-z0-9_]{1,50}", fault.name)


def test_a_spare_can_take_the_place_of_a_host_only_in_a_job_with_spares():
    assert {fault.name for fault in JOB_FAULTS if fault.replaced} == {
        "host_lost_with_spare",
        "first_host_lost_with_spare",
        "host_suspected_with_spare",
        "gpu_fails_with_spare",
        "gpu_fails_while_ranks_run",
        "gpu_needs_reboot",
    }
    assert [fault.name for fault in JOB_FAULTS if fault.replaced and (fault.began_with, fault.ranks) != (3, 3)] == []


def test_each_fault_of_a_host_is_expected_to_be_found():
    assert [fault.name for fault in HEALTH_FAULTS if not fault.expected] == []


def test_lines_of_bugs_are_those_of_the_script():
    assert line_of("key") == line_of("value") + 1
    lines = SCRIPT.read_text().splitlines()
    assert [lines[line_of(kind) - 1].strip() for kind in ("fail", "stuck")] == ["BUGS[kind]()", "time.sleep(1)"]


def test_some_jobs_use_the_defaults_of_the_role_and_deterministic_bugs_have_three_attempts():
    assert len([fault for fault in JOB_FAULTS if fault.role_defaults]) >= 20
    role = yaml.safe_load(DEFAULTS.read_text())
    assert OPTIONS["restarts"] == role["training_job_restarts"]
    assert [name for name in OPTIONS if name not in ("launcher", "python", "report", "restarts")] == []
    assert EARLY["hang_minimum"] == 0
    assert [fault.name for fault in JOB_FAULTS if fault.name.startswith("bug_") and fault.attempts > 3] == []
