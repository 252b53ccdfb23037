"""A local cloud with hosts, used through the AWS API and the `local-cloud` command: from the launch of an instance to its termination."""

from __future__ import annotations

import ipaddress
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from local_cloud.aws.ec2.console_output import KERNEL_LINE
from local_cloud.home import FORMER_NETWORK, Setup
from local_cloud.manager import CloudError, CloudManager, podman_hosts
from local_cloud.testing import BareHost, LocalCloud, unused_range, wait_until

COMMAND = (sys.executable, "-m", "local_cloud.cli")
ASSUME = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
READ = {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": "arn:aws:s3:::data/*"}
USER_DATA = "#cloud-config\nruncmd: [[touch, /run/user-data]]\n"


@dataclass(frozen=True)
class Launched:
    """A local cloud with one instance."""

    cloud: LocalCloud
    network: str
    ec2: Any
    instance: dict[str, Any]
    host: BareHost


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launched]:
    folder = tmp_path_factory.mktemp("cloud")
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with unused_range() as network, LocalCloud(folder / "home", environments=["aws-cli"]) as cloud:
        ec2 = cloud.client("ec2")
        vpc = ec2.create_vpc(CidrBlock=network)["Vpc"]["VpcId"]
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock=network, AvailabilityZone="us-east-1a")["Subnet"]["SubnetId"]
        ec2.import_key_pair(KeyName="test", PublicKeyMaterial=key.with_suffix(".pub").read_bytes())
        iam = cloud.client("iam")
        cloud.control.set_delays(instance_profile=0)
        iam.create_role(RoleName="reader", AssumeRolePolicyDocument=document(ASSUME))
        iam.put_role_policy(RoleName="reader", PolicyName="read", PolicyDocument=document(READ))
        iam.create_instance_profile(InstanceProfileName="reader")
        iam.add_role_to_instance_profile(InstanceProfileName="reader", RoleName="reader")
        image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        instance_id = ec2.run_instances(
            ImageId=image,
            InstanceType="m5.large",
            KeyName="test",
            UserData=USER_DATA,
            IamInstanceProfile={"Name": "reader"},
            MinCount=1,
            MaxCount=1,
            NetworkInterfaces=[{"DeviceIndex": 0, "SubnetId": subnet, "AssociatePublicIpAddress": True}],
        )["Instances"][0]["InstanceId"]
        ec2.get_waiter("instance_running").wait(InstanceIds=[instance_id], WaiterConfig={"Delay": 1, "MaxAttempts": 30})
        instance = describe(ec2, instance_id)
        yield Launched(cloud, network, ec2, instance, BareHost(instance_id, instance["PrivateIpAddress"], instance["PublicIpAddress"], key))


def document(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def describe(ec2: Any, instance_id: str) -> dict[str, Any]:
    return dict(ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"][0])


def test_running_instance_is_a_host_at_its_address(launched: Launched) -> None:
    host = launched.host
    assert ipaddress.ip_address(host.private_ip) in ipaddress.ip_network(launched.network)
    assert host.public_ip.startswith("127.")
    host.ssh("cloud-init status --wait && test -e /run/user-data")
    assert host.ssh("hostname -I").stdout.split() == [host.private_ip]


def test_console_output_is_the_host_s(launched: Launched) -> None:
    launched.host.ssh("cloud-init status --wait")
    key = launched.host.ssh("cut -d' ' -f2 /etc/ssh/ssh_host_ed25519_key.pub").stdout.strip()
    for latest in (True, False):
        output = launched.ec2.get_console_output(InstanceId=launched.host.name, Latest=latest)["Output"]
        assert key in output.replace(KERNEL_LINE, "")


def test_file_system_can_be_mounted_while_it_has_a_mount_target(launched: Launched) -> None:
    efs = launched.cloud.client("efs")
    file_system = efs.create_file_system(CreationToken="test", Encrypted=True)["FileSystemId"]
    wait_until(lambda: efs.describe_file_systems(FileSystemId=file_system)["FileSystems"][0]["LifeCycleState"] == "available")
    mount = f"sudo mount -t nfs4 -o nfsvers=4.1 {file_system}.efs.us-east-1.amazonaws.com:/ /mnt"
    assert launched.host.ssh(mount, check=False).returncode == 32
    target = efs.create_mount_target(FileSystemId=file_system, SubnetId=launched.instance["SubnetId"])["MountTargetId"]
    wait_until(lambda: launched.host.ssh(mount, check=False).returncode == 0)
    launched.host.ssh("sudo umount /mnt")
    efs.delete_mount_target(MountTargetId=target)
    wait_until(lambda: not efs.describe_mount_targets(FileSystemId=file_system)["MountTargets"])
    efs.delete_file_system(FileSystemId=file_system)
    wait_until(lambda: not (launched.cloud.cloud.home.file_systems / file_system).exists())


def test_a_restarted_server_finds_instances_and_hosts_again(launched: Launched) -> None:
    before = launched.host.ssh("cat /proc/1/stat").stdout.split()[21]
    launched.cloud.restart()
    assert describe(launched.ec2, launched.host.name)["State"]["Name"] == "running"
    assert launched.host.ssh("cat /proc/1/stat").stdout.split()[21] == before


def test_starting_twice_says_so(launched: Launched) -> None:
    done = local_cloud(launched, "start")
    assert done.stdout == f"local-cloud: already running at {launched.cloud.endpoint}\n"


def test_status_shows_the_instance(launched: Launched) -> None:
    line = next(line for line in local_cloud(launched, "status").stdout.splitlines() if launched.host.name in line)
    assert line.split()[2:] == ["m5.large", "running", launched.host.private_ip, launched.host.public_ip]


def test_env_is_enough_for_the_aws_tools(launched: Launched) -> None:
    exports = local_cloud(launched, "env").stdout
    code = "import boto3; print(boto3.client('sts').get_caller_identity()['Account'])"
    script = f'{exports}\n"{sys.executable}" -c "{code}"'
    assert subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.strip().isdecimal()


def test_a_host_finds_its_metadata_and_s3_as_on_aws(launched: Launched) -> None:
    s3 = launched.cloud.client("s3")
    s3.create_bucket(Bucket="data")
    s3.put_object(Bucket="data", Key="file", Body=b"content")
    token = "$(curl -sfX PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' http://169.254.169.254/latest/api/token)"
    ask = f'curl -sf -H "X-aws-ec2-metadata-token: {token}" http://169.254.169.254/latest/meta-data/instance-id'
    assert launched.host.ssh(ask).stdout == launched.host.name
    assert launched.host.ssh("aws s3 cp s3://data/file -").stdout == "content"
    denied = launched.host.ssh("echo more | sudo aws s3 cp - s3://data/other", check=False)
    assert "AccessDenied" in denied.stderr
    launched.cloud.restart()
    assert launched.host.ssh("aws s3 cp s3://data/file -").stdout == "content"


def test_hosts_that_lack_an_environment_are_known(launched: Launched) -> None:
    hosts = podman_hosts(launched.cloud.cloud.home, launched.cloud.cloud.setup)
    assert hosts.without(["aws-cli", "pytorch"]) == set()
    assert hosts.without(["aws-cli", "jax"]) == {launched.host.name}
    assert launched.cloud.cloud.relaunch(["jax"]) == [], "the instance belongs to no group that would replace it"


def test_terminated_instance_takes_its_host_along(launched: Launched) -> None:
    launched.ec2.terminate_instances(InstanceIds=[launched.host.name])
    wait_until(lambda: describe(launched.ec2, launched.host.name)["State"]["Name"] == "terminated")
    home = launched.cloud.cloud.home
    assert podman_hosts(home, launched.cloud.cloud.setup).labelled() == ([], [])
    assert not (home.hosts / launched.host.name).exists()


def local_cloud(launched: Launched, command: str) -> subprocess.CompletedProcess[str]:
    argv = [*COMMAND, "--home", str(launched.cloud.cloud.home.folder), command]
    return subprocess.run(argv, capture_output=True, text=True, check=True)


def test_status_of_no_cloud(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, "--home", str(tmp_path / "none"), "status"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "local-cloud: not running\n")


def test_a_cloud_chooses_a_range_that_is_free_and_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = CloudManager(tmp_path / "home")
    first, second = cloud.home.networks[:2]
    monkeypatch.setattr("local_cloud.manager.used_ranges", lambda: [first])
    chosen = cloud._with_network(Setup())
    assert chosen.network == second
    monkeypatch.setattr("local_cloud.manager.used_ranges", lambda: ["10.0.0.0/8"])
    assert cloud._with_network(chosen) == chosen
    monkeypatch.setattr("local_cloud.manager.used_ranges", list)
    assert cloud.further_network() == first
    cloud.home.prepare()
    cloud.home.write_setup(Setup(network=first))
    assert cloud.further_network() == second
    monkeypatch.setattr("local_cloud.manager.used_ranges", lambda: ["10.0.0.0/8"])
    with pytest.raises(CloudError, match=r"All address ranges from 10\.40\.0\.0/16 to 10\.96\.0\.0/16 are in use on this machine"):
        cloud._with_network(Setup())
    cloud.home.prepare()
    cloud.home.state_file.touch()
    assert cloud._with_network(Setup()).network == FORMER_NETWORK
