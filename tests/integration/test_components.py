"""The components of a cluster, one after the other, and the modules that only read."""

from __future__ import annotations

import contextlib
import itertools
import json
import shlex
import time

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instance_role.definition import trust_policy
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import node_service
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision.components import CHOICES
from local_cloud.testing import wait_until

from .clusters import EXPECTED, instances, inventory, numbers, steps
from .conftest import REGION, ModuleFailed

ANY_POLICY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:ListAllMyBuckets", "Resource": "*"}]}
LAMBDA_TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}


def test_components_one_by_one_make_the_same_cluster(run, definition, name):
    done = set()
    for component in ("network", "file_system", "lustre", "instance_role", "workers", "master"):
        predicted = run("cluster", components=[component], **definition, check=True)
        applied = run("cluster", components=[component], **definition)
        assert steps(predicted) == steps(applied)
        assert not run("cluster", components=[component], **definition)["changed"]
        done |= steps(applied)
    assert done == {("create", item) for item in EXPECTED}
    assert not run("cluster", **definition)["changed"]


def test_components_are_deleted_in_order(run, definition, name):
    run("cluster", **definition)
    with pytest.raises(ModuleFailed, match=r"still in use. First delete .*auto_scaling_group master"):
        run("cluster", components=["network"], cluster=name, state="absent")
    with pytest.raises(ModuleFailed, match=r"still in use. First delete auto_scaling_group"):
        run("cluster", components=["instance_role"], cluster=name, state="absent")
    gone = set()
    for component in ("workers", "master", "instance_role", "file_system", "lustre", "network"):
        predicted = run("cluster", components=[component], cluster=name, state="absent", delete_data=True, check=True)
        applied = run("cluster", components=[component], cluster=name, state="absent", delete_data=True)
        assert steps(predicted) == steps(applied)
        gone |= steps(applied)
    assert gone == {("delete", item) for item in EXPECTED}


def test_a_unit_predicts_without_what_it_stands_on_and_refuses_to_act(run, definition, cloud):
    assert ("create", "mount_target us-east-1a") in steps(run("cluster", components=["file_system"], **definition, check=True))
    lacks = "these resources do not exist yet: security_group storage, subnet private-us-east-1a"
    with pytest.raises(ModuleFailed, match=rf"{lacks}\. Create these components first, or together with the others: network\."):
        run("cluster", components=["file_system"], **definition)
    assert all(call["read_only"] for call in cloud.control.calls())


@pytest.mark.parametrize(("component", "lacking"), [("lustre", "network"), ("workers", "instance_role, network")])
def test_components_that_others_need_must_exist_or_be_chosen(run, definition, component, lacking):
    definition |= {"lustre": True}
    with pytest.raises(ModuleFailed, match=rf"Create these components first, or together with the others: {lacking}\."):
        run("cluster", components=[component], **definition)
    assert run("cluster", components=["network", "instance_role", component], **definition)["changed"]


def test_only_the_chosen_components_change(run, definition, name):
    """The definition changes a resource of each component. The lease and the end of idle nodes belong to all nodes."""
    definition |= {"lease": "8h", "idle_after": "30m"}
    run("cluster", **definition)
    changed = {**definition, "ssh_cidrs": ["198.51.100.0/24"], "throughput_mode": "elastic", "lustre": True, "read_buckets": ["data"]}
    changed |= {"login_user": "admin", "lease": "9h", "idle_after": "40m"}
    kinds = {
        "network": {"security_group"},
        "file_system": {"file_system"},
        "lustre": {"lustre_file_system"},
        "instance_role": {"role"},
        "master": {"launch_template", "nodes"},
        "workers": {"launch_template", "nodes"},
    }
    assert tuple(kinds) == CHOICES
    for choice, expected in kinds.items():
        predicted = run("cluster", components=[choice], **changed, check=True)
        every = [*predicted["changes"], *predicted["deferred"]]
        assert {each["kind"] for each in every} == expected
        assert {each["key"] for each in every} == {choice} or choice not in ("master", "workers")
    ends = {each["kind"] for each in run("cluster", components=["master", "workers"], **changed, check=True)["changes"]}
    assert ends == {"node_lease", "idle_end"}


def test_a_deletion_deletes_only_the_chosen_components(run, definition, name):
    run("cluster", **definition, lease="8h", idle_after="30m")
    absent = {"cluster": name, "state": "absent", "delete_data": True}

    def resources():
        return {f"{item['kind']} {item['key']}" for item in run("cluster_info", cluster=name)["resources"]}

    before = resources()
    run("cluster", components=["workers"], **absent)
    assert before - resources() == {"launch_template workers", "auto_scaling_group workers", "nodes workers"}
    run("cluster", components=["master", "workers"], **absent)
    left = {item for item in EXPECTED if not item.startswith(("launch_template", "auto_scaling_group", "nodes", "placement_group"))}
    assert resources() == left
    run("cluster", components=["file_system", "instance_role"], **absent)
    gone = {item.split()[0] for item in left - resources()}
    assert gone == {"file_system", "file_system_policy", "mount_target", "role", "instance_profile"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("exists", [False, True])
def test_all_choices_of_components_can_be_combined(run, definition, name, exists):
    """Without the components that it needs, a run may only fail with a message."""
    definition |= {"lustre": True, "lease": "8h", "idle_after": "30m", "encrypt_in_transit": True}
    if exists:
        run("cluster", **definition)
    for chosen in itertools.product((True, False), repeat=len(CHOICES)):
        components = [*itertools.compress(CHOICES, chosen)]
        with contextlib.nullcontext() if exists and components else contextlib.suppress(ModuleFailed):
            assert not run("cluster", components=components, **definition, check=True)["changed"] or not exists
        with contextlib.suppress(ModuleFailed):
            run("cluster", components=components, cluster=name, state="absent", check=True)


def test_a_run_manages_at_least_one_component(run, name):
    with pytest.raises(ModuleFailed, match=r"components: the list is empty\. Specify at least one component\."):
        run("cluster", components=[], cluster=name, state="absent")


def test_an_adopted_file_system_is_used_and_never_deleted(cloud, run, definition, name):
    efs = cloud.client("efs")
    adopted = efs.create_file_system(CreationToken=name, Encrypted=False, Tags=[{"Key": "Name", "Value": "theirs"}])["FileSystemId"]
    definition["file_system_id"] = adopted
    result = run("cluster", **definition)
    assert ("create", "file_system main") not in steps(result)
    assert ("create", "mount_target us-east-1a") in steps(result)
    assert not run("cluster", **definition)["changed"]
    assert not run("cluster", components=["workers"], **definition)["changed"]
    assert efs.describe_file_systems(FileSystemId=adopted)["FileSystems"][0]["Tags"] == [{"Key": "Name", "Value": "theirs"}]
    gone = run("cluster", **definition, state="absent", delete_data=True)
    assert gone["kept"] == [], "it belongs to somebody else"
    assert efs.describe_file_systems(FileSystemId=adopted)["FileSystems"][0]["NumberOfMountTargets"] == 0


def test_a_file_system_that_another_vpc_uses_is_refused(cloud, run, definition, name):
    first = run("cluster", **definition)["resources"]["file_system"]["main"]
    definition |= {"cluster": f"{name}-b", "file_system_id": first}
    with pytest.raises(ModuleFailed, match=rf"file_system_id: {first} has its mount targets in vpc-\w+, and EFS allows them in only one"):
        run("cluster", **definition)
    run("cluster", cluster=name, state="absent")
    assert run("cluster", **definition)["resources"]["file_system"]["main"] == first
    run("cluster", cluster=f"{name}-b", state="absent", delete_data=True)
    assert cloud.client("efs").describe_file_systems(FileSystemId=first)["FileSystems"]


def test_without_waiting_nodes_are_numbered_by_the_next_run(cloud, run, definition, name):
    unnumbered = run("cluster", **definition, wait=False)
    assert {("create", "auto_scaling_group workers"), ("create", "nodes workers")} & steps(unnumbered) == {
        ("create", "auto_scaling_group workers")
    }
    # The policy of a file system is created when the file system is available.
    later = {("create", "file_system_policy main")}
    assert steps(run("cluster", **definition)) - later == {("update", "nodes master"), ("update", "nodes workers")}
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3]


def test_a_role_of_somebody_else_is_not_taken_over(cloud, run, name):
    cloud.client("iam").create_role(RoleName=f"{name}-nodes-{REGION}", AssumeRolePolicyDocument=json.dumps(trust_policy(REGION)))
    with pytest.raises(ModuleFailed, match=r"exists but is not tagged"):
        run("cluster", components=["instance_role"], cluster=name)


def test_a_role_has_a_path_that_policies_can_name(cloud, run, name):
    run("cluster", components=["instance_role"], cluster=name)
    role = cloud.client("iam").get_role(RoleName=f"{name}-nodes-{REGION}")["Role"]
    profile = cloud.client("iam").get_instance_profile(InstanceProfileName=f"{name}-nodes-{REGION}")["InstanceProfile"]
    assert role["Path"] == profile["Path"] == "/deeplearning/"


def test_a_role_is_bound_from_its_beginning_and_stays_so(cloud, run, name):
    iam = cloud.client("iam")
    policy = iam.create_policy(PolicyName=f"{name}-bound", PolicyDocument=json.dumps(ANY_POLICY))["Policy"]["Arn"]
    cloud.control.forget_calls()
    run("cluster", components=["instance_role"], cluster=name, permissions_boundary=policy)
    assert "PutRolePermissionsBoundary" not in {call["action"] for call in cloud.control.calls()}
    assert not run("cluster", components=["instance_role"], cluster=name)["changed"]
    assert iam.get_role(RoleName=f"{name}-nodes-{REGION}")["Role"]["PermissionsBoundary"]["PermissionsBoundaryArn"] == policy


def test_a_trust_policy_that_somebody_changed_is_told_and_left(cloud, run, name):
    run("cluster", components=["instance_role"], cluster=name)
    cloud.client("iam").update_assume_role_policy(RoleName=f"{name}-nodes-{REGION}", PolicyDocument=json.dumps(LAMBDA_TRUST))
    with pytest.raises(ModuleFailed, match=r"role nodes: trust is .*lambda.* The collection never changes a trust policy"):
        run("cluster", components=["instance_role"], cluster=name)
    run("cluster", components=["instance_role"], cluster=name, state="absent")


def test_a_role_goes_with_policies_that_others_have_attached(cloud, run, name):
    iam, role = cloud.client("iam"), f"{name}-nodes-{REGION}"
    run("cluster", components=["instance_role"], cluster=name)
    policy = iam.create_policy(PolicyName=name, PolicyDocument=json.dumps(ANY_POLICY))["Policy"]["Arn"]
    iam.attach_role_policy(RoleName=role, PolicyArn=policy)
    run("cluster", components=["instance_role"], cluster=name, state="absent")
    assert role not in [item["RoleName"] for item in iam.list_roles()["Roles"]]
    assert iam.get_policy(PolicyArn=policy)


def test_nodes_are_launched_as_described(cloud, run, definition, name):
    run("cluster", **definition)
    ec2 = cloud.client("ec2")
    described = [
        instance
        for reservation in ec2.describe_instances(InstanceIds=list(instances(cloud, name)))["Reservations"]
        for instance in reservation["Instances"]
    ]
    for instance in described:
        assert instance["MetadataOptions"]["HttpTokens"] == "required"
        assert instance["IamInstanceProfile"]["Arn"].endswith(f"{name}-nodes-{REGION}")
        volume = instance["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
        assert ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]["Encrypted"]
    public = {tag["Value"]: "PublicIpAddress" in instance for instance in described for tag in instance["Tags"] if tag["Key"] == "NodeType"}
    assert public == {"Master": True, "Worker": False}


def test_info_lists_resources_and_nodes(cloud, run, definition, name):
    empty = run("cluster_info", cluster=name, prices=False)
    nothing = {"resources": [], "nodes": [], "price": None, "lease": None, "idle": None, "emr": None}
    nothing |= {"incomplete_ends": [], "unread_ends": []}
    assert empty | {"invocation": None} == {"changed": False, **nothing, "invocation": None}
    run("cluster", **definition)
    info = run("cluster_info", cluster=name)
    assert {f"{item['kind']} {item['key']}" for item in info["resources"]} == EXPECTED
    assert [node["name"] for node in info["nodes"]] == [f"{name}-master", f"{name}-worker2", f"{name}-worker3"]
    assert {node["instance_id"]: node["number"] for node in info["nodes"]} == numbers(cloud, name)


def test_the_authority_is_made_once(cloud, run, name):
    assert run("ssh_authority", cluster=name, check=True)["changed"]
    first = run("ssh_authority", cluster=name)
    assert first["changed"]
    assert first["public_key"].startswith("ssh-ed25519 ")
    second = run("ssh_authority", cluster=name)
    assert not second["changed"]
    assert second["private_key"] == first["private_key"]
    parameter = cloud.client("ssm").describe_parameters(Filters=[{"Key": "Name", "Values": [f"/deeplearning/{name}/ssh-authority"]}])[
        "Parameters"
    ][0]
    assert parameter["Type"] == "SecureString"
    assert run("ssh_authority", cluster=name, state="absent")["changed"]
    assert not run("ssh_authority", cluster=name, state="absent")["changed"]


def test_the_authority_of_an_ec2_cluster_survives_the_emr_cluster_with_the_same_name(cloud, run, definition, name):
    run("cluster", **definition)
    first = run("ssh_authority", cluster=name)
    for check in (True, False):
        kept = run("ssh_authority", cluster=name, node_service="emr", state="absent", check=check)
        assert not kept["changed"]
        assert all(instance_id in str(kept["warnings"]) for instance_id in numbers(cloud, name))
    assert run("ssh_authority", cluster=name)["public_key"] == first["public_key"]
    assert run("ssh_authority", cluster=name, state="absent", check=True)["changed"], "destroy ends these nodes"
    assert not run("ssh_authority", cluster=name, state="absent")["changed"], "nodes use the authority"
    run("cluster", cluster=name, state="absent", delete_data=True)
    assert run("ssh_authority", cluster=name, state="absent")["changed"]


def test_the_authority_is_replaced(cloud, run, name):
    first = run("ssh_authority", cluster=name, rotate=True)
    assert run("ssh_authority", cluster=name, rotate=True, check=True)["changed"]
    assert run("ssh_authority", cluster=name)["private_key"] == first["private_key"]
    second = run("ssh_authority", cluster=name, rotate=True)
    assert second["changed"]
    assert second["private_key"] != first["private_key"]
    assert run("ssh_authority", cluster=name)["public_key"] == second["public_key"]
    tags = cloud.client("ssm").list_tags_for_resource(ResourceType="Parameter", ResourceId=f"/deeplearning/{name}/ssh-authority")["TagList"]
    assert {"Key": "deeplearning:cluster", "Value": name} in tags


def test_instances_that_have_left_are_listed(cloud, run, definition, name):
    assert run("former_nodes_info", cluster=name, days=10)["instance_ids"] == [], "there are no groups yet"
    run("cluster", **definition)
    assert run("former_nodes_info", cluster=name, days=10)["instance_ids"] == []
    lost = next(instance_id for instance_id, number in numbers(cloud, name).items() if number == 2)
    cloud.client("ec2").terminate_instances(InstanceIds=[lost])
    # The group does not replace nodes by itself, so no scaling activity mentions this node
    groups = cloud.client("autoscaling")
    wait_until(lambda: run("former_nodes_info", cluster=name, days=10)["instance_ids"] == [lost])
    running = run("former_nodes_info", cluster=name, days=10)["running_instance_ids"]
    assert running == sorted(numbers(cloud, name)), "those that have left are not running"
    assert lost not in running
    activities = groups.describe_scaling_activities(AutoScalingGroupName=f"{name}-workers")["Activities"]
    assert not [each for each in activities if each["Description"].startswith("Terminating")]
    run("cluster", **definition)
    assert run("former_nodes_info", cluster=name, days=10)["instance_ids"] == [lost]
    assert run("former_nodes_info", cluster=name, days=10, instance_ids=[lost])["instance_ids"] == []
    (departure,) = run("former_nodes_info", cluster=name, days=10)["nodes"]
    replacement = next(instance_id for instance_id, number in numbers(cloud, name).items() if number == 2)
    assert departure["launched_at"] < departure["left_at"] < time.time()
    assert departure == {**departure, "instance_id": lost, "replacement": replacement}
    shrunk = next(instance_id for instance_id, number in numbers(cloud, name).items() if number == 3)
    run("cluster", **{**definition, "worker_count": 1})
    assert run("former_nodes_info", cluster=name, days=10)["instance_ids"] == sorted([lost, shrunk])
    run("cluster", cluster=name, state="absent", delete_data=True)
    assert {lost, shrunk} < set(run("former_nodes_info", cluster=name, days=10)["instance_ids"]), "deleted groups count too"


def test_failed_launches_of_long_ago_are_not_read(cloud, run, definition, name, monkeypatch):
    """After a long shortage of capacity, a group has thousands of failed launches, which AWS lists for six weeks in pages of 100."""
    cloud.control.set_delays(clock_lag=15 * 24 * 3600, launch_retry=0)
    run("cluster", **{**definition, "worker_count": 1})
    cloud.control.set_capacity({"c5.large": {f"us-east-1{zone}": 0 for zone in "abc"}})
    with pytest.raises(ModuleFailed, match=r"1 of 2 nodes of .*-workers are in service"):
        run("cluster", **{**definition, "worker_count": 2, "capacity_timeout": 2})
    cloud.control.reset()
    read = []
    original = node_service.departures
    monkeypatch.setattr(node_service, "departures", lambda found, *more: (read.extend(found), original(found, *more))[1])
    run("former_nodes_info", cluster=name, days=10)
    assert {each["StatusCode"] for each in read} == {"Successful"}, "launches of nodes that may still be missing are read"
    run("former_nodes_info", cluster=name, days=20)
    assert "Failed" in {each["StatusCode"] for each in read}


def authority(cloud, name):
    """Return SSM's description of the authority's parameter."""
    names = {"Key": "Name", "Values": [f"/deeplearning/{name}/ssh-authority"]}
    return cloud.client("ssm").describe_parameters(ParameterFilters=[names])["Parameters"][0]


def test_the_authority_is_encrypted_with_the_key_that_is_named(cloud, run, name):
    """If the KMS key of an existing authority changes, the authority's private key does not change, so its certificates remain valid."""
    first = run("ssh_authority", cluster=name)
    assert authority(cloud, name)["KeyId"] == "alias/aws/ssm"
    keys = [cloud.client("kms").create_key()["KeyMetadata"] for _number in range(2)]
    cloud.client("kms").create_alias(AliasName=f"alias/{name}", TargetKeyId=keys[1]["KeyId"])
    for wanted, key in ((keys[0]["KeyId"], keys[0]), (f"alias/{name}", keys[1])):
        assert run("ssh_authority", cluster=name, kms_key_id=wanted, check=True)["changed"]
        before = authority(cloud, name)
        changed = run("ssh_authority", cluster=name, kms_key_id=wanted)
        assert (changed["changed"], changed["private_key"]) == (True, first["private_key"])
        assert f"was encrypted with {before['KeyId']}" in str(changed["warnings"])
        assert authority(cloud, name)["KeyId"] == key["Arn"]
        for same in (wanted, key["KeyId"], key["Arn"], None):
            assert not run("ssh_authority", cluster=name, kms_key_id=same)["changed"]
    run("ssh_authority", cluster=name, state="absent")
    described = [cloud.client("kms").describe_key(KeyId=key["KeyId"])["KeyMetadata"]["KeyState"] for key in keys]
    assert described == ["Enabled", "Enabled"], "keys that belong to others do not change"
    made = run("ssh_authority", cluster=name, kms_key_id=keys[0]["Arn"])
    assert made["private_key"] != first["private_key"]
    assert authority(cloud, name)["KeyId"] == keys[0]["Arn"]


def test_a_key_that_cannot_encrypt_is_refused_before_anything_is_stored(cloud, run, name):
    disabled = cloud.client("kms").create_key()["KeyMetadata"]
    cloud.client("kms").disable_key(KeyId=disabled["KeyId"])
    for key, message in (
        (disabled["KeyId"], f"{disabled['Arn']} is Disabled"),
        ("alias/none", "there is no key 'alias/none' in us-east-1"),
    ):
        with pytest.raises(ModuleFailed, match=f"kms_key_id: {message}"):
            run("ssh_authority", cluster=name, kms_key_id=key)
    assert not run("ssh_authority", cluster=name, state="absent")["changed"]


def test_the_authority_has_a_key_of_its_own(cloud, run, name):
    """The key is created once, only for this parameter, and is deleted together with the parameter, after a waiting period."""
    kms, alias = cloud.client("kms"), f"alias/deeplearning/{name}/ssh-authority"
    assert run("ssh_authority", cluster=name, create_kms_key=True, check=True)["changed"]
    assert alias not in {item["AliasName"] for item in kms.list_aliases()["Aliases"]}
    run("ssh_authority", cluster=name, create_kms_key=True)
    cloud.control.forget_calls()
    assert not run("ssh_authority", cluster=name, create_kms_key=True)["changed"]
    assert [call["action"] for call in cloud.control.calls() if not call["read_only"]] == []
    key = kms.describe_key(KeyId=alias)["KeyMetadata"]
    assert authority(cloud, name)["KeyId"] == key["Arn"]
    document = json.loads(kms.get_key_policy(KeyId=key["KeyId"], PolicyName="default")["Policy"])
    (use,) = [each for each in document["Statement"] if "kms:Decrypt" in each["Action"]]
    arn = key["Arn"].replace(":kms:", ":ssm:").rpartition(":")[0] + f":parameter/deeplearning/{name}/ssh-authority"
    only = {"kms:ViaService": [f"ssm.{REGION}.amazonaws.com"], "kms:EncryptionContext:PARAMETER_ARN": arn}
    assert use["Condition"] == {"StringEquals": only}

    assert run("ssh_authority", cluster=name, state="absent", check=True)["changed"]
    assert run("ssh_authority", cluster=name, state="absent")["changed"]
    assert kms.describe_key(KeyId=key["KeyId"])["KeyMetadata"]["KeyState"] == "PendingDeletion"
    assert not run("ssh_authority", cluster=name, state="absent")["changed"]
    run("ssh_authority", cluster=name, create_kms_key=True)
    assert kms.describe_key(KeyId=alias)["KeyMetadata"]["KeyId"] != key["KeyId"]


def test_a_key_that_is_not_the_clusters_is_neither_used_nor_deleted(cloud, run, name):
    kms = cloud.client("kms")
    key = kms.create_key()["KeyMetadata"]
    kms.create_alias(AliasName=f"alias/deeplearning/{name}/ssh-authority", TargetKeyId=key["KeyId"])
    with pytest.raises(ModuleFailed, match=f"create_kms_key: alias/deeplearning/{name}/ssh-authority is the alias of {key['Arn']}"):
        run("ssh_authority", cluster=name, create_kms_key=True)
    assert not run("ssh_authority", cluster=name, state="absent")["changed"]
    assert kms.describe_key(KeyId=key["KeyId"])["KeyMetadata"]["KeyState"] == "Enabled"


def test_host_keys_of_an_instance_that_does_not_exist(run):
    (problem,) = run("host_keys_info", instance_ids=["i-0123456789abcdef0"])["problems"]
    assert (problem["instance_id"], problem["kind"]) == ("i-0123456789abcdef0", "missing")
    assert "there is no instance i-0123456789abcdef0" in problem["msg"]


def test_a_console_that_shows_no_keys(cloud, run, definition, name):
    run("cluster", **definition)
    (problem,) = run("host_keys_info", instance_ids=list(instances(cloud, name))[:1], wait_timeout=1)["problems"]
    assert problem["kind"] == "timeout"
    assert "has not printed its SSH host keys to the console within 1 s" in problem["msg"]


def test_inventory_of_live_nodes(cloud, run, definition, name, tmp_path):
    run("cluster", **definition)
    listed, _errors = inventory(cloud, tmp_path, name, private_key_file="/keys/my key", ssh_directory="/my ssh")
    assert listed["master"]["hosts"] == [f"{name}-master"]
    assert listed["workers"]["hosts"] == [f"{name}-worker2", f"{name}-worker3"]
    assert sorted(listed["trainers"]["children"]) == ["master", "workers"]
    variables = listed["_meta"]["hostvars"]
    master, worker = variables[f"{name}-master"], variables[f"{name}-worker3"]
    assert (master["deeplearning_number"], worker["deeplearning_number"], worker["deeplearning_hostname"]) == (1, 3, f"{name}-worker3")
    assert "ProxyCommand" not in master["ansible_ssh_args"]
    jump = worker["ansible_ssh_args"]
    assert "ProxyCommand" in jump
    assert master["deeplearning_public_ip"] in jump
    assert jump.count("StrictHostKeyChecking=yes") == 2
    assert f"HostKeyAlias={worker['deeplearning_instance_id']}" in jump
    assert 'UserKnownHostsFile="/my ssh/known_hosts"' in shlex.split(jump), "ssh splits the value at spaces"

    lost = worker["deeplearning_instance_id"]
    cloud.client("autoscaling").suspend_processes(AutoScalingGroupName=f"{name}-workers", ScalingProcesses=["Launch"])
    cloud.client("ec2").terminate_instances(InstanceIds=[lost])
    _listed, errors = inventory(cloud, tmp_path, name, private_key="/keys/my key")
    assert "'private_key' is not an option of deeplearning.cluster.nodes. Did you mean 'private_key_file'?" in " ".join(errors.split())
    listed, _errors = inventory(cloud, tmp_path, name, connection_path="direct")
    assert listed["workers"]["hosts"] == [f"{name}-worker2"]
    assert "ProxyCommand" not in str(listed)

    (tmp_path / "host_vars").mkdir()
    for node, region in (("master", REGION), ("worker2", "eu-west-1")):
        (tmp_path / "host_vars" / f"{name}-{node}.yml").write_text(f"deeplearning_region: {region}\n")
    _listed, errors = inventory(cloud, tmp_path, name)
    assert f"'eu-west-1', set by the variables of {name}-worker2" in " ".join(errors.split())


def test_inventory_makes_three_calls_and_only_reads_the_account_with_a_cache(cloud, run, definition, name, tmp_path):
    run("cluster", **definition)
    cache = {"cache": True, "cache_plugin": "ansible.builtin.jsonfile", "cache_connection": str(tmp_path / "cache")}
    cloud.control.forget_calls()
    first, _errors = inventory(cloud, tmp_path, name, **cache)
    reads = ["DescribeAutoScalingGroups", "DescribeInstances", "GetCallerIdentity"]
    assert sorted(call["action"] for call in cloud.control.calls()) == reads
    cloud.control.forget_calls()
    second, _errors = inventory(cloud, tmp_path, name, **cache)
    assert [call["action"] for call in cloud.control.calls()] == ["GetCallerIdentity"], "another account has other nodes"
    assert second == first


def test_inventory_of_no_cluster_is_empty(cloud, name, tmp_path):
    listed, _errors = inventory(cloud, tmp_path, name)
    assert "hosts" not in listed.get("master", {})
