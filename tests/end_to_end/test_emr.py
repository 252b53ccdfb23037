"""An EMR cluster, from its definition to a trained model and its termination. The tests build on each other."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage import mounts
from local_cloud.testing import BareHost, LocalCloud, unused_range, wait_until
from permissions import operator

from .conftest import REPOSITORY

REGION, CLUSTER, BUCKET = "us-east-1", "lab", "lab-emr"
SCRIPT = REPOSITORY / "examples" / "emr" / "mount_efs.sh"
MANAGED = "arn:aws:iam::aws:policy/service-role/AmazonElasticMapReduceforEC2Role"
ALL_REDUCE = """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: sum {int(total)}", flush=True)
dist.destroy_process_group()
"""
PUSH = """
import mxnet as mx
store = mx.kv.create("dist_sync")
store.init(1, mx.nd.zeros(1))
store.push(1, mx.nd.ones(1))
value = mx.nd.zeros(1)
store.pull(1, out=value)
print(f"rank {store.rank} of {store.num_workers}: {int(value.asscalar())}", flush=True)
"""
HOROVOD = """
import horovod.torch as hvd
import torch
hvd.init()
total = hvd.allreduce(torch.tensor(float(hvd.rank())), op=hvd.Sum, name="rank")
print(f"the sum of {hvd.size()} is {int(total)}", flush=True)
"""
ENDLESS = "import time\nprint('running', flush=True)\nwhile True:\n    time.sleep(1)\n"


class Lab:
    """A local cloud with a network, a file system and a bucket, in which playbooks run as the operator of an EMR cluster."""

    def __init__(self, cloud, network, folder):
        self.cloud, self.folder, self.key = cloud, folder, Path(cloud.environment["LOCAL_CLOUD_HOME"]) / "id_ed25519"
        self.ec2, self.emr, self.s3, self.iam = (cloud.client(each) for each in ("ec2", "emr", "s3", "iam"))
        self.subnet = self._network(network)
        self.file_system = self._file_system()
        self.s3.create_bucket(Bucket=BUCKET)
        self.s3.put_object(Bucket=BUCKET, Key="mount_efs.sh", Body=SCRIPT.read_bytes())
        self._roles()
        self.definition = {
            "deeplearning_emr_release_label": "emr-7.9.0",
            "deeplearning_emr_instance_type": "m5.xlarge",
            "deeplearning_emr_core_count": 2,
            "deeplearning_emr_idle_after": "30m",
            "deeplearning_emr_key_name": "local-cloud",
            "deeplearning_emr_subnet_id": self.subnet,
            "deeplearning_emr_log_uri": f"s3://{BUCKET}/logs",
            "deeplearning_emr_bootstrap_actions": [{"path": f"s3://{BUCKET}/mount_efs.sh", "args": [self.file_system, REGION]}],
            "deeplearning_file_system_id": self.file_system,
            "training_job_report_directory": str(folder),
        }
        nodes = {"plugin": "deeplearning.cluster.nodes", "cluster": CLUSTER, "region": REGION, "node_service": "emr"}
        login = {"private_key_file": str(self.key), "ssh_directory": str(folder / "ssh")}
        self.inventory = folder / "nodes.yml"
        self.inventory.write_text(json.dumps({**nodes, **login}))
        self.environment = operator(cloud, "emr", CLUSTER)
        self._addresses = {}

    def _network(self, cidr):
        vpc = self.ec2.create_vpc(CidrBlock=cidr)["Vpc"]["VpcId"]
        self.ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
        subnet = self.ec2.create_subnet(VpcId=vpc, CidrBlock=cidr, AvailabilityZone=f"{REGION}a")["Subnet"]["SubnetId"]
        gateway = self.ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        self.ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
        (table,) = self.ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["RouteTables"]
        self.ec2.create_route(RouteTableId=table["RouteTableId"], DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
        return subnet

    def _file_system(self):
        efs = self.cloud.client("efs")
        identifier = efs.create_file_system()["FileSystemId"]
        wait_until(lambda: efs.describe_file_systems(FileSystemId=identifier)["FileSystems"][0]["LifeCycleState"] == "available")
        efs.create_mount_target(FileSystemId=identifier, SubnetId=self.subnet)
        return identifier

    def _roles(self):
        for name, service in (("EMR_DefaultRole", "elasticmapreduce"), ("EMR_EC2_DefaultRole", "ec2")):
            statement = {"Effect": "Allow", "Principal": {"Service": f"{service}.amazonaws.com"}, "Action": "sts:AssumeRole"}
            trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
            self.iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)
        self.iam.attach_role_policy(RoleName="EMR_EC2_DefaultRole", PolicyArn=MANAGED)
        self.iam.create_instance_profile(InstanceProfileName="EMR_EC2_DefaultRole")
        self.iam.add_role_to_instance_profile(InstanceProfileName="EMR_EC2_DefaultRole", RoleName="EMR_EC2_DefaultRole")

    def play(self, name, *arguments, status=0, **variables):
        """Run a playbook and return its output as one line. `status` is the expected exit status."""
        command = ["ansible-playbook", "-i", str(self.inventory), str(REPOSITORY / "playbooks" / f"{name}.yml"), *arguments]
        command += ["-e", json.dumps({**self.definition, **variables})]
        done = subprocess.run(
            command, env=self.environment, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        assert done.returncode == status, done.stdout
        return done.stdout

    def train(self, name, script, **variables):
        path = self.folder / f"{name}.py"
        path.write_text(script)
        job = {"name": name, "source": "", "script": str(path), "arguments": [], **variables}
        return self.play("train", **{f"training_job_{key}": value for key, value in job.items()})

    def listed(self):
        """Return the hosts of the inventory with their variables."""
        done = subprocess.run(
            ["ansible-inventory", "-i", str(self.inventory), "--list"],
            env=self.environment,
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        )
        found = json.loads(done.stdout, object_hook=lambda item: item.get("__ansible_unsafe", item))
        hosts = found["_meta"]["hostvars"]
        self._addresses = {name: each["deeplearning_private_ip"] for name, each in hosts.items()}
        return hosts

    def ssh(self, host, command):
        """Run a command on a host that `listed` has returned, as the host's login user."""
        return BareHost(host, self._addresses[host], "", self.key, "hadoop").ssh(command).stdout

    def log(self, job, rank):
        return self.ssh(f"{CLUSTER}-master", f"cat /efs/jobs/{job}/logs/{rank}.log")


@pytest.fixture(scope="module")
def lab(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("emr")
    with_frameworks = any(item.get_closest_marker("frameworks") for item in request.session.items)
    environments = ["aws-cli", "horovod", "mxnet"] if with_frameworks else ["aws-cli"]
    with unused_range() as network, LocalCloud(folder / "home", environments=environments) as cloud:
        yield Lab(cloud, network, folder)


@pytest.fixture(scope="module")
def created(lab):
    return lab.play("emr")


@pytest.fixture(scope="module")
def trained(lab, created):
    lab.listed()
    return lab.train("sum", ALL_REDUCE, launcher="torchrun", python="/opt/pytorch/bin/python")


def test_the_inventory_lists_the_nodes(lab, created):
    assert f"EMR cluster {CLUSTER}" in created
    hosts = lab.listed()
    assert list(hosts) == [f"{CLUSTER}-master", f"{CLUSTER}-worker2", f"{CLUSTER}-worker3"]
    assert {each["ansible_user"] for each in hosts.values()} == {"hadoop"}
    assert [each["deeplearning_number"] for each in hosts.values()] == [1, 2, 3]


def test_the_bootstrap_action_has_mounted_the_file_system(lab, created):
    line = mounts.efs(lab.file_system, REGION, "/efs", encrypted=False).entry
    for host in lab.listed():
        assert line in lab.ssh(host, "cat /etc/fstab").splitlines()
        assert lab.ssh(host, "touch /efs/$(hostname) && stat -c %U /efs && sudo true").strip() == "hadoop"
    assert len(lab.ssh(f"{CLUSTER}-master", "ls /efs/ip-*").split()) == 3


@pytest.mark.exhaustive
def test_a_second_run_changes_nothing(lab, created):
    assert re.search(r"localhost +: .*changed=0", lab.play("emr"))


def test_torchrun_trains_on_all_nodes(lab, trained):
    assert "succeeded after" in trained
    assert "hosts        3 (lab-master, lab-worker2, lab-worker3)" in trained
    for rank in range(3):
        assert f"rank {rank} of 3: sum 3\n" in lab.log("sum", f"rank{rank}"), (
            "not always the last line: agents complain when another one ends first"
        )
    assert "sum succeeded after" in lab.play("status")


@pytest.mark.frameworks
def test_mxnet_trains_on_all_nodes(lab, trained):
    output = lab.train("push", PUSH, launcher="mxnet", python="/opt/mxnet/bin/python")
    assert "succeeded after" in output
    logs = lab.ssh(f"{CLUSTER}-master", "cat /efs/jobs/push/logs/*.log")
    assert sorted(re.findall(r"rank (\d) of 3: 3", logs)) == ["0", "1", "2"]


@pytest.mark.frameworks
def test_horovod_trains_on_all_nodes(lab, trained):
    output = lab.train("together", HOROVOD, launcher="horovod", python="/opt/horovod/bin/python")
    assert "succeeded after" in output
    assert lab.log("together", "mpirun").count("the sum of 3 is 3") == 3


@pytest.mark.exhaustive
def test_a_model_learns_and_a_second_job_continues_it(lab, trained):
    example = {"training_job_source": f"{REPOSITORY}/examples/digits", "training_job_script": "train.py"}
    first = lab.play("train", **example, training_job_name="digits-1", training_job_arguments=["--epochs", "20"])
    assert "hosts        3 (lab-master, lab-worker2, lab-worker3)" in first
    accuracies = [float(each) for each in re.findall(r"epoch \d+: loss [\d.]+, held-out accuracy ([\d.]+)", lab.log("digits-1", "rank0"))]
    assert len(accuracies) == 20
    assert accuracies[-1] > 0.9
    lab.play("train", **example, training_job_name="digits-2", training_job_arguments=["--epochs", "21"], training_job_resume="digits-1")
    assert "continues after epoch 20" in lab.log("digits-2", "rank0")


@pytest.mark.exhaustive
def test_a_job_that_is_stopped_no_longer_keeps_nodes(lab, trained):
    lab.train("endless", ENDLESS, launcher="command", python="/usr/bin/python3", wait=False)
    refused = lab.play("emr", status=2, deeplearning_emr_core_count=1)
    assert "Nodes cannot be removed while" in " ".join(refused.split())
    assert "endless" in refused
    lab.play("stop", training_job_name="endless")
    assert "endless stopped" in lab.play("status")


def test_the_playbooks_for_other_nodes_are_refused(lab, trained):
    refused = " ".join(lab.play("destroy", status=2).split())
    assert f"this playbook does not manage the nodes of cluster {CLUSTER}, because the inventory specifies emr" in refused


@pytest.mark.exhaustive
def test_the_cluster_grows_and_shrinks_while_a_job_runs_on_other_nodes(lab, trained):
    before = {name: each["deeplearning_instance_id"] for name, each in lab.listed().items()}
    lab.train("kept", ENDLESS, launcher="command", python="/usr/bin/python3", wait=False, hosts="lab-master:lab-worker2")
    lab.play("emr", deeplearning_emr_core_count=4)
    grown = {name: each["deeplearning_instance_id"] for name, each in lab.listed().items()}
    assert list(grown) == ["lab-master", *(f"lab-worker{number}" for number in (2, 3, 4, 5))]
    assert before.items() <= grown.items()
    lab.play("configure", deeplearning_emr_core_count=4)
    lab.play("emr", deeplearning_emr_core_count=1)
    shrunk = {name: each["deeplearning_instance_id"] for name, each in lab.listed().items()}
    assert shrunk == {name: before[name] for name in ("lab-master", "lab-worker2")}
    assert "kept running" in lab.play("status")
    lab.play("stop", training_job_name="kept")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can see the files of containers")
def test_emr_does_not_end_the_cluster_while_a_job_runs(lab, trained):
    roles = [lab.ssh(host, "grep -o 'report.zip .*' /etc/systemd/system/deeplearning_idle.service") for host in lab.listed()]
    assert roles == ["report.zip master\n", *["report.zip worker\n"] * (len(roles) - 1)]
    lab.train("busy", ENDLESS, launcher="command", python="/usr/bin/python3", wait=False)
    lab.cloud.control.advance(3600)
    (cluster,) = lab.emr.list_clusters(ClusterStates=["WAITING"])["Clusters"]
    assert cluster["Name"] == CLUSTER
    lab.play("stop", training_job_name="busy")


def test_the_end_of_the_cluster(lab, trained):
    lab.play("emr", deeplearning_state="absent")
    assert lab.listed() == {}
    parameters = lab.cloud.client("ssm").describe_parameters()["Parameters"]
    assert [each["Name"] for each in parameters if f"/{CLUSTER}/" in each["Name"]] == []


@pytest.mark.exhaustive
def test_what_a_failed_bootstrap_action_printed_is_in_the_message(lab):
    lab.play("emr", deeplearning_state="absent")
    lab.s3.put_object(Bucket=BUCKET, Key="failing.sh", Body=b"#!/bin/sh\necho the disk is full >&2\nexit 3\n")
    failed = lab.play("emr", status=2, deeplearning_emr_bootstrap_actions=[{"path": f"s3://{BUCKET}/failing.sh"}])
    message = " ".join(failed.split())
    assert (
        "bootstrap action 1 returned a non-zero return code. It printed: the disk is full. EMR copies the logs to s3://lab-emr/" in message
    )
