"""Environments with Horovod that two hosts build from the examples' definitions, and PyTorch and TensorFlow jobs in these environments.

The hosts install compilers from Debian. This machine downloads the Python packages once, so the hosts need no package index.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from local_cloud.image.builder import cache_directory

from ..cluster import FILE_SYSTEM, job_cluster
from ..packages import WHEELS, download
from .ranks import CONSIDERATE

pytestmark = pytest.mark.frameworks

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
BUILD_TIMEOUT = 5400
SOURCES = ["--no-deps", "--no-binary=:all:", "--no-build-isolation"]
SUM = """
import horovod.torch as hvd
import torch
hvd.init()
assert hvd.mpi_built() and not hvd.gloo_built() and not hvd.nccl_built()
total = hvd.allreduce(torch.tensor(float(hvd.rank())), op=hvd.Sum, name="rank")
print(f"the sum of {hvd.size()} is {total}, with torch {torch.__version__}", flush=True)
"""


def packages(name):
    """Return a folder with the packages of a requirements file. Later runs of the tests use the same folder."""
    path = EXAMPLES / "environments" / f"{name}.txt"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    folder = cache_directory() / f"{name}-packages-{digest}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            unfinished = folder.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            lines = [line for line in path.read_text().splitlines() if "==" in line]
            for torch in (line for line in lines if line.startswith("torch==")):
                download_cpu_build(unfinished, torch)
            download(unfinished, *WHEELS, *[line for line in lines if not line.startswith("horovod==")])
            download(unfinished, *SOURCES, *[line for line in lines if line.startswith("horovod==")])
            unfinished.rename(folder)
    return folder


def download_cpu_build(folder, torch):
    """Download the CPU build of PyTorch, which pip then prefers to the build with CUDA."""
    folder.mkdir(parents=True)
    try:
        download(folder, *WHEELS, "--no-deps", f"{torch}+cpu")
    except subprocess.CalledProcessError:
        download(folder, *WHEELS, "--no-deps", "--index-url=https://download.pytorch.org/whl/cpu", torch)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("builds"), [], count=2) as result:
        yield result


def train(cluster, definition, **variables):
    """Run the roles python_environment and training_job with a definition from the examples."""
    wheels = cluster.folder / "file-systems" / FILE_SYSTEM / definition
    shutil.copytree(packages(definition), wheels)
    text = (EXAMPLES / "definitions" / f"{definition}.yml").read_text().replace("{{ playbook_dir }}/../examples", str(EXAMPLES))
    sources = {"find_links": [f"/efs/{definition}"], "index_url": "file:///nowhere", "timeout": BUILD_TIMEOUT}
    given = {
        **yaml.safe_load(text),
        **{f"python_environment_{name}": value for name, value in sources.items()},
        **{f"training_job_{name}": value for name, value in {"restarts": 0, "environment": CONSIDERATE, **variables}.items()},
    }
    roles = ["deeplearning.cluster.python_environment", "deeplearning.cluster.training_job"]
    playbook = cluster.folder / f"{definition}.yml"
    playbook.write_text(yaml.safe_dump([{"hosts": "trainers", "gather_facts": False, "vars": given, "roles": roles}]))
    result = cluster.play(str(playbook))
    assert result.returncode == 0, result.stdout + result.stderr


def test_horovod_is_built_for_pytorch(cluster):
    script = cluster.folder / "sum.py"
    script.write_text(SUM)
    train(cluster, "horovod_pytorch", name="pytorch", launcher="horovod", script=str(script), processes_per_host=2)
    assert cluster.read("/efs/jobs/pytorch/logs/mpirun.log").count("the sum of 4 is 6.0, with torch 2.13.0") == 4


def test_horovod_is_built_for_tensorflow_and_trains_the_example(cluster):
    train(cluster, "horovod_tensorflow", name="tensorflow", arguments=["--max-steps", "60", "--train-images", "600"])
    log = cluster.read("/efs/jobs/tensorflow/logs/mpirun.log")
    for rank, worker in enumerate(cluster.workers):
        assert f"rank {rank} of 2 on ip-{worker['address'].replace('.', '-')}: 300 of 600 images" in log
    progress = [json.loads(line) for line in cluster.read("/efs/jobs/tensorflow/progress.jsonl").splitlines()]
    assert progress[-1]["step"] == progress[-1]["steps"] == 60
    assert progress[-1]["loss"] < progress[0]["loss"]
    assert "model.ckpt-60.index" in cluster.hosts[0].ssh("ls /efs/jobs/tensorflow/checkpoints").stdout
