"""Tests of access to TensorBoard through a tunnel, and of the report on a job."""

from __future__ import annotations

import json
import re
import shutil
import socket
import textwrap
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml
from local_cloud.testing import wait_until

from .browser import Browser
from .cluster import CLUSTER, FILE_SYSTEM, job_cluster

pytestmark = pytest.mark.exhaustive

COLLECTION = Path(__file__).resolve().parents[2]
JOBS = "/efs/jobs"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("watching"), ["pytorch"], count=2) as result:
        result.trust()
        # The storage has to be mounted again after a reboot.
        result.hosts[0].ssh(f"echo '{FILE_SYSTEM}:/ /efs nfs4 nfsvers=4.1,_netdev 0 0' | sudo tee -a /etc/fstab")
        yield result


# Runs the example. On the second host, loading an image takes a long time.
SLOW = """
    import os, pathlib, runpy, time
    import torch

    if os.environ["RANK"] == "1":
        class SlowDataset(torch.utils.data.TensorDataset):
            def __getitem__(self, index):
                time.sleep(0.002)
                return super().__getitem__(index)

        torch.utils.data.TensorDataset = SlowDataset
    runpy.run_path(str(pathlib.Path(__file__).with_name("train.py")), run_name="__main__")
"""


@pytest.fixture(scope="module")
def digits(cluster):
    """The output of a completed training job with a slow host."""
    source = cluster.folder / "digits"
    shutil.copytree(COLLECTION / "examples/digits", source)
    (source / "slow.py").write_text(textwrap.dedent(SLOW))
    result = cluster.train("digits", "slow.py", source=str(source), arguments=["--epochs", "5"])
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture
def tensorboard(cluster):
    """Run the role on the first host."""

    def run(status=0, **variables):
        variables = {f"tensorboard_{name}": value for name, value in variables.items()}
        variables["deeplearning_ssh_directory"] = str(cluster.folder / "ssh")
        play = {"hosts": f"{CLUSTER}-worker1", "gather_facts": False, "vars": variables, "roles": ["deeplearning.cluster.tensorboard"]}
        playbook = cluster.folder / "tensorboard.yml"
        playbook.write_text(yaml.safe_dump([play]))
        result = cluster.play(str(playbook))
        assert result.returncode == status, result.stdout + result.stderr
        return result.stdout

    yield run
    run(state="stopped")


@pytest.fixture
def port():
    """A free port on this machine."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def get(port, path):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}{path}", timeout=120) as answer:
        return answer.read().decode()


def answers(port, path):
    try:
        return bool(get(port, f"{path}/data/environment"))
    except OSError:
        return False


def scalars(port, path):
    return json.loads(get(port, f"{path}/data/plugin/scalars/tags"))


def secret_path(output, port):
    """Return the path in the address that the role has printed."""
    return re.search(rf"http://127\.0\.0\.1:{port}(/[0-9a-f]{{32}})/", output)[1]


def test_a_job_that_has_ended_has_a_report_in_its_directory_and_here(cluster, digits):
    local = cluster.folder / "reports" / "digits.html"
    assert f"digits: the report is at {local}" in digits
    text = local.read_text()
    assert cluster.hosts[0].ssh(f"cat {JOBS}/digits/report.html").stdout == text
    assert text.count("<img src=") >= 5
    plain = " ".join(re.sub(r"<[^>]+>", " ", text).split())
    for words in (
        "digits succeeded",
        "2 of 2 processes started on 2 hosts",
        "rank 1 deeplearning-worker2 succeeded",
        "slow.py --epochs 5",
        "checkpoints: 10 files",
        "steps per second",
    ):
        assert words in plain
    again = cluster.play("deeplearning.cluster.report", "-e", "training_job_name=digits")
    assert "changed=0" in again.stdout, again.stdout + again.stderr


def test_a_slow_host_is_named(cluster, digits):
    slow, other = cluster.info("digits", goodput="always")["step_times"]
    assert (slow["name"], slow["slow"], other["slow"]) == ("deeplearning-worker2", True, False)
    assert slow["seconds"] > 32 * 0.002, "each step loads 32 images"
    status = cluster.play("deeplearning.cluster.status", "-e", "training_job_name=digits").stdout
    assert re.search(r"deeplearning-worker2 is slow: \S+ s per step, \S+ times the median", " ".join(status.split()))
    assert "deeplearning-worker2 (slow)" in (cluster.folder / "reports" / "digits.html").read_text()


def test_a_job_that_failed_has_a_report_and_one_without_a_report_has_not_failed(cluster):
    quick = {"launcher": "command", "launcher_options": {"hosts": "first"}, "python": "/usr/bin/python3"}
    script = """
        import os, sys
        with open(os.environ["DEEPLEARNING_PROGRESS"], "a") as file:
            file.write('{"step": 3, "loss": NaN}\\n')
        sys.exit("<b>out of luck</b>" if sys.argv[1:] else 0)
    """
    failed = cluster.train("fails", script, arguments=["fail"], **quick)
    assert failed.returncode != 0
    reports = cluster.folder / "reports"
    text = (reports / "fails.html").read_text()
    assert "&lt;b&gt;out of luck&lt;/b&gt;" in text
    assert "loss was NaN or infinite" in text

    unwritable = cluster.train("unwritable", script, report_directory="/proc/none", **quick)
    assert unwritable.returncode == 0, unwritable.stdout
    assert "cannot be written" in unwritable.stdout
    assert cluster.train("off", script, report=False, **quick).returncode == 0
    assert not (reports / "off.html").exists()


def test_tensorboard_is_a_service_that_is_seen_through_a_tunnel(cluster, digits, tensorboard, port):
    output = tensorboard(tunnel="true", local_port=port)
    path = secret_path(output, port)
    assert f"-O exit {CLUSTER}-worker1" in output
    wait_until(lambda: "loss" in scalars(port, path).get("digits/tensorboard", {}))
    points = json.loads(get(port, f"{path}/data/plugin/scalars/scalars?run=digits/tensorboard&tag=loss"))
    assert len(points) == 5
    assert points[-1][2] < points[0][2]
    assert "changed=0" in tensorboard(tunnel=True, local_port=port)
    assert f"-L 127.0.0.1:{port}:127.0.0.1:606 {CLUSTER}-worker1" in tensorboard(local_port=port)

    host = cluster.hosts[0]
    assert re.findall(r"(\S+):606\b", host.ssh("ss -Hltn").stdout) == ["127.0.0.1"]
    process = "$(systemctl show --property=MainPID --value deeplearning-tensorboard)"
    # A job's files cannot make TensorBoard take the memory of the host
    limits = host.ssh("systemctl show --property=MemoryMax,MemorySwapMax,OOMScoreAdjust deeplearning-tensorboard").stdout.split()
    assert "MemoryMax=infinity" not in limits
    assert {"MemorySwapMax=0", "OOMScoreAdjust=1000"} < set(limits)
    # Jobs can name files that TensorBoard reads and shows to anybody on this host
    assert host.ssh(f"ps -o user= -p {process}").stdout.split()[0] not in ("ubuntu", "root", "deeplearning")
    for secret in ("/etc/ssh/deeplearning/x", "/home/ubuntu/.bashrc"):
        host.ssh(f"sudo mkdir -p $(dirname {secret}) && sudo touch {secret}")
        assert host.ssh(f"sudo test -e /proc/{process}/root{secret}", check=False).returncode == 1

    cluster.runtime.stop(host.name)
    cluster.runtime.start(host.spec())
    wait_until(lambda: cluster.runtime.is_booted(host.name))
    wait_until(lambda: "data_location" in host.ssh(f"curl -s http://127.0.0.1:606{path}/data/environment", check=False).stdout)

    # A path that somebody has read from a request after the end of the tunnel is of no use in the next tunnel.
    again = secret_path(tensorboard(tunnel=True, local_port=port, job="digits"), port)
    assert again != path
    assert not answers(port, path)
    path = again
    wait_until(lambda: "loss" in scalars(port, path).get(".", {}))
    assert "changed=0" not in tensorboard(state="stopped")
    assert not answers(port, path)
    assert secret_path(tensorboard(tunnel=True, local_port=port), port) != path
    tensorboard(state="stopped")
    assert host.ssh("systemctl list-unit-files --no-legend 'deeplearning-tensorboard*'", check=False).stdout == ""
    # While TensorBoard is stopped, only root can use its port
    bind = "python3 -c 'import socket; socket.create_server((\"127.0.0.1\", 606))'"  # connections in TIME_WAIT are no obstacle
    assert "PermissionError" in host.ssh(bind, check=False).stderr
    host.ssh(f"sudo {bind}")
    assert "changed=0" in tensorboard(state="stopped")


def test_only_who_knows_the_path_can_use_tensorboard(cluster, digits, tensorboard, port):
    """A web page reaches the tunnel under a name of its own. A job and other users of the host reach all ports of the host."""
    path = secret_path(tensorboard(tunnel=True, local_port=port), port)
    wait_until(lambda: "loss" in scalars(port, path).get("digits/tensorboard", {}))
    rebound = urllib.request.Request(f"http://127.0.0.1:{port}/data/runs", headers={"Host": f"rebind.attacker.example:{port}"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(rebound, timeout=120)
    assert refused.value.code == 404

    host = cluster.hosts[0]
    as_job = "sudo -u deeplearning"
    show = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ; systemctl show deeplearning-tensorboard"
    shown = host.ssh(f"{as_job} sh -c '{show}' 2>/dev/null", check=False)
    assert "tensorboard.main" in shown.stdout
    assert path[1:] not in shown.stdout
    assert "Permission denied" in host.ssh(f"{as_job} cat /etc/deeplearning-tensorboard", check=False).stderr
    user = host.ssh("ps -o uid= -p $(systemctl show --property=MainPID --value deeplearning-tensorboard)").stdout.strip()
    listening = host.ssh(f"sudo ss -Hltne | grep -o 'uid:{user} ' | wc -l").stdout.strip()
    assert listening == "1", "TensorBoard opens no other port"
    for url in ("/", "/data/runs", "/data/plugins_listing", path[:-1]):
        told = host.ssh(f"{as_job} curl -s -o /dev/null -w '%{{http_code}}' http://127.0.0.1:606{url}").stdout
        assert told == "404", url


def test_what_is_wrong_with_tensorboard_is_said(cluster, tensorboard, port):
    assert re.search("/usr/bin/python3 does not exist on .+ or has no TensorBoard", tensorboard(status=2, python="/usr/bin/python3"))
    cluster.hosts[0].ssh(f"sudo systemd-run --unit=taken /usr/bin/python3 -m http.server --bind 127.0.0.1 {port}")
    try:
        taken = tensorboard(status=2, port=port, timeout=10)
    finally:
        cluster.hosts[0].ssh("sudo systemctl stop taken")
    assert f"does not respond on port {port}" in taken
    assert "already in use" in taken
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        refused = tensorboard(status=2, tunnel=True, local_port=listener.getsockname()[1])
    assert "set tensorboard_local_port to another port" in refused
    assert "in use" in refused


def test_a_browser_shows_the_curves(cluster, digits, tensorboard, port):
    browser = Browser(cluster.folder)
    report = browser.document("file:///pages/reports/digits.html")
    assert "<h3>loss</h3>" in report
    path = secret_path(tensorboard(tunnel=True, local_port=port), port)
    wait_until(lambda: "loss" in scalars(port, path).get("digits/tensorboard", {}))
    page = browser.document(f"http://127.0.0.1:{port}{path}/#timeseries")
    assert "digits/tensorboard" in page
    assert re.search(r"<[^>]*title=\"loss\"", page)
