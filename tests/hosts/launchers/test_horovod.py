"""Horovod on two real hosts: the example, and an endless job."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.attempt_messages import describe_failure
from local_cloud.testing import wait_until

from ..cluster import job_cluster
from .conftest import Endless, kill_rank_and_resume
from .ranks import CONSIDERATE, is_training

pytestmark = pytest.mark.frameworks

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/mask_rcnn"
HOROVOD = {"launcher": "horovod", "python": "/opt/horovod/bin/python", "environment": CONSIDERATE}
ENDLESS = """
    import time
    import horovod.torch as hvd
    import torch
    hvd.init()
    while True:
        total = hvd.allreduce(torch.tensor(float(hvd.rank())), op=hvd.Sum, name="rank")
        if hvd.rank() == 0:
            print(f"sum {total}", flush=True)
        time.sleep(0.1)
"""

ONCE = """
import horovod.torch as hvd
import torch
hvd.init()
total = hvd.allreduce(torch.tensor(float(hvd.rank())), op=hvd.Sum, name="rank")
print(f"the sum of {hvd.size()} is {total}", flush=True)
"""
BY_HAND = """
for i in $(seq 1 $DEEPLEARNING_WORKERS_COUNT); do echo "deeplearning-worker$i slots=2" >>hostfile; done
HOROVOD_CYCLE_TIME=0.5 HOROVOD_FUSION_THRESHOLD=67108864 timeout 300 mpirun -np 4 --hostfile ./hostfile \\
    --mca plm_rsh_no_tree_spawn 1 -bind-to none -map-by slot -mca pml ob1 -mca btl ^openib -mca btl_tcp_if_exclude lo,docker0 \\
    -mca btl_vader_single_copy_mechanism none -mca mpi_yield_when_idle 1 -x NCCL_SOCKET_IFNAME=^docker0 -x NCCL_DEBUG=INFO \\
    -x PATH -x HOROVOD_CYCLE_TIME -x HOROVOD_FUSION_THRESHOLD --output-filename /efs/by-hand/logs /opt/horovod/bin/python once.py
"""

# Writes a small data set in the format of COCO: 12 images to train on and 6 held-out ones, each with a rectangle.
COCO = """
import json
import pathlib
import random

from PIL import Image, ImageDraw

folder = pathlib.Path("/efs/datasets/coco-2017")
(folder / "annotations").mkdir(parents=True)
for split, count in (("train2017", 12), ("val2017", 6)):
    (folder / split).mkdir()
    images, annotations = [], []
    for number in range(count):
        image, (x, y) = Image.new("RGB", (320, 240)), (random.randrange(200), random.randrange(120))
        ImageDraw.Draw(image).rectangle([x, y, x + 100, y + 100], fill=(255, 80 * (number % 3), 0))
        image.save(folder / split / f"{number}.jpg")
        images.append({"id": number, "file_name": f"{number}.jpg", "width": 320, "height": 240})
        corners = [x, y, x + 100, y, x + 100, y + 100, x, y + 100]
        annotation = {"image_id": number, "category_id": 90, "iscrowd": 0, "bbox": [x, y, 100, 100], "area": 10000}
        annotations.append({**annotation, "segmentation": [corners]})
    categories = [{"id": 1, "name": "person"}, {"id": 90, "name": "toothbrush"}]
    content = {"images": images, "annotations": annotations, "categories": categories}
    (folder / f"annotations/instances_{split}.json").write_text(json.dumps(content))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("horovod"), ["horovod"], count=2) as result:
        yield result


def test_mask_rcnn_is_trained_and_resumed(cluster):
    example = {"source": str(EXAMPLE), "processes_per_host": 1, **HOROVOD}
    directory = "/efs/jobs/mask-rcnn"
    result = cluster.train("mask-rcnn", "train.py", arguments=["--images", "64", "--epochs", "4"], **example)
    assert result.returncode == 0, result.stdout + result.stderr
    log = cluster.read(f"{directory}/logs/mpirun.log")
    assert "images: shapes, because COCO is not in /fsx/datasets/coco-2017 or /efs/datasets/coco-2017" in log
    for rank, worker in enumerate(cluster.workers):
        assert f"rank {rank} of 2 on ip-{worker['address'].replace('.', '-')} (cpu): 32 of 64 images" in log
    progress = [json.loads(line) for line in cluster.read(f"{directory}/progress.jsonl").splitlines()]
    assert "learning rate: 0.001 for each of 2 ranks, 0.002 after 2 epochs" in log
    assert [entry["learning_rate"] for entry in progress] == pytest.approx([0.0014375, 0.0019375, 0.002, 0.002])
    losses = [entry["loss"] for entry in progress]
    assert losses[-1] < 0.8 * losses[0]
    assert progress[-1]["step"] == progress[-1]["steps"] == 32
    assert "events.out.tfevents" in cluster.hosts[0].ssh(f"ls {directory}/tensorboard").stdout
    assert "shapes-64-0.npz" in cluster.hosts[0].ssh(f"ls {directory}/shapes").stdout

    example["environment"] = {**CONSIDERATE, "DEEPLEARNING_CHECKPOINT_DIRECTORY": f"{directory}/checkpoints"}
    result = cluster.train("mask-rcnn-2", "train.py", arguments=["--images", "64", "--epochs", "5"], **example)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"continues after epoch 4, from {directory}/checkpoints/epoch-0004.pt" in cluster.read("/efs/jobs/mask-rcnn-2/logs/mpirun.log")
    (last,) = [json.loads(line) for line in cluster.read("/efs/jobs/mask-rcnn-2/progress.jsonl").splitlines()]
    assert last["loss"] < losses[1]


def test_mask_rcnn_continues_from_its_checkpoint_when_a_rank_was_killed(cluster):
    example = {"source": str(EXAMPLE), "processes_per_host": 1, "arguments": ["--images", "64", "--epochs", "8"], **HOROVOD}
    log = kill_rank_and_resume(cluster, "resumes", "train.py", "/opt/horovod/bin/python /efs/jobs/resumes", **example)
    assert re.search(r"continues after epoch [2-7], from ", log), log
    entries = [json.loads(line) for line in cluster.read("/efs/jobs/resumes/progress.jsonl").splitlines()]
    assert entries[-1]["step"] == entries[-1]["steps"]


def test_mask_rcnn_is_trained_on_staged_files_of_coco(cluster):
    host = cluster.hosts[0]
    host.ssh(f"/opt/horovod/bin/python - <<'END'\n{COCO}END\n")
    try:
        example = {"source": str(EXAMPLE), "processes_per_host": 1, **HOROVOD}
        result = cluster.train("mask-rcnn-coco", "train.py", arguments=["--epochs", "6"], **example)
    finally:
        host.ssh("rm -r /efs/datasets/coco-2017")
    assert result.returncode == 0, result.stdout + result.stderr
    log = cluster.read("/efs/jobs/mask-rcnn-coco/logs/mpirun.log")
    assert "images: COCO from /efs/datasets/coco-2017" in log
    assert log.count("6 of 12 images") == 2
    progress = [json.loads(line) for line in cluster.read("/efs/jobs/mask-rcnn-coco/progress.jsonl").splitlines()]
    assert progress[-1]["loss"] < progress[0]["loss"]


def test_an_endless_job_survives_or_ends(cluster, survive):
    variables = {**HOROVOD, "processes_per_host": 2, "stop_timeout": 5}
    survive(
        cluster, Endless(ENDLESS, variables, launcher="orted .*-mca ess", rank="/opt/horovod/bin/python /efs/jobs", training=is_training)
    )


def test_without_mpirun_nothing_goes_on(cluster):
    cluster.start("headless", ENDLESS, processes_per_host=2, stop_timeout=5, **HOROVOD)
    assert is_training(cluster, "headless")
    cluster.hosts[0].ssh("sudo pkill -KILL '^mpirun$'")
    wait_until(lambda: cluster.members("headless") == [])
    found = cluster.info("headless")
    assert (found["state"], found["failure"]["name"]) == ("failed", "mpirun")
    # Some kernels add that the OOM killer was not the cause.
    assert describe_failure(found["failure"]).startswith("was killed by signal SIGKILL")


def test_mpirun_runs_by_hand_as_in_the_script_of_the_former_stack(cluster):
    """The login user can connect to all hosts by name over SSH, with the options that `run.sh` specifies."""
    cluster.trust()
    master = cluster.hosts[0]
    master.ssh(f"mkdir /efs/by-hand && cd /efs/by-hand && cat >once.py <<'END'\n{ONCE}END\ncat >run.sh <<'END'\n{BY_HAND}END")
    done = master.ssh("cd /efs/by-hand && bash -l run.sh 2>&1", check=False, timeout=600)
    assert done.stdout.count("the sum of 4 is 6.0") == 4, done.stdout
    assert len(master.ssh("ls -d /efs/by-hand/logs/*/rank.*").stdout.split()) == 4


def test_a_job_runs_a_script_that_starts_mpirun_itself(cluster):
    """The job runs as the login user, whose SSH connections reach the other host."""
    cluster.trust()
    source = cluster.folder / "run"
    source.mkdir()
    (source / "once.py").write_text(ONCE)
    mpirun = BY_HAND.split(">>hostfile; done\n")[1].replace("--output-filename /efs/by-hand/logs", "")
    (source / "run.sh").write_text(mpirun.replace("./hostfile", "$DEEPLEARNING_HOSTFILE").replace("-np 4", "-np 2"))
    job = {"launcher": "command", "launcher_options": {"hosts": "first"}, "user": "ubuntu", "command": ["bash", "run.sh"]}
    result = cluster.train("runs-mpirun", "", source=str(source), **job)
    log = cluster.read("/efs/jobs/runs-mpirun/logs/rank0.log")
    assert result.returncode == 0, result.stdout + log
    assert log.count("the sum of 2 is 1.0") == 2, log
