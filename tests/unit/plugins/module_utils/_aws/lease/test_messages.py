"""Tests of the messages before and at the end of a lease."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.lease import definition, messages

TOPIC = "arn:aws:sns:us-east-1:123456789012:training"
END = datetime(2026, 12, 1, 18, tzinfo=UTC)


@pytest.mark.parametrize(
    ("policy", "topic"),
    [
        (definition.policy("demo", "us-east-1", TOPIC), TOPIC),
        ({"Statement": {"Sid": messages.SID, "Action": "sns:Publish", "Resource": [TOPIC]}}, TOPIC),
        (definition.policy("demo", "us-east-1", None), None),
        ({"Statement": [{"Sid": messages.SID, "NotResource": TOPIC}]}, None),
        ({}, None),
        (None, None),
    ],
)
def test_a_policy_tells_the_topic(policy, topic):
    assert messages.topic_in(policy) == topic
    allowed = [{"Sid": "TellPeople", "Effect": "Allow", "Action": "sns:Publish", "Resource": TOPIC}]
    assert messages.statements(topic) == (allowed if topic else [])


def test_messages_whose_time_has_passed_are_over():
    assert messages.is_over("warning", "at(2026-12-01T17:50:00)", END)
    assert messages.is_over("ended", "at(2026-12-01T18:00:00)", END)
    assert not messages.is_over("ended", "at(2026-12-01T18:00:01)", END)
    assert not messages.is_over("ended", "rate(1 minute)", END)
    assert not messages.is_over("workers", "at(2026-01-01T00:00:00)", END)


@pytest.mark.parametrize(("left", "names"), [(601, {"warning", "ended"}), (600, {"ended"}), (0, set())])
def test_only_messages_that_are_due_are_scheduled(left, names):
    calls = definition.calls("demo", "us-east-1", definition.Terms(fixed_end=END), END, END - timedelta(seconds=left), TOPIC)
    assert calls.keys() - {"master", "workers"} == names


@pytest.mark.parametrize(("is_fixed", "run"), [(False, "run: {}configure"), (True, "change deeplearning_lease, and run: {}provision")])
def test_messages_say_what_happens_and_what_to_run(is_fixed, run):
    end, playbook = "2026-12-01 18:00 UTC", "ansible-playbook -i nodes.yml deeplearning.cluster."
    kept = "What else belongs to it, such as the network and the file systems with all data, is kept and continues to cost money."
    told = messages.inputs("demo", "us-east-1", END, is_fixed, TOPIC)
    assert told["warning"] == {
        "TopicArn": TOPIC,
        "Subject": f"demo: the lease of the nodes ends at {end}",
        "Message": f"The lease of the nodes of cluster demo (us-east-1) ends at {end}. If any node still runs, AWS then terminates it. "
        f"Jobs get SIGTERM 10 minutes before, so that they can save checkpoints. {kept} To keep nodes that run, {run.format(playbook)}",
    }
    assert told["ended"] == {
        "TopicArn": TOPIC,
        "Subject": f"demo: the lease of the nodes has ended at {end}",
        "Message": f"The lease of the nodes of cluster demo (us-east-1) has ended at {end}. If any node still runs, AWS terminates it. "
        f"{kept} To see what still exists and what it costs, run: {playbook}info",
    }


def test_texts_are_within_the_limits_of_sns():
    """A subject has less than 100 characters, and cluster names at most 30. Neither may contain line breaks."""
    for each in messages.inputs("c" * 30, "us-gov-northwest-1", END, False, TOPIC).values():
        assert len(each["Subject"]) < 100
        assert each["Subject"].isascii()
        assert "\n" not in each["Subject"] + each["Message"]
