"""The role python_environment on two real hosts that share storage and cannot access a package index."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from pathlib import Path

import pytest
import yaml
from local_cloud.testing import wait_until

from .cluster import FILE_SYSTEM, job_cluster
from .packages import APT_REPOSITORY, WHEELS, download

pytestmark = pytest.mark.exhaustive

ENVIRONMENTS = "/efs/environments/tiny/x86_64-python3.11"

# Builds a package from a file of a system package, a variable, and another package, which an isolated build could not import.
BACKEND = """
import os, zipfile
import tiny

def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = "options-1.0-py3-none-any.whl"
    text = f"{open('/usr/local/share/greeting').read().strip()} {os.environ['WITH_MPI']} {tiny.version}"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as wheel:
        wheel.writestr("options.py", f"text = {text!r}\\n")
        wheel.writestr("options-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: options\\nVersion: 1.0\\n")
        wheel.writestr("options-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("options-1.0.dist-info/RECORD", "")
    return name
"""
PROJECT = "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("environments")
    with job_cluster(folder, ["pytorch"], count=2) as result:
        result.hosts[0].ssh("mkdir /efs/wheels")
        for version in ("1.0", "2.0"):
            write_wheel(wheels(result), version)
        yield result


def wheels(cluster):
    """Return the path on this machine of the directory that the hosts see as /efs/wheels."""
    return cluster.folder / "file-systems" / FILE_SYSTEM / "wheels"


def write_wheel(folder, version):
    """Write the wheel of a package that contains only its version."""
    metadata = f"tiny-{version}.dist-info"
    with zipfile.ZipFile(folder / f"tiny-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", f"version = {version!r}\n")
        wheel.writestr(f"{metadata}/METADATA", f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n")
        wheel.writestr(f"{metadata}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{metadata}/RECORD", "")


def write_sources(folder):
    """Write the source distribution of a package without a wheel."""
    with tarfile.open(folder / "options-1.0.tar.gz", "w:gz") as archive:
        metadata = "Metadata-Version: 2.1\nName: options\nVersion: 1.0\n"
        for name, text in (("backend.py", BACKEND), ("pyproject.toml", PROJECT), ("PKG-INFO", metadata)):
            member = tarfile.TarInfo(f"options-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))


def play(cluster, requirements, *arguments, job=None, **variables):
    """Run the role with requirements given as text. If `job` is given, run a job with the variables in `job` afterwards."""
    settings = {"name": "tiny", "find_links": ["/efs/wheels"], **variables}
    if requirements:
        (cluster.folder / "requirements.txt").write_text(requirements)
        settings["requirements"] = "requirements.txt"
    roles = ["deeplearning.cluster.python_environment"]
    if job:
        roles.append("deeplearning.cluster.training_job")
    play = {
        "hosts": "trainers",
        "gather_facts": False,
        "roles": roles,
        "vars": {
            **{f"python_environment_{key}": value for key, value in settings.items()},
            **{f"training_job_{key}": value for key, value in (job or {}).items()},
        },
        "post_tasks": [{"name": "Show", "ansible.builtin.debug": {"msg": "python {{ python_environment_result.python | default('') }}"}}],
    }
    playbook = cluster.folder / "environment.yml"
    playbook.write_text(yaml.safe_dump([play]))
    return cluster.play(str(playbook), *arguments)


def pythons(result):
    """Return the path of each host's Python, in the order of the output."""
    assert result.returncode == 0, result.stdout + result.stderr
    return [line.split()[-1].strip('"') for line in result.stdout.splitlines() if '"msg": "python ' in line]


def changes(result):
    recap = result.stdout.split("PLAY RECAP", 1)[1].splitlines()
    return {line.split()[0]: int(line.split("changed=")[1].split()[0]) for line in recap if "changed=" in line}


def script(cluster, text):
    path = cluster.folder / "script.py"
    path.write_text(text)
    return {"script": str(path), "launcher": "command", "wait": False}


def test_one_host_builds_for_all_and_jobs_use_it(cluster):
    predicted = play(cluster, "--no-index\ntiny==1.0\n", "--check", "--diff")
    assert "+tiny==1.0" in predicted.stdout
    assert cluster.hosts[0].ssh("ls /efs/environments", check=False).returncode != 0

    job = script(cluster, "import sys, tiny\nprint(sys.executable, tiny.version)\n")
    first = play(cluster, "--no-index\ntiny==1.0\n", job={**job, "name": "uses", "wait": True})
    python = f"{ENVIRONMENTS}/{cluster.hosts[1].ssh(f'readlink {ENVIRONMENTS}/current').stdout.strip()}/bin/python"
    assert pythons(first) == pythons(predicted) == [python] * 2
    assert [cluster.read(f"/efs/jobs/uses/logs/rank{rank}.log").splitlines()[-1] for rank in (0, 1)] == [f"{python} 1.0"] * 2
    assert set(changes(predicted).values()) == {1}, "check mode predicts a build on each host"

    again = play(cluster, "# the same\n--no-index\ntiny==1.0\n")
    assert set(changes(again).values()) == {0}


def test_a_job_keeps_what_it_has_begun_with(cluster):
    waits = "import os, time\nwhile not os.path.exists('/efs/go'):\n    time.sleep(0.1)\nimport tiny\nprint('late', tiny.version)\n"
    job = script(cluster, waits)
    assert play(cluster, "--no-index\ntiny==1.0\n", job={**job, "name": "keeps"}).returncode == 0
    result = play(cluster, "--no-index\ntiny==2.0\n", "--diff")
    assert sorted(changes(result).values()) == [0, 1], "one host builds, and the other waits"
    assert "-tiny==1.0" in result.stdout
    cluster.hosts[0].ssh(f"touch /efs/go && {ENVIRONMENTS}/current/bin/python -c 'import tiny; assert tiny.version == \"2.0\"'")
    wait_until(lambda: cluster.info("keeps")["state"] == "succeeded")
    assert "late 1.0" in cluster.read("/efs/jobs/keeps/logs/rank1.log")


def test_what_fails_leaves_the_old_one_in_use(cluster):
    before = cluster.hosts[0].ssh(f"ls {ENVIRONMENTS} | grep -v json; readlink {ENVIRONMENTS}/current").stdout
    result = play(cluster, "--no-index\ntiny==3.0\n")
    assert result.returncode != 0
    assert "could not install the requirements:" in result.stdout
    reasons = [line for line in result.stdout.splitlines() if line.startswith("fatal:")]
    assert ["Could not find a version that satisfies the requirement tiny==3.0" in reason for reason in reasons] == [True, True], (
        "both hosts report it"
    )
    assert len({reason.partition("=> ")[2] for reason in reasons}) == 1, "only one host has tried, and both report the same"
    assert cluster.hosts[0].ssh(f"ls {ENVIRONMENTS} | grep -v json; readlink {ENVIRONMENTS}/current").stdout == before


def test_a_build_that_was_cut_off_is_begun_again(cluster):
    cluster.hosts[0].ssh(f"cd {ENVIRONMENTS} && : >$(readlink current).json && rm -r current/lib")
    assert sum(changes(play(cluster, "--no-index\ntiny==2.0\n")).values()) == 1
    assert cluster.hosts[1].ssh(f"{ENVIRONMENTS}/current/bin/python -c 'import tiny; print(tiny.version)'").stdout == "2.0\n"


def test_cleanup_deletes_what_is_neither_current_nor_used(cluster):
    before = cluster.hosts[0].ssh(f"ls {ENVIRONMENTS}").stdout.split()
    kept = cluster.play("deeplearning.cluster.cleanup", "-e", "cleanup_days=0", "-e", "cleanup_keep=10")
    assert kept.returncode == 0, kept.stdout + kept.stderr
    current = cluster.hosts[0].ssh(f"readlink {ENVIRONMENTS}/current").stdout.strip()
    used = cluster.hosts[0].ssh("sudo grep -oE '[0-9a-f]{12}/bin' /efs/jobs/keeps/job.json").stdout[:12]
    builds = {name for name in cluster.hosts[0].ssh(f"ls {ENVIRONMENTS}").stdout.split() if "." not in name} - {"current"}
    assert builds == {current, used}, before
    cluster.play("deeplearning.cluster.cleanup", "-e", "cleanup_days=0", "-e", "cleanup_keep=0")
    assert set(cluster.hosts[0].ssh(f"ls {ENVIRONMENTS}").stdout.split()) == {"current", current, f"{current}.json"}


def test_uv_on_local_disks(cluster):
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"--dest={wheels(cluster)}", "uv"], check=True)
    own = {"location": "local", "installer": "uv"}
    nowhere = play(cluster, "--no-index\ntiny==2.0\n", **own, find_links=["/nowhere"], index_url="file:///nowhere")
    assert "could not install uv (not needed with the installer pip):" in nowhere.stdout
    result = play(cluster, "--no-index\ntiny==2.0\n", **own, index_url="http://user:token@localhost:1/simple")
    assert set(pythons(result)) == {pythons(result)[0]}
    assert set(changes(result).values()) == {1}, "every host builds for itself"
    assert pythons(result)[0].startswith("/home/ubuntu/environments/tiny/x86_64-python3.11/")
    for host in cluster.hosts:
        assert host.ssh(f"{pythons(result)[0]} -c 'import tiny; print(tiny.__cached__, tiny.version)'").stdout.endswith(".pyc 2.0\n")
    other_token = play(cluster, "--no-index\ntiny==2.0\n", **own, index_url="http://user:other@localhost:1/simple")
    assert set(changes(other_token).values()) == {0}


def test_a_package_is_built_with_variables_system_packages_and_the_other_packages(cluster):
    for host in cluster.hosts:
        host.ssh(f"sudo sh <<'END'\n{APT_REPOSITORY}END\n")
    write_sources(wheels(cluster))
    requirements = "--no-index\noptions==1.0\ntiny==2.0\n"
    options = {"name": "built", "system_packages": ["greeting"], "no_build_isolation": ["options"]}

    def text(result):
        (python,) = set(pythons(result))
        return cluster.hosts[1].ssh(f"{python} -c 'import options; print(options.text)'").stdout.strip()

    first = play(cluster, requirements, **options, build_variables={"WITH_MPI": 1})
    assert text(first) == "hello 1 2.0"
    assert sorted(changes(first).values()) == [1, 2], "each host installs the packages, and one host builds"
    assert set(changes(play(cluster, requirements, **options, build_variables={"WITH_MPI": 1})).values()) == {0}
    assert text(play(cluster, requirements, **options, build_variables={"WITH_MPI": 2})) == "hello 2 2.0"
    isolated = play(cluster, requirements, name="built", build_variables={"WITH_MPI": 1})
    assert "No module named 'tiny'" in isolated.stdout


def test_an_environment_is_active_in_login_shells_until_it_is_not_wanted(cluster):
    def python(host, user="ubuntu"):
        return host.ssh(f"sudo -iu {user} sh -c 'command -v python'", check=False).stdout.strip()

    before = python(cluster.hosts[0])
    assert set(changes(play(cluster, "", name="pytorch", login=True)).values()) == {1}
    assert [python(host) for host in cluster.hosts] == ["/opt/pytorch/bin/python"] * 2
    assert python(cluster.hosts[0], user="root") == before, "it applies only to the login user"
    assert set(changes(play(cluster, "", name="pytorch", login=True)).values()) == {0}
    assert set(changes(play(cluster, "", name="pytorch")).values()) == {0}
    built = pythons(play(cluster, "--no-index\ntiny==1.0\n", login=True))
    assert [python(host) for host in cluster.hosts] == built
    assert set(changes(play(cluster, "", name="pytorch", login=False)).values()) == {1}
    assert [python(host) for host in cluster.hosts] == [before] * 2


def test_the_image_s_own_environments_are_used_by_name(cluster):
    assert pythons(play(cluster, "", name="pytorch")) == ["/opt/pytorch/bin/python"] * 2
    enough = play(cluster, "torch\nscikit-learn>1\n", name="pytorch")
    assert pythons(enough) == ["/opt/pytorch/bin/python"] * 2
    assert set(changes(enough).values()) == {0}
    more = play(cluster, "torch\ntiny==1.0\n", "--check", "--diff", name="pytorch")
    assert "/opt/pytorch in the image is not used: No matching distribution found for tiny==1.0" in more.stdout
    cluster.hosts[0].ssh("test ! -e /efs/environments/pytorch")
    unknown = play(cluster, "", name="mxnet")
    assert "environment 'mxnet': this host's image has no environment with this name (available: pytorch)" in unknown.stdout


def test_a_notebook_from_a_requirements_file_is_reached_through_a_tunnel(cluster):
    """The steps are those in the guide for MXNet on EC2. This machine downloads the packages, because the hosts have no package index."""
    download(wheels(cluster), *WHEELS, "notebook")
    python = pythons(play(cluster, "--no-index\nnotebook\n", name="notebook"))[0]
    host, token = cluster.hosts[0], "c0ffee"
    command = f"{Path(python).parent}/jupyter notebook --no-browser --port=8888 --IdentityProvider.token={token}"
    host.ssh(f"setsid {command} >notebook.log 2>&1 </dev/null &")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    options = [f"-o{option}" for option in ("BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR")]
    tunnel = ["ssh", "-N", "-i", str(host.key_file), *options, "-L", f"{port}:localhost:8888", f"{host.user}@{host.private_ip}"]
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    start = urllib.request.Request(f"http://127.0.0.1:{port}/api/kernels", b"{}", {"Authorization": f"token {token}"}, method="POST")

    def kernel():
        try:
            return json.load(opener.open(start, timeout=60))["name"]
        except OSError:
            return None

    with subprocess.Popen(tunnel) as process:
        try:
            wait_until(lambda: kernel() == "python3")
        finally:
            process.terminate()
            host.ssh("pkill -f '[j]upyter-notebook'", check=False)
