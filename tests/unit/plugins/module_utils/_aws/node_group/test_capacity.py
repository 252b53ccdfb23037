"""Tests of the order of a definition's alternatives, and of the alternative that a cluster with nodes keeps."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Alternative
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import capacity
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.planning import Action, Change, Policy
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Found, Wanted

P4D, P5 = "p4d.24xlarge", "p5.48xlarge"
OPTIONS = {
    "instance_type": P4D,
    "market": "on-demand",
    "master_market": None,
    "spot_max_price": None,
    "capacity_reservation_id": None,
    "alternatives": [],
    "placement": "none",
    "placement_group": None,
    "efa": False,
    "worker_count": 4,
    "worker_minimum": None,
    "grow": False,
    "replace_nodes": False,
}
RESERVATIONS = {"cr-1": "us-east-1c", "cr-2": "us-east-1d"}


class Account:
    """An AWS account with capacity reservations and with activities of every group."""

    def __init__(self):
        self.cluster = "bert"
        self.autoscaling = SimpleNamespace(describe_scaling_activities=self.activities)

    def retrieve_once(self, service, operation, key, **asked):
        assert all(asked["CapacityReservationIds"])
        assert (service, operation, key) == ("ec2", "describe_capacity_reservations", "CapacityReservations")
        return [{"AvailabilityZone": RESERVATIONS[name]} for name in asked["CapacityReservationIds"] if name in RESERVATIONS]

    def activities(self, **asked):
        return {"Activities": [{"ActivityId": f"{asked['AutoScalingGroupName']}-{number}"} for number in range(2)]}


@pytest.fixture
def request_for(monkeypatch):
    """Return a function that creates requests for a cluster in two zones."""

    def make(**options):
        return SimpleNamespace(options={**OPTIONS, **options}, cloud=Account())

    def zones(request, found):
        assert found == FOUND
        return [f"{request.cloud.cluster}-a", f"{request.cloud.cluster}-b"]

    monkeypatch.setattr(capacity, "zones", zones)
    return make


FOUND: list[Found] = []
BOTH, FIRST, SECOND = ("bert-a", "bert-b"), ("bert-a",), ("bert-b",)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [Alternative(P4D, BOTH)]),
        ({"efa": True}, [Alternative(P4D, FIRST), Alternative(P4D, SECOND)]),
        ({"placement": "cluster"}, [Alternative(P4D, FIRST), Alternative(P4D, SECOND)]),
        ({"alternatives": [{"instance_type": P5}]}, [Alternative(P4D, BOTH), Alternative(P5, BOTH)]),
        ({"alternatives": [{"instance_type": None}]}, [Alternative(P4D, BOTH)]),
        ({"alternatives": [{"zone": "us-east-1f"}]}, [Alternative(P4D, BOTH), Alternative(P4D, ("us-east-1f",))]),
        (
            {"efa": True, "alternatives": [{"zone": "us-east-1f", "instance_type": P5}]},
            [Alternative(P4D, FIRST), Alternative(P4D, SECOND), Alternative(P5, ("us-east-1f",))],
        ),
        ({"market": "spot", "spot_max_price": "9.5"}, [Alternative(P4D, BOTH, "spot", "9.5")]),
        ({"spot_max_price": "9.5"}, [Alternative(P4D, BOTH)]),
        (
            {"spot_max_price": "9.5", "alternatives": [{"market": "spot"}, {"market": "spot", "spot_max_price": "11"}]},
            [Alternative(P4D, BOTH), Alternative(P4D, BOTH, "spot", "9.5"), Alternative(P4D, BOTH, "spot", "11")],
        ),
        (
            {"market": "capacity-reservation", "capacity_reservation_id": "cr-1"},
            [Alternative(P4D, ("us-east-1c",), "capacity-reservation", None, "cr-1")],
        ),
        (
            {"market": "capacity-block", "capacity_reservation_id": "cr-1", "alternatives": [{"capacity_reservation_id": "cr-2"}]},
            [
                Alternative(P4D, ("us-east-1c",), "capacity-block", None, "cr-1"),
                Alternative(P4D, ("us-east-1d",), "capacity-block", None, "cr-2"),
            ],
        ),
        (
            {"market": "capacity-reservation", "capacity_reservation_id": "cr-1", "alternatives": [{"zone": "us-east-1f"}]},
            [
                Alternative(P4D, ("us-east-1c",), "capacity-reservation", None, "cr-1"),
                Alternative(P4D, ("us-east-1f",), "capacity-reservation", None, "cr-1"),
            ],
        ),
        (
            {"market": "capacity-reservation", "capacity_reservation_id": "cr-9"},
            [Alternative(P4D, BOTH, "capacity-reservation", None, "cr-9")],
        ),
        ({"capacity_reservation_id": "cr-1"}, [Alternative(P4D, BOTH)]),
        (
            {"market": "capacity-reservation", "capacity_reservation_id": "cr-1", "alternatives": [{"market": "on-demand"}]},
            [Alternative(P4D, ("us-east-1c",), "capacity-reservation", None, "cr-1"), Alternative(P4D, BOTH)],
        ),
    ],
)
def test_alternatives_of_a_definition(request_for, options, expected):
    assert capacity.alternatives(request_for(**options), FOUND) == expected


def nodes(group="workers", numbers=(2, 3), subnets=("subnet-a",)):
    return Found(Address("nodes", group), group, {"numbers": list(numbers)}, {"subnets": set(subnets)})


def template(**changed):
    properties = {"instance_type": P5, "market": "on-demand", "capacity_reservation": "", "placement_group": "", **changed}
    return Found(Address("launch_template", "workers"), "lt-1", properties)


def group(*subnets, size=4, wanted=4, key="workers"):
    return Found(Address("auto_scaling_group", key), f"bert-{key}", {"subnets": list(subnets), "size": size}, {"wanted": str(wanted)})


SUBNETS = [Found(Address("subnet", key), key, {"zone": f"bert-{key[-1]}"}) for key in ("subnet-a", "subnet-b")]


@pytest.mark.parametrize(
    ("found", "expected"),
    [([], False), ([nodes(numbers=())], False), ([template()], False), ([nodes(numbers=()), nodes("master", (1,))], True)],
)
def test_a_cluster_has_nodes_once_they_have_numbers(found, expected):
    assert capacity.has_nodes(found) is expected


@pytest.mark.parametrize(
    ("alternative", "expected"),
    [
        (Alternative(P5, BOTH), True),
        (Alternative(P5, FIRST), True),
        (Alternative(P5, SECOND), False),
        (Alternative(P4D, FIRST), False),
        (Alternative(P5, FIRST, "spot"), False),
        (Alternative(P5, FIRST, "spot", "9.5"), False),
        (Alternative(P5, FIRST, "on-demand", None, "cr-1"), False),
    ],
)
def test_an_alternative_is_in_use_by_what_templates_and_groups_say(alternative, expected):
    """The cluster no longer has subnet-old, so this subnet is ignored. The alternative may contain zones that the group does not use."""
    assert capacity.is_in_use(alternative, [template(), group("subnet-a", "subnet-old"), *SUBNETS]) is expected


def test_an_alternative_is_in_use_when_each_template_says_so():
    mixed = [template(), template(instance_type=P4D)]
    assert not capacity.is_in_use(Alternative(P5, BOTH), mixed)
    assert not capacity.is_in_use(Alternative(P4D, BOTH), mixed)
    reserved = template(market="capacity-block", capacity_reservation="cr-1")
    assert capacity.is_in_use(Alternative(P5, BOTH, "capacity-block", None, "cr-1"), [reserved])
    assert not capacity.is_in_use(Alternative(P5, BOTH, "capacity-block", None, "cr-2"), [reserved])


def test_an_alternative_is_in_use_although_the_master_is_in_its_own_market():
    def found(of_workers, **of_master):
        master = Found(Address("launch_template", "master"), "lt-2", {**template().properties, **of_master})
        return [template(market=of_workers, capacity_reservation="cr-1" if of_workers == "capacity-block" else ""), master]

    for market, reservation in (("spot", None), ("capacity-block", "cr-1")):
        alternative = Alternative(P5, BOTH, market, None, reservation)
        assert capacity.is_in_use(alternative, found(market), "on-demand")
        assert not capacity.is_in_use(alternative, found(market))
        assert not capacity.is_in_use(alternative, found(market, market=market), "on-demand")


@pytest.mark.parametrize(
    ("options", "group_name", "expected"),
    [
        ({}, "workers", Alternative(P5, FIRST, "spot", "9")),
        ({"master_market": "on-demand"}, "workers", Alternative(P5, FIRST, "spot", "9")),
        ({"replace_nodes": True}, "workers", Alternative(P4D, BOTH)),
        ({"replace_nodes": True, "master_market": "spot"}, "master", Alternative(P4D, BOTH, "spot")),
        ({}, "master", Alternative(P4D, BOTH)),
    ],
)
def test_new_nodes_are_launched_as_the_template_says(options, group_name, expected):
    """The definition has other nodes, and the master has no template."""
    found = [nodes(), template(market="spot", spot_max_price="9"), group("subnet-a"), *SUBNETS]
    request = SimpleNamespace(options={**OPTIONS, **options}, alternative=Alternative(P4D, BOTH))
    assert capacity.launched(request, found, group_name) == expected


IN_GROUP = [nodes(), template(placement_group="bert")]


@pytest.mark.parametrize(
    ("options", "alternative", "strategies", "found", "expected"),
    [
        ({}, Alternative(P5, FIRST), {"cluster", "spread"}, [], True),
        ({}, Alternative(P5, FIRST, "spot"), {"cluster"}, [], True),
        ({}, Alternative(P5, FIRST), {"spread"}, [], False),
        ({}, Alternative(P5, BOTH), {"cluster"}, [], False),
        ({"worker_count": 0}, Alternative(P5, FIRST), {"cluster"}, [], False),
        ({"worker_count": 0, "spares": 1}, Alternative(P5, FIRST), {"cluster"}, [], True),
        ({}, Alternative(P5, FIRST, "capacity-reservation"), {"cluster"}, [], False),
        ({}, Alternative(P5, FIRST, "capacity-block", None, "cr-1"), {"cluster"}, [], False),
        ({}, Alternative(P5, FIRST), {"cluster"}, [nodes(numbers=()), template()], True),
        ({}, Alternative(P5, FIRST), {"cluster"}, [nodes(), template()], False),
        ({"replace_nodes": True}, Alternative(P5, FIRST), {"cluster"}, [nodes(), template()], False),
        ({}, Alternative(P5, FIRST), {"cluster"}, [nodes(), template(placement_group="others")], False),
        ({}, Alternative(P5, FIRST), {"cluster"}, IN_GROUP, True),
        ({"worker_count": 0}, Alternative(P5, FIRST), {"cluster"}, IN_GROUP, True),
        ({}, Alternative(P5, FIRST), {"spread"}, IN_GROUP, False),
    ],
)
def test_which_nodes_are_in_a_placement_group_by_default(request_for, options, alternative, strategies, found, expected):
    """A cluster that has nodes keeps its placement."""
    assert capacity.suits_placement_group(request_for(**options), alternative, strategies, found) is expected


def test_nodes_in_the_placement_group_of_the_cluster_stay_in_their_zone(request_for, monkeypatch):
    monkeypatch.setattr(capacity, "zones", lambda _request, _found: list(BOTH))
    apart = [Alternative(P4D, FIRST), Alternative(P4D, SECOND)]
    assert capacity.alternatives(request_for(placement="auto"), IN_GROUP) == apart
    for options, found in (({"placement": "auto"}, [nodes(), template()]), ({"placement": "none"}, IN_GROUP)):
        assert capacity.alternatives(request_for(**options), found) == [Alternative(P4D, BOTH)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], [P4D, P5]),
        ([nodes(numbers=()), template()], [P4D, P5]),
        ([nodes(), template(), group("subnet-a"), *SUBNETS], [P5]),
        ([nodes(), template(instance_type="g5.xlarge"), group("subnet-a"), *SUBNETS], [P4D]),
    ],
)
def test_a_cluster_with_nodes_stays_with_what_they_are(request_for, monkeypatch, found, expected):
    request = request_for(alternatives=[{"instance_type": P5}])
    monkeypatch.setattr(capacity, "zones", lambda _request, of: list(BOTH) if of is found else [])
    assert [(item.instance_type, item.zones) for item in capacity.choices(request, found)] == [(name, BOTH) for name in expected]


def change(kind, key="workers", *, after=None, policy=Policy.IN_PLACE, is_new=False):
    address = Address(kind, key)
    found = None if is_new else Found(address, "x")
    return Change(address, Action.UPDATE, Wanted(address), after=after or {}, found=found, policy=policy)


@pytest.mark.parametrize(
    ("changes", "found", "expected"),
    [
        ([change("launch_template", policy=Policy.REPLACE)], [nodes(numbers=())], True),
        ([change("launch_template", policy=Policy.REPLACE)], [nodes()], False),
        ([change("launch_template", policy=Policy.REPLACE)], [nodes("master", ())], False),
        ([change("launch_template", policy=Policy.REPLACE)], [nodes(numbers=(), subnets=())], False),
        ([change("launch_template", policy=Policy.REPLACE, is_new=True)], [nodes(numbers=())], False),
        ([change("launch_template")], [nodes(numbers=())], False),
        ([change("security_group", policy=Policy.REPLACE)], [nodes(numbers=())], False),
        ([change("auto_scaling_group", after={"subnets": {"subnet-b"}})], [nodes(numbers=())], True),
        ([change("auto_scaling_group", after={"subnets": {"subnet-a", "subnet-b"}})], [nodes(numbers=())], False),
        ([change("auto_scaling_group", after={"size": 3})], [nodes(numbers=())], False),
        ([change("security_group", after={"subnets": {"subnet-b"}})], [nodes(numbers=())], False),
        (
            [change("launch_template"), change("auto_scaling_group", after={"subnets": {"subnet-b"}})],
            [template(), nodes("master", ()), nodes(numbers=())],
            True,
        ),
        ([], [nodes(numbers=())], False),
    ],
)
def test_a_plan_mixes_nodes_where_others_would_join_those_of_an_unfinished_run(changes, found, expected):
    assert capacity.would_mix_nodes(changes, found) is expected


@pytest.mark.parametrize(
    ("replace", "numbers", "expected"), [(False, (2,), False), (True, (2,), True), (False, (), True), (True, (), True)]
)
def test_nodes_are_moved_on_request_or_before_they_are_accepted(request_for, replace, numbers, expected):
    assert capacity.may_replace_nodes(request_for(replace_nodes=replace), [nodes(numbers=numbers)]) is expected


def test_activities_of_all_groups_are_past(monkeypatch):
    account = Account()
    monkeypatch.setattr(capacity.auto_scaling_groups, "read", lambda cloud: [group(key="master"), group()] if cloud is account else [])
    assert capacity.activity_ids(account) == {"bert-master-0", "bert-master-1", "bert-workers-0", "bert-workers-1"}


@pytest.mark.parametrize(
    ("options", "found", "expected"),
    [
        ({}, [], 4),
        ({}, [group(size=4), nodes()], 4),
        ({"spares": 2}, [group(size=4), nodes()], 6),
        # Nodes that were accepted with fewer workers
        ({"worker_minimum": 2}, [group(size=2), nodes()], 2),
        ({"worker_minimum": 2, "spares": 2}, [group(size=4, wanted=6), nodes()], 4),
        ({"worker_minimum": 2, "spares": 2, "grow": True}, [group(size=4, wanted=6), nodes()], 6),
        ({"worker_minimum": 2}, [group(key="master", size=1), nodes("master"), group(size=3), nodes()], 3),
        ({"worker_minimum": 2, "grow": True}, [group(size=3), nodes()], 4),
        # The group has fewer workers than the current minimum
        ({"worker_minimum": 3}, [group(size=2), nodes()], 4),
        ({}, [group(size=3), nodes()], 4),
        # The definition has changed since the nodes were accepted
        ({"worker_minimum": 2}, [group(size=3, wanted=5), nodes()], 4),
        # The group has more workers than desired, or its nodes have not been accepted yet
        ({"worker_minimum": 2}, [group(size=5), nodes()], 4),
        ({"worker_minimum": 2}, [group(size=2)], 4),
        ({"worker_minimum": 2}, [group(size=2), nodes("master")], 4),
        ({"worker_minimum": 2}, [group(size=2), nodes(numbers=())], 4),
        ({"worker_minimum": 2}, [group(key="master", size=3), nodes()], 4),
    ],
)
def test_how_many_workers_a_run_is_for(request_for, options, found, expected):
    assert capacity.worker_count(request_for(**options), found) == expected


@pytest.mark.parametrize(("minimum", "expected"), [(None, 4), (0, 4), (1, 1), (3, 3)])
def test_how_many_workers_a_job_needs(request_for, minimum, expected):
    assert capacity.least_workers(request_for(worker_minimum=minimum)) == expected


def test_spares_are_needed_unless_there_is_a_minimum(request_for):
    assert capacity.least_workers(request_for(spares=2)) == 6
    assert capacity.least_workers(request_for(spares=2, worker_minimum=3)) == 3
    assert capacity.least_workers(request_for(spares=1, worker_count=0)) == 1


MASTER_NODE = nodes("master", (1,))


@pytest.mark.parametrize(
    ("options", "found", "expected"),
    [
        ({}, [], True),
        ({}, [MASTER_NODE, nodes(numbers=(2, 3, 4, 5))], False),
        ({"worker_count": 3}, [MASTER_NODE, nodes(numbers=(2, 3, 4, 5))], False),
        ({}, [MASTER_NODE, nodes(numbers=(2, 3, 5))], True),
        ({}, [nodes(numbers=(2, 3, 4, 5))], True),
        ({"worker_count": 0}, [MASTER_NODE], False),
        ({"worker_count": None}, [MASTER_NODE, nodes(numbers=(2, 3, 4, 5))], True),
        ({"replace_nodes": True}, [MASTER_NODE, nodes(numbers=(2, 3, 4, 5))], True),
        ({"components": ["master"]}, [MASTER_NODE], False),
        ({"components": ["workers"]}, [nodes(numbers=(2, 3, 4, 5))], False),
        ({"components": ["workers"]}, [MASTER_NODE], True),
        ({"worker_minimum": 2}, [group(size=3), MASTER_NODE, nodes(numbers=(2, 3, 4))], False),
    ],
)
def test_a_run_launches_nodes_if_one_is_missing_or_may_be_replaced(request_for, options, found, expected):
    assert capacity.launches_nodes(request_for(**options), found) is expected
