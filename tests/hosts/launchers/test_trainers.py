"""Real trainers on hosts. Their processes are killed at random moments, also while they save, and newest checkpoints are damaged.

TRAINER_RUNS in the environment is the number of kills of each trainer.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.states import FINAL
from local_cloud.testing import wait_until

from ..cluster import job_cluster

pytestmark = pytest.mark.frameworks

SOURCES = (Path(__file__).parent / "trainers", Path(__file__).parents[3] / "examples/progress")
TRAINERS = sorted(path.stem for path in SOURCES[0].glob("*.py"))
RUNS = int(os.environ.get("TRAINER_RUNS", "1"))
# Damages a random file of the newest checkpoint, in the way in which a lost host leaves it.
DAMAGE = """
newest=$(ls -td {place}/*[0-9]* {place}/last.ckpt 2>/dev/null | head -1)
file=$(find "$newest" -type f | sort | sed -n "$((({number} % $(find "$newest" -type f | wc -l)) + 1))p")
sudo truncate -s "$(($(stat -c %s "$file") / 2))" "$file"
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("trainers"), ["trainers"], count=2) as result:
        for source in SOURCES:
            shutil.copytree(source, result.folder / "source", dirs_exist_ok=True)
        yield result


@pytest.fixture(scope="module")
def usual_losses(cluster):
    """The final losses of three undisturbed jobs of a trainer."""
    found = {}

    def losses(trainer):
        if trainer not in found:
            found[trainer] = [finish(cluster, f"usual-{trainer.replace('_', '-')}-{number}", trainer) for number in range(3)]
        return found[trainer]

    return losses


def begin(cluster, name, trainer):
    variables = {"launcher": "torchrun", "python": "/opt/trainers/bin/python", "restarts": 4, "environment": {"OMP_NUM_THREADS": "1"}}
    cluster.start(name, f"{trainer}.py", source=str(cluster.folder / "source"), **variables)


def loss(cluster, name):
    wait_until(lambda: cluster.info(name)["state"] in FINAL)
    found = cluster.info(name)
    assert found["state"] == "succeeded", found["attempts"]
    folder = f"/efs/jobs/{name}/logs" + (f"/attempt{found['attempt']}" if found["attempt"] > 1 else "")
    return float(re.findall(r"final loss ([\d.]+)", cluster.read(f"{folder}/*.log"))[-1])


def finish(cluster, name, trainer):
    begin(cluster, name, trainer)
    return loss(cluster, name)


@pytest.mark.parametrize("fault", ["kill", "damage"])
@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_training_goes_on_from_the_newest_checkpoint_that_can_be_loaded(cluster, usual_losses, trainer, fault):
    usual = usual_losses(trainer)
    for number in range(RUNS if fault == "kill" else (RUNS + 3) // 4):
        name = f"{fault}-{trainer.replace('_', '-')}-{number}"
        chance = random.Random(name)
        begin(cluster, name, trainer)
        place = f"/efs/jobs/{name}/checkpoints"
        count = f"ls {place} | grep -c '[0-9]'"
        wait_until(lambda count=count: int(cluster.hosts[0].ssh(count, check=False).stdout or 0) >= (1 if fault == "kill" else 2))
        damage = DAMAGE.format(place=place, number=chance.randrange(100)) if fault == "damage" else ""
        cluster.hosts[chance.randrange(2)].ssh(f"sleep {chance.random() * 3:.2f}; sudo pkill -KILL -f '[/]code/{trainer}.py'; {damage}")
        final = loss(cluster, name)
        found = cluster.info(name)
        assert min(usual) - 1e-4 <= final <= max(usual) + 1e-4, (usual, found["attempts"])
        assert found["attempt"] <= (2 if fault == "kill" else 3), found["attempts"]
        steps = [int(step) for step in re.findall(r"begins at step (\d+)", cluster.read(f"/efs/jobs/{name}/logs/attempt*/*.log"))]
        assert min(steps) > 0, "the script started over"
        assert trainer == "distributed_checkpoint" or "step" in cluster.read(f"/efs/jobs/{name}/progress.jsonl")
