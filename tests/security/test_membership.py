"""Tags alone do not make an instance a node or a node's replacement, and add nothing to fstab (H1 of the security review)."""

from __future__ import annotations

import json
from pathlib import Path

import ansible_commands
import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instance_role import definition as role
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision import delete
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage import mounts
from integration.clusters import instances, steps
from integration.conftest import FAST, REGION, ModuleFailed
from local_cloud.testing import wait_until

NUMBER = "deeplearning:number"


@pytest.fixture(autouse=True)
def _fast(cloud):
    cloud.control.reset()
    cloud.control.set_delays(**FAST)


@pytest.fixture
def inventory(cloud, name, tmp_path):
    """Run the inventory plugin, and return its list of hosts or its error."""

    def read(**more):
        path = tmp_path / "nodes.yml"
        path.write_text(json.dumps({"plugin": "deeplearning.cluster.nodes", "cluster": name, "region": REGION, **more}))
        environment = {**cloud.environment, "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true"}
        done = ansible_commands.run(["ansible-inventory", "-i", str(path), "--list"], environment, tmp_path)
        if done.returncode:
            return None, " ".join(done.stderr.split())
        return json.loads(done.stdout, object_hook=lambda item: item.get("__ansible_unsafe", item)), done.stderr

    return read


@pytest.fixture
def outsider(cloud):
    """Launch an instance with a node's tags, but outside the cluster's Auto Scaling groups, and return its ID."""

    def launch(name, **tags):
        ec2 = cloud.client("ec2")
        image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        tags = {"deeplearning:cluster": name, "deeplearning:component": "nodes", **tags}
        specification = {"ResourceType": "instance", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
        launched = ec2.run_instances(
            ImageId=image, InstanceType="c5.large", MinCount=1, MaxCount=1, SubnetId=_subnet(ec2), TagSpecifications=[specification]
        )["Instances"][0]["InstanceId"]
        wait_until(lambda: _state(ec2, launched) == "running")
        return launched

    return launch


def _subnet(ec2):
    vpc = ec2.create_vpc(CidrBlock="10.66.0.0/24")["Vpc"]["VpcId"]
    return ec2.create_subnet(VpcId=vpc, CidrBlock="10.66.0.0/24", AvailabilityZone=f"{REGION}a")["Subnet"]["SubnetId"]


def _instance(ec2, instance):
    return ec2.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]


def _state(ec2, instance):
    return _instance(ec2, instance)["State"]["Name"]


def _tag(cloud, instance, key, value):
    cloud.client("ec2").create_tags(Resources=[instance], Tags=[{"Key": key, "Value": value}])


def _node(cloud, name, number):
    return next(key for key, tags in instances(cloud, name, "running").items() if tags.get(NUMBER) == str(number))


@pytest.mark.parametrize(
    "tags",
    [{"NodeType": "Worker"}, {"NodeType": "Worker", NUMBER: "2"}, {"NodeType": "Master"}, {"NodeType": "Master", NUMBER: "1"}],
)
def test_an_instance_with_the_tags_of_a_node_is_none(cloud, run, definition, name, inventory, outsider, tags):
    # This instance is older than all nodes. In earlier versions, the oldest instance became the node
    theirs = outsider(name, **tags)
    made = run("cluster", **definition)
    assert ("create", "nodes master") in steps(made)
    listed, _errors = inventory()
    assert theirs not in json.dumps(listed)
    assert listed["master"]["hosts"] == [f"{name}-master"]
    assert listed["workers"]["hosts"] == [f"{name}-worker2", f"{name}-worker3"]
    assert theirs not in json.dumps(run("cluster_info", cluster=name)["nodes"])
    assert not run("cluster", **definition)["changed"]
    assert instances(cloud, name)[theirs] == {"deeplearning:cluster": name, "deeplearning:component": "nodes", **tags}
    # Deleting the cluster does not wait for this instance either
    run("cluster", cluster=name, state="absent", delete_data=True)
    assert _state(cloud.client("ec2"), theirs) == "running"


def test_the_masters_address_is_for_the_master(cloud, run, definition, name, outsider):
    several = {**definition, "instance_type": "p4d.24xlarge", "efa": True}
    theirs = outsider(name, NodeType="Master")
    run("cluster", **several)
    ec2 = cloud.client("ec2")
    addresses = ec2.describe_addresses(Filters=[{"Name": "tag:deeplearning:cluster", "Values": [name]}])["Addresses"]
    (address,) = [item for item in addresses if {"Key": "deeplearning:key", "Value": "master"} in item["Tags"]]
    assert _instance(ec2, _node(cloud, name, 1))["PublicIpAddress"] == address["PublicIp"]
    assert "PublicIpAddress" not in _instance(ec2, theirs)
    assert not run("cluster", **several)["changed"]


def test_the_deletion_names_what_has_lost_the_tags_of_the_cluster(cloud, run, definition, name, monkeypatch):
    """Otherwise, the NAT gateway's address would cost money without anyone knowing."""
    monkeypatch.setattr(delete, "SWEEP_TIMEOUT", 1)
    result = run("cluster", **definition)["resources"]
    address, vpc = result["elastic_ip"]["nat"], result["vpc"]["main"]
    for resource in (address, vpc):
        _tag(cloud, resource, "deeplearning:cluster", "theirs")
    gone = run("cluster", cluster=name, state="absent", delete_data=True)
    ip = cloud.client("ec2").describe_addresses(AllocationIds=[address])["Addresses"][0]["PublicIp"]
    assert gone["leftovers"] == [f"Elastic IP address {ip} ({address})", f"VPC {name} ({vpc})"]
    assert "because they no longer have the tags of the cluster" in str(gone["warnings"])


def test_a_group_with_the_clusters_tags_is_left_alone(cloud, run, definition, name):
    groups = cloud.client("autoscaling")
    run("cluster", **definition)
    own = groups.describe_auto_scaling_groups(AutoScalingGroupNames=[f"{name}-workers"])["AutoScalingGroups"][0]
    tags = [{key: tag[key] for key in ("Key", "Value", "PropagateAtLaunch")} for tag in own["Tags"]]
    groups.create_auto_scaling_group(
        AutoScalingGroupName=f"{name}-theirs",
        LaunchTemplate={"LaunchTemplateId": own["LaunchTemplate"]["LaunchTemplateId"], "Version": "$Latest"},
        MinSize=1,
        MaxSize=1,
        VPCZoneIdentifier=own["VPCZoneIdentifier"],
        Tags=tags,
    )
    wait_until(lambda: len(instances(cloud, name, "running")) == 4)
    assert not run("cluster", **definition)["changed"]
    groups.delete_auto_scaling_group(AutoScalingGroupName=f"{name}-theirs", ForceDelete=True)


def _refused(run, definition, inventory, *words):
    """Verify that both the inventory and the next run fail with an error that contains these words."""
    listed, error = inventory()
    assert listed is None
    with pytest.raises(ModuleFailed) as caught:
        run("cluster", **definition)
    for word in words:
        assert word in error
        assert word in str(caught.value)


def test_a_number_that_two_workers_have(cloud, run, definition, name, inventory):
    run("cluster", **definition)
    second, third = _node(cloud, name, 2), _node(cloud, name, 3)
    _tag(cloud, third, NUMBER, "2")
    cloud.control.forget_calls()
    _refused(run, definition, inventory, f"Instances {' and '.join(sorted((second, third)))}: each has the number 2", "delete-tags")
    assert [call["action"] for call in cloud.control.calls() if not call["read_only"]] == []
    cloud.client("ec2").delete_tags(Resources=[third], Tags=[{"Key": NUMBER}])
    assert steps(run("cluster", **definition)) == {("update", "nodes workers")}
    assert _node(cloud, name, 3) == third


BAD_NUMBERS = [(2, "1"), (2, "0"), (2, "02"), (2, "2\n"), (2, "٢"), (1, "2"), (2, "9" * 30)]


def test_a_number_that_is_none(cloud, run, definition, name, inventory):
    run("cluster", **definition)
    for number, value in BAD_NUMBERS:
        node = _node(cloud, name, number)
        _tag(cloud, node, NUMBER, value)
        _refused(run, definition, inventory, f"Instance {node}: the tag {NUMBER} is {value!r}")
        _tag(cloud, node, NUMBER, str(number))


def test_a_node_of_another_cluster(cloud, run, definition, name, inventory):
    run("cluster", **definition)
    node = _node(cloud, name, 2)
    _tag(cloud, node, "deeplearning:cluster", "theirs")
    _refused(run, definition, inventory, f"Instance {node}: the tag deeplearning:cluster is 'theirs'", f"Set the tag to {name}")
    # The cluster can still be deleted, with its data
    run("cluster", cluster=name, state="absent", delete_data=True)
    wait_until(lambda: _state(cloud.client("ec2"), node) == "terminated")


def test_a_second_master(cloud, run, definition, name, inventory, outsider):
    run("cluster", **definition)
    second, groups = outsider(name, NodeType="Master"), cloud.client("autoscaling")
    first = _node(cloud, name, 1)
    groups.update_auto_scaling_group(AutoScalingGroupName=f"{name}-master", MaxSize=2)
    groups.attach_instances(AutoScalingGroupName=f"{name}-master", InstanceIds=[second])
    instances = " and ".join(sorted((first, second)))
    _refused(run, definition, inventory, f"Instances {instances}: more than one instance is running in Auto Scaling group {name}-master")


def test_a_master_that_is_being_replaced_is_no_second_one(cloud, run, definition, name, inventory):
    run("cluster", **definition)
    first = _node(cloud, name, 1)
    cloud.client("autoscaling").terminate_instance_in_auto_scaling_group(InstanceId=first, ShouldDecrementDesiredCapacity=False)
    run("cluster", **definition)
    assert _node(cloud, name, 1) != first
    listed, _errors = inventory()
    assert listed["master"]["hosts"] == [f"{name}-master"]


BAD_MOUNT_POINTS = ["/efs\n", "/efs x", "efs", "/"]
FSTAB = "fs-0123456789abcdef0\n203.0.113.66:/ /etc nfs4 suid 0 0\n#"
BAD_STORAGE = [
    ("deeplearning:file-system", FSTAB),
    ("deeplearning:file-system", "fs-0123456789abcdef0\n"),
    ("deeplearning:file-system", "fs-0123456789abcdef0 /etc"),
    ("deeplearning:file-system-address", "nfs.example.com"),
    ("deeplearning:file-system-address", "10.0.0.4\n"),
    ("deeplearning:file-system-address", "10.0.0.256"),
    ("deeplearning:lustre-file-system", "lustre"),
    ("deeplearning:lustre-source", "203.0.113.66@tcp:/a /etc lustre suid 0 0\n#"),
    ("deeplearning:lustre-source", "203.0.113.66:/"),
]


OTHER_STORAGE = {
    "deeplearning:file-system": "fs-0123456789abcdef0",
    "deeplearning:file-system-address": "203.0.113.66",
    "deeplearning:file-system-tls": "false",
    "deeplearning:lustre-source": "evil.example.com@tcp:/x",
    "deeplearning:bucket-mount": "s3://theirs/cron",
    "deeplearning:bucket-mount-point": "/etc/cron.d",
}


def test_tags_of_instances_do_not_change_what_nodes_mount(cloud, run, definition, name, inventory):
    run("cluster", **definition)
    node, worker = _node(cloud, name, 3), f"{name}-worker3"
    before = inventory()[0]["_meta"]["hostvars"][worker]
    assert [mount["kind"] for mount in before["deeplearning_mounts"]] == ["efs"]
    for key, value in (*OTHER_STORAGE.items(), *BAD_STORAGE):
        _tag(cloud, node, key, value)
        if (key, value) == list(OTHER_STORAGE.items())[-1]:
            assert inventory()[0]["_meta"]["hostvars"][worker] == before
    cloud.client("ec2").delete_tags(Resources=[node], Tags=[{"Key": "deeplearning:file-system"}])
    assert inventory()[0]["_meta"]["hostvars"][worker] == before
    (described,) = [each for each in run("cluster_info", cluster=name)["nodes"] if each["number"] == 3]
    assert described["mounts"] == before["deeplearning_mounts"]
    assert not run("cluster", **definition)["changed"]


@pytest.mark.exhaustive
def test_storage_that_is_none(cloud, run, definition, name, inventory):
    run("cluster", **definition)
    groups, group = cloud.client("autoscaling"), f"{name}-workers"
    (described,) = groups.describe_auto_scaling_groups(AutoScalingGroupNames=[group])["AutoScalingGroups"]
    before = {tag["Key"]: tag["Value"] for tag in described["Tags"]}

    def tag(key, value):
        return [{"Key": key, "Value": value, "ResourceId": group, "ResourceType": "auto-scaling-group", "PropagateAtLaunch": True}]

    for key, value in BAD_STORAGE:
        groups.create_or_update_tags(Tags=tag(key, value))
        listed, error = inventory()
        assert listed is None
        assert f"Auto Scaling group {group}, tag {key}: {value!r} is not" in error
        groups.delete_tags(Tags=tag(key, value))
        if key in before:
            groups.create_or_update_tags(Tags=tag(key, before[key]))
    assert inventory()[0]


@pytest.mark.parametrize(
    ("mount", "value"),
    [
        *((lambda text: mounts.efs(text, REGION, "/efs"), value) for key, value in BAD_STORAGE if key.endswith("file-system")),
        *((lambda text: mounts.efs("fs-1", REGION, "/efs", address=text), value) for key, value in BAD_STORAGE if key.endswith("address")),
        *((lambda text: mounts.efs("fs-1", REGION, text), value) for value in BAD_MOUNT_POINTS),
        *((lambda text: mounts.lustre(text, "/fsx"), value) for key, value in BAD_STORAGE if key.endswith("source")),
    ],
)
def test_the_module_writes_no_such_storage_into_fstab_either(mount, value):
    with pytest.raises(ValueError, match=r"is not|must be"):
        mount(value)


@pytest.fixture
def table(cloud, name, tmp_path):
    """Return the dictionary of all nodes that a play on the controller sees after it has changed the variables of all nodes."""

    def read(**more):
        (tmp_path / "nodes.yml").write_text(json.dumps({"plugin": "deeplearning.cluster.nodes", "cluster": name, "region": REGION, **more}))
        forged = {"deeplearning_instance_id": "i-0", "deeplearning_private_ip": "203.0.113.66", "ansible_host": "203.0.113.66"}
        facts = {"ansible.builtin.set_fact": {**forged, "cacheable": True}, "delegate_to": "localhost"}
        show = {"ansible.builtin.debug": {"msg": "TABLE {{ lookup('deeplearning.cluster.nodes') | to_json }}"}}
        plays = [{"hosts": hosts, "gather_facts": False, "tasks": [task]} for hosts, task in (("all", facts), ("localhost", show))]
        (tmp_path / "play.yml").write_text(json.dumps(plays))
        command = ["ansible-playbook", "-i", str(tmp_path / "nodes.yml"), str(tmp_path / "play.yml")]
        environment = {**cloud.environment, "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.minimal", "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"}
        done = ansible_commands.run(command, environment, tmp_path)
        (line,) = [line for line in done.stdout.splitlines() if "TABLE " in line]
        return json.loads(json.loads("{" + line.strip().rstrip(",") + "}")["msg"].removeprefix("TABLE "))

    return read


def test_the_table_of_nodes_belongs_to_no_node(run, definition, name, inventory, table):
    run("cluster", **definition)
    listed, _errors = inventory()
    hostvars = listed["_meta"]["hostvars"]
    assert "i-" not in str({key: value for key, value in listed.items() if key != "_meta"}), "no group lists the nodes' IDs"
    assert len(hostvars) == 3
    for host, entry in table().items():
        own = hostvars[host]
        assert entry == {
            "number": own["deeplearning_number"],
            "hostname": own["deeplearning_hostname"],
            "group": "master" if host == f"{name}-master" else "workers",
            "instance_id": own["deeplearning_instance_id"],
            "instance_type": own["deeplearning_instance_type"],
            "private_ip": own["deeplearning_private_ip"],
            "address": own["ansible_host"],
            "user": "ubuntu",
            "launched_at": own["deeplearning_launched_at"],
            "market": own["deeplearning_market"],
            "zone": own["deeplearning_zone"],
            "jump": host != f"{name}-master",
            **({"public_ip": own["deeplearning_public_ip"]} if host == f"{name}-master" else {}),
        }
        others = [each["deeplearning_instance_id"] for each in hostvars.values() if each is not own]
        assert sum(each in str(own) for each in others) == (host != f"{name}-master"), "only the master, through which SSH connects"
    direct = table(connection_path="direct")
    assert {(entry["jump"], entry["address"] == entry["private_ip"]) for entry in direct.values()} == {(False, True)}
    sessions = table(connection_path="session_manager")
    assert all(f"--target {entry['instance_id']} " in entry["proxy_command"] for entry in sessions.values())


def test_neither_nodes_nor_operators_who_do_not_provision_change_tags():
    """The inventory reads the mounts of nodes from the tags of Auto Scaling groups."""
    root = Path(__file__).resolve().parents[2]
    policies = {path.stem: json.loads(path.read_text()) for path in (root / "docs/policies").glob("*.json")}
    policies["nodes"] = role.policy(REGION, ["read"], ["write"], session_manager=True)
    tagging = {
        name
        for name, document in policies.items()
        for statement in document["Statement"]
        if statement["Effect"] == "Allow"
        for action in statement["Action"]
        if action in ("ec2:CreateTags", "ec2:DeleteTags", "autoscaling:CreateOrUpdateTags") or action.endswith("*")
    }
    assert tagging == {"emr", "provision-1", "train-1"}
    assert {"configure", "dataset", "status", "emr_status", "nodes"} <= policies.keys()
