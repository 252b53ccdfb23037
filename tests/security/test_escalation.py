"""An operator who has a playbook's policies for one cluster tries to gain more permissions, or to access other people's resources."""

from __future__ import annotations

import functools
import json
from types import SimpleNamespace

import boto3
import permissions
import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import iam_playbook_actions
from botocore.exceptions import ClientError
from local_cloud.aws.context import ACCOUNT
from local_cloud.testing import wait_until

REGION = "us-east-1"
MINE, THEIRS = "bert", "gpt"
DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
EVERYTHING = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]})
ANYBODY = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}]})
FILE_SYSTEM_POLICY = ANYBODY.replace("sts:AssumeRole", "elasticfilesystem:ClientMount")
EC2 = ANYBODY.replace('{"AWS": "*"}', '{"Service": "ec2.amazonaws.com"}')
ADMINISTRATOR = "arn:aws:iam::aws:policy/AdministratorAccess"
NODES = "nodes-us-east-1"
# The role of a cluster of an earlier release. Its name also matches the pattern for the roles of the operator's cluster.
SIMILAR_ROLE = f"{MINE}-nodes-gpt-{NODES}"


def tags(cluster):
    return [{"Key": "deeplearning:cluster", "Value": cluster}]


def tagged(cluster, *kinds):
    return [{"ResourceType": kind, "Tags": tags(cluster)} for kind in kinds]


def launched(template, **more):
    return {"LaunchTemplate": {"LaunchTemplateId": template}, "MinCount": 1, "MaxCount": 1, **more}


def emr_request(cluster, **more):
    """Return a request for an EMR cluster of one node with the default roles."""
    group = {"InstanceRole": "MASTER", "InstanceType": "c5.xlarge", "InstanceCount": 1}
    return {
        "Name": cluster,
        "ReleaseLabel": "emr-7.9.0",
        "ServiceRole": "EMR_DefaultRole",
        "JobFlowRole": "EMR_EC2_DefaultRole",
        "Instances": {"InstanceGroups": [group], "KeepJobFlowAliveWhenNoSteps": True},
        "Tags": tags(cluster),
        **more,
    }


def made(cloud, cluster, network):
    """Create the resources of a cluster as the administrator. Most of the resources have tags that name their cluster."""
    ec2, iam, efs, ssm = (cloud.client(service) for service in ("ec2", "iam", "efs", "ssm"))
    new = SimpleNamespace(cluster=cluster, network=network)
    new.vpc = ec2.create_vpc(CidrBlock=network, TagSpecifications=tagged(cluster, "vpc"))["Vpc"]["VpcId"]
    cidr = network.replace("/16", "/24")
    new.subnet = ec2.create_subnet(
        VpcId=new.vpc, CidrBlock=cidr, AvailabilityZone=f"{REGION}a", TagSpecifications=tagged(cluster, "subnet")
    )["Subnet"]["SubnetId"]
    new.group = ec2.create_security_group(
        GroupName=cluster, Description="nodes", VpcId=new.vpc, TagSpecifications=tagged(cluster, "security-group")
    )["GroupId"]
    new.routes = ec2.create_route_table(VpcId=new.vpc, TagSpecifications=tagged(cluster, "route-table"))["RouteTable"]["RouteTableId"]
    new.role = f"{cluster}-{NODES}"
    iam.create_role(RoleName=new.role, Path="/deeplearning/", AssumeRolePolicyDocument=EC2, Tags=tags(cluster))
    iam.create_instance_profile(InstanceProfileName=new.role, Path="/deeplearning/", Tags=tags(cluster))
    iam.add_role_to_instance_profile(InstanceProfileName=new.role, RoleName=new.role)
    new.image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    data = {
        "ImageId": new.image,
        "InstanceType": "c5.large",
        "SecurityGroupIds": [new.group],
        "IamInstanceProfile": {"Name": new.role},
        "TagSpecifications": tagged(cluster, "instance", "volume"),
    }
    new.template = ec2.create_launch_template(
        LaunchTemplateName=cluster, LaunchTemplateData=data, TagSpecifications=tagged(cluster, "launch-template")
    )["LaunchTemplate"]["LaunchTemplateId"]
    (instance,) = ec2.run_instances(**launched(new.template, SubnetId=new.subnet))["Instances"]
    new.instance, new.interface = instance["InstanceId"], instance["NetworkInterfaces"][0]["NetworkInterfaceId"]
    new.address = ec2.allocate_address(Domain="vpc", TagSpecifications=tagged(cluster, "elastic-ip"))["AllocationId"]
    new.scaling = f"{cluster}-workers"
    cloud.client("autoscaling").create_auto_scaling_group(
        AutoScalingGroupName=new.scaling,
        LaunchTemplate={"LaunchTemplateId": new.template},
        MinSize=0,
        MaxSize=0,
        VPCZoneIdentifier=new.subnet,
        Tags=[{**tag, "ResourceId": new.scaling, "ResourceType": "auto-scaling-group", "PropagateAtLaunch": True} for tag in tags(cluster)],
    )
    new.file_system = efs.create_file_system(CreationToken=cluster, Tags=tags(cluster))["FileSystemId"]
    wait_until(lambda: efs.describe_file_systems(FileSystemId=new.file_system)["FileSystems"][0]["LifeCycleState"] == "available")
    new.point = efs.create_access_point(FileSystemId=new.file_system, Tags=tags(cluster))["AccessPointId"]
    new.authority = f"/deeplearning/{cluster}/ssh-authority"
    ssm.put_parameter(Name=new.authority, Value="secret", Type="SecureString", Tags=tags(cluster))
    new.record = f"/deeplearning/{cluster}/emr-cluster"
    ssm.put_parameter(Name=new.record, Value="j-1", Type="String")
    new.bucket = f"{cluster}-data"
    cloud.client("s3").create_bucket(Bucket=new.bucket)
    emr = cloud.client("emr")
    new.emr = emr.run_job_flow(**emr_request(cluster))["JobFlowId"]
    new.untagged_emr = emr.run_job_flow(**emr_request(cluster, Tags=[]))["JobFlowId"]
    new.marked_emr = emr.run_job_flow(**emr_request(cluster, Tags=tags("none")))["JobFlowId"]
    return new


@pytest.fixture(scope="module")
def account(cloud):
    """An account with resources that belong to the operator's cluster, to another cluster, and to no cluster."""
    cloud.control.set_delays(instance_profile=0, emr_service_role=0)
    iam = cloud.client("iam")
    iam.create_role(RoleName="administrators", AssumeRolePolicyDocument=EC2)
    iam.create_instance_profile(InstanceProfileName="administrators")
    iam.add_role_to_instance_profile(InstanceProfileName="administrators", RoleName="administrators")
    iam.create_role(RoleName="EMR_DefaultRole", AssumeRolePolicyDocument=EC2.replace("ec2.", "elasticmapreduce."))
    iam.create_role(RoleName="EMR_EC2_DefaultRole", AssumeRolePolicyDocument=EC2)
    iam.create_instance_profile(InstanceProfileName="EMR_EC2_DefaultRole")
    iam.add_role_to_instance_profile(InstanceProfileName="EMR_EC2_DefaultRole", RoleName="EMR_EC2_DefaultRole")
    iam.create_role(RoleName=SIMILAR_ROLE, Path="/deeplearning/", AssumeRolePolicyDocument=EC2, Tags=tags(f"{MINE}-nodes-gpt"))
    iam.create_user(UserName="root-in-name")
    iam.create_group(GroupName="administrators")
    return SimpleNamespace(mine=made(cloud, MINE, "10.1.0.0/16"), theirs=made(cloud, THEIRS, "10.2.0.0/16"))


@pytest.fixture(scope="module")
def call(cloud):
    """Call AWS as an operator who has only one playbook's policies."""
    environment = functools.cache(lambda playbook: permissions.operator(cloud, playbook, MINE))

    session = boto3.Session(region_name=REGION)

    @functools.cache
    def client(playbook, service):
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        keys = {name.lower(): environment(playbook)[name] for name in names}
        return session.client(service, endpoint_url=cloud.endpoint, **keys)

    return lambda playbook, service, method, **parameters: getattr(client(playbook, service), method)(**parameters)


def denied(call, playbook, service, method, parameters):
    """Return whether the policies deny a call. Fails if the local cloud does not know which permissions AWS requires."""
    try:
        call(playbook, service, method, **parameters)
    except ClientError as error:
        answer = error.response["Error"]
    else:
        return False
    assert "does not know what AWS asks" not in answer["Message"]
    return answer["Code"] in DENIED


def own_user(playbook):
    return f"{MINE}-{playbook}"


def own_policy(playbook):
    return f"arn:aws:iam::{ACCOUNT}:policy/{own_user(playbook)}-1"


def group_from(name, template, subnet, cluster=MINE):
    return {
        "AutoScalingGroupName": name,
        "LaunchTemplate": {"LaunchTemplateId": template, "Version": "1"},
        "MinSize": 0,
        "MaxSize": 1,
        "VPCZoneIdentifier": subnet,
        "Tags": [{**tag, "ResourceId": name, "ResourceType": "auto-scaling-group", "PropagateAtLaunch": True} for tag in tags(cluster)],
    }


# By name: service, method, and a function that returns the parameters, given the operator's resources, others' resources and the playbook
ATTACKS = {
    # More permissions for the operator
    "a new version of one's own policy": (
        "iam",
        "create_policy_version",
        lambda mine, theirs, who: {"PolicyArn": own_policy(who), "PolicyDocument": EVERYTHING, "SetAsDefault": True},
    ),
    "an old version of one's own policy": (
        "iam",
        "set_default_policy_version",
        lambda mine, theirs, who: {"PolicyArn": own_policy(who), "VersionId": "v1"},
    ),
    "another policy for oneself": (
        "iam",
        "attach_user_policy",
        lambda mine, theirs, who: {"UserName": own_user(who), "PolicyArn": ADMINISTRATOR},
    ),
    "an inline policy for oneself": (
        "iam",
        "put_user_policy",
        lambda mine, theirs, who: {"UserName": own_user(who), "PolicyName": "more", "PolicyDocument": EVERYTHING},
    ),
    "oneself in a group": (
        "iam",
        "add_user_to_group",
        lambda mine, theirs, who: {"UserName": own_user(who), "GroupName": "administrators"},
    ),
    "a policy of a group": ("iam", "attach_group_policy", lambda *_: {"GroupName": "administrators", "PolicyArn": ADMINISTRATOR}),
    "an access key of another user": ("iam", "create_access_key", lambda *_: {"UserName": "root-in-name"}),
    "a password of another user": ("iam", "create_login_profile", lambda *_: {"UserName": "root-in-name", "Password": "Passw0rd!longer"}),
    "a new user": ("iam", "create_user", lambda *_: {"UserName": "another"}),
    # Other people's roles, and misuse of the nodes' roles
    "whom another role trusts": (
        "iam",
        "update_assume_role_policy",
        lambda *_: {"RoleName": "administrators", "PolicyDocument": ANYBODY},
    ),
    "whom one's own nodes trust": (
        "iam",
        "update_assume_role_policy",
        lambda mine, *_: {"RoleName": mine.role, "PolicyDocument": ANYBODY},
    ),
    "a policy of another role": (
        "iam",
        "put_role_policy",
        lambda *_: {"RoleName": "administrators", "PolicyName": "more", "PolicyDocument": EVERYTHING},
    ),
    "a policy of another cluster's nodes": (
        "iam",
        "put_role_policy",
        lambda mine, theirs, _who: {"RoleName": theirs.role, "PolicyName": "more", "PolicyDocument": EVERYTHING},
    ),
    "a managed policy of another role": (
        "iam",
        "attach_role_policy",
        lambda *_: {"RoleName": "administrators", "PolicyArn": ADMINISTRATOR},
    ),
    "a managed policy of one's own nodes": (
        "iam",
        "attach_role_policy",
        lambda mine, *_: {"RoleName": mine.role, "PolicyArn": ADMINISTRATOR},
    ),
    "one's tag on another role": ("iam", "tag_role", lambda *_: {"RoleName": "administrators", "Tags": tags(MINE)}),
    "one's tag on another cluster's nodes": (
        "iam",
        "tag_role",
        lambda mine, theirs, _who: {"RoleName": theirs.role, "Tags": tags(MINE)},
    ),
    "one's tag on the role of a similar name": ("iam", "tag_role", lambda *_: {"RoleName": SIMILAR_ROLE, "Tags": tags(MINE)}),
    "a role of another name": (
        "iam",
        "create_role",
        lambda *_: {"RoleName": "mine-now", "Path": "/", "AssumeRolePolicyDocument": ANYBODY, "Tags": tags(MINE)},
    ),
    "a role without a boundary of its own": ("iam", "delete_role_permissions_boundary", lambda mine, *_: {"RoleName": mine.role}),
    "another role in one's own profile": (
        "iam",
        "add_role_to_instance_profile",
        lambda mine, *_: {"InstanceProfileName": mine.role, "RoleName": "administrators"},
    ),
    "the end of another cluster's role": ("iam", "delete_role", lambda mine, theirs, _who: {"RoleName": theirs.role}),
    "to be another role": (
        "sts",
        "assume_role",
        lambda *_: {"RoleArn": f"arn:aws:iam::{ACCOUNT}:role/administrators", "RoleSessionName": "me"},
    ),
    # Instances
    "an instance without a template": (
        "ec2",
        "run_instances",
        lambda mine, *_: {
            "ImageId": mine.image,
            "InstanceType": "c5.large",
            "MinCount": 1,
            "MaxCount": 1,
            "SubnetId": mine.subnet,
            "TagSpecifications": tagged(MINE, "instance"),
        },
    ),
    "an instance with another role": (
        "ec2",
        "run_instances",
        lambda mine, *_: launched(mine.template, SubnetId=mine.subnet, IamInstanceProfile={"Name": "administrators"}),
    ),
    "an instance in another security group": (
        "ec2",
        "run_instances",
        lambda mine, theirs, _who: launched(mine.template, SubnetId=mine.subnet, SecurityGroupIds=[theirs.group]),
    ),
    "an instance from another cluster's template": (
        "ec2",
        "run_instances",
        lambda mine, theirs, _who: launched(theirs.template, SubnetId=theirs.subnet),
    ),
    "an instance with another cluster's tag": (
        "ec2",
        "run_instances",
        lambda mine, *_: launched(mine.template, SubnetId=mine.subnet, TagSpecifications=tagged(THEIRS, "instance")),
    ),
    "another role for an instance that runs": (
        "ec2",
        "associate_iam_instance_profile",
        lambda mine, *_: {"InstanceId": mine.instance, "IamInstanceProfile": {"Name": "administrators"}},
    ),
    "a group from another cluster's template": (
        "autoscaling",
        "create_auto_scaling_group",
        lambda mine, theirs, _who: group_from(f"{MINE}-master", theirs.template, theirs.subnet),
    ),
    "a group with another cluster's name": (
        "autoscaling",
        "create_auto_scaling_group",
        lambda mine, *_: group_from(f"{THEIRS}-master", mine.template, mine.subnet),
    ),
    "a group with another cluster's tag": (
        "autoscaling",
        "create_auto_scaling_group",
        lambda mine, *_: group_from(f"{MINE}-master", mine.template, mine.subnet, THEIRS),
    ),
    "one's own group with another cluster's template": (
        "autoscaling",
        "update_auto_scaling_group",
        lambda mine, theirs, _who: {
            "AutoScalingGroupName": mine.scaling,
            "LaunchTemplate": {"LaunchTemplateId": theirs.template, "Version": "1"},
        },
    ),
    "one's tag on another instance": (
        "ec2",
        "create_tags",
        lambda mine, theirs, _who: {"Resources": [theirs.instance], "Tags": tags(MINE)},
    ),
    "one's tag on one's own and another instance": (
        "ec2",
        "create_tags",
        lambda mine, theirs, _who: {"Resources": [mine.instance, theirs.instance], "Tags": tags(MINE)},
    ),
    "another instance without its tags": (
        "ec2",
        "delete_tags",
        lambda mine, theirs, _who: {"Resources": [theirs.instance], "Tags": tags(THEIRS)},
    ),
    "user data of another instance": (
        "ec2",
        "modify_instance_attribute",
        lambda mine, theirs, _who: {"InstanceId": theirs.instance, "UserData": {"Value": b"#!/bin/sh"}},
    ),
    "the console of another instance": ("ec2", "get_console_output", lambda mine, theirs, _who: {"InstanceId": theirs.instance}),
    "the end of another instance": ("ec2", "terminate_instances", lambda mine, theirs, _who: {"InstanceIds": [theirs.instance]}),
    # Network
    "groups of another interface": (
        "ec2",
        "modify_network_interface_attribute",
        lambda mine, theirs, _who: {"NetworkInterfaceId": theirs.interface, "Groups": [mine.group]},
    ),
    "an address for another instance": (
        "ec2",
        "associate_address",
        lambda mine, theirs, _who: {"AllocationId": mine.address, "InstanceId": theirs.instance},
    ),
    "another cluster's address": (
        "ec2",
        "associate_address",
        lambda mine, theirs, _who: {"AllocationId": theirs.address, "InstanceId": mine.instance, "AllowReassociation": True},
    ),
    "the end of another address": ("ec2", "release_address", lambda mine, theirs, _who: {"AllocationId": theirs.address}),
    "another group that is open": (
        "ec2",
        "authorize_security_group_ingress",
        lambda mine, theirs, _who: {
            "GroupId": theirs.group,
            "IpPermissions": [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}],
        },
    ),
    "an endpoint in another network": (
        "ec2",
        "create_vpc_endpoint",
        lambda mine, theirs, _who: {
            "VpcId": theirs.vpc,
            "ServiceName": f"com.amazonaws.{REGION}.s3",
            "RouteTableIds": [theirs.routes],
            "TagSpecifications": tagged(MINE, "vpc-endpoint"),
        },
    ),
    "a gateway with another address": (
        "ec2",
        "create_nat_gateway",
        lambda mine, theirs, _who: {
            "SubnetId": mine.subnet,
            "AllocationId": theirs.address,
            "TagSpecifications": tagged(MINE, "natgateway"),
        },
    ),
    # Runs for another cluster would use resources that have that cluster's tag
    "one's own security group as another cluster's": (
        "ec2",
        "create_tags",
        lambda mine, *_: {"Resources": [mine.group], "Tags": tags(THEIRS)},
    ),
    "one's own Auto Scaling group as another cluster's": (
        "autoscaling",
        "create_or_update_tags",
        lambda mine, *_: {"Tags": group_from(mine.scaling, "", "", THEIRS)["Tags"]},
    ),
    "one's own file system as another cluster's": (
        "efs",
        "tag_resource",
        lambda mine, *_: {"ResourceId": mine.file_system, "Tags": tags(THEIRS)},
    ),
    "the end of another network": ("ec2", "delete_vpc", lambda mine, theirs, _who: {"VpcId": theirs.vpc}),
    "another template": (
        "ec2",
        "create_launch_template_version",
        lambda mine, theirs, _who: {
            "LaunchTemplateId": theirs.template,
            "SourceVersion": "1",
            "LaunchTemplateData": {"UserData": "IyEvYmluL3No"},
        },
    ),
    "the end of another template": ("ec2", "delete_launch_template", lambda mine, theirs, _who: {"LaunchTemplateId": theirs.template}),
    "the end of another group": (
        "autoscaling",
        "delete_auto_scaling_group",
        lambda mine, theirs, _who: {"AutoScalingGroupName": theirs.scaling, "ForceDelete": True},
    ),
    "one's tag on another group": (
        "autoscaling",
        "create_or_update_tags",
        lambda mine, theirs, _who: {"Tags": group_from(theirs.scaling, "", "")["Tags"]},
    ),
    # Data
    "a way into another file system": (
        "efs",
        "create_mount_target",
        lambda mine, theirs, _who: {"FileSystemId": theirs.file_system, "SubnetId": mine.subnet, "SecurityGroups": [mine.group]},
    ),
    "one's tag on another file system": (
        "efs",
        "tag_resource",
        lambda mine, theirs, _who: {"ResourceId": theirs.file_system, "Tags": tags(MINE)},
    ),
    "a policy of another file system": (
        "efs",
        "put_file_system_policy",
        lambda mine, theirs, _who: {"FileSystemId": theirs.file_system, "Policy": FILE_SYSTEM_POLICY},
    ),
    "the end of another file system's policy": (
        "efs",
        "delete_file_system_policy",
        lambda mine, theirs, _who: {"FileSystemId": theirs.file_system},
    ),
    "a door into another file system": (
        "efs",
        "create_access_point",
        lambda mine, theirs, _who: {"FileSystemId": theirs.file_system, "Tags": tags(MINE)},
    ),
    "the end of another access point": ("efs", "delete_access_point", lambda mine, theirs, _who: {"AccessPointId": theirs.point}),
    "the end of another file system": ("efs", "delete_file_system", lambda mine, theirs, _who: {"FileSystemId": theirs.file_system}),
    "a policy of another bucket": (
        "s3",
        "put_bucket_policy",
        lambda mine, theirs, _who: {
            "Bucket": theirs.bucket,
            "Policy": EVERYTHING.replace('"Action"', f'"Principal": "*", "Resource": "arn:aws:s3:::{theirs.bucket}", "Action"', 1),
        },
    ),
    "files of another bucket": ("s3", "get_object", lambda mine, theirs, _who: {"Bucket": theirs.bucket, "Key": "file"}),
    "a file in another bucket": ("s3", "put_object", lambda mine, theirs, _who: {"Bucket": theirs.bucket, "Key": "file", "Body": b""}),
    # Ways to log in
    "another cluster's authority": ("ssm", "get_parameter", lambda mine, theirs, _who: {"Name": theirs.authority, "WithDecryption": True}),
    "another cluster's authority, one of many": (
        "ssm",
        "get_parameters",
        lambda mine, theirs, _who: {"Names": [mine.authority, theirs.authority], "WithDecryption": True},
    ),
    "all authorities": ("ssm", "get_parameters_by_path", lambda *_: {"Path": "/deeplearning", "Recursive": True, "WithDecryption": True}),
    "one's authority in another cluster": (
        "ssm",
        "put_parameter",
        lambda mine, theirs, _who: {"Name": theirs.authority, "Value": "mine", "Overwrite": True},
    ),
    "a shell on one's own node": ("ssm", "start_session", lambda mine, *_: {"Target": mine.instance}),
    "a shell's document": (
        "ssm",
        "start_session",
        lambda mine, *_: {"Target": mine.instance, "DocumentName": "SSM-SessionManagerRunShell"},
    ),
    "a session on another instance": (
        "ssm",
        "start_session",
        lambda mine, theirs, _who: {"Target": theirs.instance, "DocumentName": "AWS-StartSSHSession"},
    ),
    # EMR clusters
    "an EMR cluster with another's tag": ("emr", "run_job_flow", lambda *_: emr_request(THEIRS)),
    "an EMR cluster without a tag": ("emr", "run_job_flow", lambda *_: emr_request(MINE, Tags=[])),
    "an EMR cluster with the role of administrators": ("emr", "run_job_flow", lambda *_: emr_request(MINE, JobFlowRole="administrators")),
    "an EMR cluster whose service is an administrator": ("emr", "run_job_flow", lambda *_: emr_request(MINE, ServiceRole="administrators")),
    "one's tag on another EMR cluster": ("emr", "add_tags", lambda mine, theirs, _who: {"ResourceId": theirs.emr, "Tags": tags(MINE)}),
    "a step on another EMR cluster": (
        "emr",
        "add_job_flow_steps",
        lambda mine, theirs, _who: {"JobFlowId": theirs.emr, "Steps": [{"Name": "a", "HadoopJarStep": {"Jar": "command-runner.jar"}}]},
    ),
    "another's tag on one's own EMR cluster": ("emr", "add_tags", lambda mine, *_: {"ResourceId": mine.emr, "Tags": tags(THEIRS)}),
    "one's own EMR cluster without its tag": (
        "emr",
        "remove_tags",
        lambda mine, *_: {"ResourceId": mine.emr, "TagKeys": ["purpose", "deeplearning:cluster"]},
    ),
    "one's tag on an EMR cluster that is marked as nobody's": (
        "emr",
        "add_tags",
        lambda mine, theirs, _who: {"ResourceId": theirs.marked_emr, "Tags": tags(MINE)},
    ),
    "the end of another EMR cluster": ("emr", "terminate_job_flows", lambda mine, theirs, _who: {"JobFlowIds": [theirs.emr]}),
    "the record of another EMR cluster": (
        "ssm",
        "put_parameter",
        lambda mine, theirs, _who: {"Name": theirs.record, "Value": mine.emr, "Overwrite": True},
    ),
    "the end of the record of another EMR cluster": ("ssm", "delete_parameter", lambda mine, theirs, _who: {"Name": theirs.record}),
    "the end of another cluster's lease": (
        "scheduler",
        "delete_schedule",
        lambda *_: {"GroupName": f"{THEIRS}-nodes-lease", "Name": "workers"},
    ),
    "the lease of another cluster": ("scheduler", "delete_schedule_group", lambda *_: {"Name": f"{THEIRS}-nodes-lease"}),
    "the default role of EMR": (
        "iam",
        "attach_role_policy",
        lambda *_: {"RoleName": "EMR_DefaultRole", "PolicyArn": ADMINISTRATOR},
    ),
}
POLICIES = tuple(iam_playbook_actions.playbooks())


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_policy_leads_beyond_the_cluster(call, account, attack):
    service, method, parameters = ATTACKS[attack]
    mine, theirs = account.mine, account.theirs
    assert [each for each in POLICIES if not denied(call, each, service, method, parameters(mine, theirs, each))] == []


# The same calls for the operator's own resources: only the cluster differs
OWN = {
    "a policy of one's nodes": (
        "provision",
        "iam",
        "put_role_policy",
        lambda mine: {"RoleName": mine.role, "PolicyName": "nodes", "PolicyDocument": EVERYTHING},
    ),
    "one's tag on one's role": ("provision", "iam", "tag_role", lambda mine: {"RoleName": mine.role, "Tags": tags(MINE)}),
    "an instance": ("provision", "ec2", "run_instances", lambda mine: launched(mine.template, SubnetId=mine.subnet)),
    "a group": (
        "provision",
        "autoscaling",
        "create_auto_scaling_group",
        lambda mine: group_from(f"{MINE}-master", mine.template, mine.subnet),
    ),
    "tags of an instance": ("provision", "ec2", "create_tags", lambda mine: {"Resources": [mine.instance], "Tags": tags(MINE)}),
    "an address": ("provision", "ec2", "associate_address", lambda mine: {"AllocationId": mine.address, "InstanceId": mine.instance}),
    "a mount target": (
        "provision",
        "efs",
        "create_mount_target",
        lambda mine: {"FileSystemId": mine.file_system, "SubnetId": mine.subnet, "SecurityGroups": [mine.group]},
    ),
    "a policy of a file system": (
        "provision",
        "efs",
        "put_file_system_policy",
        lambda mine: {"FileSystemId": mine.file_system, "Policy": FILE_SYSTEM_POLICY},
    ),
    "the end of a file system's policy": (
        "destroy",
        "efs",
        "delete_file_system_policy",
        lambda mine: {"FileSystemId": mine.file_system},
    ),
    "the end of an access point": ("destroy", "efs", "delete_access_point", lambda mine: {"AccessPointId": mine.point}),
    "the console": ("configure", "ec2", "get_console_output", lambda mine: {"InstanceId": mine.instance}),
    "the authority": ("configure", "ssm", "get_parameter", lambda mine: {"Name": mine.authority, "WithDecryption": True}),
    "a file": ("dataset", "s3", "put_object", lambda mine: {"Bucket": mine.bucket, "Key": "file", "Body": b""}),
    "an SSH session": (
        "session_manager",
        "ssm",
        "start_session",
        lambda mine: {"Target": mine.instance, "DocumentName": "AWS-StartSSHSession"},
    ),
    "the end of a group": (
        "destroy",
        "autoscaling",
        "delete_auto_scaling_group",
        lambda mine: {"AutoScalingGroupName": mine.scaling, "ForceDelete": True},
    ),
    "an EMR cluster": ("emr", "emr", "run_job_flow", lambda mine: emr_request(MINE)),
    "a tag of an EMR cluster": (
        "emr",
        "emr",
        "add_tags",
        lambda mine: {"ResourceId": mine.emr, "Tags": [{"Key": "purpose", "Value": "test"}]},
    ),
    "all tags of an EMR cluster": ("emr", "emr", "add_tags", lambda mine: {"ResourceId": mine.emr, "Tags": tags(MINE)}),
    "the end of a tag of an EMR cluster": (
        "emr",
        "emr",
        "remove_tags",
        lambda mine: {"ResourceId": mine.emr, "TagKeys": ["purpose"]},
    ),
    "the record of an EMR cluster": (
        "emr",
        "ssm",
        "put_parameter",
        lambda mine: {"Name": mine.record, "Value": mine.emr, "Type": "String", "Overwrite": True},
    ),
    "the name of an EMR cluster": ("emr_status", "ssm", "get_parameters", lambda mine: {"Names": [mine.record]}),
    "the end of an EMR cluster": ("emr", "emr", "terminate_job_flows", lambda mine: {"JobFlowIds": [mine.emr]}),
}


@pytest.mark.parametrize("own", OWN)
def test_what_is_ones_own_is_within_reach(call, account, own):
    playbook, service, method, parameters = OWN[own]
    assert not denied(call, playbook, service, method, parameters(account.mine))


def test_only_the_policy_emr_changes_which_cluster_is_recorded(call, account):
    arguments = {"Name": account.mine.record, "Value": "j-2", "Overwrite": True}
    assert [each for each in POLICIES if not denied(call, each, "ssm", "put_parameter", arguments)] == ["emr"]
    read = {"Name": account.mine.authority, "WithDecryption": True}
    assert denied(call, "emr_status", "ssm", "get_parameter", read)
    assert denied(call, "emr_status", "ssm", "get_parameters", {"Names": [account.mine.authority], "WithDecryption": True})


def test_the_policy_emr_changes_no_tag_of_instances_except_the_number(call, account):
    """Other tags specify the storage that nodes mount."""
    for tag, expected in (("deeplearning:number", False), ("deeplearning:efs", True), ("deeplearning:cluster", True)):
        tags_of = [{"Key": tag, "Value": MINE if tag.endswith("cluster") else "7"}]
        assert denied(call, "emr", "ec2", "create_tags", {"Resources": [account.mine.instance], "Tags": tags_of}) is expected, tag
    both = [{"Key": "deeplearning:number", "Value": "7"}, {"Key": "deeplearning:efs", "Value": "fs-1"}]
    assert denied(call, "emr", "ec2", "create_tags", {"Resources": [account.mine.instance], "Tags": both})
    assert denied(call, "emr", "ec2", "create_tags", {"Resources": [account.mine.vpc], "Tags": both[:1]})
    assert denied(call, "emr", "ec2", "create_tags", {"Resources": [account.theirs.instance], "Tags": both[:1]})


def test_the_policy_configure_sets_only_holds_of_the_function_that_ends_idle_nodes(call):
    """Other tags decide whether nodes are launched again, and show whose the function is."""
    arn, hold = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{MINE}-nodes-idle", "deeplearning:hold:study"
    for keys, expected in (
        ([hold], False),
        (["deeplearning:idle-since"], True),
        (["deeplearning:idle-verdict"], True),
        (["deeplearning:cluster"], True),
        ([hold, "team"], True),
    ):
        set_them = {"Resource": arn, "Tags": dict.fromkeys(keys, "2026-12-01T18:00:00Z")}
        assert denied(call, "configure", "lambda", "tag_resource", set_them) is expected, keys
        assert denied(call, "configure", "lambda", "untag_resource", {"Resource": arn, "TagKeys": keys}) is expected, keys
    others = arn.replace(MINE, THEIRS)
    assert denied(call, "configure", "lambda", "tag_resource", {"Resource": others, "Tags": {hold: "2026-12-01T18:00:00Z"}})


# Calls that EventBridge Scheduler could make with the role of the function
SCHEDULED = ("lambda:tagResource", "sns:publish", "autoscaling:deleteAutoScalingGroup")


@pytest.mark.parametrize("method", ["create_schedule", "update_schedule"])
def test_the_policy_configure_changes_no_schedule_of_idle_nodes_and_does_not_use_their_role(call, method):
    def refused(group, role, target, **changes):
        role_arn = f"arn:aws:iam::{ACCOUNT}:role/deeplearning/{MINE}-nodes-{role}-{REGION}"
        schedule = {
            "GroupName": f"{MINE}-nodes-{group}",
            "Name": "check",
            "ScheduleExpression": "rate(5 minutes)",
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "Target": {"Arn": target, "RoleArn": role_arn, "Input": "{}"},
        }
        return denied(call, "configure", "scheduler", method, {**schedule, **changes})

    for target in (f"arn:aws:scheduler:::aws-sdk:{action}" for action in SCHEDULED):
        for group, role in (("idle", "idle"), ("lease", "idle"), ("idle", "lease")):
            assert refused(group, role, target), (target, group, role)
        assert not refused("lease", "lease", target)
    assert refused("idle", "idle", f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{MINE}-nodes-idle", State="DISABLED")


def test_the_policy_emr_reaches_clusters_without_a_tag(cloud, call, account):
    """This limitation is documented in docs/permissions.md: EMR has no condition key for the call that adds tags."""
    cluster, step = account.theirs.untagged_emr, {"Name": "a", "HadoopJarStep": {"Jar": "command-runner.jar"}}
    parameters = {"JobFlowId": cluster, "Steps": [step]}
    assert [each for each in POLICIES if not denied(call, each, "emr", "add_job_flow_steps", parameters)] == []
    assert [each for each in POLICIES if not denied(call, each, "emr", "add_tags", {"ResourceId": cluster, "Tags": tags(MINE)})] == ["emr"]
    assert not denied(call, "emr", "emr", "add_job_flow_steps", parameters)
