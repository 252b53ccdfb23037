"""The definitions in the guides are valid, and the guides' commands that need no hosts run. The other commands: tests/end_to_end."""

from __future__ import annotations

import json
import re
import shlex
import subprocess

import pytest
import yaml
from local_cloud.testing import wait_until

from .conftest import KEY_NAME
from .emr_account import bucket, quick

__all__ = ["bucket", "quick"]
pytestmark = pytest.mark.exhaustive
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# The values that a user replaces, because they exist only in the user's account.
IDS = ("deeplearning_file_system_id", "deeplearning_image_id", "deeplearning_key_name")


def commands(text):
    """Return the playbook commands in the shell blocks of a page, as lists of arguments."""
    lines = "".join(block for language, block in BLOCK.findall(text) if language == "sh").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.startswith("ansible-playbook")]


@pytest.fixture
def project(cloud, tmp_path, name):
    """Return a function that writes the files of a project and returns a function that runs commands in the project's folder."""

    def make(definition, **inventory):
        nodes = {"plugin": "deeplearning.cluster.nodes", "cluster": name, "region": "us-east-1", **inventory}
        (tmp_path / "nodes.yml").write_text(json.dumps(nodes))
        (tmp_path / "group_vars").mkdir()
        (tmp_path / "group_vars" / "all.yml").write_text(json.dumps(definition))
        for file in ("requirements.txt", "src/train.py", "src/train.sh", "src/train_mnist.py"):
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).write_text("")

        def run(command):
            done = subprocess.run(
                command, env=cloud.environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
            )
            assert done.returncode == 0, done.stdout
            return done.stdout

        return run

    return make


@pytest.mark.parametrize("guide", ["first-day", "from-cloudformation", "from-horovod-stack", "from-mxnet-on-ec2"])
def test_the_complete_example_of_a_guide_is_valid(cloud, project, repository, guide):
    cloud.control.set_quotas({"L-417A185B": 1000, "L-DB2E81BA": 1000})
    text = (repository / f"docs/{guide}.md").read_text()
    (block,) = [block for language, block in BLOCK.findall(text) if language == "yaml" and "deeplearning_key_name:" in block]
    definition = yaml.safe_load(block)
    efs = cloud.client("efs")
    file_system = efs.create_file_system(CreationToken=guide)["FileSystemId"]
    wait_until(lambda: efs.describe_file_systems(FileSystemId=file_system)["FileSystems"][0]["LifeCycleState"] == "available")
    image = cloud.client("ec2").describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    own = {**dict(zip(IDS, (file_system, image, KEY_NAME), strict=True)), "deeplearning_network_cidr": "10.0.0.0/16"}
    run = project(definition | {key: value for key, value in own.items() if key in definition})
    here = [command for command in commands(text) if "validate" in command[-1] or "--check" in command]
    assert len(here) >= 2
    for command in here:
        output = " ".join(run(command).split())
        assert "--check" in command or "No errors and" in output
        assert "has no effect" not in output


def test_the_commands_for_emr(cloud, project, bucket, repository, landlord, name):
    definition = yaml.safe_load((repository / "examples/definitions/emr.yml").read_text())
    parameter = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"
    owner = landlord(nat=False)
    own = {
        "deeplearning_emr_image_id": cloud.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"],
        "deeplearning_emr_key_name": KEY_NAME,
        "deeplearning_emr_log_uri": f"s3://{bucket}/logs/",
        "deeplearning_emr_subnet_id": owner.public[0],
        "deeplearning_emr_additional_security_group_ids": {"master": [owner.group("nfs")], "workers": []},
        "deeplearning_emr_bootstrap_actions": [{"name": "Mount EFS", "path": f"s3://{bucket}/mount.sh"}],
    }
    assert own.keys() - definition.keys() == {"deeplearning_emr_subnet_id"}
    run = project(definition | own, node_service="emr")
    text = (repository / "docs/from-emr.md").read_text()
    section = text.partition("\n## Create a cluster\n")[2].partition("\n## ")[0]
    create, *others = commands(section)
    assert len(others) == 3
    states = []
    for command in (create, *others):
        run(command)
        clusters = cloud.client("emr").list_clusters(ClusterStates=["STARTING", "BOOTSTRAPPING", "RUNNING", "WAITING"])["Clusters"]
        ids = [each["Id"] for each in clusters if each["Name"] == name]
        groups = [group for each in ids for group in cloud.client("emr").list_instance_groups(ClusterId=each)["InstanceGroups"]]
        states.append({group["InstanceGroupType"]: group["RunningInstanceCount"] for group in groups})
    core = {"MASTER": 1, "CORE": 3}
    assert states == [{}, core, {**core, "TASK": 2}, {}]
