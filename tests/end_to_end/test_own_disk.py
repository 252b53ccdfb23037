"""A cluster of one node that has no shared storage, and that stores jobs on the node's own disk. The tests build on each other."""

from __future__ import annotations

import json
import re

import pytest

pytestmark = pytest.mark.exhaustive

BUCKET = "demo-own-disk"
DEFINITION = {
    "deeplearning_efs": False,
    "deeplearning_mount_point": "/data",
    "deeplearning_worker_count": 0,
    "deeplearning_export_destinations": [f"s3://{BUCKET}/jobs"],
    "training_job_arguments": ["--epochs", "3"],
    "training_job_name": "first",
}
LOST = "The jobs in /data/jobs are on the master's own disk, and are lost when the master is terminated."


@pytest.fixture(scope="module")
def play(cloud, playbook, tmp_path_factory):
    """Run a playbook with the definition, and return its output on one line."""
    reports = str(tmp_path_factory.mktemp("reports"))
    cloud.client("s3").create_bucket(Bucket=BUCKET)

    def run(name, *arguments, policies="train", status=0, **variables):
        values = {**DEFINITION, "training_job_report_directory": reports, **variables}
        return " ".join(playbook(f"{name}.yml", "-e", json.dumps(values), *arguments, policies=policies, status=status).output.split())

    yield run
    run("destroy", policies="destroy")


def file_systems(cloud):
    return {each["FileSystemId"] for each in cloud.client("efs").describe_file_systems()["FileSystems"]}


@pytest.fixture(scope="module")
def earlier(cloud):
    """Return the file systems that other tests have left."""
    return file_systems(cloud)


@pytest.fixture(scope="module")
def trained(earlier, play):
    return play("train")


def test_a_job_trains_on_the_masters_own_disk(cloud, earlier, trained, on_master):
    assert "succeeded after" in trained
    assert "results /data/jobs/first (code, logs, checkpoints, tensorboard)" in trained
    assert f"{LOST} To keep a job, export it to S3 with the playbook export. 1 node of cluster demo keeps running" in trained
    assert "keep the file systems" not in trained
    assert file_systems(cloud) == earlier
    assert on_master("findmnt --noheadings --output TARGET --target /data").strip() == "/"
    assert on_master("stat --format '%U %a' /data /data/jobs").splitlines() == ["ubuntu 755"] * 2
    assert on_master("stat --format '%U %G %a' /data/jobs/first /data/jobs/first/checkpoints").splitlines() == [
        "ubuntu deeplearning 1775",
        "deeplearning deeplearning 755",
    ]


def test_the_master_is_configured_once(trained, play):
    assert "changed=0" in play("configure", policies="configure")


def test_a_link_in_place_of_the_directory_is_not_followed(trained, play, on_master):
    on_master("sudo mv /data /real && sudo mkdir -m 700 /elsewhere && sudo ln -s /elsewhere /data")
    play("configure", policies="configure", status=2)
    assert on_master("stat --format '%U %a' /elsewhere").split() == ["root", "700"]
    on_master("sudo rm /data && sudo mv /real /data")


def test_playbooks_read_the_records_of_the_job(cloud, trained, play):
    assert "first succeeded" in play("status", policies="status", training_job_name="")
    assert "accuracy" in play("logs", policies="status", lines=500)
    assert "first.html" in play("report", policies="status")
    play("health", policies="status")
    play("export", policies="status", training_job_export=f"s3://{BUCKET}/jobs")
    exported = {each["Key"] for each in cloud.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="jobs/first/")["Contents"]}
    assert {"jobs/first/job.json"} < exported


def test_a_job_continues_from_an_earlier_one(trained, play, on_master):
    more = play("train", training_job_name="second", training_job_resume="first", training_job_arguments=["--epochs", "5"])
    assert "succeeded after" in more
    assert on_master("ls /data/jobs/second/checkpoints") == ""
    assert "jobs to delete second" in play("cleanup", "-e", "deeplearning_confirm=false", policies="status", training_job_name="second")
    assert on_master("ls /data/jobs").split() == ["first"]


def test_a_replaced_master_takes_the_jobs_along_and_is_announced(trained, play):
    lost = "This run terminates the master, so the jobs in /data/jobs on the master's own disk are lost. To keep a job, first export it"
    replaced = {"policies": "provision", "deeplearning_replace_nodes": True}
    assert lost not in play("provision", "--check", **replaced)
    assert lost in play("provision", "--check", **replaced, deeplearning_instance_type="c5.xlarge")


def test_destroy_says_what_is_lost(trained, play, cloud):
    assert "The jobs in /data/jobs on the master's own disk would be lost." in play("destroy", "--check", policies="destroy")
    gone = play("destroy", policies="destroy")
    assert "to be lost the jobs in /data/jobs on the master's own disk to keep nothing" in gone
    assert re.search("No resources of cluster .* remain in us-east-1", gone)
    assert "so there is nothing to delete" in play("destroy", policies="destroy")
