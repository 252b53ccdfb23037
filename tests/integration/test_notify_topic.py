"""Auto Scaling notifies an SNS topic of what happens to the nodes when no controller is there."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.definition import NOTIFICATION_TYPES
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.tags import TOPIC_TAG
from local_cloud.testing import wait_until

from .clusters import subscribed
from .conftest import ModuleFailed
from .killing import kill_at

CONFIGURATION_CALLS = ("PutNotificationConfiguration", "DescribeNotificationConfigurations", "DeleteNotificationConfiguration")


@pytest.fixture
def other(cloud, name):
    return cloud.client("sns").create_topic(Name=f"{name}-other")["TopicArn"]


def configured(cloud, name):
    """Return the types of notifications for each group and topic."""
    result = {}
    groups = [f"{name}-master", f"{name}-workers"]
    described = cloud.client("autoscaling").describe_notification_configurations(AutoScalingGroupNames=groups)
    for each in described["NotificationConfigurations"]:
        result.setdefault((each["AutoScalingGroupName"].removeprefix(f"{name}-"), each["TopicARN"]), set()).add(each["NotificationType"])
    return result


def both(topic):
    return {(group, topic): set(NOTIFICATION_TYPES) for group in ("master", "workers")}


def changed(result):
    return {(change["action"], change["key"]) for change in result["changes"] if "notifications" in change["after"]}


def actions(cloud):
    """Return the calls about notifications since the last call of this function."""
    made = [call["action"] for call in cloud.control.calls() if call["action"] in CONFIGURATION_CALLS or call["service"] == "sns"]
    cloud.control.forget_calls()
    return made


def test_a_topic_is_added_changed_and_removed(cloud, run, definition, name, topic, other):
    run("cluster", **definition, notify_topic=topic)
    assert configured(cloud, name) == both(topic)
    actions(cloud)
    assert run("cluster", **definition, notify_topic=topic)["changes"] == []
    assert sorted(actions(cloud)) == ["DescribeNotificationConfigurations", "GetTopicAttributes"]

    predicted = run("cluster", **definition, notify_topic=other, check=True)
    assert configured(cloud, name) == both(topic)
    assert changed(run("cluster", **definition, notify_topic=other)) == changed(predicted) == {("update", "master"), ("update", "workers")}
    assert configured(cloud, name) == both(other)

    run("cluster", **definition)
    assert configured(cloud, name) == {}
    actions(cloud)
    assert run("cluster", **definition)["changes"] == []
    assert actions(cloud) == []


def test_a_cluster_without_a_topic_makes_no_calls_about_notifications(cloud, run, definition):
    actions(cloud)
    run("cluster", **definition)
    run("cluster", **definition)
    run("cluster", cluster=definition["cluster"], state="absent")
    assert actions(cloud) == []


def test_the_topics_of_others_are_kept_and_drift_is_corrected(cloud, run, definition, name, topic, other):
    autoscaling, theirs = cloud.client("autoscaling"), "autoscaling:EC2_INSTANCE_LAUNCH"
    run("cluster", **definition, notify_topic=topic)
    autoscaling.put_notification_configuration(AutoScalingGroupName=f"{name}-master", TopicARN=other, NotificationTypes=[theirs])
    types = [theirs, *NOTIFICATION_TYPES]
    autoscaling.put_notification_configuration(AutoScalingGroupName=f"{name}-master", TopicARN=topic, NotificationTypes=types)
    assert run("cluster", **definition, notify_topic=topic)["changes"] == []
    autoscaling.put_notification_configuration(AutoScalingGroupName=f"{name}-workers", TopicARN=topic, NotificationTypes=types[:2])
    assert changed(run("cluster", **definition, notify_topic=topic)) == {("update", "workers")}
    run("cluster", **definition)
    assert configured(cloud, name) == {("master", other): {theirs}}


def test_aws_reports_what_somebody_terminates_while_no_run_waits(cloud, run, definition, name, topic):
    run("cluster", **definition, notify_topic=topic)
    sqs, queue = cloud.client("sqs"), subscribed(cloud, name, topic)
    (master,) = cloud.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[f"{name}-master"])["AutoScalingGroups"]
    victim, instances = master["Instances"][0]["InstanceId"], cloud.client("autoscaling")
    instances.terminate_instance_in_auto_scaling_group(InstanceId=victim, ShouldDecrementDesiredCapacity=False)
    (message,) = wait_until(lambda: sqs.receive_message(QueueUrl=queue).get("Messages"))
    about = json.loads(json.loads(message["Body"])["Message"])
    assert (about["Event"], about["EC2InstanceId"]) == ("autoscaling:EC2_INSTANCE_TERMINATE", victim)


@pytest.mark.parametrize("stage", ["before", "after"])
@pytest.mark.parametrize("action", ["DeleteNotificationConfiguration", "CreateOrUpdateTags", "PutNotificationConfiguration"])
def test_a_killed_run_leaves_no_topic_that_later_runs_do_not_know(cloud, run, definition, name, topic, other, action, stage):
    run("cluster", **definition, notify_topic=topic)
    assert kill_at(cloud, {**definition, "notify_topic": other, "prices": False}, stage, action=action)
    run("cluster", **definition)
    assert configured(cloud, name) == {}
    groups = cloud.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[f"{name}-master", f"{name}-workers"])
    assert not [tag for group in groups["AutoScalingGroups"] for tag in group["Tags"] if tag["Key"] == TOPIC_TAG]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("{topic}-unknown", "there is no topic"),
        ("{topic}.fifo", "FIFO"),
        ("arn:aws:sns:eu-west-1:123456789012:alerts", "is not the ARN of a standard topic in us-east-1"),
        ("alerts", "is not the ARN"),
    ],
)
def test_a_topic_that_aws_cannot_notify(run, definition, topic, value, problem):
    with pytest.raises(ModuleFailed, match=rf"notify_topic: .*{problem}"):
        run("cluster", **definition, notify_topic=value.format(topic=topic), check=True)


def test_only_the_owner_of_a_topic_may_be_allowed_to_read_it(cloud, run, definition, topic):
    cloud.control.set_faults([{"action": "GetTopicAttributes", "code": "AuthorizationError", "status": 403}])
    assert run("cluster_validation", **definition, notify_topic=topic)["valid"]
