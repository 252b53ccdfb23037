"""Tests of the environment of a job's processes: what the login shell adds, and which hosts are reached without a proxy server."""

from __future__ import annotations

import os
import subprocess

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition import process_environment

NEAR = "localhost,127.0.0.1,::1,169.254.169.254,fd00:ec2::254"
PEERS = ["demo-1", "10.0.0.1", "demo-2", "10.0.0.2"]


@pytest.fixture
def find(tmp_path, monkeypatch):
    """Return a function that returns the environment of a process on a host with a profile."""

    def environment(profile="", own_profile=False, programs="/opt/pytorch/bin", **own):
        (tmp_path / "profile").write_text(profile)
        monkeypatch.setattr(process_environment, "PROFILE", str(tmp_path / "profile"))
        for name in [*os.environ]:
            if name.lower().endswith("_proxy") or name.startswith(("LC_", "LANG")):
                monkeypatch.delenv(name)
        spec = {"own_profile": own_profile, "programs": programs, "environment": own, "peers": PEERS}
        return process_environment.process_environment(spec)

    return environment


@pytest.mark.parametrize(
    ("profile", "own", "expected"),
    [
        ("export https_proxy=http://p:3128", {}, f"{NEAR},demo-1,10.0.0.1,demo-2,10.0.0.2"),
        ("export HTTP_PROXY=http://p:3128 no_proxy=.corp,demo-2", {}, f".corp,demo-2,{NEAR},demo-1,10.0.0.1,10.0.0.2"),
        ("export http_proxy=http://p NO_PROXY=a no_proxy=b", {}, f"b,a,{NEAR},demo-1,10.0.0.1,demo-2,10.0.0.2"),
        ("", {"all_proxy": "socks5://p:1080", "NO_PROXY": ".mine"}, f".mine,{NEAR},demo-1,10.0.0.1,demo-2,10.0.0.2"),
        ("export http_proxy=http://p no_proxy='*'", {}, "*"),
    ],
)
def test_with_a_proxy_the_jobs_hosts_are_reached_directly(find, profile, own, expected):
    found = find(profile, **own).variables
    assert (found["no_proxy"], found["NO_PROXY"]) == (expected, expected)


def test_without_a_proxy_nothing_is_added(find):
    found = find("export no_proxy=.corp http_proxy=").variables
    assert (found["no_proxy"], found.get("NO_PROXY")) == (".corp", None)


@pytest.mark.parametrize(
    ("profile", "own", "expected"),
    [
        ("", {}, "C.UTF-8"),
        ("export LANG=de_DE.UTF-8", {}, "de_DE.UTF-8"),
        ("", {"LC_ALL": "en_US.UTF-8"}, None),
        ("export LANG=", {}, "C.UTF-8"),
    ],
)
def test_texts_are_utf_8_unless_a_locale_is_set(find, profile, own, expected):
    assert find(profile, **own).variables.get("LANG") == expected


def test_packages_of_an_earlier_jobs_user_are_not_found(find):
    assert find().variables["PYTHONUSERBASE"] == "/tmp/python-user"
    assert find(PYTHONUSERBASE="/opt/mine").variables["PYTHONUSERBASE"] == "/opt/mine"
    assert "PYTHONUSERBASE" not in find(own_profile=True).variables


def test_a_conda_environment_is_active(find, tmp_path):
    scripts = tmp_path / "my conda/etc/conda/activate.d"
    scripts.mkdir(parents=True)
    (scripts / "p.sh").write_text('export PROJ_LIB="$CONDA_PREFIX/share/proj" ARGUMENTS="$*"\n')
    programs = str(tmp_path / "my conda/bin")
    assert "PROJ_LIB" not in find(programs=programs).variables, "not a conda environment"
    (tmp_path / "my conda/conda-meta").mkdir()
    found = find("echo hello", programs=programs).variables
    assert (found["CONDA_PREFIX"], found["PROJ_LIB"]) == (str(tmp_path / "my conda"), str(tmp_path / "my conda/share/proj"))
    assert (found["PATH"].split(":")[0], found["ARGUMENTS"]) == (programs, "")


@pytest.mark.parametrize(
    ("profile", "problem"),
    [
        ("exit 1", "it ended with exit status 1 before its end"),
        ('[ -n "$PS1" ] || exit 0', "it ended with exit status 0 before its end"),
        ("echo hello; false", ""),
        ("read answer; export A=1", ""),
    ],
)
def test_a_profile_that_ends_the_shell_is_a_problem(find, monkeypatch, profile, problem):
    monkeypatch.setenv("OF_THE_UNIT", "1")
    found = find(profile, OWN="2")
    assert found.problem == problem
    assert (found.variables["OF_THE_UNIT"], found.variables["OWN"]) == ("1", "2")


@pytest.mark.parametrize(
    ("error", "problem"), [(subprocess.TimeoutExpired("bash", 30), "it has not ended after 30 s"), (OSError("no shell"), "no shell")]
)
def test_a_login_shell_that_fails_is_a_problem(monkeypatch, error, problem):
    def run(command, *, timeout, **_options):
        assert (command[:3], timeout) == (["/bin/bash", "--login", "-c"], 30)
        raise error

    monkeypatch.setattr(process_environment.subprocess, "run", run)
    monkeypatch.setenv("OF_THE_UNIT", "1")
    found = process_environment.login_environment(own_profile=True)
    assert (found.problem, found.variables) == (problem, dict(os.environ))


def test_variables_of_the_shell_itself_are_left_out(find):
    found = find("export A=b=c OLDPWD=/old PATH=/usr/bin").variables
    assert found["A"] == "b=c"
    assert found["PATH"] == "/opt/pytorch/bin:/usr/bin"
    assert not {"_", "SHLVL", "PWD", "OLDPWD"} & found.keys()
