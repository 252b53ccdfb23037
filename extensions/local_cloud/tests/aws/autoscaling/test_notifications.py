"""Auto Scaling groups send notifications about launches and terminations to SNS topics."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from local_cloud.aws.app import AwsApi
from local_cloud.testing import wait_until

from ..conftest import Account, refused

EVENTS = "autoscaling:EC2_INSTANCE_"
ERRORS_AND_ENDS = [f"{EVENTS}{each}" for each in ("LAUNCH_ERROR", "TERMINATE", "TERMINATE_ERROR")]


@dataclass
class Topic:
    """A topic with a queue that gets its messages."""

    account: Account
    arn: str
    queue: str

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages that have come since the last call."""
        found = self.account.client("sqs").receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10).get("Messages", [])
        for each in found:
            self.account.client("sqs").delete_message(QueueUrl=self.queue, ReceiptHandle=each["ReceiptHandle"])
        bodies = [json.loads(each["Body"]) for each in found]
        return [{**json.loads(each["Message"]), "Subject": each["Subject"]} for each in bodies]

    def configure(self, group: str, *types: str) -> None:
        put = self.account.groups.put_notification_configuration
        put(AutoScalingGroupName=group, TopicARN=self.arn, NotificationTypes=[*types])

    def types(self, group: str) -> list[str]:
        found = self.account.groups.describe_notification_configurations(AutoScalingGroupNames=[group])["NotificationConfigurations"]
        return [each["NotificationType"] for each in found if each["TopicARN"] == self.arn]


@pytest.fixture
def topic(account: Account) -> Topic:
    sns, sqs = account.client("sns"), account.client("sqs")
    arn = sns.create_topic(Name=account.name("topic"))["TopicArn"]
    queue = sqs.create_queue(QueueName=account.name("queue"))["QueueUrl"]
    queue_arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=arn, Protocol="sqs", Endpoint=queue_arn)
    return Topic(account, arn, queue)


def test_a_configuration_is_tested_replaced_and_deleted(account: Account, topic: Topic) -> None:
    group = account.group(0)
    topic.configure(group, f"{EVENTS}LAUNCH")
    (test,) = topic.messages()
    assert (test["Event"], test["AutoScalingGroupName"]) == ("autoscaling:TEST_NOTIFICATION", group)
    assert test["Subject"] == f'Auto Scaling: test notification for group "{group}"'
    topic.configure(group, *ERRORS_AND_ENDS)
    assert topic.types(group) == ERRORS_AND_ENDS
    account.groups.delete_notification_configuration(AutoScalingGroupName=group, TopicARN=topic.arn)
    assert topic.types(group) == []


def test_a_termination(account: Account, topic: Topic) -> None:
    group = account.group(1)
    (instance,) = wait_until(lambda: account.members(group))
    topic.configure(group, *ERRORS_AND_ENDS)
    topic.messages()
    account.groups.terminate_instance_in_auto_scaling_group(InstanceId=instance, ShouldDecrementDesiredCapacity=False)
    (message,) = wait_until(topic.messages)
    assert (message["Event"], message["EC2InstanceId"]) == (f"{EVENTS}TERMINATE", instance)
    assert "in response to a user request" in message["Cause"]
    wait_until(lambda: account.members(group))  # the launch of the new instance was not wanted
    assert topic.messages() == []


def test_a_launch_and_a_failed_launch(account: Account, topic: Topic, cloud: AwsApi) -> None:
    cloud.capacity.update({"p4d.24xlarge": {"us-east-1a": 0, "us-east-1b": 0}})
    group = account.group(0)
    topic.configure(group, f"{EVENTS}LAUNCH", *ERRORS_AND_ENDS)
    topic.messages()
    account.groups.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=1)
    failed = wait_until(topic.messages)[0]
    assert (failed["Event"], failed["StatusCode"]) == (f"{EVENTS}LAUNCH_ERROR", "Failed")
    assert "InsufficientInstanceCapacity" in failed["StatusMessage"]
    cloud.restore()
    wait_until(lambda: any(each["Event"] == f"{EVENTS}LAUNCH" for each in topic.messages()))


def test_nothing_is_sent_to_a_topic_that_was_deleted_or_about_a_group_that_is_deleted(account: Account, topic: Topic) -> None:
    group, other = account.group(1), account.group(1)
    for each in (group, other):
        wait_until(lambda each=each: account.members(each))  # type: ignore[misc]
        topic.configure(each, *ERRORS_AND_ENDS)
    topic.messages()
    account.groups.delete_auto_scaling_group(AutoScalingGroupName=group, ForceDelete=True)
    wait_until(lambda: account.described(group) is None)
    assert topic.messages() == []
    account.client("sns").delete_topic(TopicArn=topic.arn)
    account.groups.set_desired_capacity(AutoScalingGroupName=other, DesiredCapacity=0)
    wait_until(lambda: not account.members(other))


@pytest.mark.parametrize("name", ["{}-no-such-topic", "{}-ordered.fifo", "no arn"])
def test_a_topic_that_cannot_be_used(account: Account, topic: Topic, name: str) -> None:
    account.client("sns").create_topic(Name=f"{topic.arn.split(':')[5]}-ordered.fifo", Attributes={"FifoTopic": "true"})
    unusable = Topic(account, name.format(topic.arn), "")
    refused(lambda: unusable.configure(account.group(0), *ERRORS_AND_ENDS), "ValidationError", "Unable to publish test message")


def test_an_unknown_type(account: Account, topic: Topic) -> None:
    refused(lambda: topic.configure(account.group(0), f"{EVENTS}STOP"), "ValidationError")
