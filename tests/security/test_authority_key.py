"""Nodes cannot read the private key of the SSH certificate authority."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase

import boto3
import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws import client
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instance_role import definition as role
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.ssh_authority import kms_key
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import iam_account, iam_policy_files
from botocore.exceptions import ClientError
from integration.conftest import ModuleFailed

# The statement about parameters in AmazonSSMManagedInstanceCore
MANAGED = {"Effect": "Allow", "Action": ["ssm:GetParameter", "ssm:GetParameters"], "Resource": "*"}


def decides(statements, action, resource):
    """Evaluate statements without conditions in the same way as IAM: an explicit Deny overrides an Allow."""
    effects = {
        statement["Effect"]
        for statement in statements
        if any(fnmatchcase(action, pattern) for pattern in statement["Action"])
        and any(
            fnmatchcase(resource, pattern) for pattern in ([statement["Resource"]], statement["Resource"])[statement["Resource"] != "*"]
        )
    }
    return effects == {"Allow"}


@pytest.mark.parametrize(("region", "partition"), [("us-east-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")])
@pytest.mark.parametrize(
    ("action", "name"),
    [
        ("ssm:GetParameter", "deeplearning/bert/ssh-authority"),
        ("ssm:GetParameters", "deeplearning/another/ssh-authority"),
        ("ssm:GetParameter", "deeplearning/bert/ssh-authority:3"),
        ("ssm:GetParameterHistory", "deeplearning/bert/ssh-authority"),
        # IAM authorizes the path, which gives access to all parameters below it
        ("ssm:GetParametersByPath", ""),
        ("ssm:GetParametersByPath", "deeplearning"),
        ("ssm:GetParametersByPath", "deeplearning/"),
        ("ssm:GetParametersByPath", "deeplearning/bert"),
        ("ssm:PutParameter", "deeplearning/bert/ssh-authority"),
        ("ssm:DeleteParameter", "deeplearning/bert/ssh-authority"),
    ],
)
def test_nodes_do_not_reach_an_authority_whatever_else_their_role_is_given(region, partition, action, name):
    everything = {"Effect": "Allow", "Action": ["ssm:*"], "Resource": "*"}
    attached = role.policy(region, [], [])["Statement"]
    resource = f"arn:{partition}:ssm:{region}:123456789012:parameter/{name}"
    assert not decides([everything, MANAGED, *attached], action, resource)


def test_parameters_of_the_users_own_stay_readable():
    attached = role.policy("us-east-1", [], [])["Statement"]
    for name in ("wandb/key", "deeplearning/bert/data-key"):
        assert decides([MANAGED, *attached], "ssm:GetParameter", f"arn:aws:ssm:us-east-1:123456789012:parameter/{name}")


CORE = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
EC2 = role.trust_policy("us-east-1")
DENY = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Deny", "Action": "ssm:GetParameter*", "Resource": "arn:aws:ssm:*:*:parameter/deeplearning/*"}],
}


def adopted_profile(cloud, name, *policies):
    """Create an instance profile that does not belong to the cluster, with these managed policies attached. Return its name."""
    iam = cloud.client("iam")
    iam.create_role(RoleName=f"{name}-theirs", AssumeRolePolicyDocument=json.dumps(EC2))
    iam.create_instance_profile(InstanceProfileName=f"{name}-theirs")
    iam.add_role_to_instance_profile(InstanceProfileName=f"{name}-theirs", RoleName=f"{name}-theirs")
    for policy in policies:
        iam.attach_role_policy(RoleName=f"{name}-theirs", PolicyArn=policy)
    return f"{name}-theirs"


def warned(run, definition, profile):
    findings = run("cluster_validation", **definition, instance_profile=profile)["findings"]
    return [item["message"] for item in findings if item["validator"] == "authority_readable"]


def test_an_adopted_role_that_reads_the_authority_is_told_of(cloud, run, definition, name):
    profile = adopted_profile(cloud, name, CORE)
    (message,) = warned(run, definition, profile)
    assert f"the role of {profile} is allowed to read /deeplearning/{name}/ssh-authority" in message
    # With a dedicated KMS key, which the role is not allowed to use
    run("ssh_authority", cluster=name, create_kms_key=True)
    assert warned(run, definition, profile) == []
    run("ssh_authority", cluster=name, state="absent")
    cloud.client("iam").put_role_policy(RoleName=profile, PolicyName="deny", PolicyDocument=json.dumps(DENY))
    assert warned(run, definition, profile) == []


def test_without_the_right_to_ask_the_attached_policies_tell(cloud, run, definition, name):
    """If the simulation is denied and the attached policies cannot be listed, the validator reports nothing."""
    other = adopted_profile(cloud, name)
    profile = adopted_profile(cloud, f"{name}-core", CORE)
    cloud.control.reset()
    denied = [{"service": "iam", "action": "SimulatePrincipalPolicy", "code": "AccessDenied", "status": 403}]
    cloud.control.set_faults(denied)
    assert len(warned(run, definition, profile)) == 1
    assert warned(run, definition, other) == []
    cloud.control.set_faults([*denied, {"service": "iam", "action": "ListAttachedRolePolicies", "code": "AccessDenied", "status": 403}])
    assert warned(run, definition, profile) == []
    cloud.control.reset()


@pytest.fixture
def operator(cloud, name):
    """Return a function that creates a user with only the policies of the given playbooks and returns the user's environment."""

    def session(*playbooks):
        made = iam_policy_files.policies(iam_account.Account(name))
        chosen = [policy for file, policy in made.items() if re.sub(r"-\d+$", "", file) in playbooks]
        return cloud.operator(f"{name}-{'-'.join(playbooks)}", *chosen)

    return session


def client_of(environment, service):
    secrets = {key.lower(): environment[key] for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    return boto3.client(service, region_name="us-east-1", endpoint_url=environment["AWS_ENDPOINT_URL"], **secrets)


def be(monkeypatch, environment):
    for variable, value in environment.items():
        if variable.startswith("AWS_"):
            monkeypatch.setenv(variable, value)


def state(kms, key_id):
    return kms.describe_key(KeyId=key_id)["KeyMetadata"]["KeyState"]


def alias_of(name):
    return f"alias/deeplearning/{name}/ssh-authority"


def denied(call, **arguments):
    with pytest.raises(ClientError, match="AccessDenied"):
        call(**arguments)


def test_operators_cannot_claim_and_delete_the_keys_of_others(cloud, name, operator):
    """Like the default key policy, the policies of these keys delegate administration to IAM."""
    theirs = cloud.client("kms").create_key()["KeyMetadata"]["KeyId"]
    kms = client_of(operator("configure", "destroy"), "kms")
    denied(kms.tag_resource, KeyId=theirs, Tags=[{"TagKey": "deeplearning:cluster", "TagValue": name}])
    denied(kms.create_alias, AliasName=alias_of(name), TargetKeyId=theirs)
    denied(kms.schedule_key_deletion, KeyId=theirs)
    assert state(cloud.client("kms"), theirs) == "Enabled"


def test_the_creator_of_a_key_names_it_and_somebody_else_deletes_it(cloud, run, name, operator, monkeypatch):
    be(monkeypatch, operator("configure"))
    run("ssh_authority", cluster=name, create_kms_key=True)
    kms = cloud.client("kms")
    made = kms.describe_key(KeyId=alias_of(name))["KeyMetadata"]["KeyId"]
    be(monkeypatch, operator("destroy"))
    kms.disable_key(KeyId=made)
    assert run("ssh_authority", cluster=name, state="absent")["changed"], "the key does not have to decrypt anything"
    assert state(kms, made) == "PendingDeletion"
    assert not run("ssh_authority", cluster=name, state="absent")["changed"]


def test_a_key_is_for_its_creator_in_all_sessions():
    account = "123456789012"
    assert kms_key.principals(f"arn:aws:iam::{account}:user/ops/ann") == [f"arn:aws:iam::{account}:user/ops/ann"]
    roles = [f"arn:aws-cn:iam::{account}:role/ops", f"arn:aws-cn:iam::{account}:role/*/ops"]
    assert kms_key.principals(f"arn:aws-cn:sts::{account}:assumed-role/ops/ann@example.com") == roles


def test_a_policy_that_locks_its_creator_out_is_refused(cloud, name, operator):
    kms = client_of(operator("configure"), "kms")
    arguments = {"KeySpec": "SYMMETRIC_DEFAULT", "KeyUsage": "ENCRYPT_DECRYPT"}
    document = kms_key.policy(name, "us-east-1", "arn:aws:iam::123456789012:user/another")
    with pytest.raises(ClientError, match="MalformedPolicyDocument"):
        kms.create_key(Policy=json.dumps(document), **arguments)


def test_a_key_that_gets_no_alias_is_named_and_deleted(cloud, run, name, monkeypatch):
    monkeypatch.setattr(client, "DENIED_TIMEOUT", 5)
    fault = {"service": "kms", "action": "CreateAlias", "code": "AccessDeniedException", "status": 400}
    cloud.control.set_faults([{**fault, "times": 2}])
    assert run("ssh_authority", cluster=f"{name}-late", create_kms_key=True)["changed"]
    cloud.control.set_faults([fault])
    with pytest.raises(ModuleFailed, match=r"was created, but its alias .* was not: .*will be deleted in 7 days") as failed:
        run("ssh_authority", cluster=name, create_kms_key=True)
    cloud.control.reset()
    arn = re.search(r"arn:aws:kms:\S+", str(failed.value)).group()
    assert state(cloud.client("kms"), arn) == "PendingDeletion"


def test_a_key_that_may_have_been_made_is_told_of(cloud, run, name):
    """The key has no alias yet, so no later run finds it."""
    cloud.control.set_faults([{"service": "kms", "action": "CreateKey", "code": "KMSInternalException", "status": 500, "after": True}])
    with pytest.raises(ModuleFailed, match=rf"the key may have been created.*{name}.*delete it, because it costs money"):
        run("ssh_authority", cluster=name, create_kms_key=True)


def test_parameter_store_sees_a_new_key_late(cloud, run, name):
    late = {"service": "ssm", "action": "PutParameter", "code": "InvalidKeyId", "status": 400, "message": "is not found", "times": 2}
    cloud.control.set_faults([late])
    assert run("ssh_authority", cluster=name, create_kms_key=True)["changed"]


def test_an_interrupted_deletion_is_carried_on(cloud, run, name):
    run("ssh_authority", cluster=name, create_kms_key=True)
    cloud.control.set_faults([{"service": "kms", "action": "DeleteAlias", "code": "AccessDeniedException", "status": 400}])
    with pytest.raises(ModuleFailed):
        run("ssh_authority", cluster=name, state="absent")
    cloud.control.reset()
    with pytest.raises(ModuleFailed, match="is PendingDeletion"):
        run("ssh_authority", cluster=name, create_kms_key=True)
    assert run("ssh_authority", cluster=name, state="absent")["changed"]
    assert run("ssh_authority", cluster=name, create_kms_key=True)["changed"]


def test_who_may_not_ask_kms_deletes_the_authority(cloud, run, name):
    run("ssh_authority", cluster=name)
    cloud.control.set_faults([{"service": "kms", "action": "DescribeKey", "code": "AccessDeniedException", "status": 400}])
    deleted = run("ssh_authority", cluster=name, state="absent")
    cloud.control.reset()
    assert deleted["changed"]
    assert alias_of(name) in str(deleted["warnings"])


def test_an_authority_keeps_its_key_until_told_otherwise(cloud, run, name):
    run("ssh_authority", cluster=name, create_kms_key=True)

    def parameter():
        names = {"Key": "Name", "Values": [f"/deeplearning/{name}/ssh-authority"]}
        return cloud.client("ssm").describe_parameters(ParameterFilters=[names])["Parameters"][0]

    made = parameter()
    assert made["Tier"] == "Standard"
    for options in ({}, {"rotate": True}):
        kept = run("ssh_authority", cluster=name, **options)
        assert f"stays encrypted with {made['KeyId']}" in str(kept["warnings"])
        assert parameter()["KeyId"] == made["KeyId"]
    assert run("ssh_authority", cluster=name, kms_key_id="alias/aws/ssm")["changed"]
    again = run("ssh_authority", cluster=name)
    assert (again["changed"], "warnings" in again) == (False, False)
