"""The example of a private cluster that uses an existing network and file system, on real hosts without public addresses."""

from __future__ import annotations

import ipaddress
import itertools
import json
import subprocess

import pytest
from local_cloud.aws.context import ACCOUNT
from local_cloud.hosts.podman import as_root
from local_cloud.testing import unused_range, wait_until

from .conftest import REPOSITORY

ZONE = "us-east-1a"


@pytest.fixture(scope="module")
def subnets():
    """The CIDR ranges of the public and the private subnet, and of their VPC."""
    with unused_range() as cidr:
        public, private = itertools.islice(ipaddress.ip_network(cidr).subnets(new_prefix=24), 2)
        yield {"vpc": cidr, "public": str(public), "private": str(private)}


@pytest.fixture(scope="module")
def landlord(cloud, subnets):
    """Another owner's resources, as variables of a definition: a VPC with a private subnet and internet access, and a file system."""
    ec2, efs = cloud.client("ec2"), cloud.client("efs")
    vpc = ec2.create_vpc(CidrBlock=subnets["vpc"])["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    public = ec2.create_subnet(VpcId=vpc, CidrBlock=subnets["public"], AvailabilityZone=ZONE)["Subnet"]["SubnetId"]
    private = ec2.create_subnet(VpcId=vpc, CidrBlock=subnets["private"], AvailabilityZone=ZONE)["Subnet"]["SubnetId"]
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    nat = ec2.create_nat_gateway(SubnetId=public, AllocationId=address)["NatGateway"]["NatGatewayId"]
    for subnet, target in ((public, {"GatewayId": gateway}), (private, {"NatGatewayId": nat})):
        table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
        ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", **target)
        ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
    file_system = efs.create_file_system(CreationToken="theirs", Encrypted=True)["FileSystemId"]
    # The owner allows everybody to write to this file system, because clusters do not change the root directory of an adopted file system
    folder = cloud.cloud.home.file_systems / file_system
    wait_until(folder.exists)
    subprocess.run(as_root("chmod", "1777", str(folder)), check=True)
    return {"deeplearning_vpc_id": vpc, "deeplearning_private_subnet_ids": [private], "deeplearning_file_system_id": file_system}


@pytest.fixture(scope="module")
def play(operator, landlord, tmp_path_factory):
    """Run a playbook as an operator who has only the playbook's policies. The definition is the example's definition, with an instance
    type that the local cloud offers.
    """
    project = tmp_path_factory.mktemp("project")
    (project / "nodes.yml").write_text(
        "plugin: deeplearning.cluster.nodes\ncluster: closed\nregion: us-east-1\nconnection_path: direct\n"
        "private_key_file: $LOCAL_CLOUD_HOME/id_ed25519\nssh_directory: $LOCAL_CLOUD_HOME/ssh/closed\n"
    )
    more = {
        **landlord,
        "deeplearning_instance_type": "c5.large",
        "deeplearning_worker_count": 1,
        "deeplearning_key_name": "local-cloud",
        "deeplearning_efa": False,
        "training_job_source": f"{REPOSITORY}/examples/digits",
        "training_job_script": "train.py",
        "training_job_arguments": ["--epochs", "2"],
    }

    adopted = (f"arn:aws:elasticfilesystem:us-east-1:{ACCOUNT}:file-system/{landlord['deeplearning_file_system_id']}",)

    def run(name):
        command = ["ansible-playbook", "-i", str(project / "nodes.yml"), str(REPOSITORY / "playbooks" / name)]
        command += ["-e", f"@{REPOSITORY}/examples/definitions/private_existing_network.yml", "-e", json.dumps(more)]
        environment = operator(name.removesuffix(".yml"), "closed", adopted)
        finished = subprocess.run(
            command, env=environment, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        assert finished.returncode == 0, finished.stdout
        return finished.stdout

    return run


@pytest.mark.exhaustive
def test_it_trains_without_a_public_address_and_leaves_what_it_found(cloud, play, landlord):
    ec2, efs = cloud.client("ec2"), cloud.client("efs")
    output = play("train.yml")
    assert "hosts        2 (closed-master, closed-worker2)" in output
    found = ec2.describe_instances(Filters=[{"Name": "tag:deeplearning:cluster", "Values": ["closed"]}])["Reservations"]
    nodes = [instance for reservation in found for instance in reservation["Instances"]]
    assert len(nodes) == 2
    assert not [node["PublicIpAddress"] for node in nodes if "PublicIpAddress" in node]
    assert {node["SubnetId"] for node in nodes} == set(landlord["deeplearning_private_subnet_ids"])

    play("destroy.yml")
    (theirs,) = efs.describe_file_systems(FileSystemId=landlord["deeplearning_file_system_id"])["FileSystems"]
    assert theirs["NumberOfMountTargets"] == 0
    inside = [{"Name": "vpc-id", "Values": [landlord["deeplearning_vpc_id"]]}]
    assert len(ec2.describe_subnets(Filters=inside)["Subnets"]) == 2
    assert [group["GroupName"] for group in ec2.describe_security_groups(Filters=inside)["SecurityGroups"]] == ["default"]
