"""Exports to S3 with the AWS CLI, the permissions that nodes need for exports, and the validators for export destinations."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instance_role import definition as role
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.training_job_export import exporter
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.directories import Paths
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.job_states import read_export

from .conftest import REGION, ModuleFailed


@pytest.fixture
def bucket(cloud, name):
    cloud.client("s3").create_bucket(Bucket=f"{name}-results")
    return f"{name}-results"


@pytest.fixture
def export(tmp_path):
    """A job's directory, and a function that exports it and returns the state of the export."""
    paths = Paths(str(tmp_path / "digits"))
    os.makedirs(paths.status)

    def run(destination):
        spec = {"directory": paths.directory, "checkpoints": paths.checkpoints, "destination": f"{destination}/digits/", "region": REGION}
        spec |= {"include": [], "exclude": [], "checkpoint_count": 0, "follow": False, "standby": 0, "interval": 0, "heartbeat_timeout": 60}
        (tmp_path / "spec.json").write_text(json.dumps(spec))
        assert exporter.main(["run", str(tmp_path / "spec.json")]) == 0
        return read_export(paths, 60)

    return Path(paths.directory), run


def node(cloud, name, monkeypatch, *destinations):
    """Run the rest of the test with the permissions of nodes that may export to the destinations."""
    policy = role.policy(REGION, [], [], export_destinations=destinations)
    for variable, value in cloud.operator(f"{name}-node", policy).items():
        monkeypatch.setenv(variable, value)


def test_files_get_to_s3_once(cloud, name, bucket, export, monkeypatch):
    job, run = export
    names = ["logs/rank0.log", "checkpoints/step 1,[a]*?.pt", "checkpoints/großes Modell.pt", "code/über/%41&b=c.py", "large"]
    for number, path in enumerate(names):
        (job / path).parent.mkdir(parents=True, exist_ok=True)
        (job / path).write_bytes(bytes([65 + number]) * (20_000_000 if path == "large" else 10))
    (job / "logs/passwd").symlink_to("/etc/passwd")
    node(cloud, name, monkeypatch, f"s3://{bucket}/team")
    cloud.control.forget_calls()
    state = run(f"s3://{bucket}/team")
    assert (state.get("error"), state["state"], state["files"], state["uploaded"]) == (None, "succeeded", 5, 5)
    assert "UploadPart" in {call["action"] for call in cloud.control.calls()}
    s3 = cloud.client("s3")
    for number, path in enumerate(names):
        assert s3.get_object(Bucket=bucket, Key=f"team/digits/{path}")["Body"].read(3) == bytes([65 + number]) * 3
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 5

    cloud.control.forget_calls()
    assert run(f"s3://{bucket}/team")["uploaded"] == 0
    assert {call["action"] for call in cloud.control.calls()} == {"ListObjectsV2"}


@pytest.mark.exhaustive
def test_nodes_write_where_they_may_and_nowhere_else(cloud, name, bucket, export, monkeypatch):
    job, run = export
    monkeypatch.setattr(exporter, "GRANT_TIMEOUT", 0)
    (job / "job.json").write_text("{}")
    node(cloud, name, monkeypatch, f"s3://{bucket}/team")
    denied = f"s3://{bucket}/teams/digits/: S3 denies this host access: An error occurred (AccessDenied)"
    assert run(f"s3://{bucket}/teams")["error"].startswith(denied)
    assert "Add the destination to deeplearning_export_destinations" in run(f"s3://{bucket}")["error"]
    node(cloud, name, monkeypatch, f"s3://{name}-absent")
    missing = f"s3://{name}-absent/digits/: there is no bucket {name}-absent. Check the name, or create the bucket."
    assert run(f"s3://{name}-absent")["error"] == missing


@pytest.mark.parametrize(
    ("destination", "message"),
    [
        ("results", r"export_destinations: 'results' is not a bucket or prefix"),
        ("s3://results/*", r"export_destinations: 's3://results/\*' is not a bucket or prefix"),
        ("s3://there-is-no-such/team", "export_destinations: there is no bucket there-is-no-such in the partition aws. Create this bucket"),
    ],
)
def test_bad_destinations_are_refused(run, definition, destination, message):
    with pytest.raises(ModuleFailed, match=message):
        run("cluster_validation", **definition, export_destinations=[destination])


def test_a_bucket_of_another_region_is_a_warning(cloud, run, definition, name):
    constraint = {"LocationConstraint": "eu-west-1"}
    cloud.client("s3", "eu-west-1").create_bucket(Bucket=f"{name}-far", CreateBucketConfiguration=constraint)
    result = run("cluster_validation", **definition, export_destinations=[f"s3://{name}-far/team"])
    (finding,) = result["findings"]
    assert (finding["validator"], finding["level"]) == ("export_region", "warning")
    assert f"bucket {name}-far is in eu-west-1, but the cluster is in {REGION}" in finding["message"]


def test_a_role_of_somebody_else_may_lack_the_permission(cloud, run, definition, name, bucket):
    iam = cloud.client("iam")
    iam.create_role(RoleName=f"{name}-theirs", AssumeRolePolicyDocument=json.dumps(role.trust_policy(REGION)))
    iam.create_instance_profile(InstanceProfileName=f"{name}-theirs")
    iam.add_role_to_instance_profile(InstanceProfileName=f"{name}-theirs", RoleName=f"{name}-theirs")
    options = {**definition, "instance_profile": f"{name}-theirs", "export_destinations": [f"s3://{bucket}/team"]}

    def validators():
        return [finding["validator"] for finding in run("cluster_validation", **options)["findings"]]

    assert "export_allowed" in validators()
    policy = role.policy(REGION, [], [], export_destinations=options["export_destinations"])
    iam.put_role_policy(RoleName=f"{name}-theirs", PolicyName="nodes", PolicyDocument=json.dumps(policy))
    assert "export_allowed" not in validators()
