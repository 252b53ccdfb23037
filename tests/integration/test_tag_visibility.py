"""Policies that depend on the tags of new resources, which IAM sees late."""

from __future__ import annotations

from permissions import operators

__all__ = ["operators"]

DENIED = {"code": "AccessDenied", "status": 403, "message": "is not authorized"}
# Calls of a first run that name no new resource
NAME_NOTHING_NEW = (
    *(
        "AllocateAddress",
        "CreateFileSystem",
        "CreateInstanceProfile",
        "CreateInternetGateway",
        "CreateLaunchTemplate",
        "CreatePlacementGroup",
    ),
    *("CreateRole", "CreateVpc"),
)


def test_each_call_that_names_something_new_is_denied_once(cloud, run, definition, name):
    cloud.client("s3").create_bucket(Bucket=f"{name}-data")
    denied = {**DENIED, "read_only": False, "each_call_once": True, "action": rf"(?!({'|'.join(NAME_NOTHING_NEW)})$).*"}
    cloud.control.set_faults([{**denied, "service": service} for service in ("ec2", "iam", "autoscaling", "elasticfilesystem")])
    assert run("cluster", **definition, interface_endpoints=["ssm"])["changed"]
    cloud.control.set_faults([{**denied, "service": "fsx"}])
    assert run("cluster", **definition, interface_endpoints=["ssm"], lustre=True)["changed"]


def test_policies_see_the_tags_of_new_resources_late(cloud, run, definition, name, operators):
    """An operator with the shipped policies creates all components, and each call that depends on a new tag is repeated."""
    cloud.client("s3").create_bucket(Bucket=f"{name}-data")
    operators.be("provision")
    cloud.control.set_delays(tag_visibility=4)
    options = {
        **definition,
        "interface_endpoints": ["ssm"],
        "lustre": True,
        "lustre_data_repositories": [{"path": "/train", "s3": f"s3://{name}-data/train"}],
    }
    assert run("cluster", **options)["changed"]
    assert not run("cluster", **options)["changed"]
