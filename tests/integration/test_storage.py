"""Shared storage: EFS modes, FSx for Lustre, other owners' file systems, and two clusters that share a file system."""

from __future__ import annotations

import base64
import json

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.lustre import resources
from local_cloud.testing import wait_until

from .clusters import instances, steps, writes
from .conftest import ModuleFailed, cluster_options, new_name
from .life import Life

LUSTRE_PARTS = {"lustre_file_system main"}
HELD = {"vpc main", "subnet private-us-east-1a", "security_group nodes", "security_group storage"}


@pytest.fixture
def bucket(cloud, name):
    cloud.client("s3").create_bucket(Bucket=f"{name}-data")
    return f"{name}-data"


def boot_script(cloud, name, group="workers"):
    ec2 = cloud.client("ec2")
    versions = ec2.describe_launch_template_versions(LaunchTemplateName=f"{name}-{group}", Versions=["$Latest"])["LaunchTemplateVersions"]
    data = base64.b64decode(versions[0]["LaunchTemplateData"]["UserData"]).decode()
    return json.loads(data.split("\n", 1)[1])["write_files"][0]["content"]


def same(run, options, expected):
    """Run the module with changed options. Verify that check mode predicts the changes and that a second run has nothing to do. Return the
    result.
    """
    assert steps(run("cluster", **options, check=True)) == expected
    result = run("cluster", **options)
    assert steps(result) == expected
    assert not run("cluster", **options)["changed"]
    return result


@pytest.fixture(scope="module")
def lustre_life(cloud):
    """The life of a cluster with a Lustre file system that is linked to a bucket."""
    name = new_name()
    cloud.client("s3").create_bucket(Bucket=f"{name}-data")
    links = [{"path": "/train", "s3": f"s3://{name}-data/train/"}]
    return Life({**cluster_options(name), "lustre": True, "lustre_data_repositories": links})


def test_a_lustre_file_system_is_created_as_predicted(cloud, run, lustre_life):
    expected = {("create", "lustre_file_system main"), ("create", "data_repository_association /train")}
    assert expected <= steps(lustre_life.created) == steps(lustre_life.predicted)
    cloud.control.forget_calls()
    assert not run("cluster", **lustre_life.options)["changed"]
    assert writes(cloud) == []


def test_nodes_mount_lustre_at_boot(cloud, run, lustre_life):
    lustre, name = lustre_life.created["resources"]["lustre_file_system"]["main"], lustre_life.name
    described = cloud.client("fsx").describe_file_systems(FileSystemIds=[lustre])["FileSystems"][0]
    source = f"{described['DNSName']}@tcp:/{described['LustreConfiguration']['MountName']}"
    assert f"{source} /fsx lustre noatime,flock,nosuid,nodev,_netdev,nofail 0 0" in boot_script(cloud, name)
    assert ".efs.us-east-1.amazonaws.com:/ /efs nfs4 " in boot_script(cloud, name)
    for tags in instances(cloud, name).values():
        assert (tags["deeplearning:lustre-file-system"], tags["deeplearning:lustre-source"]) == (lustre, source)
    node = run("cluster_info", cluster=name)["nodes"][0]
    assert (node["lustre_file_system_id"], node["lustre_source"]) == (lustre, source)


def test_a_lustre_file_system_changes_in_place(run, lustre_life):
    assert lustre_life.created["changed"]
    update = {("update", "lustre_file_system main")}
    same(run, options := {**lustre_life.options, "lustre_capacity": 2400}, update)
    same(run, options := {**options, "lustre_throughput": 500, "lustre_compression": "NONE"}, update)
    other = [{"path": "/test", "s3": f"s3://{lustre_life.name}-data/test", "export_changes": True}]
    both = {("delete", "data_repository_association /train"), ("create", "data_repository_association /test")}
    same(run, options := {**options, "lustre_data_repositories": other}, both)
    lustre_life.options = options
    lustre = lustre_life.created["resources"]["lustre_file_system"]["main"]
    with pytest.raises(ModuleFailed, match=rf"lustre_capacity: {lustre} has 2400 GiB and cannot shrink to 1200"):
        run("cluster", **{**options, "lustre_capacity": 1200})
    with pytest.raises(ModuleFailed, match=r"deployment is 'PERSISTENT_2' and cannot be changed to 'SCRATCH_2'"):
        run("cluster", **{**options, "lustre_deployment": "SCRATCH_2"})


def test_a_lustre_file_system_is_kept_with_what_it_needs(run, lustre_life):
    of_cluster = lustre_life.created["resources"]
    gone, again = lustre_life.deleted, lustre_life.created_again
    assert sorted(gone["kept"]) == sorted([of_cluster["file_system"]["main"], of_cluster["lustre_file_system"]["main"]])
    assert not {resource for _action, resource in steps(gone)} & {*HELD, *LUSTRE_PARTS, "data_repository_association /test"}
    assert (gone["leftovers"], gone.get("warnings")) == ([], None), "the network is kept, not left behind"
    assert again["resources"]["lustre_file_system"] == of_cluster["lustre_file_system"]
    assert not {resource for _action, resource in steps(again)} & HELD


def test_a_lustre_file_system_is_deleted_on_request(run, lustre_life):
    gone = lustre_life.deleted_with_data
    assert {("delete", resource) for resource in {*HELD, *LUSTRE_PARTS}} <= steps(gone)
    assert gone["kept"] == []
    assert run("cluster_info", cluster=lustre_life.name)["resources"] == []


def test_nodes_mount_a_bucket_to_read(cloud, run, definition, name, bucket):
    """Tags and the boot script contain the mount, and the role contains the permissions. The bucket is not a resource of the cluster."""
    options = {**definition, "bucket_mount": f"s3://{bucket}/train"}
    predicted, made = run("cluster", **options, check=True), run("cluster", **options)
    assert steps(made) == steps(predicted)
    assert not run("cluster", **options)["changed"]
    entry = f"s3://{bucket}/train/ /bucket mount-s3 ro,allow-other,nosuid,nodev,_netdev,nofail 0 0"
    assert f"\nadd '{entry}' /bucket\n" in boot_script(cloud, name)
    for node in run("cluster_info", cluster=name)["nodes"]:
        assert [mount["kind"] for mount in node["mounts"]] == ["efs", "bucket"]
        assert node["mounts"][1] == {"kind": "bucket", "source": f"s3://{bucket}/train", "path": "/bucket"}
    (policy,) = [item for item in run("cluster_info", cluster=name)["resources"] if item["kind"] == "role"]
    allowed = {each["Sid"]: each for each in policy["properties"]["policy"]["Statement"]}
    assert allowed["ReadMountedBucket"]["Resource"] == [f"arn:aws:s3:::{bucket}/train/*"]

    # Nodes keep the mount until they are replaced, but the role loses the permissions immediately
    without = run("cluster", **definition)
    assert ("update", "role nodes") in steps(without)
    assert {change["kind"] for change in without["deferred"]} == {"launch_template", "nodes"}
    assert len(run("cluster_info", cluster=name)["nodes"][0]["mounts"]) == 2
    run("cluster", cluster=name, state="absent", delete_data=True)
    assert cloud.client("s3").head_bucket(Bucket=bucket)


def test_links_on_several_pages_are_all_read(run, definition, bucket):
    """FSx returns the data repository associations in pages, for which botocore has no paginator."""
    links = [{"path": f"/{number}", "s3": f"s3://{bucket}/{number}"} for number in range(6)]
    options = {**definition, "worker_count": 0, "lustre": True, "lustre_data_repositories": links}
    run("cluster", **options)
    assert not run("cluster", **options)["changed"]


def test_links_take_turns_and_the_last_one_has_enough_time(cloud, run, definition, bucket, monkeypatch):
    run("cluster", **{**definition, "worker_count": 0}, lustre=True)
    cloud.control.set_delays(data_repository_association=1)
    monkeypatch.setattr(resources, "DEFAULT_WAIT_TIMEOUT", 2)
    links = [{"path": f"/{number}", "s3": f"s3://{bucket}/{number}"} for number in range(3)]
    options = {"cluster": definition["cluster"], "lustre": True, "lustre_data_repositories": links, "wait_timeout": 2}
    for action, wanted in (("create", links), ("delete", [])):
        changed = steps(run("cluster", components=["lustre"], **{**options, "lustre_data_repositories": wanted}))
        assert changed == {(action, f"data_repository_association /{number}") for number in range(3)}


def test_a_link_changes_its_policy_and_not_its_prefix(run, definition, bucket):
    link = {"path": "/train", "s3": f"s3://{bucket}/train"}
    options = {**definition, "lustre": True, "lustre_data_repositories": [link]}
    run("cluster", **options)
    changed = {**options, "lustre_data_repositories": [{**link, "export_changes": True}]}
    same(run, changed, {("update", "data_repository_association /train")})
    with pytest.raises(ModuleFailed, match=r"s3 is .* cannot be changed to .*Remove this path from lustre_data_repositories"):
        run("cluster", **{**changed, "lustre_data_repositories": [{**link, "s3": f"s3://{bucket}/other"}]})


def test_a_file_system_that_is_still_growing(cloud, run, definition):
    run("cluster", **definition, lustre=True)
    cloud.control.set_delays(file_system=2)
    more = {**definition, "lustre": True, "lustre_capacity": 2400}
    assert steps(run("cluster", **more, wait=False)) == {("update", "lustre_file_system main")}
    assert not run("cluster", **more, wait=False, check=True)["changed"], "AWS is still making the change"
    assert steps(run("cluster", **{**more, "lustre_compression": "NONE"})) == {("update", "lustre_file_system main")}


def test_components_one_by_one(run, definition, name):
    own = {"cluster": name, "wait_timeout": 30}
    run("cluster", components=["network"], **own, ssh_cidrs=definition["ssh_cidrs"], lustre=True)
    run("cluster", components=["file_system"], **own)
    assert steps(run("cluster", components=["lustre"], **own, lustre=True)) == {("create", "lustre_file_system main")}
    run("cluster", components=["instance_role"], **own)
    nodes = {key: definition[key] for key in ("instance_type", "worker_count", "image_parameter", "key_name")}
    for group in ("workers", "master"):
        run("cluster", components=[group], **own, **nodes)
    assert not run("cluster", **definition, lustre=True)["changed"]
    run("cluster", cluster=name, state="absent")
    absent = {"cluster": name, "state": "absent"}
    assert steps(run("cluster", components=["lustre"], **absent, delete_data=True)) == {("delete", "lustre_file_system main")}
    assert {("delete", resource) for resource in HELD} == steps(run("cluster", components=["network"], **absent))


def test_without_efs(cloud, run, definition, name):
    refusal = r"mount_point: efs: false leaves .* without shared storage, so /efs would be .*\. Set efs: true or lustre: true\."
    with pytest.raises(ModuleFailed, match=refusal):
        run("cluster", **definition, efs=False)
    with pytest.raises(ModuleFailed, match=r"mount_point: jobs are stored in /efs, but nothing is mounted there. Set mount_point to /fsx"):
        run("cluster", **definition, efs=False, lustre=True)
    options = {**definition, "efs": False, "lustre": True, "mount_point": "/fsx", "lustre_deployment": "SCRATCH_2"}
    made = run("cluster", **options)
    assert not {resource for _action, resource in steps(made)} & {"file_system main", "mount_target us-east-1a"}
    assert "nfs" not in boot_script(cloud, name).split("add ", 1)[1].split("\n", 1)[0]
    assert not run("cluster", **options)["changed"]


def test_without_shared_storage(cloud, run, definition, name):
    options = {**definition, "efs": False, "mount_point": "/data", "worker_count": 0}
    predicted, made = run("cluster", **options, check=True), run("cluster", **options)
    assert steps(made) == steps(predicted)
    assert not [resource for _action, resource in steps(made) if "file_system" in resource or "mount_target" in resource]
    assert "warnings" not in made
    assert name not in {tag["Value"] for each in cloud.client("efs").describe_file_systems()["FileSystems"] for tag in each["Tags"]}
    (node,) = run("cluster_info", cluster=name)["nodes"]
    assert (node["file_system_id"], node["mounts"]) == (None, [])
    assert not run("cluster", **options)["changed"]

    # A cluster of several nodes runs jobs only on the master
    (warning,) = run("cluster", **{**options, "worker_count": 2}, check=True)["warnings"]
    told = "so jobs run only on the master and not on the 2 other nodes. Set efs: true or lustre: true, or worker_count: 0."
    assert told in str(warning)

    # After a file system is added, the running nodes are outdated
    more = run("cluster", **{**definition, "worker_count": 0})
    assert ("create", "file_system main") in steps(more)
    assert {change["kind"] for change in more["deferred"]} == {"launch_template", "nodes"}

    run("cluster", components=["master"], cluster=name, state="absent")
    again = run("cluster", **options)
    assert ("delete", "mount_target us-east-1a") in steps(again)
    gone = run("cluster", **options, state="absent")
    assert gone["kept"] == [more["resources"]["file_system"]["main"]]
    run("cluster", **options, state="absent", delete_data=True)
    assert run("cluster_info", cluster=name)["resources"] == []


def test_a_file_system_whose_answer_was_lost_is_the_clusters(cloud, run, definition):
    """EFS rejects the second call instead of returning the file system from the first. A mount target has no network interface at first."""
    lost = {"service": "elasticfilesystem", "action": "CreateFileSystem", "code": "InternalServerError", "status": 500, "after": True}
    early = {"action": "DescribeMountTargetSecurityGroups", "code": "IncorrectMountTargetState", "status": 409}
    cloud.control.set_faults([{**lost, "nth": 1}])
    file_system = run("cluster", **definition)["resources"]["file_system"]["main"]
    cloud.control.set_faults([{**early, "nth": 1}])
    again = run("cluster", **definition)
    assert (again["changed"], again["resources"]["file_system"]["main"]) == (False, file_system)
    cloud.client("efs").untag_resource(ResourceId=file_system, TagKeys=["deeplearning:cluster"])
    with pytest.raises(ModuleFailed, match=f"{file_system} was created earlier for a cluster named .* but it no longer has .* tags"):
        run("cluster", components=["file_system"], cluster=definition["cluster"])


def test_modes_of_efs_change_in_place(cloud, run, definition):
    options = {**definition, "throughput_mode": "elastic"}
    made = run("cluster", **options)["resources"]["file_system"]["main"]
    assert cloud.client("efs").describe_file_systems(FileSystemId=made)["FileSystems"][0]["PerformanceMode"] == "generalPurpose"
    for change in (
        {"throughput_mode": "provisioned", "provisioned_throughput": 64},
        {"throughput_mode": "provisioned", "provisioned_throughput": 128.5},
    ):
        same(run, {**definition, **change}, {("update", "file_system main")})
        described = cloud.client("efs").describe_file_systems(FileSystemId=made)["FileSystems"][0]
        assert described["ThroughputMode"] == change["throughput_mode"]
        assert described["ProvisionedThroughputInMibps"] == change["provisioned_throughput"]


def test_the_key_and_the_performance_mode_are_chosen_once(cloud, run, definition):
    keys = [cloud.client("kms").create_key()["KeyMetadata"] for _number in range(2)]
    definition["performance_mode"] = "maxIO"
    made = run("cluster", **definition, kms_key_id=keys[0]["KeyId"])["resources"]["file_system"]["main"]
    described = cloud.client("efs").describe_file_systems(FileSystemId=made)["FileSystems"][0]
    assert described["KmsKeyId"].endswith(keys[0]["KeyId"])
    assert described["PerformanceMode"] == "maxIO"
    for same_key in (keys[0]["KeyId"], keys[0]["Arn"], None):
        assert not run("cluster", **definition, kms_key_id=same_key)["changed"]
    with pytest.raises(ModuleFailed, match=r"file_system main: kms_key is .* and cannot be changed to"):
        run("cluster", **definition, kms_key_id=keys[1]["Arn"])


def test_without_rights_for_lustre_all_else_works(cloud, run, definition):
    cloud.control.set_faults([{"service": "fsx", "code": "AccessDeniedException", "status": 400, "message": "not authorized"}])
    assert run("cluster", **definition)["changed"]
    with pytest.raises(
        ModuleFailed, match=r"may not call DescribeFileSystems .AccessDeniedException: not authorized.. Attach the policies"
    ):
        run("cluster", **definition, lustre=True)


def test_tls_is_for_new_nodes(cloud, run, definition, name):
    made = run("cluster", **definition, encrypt_in_transit=True)["resources"]["file_system"]["main"]
    entry = f"{made}:/ /efs efs tls,noresvport,nosuid,nodev,_netdev,nofail 0 0"
    assert f"\nadd '{entry}' /efs\n" in boot_script(cloud, name)

    def mounts():
        return {node["number"]: node["file_system_tls"] for node in run("cluster_info", cluster=name)["nodes"]}

    # Nodes keep the mount options that they were launched with, and cluster_info returns these options
    assert steps(run("cluster", **definition)) == {POLICY}
    assert mounts() == {1: "true", 2: "true", 3: "true"}
    run("cluster", **definition, replace_nodes=True)
    assert mounts() == {1: "preferred", 2: "preferred", 3: "preferred"}
    assert f"\nadd_preferred '{entry}' '{made}.efs." in boot_script(cloud, name)


def test_no_node_is_replaced_for_what_became_the_default(cloud, run, definition, name):
    """Nodes that mount over plain NFS, the former default, continue to do so.

    The new default applies only after all nodes have been replaced.
    """
    run("cluster", **definition, encrypt_in_transit=False)
    before = instances(cloud, name).keys()
    again = run("cluster", **definition, replace_nodes=True)
    assert (again["changed"], again["deferred"]) == (False, [])
    assert instances(cloud, name).keys() == before
    for group in ("workers", "master"):
        run("cluster", components=[group], cluster=name, state="absent")
    run("cluster", **definition)
    assert {node["file_system_tls"] for node in run("cluster_info", cluster=name)["nodes"]} == {"preferred"}


POLICY = ("update", "file_system_policy main")


def policy(cloud, file_system):
    """Return the effects of the statements in a file system's policy."""
    found = cloud.client("efs").describe_file_system_policy(FileSystemId=file_system)["Policy"]
    return [statement["Effect"] for statement in json.loads(found)["Statement"]]


def test_a_new_file_system_has_a_policy(cloud, run, definition, name):
    predicted = run("cluster", **definition, check=True)
    made = run("cluster", **definition)
    assert steps(made) == steps(predicted)
    assert ("create", "file_system_policy main") in steps(made)
    file_system = made["resources"]["file_system"]["main"]
    assert policy(cloud, file_system) == ["Allow"]
    cloud.control.forget_calls()
    assert not run("cluster", **definition)["changed"]
    assert writes(cloud) == []

    # Changes to the policy are reverted, and a deleted policy is created again
    efs = cloud.client("efs")
    document = json.loads(efs.describe_file_system_policy(FileSystemId=file_system)["Policy"])
    document["Statement"][0]["Principal"] = {"AWS": "arn:aws:iam::123456789012:root"}
    efs.put_file_system_policy(FileSystemId=file_system, Policy=json.dumps(document))
    wait_until(lambda: "123456789012:root" in efs.describe_file_system_policy(FileSystemId=file_system)["Policy"])
    same(run, definition, {POLICY})
    efs.delete_file_system_policy(FileSystemId=file_system)
    wait_until(lambda: has_no_policy(efs, file_system))
    same(run, definition, {("create", "file_system_policy main")})

    # If the data is kept, the policy is kept; if the data is deleted, the policy is deleted
    gone = run("cluster", cluster=name, state="absent")
    assert "file_system_policy main" not in {resource for _action, resource in steps(gone)}
    assert policy(cloud, file_system) == ["Allow"]
    gone = run("cluster", cluster=name, state="absent", delete_data=True)
    assert {("delete", "file_system main"), ("delete", "file_system_policy main")} <= steps(gone)


def has_no_policy(efs, file_system):
    try:
        efs.describe_file_system_policy(FileSystemId=file_system)
    except efs.exceptions.PolicyNotFound:
        return True
    return False


def test_the_policy_demands_tls_of_a_new_cluster_at_once(cloud, run, definition, name):
    made = run("cluster", **definition, encrypt_in_transit=True)["resources"]["file_system"]["main"]
    assert policy(cloud, made) == ["Allow", "Deny"]
    assert not run("cluster", **definition, encrypt_in_transit=True)["changed"]
    # The Deny statement stays if a node lacks the tag, and is removed if the definition no longer requires TLS
    tag = {"Key": "deeplearning:file-system-tls"}
    cloud.client("ec2").delete_tags(Resources=[next(iter(instances(cloud, name)))], Tags=[tag])
    assert not run("cluster", **definition, encrypt_in_transit=True)["changed"]
    assert POLICY in steps(run("cluster", **definition))
    assert policy(cloud, made) == ["Allow"]


def test_the_policy_demands_tls_once_no_node_is_without(cloud, run, definition, name):
    """A policy also affects the existing mounts of this and other clusters."""
    network = run("cluster", **definition)["resources"]
    file_system = network["file_system"]["main"]
    other = {
        **definition,
        "cluster": f"{name}-b",
        "worker_count": 1,
        "vpc_id": network["vpc"]["main"],
        "public_subnet_ids": [network["subnet"]["public-us-east-1a"]],
        "private_subnet_ids": [network["subnet"]["private-us-east-1a"]],
        "security_group_ids": {"nodes": network["security_group"]["nodes"]},
        "file_system_id": file_system,
    }
    run("cluster", **other)
    tls = {**definition, "encrypt_in_transit": True}
    assert POLICY not in steps(run("cluster", **tls))
    assert POLICY not in steps(run("cluster", **tls, replace_nodes=True)), "the mounts existed when the run began"
    assert not run("cluster", **tls)["changed"], "the other cluster still has such mounts"
    run("cluster", **{**other, "encrypt_in_transit": True}, replace_nodes=True)
    assert policy(cloud, file_system) == ["Allow"], "an adopted file system is not changed"
    same(run, tls, {POLICY})
    assert policy(cloud, file_system) == ["Allow", "Deny"]
    run("cluster", **other, state="absent")


def test_a_policy_of_somebody_else_stays(cloud, run, definition, name):
    file_system = run("cluster", **definition)["resources"]["file_system"]["main"]
    efs = cloud.client("efs")
    statement = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "elasticfilesystem:ClientMount"}
    theirs = json.dumps({"Version": "2012-10-17", "Id": "efs-policy-wizard-1", "Statement": [statement]})
    efs.put_file_system_policy(FileSystemId=file_system, Policy=theirs)
    wait_until(lambda: "wizard" in efs.describe_file_system_policy(FileSystemId=file_system)["Policy"])
    result = run("cluster", **{**definition, "encrypt_in_transit": True})
    assert POLICY not in steps(result)
    assert "keeps its policy (Id 'efs-policy-wizard-1'), which the collection did not create" in str(result["warnings"])
    assert "wizard" in efs.describe_file_system_policy(FileSystemId=file_system)["Policy"]


def access_points(cloud, file_system):
    """Return the directories of a file system's available access points, by access point ID."""
    found = cloud.client("efs").describe_access_points(FileSystemId=file_system)["AccessPoints"]
    return {item["AccessPointId"]: item["RootDirectory"]["Path"] for item in found if item["LifeCycleState"] == "available"}


def test_a_directory_of_a_shared_file_system(cloud, run, definition, name):
    """The nodes mount the directory through the cluster's access point, which is deleted with the cluster."""
    theirs = foreign_file_system(cloud, name)
    efs = cloud.client("efs")
    other = efs.create_access_point(FileSystemId=theirs, RootDirectory={"Path": "/teams/bert"})["AccessPointId"]
    options = {**definition, "file_system_id": theirs, "file_system_directory": "/teams/bert"}
    predicted = run("cluster", **options, check=True)
    made = run("cluster", **options)
    assert steps(made) == steps(predicted)
    assert ("create", "access_point /teams/bert") in steps(made)
    point = made["resources"]["access_point"]["/teams/bert"]
    described = efs.describe_access_points(AccessPointId=point)["AccessPoints"][0]
    owner = {"OwnerUid": 1000, "OwnerGid": 1000, "Permissions": "0755"}
    assert described["RootDirectory"] == {"Path": "/teams/bert", "CreationInfo": owner}
    assert not described.get("PosixUser"), "jobs and logins use different users"
    entry = f"{theirs}:/ /efs efs tls,noresvport,nosuid,nodev,accesspoint={point},_netdev,nofail 0 0"
    assert f"\nadd '{entry}' /efs\n" in boot_script(cloud, name)
    assert "nfs4" not in boot_script(cloud, name).split("\nadd ", 1)[1].split("\n", 1)[0]
    for tags in instances(cloud, name).values():
        assert (tags["deeplearning:file-system-access-point"], tags["deeplearning:file-system-tls"]) == (point, "true")
    assert run("cluster_info", cluster=name)["nodes"][0]["file_system_access_point"] == point
    cloud.control.forget_calls()
    assert not run("cluster", **options)["changed"]
    assert writes(cloud) == []
    nodes = {key: definition[key] for key in ("cluster", "instance_type", "worker_count", "image_parameter", "key_name", "wait_timeout")}
    asked = {"file_system_id": theirs, "file_system_directory": "/teams/bert"}
    assert not run("cluster", components=["workers"], **nodes, **asked)["changed"]

    # If the directory changes, nodes keep the old directory until they are replaced
    moved = {**options, "file_system_directory": "/teams/gpt"}
    result = run("cluster", **moved)
    assert steps(result) == {("create", "access_point /teams/gpt")}
    assert "launch_template" in {change["kind"] for change in result["deferred"]}
    assert not run("cluster", **moved)["changed"]
    assert set(access_points(cloud, theirs).values()) == {"/teams/bert", "/teams/gpt"}
    result = run("cluster", **moved, replace_nodes=True)
    assert ("delete", "access_point /teams/bert") in steps(result)
    assert not run("cluster", **moved)["changed"]
    new = result["resources"]["access_point"]["/teams/gpt"]
    assert {tags["deeplearning:file-system-access-point"] for tags in instances(cloud, name).values()} == {new}

    # The access point is deleted even if no option names its file system
    with pytest.raises(ModuleFailed, match=r"still in use. First delete auto_scaling_group"):
        run("cluster", components=["file_system"], cluster=name, state="absent")
    gone = run("cluster", cluster=name, state="absent")
    assert ("delete", "access_point /teams/gpt") in {(action, resource.replace(f"-{theirs}", "")) for action, resource in steps(gone)}
    assert set(access_points(cloud, theirs)) == {other}


def test_the_whole_file_system_again(cloud, run, definition, name):
    theirs = foreign_file_system(cloud, name)
    options = {**definition, "file_system_id": theirs}
    run("cluster", **options, file_system_directory="/teams/bert")
    assert not run("cluster", **options)["changed"], "nodes still use the access point"
    assert ("delete", "access_point /teams/bert") in steps(run("cluster", **options, replace_nodes=True))
    assert run("cluster_info", cluster=name)["nodes"][0]["file_system_access_point"] is None
    assert not run("cluster", **options)["changed"]


def test_an_access_point_whose_answer_was_lost_is_not_made_twice(cloud, run, definition, name):
    theirs = foreign_file_system(cloud, name)
    lost = {"service": "elasticfilesystem", "action": "CreateAccessPoint", "code": "InternalServerError", "status": 500, "after": True}
    cloud.control.set_faults([{**lost, "nth": 1}])
    run("cluster", **definition, file_system_id=theirs, file_system_directory="/teams/bert")
    assert list(access_points(cloud, theirs).values()) == ["/teams/bert"]


def test_an_adopted_file_system_gets_no_policy(cloud, run, definition, name):
    theirs = foreign_file_system(cloud, name)
    run("cluster", **definition, file_system_id=theirs, encrypt_in_transit=True)
    assert has_no_policy(cloud.client("efs"), theirs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bucket_mount": "s3://there-is-no-such"}, "bucket_mount: there is no bucket there-is-no-such in the partition aws"),
        ({"bucket_mount": "my-bucket"}, "bucket_mount: 'my-bucket' is not a bucket or prefix"),
        ({"bucket_mount": "s3://there-is-no-such", "bucket_mount_point": "/efs/data"}, "/efs/data overlaps with /efs"),
        ({"file_system_directory": "/a"}, "file_system_directory: '/a' requires an adopted file system"),
        *(
            (
                {"file_system_id": "fs-01234567", "file_system_directory": directory},
                f"file_system_directory: '{directory}' is not a valid directory",
            )
            for directory in ("/", "teams", "/a/../b", "/a/b/c/d/e", "/a b", "/a,tls", "/" + "a" * 100)
        ),
        (
            {"file_system_id": "fs-01234567", "file_system_directory": "/a", "encrypt_in_transit": False},
            "encrypt_in_transit: false cannot be combined with file_system_directory, which requires TLS",
        ),
        ({"throughput_mode": "provisioned"}, "provisioned_throughput: missing or too small. Specify at least 1 MiB/s"),
        ({"provisioned_throughput": 64}, "provisioned_throughput: 64 MiB/s cannot be combined with throughput_mode: bursting"),
        ({"throughput_mode": "elastic", "performance_mode": "maxIO"}, "throughput_mode: elastic cannot be combined with performance_mode"),
        ({"encrypted": False, "kms_key_id": "0" * 36}, "kms_key_id: 0+ cannot be combined with encrypted: false"),
        ({"kms_key_id": "alias/mine"}, "kms_key_id: 'alias/mine' is not the ID or ARN of a KMS key"),
        ({"efs": False, "file_system_id": "fs-01234567"}, "file_system_id: fs-01234567 is not used with efs: false"),
        ({"file_system_id": "fs-01234567"}, "file_system_id: fs-01234567 does not exist in us-east-1"),
        ({"lustre": True, "lustre_capacity": 3600}, "lustre_capacity: 3600 GiB is not a valid size. Specify 1200 or a multiple of 2400"),
        (
            {"lustre_file_system_id": "fs-01234567"},
            "lustre_file_system_id: fs-01234567 is not an FSx for Lustre file system in us-east-1",
        ),
        (
            {"lustre": True, "lustre_mount_point": "/efs/fast"},
            r"lustre_mount_point: /efs/fast overlaps with /efs \(mount_point\)",
        ),
        ({"lustre": True, "lustre_mount_point": "fsx"}, "lustre_mount_point: 'fsx' is not a valid mount point. Use an absolute path"),
        ({"lustre": True, "lustre_data_repositories": [{"s3": "bucket"}]}, "lustre_data_repositories: 'bucket' is not a bucket or prefix"),
        ({"lustre": True, "lustre_data_repositories": [{"s3": "s3://data", "path": "a"}]}, "'a' is not a valid directory"),
        (
            {"lustre": True, "lustre_data_repositories": [{"s3": "s3://data", "path": path} for path in ("/a", "/a/b")]},
            "lustre_data_repositories: /a/b/ is in /a/",
        ),
        (
            {"lustre": True, "lustre_data_repositories": [{"s3": "s3://data", "path": f"/{number}"} for number in range(9)]},
            "lustre_data_repositories: 9 links exceed the limit. Specify at most 8.",
        ),
        (
            {"lustre_file_system_id": "fs-01234567", "lustre_data_repositories": [{"s3": "s3://data"}]},
            "lustre_data_repositories: an adopted file system is never changed",
        ),
    ],
)
def test_bad_input_changes_nothing(cloud, run, definition, change, message):
    with pytest.raises(ModuleFailed, match=message):
        run("cluster", **{**definition, **change})
    assert writes(cloud) == []


# File systems of other owners


def foreign_file_system(cloud, name, **more):
    efs = cloud.client("efs")
    created = efs.create_file_system(CreationToken=f"{name}-theirs", **more)["FileSystemId"]
    wait_until(lambda: efs.describe_file_systems(FileSystemId=created)["FileSystems"][0]["LifeCycleState"] == "available")
    return created


def foreign_target(cloud, file_system, vpc, subnet, cidr=None):
    """Create another owner's mount target, with a security group that allows NFS from `cidr`.

    Return the ID and the address of the mount target, and the ID of the security group.
    """
    ec2 = cloud.client("ec2")
    group = ec2.create_security_group(GroupName=f"{file_system}-{cidr}", Description="theirs", VpcId=vpc)["GroupId"]
    if cidr:
        allowed = {"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049, "IpRanges": [{"CidrIp": cidr}]}
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[allowed])
    target = cloud.client("efs").create_mount_target(FileSystemId=file_system, SubnetId=subnet, SecurityGroups=[group])
    return target["MountTargetId"], target["IpAddress"], group


def made_network(run, definition, **more):
    options = {key: definition[key] for key in ("cluster", "ssh_cidrs", "wait_timeout")}
    return run("cluster", components=["network"], **options, **more)["resources"]


def test_mount_targets_of_the_owner_are_used_as_they_are(cloud, run, definition, name):
    network = made_network(run, definition)
    theirs = foreign_file_system(cloud, name)
    subnet = network["subnet"]["private-us-east-1a"]
    target, _address, group = foreign_target(cloud, theirs, network["vpc"]["main"], subnet)
    options = {**definition, "file_system_id": theirs}
    with pytest.raises(
        ModuleFailed,
        match=rf"file_system_id: {target} does not allow inbound traffic from the nodes on TCP port 2049. Allow this .* {group} from sg-",
    ):
        run("cluster", **options)
    nodes = {"IpProtocol": "tcp", "FromPort": 2000, "ToPort": 2100, "UserIdGroupPairs": [{"GroupId": network["security_group"]["nodes"]}]}
    cloud.client("ec2").authorize_security_group_ingress(GroupId=group, IpPermissions=[nodes])
    assert "mount_target us-east-1a" not in {resource for _action, resource in steps(run("cluster", **options))}
    more = run("cluster", **options, zones=["us-east-1a", "us-east-1b"])
    assert ("create", "mount_target us-east-1b") in steps(more), "the cluster creates its own mount target in another zone"
    for nodes_of in ("workers", "master"):
        run("cluster", components=[nodes_of], cluster=name, state="absent")
    gone = run("cluster", components=["file_system"], cluster=name, state="absent")
    assert steps(gone) == {("delete", "mount_target us-east-1b")}
    left = cloud.client("efs").describe_mount_targets(FileSystemId=theirs)["MountTargets"]
    assert target in {item["MountTargetId"] for item in left}


@pytest.fixture
def owner(run, definition, name):
    """Another cluster, with both kinds of shared storage, in its own network."""
    return run("cluster", **{**definition, "cluster": f"{name}-owner", "network_cidr": "10.9.0.0/16", "worker_count": 1}, lustre=True)


def peer(cloud, first, second, cidr):
    ec2 = cloud.client("ec2")
    peering = ec2.create_vpc_peering_connection(VpcId=first["vpc"]["main"], PeerVpcId=second["vpc"]["main"])["VpcPeeringConnection"]
    identifier = peering["VpcPeeringConnectionId"]
    ec2.accept_vpc_peering_connection(VpcPeeringConnectionId=identifier)
    ec2.create_route(RouteTableId=first["route_table"]["private"], DestinationCidrBlock=cidr, VpcPeeringConnectionId=identifier)


def test_two_clusters_on_the_same_file_systems(cloud, run, definition, name, owner):
    efs, lustre = owner["resources"]["file_system"]["main"], owner["resources"]["lustre_file_system"]["main"]
    options = {**definition, "file_system_id": efs, "lustre_file_system_id": lustre}
    network = made_network(run, definition)
    with pytest.raises(ModuleFailed) as failure:
        run("cluster", **options)
    message = str(failure.value)
    assert f"file_system_id: {efs} has its mount targets in {owner['resources']['vpc']['main']}, and EFS allows them in only one" in message
    assert f"lustre_file_system_id: {lustre} is in {owner['resources']['vpc']['main']}, which the nodes cannot reach." in message
    assert "Peer that VPC with the cluster's VPC and add routes to" in message

    peer(cloud, network, owner["resources"], "10.9.0.0/16")
    made = run("cluster", **options)
    assert not {kind for _action, kind in steps(made)} & {"file_system main", "mount_target us-east-1a", *LUSTRE_PARTS}
    assert not run("cluster", **options)["changed"]
    target = cloud.client("efs").describe_mount_targets(FileSystemId=efs)["MountTargets"][0]
    node = run("cluster_info", cluster=name)["nodes"][0]
    assert (node["file_system_id"], node["file_system_address"]) == (efs, target["IpAddress"])
    assert node["lustre_source"].startswith("10.9.")
    assert f"{target['IpAddress']}:/ /efs nfs4 " in boot_script(cloud, name)
    assert f"{node['lustre_source']} /fsx lustre " in boot_script(cloud, name)

    # The owner cannot delete file systems that nodes of the other cluster use
    cloud.control.forget_calls()
    for more in ({}, {"delete_data": True}):
        with pytest.raises(ModuleFailed, match=rf"fs-\w+ is used by nodes of other clusters \({name}\). Delete those nodes first"):
            run("cluster", cluster=f"{name}-owner", state="absent", **more)
    assert writes(cloud) == []

    # The module node_group needs the IDs of file systems that the cluster does not own
    nodes = {key: definition[key] for key in ("cluster", "instance_type", "worker_count", "image_parameter", "key_name", "wait_timeout")}
    assert not run("cluster", components=["workers"], **nodes, file_system_id=efs, lustre_file_system_id=lustre)["changed"]

    # The other cluster is deleted completely, and the owner's resources stay unchanged
    gone = run("cluster", cluster=name, state="absent", delete_data=True)
    assert gone["kept"] == []
    assert not run("cluster", **{**definition, "cluster": f"{name}-owner", "network_cidr": "10.9.0.0/16", "worker_count": 1}, lustre=True)[
        "changed"
    ]
    run("cluster", cluster=f"{name}-owner", state="absent", delete_data=True)


def test_what_another_vpc_has_taken_over_is_not_mounted_in_vain(run, definition, name):
    own = run("cluster", **definition)["resources"]["file_system"]["main"]
    run("cluster", cluster=name, state="absent")
    run("cluster", **{**definition, "cluster": f"{name}-b", "file_system_id": own})
    with pytest.raises(ModuleFailed, match=rf"file_system_id: {own} has its mount targets in vpc-\w+, and EFS allows"):
        run("cluster", **definition)


def test_two_clusters_in_one_vpc(run, definition, name, owner):
    parts = owner["resources"]
    efs = parts["file_system"]["main"]
    inside = {
        "vpc_id": parts["vpc"]["main"],
        "public_subnet_ids": [parts["subnet"]["public-us-east-1a"]],
        "private_subnet_ids": [parts["subnet"]["private-us-east-1a"]],
    }
    nodes = {"nodes": parts["security_group"]["nodes"]}
    with pytest.raises(ModuleFailed, match=r"file_system_id: fsmt-\w+ does not allow inbound traffic from the nodes on TCP port 2049"):
        run("cluster", **definition, **inside, file_system_id=efs)
    options = {**definition, **inside, "file_system_id": efs, "security_group_ids": nodes}
    assert "mount_target us-east-1a" not in {resource for _action, resource in steps(run("cluster", **options))}
    assert not run("cluster", **options)["changed"]
    alone = {"components": ["file_system"]}
    for more in ({}, alone, {**alone, "delete_data": True}):
        with pytest.raises(ModuleFailed, match=rf"{efs} is used by nodes of other .*{name}|still in use. First delete auto_scaling_group"):
            run("cluster", cluster=f"{name}-owner", state="absent", **more)
    gone = run("cluster", cluster=name, state="absent", delete_data=True)
    assert gone["kept"] == []
    assert not {resource for _action, resource in steps(gone)} & {*HELD, "file_system main", "mount_target us-east-1a"} - {
        "security_group storage"
    }


def test_an_adopted_group_needs_mount_targets(cloud, run, definition, name, owner):
    parts = owner["resources"]
    groups = {key: parts["security_group"][key] for key in ("nodes", "storage")}
    inside = {
        "vpc_id": parts["vpc"]["main"],
        "public_subnet_ids": [parts["subnet"]["public-us-east-1a"]],
        "private_subnet_ids": [parts["subnet"]["private-us-east-1a"]],
        "security_group_ids": groups,
    }
    theirs = foreign_file_system(cloud, name)
    with pytest.raises(ModuleFailed, match=rf"file_system_id: {theirs} has no mount target in us-east-1a. With an adopted security group"):
        run("cluster", **definition, **inside, file_system_id=theirs)
    own = run("cluster", **definition, **inside)["resources"]["file_system"]["main"]
    assert not run("cluster", **definition, **inside)["changed"]
    gone = run("cluster", **definition, **inside, state="absent")
    assert ("delete", "mount_target us-east-1a") in steps(gone)
    assert gone["kept"] == [own]
    assert cloud.client("efs").describe_mount_targets(FileSystemId=parts["file_system"]["main"])["MountTargets"]


def test_another_file_system_is_not_put_under_running_nodes(cloud, run, definition, name):
    own = run("cluster", **definition)["resources"]["file_system"]["main"]
    theirs = foreign_file_system(cloud, name)
    cloud.control.forget_calls()
    for change, now in (({"file_system_id": theirs}, theirs), ({"efs": False, "lustre": True, "mount_point": "/fsx"}, "none")):
        with pytest.raises(ModuleFailed, match=rf"file_system_id: running nodes have {own} mounted, so this option .* changed to {now}"):
            run("cluster", **{**definition, **change})
    assert writes(cloud) == []

    # If the cluster has no nodes, its file system can be changed, and the mount target of the former file system is deleted
    for group in ("workers", "master"):
        run("cluster", components=[group], cluster=name, state="absent")
    changed = run("cluster", **definition, file_system_id=theirs)
    assert {("create", "mount_target us-east-1a"), ("delete", f"mount_target us-east-1a-{own}")} <= steps(changed)
    assert not run("cluster", **definition, file_system_id=theirs)["changed"]
    gone = run("cluster", cluster=name, state="absent")
    assert ("delete", f"mount_target us-east-1a-{theirs}") in steps(gone)
    assert gone["kept"] == [own]


def test_what_was_left_for_an_adopted_one_is_still_the_clusters(cloud, run, definition, name, owner):
    made = run("cluster", **definition, lustre=True)["resources"]
    own = [made["file_system"]["main"], made["lustre_file_system"]["main"]]
    for group in ("workers", "master"):
        run("cluster", components=[group], cluster=name, state="absent")
    peer(cloud, made, owner["resources"], "10.9.0.0/16")
    theirs = {
        "file_system_id": owner["resources"]["file_system"]["main"],
        "lustre_file_system_id": owner["resources"]["lustre_file_system"]["main"],
    }
    options = {**definition, **theirs, "lustre": True}
    run("cluster", **options)
    assert not run("cluster", **options)["changed"]
    gone = run("cluster", **options, state="absent")
    assert gone["kept"] == own
    assert not {resource for _action, resource in steps(gone)} & HELD
    gone = run("cluster", **options, state="absent", delete_data=True)
    assert {("delete", "file_system former"), ("delete", "lustre_file_system former")} <= steps(gone)
    assert gone["kept"] == []


def test_a_one_zone_file_system(cloud, run, definition, name):
    network = made_network(run, definition, zones=["us-east-1a", "us-east-1b"])
    theirs = foreign_file_system(cloud, name, AvailabilityZoneName="us-east-1b")
    options = {**definition, "file_system_id": theirs, "zones": ["us-east-1a", "us-east-1b"]}
    with pytest.raises(ModuleFailed, match=rf"file_system_id: {theirs} is a One Zone file system in us-east-1b without a mount target"):
        run("cluster", **options)
    address = foreign_target(cloud, theirs, network["vpc"]["main"], network["subnet"]["private-us-east-1b"], "10.0.0.0/16")[1]
    assert not {resource for _action, resource in steps(run("cluster", **options)) if "mount_target" in resource}
    assert f"{address}:/ /efs nfs4 " in boot_script(cloud, name)


def test_a_zone_without_efs_is_named(cloud, run, definition, name):
    cloud.control.set_faults([{"service": "efs", "action": "CreateMountTarget", "code": "UnsupportedAvailabilityZone", "status": 400}])
    with pytest.raises(ModuleFailed, match=r"EFS is not available in us-east-1b, the zone of subnet-\w+\. Specify other .*efs: false"):
        run("cluster", **definition, zones=["us-east-1b"])


UBUNTU = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"


@pytest.mark.parametrize(
    ("change", "option", "client"),
    [
        ({"lustre": True}, "lustre_mount_point: nodes cannot mount /fsx", "mount.lustre"),
        ({"bucket_mount": "s3://{bucket}"}, "bucket_mount_point: nodes cannot mount /bucket", "mount.mount-s3"),
    ],
)
def test_an_image_without_the_client_of_the_storage_is_refused(cloud, run, definition, name, change, option, client):
    bucket = f"{name}-sets"
    cloud.client("s3").create_bucket(Bucket=bucket)
    change = {key: value.format(bucket=bucket) if isinstance(value, str) else value for key, value in change.items()}
    image = cloud.client("ssm").get_parameter(Name=UBUNTU)["Parameter"]["Value"]
    cloud.control.forget_calls()
    with pytest.raises(ModuleFailed) as failure:
        run("cluster", **{**definition, **change, "image_parameter": UBUNTU})
    (message,) = (item["message"] for item in failure.value.result["findings"])
    assert message.startswith(f"{option}, because neither the image {image} (Deep Learning Base")
    assert message.endswith(f"{client}. Set image_os: amazon-linux-2023, or set image_id to your own image with this client.")
    assert all(call["read_only"] for call in cloud.control.calls())
    own = cloud.client("ec2").copy_image(SourceImageId=image, SourceRegion="us-east-1", Name=f"{name} on Ubuntu")["ImageId"]
    for suits in ({}, {"image_parameter": None, "image_id": own}):
        assert run("cluster_validation", **{**definition, **change, **suits})["valid"]
