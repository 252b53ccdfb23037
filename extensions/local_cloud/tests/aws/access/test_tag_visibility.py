"""The tags of new resources count for policies only after a while."""

from __future__ import annotations

import json
from collections.abc import Callable

from local_cloud.credentials import Credentials
from local_cloud.testing import wait_until

from ..conftest import Account, refused


def test_policies_see_the_tags_of_a_new_resource_late(account: Account) -> None:
    account.control.set_delays(tag_visibility=60)
    name, iam = account.name("operator"), account.client("iam")
    own = {"StringEquals": {"aws:ResourceTag/team": "speech"}}
    allowed = ["ec2:DeleteVpc", "autoscaling:DeleteAutoScalingGroup", "iam:DeleteRole", "elasticfilesystem:DeleteFileSystem"]
    statement = {"Effect": "Allow", "Action": allowed, "Resource": "*", "Condition": own}
    iam.create_user(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    made = iam.create_access_key(UserName=name)["AccessKey"]
    operator = Account(account.url, keys=Credentials(made["AccessKeyId"], made["SecretAccessKey"]))
    tags = [{"Key": "team", "Value": "speech"}]
    trust = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}

    def create() -> list[tuple[str, Callable[[], object]]]:
        specification = [{"ResourceType": "vpc", "Tags": tags}]
        vpc = account.ec2.create_vpc(CidrBlock="10.9.0.0/16", TagSpecifications=specification)["Vpc"]["VpcId"]
        group = account.group(0, Tags=tags)
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": trust}), Tags=tags)
        file_system = account.efs.create_file_system(CreationToken=name, Tags=tags)["FileSystemId"]
        return [
            ("UnauthorizedOperation", lambda: operator.ec2.delete_vpc(VpcId=vpc)),
            ("AccessDenied", lambda: operator.groups.delete_auto_scaling_group(AutoScalingGroupName=group)),
            ("AccessDenied", lambda: operator.client("iam").delete_role(RoleName=name)),
            ("AccessDeniedException", lambda: operator.efs.delete_file_system(FileSystemId=file_system)),
        ]

    deletions = create()
    for code, delete in deletions:
        refused(delete, code, "is not authorized to perform")
    wait_until(lambda: account.efs.describe_file_systems(CreationToken=name)["FileSystems"][0]["LifeCycleState"] == "available")
    account.control.set_delays(tag_visibility=0)
    for _code, delete in deletions:
        delete()
