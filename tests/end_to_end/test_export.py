"""A cluster for one job: the job's results are exported to S3 before the cluster is destroyed. The tests build on each other."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.exhaustive

BUCKET = "demo-results"
RESULT = """
import os, pathlib
directory = pathlib.Path(os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"])
(directory / "model.pt").write_text("weights")
"""
# S3 cannot store a file with this name.
NO_NAME = '(directory / "\\x01").touch()\n'


@pytest.fixture(scope="module")
def train(cloud, playbook, tmp_path_factory):
    """Run a script on a cluster of one node, and destroy the cluster afterwards."""
    folder = tmp_path_factory.mktemp("export")
    cloud.client("s3").create_bucket(Bucket=BUCKET)

    def run(name, script, status, **variables):
        path = folder / f"{name}.py"
        path.write_text(script)
        job = {"name": name, "source": "", "script": str(path), "arguments": [], "launcher": "command", "report_directory": str(folder)}
        job |= {"then": "destroy", "export": f"s3://{BUCKET}/jobs", **variables}
        job = {f"training_job_{key}": value for key, value in job.items()}
        definition = {"deeplearning_worker_count": 0, "deeplearning_export_destinations": [f"s3://{BUCKET}/jobs"]}
        return playbook("train.yml", "-e", json.dumps({**definition, **job}), status=status, policies="train+destroy")

    yield run
    playbook("destroy.yml", "-e", "deeplearning_delete_data=true")


@pytest.fixture
def nodes(cloud):
    """Return the instance IDs of the cluster's running nodes."""

    def nodes():
        filters = [{"Name": "tag:deeplearning:cluster", "Values": ["demo"]}, {"Name": "instance-state-name", "Values": ["running"]}]
        found = cloud.client("ec2").describe_instances(Filters=filters)["Reservations"]
        return [item["InstanceId"] for each in found for item in each["Instances"]]

    return nodes


def test_a_destination_that_the_nodes_may_not_write_to_is_refused_before_aws_is_touched(cloud, train):
    refused = train("refused", RESULT, 2, export=f"s3://{BUCKET}/other")
    assert "training_job_export: the nodes are not allowed to write to" in refused.output
    own = [{"Name": "tag:deeplearning:cluster", "Values": ["demo"]}]
    assert cloud.client("ec2").describe_vpcs(Filters=own)["Vpcs"] == []


def test_nodes_stay_for_a_limited_time_if_the_job_cannot_be_exported(train, nodes):
    kept = " ".join(train("kept", RESULT + NO_NAME + "raise SystemExit('no luck')\n", 2).output.split())
    assert "no luck" in kept
    assert "The job failed, as shown above, so training_job_then: destroy is not applied. To apply it even if a job fails, set" in kept
    assert "training_job_then_always: true. 1 node of cluster demo keeps running" in kept
    assert len(nodes()) == 1
    gone = " ".join(train("gone", RESULT + NO_NAME, 2, then_delay=0).output.split())
    assert "Job gone was not exported: These files cannot be exported:" in gone
    assert "The nodes keep running for 0 minutes, so that you can export the job." in gone
    assert "The job failed or was not exported, as shown above. The cluster was destroyed." in gone
    assert nodes() == []


def test_a_job_is_exported_and_then_the_nodes_go(cloud, train, nodes):
    train("exported", RESULT, 0)
    assert nodes() == []
    listed = cloud.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="jobs/exported/")["Contents"]
    assert {"jobs/exported/checkpoints/model.pt", "jobs/exported/report.html"} <= {each["Key"] for each in listed}
