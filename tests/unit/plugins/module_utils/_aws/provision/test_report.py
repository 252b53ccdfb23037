"""Tests of the report at the end of a run."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import ClusterError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.errors import ApplyError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import Action, Change
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Found, Wanted
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing import cache
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.pricing.instance_prices import DATE
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision import report
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.provision.components import ALL_COMPONENTS

DESTROY = "ansible-playbook deeplearning.cluster.destroy (add -e deeplearning_delete_data=true to delete the file systems too)."
ABSENT = "state: absent (add delete_data: true to delete the file systems too)."
GROUP, NAT = Address("auto_scaling_group", "workers"), Address("nat_gateway", "main")
TEMPLATE, NODES = Address("launch_template", "workers"), Address("nodes", "workers")


def created(address):
    return Change(address, Action.CREATE, Wanted(address))


def updated(address, before, after):
    return Change(address, Action.UPDATE, Wanted(address), before=before, after=after)


def run_of(before, **options):
    return SimpleNamespace(before=before, request=SimpleNamespace(options={"prices": False}, **options))


@pytest.mark.parametrize(
    ("before", "applied", "bill"),
    [
        ([], [], ""),
        ([], [created(NAT)], " These resources still exist and cost money: NAT gateway main."),
        ([Found(NAT, "nat-1")], [], " These resources still exist and cost money: NAT gateway main."),
        ([Found(NAT, "nat-1"), Found(GROUP, "workers")], [], ""),
        ([Found(NAT, "nat-1", adopted=True)], [], ""),
        ([], [created(Address("vpc_endpoint", "s3"))], ""),
        ([], [created(Address("file_system", "main"))], " These resources still exist and cost money: EFS file system main."),
    ],
)
def test_what_costs_money_without_nodes(before, applied, bill):
    assert report._bill(run_of(before), applied) == bill


def test_the_price_is_that_of_the_resources_in_the_sentence(monkeypatch):
    monkeypatch.setattr(cache, "path", lambda _region, _endpoint: None)
    run = run_of([Found(GROUP, "workers"), Found(Address("nat_gateway", "other"), "nat-2")])
    run.request.options["prices"], run.request.cloud = True, SimpleNamespace(region="us-east-1")
    assert report._bill(run, [created(NAT)]) == NAT_COSTS + NAT_PRICE


NAT_COSTS = " These resources still exist and cost money: NAT gateway main."
NAT_PRICE = f" These resources cost 0.045 USD per hour at prices of us-east-1 of {DATE}."


@pytest.mark.parametrize(
    ("present", "applied", "costs"),
    [
        (True, [], ""),
        (False, [created(NAT)], ""),
        (
            True,
            [created(NAT), created(GROUP)],
            f"{report._launching('bert', [], [created(GROUP)])}{NAT_COSTS}{NAT_PRICE}",
        ),
    ],
)
def test_each_failure_names_what_goes_on_costing_money(monkeypatch, present, applied, costs):
    def fail(_module, error, **_result):
        raise error

    monkeypatch.setattr(report, "fail", fail)
    monkeypatch.setattr(cache, "path", lambda _region, _endpoint: None)
    cloud = SimpleNamespace(cluster="bert", region="us-east-1", interruption=threading.Event())
    for components, deletion in ((ALL_COMPONENTS, DESTROY), (ALL_COMPONENTS[:1], ABSENT)):
        request = SimpleNamespace(cloud=cloud, present=present, options={"prices": True})
        run = SimpleNamespace(request=request, before=[], module=None, components=components)
        with pytest.raises(ClusterError) as failure:
            report.fail_applying(run, ApplyError(created(TEMPLATE), ValueError("AWS is tired"), applied), applied)
        advice = f"{costs} To stop these costs, delete the cluster with {deletion}" if costs else ""
        assert str(failure.value).endswith(report._describe_applied(applied) + advice)


@pytest.mark.parametrize(
    ("deferred", "expected"),
    [
        (
            [updated(TEMPLATE, {}, {"image_id": "ami-2"})],
            "The launch template changes (image_id). "
            "Until then, new nodes are launched with the former template, too. These changes are deferred",
        ),
        (
            [updated(TEMPLATE, {"instance_type": "c5.large"}, {"instance_type": "c5.xlarge"})],
            "The launch template changes (instance_type is 'c5.xlarge', but the nodes have 'c5.large'). "
            "Until then, new nodes are launched with the former template, too. These changes are deferred",
        ),
        (
            [updated(TEMPLATE, {}, {"image_id": "ami-2"}), updated(NODES, {"outdated": (3, 2)}, {"outdated": ()})],
            "The launch template changes (image_id), so nodes 2, 3 need to be replaced. "
            "Until then, new nodes are launched with the former template, too. These changes are deferred",
        ),
        (
            [updated(NODES, {"outdated": (2,)}, {"outdated": ()})],
            "The launch template has changed, so nodes 2 need to be replaced. These changes are deferred",
        ),
        (
            [updated(NODES, {"unhealthy": (4,)}, {"unhealthy": ()})],
            "EC2 status checks have failed on nodes 4, so these nodes need to be replaced. These changes are deferred. To apply them, set",
        ),
    ],
)
def test_what_waits_until_nodes_may_be_replaced(deferred, expected):
    assert report._describe_deferred(deferred).startswith(expected)


ADVICE = (
    " To replace outdated nodes while no job is running, add -e deeplearning_replace_nodes=true\nTo use the nodes as they are,"
    " restore the definition or add -e deeplearning_allow_outdated_nodes=true"
)
MASTER = Address("nodes", "master")


@pytest.mark.parametrize(
    ("deferred", "expected"),
    [
        ([], ""),
        ([updated(NODES, {"unhealthy": (4,)}, {"unhealthy": ()})], ""),
        ([updated(TEMPLATE, {"image_id": "ami-1"}, {"image_id": "ami-2"})], ""),
        (
            [updated(NODES, {"outdated": (2,), "unhealthy": (3,)}, {"outdated": (), "unhealthy": ()})],
            "bert-worker2 differs from the definition: launched from an older launch template.",
        ),
        (
            [
                updated(TEMPLATE, {"instance_type": "c5.large", "user_data": "x" * 65}, {"instance_type": "c5.xlarge", "user_data": "y"}),
                updated(
                    Address("launch_template", "master"),
                    {"instance_type": "c5.large", "interfaces": ({"a": 1},), "root_volume_size": 100},
                    {"instance_type": "c5.xlarge", "interfaces": (), "root_volume_size": 200},
                ),
                updated(NODES, {"outdated": (3, 2)}, {"outdated": ()}),
                updated(MASTER, {"outdated": (1,)}, {"outdated": ()}),
            ],
            "bert-master, bert-worker2, bert-worker3 differ from the definition: instance_type is 'c5.xlarge', but the nodes have"
            " 'c5.large', user_data, interfaces, root_volume_size is 200, but the nodes have 100.",
        ),
        (
            [updated(MASTER, {"outdated": (1,)}, {"outdated": ()}), updated(NODES, {"outdated": tuple(range(2, 9))}, {"outdated": ()})],
            "bert-master, bert-worker2, bert-worker3, bert-worker4, bert-worker5 and 3 more differ from the definition: launched from an"
            " older launch template.",
        ),
    ],
)
def test_how_nodes_differ_from_the_definition(deferred, expected):
    assert report.describe_outdated("bert", deferred) == (expected and expected + ADVICE)


def deleted(address):
    return Change(address, Action.DELETE, Wanted(address))


GOES_ON = " To continue the deletion, run the same command again."


@pytest.mark.parametrize(
    ("applied", "costs"),
    [
        ([], f"{report._launching('bert', [Found(GROUP, 'workers')], [])}{NAT_COSTS}{GOES_ON}"),
        ([deleted(NODES)], f"{NAT_COSTS}{GOES_ON}"),
        ([deleted(NODES), deleted(GROUP)], f"{NAT_COSTS}{GOES_ON}"),
        ([deleted(NODES), deleted(GROUP), deleted(NAT)], ""),
    ],
)
def test_an_incomplete_deletion_names_what_is_left(applied, costs):
    before = [Found(GROUP, "workers"), Found(NODES, "nodes"), Found(NAT, "nat-1"), Found(Address("vpc", "main"), "vpc-1", adopted=True)]
    assert report._costs_of_rest("bert", before, applied) == costs
