"""Tests of the properties of clusters that the plan compares, and of the requests that create clusters."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.emr import definition
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.options.registry import argument_spec
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import make_plan
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Ref

DEFAULTS = {name: spec.get("default") for name, spec in argument_spec("emr").items()}
# The definitions for the `aws emr create-cluster` commands of the former system, and their requests. tests/integration/test_emr.py compares
# such requests with those of the AWS CLI
FORMER = {
    **DEFAULTS,
    "emr_release_label": "emr-5.8.0",
    "emr_instance_type": "g2.2xlarge",
    "emr_core_count": 2,
    "emr_key_name": "my-key",
    "emr_image_id": "ami-0123456789abcdef0",
    "emr_log_uri": "s3://your-logging-bucket",
}
WITH_EFS = {
    **FORMER,
    "emr_security_group_ids": {"master": "sg-1", "workers": "sg-2", "service": None},
    "emr_additional_security_group_ids": {"master": ["sg-3"], "workers": ["sg-3"]},
    "emr_bootstrap_actions": [
        {"name": "Bootstrap action", "path": "s3://aws-dl-emr-bootstrap/emr_efs_bootstrap.sh", "args": ["fs-0123", "us-east-1"]}
    ],
    "emr_log_uri": "S3://your-logging-bucket",
}
EXPECTED = {
    "Name": "training",
    "ReleaseLabel": "emr-5.8.0",
    "LogUri": "s3://your-logging-bucket",
    "ServiceRole": "EMR_DefaultRole",
    "VisibleToAllUsers": True,
    "Instances": {
        "InstanceGroups": [
            {"InstanceType": "g2.2xlarge", "InstanceCount": 1, "InstanceRole": "MASTER", "Name": "MASTER", "Market": "ON_DEMAND"},
            {"InstanceType": "g2.2xlarge", "InstanceCount": 2, "InstanceRole": "CORE", "Name": "CORE", "Market": "ON_DEMAND"},
        ],
        "KeepJobFlowAliveWhenNoSteps": True,
        "TerminationProtected": False,
        "Ec2KeyName": "my-key",
    },
    "JobFlowRole": "EMR_EC2_DefaultRole",
    "CustomAmiId": "ami-0123456789abcdef0",
}
EXPECTED_WITH_EFS = {
    **EXPECTED,
    "LogUri": "S3://your-logging-bucket",
    "Instances": {
        **EXPECTED["Instances"],
        "EmrManagedMasterSecurityGroup": "sg-1",
        "EmrManagedSlaveSecurityGroup": "sg-2",
        "AdditionalMasterSecurityGroups": ["sg-3"],
        "AdditionalSlaveSecurityGroups": ["sg-3"],
    },
    "BootstrapActions": [
        {
            "Name": "Bootstrap action",
            "ScriptBootstrapAction": {
                "Path": "s3://aws-dl-emr-bootstrap/emr_efs_bootstrap.sh",
                "Args": ["fs-0123", "us-east-1"],
            },
        }
    ],
}
FURTHER = {
    "Instances": {**EXPECTED["Instances"], "TerminationProtected": True, "Ec2SubnetId": "subnet-1"},
    "Applications": [{"Name": "Hadoop"}, {"Name": "Spark"}],
    "EbsRootVolumeSize": 60,
}


def tags(address):
    return {"deeplearning:key": address.key}


def wanted(options, **more):
    return definition.wanted_cluster({**options, **more}, tags, has_task_group=False)


def requested(options, **more):
    """Return the request for a cluster with the properties that the executor passes on."""
    cluster = wanted(options, **more)
    properties = {name: value for name, value in {**cluster.properties, **cluster.parameters}.items() if value is not None}
    return definition.run_job_flow_request("training", properties)


@pytest.mark.parametrize(("options", "expected"), [(FORMER, EXPECTED), (WITH_EFS, EXPECTED_WITH_EFS)], ids=["plain", "with EFS"])
def test_the_request_that_creates_a_cluster(options, expected):
    assert requested(options) == expected


def test_further_options_are_in_the_request():
    more = {"emr_subnet_id": "subnet-1", "emr_applications": ["Spark", "Hadoop"], "emr_root_volume_size": 60}
    assert requested(FORMER, **more, emr_termination_protection=True) == {**EXPECTED, **FURTHER}


def test_each_group_has_its_type_and_size():
    groups = requested(FORMER, emr_core_instance_type="c5.large", emr_task_count=3)["Instances"]["InstanceGroups"]
    assert [(each["InstanceRole"], each["InstanceType"], each["InstanceCount"]) for each in groups] == [
        ("MASTER", "g2.2xlarge", 1),
        ("CORE", "c5.large", 2),
        ("TASK", "g2.2xlarge", 3),
    ]
    (master,) = requested(FORMER, emr_core_count=0)["Instances"]["InstanceGroups"]
    assert master["InstanceRole"] == "MASTER"


def test_the_type_of_task_nodes_is_compared_only_with_those_of_a_group():
    for compared, count, has_task_group in ((None, 0, True), (None, 1, False), ("g2.2xlarge", 1, True)):
        cluster = definition.wanted_cluster({**FORMER, "emr_task_count": count}, tags, has_task_group=has_task_group)
        assert (cluster.properties["task_instance_type"], cluster.parameters) == (compared, {"task_instance_type": "g2.2xlarge"})


def test_a_run_that_does_not_wait_compares_no_state():
    assert wanted(FORMER).properties["state"] == "ready"
    assert wanted(FORMER, wait=False).properties["state"] is None


def test_steps_are_added_one_after_the_other():
    entries = [{"name": name, "jar": "command-runner.jar", "args": [name], "on_failure": "continue"} for name in "abc"]
    steps = definition.wanted_steps({"emr_steps": entries})
    assert [step.after for step in steps] == [
        (definition.CLUSTER,),
        (definition.CLUSTER, definition.step("a")),
        (definition.CLUSTER, definition.step("b")),
    ]
    assert all(step.parameters == {"cluster": Ref(definition.CLUSTER)} for step in steps)
    kinds = {"emr_step": definition.CLUSTER, "emr_cluster": definition.CLUSTER}
    assert [change.address.key for change in make_plan(steps[::-1], [], kinds)] == ["a", "b", "c"]
    assert definition.step_request("a", steps[0].properties) == {
        "Name": "a",
        "ActionOnFailure": "CONTINUE",
        "HadoopJarStep": {"Jar": "command-runner.jar", "Args": ["a"]},
    }


def test_only_default_roles_that_the_cluster_uses_are_created():
    def names(**options):
        return [str(role.address) for role in definition.wanted_roles({**DEFAULTS, **options}, "us-east-1")]

    assert names() == ["emr_role service", "emr_role nodes", "emr_instance_profile nodes"]
    assert names(emr_service_role="own") == ["emr_role nodes", "emr_instance_profile nodes"]
    assert names(emr_instance_profile="own") == ["emr_role service"]
    service, nodes, _profile = definition.wanted_roles(DEFAULTS, "cn-north-1")
    assert service.properties["policy"] == "arn:aws-cn:iam::aws:policy/service-role/AmazonElasticMapReduceRole"
    assert definition.trusts(service.parameters["trust"], "elasticmapreduce")
    assert nodes.parameters["trust"]["Statement"][0]["Principal"] == {"Service": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ({"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}}, True),
        ({"Effect": "Allow", "Principal": {"Service": ["lambda.amazonaws.com", "ec2.amazonaws.com"]}}, True),
        ({"Effect": "Deny", "Principal": {"Service": "ec2.amazonaws.com"}}, False),
        ({"Effect": "Allow", "Principal": {"AWS": "*"}}, False),
        ({"Effect": "Allow", "Principal": "*"}, False),
        ({"Effect": "Allow", "Principal": {"Service": "ec2messages.amazonaws.com"}}, False),
    ],
)
def test_what_a_trust_policy_allows(statement, expected):
    assert definition.trusts({"Statement": [statement]}, "ec2") is expected
    assert definition.trusts({"Statement": statement}, "ec2") is expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"tags": {}, "state": "starting"}, {"tags": {"a": "b"}, "state": "ready"}, []),
        ({"core_count": 1, "task_count": 0}, {"core_count": 2, "task_count": 3}, []),
        ({"core_count": 0}, {"core_count": 2}, ["core_count"]),
        ({"core_count": 2}, {"core_count": 0}, ["core_count"]),
        ({"release_label": "emr-5.8.0"}, {"release_label": "emr-7.9.0"}, ["release_label"]),
    ],
)
def test_what_replaces_a_cluster(before, after, expected):
    assert definition.needs_replacement(before, after) == expected


def test_what_emr_returns_in_another_form_is_no_difference():
    assert definition.comparable_name("arn:aws:iam::1:role/emr/a", "a") == "arn:aws:iam::1:role/emr/a"
    assert definition.comparable_name("a", "arn:aws:iam::1:role/b") == "arn:aws:iam::1:role/b"
    assert definition.comparable_name(None, "b") == "b"
    assert definition.comparable_log_uri("S3://logs", "s3n://logs/") == "S3://logs"
    assert definition.comparable_log_uri("s3://logs/a", "s3n://logs/") == "s3n://logs/"
    assert definition.comparable_log_uri("s3://logs", None) is None
    assert definition.comparable_applications(["spark"], ["Hadoop", "Spark"]) == {"spark"}
    assert definition.comparable_applications(["Hive"], ["Hadoop"]) == {"Hadoop"}
    assert definition.comparable_applications([], ["Hadoop"]) == {"Hadoop"}
