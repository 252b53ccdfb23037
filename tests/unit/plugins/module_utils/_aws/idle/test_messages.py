"""Tests of the messages about idle nodes, which people get even without a controller."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.idle import messages

SINCE = datetime(2026, 12, 1, 16, tzinfo=UTC)
RUN = "ansible-playbook deeplearning.cluster."


@pytest.mark.parametrize(
    ("message", "subject", "text"),
    [
        (
            lambda: messages.warning("bert", "us-east-1", 1, SINCE, SINCE + timedelta(hours=1)),
            "bert: AWS terminates the idle nodes at about 2026-12-01 17:00 UTC",
            "Cluster bert (1 node) has been idle since 2026-12-01 16:00 UTC. If nobody uses the cluster, AWS terminates the nodes at "
            f"about 2026-12-01 17:00 UTC. {messages.LOSES} To keep the nodes for 4 hours, run ansible localhost -m "
            'deeplearning.cluster.idle_hold -a "cluster=bert region=us-east-1 name=me duration=4h"',
        ),
        (
            lambda: messages.ended("bert", 3, SINCE),
            "bert: AWS terminates its idle nodes",
            f"Cluster bert (3 nodes) has been idle since 2026-12-01 16:00 UTC, and AWS terminates the nodes. {messages.LOSES} To see what "
            f"still costs money, run {RUN}info\nTo start nodes again, run {RUN}provision -e deeplearning_start_again=true",
        ),
        (
            lambda: messages.trial("bert", 3, SINCE),
            "bert: the nodes have been idle since 2026-12-01 16:00 UTC",
            "Cluster bert (3 nodes) has been idle since 2026-12-01 16:00 UTC. With deeplearning_idle_then: terminate, AWS would terminate "
            f"the nodes. To let it do so, remove deeplearning_idle_then from the definition, and run {RUN}provision",
        ),
        *(
            (
                lambda others=others: messages.silent(
                    "bert", "bert-worker3", others, SINCE, messages.unreachable("bert-worker3", "i-0c", "us-east-1")
                ),
                "Cluster bert does not report whether it is idle",
                f"bert-worker3 of cluster bert has not reported since 2026-12-01 16:00 UTC whether it is idle{more}. A node that says "
                "nothing counts as in use, so all nodes keep running and cost money, even if nobody uses them. To let the nodes report, "
                f"run {RUN}configure\nIf bert-worker3 does not answer, terminate it: aws autoscaling "
                "terminate-instance-in-auto-scaling-group --no-should-decrement-desired-capacity --instance-id i-0c --region us-east-1\n"
                f"To delete the cluster, run {RUN}destroy",
            )
            for others, more in ((0, ""), (1, ", and 1 more does not report either"), (2, ", and 2 more do not report either"))
        ),
    ],
)
def test_messages_say_what_happens_and_what_to_run(message, subject, text):
    assert message() == (subject, text)
