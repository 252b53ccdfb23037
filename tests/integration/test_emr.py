"""EMR clusters are created, changed, replaced and terminated as defined.

Each change is first predicted in check mode, and no change is made twice.
"""

from __future__ import annotations

import itertools
import json
import re
import secrets
import subprocess
from concurrent.futures import ThreadPoolExecutor

import ansible_commands
import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import ClusterError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr import record, resources
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.option import UpdatePolicy
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.options.registry import options_of
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.tags import EMR_COMPONENT
from local_cloud.testing import wait_until
from permissions import operators

from .clusters import steps, writes
from .conftest import KEY_NAME, REGION, ModuleFailed
from .emr_account import PROFILE, QUICK, ROLE, bucket, emr, make_role, quick
from .killing import kill_at
from .landlord import Landlord

__all__ = ["bucket", "emr", "operators", "quick"]
LIVE = ["STARTING", "BOOTSTRAPPING", "RUNNING", "WAITING"]


def described(cloud, name, *states):
    """Return the clusters with this name as EMR describes them."""
    client = cloud.client("emr")
    listed = [page["Clusters"] for page in client.get_paginator("list_clusters").paginate(ClusterStates=list(states or LIVE))]
    ids = [each["Id"] for page in listed for each in page if each["Name"] == name]
    return [client.describe_cluster(ClusterId=identifier)["Cluster"] for identifier in ids]


def sizes(cloud, cluster_id):
    groups = cloud.client("emr").list_instance_groups(ClusterId=cluster_id)["InstanceGroups"]
    return {each["InstanceGroupType"]: (each["InstanceType"], each["RunningInstanceCount"]) for each in groups}


def listed_groups(cloud, cluster):
    return cloud.client("emr").list_instance_groups(ClusterId=cluster["Id"])["InstanceGroups"]


def same(run, options, expected):
    """Run the module with changed options. Verify that check mode predicts the changes and that a second run has nothing to do. Return the
    result.
    """
    predicted = run("emr_cluster", **options, check=True)
    applied = run("emr_cluster", **options)
    assert steps(predicted) == steps(applied) == expected
    again = run("emr_cluster", **{key: value for key, value in options.items() if key != "emr_replace"})
    assert (again["changed"], again["changes"]) == (False, [])
    return applied


def test_life_of_a_cluster(cloud, run, emr, name):
    cloud.control.forget_calls()
    predicted = run("emr_cluster", **emr, check=True)
    assert writes(cloud) == []
    assert predicted["resources"] == {"emr_cluster": {"main": "(known after apply)"}}
    result = same(run, emr, {("create", "emr_cluster main")})
    cluster_id = result["resources"]["emr_cluster"]["main"]
    (cluster,) = described(cloud, name)
    assert (cluster["Id"], cluster["Status"]["State"]) == (cluster_id, "WAITING")
    assert sizes(cloud, cluster_id) == {"MASTER": ("c5.xlarge", 1), "CORE": ("c5.xlarge", 2)}
    assert {"Key": "deeplearning:cluster", "Value": name} in cluster["Tags"]

    cloud.control.forget_calls()
    assert not run("emr_cluster", **emr)["changed"]
    assert writes(cloud) == [], "the module only reads an unchanged cluster"

    same(run, {**emr, "emr_core_count": 3, "emr_task_count": 1, "emr_task_instance_type": "m5.xlarge"}, {("update", "emr_cluster main")})
    assert sizes(cloud, cluster_id) == {"MASTER": ("c5.xlarge", 1), "CORE": ("c5.xlarge", 3), "TASK": ("m5.xlarge", 1)}
    same(run, {**emr, "tags": {"team": "speech"}, "emr_termination_protection": True}, {("update", "emr_cluster main")})
    assert sizes(cloud, cluster_id) == {"MASTER": ("c5.xlarge", 1), "CORE": ("c5.xlarge", 2), "TASK": ("m5.xlarge", 0)}

    with pytest.raises(ModuleFailed, match=rf"emr_termination_protection: EMR cluster {cluster_id} is protected"):
        run("emr_cluster", cluster=name, state="absent")
    gone = {"cluster": name, "state": "absent", "emr_termination_protection": False}
    assert steps(run("emr_cluster", **gone, check=True)) == {("delete", "emr_cluster main")}
    assert described(cloud, name)
    assert steps(run("emr_cluster", **gone)) == {("delete", "emr_cluster main")}
    assert described(cloud, name) == []
    assert not run("emr_cluster", **gone)["changed"]


def test_a_tag_changes_on_the_cluster_and_its_instances(cloud, run, emr, name):
    run("emr_cluster", **emr, tags={"team": "speech"})
    same(run, {**emr, "tags": {"team": "vision"}}, {("update", "emr_cluster main")})
    (cluster,) = described(cloud, name)
    instances = cloud.client("emr").list_instances(ClusterId=cluster["Id"], InstanceStates=["RUNNING"])["Instances"]
    reservations = cloud.client("ec2").describe_instances(InstanceIds=[each["Ec2InstanceId"] for each in instances])["Reservations"]
    tags = [{tag["Key"]: tag["Value"] for tag in each["Tags"]} for reservation in reservations for each in reservation["Instances"]]
    assert [(each["team"], each["deeplearning:cluster"]) for each in tags] == [("vision", name)] * 3


def test_emr_terminates_an_idle_cluster(cloud, run, emr, name):
    ending = {**emr, "emr_idle_after": "30m"}
    same(run, ending, {("create", "emr_cluster main")})
    (cluster,) = described(cloud, name)
    assert policy(cloud, cluster) == {"IdleTimeout": 1800}
    longer = same(run, {**ending, "emr_idle_after": "1h"}, {("update", "emr_cluster main")})
    assert [(each["before"], each["after"]) for each in longer["changes"]] == [({"idle_seconds": 1800}, {"idle_seconds": 3600})]
    assert policy(cloud, cluster) == {"IdleTimeout": 3600}
    assert not run("emr_cluster", **{**ending, "emr_idle_after": "60m"})["changed"]
    same(run, emr, {("update", "emr_cluster main")})
    assert policy(cloud, cluster) is None
    cloud.control.advance(7200)
    same(run, ending, {("update", "emr_cluster main")})
    cloud.control.advance(1801)
    wait_until(lambda: described(cloud, name, "TERMINATED"))
    same(run, ending, {("create", "emr_cluster main")})


def policy(cloud, cluster):
    return cloud.client("emr").get_auto_termination_policy(ClusterId=cluster["Id"]).get("AutoTerminationPolicy")


@pytest.mark.parametrize("code", ["UnknownOperationException", "ValidationException"])
def test_a_cluster_without_auto_termination_has_no_policy(cloud, run, emr, code):
    run("emr_cluster", **emr)
    cloud.control.set_faults([{"service": "emr", "action": "GetAutoTerminationPolicy", "code": code, "status": 400}])
    assert not run("emr_cluster", **emr)["changed"]


OF_THE_FORMER_SYSTEM = "--ec2-attributes InstanceProfile=EMR_EC2_DefaultRole,KeyName={key}"
EFS_OF_THE_FORMER_SYSTEM = (
    f"{OF_THE_FORMER_SYSTEM},EmrManagedMasterSecurityGroup={{master}},EmrManagedSlaveSecurityGroup={{workers}},"
    "AdditionalMasterSecurityGroups=[{efs}],AdditionalSlaveSecurityGroups=[{efs}]"
    " --bootstrap-actions Path=s3://{bucket}/mount.sh,Args=[fs-0123,us-east-1]"
)
# Options of `aws emr create-cluster`, and the module's options for them.
#
# The first two commands are those in the guide of the former system. The guide's instance type, g2.2xlarge, no longer exists.
COMMANDS = {
    "plain": (OF_THE_FORMER_SYSTEM, {}),
    "with EFS": (
        EFS_OF_THE_FORMER_SYSTEM,
        {
            "emr_security_group_ids": {"master": "{master}", "workers": "{workers}"},
            "emr_additional_security_group_ids": {"master": ["{efs}"], "workers": ["{efs}"]},
            # The name that the AWS CLI gives an action without a name
            "emr_bootstrap_actions": [{"name": "Bootstrap action", "path": "s3://{bucket}/mount.sh", "args": ["fs-0123", "us-east-1"]}],
        },
    ),
    "further options": (
        "--instance-groups InstanceGroupType=MASTER,InstanceCount=1,InstanceType=m4.2xlarge"
        " InstanceGroupType=CORE,InstanceCount=2,InstanceType=m4.2xlarge InstanceGroupType=TASK,InstanceCount=1,InstanceType=c4.xlarge"
        " --ec2-attributes InstanceProfile=EMR_EC2_DefaultRole,KeyName={key},SubnetId={subnet}"
        " --applications Name=Ganglia Name=Spark --ebs-root-volume-size 60 --termination-protected --no-auto-terminate",
        {
            "emr_task_count": 1,
            "emr_task_instance_type": "c4.xlarge",
            "emr_subnet_id": "{subnet}",
            "emr_applications": ["Spark", "Ganglia"],
            "emr_root_volume_size": 60,
            "emr_termination_protection": True,
        },
    ),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("variant", COMMANDS)
def test_the_module_sends_the_request_of_the_aws_cli(cloud, run, bucket, name, landlord, variant):
    """Both requests are recorded by the local cloud. Only the module adds tags."""
    command, more = COMMANDS[variant]
    owner = landlord(nat=False)
    default = default_vpc(cloud)
    known = {
        "key": KEY_NAME,
        "bucket": bucket,
        "subnet": owner.public[0],
        **{each: default.group(f"{name}-{each}") for each in ("master", "workers", "efs")},
    }
    image = amazon_linux_1(cloud, name)
    size = "" if "--instance-groups" in command else "--instance-type m4.2xlarge --instance-count 3 "
    cloud.control.forget_calls()
    aws = (
        f"aws emr create-cluster --release-label emr-5.8.0 {size}{command.format(**known)} --service-role EMR_DefaultRole"
        f" --custom-ami-id {image} --log-uri S3://{bucket} --name {name} --region {REGION}"
    )
    done = subprocess.run(aws.split(), env=cloud.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    options = {
        "emr_release_label": "emr-5.8.0",
        "emr_instance_type": "m4.2xlarge",
        "emr_core_count": 2,
        "emr_key_name": KEY_NAME,
        "emr_image_id": image,
        "emr_log_uri": f"S3://{bucket}",
        **filled(more, known),
    }
    run("emr_cluster", cluster=name, **options)
    of_cli, of_module = [call["parameters"] for call in cloud.control.calls() if call["action"] == "RunJobFlow"]
    assert of_cli.pop("Tags") == []
    assert {"Key": "deeplearning:cluster", "Value": name} in of_module.pop("Tags")
    assert of_module == of_cli


def filled(value, known):
    """Return a copy of a value in which the names of resources are replaced with their IDs."""
    if isinstance(value, dict):
        return {key: filled(each, known) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each, known) for each in value]
    return value.format(**known) if isinstance(value, str) else value


def default_vpc(cloud):
    ec2 = cloud.client("ec2")
    (vpc,) = ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"]
    return Landlord(ec2, vpc["VpcId"])


def amazon_linux_1(cloud, name):
    return cloud.client("ec2").copy_image(SourceImageId=amazon_linux(cloud), SourceRegion=REGION, Name=f"amzn-ami-hvm-2018.03-{name}")[
        "ImageId"
    ]


STEP = {"name": "prepare", "args": ["spark-submit", "prepare.py"]}


def test_steps_are_added_once_and_in_order(cloud, run, emr, name):
    more = {**STEP, "name": "evaluate"}
    same(run, {**emr, "emr_steps": [STEP]}, {("create", "emr_cluster main"), ("create", "emr_step prepare")})
    same(run, {**emr, "emr_steps": [STEP, more]}, {("create", "emr_step evaluate")})
    (cluster,) = described(cloud, name)
    listed = cloud.client("emr").list_steps(ClusterId=cluster["Id"])["Steps"]
    assert [each["Name"] for each in listed] == ["evaluate", "prepare"]
    assert not run("emr_cluster", **emr)["changed"], "EMR keeps steps that the definition no longer contains"
    with pytest.raises(ModuleFailed, match=r"emr_step prepare: args is .* EMR does not change steps. Give the changed step another name"):
        run("emr_cluster", **emr, emr_steps=[{**STEP, "args": ["other"]}])
    missing = {"name": "missing", "jar": "s3://no-such-bucket/a.jar"}
    run("emr_cluster", **emr, emr_steps=[missing])
    wait_until(lambda: cloud.client("emr").list_steps(ClusterId=cluster["Id"], StepStates=["FAILED"])["Steps"])
    warnings = run("emr_cluster", **emr, emr_steps=[missing])["warnings"]
    assert re.search("emr_steps: 'missing' .*a.jar does not exist", str(warnings))


def test_the_playbook_and_the_example_definition(cloud, bucket, name, repository, landlord, tmp_path):
    """In the example definition, the test replaces only the values that depend on the account."""
    definition = yaml.safe_load((repository / "examples" / "definitions" / "emr.yml").read_text())
    owner, nodes = landlord(nat=False), tmp_path / "nodes.yml"
    nodes.write_text(json.dumps({"plugin": "deeplearning.cluster.nodes", "cluster": name, "region": REGION, "node_service": "emr"}))
    own = {
        "deeplearning_price_warning": 5,
        "deeplearning_emr_idle_after": "",  # set below
        "deeplearning_emr_image_id": amazon_linux(cloud),
        "deeplearning_emr_key_name": KEY_NAME,
        "deeplearning_emr_log_uri": f"s3://{bucket}/logs/",
        "deeplearning_emr_subnet_id": owner.public[0],
        "deeplearning_emr_additional_security_group_ids": {"master": [owner.group("nfs")], "workers": []},
        "deeplearning_emr_bootstrap_actions": [
            {**each, "path": f"s3://{bucket}/mount.sh"} for each in definition["deeplearning_emr_bootstrap_actions"]
        ],
    }
    definition |= own

    def play(*arguments, playbook="emr", status=0, callback="default", **more):
        command = ["ansible-playbook", "-i", str(nodes), f"playbooks/{playbook}.yml", "-e", json.dumps({**definition, **more}), *arguments]
        done = ansible_commands.run(command, {**cloud.environment, "ANSIBLE_STDOUT_CALLBACK": callback}, repository)
        assert done.returncode == status, done.stdout + done.stderr
        return " ".join((done.stdout + done.stderr).split())

    for option in ("deeplearning_lease", "deeplearning_idle_after"):
        assert "these options do not end the nodes of EMR clusters" in play("--check", status=2, **{option: "8h"})
    assert "this playbook checks the clusters of the playbook provision" in play(playbook="validate", status=2)
    output = play("--check", "--diff")
    assert "changed=1" in output
    assert "EMR on 4 x g5.2xlarge (EMR cluster main)" in output, "each charge is listed"
    assert "Nothing ends the EMR cluster by itself." in output
    assert described(cloud, name) == []
    output = play()
    assert "Nothing ends the EMR cluster by itself." in output
    (cluster,) = described(cloud, name)
    assert f"EMR cluster {name} ({cluster['Id']}) keeps running and costs money" in output
    costs = "The cluster costs 14.54 USD per hour (349.05 USD per day)"
    assert f"whether or not a step is running. {costs}" in output
    assert "without traffic and taxes. To log in to the master" in output
    assert f"{costs}, 10,617.00 USD per month, without traffic," in play(playbook="info")
    assert sizes(cloud, cluster["Id"]) == {"MASTER": ("g5.2xlarge", 1), "CORE": ("g5.2xlarge", 3)}
    assert "Nothing ends the EMR cluster by itself." in play(playbook="info")
    planned = play("--check", callback="deeplearning.cluster.concise", deeplearning_emr_idle_after="30m")
    assert "Plan: 0 to create, 1 to change, 0 to delete;" in planned
    play(deeplearning_emr_idle_after="30m")
    assert "EMR terminates the cluster when it has been idle for 30 min" in play(playbook="info")
    cloud.control.advance(1801)
    wait_until(lambda: described(cloud, name, "TERMINATED"))
    for playbook in ("info", "status"):
        output = play(playbook=playbook, status=2)
        assert re.search(rf"EMR cluster {cluster['Id']} terminated at .* UTC: .*To create a new one, run .*cluster\.emr", output)
    assert "Nodes of EMR clusters are not listed" in play(playbook="events")
    play(deeplearning_emr_idle_after="30m")
    play(deeplearning_state="absent", deeplearning_lease="8h")
    assert described(cloud, name) == []
    assert f"Cluster {name} has no running EMR cluster in {REGION}, so there is nothing to terminate." in play(deeplearning_state="absent")


def test_the_price_contains_the_volumes(cloud, run, emr, name):
    """Before the cluster exists, after its creation, as it runs, and on the meter. Here, 4 processors with EMR cost 0.25 USD per hour."""

    def cost():
        return sum(price for kind, price in cloud.control.cost(REGION).items() if kind != "address")

    before = cost()
    # 3 nodes, each with a root of 15 GB of gp3 at 0.08 USD (1.20 USD per month) and two volumes of 32 GB of gp2 at 0.10 USD (6.40)
    hourly = 3 * 0.25 + 3 * (1.2 + 6.4) / 730
    # A root of 50 GB (4.00) has the type of the image. The task node, with 8 processors and a GPU for 2.50 USD, has disks of its own.
    root = {"emr_root_volume_size": 50, "emr_image_id": amazon_linux(cloud), "emr_replace": True}
    replaced = 3 * 0.25 + 3 * (4.0 + 6.4) / 730
    task = {"emr_task_count": 1, "emr_task_instance_type": "g5.2xlarge"}
    for changes, expected in (({}, hourly), (root, replaced), ({**root, **task}, replaced + 1.25 * 2.9 + 4.0 / 730)):
        options = {**emr, **changes, "prices": True}
        prices = [run("emr_cluster", **options, check=check)["price"] for check in (True, False, False)]
        info = run("cluster_info", cluster=name, node_service="emr")
        assert [each["hourly"] for each in (*prices, info["price"])] == [pytest.approx(expected)] * 4, (changes, prices)
        assert cost() - before == pytest.approx(expected)
    assert info["nodes"][0]["volumes"][1:] == [["gp2", 32, None, None]] * 2
    ended = run("emr_cluster", cluster=name, state="absent", prices=True, check=True)
    assert sum(change["hourly"] for change in ended["changes"]) == pytest.approx(-expected)


def test_a_run_that_enforces_the_warning_changes_nothing_above_it(cloud, run, emr, name):
    options = {**emr, "prices": True, "price_warning": 1.0, "enforce_price_warning": True}
    for check in (True, False):
        with pytest.raises(
            ModuleFailed,
            match=rf"because after it, cluster {name} costs .* USD per day at .*Nothing was changed.*run the playbook emr with --check",
        ):
            run("emr_cluster", **options, check=check)
    run("emr_cluster", **{**options, "price_warning": 10000.0})
    assert not run("emr_cluster", **options)["changed"]
    run("emr_cluster", **options, state="absent")
    assert described(cloud, name) == []


CHANGES = {
    "emr_release_label": "emr-7.8.0",
    "emr_image_id": lambda cloud, _landlord: amazon_linux(cloud),
    "emr_instance_type": "c5.2xlarge",
    "emr_core_instance_type": "m5.xlarge",
    "emr_task_instance_type": "m5.2xlarge",
    "emr_service_role": lambda cloud, _landlord: other_role(cloud),
    "emr_instance_profile": lambda cloud, _landlord: other_profile(cloud),
    "emr_key_name": lambda cloud, _landlord: other_key(cloud),
    "emr_subnet_id": lambda _cloud, landlord: landlord.public[0],
    "emr_security_group_ids": lambda _cloud, landlord: {each: landlord.group(f"emr-{each}") for each in ("master", "workers")},
    "emr_additional_security_group_ids": lambda _cloud, landlord: {"workers": [landlord.group("emr-more")]},
    "emr_bootstrap_actions": [],
    "emr_root_volume_size": 60,
    "emr_log_uri": "s3://emr-tests/elsewhere",
    "emr_applications": ["Spark"],
}
IN_PLACE = {"emr_core_count", "emr_idle_after", "emr_task_count", "emr_termination_protection", "emr_steps"}


def amazon_linux(cloud):
    parameter = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"
    return cloud.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"]


def other_role(cloud):
    name = f"emr-other-service-{secrets.token_hex(3)}"
    make_role(cloud, name, "elasticmapreduce")
    return name


def other_profile(cloud):
    iam, name = cloud.client("iam"), f"emr-other-nodes-{secrets.token_hex(3)}"
    make_role(cloud, name, "ec2")
    iam.create_instance_profile(InstanceProfileName=name)
    iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
    return iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Arn"]


def other_key(cloud):
    return cloud.client("ec2").create_key_pair(KeyName=f"emr-other-{secrets.token_hex(3)}")["KeyName"]


def test_every_option_has_its_policy():
    """Each option of the module either is tested in this file or applies to only one run."""
    policies = {option.name: option.update.policy for option in options_of(EMR_COMPONENT) if option.name.startswith("emr_")}
    assert {name for name, policy in policies.items() if policy is UpdatePolicy.REPLACES_EMR_CLUSTER} == set(CHANGES)
    assert {name for name, policy in policies.items() if policy is UpdatePolicy.IN_PLACE} == IN_PLACE
    assert {name for name, policy in policies.items() if policy is UpdatePolicy.NOT_STORED} == {"emr_create_default_roles", "emr_replace"}


def values(cloud, owner):
    """Return the options that EMR cannot change, with values that exist in the account."""
    found = {option: value(cloud, owner) if callable(value) else value for option, value in CHANGES.items()}
    groups = found["emr_security_group_ids"]
    service = owner.group("emr-service", ("tcp", 9443, 9443, groups["master"]))
    return {**found, "emr_subnet_id": owner.private[0], "emr_security_group_ids": {**groups, "service": service}}


@pytest.mark.exhaustive
def test_each_change_that_emr_does_not_make_is_refused(cloud, run, emr, landlord):
    owner = landlord(nat=False)
    before = {**emr, "emr_subnet_id": owner.public[0], "emr_task_count": 1}
    run("emr_cluster", **before)
    changes = [{option: value} for option, value in values(cloud, owner).items()]
    cloud.control.forget_calls()
    for change in [*changes, {"emr_core_count": 0, "emr_task_count": 0}]:
        for check in (True, False):
            with pytest.raises(ModuleFailed, match=r"settings that EMR cannot change in place: .* set emr_replace: true"):
                run("emr_cluster", **{**before, **change}, check=check)
    assert writes(cloud) == []


def test_what_emr_does_not_change_is_refused_or_replaces_the_cluster(cloud, run, emr, name, landlord):
    owner = landlord(nat=False)
    before = {**emr, "emr_subnet_id": owner.public[0], "emr_task_count": 1, "emr_steps": [STEP]}
    first = run("emr_cluster", **before)["resources"]["emr_cluster"]["main"]
    changed = values(cloud, owner)
    cloud.control.forget_calls()
    for check in (True, False):
        with pytest.raises(ModuleFailed, match=r"settings that EMR cannot change in place: .* set emr_replace: true"):
            run("emr_cluster", **{**before, **changed}, check=check)
    assert writes(cloud) == []

    expected = {("update", "emr_cluster main"), ("create", "emr_step prepare")}
    after = {**before, **changed, "emr_replace": True}
    result = same(run, after, expected)
    second = result["resources"]["emr_cluster"]["main"]
    assert second != first
    update = next(change for change in result["changes"] if change["kind"] == "emr_cluster")
    assert update["policy"] == "replace"
    assert {"release_label", "image_id", "subnet", "applications", "master_security_group"} <= update["after"].keys()
    assert [each["Id"] for each in described(cloud, name)] == [second]
    assert cloud.client("emr").describe_cluster(ClusterId=first)["Cluster"]["Status"]["State"] == "TERMINATED"
    (cluster,) = described(cloud, name)
    assert cluster["CustomAmiId"] == changed["emr_image_id"]
    assert sizes(cloud, second) == {"MASTER": ("c5.2xlarge", 1), "CORE": ("m5.xlarge", 2), "TASK": ("m5.2xlarge", 1)}
    assert [each["Name"] for each in cloud.client("emr").list_steps(ClusterId=second)["Steps"]] == ["prepare"]


@pytest.mark.exhaustive
def test_a_protected_cluster_is_not_replaced(cloud, run, emr, name):
    run("emr_cluster", **emr, emr_termination_protection=True)
    (before,) = described(cloud, name)
    options = {**emr, "emr_root_volume_size": 60, "emr_replace": True}
    with pytest.raises(ModuleFailed, match=r"emr_termination_protection: EMR cluster .* is protected"):
        run("emr_cluster", **options)
    same(run, {**options, "emr_termination_protection": False}, {("update", "emr_cluster main")})
    assert described(cloud, name)[0]["Id"] != before["Id"]


def test_drift_is_put_right(cloud, run, emr, name):
    run("emr_cluster", **emr)
    (cluster,) = described(cloud, name)
    client = cloud.client("emr")
    core = next(
        each for each in client.list_instance_groups(ClusterId=cluster["Id"])["InstanceGroups"] if each["InstanceGroupType"] == "CORE"
    )
    client.modify_instance_groups(InstanceGroups=[{"InstanceGroupId": core["Id"], "InstanceCount": 4}])
    client.remove_tags(ResourceId=cluster["Id"], TagKeys=["Name"])
    result = same(run, emr, {("update", "emr_cluster main")})
    assert {"core_count", "tags"} <= result["changes"][0]["after"].keys()
    assert sizes(cloud, cluster["Id"])["CORE"] == ("c5.xlarge", 2)
    client.add_tags(ResourceId=cluster["Id"], Tags=[{"Key": "theirs", "Value": "stays"}])
    assert not run("emr_cluster", **emr)["changed"]
    assert {"Key": "theirs", "Value": "stays"} in described(cloud, name)[0]["Tags"]


def test_a_run_waits_for_a_cluster_that_an_earlier_run_left_starting(cloud, run, emr, name):
    cloud.control.set_delays(**{**QUICK, "emr_cluster": 3600})
    started = run("emr_cluster", **emr, wait=False)
    assert steps(started) == {("create", "emr_cluster main")}
    assert not run("emr_cluster", **emr, wait=False)["changed"]
    result = run("emr_cluster", **emr, check=True)
    assert result["changes"][0]["after"] == {"state": "ready"}
    (cluster,) = described(cloud, name)
    cloud.client("emr").terminate_job_flows(JobFlowIds=[cluster["Id"]])


def test_why_a_cluster_does_not_start(cloud, run, emr, name, bucket):
    emr["emr_bootstrap_actions"] = [{"path": f"s3://{bucket}/no-such.sh"}]
    message = rf"ended \(BOOTSTRAP_FAILURE\): .* failed attempting to download bootstrap action 1 file from S3\. .*s3://{bucket}/logs/j-"
    with pytest.raises(ModuleFailed, match=message) as caught:
        run("emr_cluster", **emr)
    assert "Applied changes: create emr_cluster main" in str(caught.value)
    wait_until(lambda: described(cloud, name) == [])
    cloud.client("s3").put_object(Bucket=bucket, Key="no-such.sh", Body=b"true\n")
    same(run, emr, {("create", "emr_cluster main")})

    cloud.client("s3").delete_object(Bucket=bucket, Key="no-such.sh")
    with pytest.raises(ModuleFailed, match=r"EMR no longer launches core nodes for j-\w+: Core instance .* failed attempting to download"):
        run("emr_cluster", **{**emr, "emr_core_count": 3})
    cloud.client("s3").put_object(Bucket=bucket, Key="no-such.sh", Body=b"true\n")
    assert steps(run("emr_cluster", **{**emr, "emr_core_count": 3})) == {("update", "emr_cluster main")}


@pytest.mark.exhaustive
def test_missing_capacity_is_told(cloud, run, emr, landlord):
    cloud.control.set_capacity({"c5.xlarge": {"us-east-1a": 2}})
    with pytest.raises(ModuleFailed, match=r"ended \(VALIDATION_ERROR\): .*do not have sufficient c5.xlarge capacity"):
        run("emr_cluster", **emr, emr_subnet_id=landlord(nat=False).public[0])


def test_clusters_of_others_with_the_same_name_are_left_alone(cloud, run, emr, name):
    groups = [{"InstanceRole": "MASTER", "InstanceType": "c5.xlarge", "InstanceCount": 1}]
    theirs = cloud.client("emr").run_job_flow(
        Name=name,
        ReleaseLabel="emr-7.9.0",
        ServiceRole=ROLE,
        JobFlowRole=PROFILE,
        Instances={"InstanceGroups": groups, "KeepJobFlowAliveWhenNoSteps": True},
    )["JobFlowId"]
    own = run("emr_cluster", **emr)["resources"]["emr_cluster"]["main"]
    assert own != theirs
    run("emr_cluster", cluster=name, state="absent")
    assert [each["Id"] for each in described(cloud, name)] == [theirs]
    tags = [{"Key": "deeplearning:cluster", "Value": name}, {"Key": "deeplearning:component", "Value": "emr"}]
    run("emr_cluster", **emr)
    cloud.client("emr").add_tags(ResourceId=theirs, Tags=tags)
    assert not run("emr_cluster", **emr)["changed"]
    run("emr_cluster", cluster=name, state="absent")
    assert [each["Id"] for each in described(cloud, name)] == [theirs]
    assert cloud.client("ssm").get_parameters(Names=[record.parameter_name(name)])["Parameters"] == []
    for options in (emr, {"cluster": name, "state": "absent"}):
        with pytest.raises(ModuleFailed, match=rf"EMR cluster {theirs} has the name and the tags of {name}, but is not recorded"):
            run("emr_cluster", **options)
    cloud.client("ssm").put_parameter(Name=record.parameter_name(name), Type="String", Value=theirs)
    assert run("emr_cluster", cluster=name, state="absent", check=True)["changed"], "the advice of the message"


def test_a_cluster_with_a_copied_token_is_not_taken(cloud, run, emr, name):
    """The client token identifies the cluster only until the ID of the cluster is recorded."""
    own = run("emr_cluster", **emr)["resources"]["emr_cluster"]["main"]
    (cluster,) = described(cloud, name)
    groups = [{"InstanceRole": "MASTER", "InstanceType": "c5.xlarge", "InstanceCount": 1}]
    instances = {"InstanceGroups": groups, "KeepJobFlowAliveWhenNoSteps": True}
    copy = {"Name": name, "ReleaseLabel": "emr-7.9.0", "ServiceRole": ROLE, "JobFlowRole": PROFILE, "Tags": cluster["Tags"]}
    theirs = cloud.client("emr").run_job_flow(**copy, Instances=instances)["JobFlowId"]
    assert run("emr_cluster", **emr)["resources"]["emr_cluster"]["main"] == own
    token = next(tag["Value"] for tag in cluster["Tags"] if tag["Key"] == record.CREATION_TAG)
    cloud.client("ssm").put_parameter(Name=record.parameter_name(name), Type="String", Value=f"creating-{token}", Overwrite=True)
    with pytest.raises(ModuleFailed, match=rf"(?=.*{own})(?=.*{theirs}).*have the same tag deeplearning:creation"):
        run("emr_cluster", **emr)


def test_two_runs_at_the_same_time_are_told_of_each_other(cloud, run, emr, name, monkeypatch):
    begin, others = record.begin, []

    def begin_after_another_run(client):
        found = begin(client)
        others.append(client.ssm.put_parameter(Name=record.parameter_name(name), Type="String", Value="j-OTHER", Overwrite=True))
        return found

    monkeypatch.setattr(record, "begin", begin_after_another_run)
    with pytest.raises(ModuleFailed, match=rf"cluster for {name} at the same time\. From now on, runs use j-\w+"):
        run("emr_cluster", **emr)
    assert others
    assert described(cloud, name)[0]["Id"] == record_of(cloud, name)


def record_of(cloud, name):
    return cloud.client("ssm").get_parameter(Name=record.parameter_name(name))["Parameter"]["Value"]


def test_the_record_of_an_interrupted_run_is_completed(cloud, run, emr, name, monkeypatch):
    def interrupted(*_arguments):
        raise ClusterError("interrupted")

    with monkeypatch.context() as patch:
        patch.setattr(record, "complete", interrupted)
        with pytest.raises(ModuleFailed, match="interrupted"):
            run("emr_cluster", **emr)
    assert record_of(cloud, name).startswith("creating-")
    same(run, emr, {("update", "emr_cluster main")})
    (cluster,) = described(cloud, name)
    assert record_of(cloud, name) == cluster["Id"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"emr_service_role": "no-such"}, "emr_service_role: there is no role 'no-such'. Create this role"),
        ({"emr_service_role": PROFILE}, f"emr_service_role: the trust policy of the role '{PROFILE}' does not allow elasticmapreduce"),
        ({"emr_instance_profile": "no-such"}, "emr_instance_profile: there is no instance profile 'no-such'. Create this profile"),
        ({"emr_instance_type": "c5.tiny"}, "emr_instance_type: c5.tiny is not offered in any zone"),
        ({"emr_instance_type": "c5.large"}, "emr_instance_type: EMR does not support c5.large with emr-7.9.0"),
        ({"emr_task_instance_type": "r5.large"}, "emr_task_instance_type: EMR does not support r5.large with emr-7.9.0"),
        ({"emr_release_label": "emr-7.99.0"}, "emr_release_label: there is no release 'emr-7.99.0' in us-east-1"),
        (
            {"emr_image_id": "amazon", "emr_release_label": "emr-6.15.0"},
            "emr_image_id: ami-.* is based on Amazon Linux 2023, but emr-6.15.0 requires Amazon Linux 2. Specify",
        ),
        ({"emr_image_id": "ami-00000000000000000"}, "emr_image_id: there is no image ami-00000000000000000"),
        ({"emr_image_id": "arm64"}, "emr_image_id: ami-.* is for arm64, but c5.xlarge is x86_64"),
        ({"emr_image_id": "ubuntu"}, "emr_image_id: ami-.* is not an Amazon Linux image"),
        ({"emr_image_id": "amazon", "emr_root_volume_size": 12}, "emr_root_volume_size: 12 GiB is too small for ami-.*, which needs 15"),
        ({"emr_key_name": "no-such"}, "emr_key_name: there is no key pair 'no-such'"),
        ({"emr_subnet_id": "subnet-00000000"}, "emr_subnet_id: there is no subnet 'subnet-00000000'"),
        ({"emr_additional_security_group_ids": {"workers": ["sg-00000000"]}}, "ids.workers: there is no security group 'sg-00000000'"),
        ({"emr_log_uri": "s3://no-such-bucket-at-all/logs"}, "emr_log_uri: there is no bucket no-such-bucket-at-all"),
        ({"tags": {"aws:team": "a"}}, "tags: 'aws:team' must not start with"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_bad_input_is_refused_before_anything_is_created(cloud, run, emr, name, change, message):
    parameters = {
        "arm64": "arm64/base-oss-nvidia-driver-gpu-amazon-linux-2023",
        "ubuntu": "x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04",
        "amazon": "x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023",
    }
    image = parameters.get(change.get("emr_image_id"))
    if image:
        parameter = f"/aws/service/deeplearning/ami/{image}/latest/ami-id"
        change = {**change, "emr_image_id": cloud.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"]}
    cloud.control.forget_calls()
    with pytest.raises(ModuleFailed) as caught:
        run("emr_cluster", **{**emr, **change})
    assert re.search(message, str(caught.value)), caught.value
    assert writes(cloud) == []


def test_a_security_group_of_another_network_is_refused(run, emr, landlord):
    here, there = landlord(nat=False), landlord(nat=False)
    emr |= {"emr_subnet_id": here.public[0], "emr_additional_security_group_ids": {"master": [there.group("emr-there")]}}
    with pytest.raises(ModuleFailed, match=rf"ids.master: sg-\w+ is in {there.vpc}, but the subnet {here.public[0]}"):
        run("emr_cluster", **emr)


def test_a_private_subnet_needs_a_group_for_emr(run, emr, landlord):
    owner = landlord(nat=False)
    groups = {each: owner.group(f"emr-{each}") for each in ("master", "workers", "service")}
    emr |= {"emr_subnet_id": owner.private[0], "emr_security_group_ids": {**groups, "service": None}}
    with pytest.raises(ModuleFailed, match=rf"emr_security_group_ids.service: missing, because the subnet {owner.private[0]}"):
        run("emr_cluster", **emr)
    run("emr_cluster", **{**emr, "emr_subnet_id": owner.public[0]}, check=True)
    emr["emr_security_group_ids"] = groups
    message = rf"service: {groups['service']} has no inbound rule for TCP port 9443 from the group of the master, {groups['master']}"
    with pytest.raises(ModuleFailed, match=message):
        run("emr_cluster", **emr)
    run("emr_cluster", **{**emr, "emr_release_label": "emr-5.29.0", "emr_instance_type": "m4.large"}, check=True)
    emr["emr_security_group_ids"] = {**groups, "service": owner.group("emr-open", ("tcp", 9000, 9999, groups["master"]))}
    run("emr_cluster", **emr)


def test_a_network_without_dns_is_refused(run, emr, landlord):
    owner = landlord(nat=False, dns=False)
    with pytest.raises(
        ModuleFailed, match=rf"emr_subnet_id: {owner.vpc}, .*modify-vpc-attribute --vpc-id {owner.vpc} --enable-dns-hostnames"
    ):
        run("emr_cluster", **emr, emr_subnet_id=owner.public[0])


def test_groups_that_let_everybody_in_are_refused(cloud, run, emr, landlord):
    owner, client = landlord(nat=False), cloud.client("emr")
    group = owner.group("emr-open", ("tcp", 22, 22, "0.0.0.0/0"), ("tcp", 8000, 8888, "0.0.0.0/0"), ("udp", 53, 53, "10.0.0.0/8"))
    emr |= {"emr_subnet_id": owner.public[0], "emr_additional_security_group_ids": {"master": [group]}}
    with pytest.raises(
        ModuleFailed, match=rf"ids.master: {group} allows traffic from all addresses on ports 8000-8888, which EMR's block public access"
    ):
        run("emr_cluster", **emr)
    run("emr_cluster", **{**emr, "emr_subnet_id": owner.private[0]}, check=True)
    default = client.get_block_public_access_configuration()["BlockPublicAccessConfiguration"]
    more = [*default["PermittedPublicSecurityGroupRuleRanges"], {"MinRange": 8000, "MaxRange": 9000}]
    for changed in ({"PermittedPublicSecurityGroupRuleRanges": more}, {"BlockPublicSecurityGroupRules": False}):
        client.put_block_public_access_configuration(BlockPublicAccessConfiguration={**default, **changed})
        run("emr_cluster", **emr, check=True)
    client.put_block_public_access_configuration(BlockPublicAccessConfiguration=default)


def test_the_scoped_policy_of_aws_needs_tags(cloud, run, emr, landlord):
    owner, tag = landlord(nat=False), {"for-use-with-amazon-emr-managed-policies": "true"}
    make_role(cloud, "emr-scoped", "elasticmapreduce")
    policy = "arn:aws:iam::aws:policy/service-role/AmazonEMRServicePolicy_v2"
    cloud.client("iam").attach_role_policy(RoleName="emr-scoped", PolicyArn=policy)
    emr |= {"emr_service_role": "emr-scoped", "emr_subnet_id": owner.public[0]}
    groups = {each: owner.group(f"emr-{each}") for each in ("master", "workers")}
    with pytest.raises(ModuleFailed) as caught:
        run("emr_cluster", **emr)
    for untagged in ("tags: for-use-with-amazon-emr-managed-policies is not 'true'", f"emr_subnet_id: {owner.public[0]}", owner.vpc):
        assert untagged in str(caught.value)
    with pytest.raises(ModuleFailed, match=f"ids.master: {groups['master']} has no tag for-use-with-amazon-emr-managed-policies") as caught:
        run("emr_cluster", **emr, emr_security_group_ids=groups, tags=tag)
    assert owner.vpc not in str(caught.value), "EMR does not create security groups"
    tags = [{"Key": key, "Value": value} for key, value in tag.items()]
    cloud.client("ec2").create_tags(Resources=[owner.public[0], owner.vpc], Tags=tags)
    run("emr_cluster", **emr, tags=tag)


def test_several_task_groups(cloud, run, emr, name):
    """EMR never deletes a task group. Groups without nodes do not count, and if two groups have nodes, the module chooses neither."""
    emr["emr_task_count"] = 1
    run("emr_cluster", **emr)
    (cluster,) = described(cloud, name)
    group = {"InstanceRole": "TASK", "InstanceType": "m5.xlarge", "InstanceCount": 1}
    client = cloud.client("emr")
    (added,) = client.add_instance_groups(JobFlowId=cluster["Id"], InstanceGroups=[group])["InstanceGroupIds"]
    message = rf"emr_task_count: EMR cluster {cluster['Id']} has several task groups with nodes: ig-\w+, {added}"
    with pytest.raises(ModuleFailed, match=message):
        run("emr_cluster", **emr)
    client.modify_instance_groups(InstanceGroups=[{"InstanceGroupId": added, "InstanceCount": 0}])
    wait_until(lambda: not any(each["Id"] == added and each["RunningInstanceCount"] for each in listed_groups(cloud, cluster)))
    assert not run("emr_cluster", **emr)["changed"]
    client.modify_instance_groups(InstanceGroups=[{"InstanceGroupId": added, "InstanceCount": 1}])
    run("emr_cluster", cluster=name, state="absent")
    assert described(cloud, name) == []


def test_a_smaller_cluster(cloud, run, emr, name, monkeypatch):
    """EMR keeps two of four core nodes, because HDFS has two copies of each block."""
    emr["emr_core_count"] = 4
    run("emr_cluster", **emr)
    (cluster,) = described(cloud, name)
    result = run("emr_cluster", **{**emr, "emr_core_count": 3})
    assert re.search(
        "emr_core_count: EMR removes 1 of 4 core nodes. EMR waits up to an hour .* copies of each block", str(result["warnings"])
    )
    monkeypatch.setattr(resources, "START_TIMEOUT", 0.5)
    monkeypatch.setattr(resources, "SHRINK_TIMEOUT", 1.5)
    with pytest.raises(
        ModuleFailed, match=r"Timed out after 1.5 s waiting for EMR cluster .* EMR removes the remaining surplus nodes .*dfs.replication"
    ):
        run("emr_cluster", **{**emr, "emr_core_count": 1, "wait_timeout": 1})
    assert sizes(cloud, cluster["Id"])["CORE"] == ("c5.xlarge", 2)
    assert run("emr_cluster", **{**emr, "emr_core_count": 2})["changed"]


def delete_default_roles(iam):
    """Delete the default roles, so that the account is like a new one."""
    iam.remove_role_from_instance_profile(InstanceProfileName=PROFILE, RoleName=PROFILE)
    iam.delete_instance_profile(InstanceProfileName=PROFILE)
    for name in (ROLE, PROFILE):
        for policy in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
            iam.detach_role_policy(RoleName=name, PolicyArn=policy["PolicyArn"])
        iam.delete_role(RoleName=name)


def test_a_cluster_that_ends_because_its_role_is_new_is_created_again(cloud, run, emr, name):
    delete_default_roles(cloud.client("iam"))
    cloud.control.set_delays(**QUICK, emr_service_role=3600)
    second = {"action": "RunJobFlow", "nth": 2, "pause": "before"}
    # EMR's second error for a new profile, according to the AWS provider of Terraform
    unseen = {"action": "RunJobFlow", "code": "AccessDeniedException", "status": 400, "message": "Failed to authorize instance profile"}
    cloud.control.set_faults([{**unseen, "times": 1}, second])

    def let_the_role_take_effect():
        cloud.control.wait_until_paused()
        cloud.control.set_delays(emr_service_role=0)
        cloud.control.resume()

    with ThreadPoolExecutor(1) as pool:
        aged = pool.submit(let_the_role_take_effect)
        result = run("emr_cluster", **emr, emr_create_default_roles=True, emr_steps=[STEP])
        aged.result()
    assert steps(result) >= {("create", "emr_role service"), ("create", "emr_cluster main"), ("create", f"emr_step {STEP['name']}")}
    (ended,), (running,) = described(cloud, name, "TERMINATED_WITH_ERRORS"), described(cloud, name)
    assert ended["Status"]["StateChangeReason"]["Code"] == "VALIDATION_ERROR"
    assert result["resources"]["emr_cluster"]["main"] == running["Id"]
    assert not run("emr_cluster", **emr, emr_create_default_roles=True, emr_steps=[STEP])["changed"]
    cloud.control.set_delays(**QUICK, emr_service_role=3600)
    run("emr_cluster", cluster=name, state="absent")
    with pytest.raises(ModuleFailed, match=r"ended \(VALIDATION_ERROR\): .* has insufficient EC2 permissions"):
        run("emr_cluster", **emr)
    assert len(described(cloud, name, "TERMINATING", "TERMINATED_WITH_ERRORS")) == 2, (
        "the role is not new, so the cluster is not created again"
    )


def test_default_roles_are_created_if_asked(cloud, run, emr, bucket):
    iam = cloud.client("iam")
    delete_default_roles(iam)
    with pytest.raises(
        ModuleFailed, match=rf"emr_service_role: there is no role '{ROLE}'. To create it, set emr_create_default_roles: true"
    ):
        run("emr_cluster", **emr)
    roles = {("create", "emr_role service"), ("create", "emr_role nodes"), ("create", "emr_instance_profile nodes")}
    cloud.control.set_faults([{"service": "iam", "action": "AttachRolePolicy", "code": "AccessDenied", "status": 403, "times": 1}])
    same(run, {**emr, "emr_create_default_roles": True}, {*roles, ("create", "emr_cluster main")})
    listed = {name: iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"] for name in (ROLE, PROFILE)}
    attached = {name: [each["PolicyName"] for each in policies] for name, policies in listed.items()}
    assert attached == {ROLE: ["AmazonElasticMapReduceRole"], PROFILE: ["AmazonElasticMapReduceforEC2Role"]}
    iam.detach_role_policy(RoleName=ROLE, PolicyArn="arn:aws:iam::aws:policy/service-role/AmazonElasticMapReduceRole")
    cloud.control.set_faults([{"service": "iam", "action": "AttachRolePolicy", "code": "PolicyNotAttachable", "status": 400}])
    with pytest.raises(ModuleFailed, match=rf"IAM does not allow attaching .*AmazonElasticMapReduceRole to {ROLE}. Create your own roles"):
        run("emr_cluster", **emr, emr_create_default_roles=True)
    cloud.control.set_faults([])
    same(run, {**emr, "emr_create_default_roles": True}, {("update", "emr_role service")})
    run("emr_cluster", **{**emr, "state": "absent"})
    assert iam.get_role(RoleName=ROLE), "other clusters in the account need the roles"


@pytest.mark.parametrize(
    ("action", "stage"),
    [
        ("RunJobFlow", "after"),
        pytest.param("RunJobFlow", "before", marks=pytest.mark.exhaustive),
        pytest.param("PutParameter", "after", marks=pytest.mark.exhaustive),
        pytest.param("AddJobFlowSteps", "before", marks=pytest.mark.exhaustive),
        pytest.param("AddJobFlowSteps", "after", marks=pytest.mark.exhaustive),
    ],
)
def test_a_run_that_is_killed_is_continued(cloud, run, emr, name, stage, action):
    emr["emr_steps"] = [STEP]
    assert kill_at(cloud, {**emr, "region": REGION}, stage, "emr_cluster", action=action)
    run("emr_cluster", **emr)
    (cluster,) = described(cloud, name)
    assert [each["Name"] for each in cloud.client("emr").list_steps(ClusterId=cluster["Id"])["Steps"]] == ["prepare"]
    assert not run("emr_cluster", **emr)["changed"]


@pytest.mark.parametrize("action", ["RunJobFlow", "AddJobFlowSteps", pytest.param("AddInstanceGroups", marks=pytest.mark.exhaustive)])
def test_a_lost_response_creates_nothing_twice(cloud, run, emr, name, action):
    if action == "AddInstanceGroups":
        run("emr_cluster", **emr)
    options = {**emr, "emr_steps": [STEP], "emr_task_count": 1 if action == "AddInstanceGroups" else 0}
    cloud.control.set_faults([{"action": action, "code": "InternalError", "status": 500, "after": True, "times": 1}])
    run("emr_cluster", **options)
    (cluster,) = described(cloud, name)
    assert len(cloud.client("emr").list_steps(ClusterId=cluster["Id"])["Steps"]) == 1
    assert sizes(cloud, cluster["Id"]).get("TASK", ("c5.xlarge", 0))[1] == options["emr_task_count"]
    assert not run("emr_cluster", **options)["changed"]


def test_a_lost_response_creates_no_second_cluster_if_emr_lists_the_first_one_late(cloud, run, emr, name, monkeypatch):
    """The call has no client token, and names are not unique."""
    own, calls = resources.own_cluster, itertools.count()
    monkeypatch.setattr(resources, "own_cluster", lambda client: own(client) if next(calls) not in (1, 2, 3) else None)
    cloud.control.set_faults([{"action": "RunJobFlow", "code": "InternalError", "status": 500, "after": True, "times": 1}])
    run("emr_cluster", **emr)
    assert next(calls) > 4
    assert len(described(cloud, name)) == 1


def test_throttled_calls_are_repeated(cloud, run, emr):
    cloud.control.set_faults([{"service": "emr", "code": "ThrottlingException", "status": 400, "each_call_once": True}])
    run("emr_cluster", **emr, emr_steps=[STEP])
    run("emr_cluster", **{**emr, "emr_core_count": 3, "tags": {"team": "speech"}})
    run("emr_cluster", **{**emr, "state": "absent"})


def test_denied_calls_are_told_and_leave_nothing_half_done(cloud, run, emr, name):
    denied = {"service": "emr", "code": "AccessDeniedException", "status": 400, "message": "is not authorized to perform"}
    cloud.control.set_faults([{**denied, "action": "RunJobFlow"}])
    with pytest.raises(ModuleFailed, match=r"AccessDenied.*Applied changes: none"):
        run("emr_cluster", **emr)
    assert described(cloud, name) == []
    cloud.control.set_faults([])
    run("emr_cluster", **emr)
    cloud.control.set_faults([{**denied, "action": "ModifyInstanceGroups"}])
    with pytest.raises(ModuleFailed, match="AccessDenied"):
        run("emr_cluster", **{**emr, "emr_core_count": 3})
    assert sizes(cloud, described(cloud, name)[0]["Id"])["CORE"] == ("c5.xlarge", 2)


def test_each_call_about_a_new_cluster_is_denied_once(cloud, run, emr):
    """While the tags of a new cluster and of its nodes are not visible to IAM, calls that depend on these tags are denied."""
    denied = {"read_only": False, "each_call_once": True, "message": "is not authorized"}
    rules = [
        {**denied, "service": "emr", "action": "(?!RunJobFlow$).*", "code": "AccessDeniedException", "status": 400},
        {**denied, "service": "ec2", "code": "UnauthorizedOperation", "status": 403},
    ]
    cloud.control.set_faults(rules)
    run("emr_cluster", **emr, emr_steps=[STEP])
    made = [call["action"] for call in cloud.control.calls()]
    assert min(made.count("AddJobFlowSteps"), made.count("CreateTags")) >= 2


def test_the_policy_of_emr_suffices_and_ends_at_clusters_of_others(cloud, run, emr, name, operators):
    run("emr_cluster", **{**emr, "cluster": "somebody-else"})
    operators.be("emr")
    run("emr_cluster", **emr, emr_idle_after="30m")
    more = {**emr, "emr_core_count": 3, "emr_task_count": 1, "emr_idle_after": "1h"}
    run("emr_cluster", **more, tags={"team": "speech"}, emr_termination_protection=True)
    run("emr_cluster", **emr, tags={"team": "vision"}, emr_steps=[STEP])
    changed = {**emr, "emr_root_volume_size": 60, "emr_termination_protection": False}
    run("emr_cluster", **changed, tags={"team": "vision"}, emr_replace=True)
    run("emr_cluster", cluster=name, state="absent")
    with pytest.raises(ModuleFailed, match="is not authorized to perform: ssm:GetParameters "):
        run("emr_cluster", **{**emr, "cluster": "elsewhere"})
    with pytest.raises(ModuleFailed, match="is not authorized to perform: ssm:GetParameters "):
        run("emr_cluster", cluster="somebody-else", state="absent")
