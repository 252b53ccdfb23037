"""The life cycle of a cluster that one module manages: creation, changes and deletion, with and without check mode."""

from __future__ import annotations

import json

import pytest
from local_cloud.testing import wait_until

from .clusters import EXPECTED, instances, numbers, steps
from .conftest import ModuleFailed, cluster_options, new_name
from .life import Life


@pytest.fixture(scope="module")
def life():
    return Life(cluster_options(new_name()))


def test_check_mode_predicts_the_cluster_and_creates_nothing(cloud, life):
    assert steps(life.predicted) == {("create", item) for item in EXPECTED}
    assert life.predicted["resources"]["vpc"]["main"] == "(known after apply)"
    assert not instances(cloud, life.name)
    assert all(call["read_only"] for call in cloud.control.calls())


def test_a_cluster_is_created_as_predicted(cloud, life):
    assert steps(life.created) == steps(life.predicted)
    assert sorted(numbers(cloud, life.name).values()) == [1, 2, 3]
    assert {tags["NodeType"] for tags in instances(cloud, life.name).values()} == {"Master", "Worker"}
    assert {tags["Name"] for tags in instances(cloud, life.name).values()} == {f"{life.name}-Master", f"{life.name}-Worker"}


def test_a_second_run_only_reads(cloud, run, life):
    created = life.created
    cloud.control.forget_calls()
    assert not run("cluster", **life.options, check=True)["changed"]
    unchanged = run("cluster", **life.options)
    assert not unchanged["changed"]
    assert unchanged["resources"] == created["resources"]
    assert cloud.control.calls()
    assert [call["action"] for call in cloud.control.calls() if not call["read_only"]] == []


def test_deletion_keeps_the_data_and_nothing_else(cloud, life):
    assert steps(life.deleted) == {("delete", item) for item in EXPECTED - {"file_system main", "file_system_policy main"}}
    assert life.deleted["kept"] == [life.created["resources"]["file_system"]["main"]]
    left = cloud.client("resourcegroupstaggingapi").get_resources(TagFilters=[{"Key": "deeplearning:cluster", "Values": [life.name]}])
    names = [item["ResourceARN"] for item in left["ResourceTagMappingList"]]
    # Deleted NAT gateways and instances keep their tags for a while
    assert [name for name in names if ":natgateway" not in name and ":instance/" not in name] == [
        name for name in names if "file-system" in name
    ]


def test_a_new_cluster_finds_the_data_again(life):
    again = life.created_again
    assert ("create", "file_system main") not in steps(again)
    assert ("create", "mount_target us-east-1a") in steps(again)
    assert again["resources"]["file_system"] == life.created["resources"]["file_system"]


def test_data_is_deleted_on_request(life):
    assert life.deleted_with_data["kept"] == []
    assert ("delete", "file_system main") in steps(life.deleted_with_data)


def test_a_single_node_grows_and_shrinks_again(cloud, run, definition, name):
    single = {**definition, "worker_count": 0}
    run("cluster", **single)
    assert sorted(numbers(cloud, name).values()) == [1]
    assert not run("cluster", **single)["changed"]
    run("cluster", **definition)
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3]
    run("cluster", **single)
    assert sorted(numbers(cloud, name).values()) == [1]
    run("cluster", cluster=name, state="absent")
    assert not instances(cloud, name)


@pytest.mark.parametrize("change", [{"worker_count": 3}, {"worker_count": 2, "spares": 1}], ids=["workers", "spares"])
def test_workers_come_and_go_and_numbers_stay(cloud, run, definition, name, change):
    run("cluster", **definition)
    before = numbers(cloud, name)
    more = {**definition, **change}
    assert (
        steps(run("cluster", **more, check=True))
        == steps(run("cluster", **more))
        == {("update", "auto_scaling_group workers"), ("update", "nodes workers")}
    )
    grown = numbers(cloud, name)
    assert {key: grown[key] for key in before} == before
    assert sorted(grown.values()) == [1, 2, 3, 4]

    fewer = {**definition, "worker_count": 1}
    assert steps(run("cluster", **fewer, check=True)) == steps(run("cluster", **fewer))
    shrunk = numbers(cloud, name)
    assert shrunk == {key: number for key, number in grown.items() if number <= 2}
    assert not run("cluster", **fewer)["changed"]


def test_a_group_that_is_busy_is_asked_again(cloud, run, definition, name):
    """The API reference of Auto Scaling lists these errors for these operations."""
    busy = {"service": "autoscaling", "status": 400, "each_call_once": True}
    rules = [
        {**busy, "code": "ScalingActivityInProgress", "action": "(TerminateInstanceIn|Delete|Update)AutoScalingGroup"},
        {**busy, "code": "ResourceInUse", "action": "CreateOrUpdateTags|DeleteTags|(Suspend|Resume)Processes"},
    ]
    cloud.control.set_faults(rules)
    run("cluster", **definition)
    for process in ("Launch", "HealthCheck"):
        cloud.control.suspend(f"{name}-workers", process)
    for changes in ({"worker_count": 3, "tags": {"team": "vision"}}, {"worker_count": 1}):
        cloud.control.set_faults(rules)
        run("cluster", **{**definition, **changes})
    assert sorted(numbers(cloud, name).values()) == [1, 2]
    run("cluster", cluster=name, state="absent")
    assert not instances(cloud, name)


def test_a_lost_worker_is_replaced_and_gets_the_free_number(cloud, run, definition, name):
    run("cluster", **definition)
    before = numbers(cloud, name)
    lost = next(instance_id for instance_id, number in before.items() if number == 2)
    cloud.client("ec2").terminate_instances(InstanceIds=[lost])
    assert steps(run("cluster", **definition)) == {("update", "nodes workers")}
    after = numbers(cloud, name)
    assert lost not in after
    assert sorted(after.values()) == [1, 2, 3]
    assert {key: number for key, number in after.items() if key in before} == {key: number for key, number in before.items() if key != lost}


@pytest.mark.exhaustive
def test_the_highest_number_goes_also_where_a_lower_one_is_still_to_be_given(cloud, run, definition, name):
    run("cluster", **definition)
    by_number = {number: instance_id for instance_id, number in numbers(cloud, name).items()}
    cloud.client("autoscaling").terminate_instance_in_auto_scaling_group(InstanceId=by_number[2], ShouldDecrementDesiredCapacity=False)

    def successor():
        return [key for key, tags in instances(cloud, name, "running").items() if "deeplearning:number" not in tags]

    wait_until(successor)
    (second,) = successor()
    run("cluster", **{**definition, "worker_count": 1})
    assert numbers(cloud, name) == {by_number[1]: 1, second: 2}


def test_a_group_that_has_not_noticed_a_loss_is_waited_for(cloud, run, definition, name):
    run("cluster", **definition)
    cloud.control.set_delays(group_health_check=2)
    lost = next(instance_id for instance_id, number in numbers(cloud, name).items() if number == 2)
    cloud.client("ec2").terminate_instances(InstanceIds=[lost])
    run("cluster", **definition)
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3]


def group(cloud, name, key="workers"):
    return cloud.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[f"{name}-{key}"])["AutoScalingGroups"][0]


def suspended(cloud, name):
    return {process["ProcessName"] for process in group(cloud, name)["SuspendedProcesses"]}


def test_a_cluster_keeps_one_master_and_may_have_fewer_workers(cloud, run, definition, name):
    run("cluster", **definition)
    sizes = {key: [group(cloud, name, key)[size] for size in ("MinSize", "DesiredCapacity", "MaxSize")] for key in ("master", "workers")}
    assert sizes == {"master": [1, 1, 1], "workers": [0, 2, 2]}


def test_processes_that_others_suspended_stay_so_and_are_told(cloud, run, definition, name):
    run("cluster", **definition)
    autoscaling = cloud.client("autoscaling")
    autoscaling.suspend_processes(AutoScalingGroupName=f"{name}-workers", ScalingProcesses=["Launch"])
    unchanged = run("cluster", **definition)
    assert not unchanged["changed"]
    assert f"{name}-workers: these processes were suspended outside this collection: Launch. This run" in str(unchanged["warnings"])
    autoscaling.resume_processes(AutoScalingGroupName=f"{name}-workers")
    cloud.control.suspend(f"{name}-workers", "Launch")
    assert steps(run("cluster", **definition)) == {("update", "auto_scaling_group workers")}
    assert suspended(cloud, name) == {"AZRebalance", "ReplaceUnhealthy"}


def test_a_group_does_not_end_nodes_by_itself(cloud, run, definition, name):
    run("cluster", **definition)
    assert group(cloud, name)["HealthCheckGracePeriod"] == 900
    cloud.client("autoscaling").update_auto_scaling_group(AutoScalingGroupName=f"{name}-workers", HealthCheckGracePeriod=0)
    assert steps(run("cluster", **definition)) == {("update", "auto_scaling_group workers")}
    assert group(cloud, name)["HealthCheckGracePeriod"] == 900

    before = numbers(cloud, name)
    ill = next(instance_id for instance_id, number in before.items() if number == 3)
    cloud.client("autoscaling").set_instance_health(InstanceId=ill, HealthStatus="Unhealthy", ShouldRespectGracePeriod=False)
    result = run("cluster", **definition)
    assert (result["changed"], [(item["kind"], item["key"]) for item in result["deferred"]]) == (False, [("nodes", "workers")])
    warning = "EC2 status checks have failed on nodes 3, so these nodes need to be replaced. These changes are deferred"
    assert warning in str(result["warnings"])
    assert numbers(cloud, name) == before, "a job may be running on the node"
    # An unhealthy node does not prevent other changes either
    run("cluster", **{**definition, "worker_count": 3})
    run("cluster", **definition)
    assert numbers(cloud, name) == before

    assert steps(run("cluster", **definition, replace_nodes=True)) == {("update", "nodes workers")}
    after = numbers(cloud, name)
    assert sorted(after.values()) == [1, 2, 3]
    assert set(before) - set(after) == {ill}
    assert not run("cluster", **definition)["changed"]


def test_a_node_that_has_died_is_replaced_by_the_next_run(cloud, run, definition, name):
    run("cluster", **definition)
    dead = next(instance_id for instance_id, number in numbers(cloud, name).items() if number == 2)
    cloud.control.kill(dead)
    wait_until(lambda: {item["HealthStatus"] for item in group(cloud, name)["Instances"]} == {"Healthy", "Unhealthy"})
    assert len(numbers(cloud, name)) == 2, "the group launches no node that the job cannot use"
    assert steps(run("cluster", **definition)) == {("update", "nodes workers")}
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3]
    assert dead not in numbers(cloud, name)
    assert not run("cluster", **definition)["changed"]


def lose(cloud, name, number):
    """Terminate a worker as if its hardware had failed, and let AWS choose which nodes to terminate, as in groups of earlier versions."""
    (lost,) = (instance_id for instance_id, its in numbers(cloud, name).items() if its == number)
    cloud.control.kill(lost)
    workers = [item["InstanceId"] for item in group(cloud, name)["Instances"]]
    cloud.client("autoscaling").set_instance_protection(
        AutoScalingGroupName=f"{name}-workers", InstanceIds=workers, ProtectedFromScaleIn=False
    )
    return workers


@pytest.mark.parametrize(("count", "lost", "remaining"), [(3, 5, {2, 3, 4}), (2, 3, {2, 4}), (1, 3, {2})])
def test_a_lost_worker_goes_before_others(cloud, run, definition, name, count, lost, remaining):
    run("cluster", **definition | {"worker_count": 4})
    before = numbers(cloud, name)
    lose(cloud, name, lost)
    run("cluster", **definition | {"worker_count": count})
    assert set(numbers(cloud, name)) == {instance_id for instance_id, number in before.items() if number in {1, *remaining}}
    assert sorted(numbers(cloud, name).values()) == list(range(1, count + 2))
    assert len(group(cloud, name)["Instances"]) == count
    assert not run("cluster", **definition | {"worker_count": count})["changed"]


def test_fewer_workers_are_accepted_without_a_lost_one(cloud, run, definition, name):
    definition |= {"worker_count": 4, "worker_minimum": 2, "capacity_timeout": 2}
    run("cluster", **definition)
    before = numbers(cloud, name)
    cloud.control.set_capacity({definition["instance_type"]: {"us-east-1a": 4}})
    cloud.control.set_delays(group_health_check=600)  # the group never detects the loss
    workers = lose(cloud, name, 5)
    result = run("cluster", **definition | {"worker_count": 5})
    assert result["degraded"]["workers"] == 3
    assert numbers(cloud, name) == {instance_id: number for instance_id, number in before.items() if number != 5}
    sizes = group(cloud, name)
    assert (sizes["DesiredCapacity"], sizes["MaxSize"]) == (3, 3)
    assert {item["InstanceId"] for item in sizes["Instances"]} < set(workers)


def test_aws_chooses_no_node_that_it_terminates(cloud, run, definition, name):
    run("cluster", **definition)
    for key in ("master", "workers"):
        assert group(cloud, name, key)["NewInstancesProtectedFromScaleIn"]
        assert all(item["ProtectedFromScaleIn"] for item in group(cloud, name, key)["Instances"])
    cloud.client("autoscaling").update_auto_scaling_group(AutoScalingGroupName=f"{name}-workers", NewInstancesProtectedFromScaleIn=False)
    assert steps(run("cluster", **definition)) == {("update", "auto_scaling_group workers")}
    assert group(cloud, name)["NewInstancesProtectedFromScaleIn"]


def test_a_range_with_a_netmask_is_written_as_aws_does(run, definition):
    predicted = run("cluster", **definition, network_cidr="10.0.0.0/255.255.0.0", check=True)
    assert next(change["after"]["cidr"] for change in predicted["changes"] if change["kind"] == "vpc") == "10.0.0.0/16"


def test_the_nat_gateway_stays_where_it_is(run, definition):
    run("cluster", **definition, zones=["us-east-1b"])
    more = run("cluster", **definition, zones=["us-east-1a", "us-east-1b"])
    assert ("create", "subnet public-us-east-1a") in steps(more)
    assert not {kind for _action, kind in steps(more) if "nat_gateway" in kind}


def test_a_zone_with_nodes_is_not_taken_away(cloud, run, definition):
    run("cluster", **definition, zones=["us-east-1a", "us-east-1b"])
    cloud.control.forget_calls()
    with pytest.raises(ModuleFailed, match=r"zones: nodes are running in private-us-east-1b.*Keep the zones of these subnets"):
        run("cluster", **definition, zones=["us-east-1a"])
    assert [call["action"] for call in cloud.control.calls() if not call["read_only"]] == []


def test_a_gateway_that_is_still_pending_is_waited_for(cloud, run, definition):
    cloud.control.set_delays(nat_gateway=6)
    with pytest.raises(ModuleFailed, match=r"create nat_gateway main: the resource exists, but is not ready"):
        run("cluster", **{**definition, "wait_timeout": 2})
    rest = run("cluster", **definition)
    assert {("update", "nat_gateway main"), ("create", "route_table private")} <= steps(rest)
    assert not run("cluster", **definition)["changed"]


def test_tags_of_others_stay(cloud, run, definition, name):
    options = {**definition, "tags": {"team": "speech"}}
    vpc = run("cluster", **options)["resources"]["vpc"]["main"]
    cloud.client("ec2").create_tags(Resources=[vpc], Tags=[{"Key": "audit", "Value": "seen"}, {"Key": "team", "Value": "wrong"}])
    assert steps(run("cluster", **options)) == {("update", "vpc main")}
    tags = {tag["Key"]: tag["Value"] for tag in cloud.client("ec2").describe_vpcs(VpcIds=[vpc])["Vpcs"][0]["Tags"]}
    assert (tags["audit"], tags["team"], tags["deeplearning:cluster"]) == ("seen", "speech", name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"region": "us-esat-1"}, "'us-esat-1' is not an AWS region.*us-east-1"),
        ({"key_name": "nobody"}, "key_name: there is no key pair 'nobody'"),
        ({"network_cidr": "10.0.0.0/99"}, "network_cidr: '10.0.0.0/99' is not an IPv4 address range"),
        ({"ssh_cidrs": ["0.0.0.0/0"]}, "would open SSH to the whole internet.*allow_ssh_from_anywhere"),
        ({"worker_count": -1}, "worker_count: -1 is not valid"),
        ({"worker_count": "many"}, "worker_count.*int"),
        ({"file_system_id": "fs-0123456789abcdef0"}, "file_system_id: fs-0123456789abcdef0 does not exist in us-east-1"),
        ({"image_parameter": "/no/such/image"}, "image_parameter: there is no SSM parameter /no/such/image"),
        ({"image_parameter": None, "image_id": "ami-0123456789abcdef0"}, "image_id: there is no image ami-0123456789abcdef0"),
        ({"root_volume_size": 9}, r"root_volume_size: 9 GiB is too small for ami-\w+, which needs \d+"),
        ({"instance_type": "c5.huge"}, "instance_type: c5.huge is not offered"),
        ({"zones": ["us-east-1z"]}, "zones: there is no zone us-east-1z in us-east-1. Choose from us-east-1a"),
        ({"cluster": "No_Good"}, "cluster: 'No_Good' is not"),
        ({"tags": {"deeplearning:number": 1}}, "tags: 'deeplearning:number' must not start with aws: or deeplearning:"),
        ({"read_buckets": ["s3://data"]}, "read_buckets: 's3://data' is not a valid bucket name"),
        ({"additional_policy_statements": [{"Effect": "Allow"}]}, "additional_policy_statements: statement 1: Action is missing"),
    ],
)
def test_bad_input_changes_nothing(cloud, run, definition, change, message):
    with pytest.raises(ModuleFailed, match=message):
        run("cluster", **{**definition, **change})
    assert [call["action"] for call in cloud.control.calls() if not call["read_only"]] == []


def test_no_credentials(run, definition, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(ModuleFailed, match=r"No AWS credentials found. Set AWS_PROFILE"):
        run("cluster", **definition)


def test_a_region_that_is_not_enabled(cloud, run, definition):
    cloud.control.set_faults([{"service": "ec2", "code": "AuthFailure", "status": 401, "message": "not able to validate"}])
    with pytest.raises(ModuleFailed, match=r"does not accept the credentials in us-east-1 \(AuthFailure\).*Sign in again"):
        run("cluster", **definition)


def test_a_profile_gives_credentials_once(cloud, run, definition, monkeypatch, tmp_path):
    asked, script, config = tmp_path / "asked", tmp_path / "credentials", tmp_path / "config"
    keys = {"AccessKeyId": cloud.environment["AWS_ACCESS_KEY_ID"], "SecretAccessKey": cloud.environment["AWS_SECRET_ACCESS_KEY"]}
    answer = json.dumps({"Version": 1, **keys})
    script.write_text(f"#!/bin/sh\necho once >> {asked}\necho '{answer}'\n")
    script.chmod(0o755)
    config.write_text(f"[profile slow]\ncredential_process = {script}\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    assert run("cluster", **definition, profile="slow", check=True)["changed"]
    assert asked.read_text().split() == ["once"]


def test_an_endpoint_that_is_no_url(run, definition):
    with pytest.raises(ModuleFailed, match=r"Invalid endpoint: nowhere\. Check endpoint_url\."):
        run("cluster", **definition, endpoint_url="nowhere")


def test_a_forbidden_change_is_refused_before_anything_happens(cloud, run, definition):
    run("cluster", **definition)
    cloud.control.forget_calls()
    with pytest.raises(ModuleFailed, match=r"vpc main: cidr is '10.0.0.0/16' and cannot be changed to '10.1.0.0/16'"):
        run("cluster", **{**definition, "network_cidr": "10.1.0.0/16", "worker_count": 5})
    with pytest.raises(ModuleFailed, match=r"file_system main: encrypted is True and cannot be changed to False.*adopt it"):
        run("cluster", **{**definition, "encrypted": False})
    assert [call["action"] for call in cloud.control.calls() if not call["read_only"]] == []


def test_every_call_throttled_once(cloud, run, definition, name):
    throttled = [{"code": "RequestLimitExceeded", "status": 503, "each_call_once": True}]
    cloud.control.set_faults(throttled)
    applied = run("cluster", **definition)
    assert steps(applied) == {("create", item) for item in EXPECTED}
    cloud.control.set_faults([])
    assert not run("cluster", **definition)["changed"]
    for change in ({"worker_count": 3}, {"worker_count": 1}, {"instance_type": "c5.xlarge", "replace_nodes": True}):
        definition.update(change)
        cloud.control.set_faults(throttled)
        assert run("cluster", **definition)["changed"]
        assert not run("cluster", **definition)["changed"]
    cloud.control.set_faults(throttled)
    gone = run("cluster", cluster=name, state="absent", delete_data=True)
    assert steps(gone) == {("delete", item) for item in EXPECTED}


def test_throttled_for_good(cloud, run, definition):
    cloud.control.set_faults([{"service": "ec2", "action": "DescribeVpcs", "code": "RequestLimitExceeded", "status": 503}])
    with pytest.raises(ModuleFailed, match=r"RequestLimitExceeded.*DescribeVpcs"):
        run("cluster", **definition, aws_config={"retries": {"total_max_attempts": 2, "mode": "standard"}})
    assert [call["action"] for call in cloud.control.calls()].count("DescribeVpcs") == 2


def test_what_aws_refuses_until_the_end_is_told(cloud, run, definition):
    message = "You must use a valid fully-formed launch template. Invalid IAM Instance Profile name"
    fault = {"service": "autoscaling", "action": "CreateAutoScalingGroup", "code": "ValidationError", "status": 400, "message": message}
    cloud.control.set_faults([fault])
    with pytest.raises(ModuleFailed, match=r"Could not create auto_scaling_group .*Invalid IAM Instance Profile name"):
        run("cluster", **{**definition, "wait_timeout": 3})


def test_a_failure_half_way_says_what_was_done_and_the_next_run_carries_on(cloud, run, definition, name):
    cloud.control.set_faults(
        [
            {
                "service": "ec2",
                "action": "CreateNatGateway",
                "code": "NatGatewayLimitExceeded",
                "status": 400,
                "message": "The maximum number of NAT gateways has been reached.",
            }
        ]
    )
    with pytest.raises(
        ModuleFailed,
        match=r"Could not create nat_gateway main.*maximum number.*Applied changes: .*create vpc main.*continues from this state",
    ) as error:
        run("cluster", **definition)
    done = steps(error.value.result)
    assert ("create", "subnet public-us-east-1a") in done
    cloud.control.set_faults([])
    rest = steps(run("cluster", **definition))
    assert ("create", "nat_gateway main") in rest
    assert not rest & done
    assert not run("cluster", **definition)["changed"]


def test_two_resources_that_claim_to_be_the_same(cloud, run, definition, name):
    vpc = run("cluster", **definition)["resources"]["vpc"]["main"]
    ec2 = cloud.client("ec2")
    tags = ec2.describe_vpcs(VpcIds=[vpc])["Vpcs"][0]["Tags"]
    other = ec2.create_vpc(CidrBlock="10.5.0.0/16", TagSpecifications=[{"ResourceType": "vpc", "Tags": tags}])["Vpc"]["VpcId"]
    with pytest.raises(ModuleFailed, match=rf"(?=.*{vpc})(?=.*{other}).*tagged as vpc main"):
        run("cluster", **definition)


def test_the_image_is_looked_up_once(cloud, run, definition, name):
    run("cluster", **definition)
    cloud.control.set_faults([{"service": "ssm", "action": ".*", "code": "AccessDenied", "status": 400}])
    assert not run("cluster", **definition)["changed"]
