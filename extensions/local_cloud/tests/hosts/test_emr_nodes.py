"""Hosts that are nodes of EMR clusters: their user, their files, and bootstrap actions from S3."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from local_cloud.testing import BareHost, LocalCloud, unused_range, wait_until

FIRST = """#!/bin/bash
set -e
echo "$(id -un) in $PWD: $# arguments, the second is $2"
sudo mkdir /opt/first && sudo chown "$USER" /opt/first
test ! -e /etc/hadoop/conf
"""
SECOND = "#!/bin/sh\ntest -d /opt/first && touch /opt/first/second && aws s3 ls >/dev/null\n"
FAILING = "#!/bin/sh\necho started\necho the reason >&2\nexit 3\n"


class Emr:
    """A local cloud whose network has one subnet, and clusters in this subnet."""

    def __init__(self, cloud: LocalCloud, network: str, key: Path) -> None:
        self.cloud, self.client, self.ec2, self.key = cloud, cloud.client("emr"), cloud.client("ec2"), key
        vpc = self.ec2.create_vpc(CidrBlock=network)["Vpc"]["VpcId"]
        self.subnet = self.ec2.create_subnet(VpcId=vpc, CidrBlock=network, AvailabilityZone="us-east-1a")["Subnet"]["SubnetId"]
        self.ec2.import_key_pair(KeyName="test", PublicKeyMaterial=key.with_suffix(".pub").read_bytes())
        self.s3, self.iam = cloud.client("s3"), cloud.client("iam")
        self.s3.create_bucket(Bucket="scripts")
        cloud.control.set_delays(instance_profile=0, emr_service_role=0)
        for name, text in {"first.sh": FIRST, "second": SECOND, "failing": FAILING}.items():
            self.s3.put_object(Bucket="scripts", Key=f"emr/{name}", Body=text.encode())
        self.make_role("emr", "elasticmapreduce")
        self.make_role("nodes", "ec2", "s3:GetObject", "s3:PutObject", "s3:ListAllMyBuckets", "s3:ListBucket")
        self.make_role("powerless", "ec2", "s3:ListBucket")

    def make_role(self, name: str, service: str, *actions: str) -> None:
        trust = {"Effect": "Allow", "Principal": {"Service": f"{service}.amazonaws.com"}, "Action": "sts:AssumeRole"}
        self.iam.create_role(RoleName=name, AssumeRolePolicyDocument=document(trust))
        self.iam.create_instance_profile(InstanceProfileName=name)
        self.iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
        if actions:
            allowed = document({"Effect": "Allow", "Action": actions, "Resource": "*"})
            self.iam.put_role_policy(RoleName=name, PolicyName=name, PolicyDocument=allowed)

    def run(self, *actions: tuple[str, ...], core: int = 0, profile: str = "nodes") -> str:
        """Create a cluster with the given bootstrap actions, each a file and its arguments. Return the ID of the cluster."""
        counts = {"MASTER": 1, "CORE": core}
        groups = [{"InstanceRole": role, "InstanceType": "m5.xlarge", "InstanceCount": count} for role, count in counts.items() if count]
        identifier: str = self.client.run_job_flow(
            Name="test",
            ReleaseLabel="emr-7.9.0",
            JobFlowRole=profile,
            ServiceRole="emr",
            LogUri="s3://scripts/logs",
            Applications=[{"Name": "Spark"}],
            Instances={"InstanceGroups": groups, "KeepJobFlowAliveWhenNoSteps": True, "Ec2KeyName": "test", "Ec2SubnetId": self.subnet},
            BootstrapActions=[
                {"Name": path, "ScriptBootstrapAction": {"Path": f"s3://scripts/emr/{path}", "Args": list(arguments)}}
                for path, *arguments in actions
            ],
        )["JobFlowId"]
        return identifier

    def ends(self, cluster: str, state: str) -> dict[str, str]:
        """Wait until the cluster is in the given state, and return the reason for the state change."""
        wait_until(lambda: self.status(cluster)["State"] == state)
        reason: dict[str, str] = self.status(cluster)["StateChangeReason"]
        return reason

    def status(self, cluster: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.describe_cluster(ClusterId=cluster)["Cluster"]["Status"]
        return found

    def nodes(self, cluster: str, *roles: str) -> list[BareHost]:
        """Return the running nodes, with the master first."""
        found = self.client.list_instances(ClusterId=cluster, InstanceStates=["RUNNING"], InstanceGroupTypes=list(roles))["Instances"]
        return [BareHost(each["Ec2InstanceId"], each["PrivateIpAddress"], "", self.key, "hadoop") for each in found]

    def log(self, cluster: str, instance: str, number: int, name: str) -> str:
        key = f"logs/{cluster}/node/{instance}/bootstrap-actions/{number}/{name}.gz"
        return gzip.decompress(self.s3.get_object(Bucket="scripts", Key=key)["Body"].read()).decode()


def document(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


@pytest.fixture(scope="module")
def emr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emr]:
    folder = tmp_path_factory.mktemp("emr")
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with unused_range() as network, LocalCloud(folder / "home", environments=["aws-cli"]) as cloud:
        yield Emr(cloud, network, key)


@pytest.mark.exhaustive
def test_nodes_are_hosts_that_the_bootstrap_actions_prepare(emr: Emr) -> None:
    cluster = emr.run(("first.sh", "a", "b c"), ("second",), core=1)
    emr.ends(cluster, "WAITING")
    master, core = emr.nodes(cluster)
    for host in (master, core):
        log = emr.log(cluster, host.name, 1, "stdout")
        assert log == "hadoop in /emr/instance-controller/lib/bootstrap-actions/1: 2 arguments, the second is b c\n"
        assert emr.log(cluster, host.name, 2, "stderr") == ""
        assert host.ssh("ls /opt/first; sudo id -un; ls -d /etc/spark/conf /usr/lib/hadoop").stdout.split() == [
            "second",
            "root",
            "/etc/spark/conf",
            "/usr/lib/hadoop",
        ]
        described = json.loads(host.ssh("cat /mnt/var/lib/info/instance.json").stdout)
        flow = json.loads(host.ssh("cat /mnt/var/lib/info/job-flow.json").stdout)
        assert (described["isMaster"], flow["jobFlowId"], flow["masterInstanceId"]) == (host is master, cluster, master.name)
        assert host.ssh("aws configure get region").stdout == "us-east-1\n"
    name = f"ip-{master.private_ip.replace('.', '-')}.ec2.internal"
    assert f"hdfs://{name}:8020" in core.ssh("cat /etc/hadoop/conf/core-site.xml").stdout

    (group,) = [each["Id"] for each in emr.client.list_instance_groups(ClusterId=cluster)["InstanceGroups"] if each["Name"] == "CORE"]
    emr.client.modify_instance_groups(InstanceGroups=[{"InstanceGroupId": group, "InstanceCount": 2}])
    wait_until(lambda: len(emr.nodes(cluster, "CORE")) == 2)
    (added,) = [host for host in emr.nodes(cluster) if host.name not in (master.name, core.name)]
    assert added.ssh("ls /opt/first").stdout == "second\n"
    emr.client.modify_instance_groups(InstanceGroups=[{"InstanceGroupId": group, "InstanceCount": 1}])
    wait_until(lambda: added.name not in running(emr))
    emr.client.terminate_job_flows(JobFlowIds=[cluster])
    emr.ends(cluster, "TERMINATED")
    assert not {master.name, core.name} & running(emr)


def running(emr: Emr) -> set[str]:
    filters = [{"Name": "instance-state-name", "Values": ["running"]}]
    reservations = emr.ec2.describe_instances(Filters=filters)["Reservations"]
    return {each["InstanceId"] for reservation in reservations for each in reservation["Instances"]}


def test_a_bootstrap_action_that_fails_ends_the_cluster(emr: Emr) -> None:
    cluster = emr.run(("failing",), ("second",))
    reason = emr.ends(cluster, "TERMINATED_WITH_ERRORS")
    (instance,) = [each["Ec2InstanceId"] for each in emr.client.list_instances(ClusterId=cluster)["Instances"]]
    message = f"On the master instance ({instance}), bootstrap action 1 returned a non-zero return code"
    assert reason == {"Code": "BOOTSTRAP_FAILURE", "Message": message}
    assert [emr.log(cluster, instance, 1, name) for name in ("stdout", "stderr")] == ["started\n", "the reason\n"]
    assert "exit code 3" in emr.log(cluster, instance, 1, "controller")
    with pytest.raises(ClientError, match="NoSuchKey"):
        emr.log(cluster, instance, 2, "stdout")


@pytest.mark.exhaustive
@pytest.mark.parametrize(("path", "profile"), [("missing", "nodes"), ("second", "powerless")])
def test_a_script_that_the_node_cannot_read_ends_the_cluster(emr: Emr, path: str, profile: str) -> None:
    cluster = emr.run((path,), profile=profile)
    reason = emr.ends(cluster, "TERMINATED_WITH_ERRORS")
    assert reason["Code"] == "BOOTSTRAP_FAILURE"
    assert reason["Message"].endswith("failed attempting to download bootstrap action 1 file from S3")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can see the files of containers")
def test_the_file_on_the_master_keeps_the_cluster(emr: Emr) -> None:
    cluster = emr.run()
    emr.ends(cluster, "WAITING")
    emr.client.put_auto_termination_policy(ClusterId=cluster, AutoTerminationPolicy={"IdleTimeout": 600})
    (master,) = emr.nodes(cluster)
    master.ssh("sudo touch /emr/metricscollector/isbusy")
    emr.cloud.control.advance(3600)
    assert emr.status(cluster)["State"] == "WAITING"
    master.ssh("sudo touch -d '3 minutes ago' /emr/metricscollector/isbusy")
    emr.cloud.control.advance(601)
    emr.ends(cluster, "TERMINATED")
