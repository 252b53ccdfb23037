"""Real trainers on hosts. Their processes are killed at random moments, also while they save, and newest checkpoints are damaged.

TRAINER_RUNS in the environment is the number of kills of each trainer.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.state_names import FINAL
from local_cloud.testing import wait_until

from ..cluster import job_cluster
from ..exports import export_cluster

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


@pytest.fixture(scope="module")
def exporting(tmp_path_factory):
    """Instances that have the environments of the trainers and export to S3."""
    with export_cluster(tmp_path_factory.mktemp("exports"), 2, ["aws-cli", "trainers"]) as result:
        for source in SOURCES:
            shutil.copytree(source, result.folder / "source", dirs_exist_ok=True)
        yield result


def begin(cluster, name, trainer, environment=None, **variables):
    options = {"launcher": "torchrun", "command": [], "python": "/opt/trainers/bin/python", "restarts": 4}
    environment = {"OMP_NUM_THREADS": "1", **(environment or {})}
    cluster.start(name, f"{trainer}.py", source=str(cluster.folder / "source"), environment=environment, **options, **variables)


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


@pytest.mark.parametrize("trainer", TRAINERS)
def test_what_was_exported_can_be_loaded(exporting, trainer):
    """A job is exported while it saves, and stopped. Another job goes on with the checkpoints in S3."""
    name = f"exported-{trainer.replace('_', '-')}"
    begin(exporting, name, trainer, export_interval=5)
    wait_until(lambda: sum("checkpoints/" in path for path in exporting.objects(name)) > 2)
    exporting.stop(name)
    wait_until(lambda: exporting.info(name)["export"]["state"] == "succeeded")
    paths = [path for path in exporting.objects(name) if path.startswith("checkpoints/")]
    for path in paths:
        file = exporting.folder / name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(exporting.content(name, path))
    copy = {"src": f"{exporting.folder / name}/checkpoints/", "dest": f"/efs/{name}/", "owner": "deeplearning"}
    restore = exporting.folder / "restore.yml"
    restore.write_text(json.dumps([{"hosts": "trainers[0]", "become": True, "tasks": [{"ansible.builtin.copy": copy}]}]))
    assert exporting.play(str(restore)).returncode == 0
    begin(exporting, f"{name}-2", trainer, {"DEEPLEARNING_CHECKPOINT_DIRECTORY": f"/efs/{name}"}, export="")
    assert loss(exporting, f"{name}-2") > 0
    attempts = exporting.info(f"{name}-2")["attempts"]
    assert not any(attempt.get("set_aside") for attempt in attempts), (attempts, paths)
    logs = exporting.hosts[0].ssh(f"sudo find /efs/jobs/{name}-2/logs -name '*.log' -exec cat {{}} +").stdout
    assert min(int(step) for step in re.findall(r"begins at step (\d+)", logs)) > 0, paths
