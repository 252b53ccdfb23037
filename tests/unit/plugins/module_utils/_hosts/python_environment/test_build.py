"""Tests that check what the module builds, and what pip reports about an existing environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pip
import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils import _files
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.python_environment import definition as environments
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.python_environment import build, record


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
    with pytest.raises(record.EnvironmentRefusalError, match=r"available: both, mxnet_p37, pytorch\).*specify requirements"):
        build.from_image("nvidia")


@pytest.mark.parametrize(
    ("requirements", "words"), [("pytest\n", ""), ("pytest==0.1\n", "pytest==0.1"), ("no-such-package\n", "no-such-package")]
)
def test_pip_tells_whether_an_environment_has_what_is_listed(tmp_path, requirements, words):
    (tmp_path / "requirements.txt").write_text(requirements)
    argv = [sys.executable, *build.CHECK, str(tmp_path / "requirements.txt")]
    done = subprocess.run(argv, env={**os.environ, "PIP_CONFIG_FILE": os.devnull}, capture_output=True, text=True, check=False)
    found = environments.missing(done.returncode, _files.parse_object(done.stdout), done.stderr)
    assert words in found
    assert bool(found) == bool(words)


class Module:
    """A module of Ansible whose commands fail with the given output."""

    check_mode, tmpdir = False, None

    def __init__(self, folder, output):
        self.output, self.environments = output, []
        self.params = {
            "name": "bert",
            "contents": "--extra-index-url https://${DEEPLEARNING_URL_1}@h/simple\nnumpy\n",
            "credentials": {"DEEPLEARNING_URL_1": "u:s3cr3t"},
            "directory": str(folder),
            "installer": "pip",
            "python": sys.executable,
            "index_url": "https://aws:t0k3n@h/simple",
            "find_links": [],
            "build_variables": {},
            "no_build_isolation": [],
            "timeout": 1,
        }

    def run_command(self, argv, environ_update=None, **_options):
        self.environments.append(environ_update or {})
        return (0, '["x86_64", "3.11"]', "") if build.PROBE in argv else (1, "", self.output)


def test_no_message_and_no_file_contains_secrets(tmp_path):
    module = Module(tmp_path, "could not fetch https://u:s3cr3t@h/simple/numpy, https://aws:t0k3n@h/simple\n")
    with pytest.raises(record.EnvironmentRefusalError, match=r"could not fetch https://\*\*\*@h/simple/numpy, https://\*\*\*@h/simple"):
        build.ensure(module)
    assert module.environments[-1]["DEEPLEARNING_URL_1"] == "u:s3cr3t"
    texts = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert texts
    assert not any(secret in text for text in texts for secret in ("s3cr3t", "t0k3n"))


def test_the_difference_says_that_a_hidden_part_of_a_url_has_changed(tmp_path):
    module = Module(tmp_path, "")
    module.check_mode = True
    module.params["contents"] = "p @ https://h/${DEEPLEARNING_URL_1}/p.whl\n"

    def ensured(version):
        module.params["credentials"] = {"DEEPLEARNING_URL_1": version}
        return build.ensure(module)

    first = ensured("version1")
    place = environments.BuildLocation(*os.path.split(first["prefix"]))
    os.makedirs(place.path)
    Path(place.record).write_text(json.dumps({"specification": first["diff"][0]["after"]}))
    build.make_current(place)
    assert not ensured("version1")["changed"]
    (diff,) = ensured("version2")["diff"]
    assert diff["before"] == f"# a part of a URL that is not shown, the package index or find_links has changed\n{diff['after']}"
    assert not any("version" in text for text in (*diff.values(), *(path.read_text() for path in tmp_path.rglob("*.json"))))


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_build_variables_reach_the_installer(tmp_path, installer):
    """For example, `UV_INDEX_STRATEGY` selects how uv uses several indexes."""
    module = Module(tmp_path, "")
    module.params.update(installer=installer, build_variables={"UV_INDEX_STRATEGY": "unsafe-best-match"})
    with pytest.raises(record.EnvironmentRefusalError):
        build.ensure(module)
    assert module.environments[-1]["UV_INDEX_STRATEGY"] == "unsafe-best-match"


class RunningModule(Module):
    """A module of Ansible that runs its commands."""

    def run_command(self, argv, environ_update=None, **_options):
        done = subprocess.run(argv, env={**os.environ, **(environ_update or {})}, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr


def test_packages_in_the_home_directory_are_no_part_of_an_environment(tmp_path, monkeypatch):
    """A conda environment can import them, like this one, but jobs run as another user."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(pip.__file__).parents[1]))
    venv.create(tmp_path / "image", system_site_packages=True)
    python = str(tmp_path / "image/bin/python")
    found = subprocess.run([python, "-m", "site", "--user-site"], capture_output=True, text=True, check=True)
    package = Path(found.stdout.strip()) / "own_package-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: own-package\nVersion: 1.0\n")
    assert "own-package" in build.lacks(RunningModule(tmp_path, ""), python, "own-package==1.0\n")


def test_a_failure_to_create_an_environment_names_the_option_of_the_interpreter(tmp_path):
    module = Module(tmp_path, "Error: Command '['bin/python3', '-m', 'ensurepip']' returned non-zero exit status 1.\n")
    with pytest.raises(record.EnvironmentRefusalError, match=r"could not create .*\n.*ensurepip.*\nCheck python_environment_python\."):
        build.ensure(module)


def test_an_interpreter_that_does_not_start_is_refused(tmp_path):
    (tmp_path / "python3").write_text("#!/bin/sh\necho 'Fatal Python error: Failed to import encodings module' >&2\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    module = RunningModule(tmp_path, "")
    module.params["python"] = str(tmp_path / "python3")
    with pytest.raises(record.EnvironmentRefusalError, match=r"encodings module\. Specify a Python interpreter that works on this host\.$"):
        build.ensure(module)
