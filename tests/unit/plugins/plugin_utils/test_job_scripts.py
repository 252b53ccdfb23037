"""Tests of the scripts that start the same processes as a job. A shell runs the scripts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition.job_parameters import SPECIFICATION, check
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import job_scripts

SHOW = """
import json, os, sys
print(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd(), open(os.environ["DEEPLEARNING_HOSTFILE"]).read()]))
"""


@pytest.fixture
def params(tmp_path):
    options = {name: spec.get("default") for name, spec in SPECIFICATION["argument_spec"].items()}
    hosts = [
        {"name": f"demo-{n}", "address": f"10.0.0.{n}", "number": n, "gpus": [0, 1], "interface": "ens5", "efa": False} for n in (2, 1)
    ]
    code = tmp_path / "jobs/bert/code"
    code.mkdir(parents=True)
    (tmp_path / "jobs/bert/logs").mkdir()
    (code / "show.py").write_text(SHOW)
    return {
        **options,
        "name": "bert",
        "directory": str(tmp_path / "jobs"),
        "script": "show.py",
        "python": sys.executable,
        "hosts": hosts,
        "arguments": ["two words", "$HOME", "it's"],
        "environment": {"GREETING": "a 'b'\n$c", "not-a-name": "1", "TOKEN": "the secret takes precedence"},
        "secrets": {"TOKEN": "hunter2"},
        "launcher": "tensorflow",
        "launcher_options": {"strategy": "flags"},
        "environment_by_task": {"ps": {"GREETING": "of servers"}},
    }


def of_launcher(params, name, **options):
    result = {**params, "launcher": name, "launcher_options": options, "environment_by_task": {}}
    check(result)
    return result


def scripts(params):
    check(params)
    return job_scripts.scripts(job_scripts.specs_of_job(params), params)


def test_processes_on_standby_have_no_script(params):
    params.update(launcher="torchrun", launcher_options={}, environment_by_task={}, spares=1)
    check(params)
    specs = job_scripts.specs_of_job(params)
    assert list(job_scripts.scripts(specs, params)) == ["demo-1"]
    assert job_scripts.lines(specs)[1] == "standby0 on demo-2: waits to take the place of a process on a lost host"


def run(script, **environment):
    """Run a script with bash, and wait for the processes that it starts."""
    return subprocess.run(
        ["bash", "-c", script + "wait\n"], env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True, text=True, check=False
    )


def test_a_shell_starts_the_processes_with_their_arguments_and_environments(params):
    finished = run(scripts(params)["demo-2"], TOKEN="hunter2")
    assert finished.returncode == 0, finished.stderr
    logs = Path(params["directory"], "bert/logs")
    found = {path.stem: json.loads(path.read_text()) for path in logs.iterdir()}
    assert sorted(found) == ["ps1", "worker2", "worker3"]
    for name, (arguments, environment, directory, hostfile) in found.items():
        assert arguments[:3] == ["two words", "$HOME", "it's"]
        assert f"--job_name={name[:-1]}" in arguments
        assert environment["TOKEN"] == "hunter2"
        assert environment["GREETING"] == ("of servers" if name == "ps1" else "a 'b'\n$c")
        assert environment["not-a-name"] == "1"
        assert environment["CUDA_VISIBLE_DEVICES"] == {"ps1": "", "worker2": "0", "worker3": "1"}[name]
        assert directory == str(Path(params["directory"], "bert/code"))
        assert hostfile == "demo-1 slots=2\ndemo-2 slots=2\n"


@pytest.mark.parametrize(
    ("of_shell", "expected"),
    [
        ({}, None),
        ({"no_proxy": ".corp"}, ".corp"),
        ({"https_proxy": "http://p"}, "localhost,127.0.0.1,::1,169.254.169.254,fd00:ec2::254,demo-1,10.0.0.1,demo-2,10.0.0.2"),
        (
            {"HTTP_PROXY": "http://p", "no_proxy": ".corp", "NO_PROXY": "a"},
            ".corp,a,localhost,127.0.0.1,::1,169.254.169.254,fd00:ec2::254,demo-1,10.0.0.1,demo-2,10.0.0.2",
        ),
        ({"http_proxy": "http://p", "no_proxy": "*"}, "*"),
    ],
)
def test_with_a_proxy_the_scripts_reach_the_jobs_hosts_directly(params, of_shell, expected):
    assert run(scripts(params)["demo-2"], TOKEN="hunter2", **of_shell).returncode == 0
    for path in Path(params["directory"], "bert/logs").iterdir():
        assert json.loads(path.read_text())[1].get("no_proxy") == expected


@pytest.mark.parametrize(("of_shell", "expected"), [({}, "C.UTF-8"), ({"LANG": "de_DE.UTF-8"}, "de_DE.UTF-8"), ({"LC_ALL": "C"}, None)])
def test_scripts_have_a_locale_and_an_active_conda_environment(params, tmp_path, of_shell, expected):
    scripts_of_conda = tmp_path / "conda/etc/conda/activate.d"
    scripts_of_conda.mkdir(parents=True)
    (scripts_of_conda / "p.sh").write_text('export PROJ_LIB="$CONDA_PREFIX/share/proj"\n')
    for folder in ("bin", "conda-meta"):
        (tmp_path / "conda" / folder).mkdir()
    params["python"] = str(tmp_path / "conda/bin/python")
    Path(params["python"]).symlink_to(sys.executable)
    assert run(scripts(params)["demo-2"], TOKEN="hunter2", **of_shell).returncode == 0
    for path in Path(params["directory"], "bert/logs").iterdir():
        environment = json.loads(path.read_text())[1]
        assert (environment.get("LANG"), environment["PROJ_LIB"]) == (expected, str(tmp_path / "conda/share/proj"))


def test_secrets_are_not_written_and_have_to_be_set(params):
    texts = scripts(params)
    assert "hunter2" not in json.dumps([texts, *job_scripts.lines(job_scripts.specs_of_job(params))])
    finished = run(texts["demo-1"])
    assert finished.returncode != 0
    assert "TOKEN: Set this secret before you run the script." in finished.stderr
    assert list(Path(params["directory"], "bert/logs").iterdir()) == []


def test_mpirun_uses_ssh_and_the_scripts_host_file(params):
    texts = scripts(of_launcher(params, "mpi"))
    assert "export OMPI_MCA_plm_rsh_agent=ssh\n" in texts["demo-1"]
    assert ' mpirun -np 4 --hostfile "$DEEPLEARNING_HOSTFILE" --map-by slot' in texts["demo-1"]
    assert "/run/deeplearning" not in json.dumps(texts)
    assert "\n# orted1: mpirun starts its processes on this host over SSH.\n" in texts["demo-2"]
    assert "&\n" not in texts["demo-2"]


def test_processes_have_a_line_each(params):
    specs = job_scripts.specs_of_job(of_launcher(params, "mpi"))
    assert [line.partition(" --hostfile")[0] for line in job_scripts.lines(specs)] == [
        "mpirun on demo-1: mpirun -np 4",
        "orted1 on demo-2: runs the commands that mpirun sends",
    ]
    (first, second) = job_scripts.processes(specs)
    assert (first["host"], first["rank"], first["log"]) == ("demo-1", 0, params["directory"] + "/bert/logs/mpirun.log")
    assert second["argv"] == []


@pytest.mark.parametrize("name", ["../x", ".bashrc", "a/b", "a b", "", "x" * 250])
def test_a_host_that_calls_itself_by_a_path_is_refused(params, name):
    params["hosts"][0]["name"] = name
    with pytest.raises(ValueError, match=r"^hosts: .* is not a valid host name. Use letters"):
        job_scripts.specs_of_job(of_launcher(params, "command"))


def test_scripts_are_written_once(tmp_path):
    folder, texts = tmp_path / "new/scripts", {"demo-1": "a\n", "demo-2": "b\n"}
    paths = [str(folder / "demo-1.sh"), str(folder / "demo-2.sh")]
    assert job_scripts.write(folder, texts, check_mode=True) == paths
    assert not folder.exists()
    assert job_scripts.write(folder, texts, check_mode=False) == paths
    assert (folder / "demo-1.sh").stat().st_mode & 0o777 == 0o755
    assert job_scripts.write(folder, texts, check_mode=False) == []
    assert job_scripts.write(folder, {**texts, "demo-2": "c\n"}, check_mode=False) == paths[1:]
    assert Path(paths[1]).read_text() == "c\n"
