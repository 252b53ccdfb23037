"""Tests of what the action adds to the findings of the module."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from ansible_collections.deeplearning.cluster.plugins.action import cluster_validation
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validator import Finding, Level
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.node_variables import NodeVariables

from .conftest import TOO_SMALL, WORKERS

NEGATIVE = "training_job_max_cost: -5 is not valid. Specify an amount such as 250, or 0 for no limit."
REMOVED = {"lease": None, "idle": {"seconds": 1800, "then": "terminate"}, "topic": None, "rests": [], "endless": False}
REMOVED |= {"done": False}
TOLD = "With this definition, provision removes the end of nodes that have been idle for 30 min 0 s, because it does not set "
TOLD += "deeplearning_idle_after."


@pytest.mark.parametrize(
    ("max_cost", "own", "result", "messages", "variables"),
    [
        (250, [], {}, [], {}),
        (1, [], {}, [TOO_SMALL], {}),
        (250, [], {"removed_ends": REMOVED}, [TOLD], {}),
        (1, [], {}, [], {"deeplearning_node_service": "emr"}),
        (-5, [NEGATIVE], {}, [NEGATIVE], {}),
        (1, [], {"failed": True, "msg": "denied"}, [], {}),
    ],
)
def test_a_maximum_cost_that_does_not_pay_for_the_job_is_an_error(monkeypatch, max_cost, own, result, messages, variables):
    found = {"price": {"currency": "USD", "charges": [WORKERS], "published": "", "read_at": 0, "problem": ""}, "findings": [], **result}
    nodes = NodeVariables({"training_job_max_cost": max_cost}, lambda value: value)
    monkeypatch.setattr(cluster_validation.InProcessAction, "run", lambda *_: found)
    monkeypatch.setattr(cluster_validation, "node_variables", lambda *_: nodes)
    monkeypatch.setattr(cluster_validation, "findings_of_task", lambda *_: [Finding("job", Level.ERROR, message) for message in own])
    shown = MagicMock()
    monkeypatch.setattr(cluster_validation, "show", shown)
    done = cluster_validation.ActionModule(MagicMock(_role=None, args={}), *[MagicMock()] * 5).run(task_vars=variables)
    assert [finding["message"] for finding in done["findings"]] == messages
    assert shown.called == (max_cost == 250)
    messages = [message for message in messages if message != TOLD]  # a warning
    message = "\n".join(messages) or result.get("msg", "")
    assert (done.get("failed", False), done.get("msg", "")) == (bool(message), message)


def test_the_lease_need_not_last_longer_than_the_maximum_cost_allows(monkeypatch):
    """It pays for an hour of two. The module refuses a lease of more than a year."""
    runs = []

    def run(action, *_others):
        runs.append(action._task.args["lease_minimum"])
        return {"price": {"currency": "USD", "charges": [WORKERS], "published": "", "read_at": 0, "problem": ""}}

    nodes = NodeVariables({"training_job_max_cost": 237, "training_job_time_limit": 7200}, lambda value: value)
    monkeypatch.setattr(cluster_validation.InProcessAction, "run", run)
    monkeypatch.setattr(cluster_validation, "node_variables", lambda *_: nodes)
    monkeypatch.setattr(cluster_validation, "findings_of_task", lambda *_: [])
    cluster_validation.ActionModule(MagicMock(_role=None, args={"lease_minimum": "9000"}), *[MagicMock()] * 5).run(task_vars={})
    assert runs == [0, 5400]


def test_after_an_end_of_the_nodes_the_validation_says_what_the_rest_costs(monkeypatch):
    price = {"currency": "USD", "charges": [WORKERS, {**WORKERS, "kind": "nat_gateway", "hourly": 2.0}], "hourly": 239.0}
    price |= {"published": "", "read_at": 0, "problem": ""}
    ended = {"failed": True, "msg": "lease: it has ended.", "nodes_ended": True, "price": price}
    monkeypatch.setattr(cluster_validation.InProcessAction, "run", lambda *_: ended)
    monkeypatch.setattr(cluster_validation, "node_variables", lambda *_: NodeVariables({}, lambda value: value))
    monkeypatch.setattr(cluster_validation, "findings_of_task", lambda *_: [])
    done = cluster_validation.ActionModule(MagicMock(_role=None, args={}), *[MagicMock()] * 5).run(task_vars={})
    assert done["msg"].startswith("lease: it has ended.\nTo delete the rest of the cluster, which costs 2.00 USD per hour")
    assert done["msg"].endswith("run ansible-playbook deeplearning.cluster.destroy")
