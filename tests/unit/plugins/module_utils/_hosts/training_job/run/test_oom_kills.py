"""Tests of the counts of the kernel."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job.run import oom_kills


@pytest.mark.parametrize(
    ("groups", "events", "count"),
    [
        ("0::/deeplearning.slice/x.service\n", "low 0\noom 1\noom_kill 2\n", 2),
        ("0::/deeplearning.slice/x.service\n", "low 0\noom_kill 0\n", 0),
        ("0::/deeplearning.slice/x.service\n", "low 0\n", None),
        ("0::/deeplearning.slice/x.service\n", "no numbers", None),
        ("0::/other.service\n", "oom_kill 2\n", None),
        ("12:memory:/deeplearning.slice/x.service\n", "oom_kill 2\n", None),
        ("0:/deeplearning.slice/x.service\n", "oom_kill 2\n", None),
    ],
)
def test_the_kernel_counts_the_processes_that_it_has_killed_for_lack_of_memory(tmp_path, groups, events, count):
    (tmp_path / "cgroup").write_text(groups)
    (tmp_path / "deeplearning.slice" / "x.service").mkdir(parents=True)
    (tmp_path / "deeplearning.slice" / "x.service" / "memory.events").write_text(events)
    assert oom_kills.oom_kills(str(tmp_path / "cgroup"), str(tmp_path)) == count
    assert oom_kills.oom_kills(str(tmp_path / "nowhere"), str(tmp_path)) is None


# The groups of a process with cgroup v1, and the contents of memory.oom_control after the kernel has killed a process, on Linux 6.18.
GROUPS_V1 = """\
9:name=systemd:/deeplearning.slice/x.service
8:pids:/
5:devices:/
4:memory:/deeplearning.slice/x.service
1:cpu:/
0::/
"""
OOM_CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"


@pytest.mark.parametrize(
    ("groups", "control", "count"),
    [
        (GROUPS_V1, OOM_CONTROL, 1),
        (GROUPS_V1.replace("4:memory:", "4:cpuset,memory:"), OOM_CONTROL, 1),
        (GROUPS_V1, OOM_CONTROL.replace("oom_kill 1", "oom_kill 0"), 0),
        (GROUPS_V1, "oom_kill_disable 0\nunder_oom 0\n", None),
        (GROUPS_V1.replace("memory:/deeplearning.slice/x.service", "memory:/deeplearning.slice"), OOM_CONTROL, None),
        (GROUPS_V1.replace("name=systemd", "name=other"), OOM_CONTROL, None),
    ],
    ids=["killed", "two controllers", "not killed", "before Linux 4.13", "memory of other units", "without systemd"],
)
def test_the_kernel_counts_with_the_first_version_of_cgroups_too(tmp_path, groups, control, count):
    (tmp_path / "cgroup").write_text(groups)
    for group in ("deeplearning.slice", "deeplearning.slice/x.service"):
        (tmp_path / "memory" / group).mkdir(parents=True)
        (tmp_path / "memory" / group / "memory.oom_control").write_text(control)
    assert oom_kills.oom_kills(str(tmp_path / "cgroup"), str(tmp_path)) == count


@pytest.mark.parametrize(("text", "count"), [("nr_free 7\noom_kill 3\n", 3), ("oom_kill\n", None), ("nr_free 7\n", None)])
def test_the_kernel_counts_the_kills_on_the_whole_host(tmp_path, text, count):
    (tmp_path / "vmstat").write_text(text)
    assert oom_kills.machine_oom_kills(str(tmp_path / "vmstat")) == count
    assert oom_kills.machine_oom_kills(str(tmp_path / "nowhere")) is None


@pytest.mark.parametrize(
    ("before", "now", "since"),
    [
        ((1, 5), (1, 6), 0),
        ((0, 5), (2, 7), 2),
        ((None, 5), (None, 5), 0),
        ((1, 5), (None, 5), 0),
        ((None, 5), (None, 6), None),
        ((None, None), (None, None), None),
    ],
)
def test_the_kills_since_an_earlier_count(monkeypatch, before, now, since):
    monkeypatch.setattr(oom_kills, "count_oom_kills", lambda: oom_kills.OomKills(*now))
    assert oom_kills.oom_kills_since(oom_kills.OomKills(*before)) == since
