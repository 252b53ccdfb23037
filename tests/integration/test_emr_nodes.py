"""The inventory of an EMR cluster lists the running nodes, which keep their numbers, and no other instances."""

from __future__ import annotations

import json
import os
import re
import subprocess

import ansible_commands
import pytest
from local_cloud.testing import wait_until
from permissions import operators

from .conftest import FAST, KEY_NAME, REGION, ModuleFailed
from .emr_account import PROFILE, ROLE, bucket, emr, quick

__all__ = ["bucket", "emr", "operators", "quick"]


@pytest.fixture
def inventory(cloud, name, tmp_path):
    """Run the inventory plugin and return the hosts with their variables, or the error."""

    def read(**environment):
        path = tmp_path / "nodes.yml"
        path.write_text(json.dumps({"plugin": "deeplearning.cluster.nodes", "cluster": name, "region": REGION, "node_service": "emr"}))
        settings = {**cloud.environment, "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true", **environment}
        done = ansible_commands.run(["ansible-inventory", "-i", str(path), "--list"], settings, tmp_path)
        if done.returncode:
            return " ".join(done.stderr.split())
        found = json.loads(done.stdout, object_hook=lambda item: item.get("__ansible_unsafe", item))
        assert set(found["_meta"]["hostvars"]) <= {*found.get("master", {}).get("hosts", []), *found.get("workers", {}).get("hosts", [])}
        return found["_meta"]["hostvars"]

    return read


def test_the_authority_of_an_emr_cluster_survives_the_ec2_cluster_with_the_same_name(run, emr, name):
    run("emr_cluster", **emr)
    run("ssh_authority", cluster=name)
    kept = run("ssh_authority", cluster=name, state="absent")
    assert not kept["changed"]
    assert "the SSH certificate authority is kept, because nodes of this cluster use it: i-" in str(kept["warnings"])
    run("emr_cluster", cluster=name, state="absent")
    assert run("ssh_authority", cluster=name, node_service="emr", state="absent")["changed"]


TAG_CHANGES = {
    "other cluster": ("deeplearning:cluster", "other"),
    "other component": ("deeplearning:component", "nodes"),
    "no tag": ("deeplearning:cluster", None),
}


@pytest.mark.parametrize("change", TAG_CHANGES)
def test_a_recorded_cluster_with_changed_tags_is_an_error(cloud, run, emr, name, inventory, change):
    """Anyone who may tag EMR clusters can change the tags, but the parameter still records the cluster, which runs and costs money."""
    own = run("emr_cluster", **emr)["resources"]["emr_cluster"]["main"]
    run("ssh_authority", cluster=name)
    key, value = TAG_CHANGES[change]
    client = cloud.client("emr")
    client.remove_tags(ResourceId=own, TagKeys=[key])
    if value:
        client.add_tags(ResourceId=own, Tags=[{"Key": key, "Value": value}])
    message = f"EMR cluster {own}: the tag {key} is {value!r}" if value else f"EMR cluster {own}: the tag {key} is missing"
    for options in (emr, {"cluster": name, "state": "absent"}):
        for check in (True, False):
            with pytest.raises(ModuleFailed, match=f"{message}.*Find out who changed the tag"):
                run("emr_cluster", **options, check=check)
    with pytest.raises(ModuleFailed, match=message):
        run("cluster_info", cluster=name, node_service="emr")
    assert message in inventory()
    kept = run("ssh_authority", cluster=name, node_service="emr", state="absent")
    assert not kept["changed"]
    assert "is kept" in str(kept["warnings"])
    (command,) = re.findall(r"aws emr remove-tags .* && aws emr add-tags .*?(?=\.(?: |$))", inventory())
    subprocess.run(["bash", "-euc", command], env=cloud.environment, check=True, capture_output=True)
    assert len(inventory()) == 3
    assert run("emr_cluster", cluster=name, state="absent")["changed"]
    assert run("ssh_authority", cluster=name, node_service="emr", state="absent")["changed"]


def test_tags_on_the_nodes_of_another_emr_cluster_do_not_keep_the_authority(cloud, run, emr, name):
    """Anyone who may tag instances can set the cluster's tag. Otherwise, destroy would keep the private key forever."""
    run("emr_cluster", **emr)
    instances = cloud.client("ec2").describe_instances(Filters=[{"Name": "tag:deeplearning:cluster", "Values": [name]}])["Reservations"]
    ids = [each["InstanceId"] for reservation in instances for each in reservation["Instances"]]
    assert ids
    other = f"{name}-other"
    cloud.client("ec2").create_tags(Resources=ids, Tags=[{"Key": "deeplearning:cluster", "Value": other}])
    run("ssh_authority", cluster=other)
    assert run("ssh_authority", cluster=other, state="absent")["changed"]


def test_the_nodes_of_a_forged_cluster_are_not_listed(cloud, run, emr, name, inventory):
    """Names and tags do not identify a cluster reliably, because anyone who may create EMR clusters can set them."""
    own = run("emr_cluster", **emr)["resources"]["emr_cluster"]["main"]
    client = cloud.client("emr")
    tags = client.describe_cluster(ClusterId=own)["Cluster"]["Tags"]
    groups = [{"InstanceRole": "MASTER", "InstanceType": "c5.xlarge", "InstanceCount": 1}]
    instances = {"InstanceGroups": groups, "KeepJobFlowAliveWhenNoSteps": True}
    copy = {"Name": name, "ReleaseLabel": "emr-7.9.0", "ServiceRole": ROLE, "JobFlowRole": PROFILE, "Tags": tags}
    forged = client.run_job_flow(**copy, Instances=instances)["JobFlowId"]
    wait_until(lambda: client.describe_cluster(ClusterId=forged)["Cluster"]["Status"]["State"] == "WAITING")
    before = inventory()
    assert len(before) == 3
    theirs = {each["Ec2InstanceId"] for each in client.list_instances(ClusterId=forged)["Instances"]}
    assert not theirs & set(ids(before).values())
    run("emr_cluster", cluster=name, state="absent")
    assert inventory() == {}


def ids(hosts):
    return {host: variables["deeplearning_instance_id"] for host, variables in hosts.items()}


def nodes(cloud, cluster_id, *roles, state="RUNNING"):
    found = cloud.client("emr").list_instances(ClusterId=cluster_id, InstanceStates=[state], InstanceGroupTypes=list(roles))["Instances"]
    return [each["Ec2InstanceId"] for each in found]


def test_numbers_stay_while_the_cluster_grows_shrinks_and_loses_a_node(cloud, run, emr, name, inventory):
    assert inventory() == {}
    cluster = run("emr_cluster", **emr)["resources"]["emr_cluster"]["main"]
    first = inventory()
    assert list(first) == [f"{name}-master", f"{name}-worker2", f"{name}-worker3"]
    assert ids(first)[f"{name}-master"] == nodes(cloud, cluster, "MASTER")[0]
    master = first[f"{name}-master"]
    assert (master["ansible_user"], master["deeplearning_number"], master["deeplearning_node_service"]) == ("hadoop", 1, "emr")

    run("emr_cluster", **{**emr, "emr_core_count": 3, "emr_task_count": 1})
    grown = ids(inventory())
    assert list(grown) == [f"{name}-master", *(f"{name}-worker{number}" for number in (2, 3, 4, 5))]
    assert ids(first).items() <= grown.items()
    assert nodes(cloud, cluster, "TASK") == [grown[f"{name}-worker5"]]

    cloud.control.kill(grown[f"{name}-worker3"])
    wait_until(lambda: grown[f"{name}-worker3"] not in (alive := nodes(cloud, cluster, "CORE")) and len(alive) == 3)
    lost = {host: identifier for host, identifier in grown.items() if host != f"{name}-worker3"}
    assert lost.items() <= ids(inventory()).items(), "the number of a lost node is free for its replacement"
    predicted = run("emr_cluster", **{**emr, "emr_core_count": 3, "emr_task_count": 1}, check=True)
    assert [len(each["before"]["nodes_without_number"]) for each in predicted["changes"]] == [1]
    run("emr_cluster", **{**emr, "emr_core_count": 3, "emr_task_count": 1})
    assert not run("emr_cluster", **{**emr, "emr_core_count": 3, "emr_task_count": 1})["changed"]
    replaced = ids(inventory())

    predicted = run("emr_cluster", **{**emr, "emr_core_count": 1}, check=True)["changes"]
    going = {replaced[f"{name}-worker{number}"] for number in (3, 4, 5)}
    assert [set(each["before"]["surplus_nodes"]) for each in predicted] == [going]
    run("emr_cluster", **{**emr, "emr_core_count": 1})
    assert ids(inventory()) == {host: replaced[host] for host in (f"{name}-master", f"{name}-worker2")}

    former = run("former_nodes_info", cluster=name, days=1, node_service="emr")
    assert set(former["instance_ids"]) == {*going, grown[f"{name}-worker3"]}
    assert {each["cause"] for each in former["nodes"]} >= {"Instance was terminated because of a resize request."}
    listed = run("cluster_info", cluster=name, node_service="emr")["nodes"]
    assert [each["name"] for each in listed] == [f"{name}-master", f"{name}-worker2"]
    run("emr_cluster", cluster=name, state="absent")
    assert inventory() == {}
    assert set(run("former_nodes_info", cluster=name, days=1, node_service="emr")["instance_ids"]) >= {*going, *replaced.values()}


def test_tags_of_users_add_and_hide_no_node(cloud, run, emr, name, inventory):
    cluster = run("emr_cluster", **emr)["resources"]["emr_cluster"]["main"]
    hosts = ids(inventory())
    ec2 = cloud.client("ec2")
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    tags = {"deeplearning:cluster": name, "deeplearning:number": "4", "job-flow-id": cluster, "instance-group-role": "CORE"}
    (outsider,) = ec2.run_instances(
        ImageId=image,
        InstanceType="c5.large",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}],
    )["Instances"]
    wait_until(
        lambda: ec2.describe_instances(InstanceIds=[outsider["InstanceId"]])["Reservations"][0]["Instances"][0]["State"]["Code"] == 16
    )
    assert ids(inventory()) == hosts
    worker = hosts[f"{name}-worker3"]
    ec2.create_tags(Resources=[worker], Tags=[{"Key": "deeplearning:number", "Value": "2"}])
    assert "each has the number 2 in its tag deeplearning:number" in inventory()
    with pytest.raises(ModuleFailed, match="each has the number 2"):
        run("cluster_info", cluster=name, node_service="emr")
    ec2.create_tags(Resources=[worker], Tags=[{"Key": "deeplearning:cluster", "Value": "others"}])
    assert f"but EMR cluster {name} launched the instance" in inventory()


def test_nodes_that_are_not_ready_are_not_listed(cloud, run, emr, inventory):
    cloud.control.set_delays(**{**FAST, "emr_cluster": 3600})
    cluster = run("emr_cluster", **emr, wait=False)["resources"]["emr_cluster"]["main"]
    wait_until(lambda: len(nodes(cloud, cluster, state="BOOTSTRAPPING")) == 3)
    assert inventory() == {}


def test_the_policy_for_the_status_of_emr_nodes_suffices(cloud, run, emr, name, inventory, operators):
    run("emr_cluster", **emr)
    operators.be("emr_status")
    assert len(inventory(**{key: value for key, value in os.environ.items() if key.startswith("AWS_")})) == 3


@pytest.mark.exhaustive
def test_a_cluster_of_the_aws_cli_is_adopted(cloud, run, emr, bucket, name, inventory, operators, repository, tmp_path):
    """The commands of the guide adopt a cluster with another name, with the permissions of the operator."""
    create = (
        f"aws emr create-cluster --name theirs --release-label emr-7.9.0 --instance-type c5.xlarge --instance-count 3 --region {REGION}"
        f" --ec2-attributes InstanceProfile={PROFILE},KeyName={KEY_NAME} --service-role {ROLE} --log-uri s3://{bucket}/logs"
        f" --bootstrap-actions Path=s3://{bucket}/mount.sh,Args=[fs-0123,us-east-1] --query ClusterId --output text"
    )
    cluster = subprocess.run(create.split(), env=cloud.environment, capture_output=True, text=True, check=True).stdout.strip()
    wait_until(lambda: len(nodes(cloud, cluster)) == 3)
    operators.be("emr")
    own = {key: value for key, value in os.environ.items() if key.startswith("AWS_")}
    assert inventory(**own) == {}
    guide = (repository / "docs" / "from-emr.md").read_text().partition("## Adopt a running cluster\n")[2].partition("\n## ")[0]
    (tmp_path / "nodes.yml").write_text(
        json.dumps({"plugin": "deeplearning.cluster.nodes", "cluster": name, "region": REGION, "node_service": "emr"})
    )
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.json").write_text(
        json.dumps({f"deeplearning_{option}": value for option, value in emr.items() if option != "cluster"})
    )
    commands = re.search(r"^```sh\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)[1]
    for placeholder, value in (("j-2AL4XXXXXX5T9", cluster), ("=bert ", f"={name} "), ("/bert/", f"/{name}/")):
        assert placeholder in commands
        commands = commands.replace(placeholder, value)
    shell = ["bash", "-euo", "pipefail", "-c", commands]
    settings = {**cloud.environment, **own}
    done = subprocess.run(shell, env=settings, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert ids(inventory(**own)).keys() == {f"{name}-master", f"{name}-worker2", f"{name}-worker3"}
    assert not run("emr_cluster", **emr)["changed"]
    with pytest.raises(ModuleFailed, match=r"EMR cannot change in place: root_volume_size is .*, not 60"):
        run("emr_cluster", **emr, emr_root_volume_size=60)
    resized = run("emr_cluster", **{**emr, "emr_core_count": 3})
    assert resized["resources"]["emr_cluster"]["main"] == cluster
    assert len(inventory(**own)) == 4
    run("emr_cluster", cluster=name, state="absent")
    assert nodes(cloud, cluster) == []
