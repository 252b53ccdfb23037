"""Tests of exclusions: who makes them, who ends them, and which files are trusted."""

from __future__ import annotations

import json
import os

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import exclusions, schema
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.exclusions import PERSON, RECOVERY, Exclusion, Memory

INSTANCE, OTHER = "i-0123456789abcdef0", "i-0fedcba9876543210"
XID = Exclusion("xid", "GPU 0000:64:00: Xid 79", 100.0, ("GPU-5f2d",))
CABLE = Exclusion(PERSON, "bad cable", 200.0)
BROKE = Exclusion(RECOVERY, "2 attempts of jobs failed because of this host", 300.0)
ALL = Memory(INSTANCE, (XID, CABLE, BROKE), 50.0)


@pytest.fixture(autouse=True)
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(exclusions, "PATH", str(tmp_path / "health/exclusions.json"))
    monkeypatch.setattr(exclusions, "OWNER", os.geteuid())
    return tmp_path / "health/exclusions.json"


def makers(memory):
    return [each.by for each in memory.exclusions]


def test_exclusions_are_kept_for_the_same_instance_only(path):
    exclusions.write(ALL)
    assert exclusions.read(INSTANCE) == ALL
    assert path.stat().st_mode & 0o777 == 0o644, "supervisors run as the job's user"
    assert exclusions.read(OTHER) == Memory(OTHER), "a new instance starts without exclusions"
    exclusions.write(Memory("", (CABLE,)))
    assert makers(exclusions.read("host-1")) == [PERSON], "outside AWS, the name of a host is no evidence of a new host"


def test_a_file_that_is_too_long_excludes_nothing(path):
    exclusions.write(ALL)
    path.write_text(path.read_text().ljust(schema.FILE_LIMIT))
    assert exclusions.read(INSTANCE) == ALL
    path.write_text(path.read_text() + " ")
    assert exclusions.read(INSTANCE) == Memory(INSTANCE)


def test_a_missing_file_excludes_nothing():
    assert exclusions.read(INSTANCE) == Memory(INSTANCE)


@pytest.mark.parametrize(
    "change",
    [
        {"instance": "../../etc"},
        {"exclusions": [{"by": "xid", "reason": "r", "since": "now", "gpus": []}]},
        {"exclusions": [{"by": "x y", "reason": "r", "since": 1, "gpus": []}]},
        {"exclusions": [{"by": "xid", "reason": "r" * 501, "since": 1, "gpus": []}]},
        {"exclusions": [{"by": "xid", "reason": "r", "since": 1, "gpus": ["GPU 1\n"]}]},
        {"exclusions": [{"by": "xid", "reason": "r", "since": 1, "gpus": []}] * 65},
        {"included": None},
    ],
)
def test_an_invalid_file_excludes_nothing(path, change):
    exclusions.write(ALL)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert exclusions.read(INSTANCE) == Memory(INSTANCE)


def test_a_file_that_others_can_write_excludes_nothing(path, monkeypatch):
    exclusions.write(ALL)
    for mode in (0o664, 0o646):
        path.chmod(mode)
        assert exclusions.read(INSTANCE) == Memory(INSTANCE)
    path.chmod(0o755)
    assert exclusions.read(INSTANCE) == ALL
    monkeypatch.setattr(exclusions, "OWNER", os.geteuid() + 1)
    assert exclusions.read(INSTANCE) == Memory(INSTANCE)
    monkeypatch.setattr(exclusions, "OWNER", os.geteuid())
    path.rename(path.parent / "other")
    path.symlink_to("other")
    assert exclusions.read(INSTANCE) == Memory(INSTANCE)


def test_only_the_check_that_made_an_exclusion_ends_it():
    assert makers(exclusions.after_checks(ALL, {"gpu_count", "root"})) == ["xid", PERSON, RECOVERY]
    assert makers(exclusions.after_checks(ALL, {"xid"})) == [PERSON, RECOVERY]
    assert makers(exclusions.after_checks(ALL, {PERSON, RECOVERY})) == ["xid", PERSON, RECOVERY]


def test_a_person_ends_all_exclusions_except_those_of_checks():
    assert exclusions.include(ALL, 400.0) == Memory(INSTANCE, (XID,), 400.0)


def test_an_exclusion_that_is_repeated_keeps_its_time():
    memory = exclusions.exclude(ALL, XID._replace(since=500.0, reason="Xid 94"))
    assert makers(memory) == ["xid", PERSON, RECOVERY]
    assert memory.exclusions[0] == XID._replace(reason="Xid 94")


def test_an_exclusion_with_too_much_text_or_too_many_gpus_is_shortened_so_that_the_file_stays_valid():
    gpus = tuple(f"GPU-{number}" for number in range(100))
    exclusions.write(exclusions.exclude(Memory(INSTANCE), XID._replace(reason="r" * 1000, gpus=gpus)))
    assert exclusions.read(INSTANCE).exclusions == (XID._replace(reason="r" * exclusions.REASON_LIMIT, gpus=gpus[: exclusions.GPUS_LIMIT]),)


def test_descriptions_say_who_excluded_the_host_and_why():
    assert exclusions.describe_all(ALL.exclusions) == (
        "since 1970-01-01 00:01 UTC by the check xid: GPU 0000:64:00: Xid 79 (GPU-5f2d). "
        "since 1970-01-01 00:03 UTC by a person: bad cable. "
        "since 1970-01-01 00:05 UTC after repeated failures of jobs: 2 attempts of jobs failed because of this host."
    )
    assert "xid" not in exclusions.describe_all(ALL.exclusions, with_checks=False)
    assert exclusions.describe_all([]) == ""


def test_a_description_names_up_to_three_gpus_after_the_reason():
    exclusion = XID._replace(reason="Xid 79.", gpus=("GPU-1", "GPU-2", "GPU-3", "GPU-4"))
    assert exclusions.describe_all([exclusion]).endswith(": Xid 79 (GPU-1, GPU-2, GPU-3).")
