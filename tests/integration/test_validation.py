"""The module that runs all validators, the validators that check the account, and the documentation page about validators."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import ansible_commands
import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr.validators import VALIDATORS as EMR_VALIDATORS
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validators.registry import VALIDATORS

from .conftest import REGION, ModuleFailed

STANDARD_ON_DEMAND = "L-1216C47A"
STANDARD_SPOT = "L-34B43A08"
ADDRESSES = "L-0263D0A3"
VPCS = "L-F678F1CE"
DENIED = {"service": "servicequotas", "code": "AccessDeniedException", "status": 400}


def actions(cloud, service):
    return [call["action"] for call in cloud.control.calls() if call["service"] == service]


def findings(failure):
    return [(item["validator"], item["level"]) for item in failure.value.result["findings"]]


def test_a_good_definition(cloud, run, definition):
    result = run("cluster_validation", **definition)
    assert (result["changed"], result["valid"], result["findings"]) == (False, True, [])
    assert all(call["read_only"] for call in cloud.control.calls())
    assert actions(cloud, "ec2").count("DescribeInstanceTypes") == 1, "many validators need it at the same time"


def test_all_findings_at_once_and_none_that_is_suppressed(cloud, run, definition):
    cloud.control.set_faults([DENIED])
    wrong = {**definition, "key_name": "nobody", "ssh_cidrs": ["0.0.0.0/0"], "network_cidr": "10.0.0.0/99"}
    with pytest.raises(ModuleFailed) as failure:
        run("cluster_validation", **wrong)
    errors = [("network_cidr", "error"), ("ssh_cidrs", "error"), ("key_pair", "error")]
    assert findings(failure) == [*errors, ("quotas_readable", "warning")]
    assert not failure.value.result["valid"]
    assert [line.split(":")[0] for line in failure.value.result["msg"].splitlines()] == ["network_cidr", "ssh_cidrs", "key_name"]
    with pytest.raises(ModuleFailed) as failure:
        run("cluster_validation", **wrong, suppress_validators=["network_cidr", "quotas_readable"])
    assert findings(failure) == [("ssh_cidrs", "error"), ("key_pair", "error")]


def test_what_cannot_be_told_without_an_answer_hides_no_other_finding(run, definition):
    """Other validators depend on the list of zones that offer the type."""
    with pytest.raises(ModuleFailed) as failure:
        run("cluster_validation", **{**definition, "instance_type": "p99.large", "key_name": "nobody"})
    assert findings(failure) == [("key_pair", "error"), ("instance_type_offered", "error")]
    with pytest.raises(ModuleFailed, match=r"p99\.large is not offered"):
        run("cluster_validation", **{**definition, "instance_type": "p99.large"}, suppress_validators=["instance_type_offered"])


def test_what_is_to_be_deleted_is_not_asked_about(cloud, run, name):
    assert run("cluster_validation", cluster=name, state="absent")["findings"] == []


@pytest.mark.parametrize(
    ("quotas", "change", "message"),
    [
        (
            {STANDARD_ON_DEMAND: 5},
            {},
            r"instance_type: 3 nodes of c5\.large \(on-demand\) need 6 vCPUs, but the quota 'Running On-Demand Standard"
            r".*' \(L-1216C47A\) in us-east-1 allows 5.*request-service-quota-increase --region us-east-1 .*--quota-code L-1216C47A",
        ),
        ({STANDARD_SPOT: 5}, {"market": "spot"}, r"instance_type: 3 nodes of c5\.large \(spot\) need 6 vCPUs, but .* allows 5"),
        (
            {STANDARD_ON_DEMAND: 5, STANDARD_SPOT: 11},
            {"alternatives": [{"instance_type": "c5.xlarge", "market": "spot"}]},
            r"c5\.large \(on-demand\) need 6 vCPUs.*\n.*c5\.xlarge \(spot\) need 12 vCPUs",
        ),
        ({ADDRESSES: 0}, {}, r"nat: the cluster needs 1 more Elastic IP address, but \d+ of the 0 that the quota 'EC2-VPC Elastic IPs'"),
        (
            {"L-FE5A380F": 0},
            {"zones": ["us-east-1c"]},
            r"nat: the cluster needs a NAT gateway in us-east-1c, but 0 of the 0 that the quota 'NAT gateways per Availability Zone'",
        ),
        ({VPCS: 1}, {}, r"vpc_id: the cluster needs a VPC of its own, but \d+ of the 1 that the quota 'VPCs per Region'"),
    ],
)
def test_a_quota_that_is_too_small(cloud, run, definition, quotas, change, message):
    vpc = cloud.client("ec2").create_vpc(CidrBlock="10.21.0.0/16")["Vpc"]["VpcId"]
    cloud.client("ec2").create_nat_gateway(AvailabilityMode="regional", VpcId=vpc)  # it is in no zone
    cloud.control.forget_calls()
    cloud.control.set_quotas(quotas)
    with pytest.raises(ModuleFailed, match=message):
        run("cluster", **definition, **change)
    assert all(call["read_only"] for call in cloud.control.calls())


def test_a_nat_gateway_counts_until_it_is_deleted(cloud, run, definition):
    ec2, zone = cloud.client("ec2"), "us-east-1d"
    vpc = ec2.create_vpc(CidrBlock="10.21.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.21.0.0/24", AvailabilityZone=zone)["Subnet"]["SubnetId"]
    cloud.control.set_delays(nat_gateway=3600)
    gateway = ec2.create_nat_gateway(SubnetId=subnet, ConnectivityType="private")["NatGateway"]["NatGatewayId"]
    ec2.delete_nat_gateway(NatGatewayId=gateway)
    cloud.control.set_quotas({"L-FE5A380F": 1})
    with pytest.raises(ModuleFailed, match=f"nat: the cluster needs a NAT gateway in {zone}, but 1 of the 1 that the quota"):
        run("cluster", **definition, zones=[zone])


@pytest.mark.parametrize(
    ("quotas", "change"),
    [
        ({STANDARD_ON_DEMAND: 5, STANDARD_SPOT: 12}, {"alternatives": [{"instance_type": "c5.xlarge", "market": "spot"}]}),
        ({STANDARD_ON_DEMAND: 4}, {"worker_minimum": 1}),
        ({ADDRESSES: 0}, {"nat": "none"}),
    ],
)
def test_a_quota_that_suffices(cloud, run, definition, quotas, change):
    others = {STANDARD_ON_DEMAND: running_vcpus(cloud, None), STANDARD_SPOT: running_vcpus(cloud, "spot")}
    cloud.control.set_quotas({code: value + others.get(code, 0) for code, value in quotas.items()})
    assert run("cluster_validation", **definition, **change)["valid"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"write_buckets": [f"{'b' * 55}-{number}" for number in range(45)]},
            r"^write_buckets: the policy of the role would have 1\d{4} characters, but IAM allows 10240",
        ),
        ({"ssh_cidrs": [f"203.0.113.{number}/32" for number in range(61)]}, "^ssh_cidrs: 61 IPv4 ranges exceed the limit of 60 rules"),
    ],
)
def test_a_limit_of_aws_is_known_before_anything_is_made(cloud, run, definition, change, message):
    with pytest.raises(ModuleFailed, match=message):
        run("cluster", **{**definition, **change})
    assert all(call["read_only"] for call in cloud.control.calls())


def running_vcpus(cloud, lifecycle):
    """Return the number of vCPUs of all pending and running instances with this lifecycle."""
    ec2 = cloud.client("ec2")
    pages = ec2.get_paginator("describe_instances").paginate(Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}])
    types = [
        instance["InstanceType"]
        for page in pages
        for reservation in page["Reservations"]
        for instance in reservation["Instances"]
        if instance.get("InstanceLifecycle") == lifecycle
    ]
    if not types:
        return 0
    described = ec2.describe_instance_types(InstanceTypes=sorted(set(types)))["InstanceTypes"]
    vcpus = {item["InstanceType"]: item["VCpuInfo"]["DefaultVCpus"] for item in described}
    return sum(vcpus[instance_type] for instance_type in types)


def test_what_others_run_counts_and_a_complete_cluster_asks_nothing(cloud, run, definition, name):
    run("cluster", **definition)
    others = running_vcpus(cloud, None)
    cloud.control.set_quotas({STANDARD_ON_DEMAND: others, ADDRESSES: 0, VPCS: 0})
    cloud.control.forget_calls()
    assert not run("cluster", **definition)["changed"]
    assert actions(cloud, "servicequotas") == []

    bigger = {**definition, "instance_type": "c5.xlarge"}
    told = {item["validator"]: item["message"] for item in run("cluster_validation", **bigger)["findings"]}
    assert told.keys() == {"replacement_vcpu_quota", "outdated_nodes"}
    assert re.search(
        r"^instance_type: 3 nodes of c5\.xlarge \(on-demand\) need 12 vCPUs, but .* A run that replaces these nodes fails while",
        told["replacement_vcpu_quota"],
    )
    with pytest.raises(ModuleFailed, match=r"^instance_type: 3 nodes of c5\.xlarge \(on-demand\) need 12 vCPUs") as failure:
        run("cluster_validation", **bigger, replace_nodes=True)
    assert findings(failure) == [("vcpu_quota", "error")]

    cloud.control.set_quotas({STANDARD_ON_DEMAND: others + 1})
    with pytest.raises(ModuleFailed, match=r"4 nodes of c5\.large \(on-demand\) need 8 vCPUs, but the quota"):
        run("cluster", **{**definition, "worker_count": 3})
    cloud.control.set_quotas({STANDARD_ON_DEMAND: others + 2})
    run("cluster", **{**definition, "worker_count": 3})


def test_quotas_that_may_not_be_read_are_a_warning(cloud, run, definition):
    cloud.control.set_faults([DENIED])
    result = run("cluster_validation", **definition)
    assert [item["validator"] for item in result["findings"]] == ["quotas_readable"]
    assert "Allow servicequotas:ListServiceQuotas, or check the network. (validator quotas_readable)" in str(result["warnings"])


def test_the_playbook_takes_the_definition_of_the_role(cloud, definition, name, repository, tmp_path):
    inventory = tmp_path / "nodes.yml"
    inventory.write_text(json.dumps({"plugin": "deeplearning.cluster.nodes", "cluster": name, "region": REGION}))

    def validate(further=(), **changes):
        options = {option: value for option, value in {**definition, **changes}.items() if option != "cluster"}
        variables = {**{f"deeplearning_{option}": value for option, value in options.items()}, **dict(further)}
        playbook = str(repository / "playbooks/validate.yml")
        command = ["ansible-playbook", "-i", str(inventory), playbook, "-e", json.dumps(variables)]
        finished = ansible_commands.run(command, cloud.environment, tmp_path)
        return finished.stdout + finished.stderr

    good = validate()
    assert f"No errors and no warnings: {name} can be provisioned." in good
    assert "Unknown variable" not in good
    misspelled = " ".join(validate({"cost_center": "research"}, worker_cuont=3, spot=True).split())
    assert "Unknown variable 'deeplearning_worker_cuont'. Did you mean 'deeplearning_worker_count'?" in misspelled
    assert "cost_center" not in misspelled, "a variable without a prefix of the collection belongs to the user"
    assert "'deeplearning_spot' is not a variable of this collection and has no effect" in misspelled
    assert "can be provisioned" not in misspelled
    allowed = {"deeplearning_allow_unknown_variables": True}
    assert "No errors and 1 warning" in " ".join(validate(allowed, worker_cuont=3).split())
    job = {"training_job_script": "train.py", "training_job_launcher": "torchrum"}
    both = validate(job, key_name="nobody", file_system_id="fs-0123456789abcdef0")
    assert "deeplearning_key_name: there is no key pair 'nobody'" in both
    own_process = tmp_path / "python"
    own_process.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    own_process.chmod(0o755)
    other = validate({"ansible_python_interpreter": str(own_process)}, key_name="nobody")
    assert "deeplearning_key_name: there is no key pair 'nobody'" in other
    assert "training_job_launcher: 'torchrum' is unknown" in both.replace("''", "'")
    assert both.count("fatal:") == 1, "there is only one list"
    assert "fs-0123456789abcdef0" in both
    of_role = " ".join(validate({"provision_key_name": "nobody"}).split())
    assert "Unknown variable 'provision_key_name'. Did you mean 'deeplearning_key_name'?" in of_role


def test_the_private_key_has_to_be_that_of_the_key_pair(cloud, run, definition, name, tmp_path):
    ec2 = cloud.client("ec2")
    made = ec2.create_key_pair(KeyName=f"{name}-made", KeyType="rsa")
    own, other = tmp_path / "own.pem", tmp_path / "other.pem"
    own.write_text(made["KeyMaterial"])
    own.chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    ec2.import_key_pair(KeyName=f"{name}-imported", PublicKeyMaterial=other.with_suffix(".pem.pub").read_bytes())
    for key_name, file, refused in (
        (f"{name}-made", own, ""),
        (f"{name}-made", other, f"private_key_file: {other} does not belong to the key pair '{name}-made' (key_name) in {REGION}"),
        (f"{name}-imported", other, ""),
        (f"{name}-imported", own, f"private_key_file: {own} does not belong to the key pair '{name}-imported'"),
        (f"{name}-made", tmp_path / "none.pem", f"private_key_file: '{tmp_path}/none.pem' is not a file on the controller"),
    ):
        options = {**definition, "key_name": key_name, "private_key_file": str(file)}
        if not refused:
            assert run("cluster_validation", **options)["findings"] == []
            continue
        with pytest.raises(ModuleFailed) as failure:
            run("cluster_validation", **options)
        assert refused in failure.value.result["msg"]
        assert findings(failure) == [("private_key", "error")]


def test_every_validator_is_on_the_page(repository):
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| .+\? \| .+ \|$", (repository / "docs/validators.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted((validator.name, validator.level.value) for validator in (*VALIDATORS, *EMR_VALIDATORS))


def test_an_image_of_an_old_system_is_refused_before_anything_is_made(cloud, run, definition):
    ec2 = cloud.client("ec2")
    source = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    image = ec2.copy_image(SourceImageId=source, SourceRegion=REGION, Name="amzn2-ami-hvm-2.0.20250101.0-x86_64-gp2")["ImageId"]
    message = rf"image_id: {image} \(amzn2-ami-hvm-.*\) runs Amazon Linux 2 or older.*Choose an Ubuntu, Debian or Amazon Linux 2023 image"
    with pytest.raises(ModuleFailed, match=message):
        run("cluster", **{**definition, "image_parameter": None, "image_id": image})
    assert [call["action"] for call in cloud.control.calls() if not call["read_only"]] == ["CopyImage"]
