"""Instances that have an IAM role and are launched through the API of the local cloud."""

from __future__ import annotations

import json

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instance_role.definition import trust_policy
from local_cloud.testing import wait_until

REGION = "us-east-1"
# An image whose hosts have all clients of storage
IMAGE = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"


def launch(cloud, key, network, policy, count=1, **options):
    """Launch instances whose role has the policy, and return their descriptions. `key` is the path of the private SSH key."""
    ec2, iam = cloud.client("ec2"), cloud.client("iam")
    cloud.control.set_delays(instance_profile=0)
    iam.create_role(RoleName="nodes", AssumeRolePolicyDocument=json.dumps(trust_policy(REGION)))
    iam.put_role_policy(RoleName="nodes", PolicyName="nodes", PolicyDocument=json.dumps(policy))
    iam.create_instance_profile(InstanceProfileName="nodes")
    iam.add_role_to_instance_profile(InstanceProfileName="nodes", RoleName="nodes")
    vpc = ec2.create_vpc(CidrBlock=network)["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock=network, AvailabilityZone=f"{REGION}a")["Subnet"]["SubnetId"]
    ec2.import_key_pair(KeyName="test", PublicKeyMaterial=key.with_suffix(".pub").read_bytes())
    launched = ec2.run_instances(
        ImageId=cloud.client("ssm").get_parameter(Name=IMAGE)["Parameter"]["Value"],
        InstanceType="m5.large",
        KeyName="test",
        SubnetId=subnet,
        IamInstanceProfile={"Name": "nodes"},
        MinCount=count,
        MaxCount=count,
        **options,
    )["Instances"]
    identifiers = [each["InstanceId"] for each in launched]
    ec2.get_waiter("instance_running").wait(InstanceIds=identifiers, WaiterConfig={"Delay": 1, "MaxAttempts": 300})
    return launched


def mount_file_system(cloud, hosts, subnet):
    """Create an EFS file system, and mount it at /efs on the hosts."""
    efs = cloud.client("efs")
    file_system = efs.create_file_system(CreationToken="shared")["FileSystemId"]
    wait_until(lambda: efs.describe_file_systems()["FileSystems"][0]["LifeCycleState"] == "available")
    efs.create_mount_target(FileSystemId=file_system, SubnetId=subnet)
    wait_until(lambda: efs.describe_mount_targets(FileSystemId=file_system)["MountTargets"][0]["LifeCycleState"] == "available")
    command = (
        f"sudo mkdir -p /efs && sudo mount -t nfs4 -o nfsvers=4.1 {file_system}.efs.{REGION}.amazonaws.com:/ /efs && sudo chown ubuntu /efs"
    )
    for host in hosts:
        host.ssh("cloud-init status --wait")
        wait_until(lambda host=host: host.ssh(command, check=False).returncode == 0)
