"""EMR clusters: life cycle, nodes, resizing, steps, security groups, and permissions."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from local_cloud.aws import persistence
from local_cloud.aws.app import AwsApi
from local_cloud.aws.context import CLOUD
from local_cloud.aws.emr import api
from local_cloud.aws.emr.node_tasks import NodeTasks
from local_cloud.testing import wait_until
from werkzeug.test import Client

from ..conftest import Account, Hosts, refused, wait
from .conftest import PROFILE, SERVICE_ROLE, Emr, bootstrap, step, trust

OVER = "A job flow that is shutting down, terminated, or finished may not be modified."


def group(instance_type: str, role: str = "MASTER", count: int = 1) -> dict[str, Any]:
    return {"InstanceRole": role, "InstanceType": instance_type, "InstanceCount": count}


def step_states(emr: Emr, cluster: str) -> dict[str, str]:
    return {each["Name"]: each["Status"]["State"] for each in emr.client.list_steps(ClusterId=cluster)["Steps"]}


def test_from_start_to_end(account: Account, emr: Emr, hosts: Hosts, public_subnet: str, script: str) -> None:
    hosts.boots.clear()
    cluster = emr.run(
        2,
        1,
        {"Ec2SubnetId": public_subnet},
        Tags=[{"Key": "team", "Value": "speech"}],
        LogUri="s3://logs",
        BootstrapActions=bootstrap(script, "a", "b"),
        Applications=[{"Name": "Spark"}],
        EbsRootVolumeSize=60,
    )
    wait_until(lambda: {each["Status"]["State"] for each in emr.groups(cluster).values()} == {"PROVISIONING"})
    assert emr.state(cluster) == "STARTING"
    CLOUD.delays = CLOUD.delays.changed({"emr_cluster": 3600})
    hosts.boots.set()
    emr.reached(cluster, "BOOTSTRAPPING")
    assert emr.nodes(cluster, "CORE") == []
    for node in [node for each in api.clusters(_backend(cluster)).values() for node in each.nodes]:
        node.bootstrapped_at = 0
    assert emr.reached(cluster, "WAITING") == {"Message": "Cluster ready to run steps."}

    described = emr.describe(cluster)
    assert (described["LogUri"], described["ReleaseLabel"], described["EbsRootVolumeSize"]) == ("s3n://logs/", "emr-5.8.0", 60)
    assert described["Tags"] == [{"Key": "team", "Value": "speech"}]
    assert [each["Name"] for each in described["Applications"]] == ["Spark"]
    assert described["Status"]["Timeline"]["ReadyDateTime"] >= described["Status"]["Timeline"]["CreationDateTime"]
    attributes = described["Ec2InstanceAttributes"]
    assert (attributes["Ec2SubnetId"], attributes["Ec2AvailabilityZone"], attributes["IamInstanceProfile"]) == (
        public_subnet,
        "us-east-1a",
        PROFILE,
    )
    (action,) = emr.client.list_bootstrap_actions(ClusterId=cluster)["BootstrapActions"]
    assert action == {"Name": "Set up", "ScriptPath": script, "Args": ["a", "b"]}
    counts = {role: (each["RequestedInstanceCount"], each["RunningInstanceCount"]) for role, each in emr.groups(cluster).items()}
    assert counts == {"MASTER": (1, 1), "CORE": (2, 2), "TASK": (1, 1)}
    assert {each["Status"]["State"] for each in emr.groups(cluster).values()} == {"RUNNING"}

    for role in ("MASTER", "CORE", "TASK"):
        for identifier in emr.nodes(cluster, role):
            instance = account.instance(identifier)
            tags = {each["Key"]: each["Value"] for each in instance["Tags"]}
            assert tags == {"team": "speech", api_tag("job-flow-id"): cluster, api_tag("instance-group-role"): role}
            volume = instance["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
            assert account.ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]["Size"] == 60
            assert "PublicIpAddress" in instance, "EMR gives public addresses to nodes in public subnets"

    nodes = [node for role in ("MASTER", "CORE", "TASK") for node in emr.nodes(cluster, role)]
    emr.client.terminate_job_flows(JobFlowIds=[cluster])
    reason = emr.reached(cluster, "TERMINATED")
    assert reason == {"Code": "USER_REQUEST", "Message": "Terminated by user request"}
    assert {account.state(each) for each in nodes} == {"terminated"}
    assert sorted(emr.nodes(cluster, "CORE", "TERMINATED")) == sorted(nodes[1:3])
    assert emr.groups(cluster)["CORE"]["Status"]["State"] == "TERMINATED"
    refused(lambda: emr.client.add_tags(ResourceId=cluster, Tags=[{"Key": "a", "Value": "b"}]), "ValidationException", OVER)
    emr.client.terminate_job_flows(JobFlowIds=[cluster])


def api_tag(name: str) -> str:
    return f"aws:elasticmapreduce:{name}"


def _backend(cluster: str) -> Any:
    from moto.emr.models import emr_backends

    return next(each for _account, _region, each in emr_backends.iter_backends() if cluster in each.clusters)


def test_the_former_notation_and_the_default_network(account: Account, emr: Emr) -> None:
    cluster = emr.client.run_job_flow(
        Name="former",
        ReleaseLabel="emr-7.9.0",
        JobFlowRole=PROFILE,
        ServiceRole=SERVICE_ROLE,
        Instances={"MasterInstanceType": "m5.xlarge", "SlaveInstanceType": "c5.xlarge", "InstanceCount": 3},
    )["JobFlowId"]
    wait_until(lambda: emr.state(cluster) == "TERMINATED")
    assert emr.describe(cluster)["Status"]["StateChangeReason"] == {"Code": "ALL_STEPS_COMPLETED", "Message": "Steps completed"}
    types = {role: (each["InstanceType"], each["RequestedInstanceCount"]) for role, each in emr.groups(cluster).items()}
    assert types == {"MASTER": ("m5.xlarge", 1), "CORE": ("c5.xlarge", 2)}
    subnet = account.ec2.describe_subnets(SubnetIds=[emr.describe(cluster)["Ec2InstanceAttributes"]["Ec2SubnetId"]])["Subnets"][0]
    assert subnet["DefaultForAz"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ReleaseLabel": "emr-5.8"}, "The supplied release label is invalid: emr-5.8."),
        ({"ReleaseLabel": "emr-5.6.0", "CustomAmiId": "ami-0123456789abcdef0"}, "Custom AMI is not allowed"),
        ({"JobFlowRole": "no-such"}, "Invalid InstanceProfile: no-such."),
        ({"JobFlowRole": "emr-empty"}, "Invalid InstanceProfile: emr-empty."),
        ({"EbsRootVolumeSize": 9}, "EbsRootVolumeSize must be at least 10 GiB"),
        ({"EbsRootVolumeSize": 14, "ReleaseLabel": "emr-7.9.0"}, "EbsRootVolumeSize must be at least 15 GiB"),
        ({"EbsRootVolumeSize": 101}, "EbsRootVolumeSize must be at least 10 GiB and at most 100 GiB"),
        ({"ReleaseLabel": "emr-7.9.0", "instances": {"InstanceGroups": [group("c5.large")]}}, "Instance type 'c5.large' is not supported"),
        ({"instances": {"InstanceGroups": [group("c5.xlarge")]}}, "Instance type 'c5.xlarge' is not supported"),
        ({"instances": {"AdditionalSlaveSecurityGroups": [f"sg-{number}" for number in range(5)]}}, "at most 4 security groups"),
        ({"Steps": [step("long", "a" * 5000, arguments=("b" * 5000, "c" * 241))]}, "HadoopJarStep exceed 10240 characters"),
        ({"AutoScalingRole": SERVICE_ROLE}, "The local cloud does not implement AutoScalingRole"),
        ({"BootstrapActions": bootstrap("file:///bin/true") * 17}, "Too many bootstrap actions"),
        ({"Steps": [step(str(number)) for number in range(257)]}, "Maximum number of active steps"),
        ({"core": 0, "task": 1}, "must have a CORE instance group"),
        ({"instances": {"EmrManagedMasterSecurityGroup": "sg-1"}}, "must be specified together"),
        ({"instances": {"InstanceGroups": []}}, "exactly one MASTER instance group"),
        ({"instances": {"UnhealthyNodeReplacement": True}}, "The local cloud does not implement UnhealthyNodeReplacement"),
        ({"Tags": [{"Key": "aws:team", "Value": "a"}]}, "Tag keys starting with 'aws:' are reserved"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_refused_at_once(emr: Emr, change: dict[str, Any], message: str) -> None:
    before = len(emr.client.list_clusters()["Clusters"])
    refused(lambda: emr.run(**{"core": 1, **change}), "ValidationException", message)
    assert len(emr.client.list_clusters()["Clusters"]) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ServiceRole": "no-such"}, "EMR service role arn:aws:iam::123456789012:role/no-such is invalid"),
        ({"ServiceRole": "emr-lambda"}, "EMR service role arn:aws:iam::123456789012:role/emr-lambda is invalid"),
        ({"instances": {"Ec2SubnetId": "subnet-00000000"}}, "The subnet ID 'subnet-00000000' does not exist"),
        ({"instances": {"Ec2KeyName": "no-such"}}, "The key pair 'no-such' does not exist"),
        ({"CustomAmiId": "ami-00000000000000000"}, "ami-00000000000000000"),
        ({"instances": {"AdditionalSlaveSecurityGroups": ["sg-00000000"]}}, "The security group 'sg-00000000' does not exist"),
        (
            {"instances": {"EmrManagedMasterSecurityGroup": "sg-00000001", "EmrManagedSlaveSecurityGroup": "sg-00000002"}},
            "sg-00000001",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_ends_a_cluster_that_starts(emr: Emr, change: dict[str, Any], message: str) -> None:
    cluster = emr.run(**change)
    reason = emr.reached(cluster, "TERMINATED_WITH_ERRORS")
    assert (reason["Code"], message in reason["Message"]) == ("VALIDATION_ERROR", True), reason


def test_no_capacity(emr: Emr, cloud: AwsApi, subnet: str) -> None:
    cloud.capacity.update({"c4.large": {"us-east-1a": 2}})
    cluster = emr.run(2, instances={"Ec2SubnetId": subnet})
    reason = emr.reached(cluster, "TERMINATED_WITH_ERRORS")
    assert "do not have sufficient c4.large capacity" in reason["Message"]
    assert len(emr.nodes(cluster, "MASTER", "TERMINATED")) == 1, "instances that were launched are terminated"


def test_bootstrap_actions_that_are_not_in_s3(emr: Emr, script: str, account: Account) -> None:
    cluster = emr.run(BootstrapActions=bootstrap(script) + bootstrap(f"{script}.missing"))
    reason = emr.reached(cluster, "TERMINATED_WITH_ERRORS")
    assert reason["Code"] == "BOOTSTRAP_FAILURE"
    assert "failed attempting to download bootstrap action 2 file from S3" in reason["Message"]

    cluster = emr.waiting(BootstrapActions=bootstrap(script))
    bucket, _slash, key = script.removeprefix("s3://").partition("/")
    account.client("s3").delete_object(Bucket=bucket, Key=key)
    emr.resize(cluster, "CORE", 2)
    wait_until(lambda: emr.groups(cluster)["CORE"]["Status"]["State"] == "ARRESTED")
    assert "Core instance" in emr.groups(cluster)["CORE"]["Status"]["StateChangeReason"]["Message"]
    assert (emr.state(cluster), len(emr.nodes(cluster, "CORE"))) == ("WAITING", 1)
    account.client("s3").put_object(Bucket=bucket, Key=key, Body=b"true")
    emr.resize(cluster, "CORE", 2)
    wait_until(lambda: len(emr.nodes(cluster, "CORE")) == 2)


def test_hosts_report_the_outcome_of_bootstrap_actions(emr: Emr, hosts: Hosts, script: str) -> None:
    hosts.sockets = Path("/nowhere")
    cluster = emr.run(1, BootstrapActions=bootstrap(script, "a", "b"), LogUri="s3://logs/emr", Applications=[{"Name": "Spark"}])
    emr.reached(cluster, "BOOTSTRAPPING")
    (master,), (core,) = (wait_until(lambda role=role: emr.nodes(cluster, role, "BOOTSTRAPPING")) for role in ("MASTER", "CORE"))
    task = Client(NodeTasks(core)).get("/_emr/node").json or {}
    assert task["bootstrap_actions"] == [{"path": script, "args": ["a", "b"]}]
    assert (task["log_uri"], task["applications"]) == (f"s3n://logs/emr/{cluster}/node/{core}/", ["hadoop", "spark"])
    assert (task["instance"]["isMaster"], task["job-flow"]["masterInstanceId"]) == (False, master)
    assert Client(NodeTasks("i-0123456789abcdef0")).get("/_emr/node").status_code == 404
    for node in (master, core):
        assert Client(NodeTasks(node)).post("/_emr/node", json={"failure": None}).status_code == 200
    emr.reached(cluster, "WAITING")

    emr.resize(cluster, "CORE", 2)
    (added,) = wait_until(lambda: emr.nodes(cluster, "CORE", "BOOTSTRAPPING"))
    Client(NodeTasks(added)).post("/_emr/node", json={"failure": {"action": 1, "reason": "timeout"}})
    wait_until(lambda: emr.groups(cluster)["CORE"]["Status"]["State"] == "ARRESTED")
    message = emr.groups(cluster)["CORE"]["Status"]["StateChangeReason"]["Message"]
    assert message == f"On 1 slave instance ({added}), bootstrap action 1 timed out executing"
    assert (emr.nodes(cluster, "CORE"), emr.state(cluster)) == ([core], "WAITING"), "the other nodes stay"


def test_nodes_that_are_lost(account: Account, emr: Emr) -> None:
    cluster = emr.waiting(2)
    lost, kept = emr.nodes(cluster, "CORE")
    account.ec2.terminate_instances(InstanceIds=[lost])
    wait_until(lambda: len(emr.nodes(cluster, "CORE")) == 2 and lost not in emr.nodes(cluster, "CORE"))
    assert kept in emr.nodes(cluster, "CORE")
    account.control.kill(emr.nodes(cluster, "MASTER")[0])
    reason = emr.reached(cluster, "TERMINATED_WITH_ERRORS")
    assert (reason["Code"], reason["Message"].startswith("The master failed: ")) == ("INSTANCE_FAILURE", True)


def test_resizing(emr: Emr, hosts: Hosts) -> None:
    hosts.boots.clear()
    cluster = emr.run(2)
    refused(lambda: emr.resize(cluster, "CORE", 3), "ValidationException", "only be modified when the job flow is running or waiting")
    hosts.boots.set()
    emr.reached(cluster, "WAITING")
    hosts.boots.clear()
    emr.resize(cluster, "CORE", 3)
    wait_until(lambda: len(emr.nodes(cluster, "CORE", "PROVISIONING")) == 1)
    assert emr.groups(cluster)["CORE"]["Status"]["State"] == "RESIZING"
    hosts.boots.set()
    wait_until(lambda: emr.groups(cluster)["CORE"]["Status"]["State"] == "RUNNING")
    victim, *others = emr.nodes(cluster, "CORE")
    emr.resize(cluster, "CORE", 2, ShrinkPolicy={"InstanceResizePolicy": {"InstancesToTerminate": [victim]}})
    wait_until(lambda: emr.groups(cluster)["CORE"]["Status"]["State"] == "RUNNING")
    assert emr.nodes(cluster, "CORE") == others

    task = {"InstanceRole": "TASK", "InstanceType": "m4.large", "InstanceCount": 1, "Name": "more"}
    (added,) = emr.client.add_instance_groups(JobFlowId=cluster, InstanceGroups=[task])["InstanceGroupIds"]
    wait_until(lambda: len(emr.nodes(cluster, "TASK")) == 1)
    assert emr.groups(cluster)["TASK"]["Id"] == added
    emr.resize(cluster, "TASK", 0)
    wait_until(lambda: emr.groups(cluster)["TASK"]["Status"]["State"] == "RUNNING")
    assert emr.nodes(cluster, "TASK") == []

    refused(
        lambda: emr.client.add_instance_groups(JobFlowId=cluster, InstanceGroups=[{**task, "InstanceType": "c5.xlarge"}]),
        "ValidationException",
        "Instance type 'c5.xlarge' is not supported",
    )
    refused(lambda: emr.resize(cluster, "CORE", 0), "ValidationException", "The CORE instance group cannot have 0 instances")
    refused(lambda: emr.resize(cluster, "MASTER", 1), "ValidationException", "The master instance group may not be modified")
    refused(
        lambda: emr.client.modify_instance_groups(InstanceGroups=[{"InstanceGroupId": "ig-none", "InstanceCount": 1}]),
        "InvalidRequestException",
        "Instance group id 'ig-none' is not valid",
    )
    core = {**task, "InstanceRole": "CORE"}
    refused(lambda: emr.client.add_instance_groups(JobFlowId=cluster, InstanceGroups=[core]), "ValidationException", "Only TASK")


def test_steps_run_one_after_the_other(emr: Emr) -> None:
    cluster = emr.run(Steps=[step("first")])
    emr.client.add_job_flow_steps(JobFlowId=cluster, Steps=[step("second"), step("third", "s3://no-such-bucket/a.jar")])
    assert list(step_states(emr, cluster)) == ["third", "second", "first"], "the newest step comes first"
    assert emr.reached(cluster, "WAITING") == {"Message": "Cluster ready after last step completed."}
    assert step_states(emr, cluster) == {"first": "COMPLETED", "second": "COMPLETED", "third": "FAILED"}
    found = {each["Name"]: each for each in emr.client.list_steps(ClusterId=cluster)["Steps"]}
    timelines = [found[name]["Status"]["Timeline"] for name in ("first", "second", "third")]
    assert all(before["EndDateTime"] <= after["StartDateTime"] for before, after in itertools.pairwise(timelines))
    assert found["first"]["Config"] == {"Jar": "command-runner.jar", "Properties": {}, "Args": ["true"]}
    described = emr.client.describe_step(ClusterId=cluster, StepId=found["third"]["Id"])["Step"]
    assert described["Status"]["FailureDetails"]["Message"] == "s3://no-such-bucket/a.jar does not exist"
    refused(lambda: emr.client.describe_step(ClusterId=cluster, StepId="s-none"), "InvalidRequestException", "s-none")

    missing = "s3://no-such-bucket/a.jar"
    emr.client.add_job_flow_steps(JobFlowId=cluster, Steps=[step("fourth", missing, "CANCEL_AND_WAIT"), step("fifth")])
    wait_until(lambda: step_states(emr, cluster)["fifth"] == "CANCELLED")
    emr.client.add_job_flow_steps(JobFlowId=cluster, Steps=[step("sixth", missing, "TERMINATE_CLUSTER"), step("seventh")])
    reason = emr.reached(cluster, "TERMINATED_WITH_ERRORS")
    assert (reason["Code"], step_states(emr, cluster)["seventh"]) == ("STEP_FAILURE", "CANCELLED")
    refused(lambda: emr.client.add_job_flow_steps(JobFlowId=cluster, Steps=[step("eighth")]), "ValidationException", OVER)


def test_protection_and_tags(account: Account, emr: Emr) -> None:
    cluster, other = emr.waiting(instances={"TerminationProtected": True}), emr.run()
    refused(
        lambda: emr.client.terminate_job_flows(JobFlowIds=[cluster, other]),
        "ValidationException",
        "Could not shut down one or more job flows since they are termination protected.",
    )
    emr.reached(other, "TERMINATED")
    assert emr.state(cluster) == "WAITING"
    (core,) = emr.nodes(cluster, "CORE")
    emr.client.add_tags(ResourceId=cluster, Tags=[{"Key": "a", "Value": "b"}, {"Key": "c"}])
    emr.client.remove_tags(ResourceId=cluster, TagKeys=["c"])
    assert emr.describe(cluster)["Tags"] == [{"Key": "a", "Value": "b"}]
    tags = {each["Key"] for each in account.instance(core)["Tags"]}
    assert ("a" in tags, "c" in tags, api_tag("job-flow-id") in tags) == (True, False, True)
    emr.client.set_termination_protection(JobFlowIds=[cluster], TerminationProtected=False)
    assert not emr.describe(cluster)["TerminationProtected"]
    emr.client.terminate_job_flows(JobFlowIds=[cluster])
    emr.reached(cluster, "TERMINATED")


def test_unknown_clusters(emr: Emr) -> None:
    client = emr.client
    for call in (client.describe_cluster, client.list_instances, client.list_steps, client.list_instance_groups):
        refused(lambda call=call: call(ClusterId="j-NONE"), "InvalidRequestException", "Cluster id 'j-NONE' is not valid.")
    refused(lambda: client.terminate_job_flows(JobFlowIds=["j-NONE"]), "ValidationException", "Specified job flow ID not valid")
    refused(lambda: client.list_clusters(Marker="j-NONE"), "InvalidRequestException", "Marker is not valid")


def test_pages(emr: Emr, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [emr.run(Name=f"page {number}") for number in range(5)]
    monkeypatch.setattr(api, "PAGE", 2)
    pages = [page["Clusters"] for page in emr.client.get_paginator("list_clusters").paginate()]
    found = [each["Id"] for page in pages for each in page]
    assert found[:5] == made[::-1], "newest first"
    assert {len(page) for page in pages[:-1]} == {2}
    assert found == list(dict.fromkeys(found))
    emr.client.terminate_job_flows(JobFlowIds=made[:2])
    listed = emr.client.get_paginator("list_clusters").paginate(ClusterStates=["STARTING", "BOOTSTRAPPING", "RUNNING", "WAITING"])
    ids = [each["Id"] for page in listed for each in page["Clusters"]]
    assert (set(made[2:]) <= set(ids), set(made[:2]) & set(ids)) == (True, set())


def test_supported_instance_types(emr: Emr) -> None:
    types, request = [], {"ReleaseLabel": "emr-7.9.0"}
    while True:
        page = emr.client.list_supported_instance_types(**request)
        types += [each["Type"] for each in page["SupportedInstanceTypes"]]
        if "Marker" not in page:
            break
        request["Marker"] = page["Marker"]
    assert len(types) == len(set(types)) > api.PAGE
    assert ("g5.2xlarge" in types, "c5.large" in types) == (True, False)
    refused(lambda: emr.client.list_supported_instance_types(ReleaseLabel="emr-1"), "InvalidRequestException", "emr-1")


def rules(account: Account, group: str) -> set[tuple[str, int, str]]:
    found = account.ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"]
    return {(rule["IpProtocol"], rule["FromPort"], pair["GroupId"]) for rule in found for pair in rule["UserIdGroupPairs"]}


def test_security_groups_that_emr_creates(account: Account, emr: Emr, subnet: str, public_subnet: str) -> None:
    found = {}
    for place in (subnet, public_subnet):
        attributes = [emr.describe(emr.waiting(instances={"Ec2SubnetId": place}))["Ec2InstanceAttributes"] for _ in range(2)]
        assert attributes[0] == attributes[1], "the second cluster uses the groups of the first"
        ids = [attributes[0].get(name) for name in ("EmrManagedMasterSecurityGroup", "EmrManagedSlaveSecurityGroup")]
        groups = account.ec2.describe_security_groups(GroupIds=ids)["SecurityGroups"]
        found[place] = ({each["GroupName"] for each in groups}, attributes[0].get("ServiceAccessSecurityGroup"), ids)
    names, service, (master, slave) = found[subnet]
    assert names == {"ElasticMapReduce-Master-Private", "ElasticMapReduce-Slave-Private"}
    assert {("tcp", 0, master), ("tcp", 0, slave), ("udp", 0, slave), ("icmp", -1, slave), ("tcp", 8443, service)} <= rules(account, master)
    assert rules(account, service) == {("tcp", 9443, master)}
    names, service, _ids = found[public_subnet]
    assert (names, service) == ({"ElasticMapReduce-master", "ElasticMapReduce-slave"}, None)


def test_security_groups_of_the_request(account: Account, emr: Emr, subnet: str) -> None:
    vpc = account.ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["VpcId"]
    groups = {
        name: account.ec2.create_security_group(GroupName=name, Description=name, VpcId=vpc)["GroupId"]
        for name in ("master", "slave", "service", "more")
    }
    managed = {"EmrManagedMasterSecurityGroup": groups["master"], "EmrManagedSlaveSecurityGroup": groups["slave"]}
    cluster = emr.run(instances={"Ec2SubnetId": subnet, **managed})
    assert "You must also specify a ServiceAccessSecurityGroup" in emr.reached(cluster, "TERMINATED_WITH_ERRORS")["Message"]
    cluster = emr.waiting(
        instances={
            "Ec2SubnetId": subnet,
            **managed,
            "ServiceAccessSecurityGroup": groups["service"],
            "AdditionalMasterSecurityGroups": [groups["more"]],
        }
    )
    assert ("tcp", 8443, groups["service"]) in rules(account, groups["slave"])
    assert rules(account, groups["service"]) == set(), "EMR does not change a service access security group that a request names"
    used = {
        role: {each["GroupId"] for each in account.instance(emr.nodes(cluster, role)[0])["SecurityGroups"]} for role in ("MASTER", "CORE")
    }
    assert used == {"MASTER": {groups["master"], groups["more"]}, "CORE": {groups["slave"]}}


def test_a_service_group_of_the_request_lets_the_master_in(account: Account, emr: Emr, subnet: str) -> None:
    """Since release 5.30.0, the service access security group must allow traffic from the master.

    EMR adds this rule only to groups that it creates.
    """
    vpc = account.ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["VpcId"]
    master, slave, service = (
        account.ec2.create_security_group(GroupName=name, Description=name, VpcId=vpc)["GroupId"] for name in ("master", "slave", "service")
    )
    managed = {"EmrManagedMasterSecurityGroup": master, "EmrManagedSlaveSecurityGroup": slave, "ServiceAccessSecurityGroup": service}
    groups = [group("c5.xlarge"), group("c5.xlarge", "CORE")]
    request = {"instances": {"Ec2SubnetId": subnet, "InstanceGroups": groups, **managed}, "ReleaseLabel": "emr-5.30.0"}
    reason = emr.reached(emr.run(**request), "TERMINATED_WITH_ERRORS")
    message = "ServiceAccessSecurityGroup is missing ingress rule from EmrManagedMasterSecurityGroup on port 9443"
    assert reason == {"Code": "VALIDATION_ERROR", "Message": message}
    from_master = {"UserIdGroupPairs": [{"GroupId": master}], "IpProtocol": "tcp", "FromPort": 9443, "ToPort": 9443}
    account.ec2.authorize_security_group_ingress(GroupId=service, IpPermissions=[from_master])
    emr.waiting(**request)


def test_public_access_is_blocked(account: Account, emr: Emr, public_subnet: str) -> None:
    vpc = account.ec2.describe_subnets(SubnetIds=[public_subnet])["Subnets"][0]["VpcId"]
    opened = account.ec2.create_security_group(GroupName="opened", Description="opened", VpcId=vpc)["GroupId"]
    request = {"instances": {"Ec2SubnetId": public_subnet, "AdditionalMasterSecurityGroups": [opened]}}

    def open_port(port: int) -> None:
        ranges = {"IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
        rule = {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, **ranges}
        account.ec2.authorize_security_group_ingress(GroupId=opened, IpPermissions=[rule])

    open_port(22)
    emr.waiting(**request)
    open_port(8888)
    assert f"rules of the security group {opened}" in emr.reached(emr.run(**request), "TERMINATED_WITH_ERRORS")["Message"]
    default = emr.client.get_block_public_access_configuration()["BlockPublicAccessConfiguration"]
    permitted = [*default["PermittedPublicSecurityGroupRuleRanges"], {"MinRange": 8000, "MaxRange": 9000}]
    for changed in ({"PermittedPublicSecurityGroupRuleRanges": permitted}, {"BlockPublicSecurityGroupRules": False}):
        emr.client.put_block_public_access_configuration(BlockPublicAccessConfiguration={**default, **changed})
        emr.waiting(**request)
    emr.client.put_block_public_access_configuration(BlockPublicAccessConfiguration=default)


def test_a_scoped_service_role_needs_tags(account: Account, emr: Emr, subnet: str) -> None:
    """The AWS managed policy allows EMR to use only resources with the tag `for-use-with-amazon-emr-managed-policies`."""
    iam, name = account.client("iam"), account.name("role")
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust("elasticmapreduce"))
    iam.attach_role_policy(RoleName=name, PolicyArn="arn:aws:iam::aws:policy/service-role/AmazonEMRServicePolicy_v2")
    tags = [{"Key": "for-use-with-amazon-emr-managed-policies", "Value": "true"}]
    vpc = account.ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["VpcId"]
    request = {"instances": {"Ec2SubnetId": subnet}, "ServiceRole": name}
    for missing in ({}, {"Tags": tags}):
        reason = emr.reached(emr.run(**request, **missing), "TERMINATED_WITH_ERRORS")
        assert reason["Message"] == f"Service role {name} has insufficient EC2 permissions."
    account.ec2.create_tags(Resources=[subnet, vpc], Tags=tags)
    emr.waiting(**request, Tags=tags)
    reason = emr.reached(emr.run(**request), "TERMINATED_WITH_ERRORS")
    assert "insufficient EC2 permissions" in reason["Message"], "the cluster needs the tag as well"


def test_core_nodes_stay_as_long_as_blocks_need_them(emr: Emr) -> None:
    """A cluster that starts with four core nodes keeps two copies of each block."""
    cluster = emr.waiting(4)
    emr.resize(cluster, "CORE", 1)
    wait_until(lambda: len(emr.nodes(cluster, "CORE")) == 2)
    core = emr.groups(cluster)["CORE"]
    assert (core["RequestedInstanceCount"], core["RunningInstanceCount"], core["Status"]["State"]) == (1, 2, "RESIZING")
    emr.resize(cluster, "CORE", 2)
    wait_until(lambda: emr.groups(cluster)["CORE"]["Status"]["State"] == "RUNNING")


def test_permissions_depend_on_tags_and_roles(account: Account, emr: Emr) -> None:
    own = {"StringEquals": {"aws:ResourceTag/team": "speech"}}
    new = {"StringEquals": {"aws:RequestTag/team": "speech"}}
    statements = [
        {"Effect": "Allow", "Action": ["elasticmapreduce:RunJobFlow", "elasticmapreduce:AddTags"], "Resource": "*", "Condition": new},
        {"Effect": "Allow", "Action": ["elasticmapreduce:ModifyInstanceGroups", "elasticmapreduce:TerminateJobFlows"], "Resource": "*"}
        | {"Condition": own},
        {"Effect": "Allow", "Action": ["elasticmapreduce:ListClusters", "elasticmapreduce:ListInstanceGroups"], "Resource": "*"},
        {"Effect": "Allow", "Action": "iam:CreateServiceLinkedRole", "Resource": "*"},
        {"Effect": "Allow", "Action": "iam:PassRole", "Resource": f"arn:aws:iam::*:role/{SERVICE_ROLE}"},
        {"Effect": "Allow", "Action": "iam:PassRole", "Resource": f"arn:aws:iam::*:role/{PROFILE}"}
        | {"Condition": {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}},
    ]
    operator = Emr(account.user(*statements))
    tags = [{"Key": "team", "Value": "speech"}]
    theirs, own_cluster = emr.waiting(), operator.run(Tags=tags)
    emr.reached(own_cluster, "WAITING")
    operator.resize(own_cluster, "CORE", 2)
    operator.client.terminate_job_flows(JobFlowIds=[own_cluster])
    for denied in (
        lambda: operator.run(Tags=[{"Key": "team", "Value": "vision"}]),
        lambda: operator.run(Tags=tags, JobFlowRole=PROFILE, ServiceRole=PROFILE),
        lambda: operator.resize(theirs, "CORE", 2),
        lambda: operator.client.terminate_job_flows(JobFlowIds=[theirs]),
        lambda: operator.describe(theirs),
        lambda: operator.client.remove_tags(ResourceId=theirs, TagKeys=["a"]),
    ):
        refused(denied, "AccessDeniedException", "is not authorized to perform")
    assert operator.client.list_clusters()["Clusters"]


def test_new_roles_are_visible_late(account: Account, emr: Emr) -> None:
    """EMR refuses a new instance profile, but starts a cluster with a new service role, and terminates it later."""
    account.control.set_delays(instance_profile=600)
    refused(emr.run, "ValidationException", "InstanceProfile")
    account.control.set_delays(instance_profile=0, emr_service_role=600)
    reason = emr.reached(emr.run(), "TERMINATED_WITH_ERRORS")
    assert (reason["Code"], "has insufficient EC2 permissions" in reason["Message"]) == ("VALIDATION_ERROR", True)


def test_the_waiters_of_the_sdk(emr: Emr) -> None:
    cluster = emr.run()
    wait(emr.client, "cluster_running", ClusterId=cluster)
    jar = {"Jar": "command-runner.jar", "Args": ["true"]}
    (step,) = emr.client.add_job_flow_steps(JobFlowId=cluster, Steps=[{"Name": "a", "HadoopJarStep": jar}])["StepIds"]
    wait(emr.client, "step_complete", ClusterId=cluster, StepId=step)
    emr.client.terminate_job_flows(JobFlowIds=[cluster])
    wait(emr.client, "cluster_terminated", ClusterId=cluster)


def test_a_snapshot_contains_clusters(cloud: AwsApi, emr: Emr, tmp_path: Path) -> None:
    cluster = emr.waiting(2)
    persistence.save(tmp_path / "state")
    before = emr.nodes(cluster, "CORE")
    emr.client.terminate_job_flows(JobFlowIds=[cluster])
    persistence.load(tmp_path / "state")
    assert (emr.state(cluster), emr.nodes(cluster, "CORE")) == ("WAITING", before)
    emr.client.terminate_job_flows(JobFlowIds=[cluster])


def test_actions_without_an_implementation(emr: Emr) -> None:
    refused(lambda: emr.client.describe_job_flows(), "InvalidAction")
    refused(lambda: emr.client.modify_cluster(ClusterId="j-NONE", StepConcurrencyLevel=2), "InvalidAction")
