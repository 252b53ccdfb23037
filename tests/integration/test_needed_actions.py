"""Every permission in the shipped policies is necessary, and the policies are sufficient.

Operators who have only a playbook's policies can use all features of the playbook. The tests compare the actions that AWS checked with
those that the policies allow, and the request parameters with those that the local cloud reads.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import zipfile
from collections import defaultdict
from types import SimpleNamespace

import boto3
import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr.definition import DEFAULT_PROFILE, DEFAULT_SERVICE_ROLE
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr.definition import trust_policy as emr_trust_policy
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr.resources import bootstrap_log
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instance_role.definition import trust_policy
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.dataset import local_source
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.dataset import stager, staging_progress
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import iam_account, iam_playbook_actions, iam_policy_files

from .conftest import FAST, IMAGE_PARAMETER, KEY_NAME, REGION, ModuleFailed, run_module

CLUSTER = "needs"
EFA_TYPE = "p4d.24xlarge"  # has several network cards, so the master gets an Elastic IP address
ELSEWHERE = {"CidrIp": "198.51.100.0/24"}
OTHER_RIGHTS = {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "*", "Resource": "*"}]}
ATTACHED = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"  # Systems Manager Quick Setup attaches this policy to instance roles
BOUNDARY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "ec2:Describe*", "Resource": "*"}]}
DEFINITION = {
    "cluster": CLUSTER,
    "ssh_cidrs": ["203.0.113.0/24"],
    "instance_type": "c5.large",
    "worker_count": 2,
    "image_parameter": IMAGE_PARAMETER,
    "key_name": KEY_NAME,
    "wait_timeout": 30,
    "capacity_timeout": 120,
    "prices": True,
}
# A cluster whose nodes AWS ends: at the end of their lease, or when they are idle.
LEASED = {**DEFINITION, "cluster": f"{CLUSTER}-leased", "nat": "none", "worker_count": 0, "lease": "8h", "idle_after": "30m"}


# The reasons for allowing permissions that AWS does not check in any of these runs, by action and statement
NOT_ASKED = {
    ("ec2:CreateNatGateway", "CreateInVpc"): "AWS may check the VPC of the subnet, according to the Service Authorization Reference.",
    ("ec2:DescribeVpcBlockPublicAccessExclusions", "Read"): "Only where VPC Block Public Access is on (test_networks.py).",
    ("ec2:ModifyVpcEndpoint", "CreateInSubnet"): "Adopted subnets lack the cluster's tag that Change requires.",
    ("ssm:StartSession", "ConnectToNodes"): "Session Manager opens sessions. The local cloud has none.",
    ("ssm:StartSession", "ConnectBySsh"): "Session Manager opens sessions. The local cloud has none.",
    ("ssm:TerminateSession", "EndOwnSessions"): "Session Manager ends sessions. The local cloud has none.",
    ("ssmmessages:OpenDataChannel", "UseOwnSessions"): "Session Manager opens sessions. The local cloud has none.",
}
# The inventory reads when a Capacity Block ends (test_capacity.py). These runs have none.
OF_CAPACITY_BLOCKS = {("ec2:DescribeCapacityReservations", "Read")}
# Request parameters that the local cloud ignores, with their effect on AWS
TYPE = "AWS refuses any type other than what the call creates. `tags.misplaced` does so with a copy of the request."
TOKEN = "A second call with the token gets the first response. The collection sends a new token each time, and reads again instead."
IGNORED = {
    **{
        f"autoscaling:DeleteTags Tags.{member}": "A group has one tag per key. AWS deletes it regardless of other values in the request."
        for member in ("PropagateAtLaunch", "ResourceType", "Value")
    },
    **{
        f"ec2:{call} TagSpecifications.ResourceType": TYPE
        for call in (
            "AllocateAddress",
            "CreateInternetGateway",
            "CreateNatGateway",
            "CreateRouteTable",
            "CreateVpc",
            "CreateVpcEndpoint",
        )
    },
    "ec2:DescribeSpotPriceHistory StartTime": "The local cloud has one price per type and zone.",
    **{
        f"pricing:GetProducts {parameter}": "The local cloud reads the body of the request itself."
        for parameter in ("Filters", "ServiceCode")
    },
    **{
        f"lambda:{call}": "The local cloud reads the path and the body of the request itself."
        for call in (
            "DeleteFunction FunctionName",
            "GetFunction FunctionName",
            "Invoke FunctionName",
            "Invoke InvocationType",
            "Invoke Payload",
            "ListTags Resource",
            "TagResource Resource",
            "UntagResource Resource",
            "UpdateFunctionCode FunctionName",
            "UpdateFunctionConfiguration FunctionName",
        )
    },
    **{
        f"scheduler:{call} Name": "The local cloud reads the path of the request."
        for call in (
            *("CreateSchedule", "CreateScheduleGroup", "DeleteSchedule", "DeleteScheduleGroup"),
            *("GetSchedule", "GetScheduleGroup", "UpdateSchedule"),
        )
    },
    **{
        f"scheduler:{call} ClientToken": TOKEN
        for call in ("CreateSchedule", "CreateScheduleGroup", "DeleteSchedule", "DeleteScheduleGroup", "UpdateSchedule")
    },
    **{
        f"fsx:{call} ClientRequestToken": TOKEN
        for call in ("DeleteDataRepositoryAssociation", "DeleteFileSystem", "UpdateDataRepositoryAssociation", "UpdateFileSystem")
    },
}


class Witness:
    """Operators of one local cloud, and the permissions that AWS checked for each operator."""

    def __init__(self, cloud, folder):
        self.cloud, self.folder = cloud, folder
        self.policies = {}
        self.adopted = {}
        self.asked = defaultdict(set)
        """By operator: the allowed actions, each with the statements that allowed it."""
        cloud.control.set_delays(**FAST)
        cloud.control.record_parameters()

    def become(self, playbook, **account):
        """From now on, run modules in this process as an operator who has only this playbook's policies.

        The clients of `cloud` still have the permissions of the administrator.
        """
        self.note()
        self.adopted[playbook] = account.get("adopted", ())
        made = iam_policy_files.policies(iam_account.Account(f"{CLUSTER}*", **account))
        policies = [policy for name, policy in made.items() if name in (playbook, f"{playbook}-1", f"{playbook}-2", f"{playbook}-3")]
        name = playbook
        self.policies[name] = policies
        environment = self.cloud.operator(name, *policies)
        os.environ.update({key: value for key, value in environment.items() if key.startswith("AWS_")})
        return environment

    def note(self):
        for decision in self.cloud.control.decisions():
            if decision["effect"] == "allowed":
                self.asked[decision["caller"].rpartition("/")[2]].add((decision["action"], tuple(decision["statements"])))
        self.cloud.control.forget_decisions()


@pytest.fixture(scope="module")
def witness(cloud, tmp_path_factory):
    """The record of the permissions that AWS checked in all scenarios."""
    before = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    witness = Witness(cloud, tmp_path_factory.mktemp("witness"))
    cloud.client("kms").create_alias(AliasName="alias/data", TargetKeyId=key_of(cloud))
    for scenario in (provision, shortage, validate, configure, events, status, dataset, emr, destroy):
        scenario(witness)
    witness.note()
    os.environ.update(before)
    return witness


def key_of(cloud):
    return cloud.client("kms").create_key()["KeyMetadata"]["Arn"]


def adopted_profile(cloud, name):
    """Create an instance profile that belongs to another owner, and whose role may read the SSH authorities. Return its name."""
    iam = cloud.client("iam")
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust_policy(REGION)))
    iam.create_instance_profile(InstanceProfileName=name)
    iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
    iam.attach_role_policy(RoleName=name, PolicyArn=ATTACHED)
    return name


def reserved(cloud):
    """Create a Capacity Reservation. Return the options of a cluster that uses the reservation, with an image that is selected by
    framework.
    """
    reservation = cloud.client("ec2").create_capacity_reservation(
        InstanceType="c5.large",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone="us-east-1b",
        InstanceCount=5,
        InstanceMatchCriteria="targeted",
    )["CapacityReservation"]["CapacityReservationId"]
    image = {"image_parameter": None, "image_framework": "pytorch-2.7", "image_os": "ubuntu-22.04"}
    return {**DEFINITION, **image, "market": "capacity-reservation", "capacity_reservation_id": reservation}


def validate(witness):
    cloud = witness.cloud
    key, scarce = key_of(cloud), reserved(cloud)
    witness.become("validate")
    options = {"interface_endpoints": ["ssm"], "root_volume_kms_key": key, "instance_profile": f"{CLUSTER}-theirs"}
    options["notify_topic"] = cloud.client("sns").create_topic(Name="alerts")["TopicArn"]
    run_module("cluster_validation", **DEFINITION, **options, lustre=True, lustre_capacity=2400)
    run_module("cluster_validation", **{**scarce, "cluster": f"{CLUSTER}-new"})
    run_module("cluster_validation", **{**DEFINITION, "cluster": f"{CLUSTER}-new"})
    run_module("cluster_validation", **{**DEFINITION, "cluster": f"{CLUSTER}-new", "instance_type": "g5.xlarge", "market": "spot"})
    run_module("cluster_validation", **LEASED)
    run_module("ssh_authority_info", cluster=CLUSTER)  # for the playbook info


def provision(witness):
    cloud = witness.cloud
    ec2, autoscaling, efs, fsx, iam = (cloud.client(name) for name in ("ec2", "autoscaling", "efs", "fsx", "iam"))
    key, profile, scarce = key_of(cloud), adopted_profile(cloud, f"{CLUSTER}-theirs"), reserved(cloud)
    topics = [cloud.client("sns").create_topic(Name=each)["TopicArn"] for each in ("former", "alerts")]
    cloud.client("s3").create_bucket(Bucket=f"{CLUSTER}-lustre")
    theirs = efs.create_file_system(CreationToken=f"{CLUSTER}-theirs")
    cloud.control.enable_guardduty()
    witness.become("provision", adopted=(f"arn:aws:iam::123456789012:role/{CLUSTER}-theirs", theirs["FileSystemArn"]))
    links = [{"path": f"/{each}", "s3": f"s3://{CLUSTER}-lustre/{each}/"} for each in ("train", "test")]
    first = {
        **DEFINITION,
        "zones": ["us-east-1a", "us-east-1b"],
        "nat": "per_zone",
        "interface_endpoints": ["ssm"],
        "lustre": True,
        "lustre_data_repositories": links,
        "kms_key_id": key,
        "notify_topic": topics[0],
    }
    made = run_module("cluster", **first, tags={"team": "vision"})["resources"]
    run_module("ssh_authority_info", cluster=CLUSTER)

    # Drift is corrected
    ssh, nodes, table = made["security_group"]["ssh"], made["security_group"]["nodes"], made["route_table"]["private-us-east-1a"]
    ec2.authorize_security_group_ingress(GroupId=ssh, IpProtocol="tcp", FromPort=22, ToPort=22, CidrIp="198.51.100.0/24")
    ec2.authorize_security_group_egress(GroupId=nodes, IpPermissions=[{"IpProtocol": "-1", "IpRanges": [ELSEWHERE]}])
    ec2.modify_vpc_endpoint(VpcEndpointId=made["vpc_endpoint"]["s3"], RemoveRouteTableIds=[table])
    ec2.modify_vpc_attribute(VpcId=made["vpc"]["main"], EnableDnsHostnames={"Value": False})
    ec2.replace_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=made["internet_gateway"]["main"])
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="192.0.2.0/24", GatewayId=made["internet_gateway"]["main"])
    mount_target = efs.describe_mount_targets(FileSystemId=made["file_system"]["main"])["MountTargets"][0]["MountTargetId"]
    efs.modify_mount_target_security_groups(MountTargetId=mount_target, SecurityGroups=[made["security_group"]["storage"], nodes])
    (lustre,) = fsx.describe_file_systems(FileSystemIds=[made["lustre_file_system"]["main"]])["FileSystems"]
    ec2.modify_network_interface_attribute(NetworkInterfaceId=lustre["NetworkInterfaceIds"][0], Groups=[nodes])
    cloud.control.suspend(f"{CLUSTER}-workers", "Launch")
    autoscaling.resume_processes(AutoScalingGroupName=f"{CLUSTER}-workers", ScalingProcesses=["ReplaceUnhealthy"])
    iam.put_role_policy(RoleName=made["role"]["nodes"], PolicyName="nodes", PolicyDocument=json.dumps(OTHER_RIGHTS))
    run_module("cluster", **first)

    # Changes in place
    second = {
        **first,
        "nat": "single",
        "interface_endpoints": [],
        "root_volume_size": 120,
        "notify_topic": topics[1],
        "throughput_mode": "elastic",
        "lustre_capacity": 2400,
        "lustre_data_repositories": [{**links[0], "export_changes": True}],
    }
    run_module("cluster", **second, tags={"team": "speech"}, replace_nodes=True)

    # Runs that remove a worker and the role
    third = {**second, "worker_count": 1, "instance_profile": profile}
    run_module("cluster", **third, replace_nodes=True)

    lease(cloud)
    run_module("cluster", **{**scarce, "cluster": f"{CLUSTER}-scarce"}, check=True)
    spot = {**DEFINITION, "cluster": f"{CLUSTER}-spot", "market": "spot", "spot_max_price": "40", "nat": "none"}
    spot |= {"instance_type": EFA_TYPE, "efa": True, "root_volume_throughput": 250, "root_volume_kms_key": key}
    spot["file_system_id"] = theirs["FileSystemId"]
    run_module("cluster", **spot, file_system_directory="/teams/bert")
    run_module("cluster", **spot, file_system_directory="/teams/gpt", replace_nodes=True)


def lease(cloud):
    """Remove a lease and the end of idle nodes, begin new ones, and repair them."""
    run_module("cluster", **LEASED)
    cloud.client("iam").attach_role_policy(RoleName=f"{CLUSTER}-leased-nodes-lease-{REGION}", PolicyArn=ATTACHED)
    run_module("cluster", **{**LEASED, "lease": None, "idle_after": None})
    run_module("cluster", **LEASED)
    cloud.client("scheduler").delete_schedule(GroupName=f"{CLUSTER}-leased-nodes-lease", Name="workers")
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("function.py", "def handler(event, context): pass\n")
    cloud.client("lambda").update_function_code(FunctionName=f"{CLUSTER}-leased-nodes-idle", ZipFile=code.getvalue())
    run_module("cluster", **{**LEASED, "idle_after": "1h"})


def shortage(witness):
    """After insufficient capacity, runs delete the resources that they created for the nodes.

    Later runs delete unused parts: a zone and the public subnets.
    """
    cloud, zones = witness.cloud, ["us-east-1a", "us-east-1b"]
    cloud.control.set_capacity({EFA_TYPE: dict.fromkeys(zones, 0)})
    efa = {**DEFINITION, "instance_type": EFA_TYPE, "efa": True, "cluster": f"{CLUSTER}-efa"}
    for some in (zones, zones[:1]):
        with pytest.raises(ModuleFailed, match="AWS has insufficient capacity for the nodes"):
            run_module("cluster", **{**efa, "capacity_timeout": 1}, zones=some)
    cloud.control.set_capacity({EFA_TYPE: dict.fromkeys(zones)})
    run_module("cluster", **efa, zones=zones[:1], nat="none", master_public_address=False)
    tag = {"Key": "deeplearning:file-system-address", "Value": "10.0.0.9", "PropagateAtLaunch": True, "ResourceType": "auto-scaling-group"}
    cloud.client("autoscaling").create_or_update_tags(Tags=[{**tag, "ResourceId": f"{CLUSTER}-efa-workers"}])
    # The placement group is deleted when no node uses the group any more. With image_id, no tag shows the source of the image
    image = cloud.client("ssm").get_parameter(Name=IMAGE_PARAMETER)["Parameter"]["Value"]
    plain = {**efa, "instance_type": "c5.large", "efa": False, "placement": "none", "image_parameter": None, "image_id": image}
    run_module("cluster", **plain, zones=zones[:1], nat="none", replace_nodes=True)
    run_module("cluster", **plain, zones=zones[:1], nat="none")


def configure(witness):
    node = run_module("cluster_info", cluster=CLUSTER)["nodes"][0]
    witness.become("configure")
    trust(node["instance_id"], CLUSTER)
    run_module("ssh_authority", cluster=f"{CLUSTER}-emr", create_kms_key=True)
    run_module("former_nodes_info", cluster=CLUSTER, days=10)
    scheduler, group = witness.cloud.client("scheduler"), f"{CLUSTER}-leased-nodes-lease"
    run_module("lease", cluster=f"{CLUSTER}-leased", lease="8h", minimum=10 * 3600)
    scheduler.delete_schedule(GroupName=group, Name="workers")
    run_module("lease", cluster=f"{CLUSTER}-leased", lease="8h", minimum=11 * 3600)
    for seconds in (3600, 0):
        run_module("idle_hold", cluster=f"{CLUSTER}-leased", name="study", seconds=seconds)
    inventory(witness, "configure")


def events(witness):
    witness.become("events")
    for cluster in (CLUSTER, f"{CLUSTER}-spot"):
        run_module("cluster_events_info", cluster=cluster)
    inventory(witness, "events")


def trust(node, cluster):
    """Read the host keys of a node, and create, encrypt and rotate the SSH authority of a cluster."""
    (problem,) = run_module("host_keys_info", instance_ids=[node], wait_timeout=1)["problems"]
    assert problem["kind"] == "timeout"
    run_module("ssh_authority", cluster=cluster)
    run_module("ssh_authority", cluster=cluster, create_kms_key=True)
    run_module("ssh_authority", cluster=cluster, rotate=True)


def inventory(witness, playbook, **account):
    place = witness.folder / "nodes.yml"
    place.write_text(json.dumps({"plugin": "deeplearning.cluster.nodes", "cluster": CLUSTER, "region": REGION}))
    listing = [sys.executable, "-m", "ansible", "inventory", "-i", str(place), "--list"]
    subprocess.run(listing, env=witness.become(playbook, **account), check=True, capture_output=True, cwd=witness.folder)
    run_module("ssh_authority_info", cluster=CLUSTER)


def status(witness):
    for playbook in ("status", "stop"):
        inventory(witness, playbook)


def dataset(witness):
    cloud, bucket = witness.cloud, f"{CLUSTER}-data"
    inventory(witness, "dataset")
    options = {"cluster": CLUSTER, "bucket": bucket, "kms_key_id": "alias/data"}
    run_module("dataset_bucket", **options)
    cloud.client("s3").put_bucket_ownership_controls(Bucket=bucket, OwnershipControls={"Rules": [{"ObjectOwnership": "ObjectWriter"}]})
    run_module("dataset_bucket", **options, tags={"team": "speech"})
    folder = witness.folder / "images"
    folder.mkdir()
    (folder / "a").write_bytes(b"1")
    upload(witness, folder)
    (folder / "b").write_bytes(b"2" * (9 << 20))  # multipart upload
    upload(witness, folder)
    cloud.control.set_faults([{"action": "UploadPart", "code": "InvalidRequest", "status": 400}])
    (folder / "c").write_bytes(b"3" * (9 << 20))
    assert "error" in upload(witness, folder)
    cloud.control.set_faults([])


def upload(witness, folder):
    """Copy a directory to the bucket, in the same way as the role dataset does on the controller."""
    specification = {
        "destination": f"s3://{CLUSTER}-data/images",
        "source": f"{folder}/",
        "name": None,
        "checksum": "",
        "unpack": False,
        "region": REGION,
        "anonymous": False,
        "directory": str(witness.folder / "sets"),
        "sources": [],
        "shards": [],
        "share": None,
        "upload": local_source.upload_facts(str(folder)),
    }
    progress = witness.folder / "progress.json"
    stager.run(specification, staging_progress.StagingProgress(str(progress)))
    return json.loads(progress.read_text())


def emr(witness):
    """Run an EMR cluster from creation to termination, with default roles that the administrator has created."""
    cloud, iam = witness.cloud, witness.cloud.client("iam")
    for name, service in ((DEFAULT_SERVICE_ROLE, "elasticmapreduce"), (DEFAULT_PROFILE, "ec2")):
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(emr_trust_policy(service, REGION)))
    iam.create_instance_profile(InstanceProfileName=DEFAULT_PROFILE)
    iam.add_role_to_instance_profile(InstanceProfileName=DEFAULT_PROFILE, RoleName=DEFAULT_PROFILE)
    ec2 = cloud.client("ec2")
    vpc = ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"][0]["VpcId"]
    subnet = ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["Subnets"][0]["SubnetId"]
    group, *managed = [
        ec2.create_security_group(GroupName=f"emr-{each}", Description=each, VpcId=vpc)["GroupId"]
        for each in ("more", "master", "workers", "service")
    ]
    from_master = {"IpProtocol": "tcp", "FromPort": 9443, "ToPort": 9443, "UserIdGroupPairs": [{"GroupId": managed[0]}]}
    ec2.authorize_security_group_ingress(GroupId=managed[2], IpPermissions=[from_master])
    image = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"
    options = {
        "cluster": CLUSTER,
        "emr_release_label": "emr-7.9.0",
        "emr_instance_type": "c5.xlarge",
        "emr_core_count": 1,
        "emr_key_name": KEY_NAME,
        "prices": True,
        "emr_subnet_id": subnet,
        "emr_additional_security_group_ids": {"workers": [group]},
        "emr_security_group_ids": dict(zip(("master", "workers", "service"), managed, strict=True)),
        "emr_image_id": cloud.client("ssm").get_parameter(Name=image)["Parameter"]["Value"],
    }
    cloud.control.set_delays(**FAST, emr_cluster=0.1)
    inventory(witness, "emr")
    # If no subnet is specified, EMR chooses a public subnet, to which block public access applies
    run_module("emr_cluster", **{**options, "emr_subnet_id": None}, check=True)
    run_module("emr_cluster", **options, tags={"team": "speech"}, emr_termination_protection=True, emr_idle_after="30m")
    larger = {**options, "emr_core_count": 2, "emr_task_count": 1, "tags": {"team": "vision"}}
    run_module("emr_cluster", **larger, emr_steps=[{"name": "a"}], emr_idle_after="1h")
    run_module("emr_cluster", **larger)
    (running,) = cloud.client("emr").list_clusters(ClusterStates=["RUNNING", "WAITING"])["Clusters"]
    node = cloud.client("emr").list_instances(ClusterId=running["Id"])["Instances"][0]
    trust(node["Ec2InstanceId"], f"{CLUSTER}-emr-2")
    read_bootstrap_log(cloud, node["Ec2InstanceId"])
    run_module("former_nodes_info", cluster=CLUSTER, node_service="emr", days=10)
    run_module("emr_cluster", cluster=CLUSTER, state="absent", emr_termination_protection=False)
    run_module("ssh_authority", cluster=f"{CLUSTER}-emr", state="absent")


def read_bootstrap_log(cloud, node):
    """Read the log of a failed bootstrap action, as emr_cluster does, from a bucket that is encrypted with a KMS key of the account."""
    key = f"logs/j-1/node/{node}/bootstrap-actions/1/stderr.gz"
    cloud.client("s3").put_object(Bucket=f"{CLUSTER}-data", Key=key, Body=gzip.compress(b"no such file\n"))
    message = f"On the master instance ({node}), bootstrap action 1 returned a non-zero return code"
    described = {"Id": "j-1", "LogUri": f"s3n://{CLUSTER}-data/logs/", "Status": {"StateChangeReason": {"Message": message}}}
    operator = SimpleNamespace(s3=boto3.client("s3"), wait_until=lambda _what, read, *_timeout, **_pause: read())
    assert bootstrap_log(operator, described) == "no such file"


def destroy(witness):
    # Systems Manager Quick Setup attaches this policy in the same way
    witness.cloud.client("iam").attach_role_policy(RoleName=f"{CLUSTER}-efa-nodes-{REGION}", PolicyArn=ATTACHED)
    file_systems = witness.cloud.client("efs").describe_file_systems(CreationToken=f"{CLUSTER}-theirs")["FileSystems"]
    inventory(witness, "destroy", adopted=tuple(each["FileSystemArn"] for each in file_systems))
    for cluster in (CLUSTER, f"{CLUSTER}-efa", f"{CLUSTER}-spot", f"{CLUSTER}-leased"):
        for check in (True, False):
            run_module("ssh_authority_info", cluster=cluster)
            run_module("cluster", cluster=cluster, state="absent", delete_data=True, prices=True, check=check)
            run_module("ssh_authority", cluster=cluster, state="absent", check=check)


def pairs(policies):
    """Return the pairs of an action and a statement ID in policies."""
    return {(action, statement["Sid"]) for policy in policies for statement in policy["Statement"] for action in statement["Action"]}


def shipped(playbook, **account):
    return pairs(
        [{"Statement": list(iam_policy_files.statements(iam_playbook_actions.playbooks()[playbook], iam_account.Account(**account)))}]
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("playbook", ["validate", "provision", "configure", "status", "stop", "dataset", "emr", "destroy"])
def test_without_any_one_action_of_its_policy_a_playbook_fails(witness, playbook):
    """For each action, AWS made at least one check in which the action's statement was the only one that allowed the action."""
    allowed = pairs(witness.policies[playbook])
    assert allowed == shipped(playbook, adopted=witness.adopted.get(playbook, ()))
    needed = {(action, statements[0]) for action, statements in witness.asked[playbook] if len(statements) == 1}
    assert sorted(shipped(playbook) - needed - NOT_ASKED.keys() - OF_CAPACITY_BLOCKS) == []
    assert sorted(needed & NOT_ASKED.keys()) == [], "AWS checks these permissions"


def test_train_needs_what_provision_and_configure_need():
    """Those who create the function for idle nodes may set all its tags, so they need no statement for its holds."""
    both = shipped("provision") | shipped("configure")
    assert shipped("train") <= both
    assert {action for action, _statement in shipped("train")} == {action for action, _statement in both}


def test_the_rest_of_the_policies_is_named():
    assert shipped("session_manager") <= NOT_ASKED.keys()
    assert NOT_ASKED.keys() <= set().union(*map(shipped, iam_playbook_actions.playbooks()))


@pytest.mark.exhaustive
def test_what_the_local_cloud_ignores_of_requests_is_named(witness):
    """A parameter must be removed from the table if the local cloud starts to read it, or if requests no longer contain this parameter."""
    assert witness.cloud.control.parameters()["ignored"] == sorted(IGNORED)
