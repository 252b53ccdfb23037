"""How nodes are launched: network adapters, placement, images, volumes."""

from __future__ import annotations

import re

import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision import delete

from .clusters import EXPECTED, P4D, described, inventory, steps, writes
from .conftest import IMAGE_PARAMETER, ModuleFailed

ONE_CARD = "c5n.18xlarge"


@pytest.fixture
def fast(definition):
    """A cluster of instances with four EFA network cards."""
    return {**definition, "instance_type": P4D, "worker_count": 1, "efa": True}


def left(cloud, name):
    """Return the placement groups and addresses that have the cluster's tag."""
    filters = [{"Name": "tag:deeplearning:cluster", "Values": [name]}]
    ec2 = cloud.client("ec2")
    return [
        *ec2.describe_placement_groups(Filters=filters)["PlacementGroups"],
        *ec2.describe_addresses(Filters=filters)["Addresses"],
    ]


def test_adapters_on_every_card_in_one_placement_group(cloud, run, fast, name):
    predicted = run("cluster", **fast, check=True)
    applied = run("cluster", **fast)
    assert steps(applied) == steps(predicted) == {("create", item) for item in EXPECTED | {"master_address master"}}
    cloud.control.forget_calls()
    assert not run("cluster", **fast)["changed"]
    assert writes(cloud) == []

    types = {(0, 0): "interface", (0, 1): "efa-only", (1, 0): "efa-only", (2, 0): "efa-only", (3, 0): "efa-only"}
    group = applied["resources"]["security_group"]["nodes"]
    for instance in described(cloud, name):
        interfaces = instance["NetworkInterfaces"]
        places = {(item["Attachment"]["NetworkCardIndex"], item["Attachment"]["DeviceIndex"]): item["InterfaceType"] for item in interfaces}
        assert places == types
        assert all(group in {item["GroupId"] for item in interface["Groups"]} for interface in interfaces)
        assert instance["Placement"]["GroupName"] == name
    (address,) = [
        item["PublicIp"] for item in left(cloud, name) if item.get("AllocationId") in applied["resources"]["master_address"].values()
    ]
    assert [item.get("PublicIpAddress") for item in described(cloud, name, "Master")] == [address]
    assert [node["efa"] for node in run("cluster_info", cluster=name)["nodes"]] == [True, True]

    gone = run("cluster", cluster=name, state="absent", delete_data=True)
    assert {item for _action, item in steps(gone)} == {item for _action, item in steps(applied)}
    assert left(cloud, name) == []


def test_the_address_follows_the_master(cloud, run, fast, name):
    run("cluster", **fast)
    (lost,) = described(cloud, name, "Master")
    cloud.client("ec2").terminate_instances(InstanceIds=[lost["InstanceId"]])
    assert steps(run("cluster", **fast)) == {("update", "nodes master"), ("update", "master_address master")}
    (master,) = described(cloud, name, "Master")
    assert (master["InstanceId"] != lost["InstanceId"], master["PublicIpAddress"]) == (True, lost["PublicIpAddress"])
    assert not run("cluster", **fast)["changed"]


def test_a_new_master_gets_its_address_before_the_workers_are_in_service(cloud, run, fast, name):
    """The master has several network interfaces, so its only public address is an Elastic IP address.

    The master's boot script installs packages.
    """
    fast |= {"capacity_timeout": 3, "suppress_validators": ["vcpu_quota"]}
    filters = [{"Name": "instance-type", "Values": [P4D]}, {"Name": "instance-state-name", "Values": ["running", "shutting-down"]}]
    in_use = len(cloud.client("ec2").describe_instances(Filters=filters)["Reservations"])
    cloud.control.set_capacity({P4D: {"us-east-1a": in_use + 1}})
    cloud.control.forget_calls()
    with pytest.raises(ModuleFailed, match=r"0 of 1 nodes of .*-workers"):
        run("cluster", **fast)
    assert "AssociateAddress" in writes(cloud)
    cloud.control.set_capacity({P4D: {"us-east-1a": 0}})
    with pytest.raises(ModuleFailed, match=r"insufficient capacity.*0 of 1 nodes of .*-master"):
        run("cluster", **{**fast, "worker_count": 0})
    cloud.control.set_capacity({P4D: {"us-east-1a": None}})
    run("cluster", **fast)
    (master,) = described(cloud, name, "Master")
    assert master["PublicIpAddress"]


def test_the_address_of_an_unfinished_run_is_given_to_the_master_later(cloud, run, fast, name):
    run("cluster", **fast, wait=False)
    assert ("update", "master_address master") in steps(run("cluster", **fast))
    (master,) = described(cloud, name, "Master")
    assert master["PublicIpAddress"]


def test_one_card_needs_no_address_of_its_own(cloud, run, fast, name, tmp_path):
    applied = run("cluster", **{**fast, "instance_type": ONE_CARD})
    assert "master_address" not in applied["resources"]
    (master,) = described(cloud, name, "Master")
    assert master["PublicIpAddress"]
    assert [item["InterfaceType"] for item in master["NetworkInterfaces"]] == ["efa"]
    listed, _errors = inventory(cloud, tmp_path, name)
    assert {host: variables["deeplearning_has_efa"] for host, variables in listed["_meta"]["hostvars"].items()} == {
        f"{name}-master": True,
        f"{name}-worker2": True,
    }


def test_the_group_of_one_unit_stays_until_the_other_has_gone(cloud, run, fast, name):
    run("cluster", **fast)
    assert ("delete", "placement_group main") not in steps(run("cluster", components=["workers"], cluster=name, state="absent"))
    gone = steps(run("cluster", components=["master"], cluster=name, state="absent"))
    assert {("delete", "placement_group main"), ("delete", "master_address master")} <= gone


def test_without_efa_nodes_keep_what_they_use_until_they_are_replaced(cloud, run, fast, name):
    run("cluster", **fast)
    slow = {**fast, "efa": False, "placement": "none"}
    assert steps(run("cluster", **slow)) == set()
    replaced = steps(run("cluster", **slow, replace_nodes=True))
    assert {("update", "launch_template master"), ("update", "nodes workers")} <= replaced
    (master,) = described(cloud, name, "Master")
    assert [item["InterfaceType"] for item in master["NetworkInterfaces"]] == ["interface"]
    assert steps(run("cluster", **slow)) == {("delete", "placement_group main"), ("delete", "master_address master")}
    assert not run("cluster", **slow)["changed"]


def test_an_adopted_placement_group_is_used_and_never_deleted(cloud, run, definition, name):
    ec2 = cloud.client("ec2")
    ec2.create_placement_group(GroupName=f"{name}-theirs", Strategy="cluster")
    adopting = {**definition, "placement_group": f"{name}-theirs"}
    assert ("create", "placement_group main") not in steps(run("cluster", **adopting))
    assert {instance["Placement"]["GroupName"] for instance in described(cloud, name)} == {f"{name}-theirs"}
    assert not run("cluster", **adopting)["changed"]
    run("cluster", cluster=name, state="absent", placement_group=f"{name}-theirs")
    assert ec2.describe_placement_groups(GroupNames=[f"{name}-theirs"])["PlacementGroups"]


def test_a_new_cluster_is_in_a_placement_group_and_an_existing_one_keeps_its_placement(cloud, run, definition, name):
    without = {**definition, "placement": "none"}
    run("cluster", **without)
    assert not run("cluster", **definition, allow_outdated_nodes=False)["changed"], "a cluster without a placement group stays as it is"
    run("cluster", **definition, replace_nodes=True)
    assert placement_groups_of(cloud, name) == {None}
    run("cluster", cluster=name, state="absent")

    predicted = run("cluster", **definition, check=True)
    applied = run("cluster", **definition)
    assert steps(applied) == steps(predicted)
    assert ("create", "placement_group main") in steps(applied)
    assert placement_groups_of(cloud, name) == {name}
    run("cluster", **{**definition, "worker_count": 0})
    zones = ["us-east-1a", "us-east-1b"]
    assert {change["kind"] for change in run("cluster", **definition, zones=zones)["changes"]}.isdisjoint({"launch_template"})
    assert placement_groups_of(cloud, name) == {name}
    assert {each["Placement"]["AvailabilityZone"] for each in described(cloud, name)} == {"us-east-1a"}
    deferred = run("cluster", **without, zones=zones)["deferred"]
    assert "placement_group" in str(deferred)


def placement_groups_of(cloud, name):
    """Return the placement groups of the cluster's nodes."""
    return {each["Placement"].get("GroupName") or None for each in described(cloud, name)}


def test_a_placement_group_of_somebody_else_is_not_taken_over(cloud, run, definition, name):
    cloud.client("ec2").create_placement_group(GroupName=name, Strategy="cluster")
    with pytest.raises(ModuleFailed, match=rf"the placement group {name} exists.*Set placement_group: {name}"):
        run("cluster", **definition, placement="cluster")


def test_an_image_is_looked_up_once(cloud, run, definition, name):
    ssm = cloud.client("ssm")
    old, new = (
        ssm.get_parameter(Name=item)["Parameter"]["Value"]
        for item in (IMAGE_PARAMETER, IMAGE_PARAMETER.replace("oss-nvidia-driver-gpu-pytorch-2.7", "base-oss-nvidia-driver-gpu"))
    )
    parameter = f"/images/{name}"
    ssm.put_parameter(Name=parameter, Value=old, Type="String")
    options = {**definition, "image_parameter": parameter}
    run("cluster", **options)
    ssm.put_parameter(Name=parameter, Value=new, Type="String", Overwrite=True)
    unchanged = run("cluster", **options)
    assert (unchanged["changed"], unchanged["deferred"]) == (False, [])
    (change, *_others) = run("cluster", **options, image_update=True, check=True)["deferred"]
    assert (change["before"], change["after"]) == ({"image_id": old}, {"image_id": new})
    with pytest.raises(ModuleFailed, match=r"root_volume_size: 9 GiB is too small for"):
        run("cluster", **options, root_volume_size=9, replace_nodes=True)


@pytest.mark.parametrize(
    ("instance_type", "framework", "parameter"),
    [
        ("c5.large", "pytorch", "x86_64/oss-nvidia-driver-gpu-pytorch-2.9-ubuntu-24.04"),
        ("c5.large", None, "x86_64/oss-nvidia-driver-gpu-pytorch-2.9-ubuntu-24.04"),
        ("c5.large", "base", "x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04"),
        ("p6-b300.48xlarge", "base", "x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04"),
        ("c6g.large", "base", "arm64/base-oss-nvidia-driver-gpu-ubuntu-24.04"),
        ("c6g.large", "pytorch-2.7", "arm64/oss-nvidia-driver-gpu-pytorch-2.7-ubuntu-22.04"),
    ],
)
def test_images_by_framework(cloud, run, definition, tmp_path, instance_type, framework, parameter):
    expected = cloud.client("ssm").get_parameter(Name=f"/aws/service/deeplearning/ami/{parameter}/latest/ami-id")["Parameter"]["Value"]
    told = tmp_path / "progress"
    options = {**definition, "instance_type": instance_type, "image_parameter": None, "image_framework": framework}
    result = run("cluster", **options, progress_file=str(told), check=True)
    template = next(item for item in result["changes"] if item["kind"] == "launch_template")
    assert template["after"]["image_id"] == expected
    start = f"Newest Deep Learning AMI for {framework or 'pytorch'}: "
    (line,) = [line for line in told.read_text().splitlines() if line.startswith(start)]
    assert line.endswith(f"for {'-'.join(parameter.rsplit('-', 2)[1:])}, {expected}")


def test_a_system_that_is_newer_than_the_tested_ones_must_be_chosen(cloud, run, definition):
    parameter = "/aws/service/deeplearning/ami/arm64/base-oss-nvidia-driver-gpu-ubuntu-26.04/latest/ami-id"
    expected = cloud.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"]
    options = {**definition, "instance_type": "c6g.large", "image_parameter": None, "image_framework": "base", "image_os": "ubuntu-26.04"}
    result = run("cluster", **options, check=True)
    template = next(item for item in result["changes"] if item["kind"] == "launch_template")
    assert template["after"]["image_id"] == expected


@pytest.mark.parametrize(
    ("instance_type", "framework", "validator", "message"),
    [
        ("p5.48xlarge", "pytorch", None, None),
        ("p6-b300.48xlarge", "base", None, None),
        ("c5.large", "pytorch", None, None),
        (
            "p6-b300.48xlarge",
            "pytorch",
            "image_families",
            r"instance_type: AWS does not list p6-b300 for the image ami-\w+ \(Deep Learning OSS Nvidia Driver AMI GPU PyTorch 2\.9 .*\), "
            r"whose driver may not support NVIDIA B300\. Choose another image, such as image_framework: base with your own Python",
        ),
        (
            "p3dn.24xlarge",
            None,
            "image_accelerators",
            r"instance_type: p3dn\.24xlarge has NVIDIA V100 accelerators, for which ami-\w+ \(.*\) has no driver\. Choose another instance "
            r"type, or set image_id or image_parameter to an image for p3dn\.",
        ),
        ("trn1.32xlarge", "base", "image_accelerators", "AWS Trainium accelerators, for which"),
        ("inf2.xlarge", None, "image_accelerators", "AWS Inferentia2 accelerators, for which"),
    ],
)
def test_the_image_has_a_driver_for_the_accelerators(run, definition, instance_type, framework, validator, message):
    options = {**definition, "instance_type": instance_type, "worker_count": 1, "image_parameter": None, "image_framework": framework}
    try:
        found = run("cluster_validation", **options)["findings"]
    except ModuleFailed as error:
        found = error.result["findings"]
    told = {item["validator"]: item["message"] for item in found if item["validator"].startswith("image")}
    assert set(told) == {validator} - {None}
    assert not validator or re.search(message, told[validator])


@pytest.mark.parametrize("file", ["horovod_pytorch", "horovod_tensorflow"])
def test_the_image_of_a_horovod_definition_has_a_python_that_horovod_supports(cloud, run, definition, repository, file):
    """Ubuntu 22.04 has Python 3.10, and 24.04 has Python 3.12, for which the packages of the definitions cannot be built."""
    system = yaml.safe_load((repository / f"examples/definitions/{file}.yml").read_text())["deeplearning_image_os"]
    result = run("cluster", **{**definition, "image_parameter": None, "image_os": system}, check=True)
    template = next(item for item in result["changes"] if item["kind"] == "launch_template")
    (image,) = cloud.client("ec2").describe_images(ImageIds=[template["after"]["image_id"]])["Images"]
    assert "Ubuntu 22.04" in image["Name"]


def test_an_image_of_another_default_stays(cloud, run, definition, name):
    """Ubuntu 22.04 used to be the default operating system."""
    options = {**definition, "image_parameter": None, "image_framework": "pytorch"}
    run("cluster", **options, image_os="ubuntu-22.04")
    unchanged = run("cluster", **options)
    assert (unchanged["changed"], unchanged["deferred"]) == (False, [])
    grown = run("cluster", **{**options, "worker_count": 3})
    assert not grown["deferred"]
    assert len({instance["ImageId"] for instance in described(cloud, name)}) == 1
    (change, *_others) = run("cluster", **options, image_update=True, check=True)["deferred"]
    assert "image_id" in change["after"]
    (change, *_others) = run("cluster", **options, image_os="ubuntu-24.04", check=True)["deferred"]
    assert "image_id" in change["after"]


def test_an_image_by_framework_stays(cloud, run, definition):
    options = {**definition, "image_parameter": None, "image_framework": "pytorch"}
    run("cluster", **options)
    cloud.control.forget_calls()
    assert not run("cluster", **options)["changed"]
    assert "GetParametersByPath" not in [call["action"] for call in cloud.control.calls()]


def test_root_volumes_as_described(cloud, run, definition, name):
    key = cloud.client("kms").create_key()["KeyMetadata"]["KeyId"]
    options = {"root_volume_type": "gp3", "root_volume_iops": 4000, "root_volume_throughput": 300, "root_volume_kms_key": key}
    run("cluster", **definition, **options, tags={"team": "speech"})
    assert not run("cluster", **definition, **options, tags={"team": "speech"})["changed"]
    ec2 = cloud.client("ec2")
    for instance in described(cloud, name):
        (volume,) = ec2.describe_volumes(VolumeIds=[instance["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]])["Volumes"]
        assert (volume["VolumeType"], volume["Encrypted"], volume["KmsKeyId"].split("/")[-1]) == ("gp3", True, key)
        assert instance["EbsOptimized"]
    template = ec2.describe_launch_template_versions(LaunchTemplateName=f"{name}-workers", Versions=["$Latest"])["LaunchTemplateVersions"][
        0
    ]
    specifications = {item["ResourceType"]: item["Tags"] for item in template["LaunchTemplateData"]["TagSpecifications"]}
    assert specifications.keys() == {"volume", "network-interface"}
    assert all({"Key": "team", "Value": "speech"} in tags for tags in specifications.values())


def test_network_interfaces_are_found_by_their_tags(cloud, run, definition, name, landlord, monkeypatch):
    """Interfaces need their own tags, because an Auto Scaling group propagates its tags only to instances."""
    owner = landlord()
    run("cluster", **definition, **owner.options(), tags={"team": "speech"}, market="spot")
    ec2, own = cloud.client("ec2"), [{"Name": "tag:deeplearning:cluster", "Values": [name]}]
    interfaces = ec2.describe_network_interfaces(Filters=own)["NetworkInterfaces"]
    nodes = {instance["InstanceId"] for instance in described(cloud, name)}
    assert {item["Attachment"]["InstanceId"] for item in interfaces if "Attachment" in item} == nodes
    requests = ec2.describe_spot_instance_requests(Filters=own)["SpotInstanceRequests"]
    assert {item["InstanceId"] for item in requests} == nodes
    assert all({"Key": "team", "Value": "speech"} in item["Tags"] for item in requests)

    # An interface can outlive its node, for example if it is not deleted on termination
    kept = next(item for item in interfaces if "Attachment" in item)
    ec2.modify_network_interface_attribute(
        NetworkInterfaceId=kept["NetworkInterfaceId"],
        Attachment={"AttachmentId": kept["Attachment"]["AttachmentId"], "DeleteOnTermination": False},
    )
    in_default = [{"Name": "vpc-id", "Values": [owner.vpc]}, {"Name": "group-name", "Values": ["default"]}]
    default = ec2.describe_security_groups(Filters=in_default)["SecurityGroups"][0]["GroupId"]
    ec2.modify_network_interface_attribute(NetworkInterfaceId=kept["NetworkInterfaceId"], Groups=[default])
    monkeypatch.setattr(delete, "SWEEP_TIMEOUT", 1)
    gone = run("cluster", cluster=name, state="absent", delete_data=True)
    assert gone["leftovers"] == [f"network interface {kept['NetworkInterfaceId']}"]


def test_new_tags_wait_for_no_new_nodes(cloud, run, definition, name):
    """Changes that are deferred until nodes are replaced remain deferred."""
    run("cluster", **definition)
    before = {instance["InstanceId"] for instance in described(cloud, name)}
    changed = {**definition, "tags": {"team": "speech"}, "root_volume_size": 120}
    result = run("cluster", **changed)
    assert ("update", "launch_template workers") in steps(result)
    assert {change["kind"] for change in result["deferred"]} == {"launch_template", "nodes"}
    template = cloud.client("ec2").describe_launch_template_versions(LaunchTemplateName=f"{name}-workers", Versions=["$Latest"])
    data = template["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    assert data["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == definition.get("root_volume_size", 100)
    assert all({"Key": "team", "Value": "speech"} in item["Tags"] for item in data["TagSpecifications"])
    assert not run("cluster", **{**changed, "root_volume_size": None})["deferred"], "different tags do not make a node outdated"
    assert {instance["InstanceId"] for instance in described(cloud, name)} == before


def test_nodes_of_a_deleted_launch_template_are_replaced_once(cloud, run, definition, name):
    run("cluster", **definition)
    cloud.client("ec2").delete_launch_template(LaunchTemplateName=f"{name}-workers")
    predicted = run("cluster", **definition, check=True)
    applied = run("cluster", **definition)
    assert steps(applied) == steps(predicted) == {("create", "launch_template workers"), ("update", "auto_scaling_group workers")}
    assert "nodes 2, 3" in str(predicted["warnings"])
    assert predicted["deferred"] == applied["deferred"] == run("cluster", **definition)["deferred"] != []

    assert steps(run("cluster", **definition, replace_nodes=True)) == {("update", "nodes workers")}
    again = run("cluster", **definition, replace_nodes=True)
    assert not again["changed"]
    assert not again["deferred"]


@pytest.mark.parametrize("placement", ["auto", "none"])
def test_nodes_with_adapters_lie_in_one_zone(cloud, run, fast, name, placement):
    run("cluster", **fast, placement=placement, zones=["us-east-1a", "us-east-1b"])
    assert len({instance["Placement"]["AvailabilityZone"] for instance in described(cloud, name)}) == 1
    (workers,) = cloud.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[f"{name}-workers"])["AutoScalingGroups"]
    assert len(workers["AvailabilityZones"]) == 1, "later nodes are launched in the same zone"


def test_the_metadata_service_answers_containers_on_request(cloud, run, definition, name):
    run("cluster", **definition)
    options = [instance["MetadataOptions"] for instance in described(cloud, name)]
    assert {(item["HttpTokens"], item["HttpPutResponseHopLimit"]) for item in options} == {("required", 1)}
    run("cluster", **definition, metadata_hop_limit=2, replace_nodes=True)
    assert {instance["MetadataOptions"]["HttpPutResponseHopLimit"] for instance in described(cloud, name)} == {2}


def test_a_fast_network_that_is_not_used_is_told(run, definition):
    assert "efa: c5.large" not in str(run("cluster", **definition, check=True).get("warnings"))
    warned = run("cluster", **{**definition, "instance_type": ONE_CARD}, check=True)
    assert f"efa: {ONE_CARD} supports EFA at no extra cost" in str(warned["warnings"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"efa": True}, r"efa: c5.large does not support EFA\. No type in the same family supports EFA"),
        (
            {"efa": True, "instance_type": "c5n.large"},
            r"efa: c5n.large does not .* Types in the same family that support EFA: c5n.9xlarge, c5n.18xlarge, c5n.metal",
        ),
        (
            {"placement": "cluster", "instance_type": "t3.large"},
            "placement: t3.large does not support placement groups with the strategy cluster",
        ),
        ({"placement_group": "nobody"}, "placement_group: there is no placement group 'nobody' in us-east-1"),
        ({"placement_group": "nobody", "placement": "none"}, "placement_group: nobody cannot be combined with placement: none"),
        ({"instance_type": "c6g.large"}, r"image_parameter: ami-\w+ is for x86_64, but c6g.large is arm64"),
        (
            {"image_parameter": None, "image_framework": "mxnet"},
            r"image_framework: there is no .* 'mxnet' for ubuntu-24.04 or older on x86_64 in us-east-1\. Available: base for",
        ),
        (
            {"image_parameter": None, "image_framework": "pytorch", "image_os": "plan-9"},
            "no Deep Learning AMI 'pytorch' for image_os 'plan-9'",
        ),
        ({"image_framework": "pytorch"}, "mutually exclusive: image_id|image_parameter|image_framework"),
        ({"root_volume_type": "io2"}, "root_volume_iops: missing"),
        ({"metadata_hop_limit": 0}, "metadata_hop_limit: 0 is not valid. Specify a number from 1 to 64"),
        ({"root_volume_kms_key": "alias/none"}, "root_volume_kms_key: there is no key 'alias/none' in us-east-1"),
    ],
)
def test_bad_input_changes_nothing(cloud, run, definition, change, message):
    with pytest.raises(ModuleFailed, match=message):
        run("cluster", **{**definition, **change})
    assert writes(cloud) == []


def test_a_placement_group_with_another_strategy_is_refused(cloud, run, definition, name):
    cloud.client("ec2").create_placement_group(GroupName=f"{name}-spread", Strategy="spread")
    with pytest.raises(
        ModuleFailed, match=r"placement_group: test-\d+-spread has the strategy spread. Specify a placement group with the strategy cluster"
    ):
        run("cluster", **definition, placement_group=f"{name}-spread")
