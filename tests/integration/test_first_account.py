"""tools/first_account.py, from an empty account to an empty account."""

from __future__ import annotations

import json
import sys

import first_account
import pytest

from .conftest import REGION


def run_tool(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["first_account.py", "--region", REGION, *arguments])
    return first_account.main()


def left(cloud, cluster):
    """Return what the account still has."""
    ec2, iam = cloud.client("ec2"), cloud.client("iam")
    own = [{"Name": "tag:deeplearning:cluster", "Values": [cluster]}]
    instances = [each for one in ec2.describe_instances()["Reservations"] for each in one["Instances"]]
    return [
        *ec2.describe_vpcs(Filters=own)["Vpcs"],
        *[each for each in instances if each["State"]["Name"] != "terminated"],
        *cloud.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"],
        *cloud.client("efs").describe_file_systems()["FileSystems"],
        *cloud.client("s3").list_buckets()["Buckets"],
        *[each for each in cloud.client("ssm").describe_parameters()["Parameters"] if not each["Name"].startswith("/aws/")],
        *[each["RoleName"] for each in iam.list_roles()["Roles"] if cluster in each["RoleName"]],
        *iam.list_policies(Scope="Local")["Policies"],
    ]


def test_all_steps_succeed_with_the_generated_policies(cloud, monkeypatch, tmp_path, capsys, name):
    monkeypatch.setattr(first_account, "host_keys", lambda _output: ["ssh-ed25519 AAAA"])  # the instance has no host
    assert run_tool(monkeypatch, "--cluster", name, "--output", str(tmp_path / "answers"), "--yes") == 0, capsys.readouterr().out
    assert left(cloud, name) == []
    executed = [call for call in cloud.control.calls() if call["parameters"]]
    made = [call for call in executed if call["action"] in ("CreateAutoScalingGroup", "CreateLaunchTemplateVersion")]
    assert {call["action"] for call in made} == {"CreateAutoScalingGroup", "CreateLaunchTemplateVersion"}
    assert {call["parameters"]["DesiredCapacity"] for call in made if "DesiredCapacity" in call["parameters"]} == {0}
    operators = {decision["caller"] for decision in cloud.control.decisions()}
    assert operators == {f"arn:aws:sts::123456789012:assumed-role/{name}-operator/first-account"}
    answers = {path.name: json.loads(path.read_text()) for path in (tmp_path / "answers").iterdir()}
    assert {"ec2.CreateVpc", "autoscaling.CreateAutoScalingGroup", "ec2.GetConsoleOutput", "sts.AssumeRole"} <= {
        each.split("-", 1)[1].removesuffix(".json") for each in answers
    }
    text = json.dumps(answers)
    assert cloud.environment["AWS_ACCESS_KEY_ID"] not in text
    assert "OPENSSH PRIVATE KEY" not in text


def test_everything_is_deleted_after_a_failure(cloud, monkeypatch, tmp_path, capsys, name):
    cloud.control.set_faults([{"action": "CreateAutoScalingGroup", "code": "AccessDenied", "status": 403, "message": "is not authorized"}])
    monkeypatch.setattr("ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client.DENIED_TIMEOUT", 0)
    assert run_tool(monkeypatch, "--cluster", name, "--output", str(tmp_path / "answers"), "--yes") == 1
    assert "is not authorized" in capsys.readouterr().out
    assert left(cloud, name) == []


def test_the_operator_is_kept_as_long_as_there_is_a_cluster(cloud, monkeypatch, tmp_path, capsys, name):
    monkeypatch.setattr(first_account, "host_keys", lambda _output: ["ssh-ed25519 AAAA"])
    cloud.control.set_faults([{"action": "DeleteVpc", "code": "Broken", "status": 400}])
    assert run_tool(monkeypatch, "--cluster", name, "--output", str(tmp_path / "answers"), "--yes") == 1
    assert "Could not delete the cluster" in capsys.readouterr().out
    assert f"{name}-operator" in left(cloud, name)
    cloud.control.set_faults([])
    administrator = first_account.Administrator(REGION, name)
    with monkeypatch.context() as patched:
        for variable, value in administrator.assume_operator().items():
            patched.setenv(variable, value)
        assert first_account.delete(administrator, f"{name}-none", as_operator=True) == []
    assert left(cloud, name) == []


def test_policies_that_were_not_attached_are_deleted(cloud, monkeypatch, tmp_path, capsys, name):
    cloud.control.set_faults([{"action": "AttachRolePolicy", "code": "Broken", "status": 400}])
    assert run_tool(monkeypatch, "--cluster", name, "--output", str(tmp_path / "answers"), "--yes") == 1
    assert "Broken" in capsys.readouterr().out
    assert left(cloud, name) == []


def test_the_root_user_is_refused(cloud, monkeypatch, tmp_path, capsys, name):
    monkeypatch.setattr(first_account.Administrator, "is_root", True)  # the local cloud's identity has no ARN of a root user
    with pytest.raises(SystemExit):
        run_tool(monkeypatch, "--cluster", name, "--output", str(tmp_path / "answers"), "--yes")
    assert "the root user cannot assume a role" in capsys.readouterr().err


def test_nothing_is_created_without_consent(cloud, monkeypatch, tmp_path, name):
    monkeypatch.setattr("builtins.input", lambda _question: "")
    assert run_tool(monkeypatch, "--cluster", name, "--output", str(tmp_path / "answers")) == 1
    assert left(cloud, name) == []


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"Arn": "arn:aws:iam::210987654321:role/a", "ResponseMetadata": {}}, {"Arn": "arn:aws:iam::123456789012:role/a"}),
        ({"SecretAccessKey": "abc", "AccessKeyId": "AKIAABCDEFGHIJKLMNOP"}, {"SecretAccessKey": "REMOVED", "AccessKeyId": "AKIAEXAMPLE"}),
        ({"Parameter": {"Type": "SecureString", "Value": "key"}}, {"Parameter": {"Type": "SecureString", "Value": "REMOVED"}}),
        ({"PublicIp": "198.51.100.7", "Cidr": "10.0.0.0/16"}, {"PublicIp": "203.0.113.1", "Cidr": "10.0.0.0/16"}),
        ({"Tags": [{"Key": "owner", "Value": "me@company.test"}]}, {"Tags": [{"Key": "owner", "Value": "somebody@example.com"}]}),
    ],
)
def test_answers_are_anonymous(answer, expected):
    assert first_account.anonymous(answer) == expected


def test_an_id_has_the_same_new_id_everywhere():
    first, second = first_account.anonymous(["vpc-0123456789abcdef0", "in vpc-0123456789abcdef0"])
    assert first != "vpc-0123456789abcdef0"
    assert second == f"in {first}"
    assert len(first) == len("vpc-0123456789abcdef0")
