"""What the module and the action for Python environments decide before anything is installed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.action.python_environment import read_requirements
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.python_environment import build, record
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.python_environment import definition as environments

PYTHON = environments.Interpreter("/usr/bin/python3", "x86_64", "3.10")


def place(requirements="torch==2.7\n", installer="pip", interpreter=PYTHON):
    specification = environments.specify(environments.normalise(requirements), installer, interpreter)
    return environments.place_of("/efs/environments", "bert", specification, interpreter)


def test_another_build_for_what_makes_a_difference_only():
    assert place("# our pins\n\n  torch==2.7  \n") == place()
    others = [place("torch==2.8\n"), place(installer="uv"), place(interpreter=PYTHON._replace(path="/opt/pytorch/bin/python"))]
    assert {other.folder for other in others} == {"/efs/environments/bert/x86_64-python3.10"}
    assert len({place().digest, *(other.digest for other in others)}) == 4
    assert place(interpreter=PYTHON._replace(machine="aarch64")).folder == "/efs/environments/bert/aarch64-python3.10"


@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", "bert large"])
def test_names_that_would_lead_elsewhere_are_refused(name):
    with pytest.raises(ValueError, match="letters, digits"):
        environments.check_name(name)


def test_the_environments_of_an_image_are_found_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "IMAGE_PLACES", (f"{tmp_path}/opt/{{0}}", "~/anaconda3/envs/{0}"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for folder in ("opt/pytorch", "opt/both", "home/anaconda3/envs/both", "home/anaconda3/envs/mxnet_p37"):
        (tmp_path / folder / "bin").mkdir(parents=True)
        (tmp_path / folder / "bin/python").symlink_to(sys.executable)
    (tmp_path / "opt/nvidia").mkdir()
    assert environments.image_environment("both") == f"{tmp_path}/opt/both"
    assert environments.image_environment("mxnet_p37") == f"{tmp_path}/home/anaconda3/envs/mxnet_p37"
    assert environments.image_environment("nvidia") is None
    with pytest.raises(record.RefusalError, match=r"it has both, mxnet_p37, pytorch\).*give requirements"):
        build.from_image("nvidia")


@pytest.mark.parametrize("line", ["-r base.txt", "--constraint=pins.txt", "-e .", "./wheels/a.whl", "-cpins.txt"])
def test_requirements_that_need_other_files_are_refused(tmp_path, line):
    (tmp_path / "requirements.txt").write_text(f"torch==2.7\n{line}\n")
    with pytest.raises(AnsibleActionFail, match=f"'requirements.txt': line 2, '{line}', names another file"):
        read_requirements("requirements.txt", ["/nowhere", str(tmp_path)])


def test_requirements_are_read_on_the_controller(tmp_path):
    text = "--index-url https://example.com/simple\ntorch==2.7 ; python_version > '3'\nown @ https://example.com/own.whl\n"
    (tmp_path / "requirements.txt").write_text(text)
    assert read_requirements("requirements.txt", ["/nowhere", str(tmp_path)]) == text
    with pytest.raises(AnsibleActionFail, match=r"'other.txt' is not a file on the controller \(looked in /nowhere\)"):
        read_requirements("other.txt", ["/nowhere"])


@pytest.mark.parametrize(
    ("installer", "uv", "programs"),
    [
        ("pip", "/usr/bin/uv", ["/usr/bin/python3", "/e/bin/python"]),
        ("uv", "/usr/bin/uv", ["/usr/bin/uv", "/usr/bin/uv"]),
        ("uv", None, ["/usr/bin/python3", "/tmp/s/uv/bin/python", "/tmp/s/uv/bin/uv", "/tmp/s/uv/bin/uv"]),
    ],
    ids=["pip", "uv", "uv-missing"],
)
def test_uv_is_installed_for_the_build_where_it_is_missing(installer, uv, programs):
    steps = environments.build_steps(installer, PYTHON.path, "/e", "/tmp/s/requirements.txt", uv, "/tmp/s")
    assert [step.argv[0] for step in steps] == programs
    assert steps[-1].argv[-1] == "/tmp/s/requirements.txt"


def test_addresses_with_tokens_are_on_no_command_line():
    variables = environments.installer_variables("https://user:token@example.com/simple", ["/efs/wheels", "https://example.com/wheels"])
    assert variables["PIP_INDEX_URL"] == variables["UV_DEFAULT_INDEX"] == "https://user:token@example.com/simple"
    assert variables["PIP_FIND_LINKS"].split() == variables["UV_FIND_LINKS"].split(",") == ["/efs/wheels", "https://example.com/wheels"]
    assert not {"PIP_INDEX_URL", "PIP_FIND_LINKS"} & environments.installer_variables(None, []).keys(), "what the host is configured for"


def test_a_failure_ends_with_the_last_lines():
    step = environments.Step("install the requirements", ["pip"])
    text = environments.describe_failure(step, "".join(f"line {number}\n\n" for number in range(40)))
    assert text.splitlines()[0] == "could not install the requirements:"
    assert text.splitlines()[1:] == [f"line {number}" for number in range(28, 40)]


@pytest.mark.parametrize(
    ("requirements", "words"), [("pytest\n", ""), ("pytest==0.1\n", "pytest==0.1"), ("no-such-package\n", "no-such-package")]
)
def test_pip_tells_whether_an_environment_has_what_is_listed(tmp_path, requirements, words):
    (tmp_path / "requirements.txt").write_text(requirements)
    argv = [sys.executable, *build.CHECK, str(tmp_path / "requirements.txt")]
    done = subprocess.run(argv, env={**os.environ, "PIP_CONFIG_FILE": os.devnull}, capture_output=True, text=True, check=False)
    found = environments.missing(done.returncode, record.parse(done.stdout), done.stderr)
    assert words in found
    assert bool(found) == bool(words)


def test_a_record_is_locked_and_read_half_written(tmp_path):
    path = str(tmp_path / "record.json")
    with record.exclusive(path, 0) as held:
        assert not held.waited
        held.write({"error": "a long reason for a failure"})
        held.write({"specification": "torch"})
        with pytest.raises(record.RefusalError, match="another host still builds it"), record.exclusive(path, 0):
            pass
    assert record.read(path) == {"specification": "torch"}
    (tmp_path / "record.json").write_text('{"specif')
    assert record.read(path) == {}
    assert record.read(str(tmp_path / "none.json")) == {}
