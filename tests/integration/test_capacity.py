"""Insufficient capacity: alternatives, fewer workers, restoration of the previous state, and outdated nodes."""

from __future__ import annotations

import re
import threading
import time

import permissions
import pytest

from .clusters import P4D, ZONES, instances, inventory, numbers, steps
from .conftest import REGION, ModuleFailed

pytestmark = pytest.mark.usefixtures("room_for_the_next")

PATIENCE = 120  # seconds to wait for nodes that AWS can launch


@pytest.fixture
def definition(definition):
    """A cluster with four workers of a scarce type. The short capacity timeout of the definition limits the wait for nodes that AWS cannot
    launch.
    """
    return {**definition, "instance_type": P4D, "worker_count": 4, "capacity_timeout": 10, "suppress_validators": ["vcpu_quota"]}


@pytest.fixture
def types(cloud, name):
    """Return the type, zone and market of each pending or running instance in the cluster."""

    def types():
        found = cloud.client("ec2").describe_instances(
            Filters=[
                {"Name": "tag:deeplearning:cluster", "Values": [name]},
                {"Name": "instance-state-name", "Values": ["pending", "running"]},
            ]
        )
        return sorted(
            (instance["InstanceType"], instance["Placement"]["AvailabilityZone"], instance.get("InstanceLifecycle", "on-demand"))
            for reservation in found["Reservations"]
            for instance in reservation["Instances"]
        )

    return types


def groups(cloud, name):
    found = cloud.client("autoscaling").describe_auto_scaling_groups(Filters=[{"Name": "tag:deeplearning:cluster", "Values": [name]}])
    return {group["AutoScalingGroupName"].removeprefix(f"{name}-"): group["DesiredCapacity"] for group in found["AutoScalingGroups"]}


def test_exact_or_nothing(cloud, run, definition, name):
    cloud.control.set_capacity({P4D: {"us-east-1a": 4}})
    with pytest.raises(
        ModuleFailed, match=rf"{P4D} in us-east-1a \(on-demand\): 3 of 4 nodes of {name}-workers .*Try another zone.*restored"
    ) as error:
        run("cluster", **definition)
    assert not groups(cloud, name)
    assert not instances(cloud, name)
    assert ("create", "vpc main") in steps(error.value.result), "applied changes are reported"
    costs = "These resources still exist and cost money: Elastic IP address nat, EFS file system main, NAT gateway main. Run again"
    assert costs in str(error.value)
    priced = costs.replace(" Run", r" These resources cost 0\.050 USD per hour at prices of .*\. Run")
    with pytest.raises(ModuleFailed, match=priced):
        run("cluster", **definition, prices=True)
    cloud.control.set_capacity({P4D: {"us-east-1a": 5}})
    assert run("cluster", **definition)["degraded"] is None
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("room", "workers"), [pytest.param(5, 4, marks=pytest.mark.exhaustive), (4, 3), pytest.param(3, 2, marks=pytest.mark.exhaustive)]
)
def test_at_least_the_minimum_is_taken(cloud, run, definition, name, room, workers):
    definition["worker_minimum"] = 2
    cloud.control.set_capacity({P4D: {"us-east-1a": room}})
    result = run("cluster", **definition)
    assert sorted(numbers(cloud, name).values()) == list(range(1, workers + 2))
    assert groups(cloud, name) == {"master": 1, "workers": workers}, "the group must not launch more workers later"
    if workers == 4:
        assert result["degraded"] is None
        return
    assert (result["degraded"]["workers"], result["degraded"]["wanted"]) == (workers, 4)
    assert "do not have sufficient p4d.24xlarge capacity" in result["degraded"]["reason"]

    # The next run keeps this size, even if capacity is available again, and grows the cluster only with grow: true
    cloud.control.set_capacity({P4D: {"us-east-1a": None}})
    again = run("cluster", **definition)
    assert not again["changed"]
    assert again["degraded"]["workers"] == workers
    grown = run("cluster", **definition, grow=True)
    assert steps(grown) == {("update", "auto_scaling_group workers"), ("update", "nodes workers")}
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3, 4, 5]
    assert not run("cluster", **definition)["changed"]


@pytest.mark.exhaustive
def test_another_count_is_a_new_wish(cloud, run, definition, name):
    definition["worker_minimum"] = 1
    cloud.control.set_capacity({P4D: {"us-east-1a": 3}})
    run("cluster", **definition)
    cloud.control.set_capacity({P4D: {"us-east-1a": None}})
    assert run("cluster", **{**definition, "worker_count": 3})["degraded"] is None
    assert run("cluster", **definition)["degraded"] is None
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3, 4, 5]


def test_below_the_minimum_is_nothing(cloud, run, definition, name):
    cloud.control.set_capacity({P4D: {"us-east-1a": 2}})
    with pytest.raises(ModuleFailed, match=r"1 of 4 nodes of .*-workers are in service"):
        run("cluster", **{**definition, "worker_minimum": 2})
    assert not groups(cloud, name)


@pytest.mark.parametrize(
    ("more", "capacity", "expected"),
    [
        pytest.param(
            {"placement": "cluster", "zones": ZONES},
            {P4D: {"us-east-1a": 0}},
            (P4D, "us-east-1b", "on-demand"),
            marks=pytest.mark.exhaustive,
        ),
        ({"alternatives": [{"instance_type": "g5.48xlarge"}]}, {P4D: {"us-east-1a": 4}}, ("g5.48xlarge", "us-east-1a", "on-demand")),
        pytest.param(
            {"market": "spot", "alternatives": [{"market": "on-demand"}]},
            {P4D: {"us-east-1a": {"spot": 1}}},
            (P4D, "us-east-1a", "on-demand"),
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            {"alternatives": [{"market": "spot"}]},
            {P4D: {"us-east-1a": 0}},
            (P4D, "us-east-1a", "spot"),
            marks=pytest.mark.exhaustive,
        ),
    ],
    ids=["zone", "type", "spot first", "spot last"],
)
def test_alternatives_are_tried_whole_and_in_order(cloud, run, definition, name, types, more, capacity, expected):
    definition.update(more)
    cloud.control.set_capacity(capacity)
    result = run("cluster", **definition)
    assert types() == [expected] * 5
    assert result["alternative"] == f"{expected[0]} in {expected[1]} ({expected[2]})"
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3, 4, 5]

    # When the first alternative has capacity again, the cluster keeps its current alternative and uses it to grow
    cloud.control.set_capacity({P4D: {"us-east-1a": None}})
    assert not run("cluster", **definition)["changed"]
    run("cluster", **{**definition, "worker_count": 5})
    assert types() == [expected] * 6


def test_the_master_can_be_on_demand_when_workers_are_not(cloud, run, definition, name, types):
    spot, on_demand = (P4D, "us-east-1a", "spot"), (P4D, "us-east-1a", "on-demand")
    definition["market"] = "spot"
    run("cluster", **definition)
    assert types() == [spot] * 5
    own = {**definition, "master_market": "on-demand"}
    deferred = run("cluster", **own)
    assert [(item["kind"], item["key"], item["after"]) for item in deferred["deferred"]] == [
        ("launch_template", "master", {"market": "on-demand"}),
        ("nodes", "master", {"outdated": []}),
    ]
    assert types() == [spot] * 5, "no node is replaced without being asked"
    run("cluster", **own, replace_nodes=True)
    assert types() == [on_demand, *[spot] * 4]
    assert not run("cluster", **own)["changed"]
    run("cluster", **{**own, "worker_count": 5})
    assert types() == [on_demand, *[spot] * 5]


@pytest.mark.exhaustive
def test_a_new_cluster_with_an_on_demand_master_tries_each_alternative(cloud, run, definition, types):
    cloud.control.set_capacity({P4D: {"us-east-1a": {"spot": 3}}})
    more = {"market": "spot", "master_market": "on-demand", "alternatives": [{"instance_type": "g5.48xlarge"}]}
    predicted = run("cluster", **definition, **more, check=True)
    applied = run("cluster", **definition, **more)
    assert types() == [("g5.48xlarge", "us-east-1a", "on-demand"), *[("g5.48xlarge", "us-east-1a", "spot")] * 4]
    assert predicted["alternative"] == f"{P4D} in us-east-1a (spot)"
    assert applied["alternative"] == "g5.48xlarge in us-east-1a (spot)"
    assert not run("cluster", **definition, **more)["changed"]


@pytest.mark.exhaustive
def test_no_alternative_has_enough(cloud, run, definition, name):
    cloud.control.set_capacity({P4D: {"us-east-1a": 1}, "g5.48xlarge": {"us-east-1a": 0}})
    with pytest.raises(
        ModuleFailed, match=rf"has insufficient capacity for the nodes\. {P4D} in us-east-1a .*g5\.48xlarge in us-east-1a .*were restored"
    ):
        run("cluster", **definition, alternatives=[{"instance_type": "g5.48xlarge"}])
    assert not groups(cloud, name)
    assert not instances(cloud, name)


def test_a_quota_is_no_reason_to_wait(cloud, run, definition, types):
    cloud.control.set_quotas({"L-417A185B": 96 * 2})
    began = time.monotonic()
    result = run("cluster", **{**definition, "capacity_timeout": 600}, alternatives=[{"instance_type": "c5.large"}])
    assert time.monotonic() - began < 300
    assert result["alternative"] == "c5.large in us-east-1a (on-demand)"
    with pytest.raises(ModuleFailed, match=r"current vCPU limit.*Request an increase in Service Quotas"):
        run("cluster", **{**definition, "cluster": "test-quota", "capacity_timeout": 600})


def test_the_clock_of_the_controller_may_be_fast(cloud, run, definition):
    cloud.control.set_delays(clock_lag=3600)
    cloud.control.set_quotas({"L-417A185B": 96 * 2})
    with pytest.raises(ModuleFailed, match=r"current vCPU limit.*Request an increase in Service Quotas"):
        run("cluster", **definition)


def test_capacity_that_comes_in_time(cloud, run, definition, name):
    cloud.control.set_capacity({P4D: {"us-east-1a": 2}})
    later = threading.Timer(2, cloud.control.set_capacity, [{P4D: {"us-east-1a": None}}])
    later.start()
    result = run("cluster", **{**definition, "capacity_timeout": 60})
    later.join()
    assert result["degraded"] is None
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3, 4, 5]


def test_instances_that_die_while_they_start(cloud, run, definition, name):
    cloud.control.fail_launches({P4D: 2})
    assert run("cluster", **{**definition, "capacity_timeout": 60})["degraded"] is None
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3, 4, 5]


@pytest.mark.exhaustive
def test_a_cluster_that_cannot_grow_stays_as_it_was(cloud, run, definition, name):
    run("cluster", **{**definition, "worker_count": 2})
    before = numbers(cloud, name)
    cloud.control.set_capacity({P4D: {"us-east-1a": 4}})
    with pytest.raises(ModuleFailed, match=r"3 of 4 nodes"):
        run("cluster", **definition, alternatives=[{"instance_type": "g5.48xlarge"}])
    assert numbers(cloud, name) == before
    assert groups(cloud, name) == {"master": 1, "workers": 2}
    assert not run("cluster", **{**definition, "worker_count": 2})["changed"]


def test_progress_is_told(cloud, run, definition, tmp_path):
    cloud.control.set_capacity({P4D: {"us-east-1a": 3}})
    told = tmp_path / "progress"
    run("cluster", **definition, alternatives=[{"instance_type": "c5.large"}], progress_file=str(told))
    lines = told.read_text().splitlines()
    assert any(
        re.search(r"-workers: 2 of 4 nodes in service, p4d.* \(on-demand\); AWS reports: .*capacity.*, \d+ of \d+ s", line)
        for line in lines
    )
    assert any("nodes in service, c5.large in us-east-1a (on-demand)" in line for line in lines)


def test_nodes_are_replaced_only_when_asked(cloud, run, definition, name, types):
    definition |= {"instance_type": "c5.large", "capacity_timeout": PATIENCE}
    run("cluster", **definition)
    before = numbers(cloud, name)
    bigger = {**definition, "instance_type": "c5.xlarge"}
    cloud.control.forget_calls()
    for check in (True, False):
        result = run("cluster", **bigger, check=check)
        assert not result["changed"]
        assert {(item["kind"], item["key"], item["policy"]) for item in result["deferred"]} == {
            ("launch_template", "master", "replace"),
            ("launch_template", "workers", "replace"),
            ("nodes", "master", "replace"),
            ("nodes", "workers", "replace"),
        }
        assert any("so nodes 1, 2, 3, 4, 5 need" in str(warning) and "instance_type" in str(warning) for warning in result["warnings"])
    assert [call["action"] for call in cloud.control.calls() if not call["read_only"]] == []

    (told,) = run("cluster", **{**bigger, "worker_count": 5}, allow_outdated_nodes=False, check=True)["warnings"]
    assert "Without --check, this run fails before it changes anything." in str(told)
    assert "is 'c5.xlarge', but the nodes have 'c5.large'" in str(told)
    with pytest.raises(ModuleFailed, match=rf"{name}-master, .*-worker5 differ from .*'c5.xlarge', but the nodes have 'c5.l"):
        run("cluster", **{**bigger, "worker_count": 5}, allow_outdated_nodes=False)
    assert not run("cluster", **definition, allow_outdated_nodes=False)["changed"]
    told = run("cluster_validation", **bigger)["findings"]
    assert [(item["validator"], item["level"]) for item in told] == [("outdated_nodes", "warning")]
    assert run("cluster_validation", **{**bigger, "suppress_validators": ["vcpu_quota", "outdated_nodes"]})["findings"] == []
    assert [call["action"] for call in cloud.control.calls() if not call["read_only"]] == []

    # New nodes have the type of the old ones, because a job needs identical nodes
    run("cluster", **{**bigger, "worker_count": 5})
    assert types() == [("c5.large", "us-east-1a", "on-demand")] * 6
    run("cluster", **{**bigger, "worker_count": 4})

    predicted = run("cluster", **bigger, replace_nodes=True, check=True)
    cloud.control.forget_calls()
    assert steps(run("cluster", **bigger, replace_nodes=True)) == steps(predicted)
    ended = [call["action"] for call in cloud.control.calls()].count("TerminateInstanceInAutoScalingGroup")
    assert ended == 5
    assert types() == [("c5.xlarge", "us-east-1a", "on-demand")] * 5
    after = numbers(cloud, name)
    assert sorted(after.values()) == sorted(before.values())
    assert not set(after) & set(before)
    assert not run("cluster", **bigger)["changed"]
    assert not run("cluster", **bigger, replace_nodes=True)["changed"]


def test_fewer_and_other_nodes_at_once(cloud, run, definition, name, types):
    definition["instance_type"] = "c5.large"
    run("cluster", **definition)
    run("cluster", **{**definition, "instance_type": "c5.xlarge", "worker_count": 2}, replace_nodes=True)
    assert types() == [("c5.xlarge", "us-east-1a", "on-demand")] * 3
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3]


@pytest.mark.exhaustive
def test_a_replacement_that_does_not_come_costs_one_node(cloud, run, definition, name):
    definition["instance_type"] = "c5.large"
    run("cluster", **definition)
    before = numbers(cloud, name)
    cloud.control.set_capacity({P4D: {"us-east-1a": 0}})
    with pytest.raises(ModuleFailed, match=r"3 of 4 nodes"):
        run("cluster", **{**definition, "instance_type": P4D}, replace_nodes=True)
    # The group may already have replaced the lost node, because the group's previous template version has been restored
    assert len(set(before) & set(instances(cloud, name))) == 4
    # With the previous definition, the lost node is replaced and the other nodes are unchanged
    run("cluster", **definition)
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3, 4, 5]
    assert len(set(before) & set(numbers(cloud, name))) == 4
    assert not run("cluster", **definition)["changed"]


def test_a_reservation_and_nothing_else(cloud, run, definition, name, types):
    reservation = cloud.client("ec2").create_capacity_reservation(
        InstanceType=P4D, InstancePlatform="Linux/UNIX", AvailabilityZone="us-east-1b", InstanceCount=5, InstanceMatchCriteria="targeted"
    )["CapacityReservation"]["CapacityReservationId"]
    cloud.control.set_capacity({P4D: {"us-east-1a": 0, "us-east-1b": 0}})
    definition |= {"market": "capacity-reservation", "capacity_reservation_id": reservation}
    run("cluster", **{**definition, "capacity_timeout": PATIENCE})
    assert types() == [(P4D, "us-east-1b", "on-demand")] * 5
    assert not run("cluster", **definition)["changed"]
    cloud.control.forget_calls()
    told = rf"^capacity_reservation_id: {reservation} has 0 of 5 instances available for this cluster, but 1 node is needed"
    with pytest.raises(ModuleFailed, match=told):
        run("cluster", **{**definition, "worker_count": 5})
    assert all(call["read_only"] for call in cloud.control.calls())
    with pytest.raises(ModuleFailed, match=r"ReservationCapacityExceeded|exceeded"):
        run("cluster", **{**definition, "worker_count": 5, "suppress_validators": ["reserved_instances"]})
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3, 4, 5]


def test_a_capacity_block_that_is_too_small(cloud, run, definition, types):
    block = cloud.control.reserve_capacity_block(P4D, "us-east-1a", 4)
    definition |= {"market": "capacity-block", "capacity_reservation_id": block}
    cloud.control.forget_calls()
    with pytest.raises(ModuleFailed) as failure:
        run("cluster", **definition)
    (message,) = [item["message"] for item in failure.value.result["findings"] if item["level"] == "error"]
    assert message.startswith(f"capacity_reservation_id: {block} has 4 of 4 instances available for this cluster, but 5 nodes are needed.")
    assert all(call["read_only"] for call in cloud.control.calls())
    run("cluster", **definition, worker_minimum=3)
    assert types() == [(P4D, "us-east-1a", "capacity-block")] * 4


def test_a_master_outside_of_a_reservation_is_none_of_its_nodes(cloud, run, definition):
    block = cloud.control.reserve_capacity_block(P4D, "us-east-1a", 4)
    definition |= {"market": "capacity-block", "capacity_reservation_id": block, "master_market": "on-demand"}
    run("cluster", **definition)
    with pytest.raises(ModuleFailed, match=f"{block} has 0 of 4 instances available for this cluster, but 1 node is needed"):
        run("cluster", **{**definition, "worker_count": 5})


def test_reserved_capacity_that_others_or_own_nodes_use(cloud, run, definition, name, types):
    """Without an ID, nodes use all open reservations. Own nodes that may be replaced count as available."""
    for count in (2, 3):
        cloud.client("ec2").create_capacity_reservation(
            InstanceType=P4D, InstancePlatform="Linux/UNIX", AvailabilityZone="us-east-1a", InstanceCount=count
        )
    cloud.control.set_capacity({P4D: {"us-east-1a": 0}})
    definition |= {"market": "capacity-reservation", "zones": ["us-east-1a"]}
    told = (
        "^capacity_reservation_id: open reservations for p4d.24xlarge in us-east-1a have 5 of 5 instances available for this cluster, but"
    )
    with pytest.raises(ModuleFailed, match=told):
        run("cluster", **{**definition, "worker_count": 5})
    assert run("cluster_validation", **definition, alternatives=[{"market": "on-demand"}])["valid"]
    run("cluster", **definition)
    assert types() == [(P4D, "us-east-1a", "on-demand")] * 5
    replaced = {**definition, "root_volume_size": 200, "replace_nodes": True}
    assert run("cluster_validation", **replaced)["valid"]
    with pytest.raises(ModuleFailed, match="have 0 of 5 instances available for this cluster, but 5 nodes are needed"):
        run("cluster_validation", **{**definition, "cluster": f"{name}-other"})


def test_what_only_new_nodes_need_does_not_stop_a_run_that_launches_none(cloud, run, definition, name, types):
    """A run that launches no nodes succeeds even after the reservation has ended and the key pair and the image have been deleted."""
    ec2 = cloud.client("ec2")
    ec2.create_key_pair(KeyName=name)
    original = cloud.client("ssm").get_parameter(Name=definition["image_parameter"])["Parameter"]["Value"]
    copied = ec2.copy_image(Name=name, SourceImageId=original, SourceRegion=REGION)["ImageId"]
    reservation = ec2.create_capacity_reservation(
        InstanceType=P4D, InstancePlatform="Linux/UNIX", AvailabilityZone="us-east-1a", InstanceCount=5, InstanceMatchCriteria="targeted"
    )["CapacityReservation"]["CapacityReservationId"]
    definition |= {"market": "capacity-reservation", "capacity_reservation_id": reservation, "key_name": name}
    definition |= {"image_id": copied, "image_parameter": None, "suppress_validators": ["vcpu_quota", "efa_unused"]}
    run("cluster", **{**definition, "capacity_timeout": PATIENCE})
    ec2.cancel_capacity_reservation(CapacityReservationId=reservation)
    ec2.delete_key_pair(KeyName=name)
    ec2.deregister_image(ImageId=copied)

    same = run("cluster", **definition)
    assert not same["changed"]
    expected = ["capacity_reservation", "image", "key_pair"]
    assert sorted(re.findall(r"validator (\w+)", str(same["warnings"]))) == expected
    run("cluster", **{**definition, "worker_count": 1})
    assert sorted(numbers(cloud, name).values()) == [1, 2]
    with pytest.raises(ModuleFailed) as failure:
        run("cluster", **{**definition, "worker_count": 2})
    assert sorted(item["validator"] for item in failure.value.result["findings"] if item["level"] == "error") == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"instance_type": "p4d.24xlage"}, r"instance_type: p4d\.24xlage is not offered"),
        ({"key_name": "another"}, r"key_name: there is no key pair 'another'"),
        ({"image_parameter": "/another/image"}, r"there is no SSM parameter /another/image"),
    ],
)
def test_a_mistake_in_what_new_nodes_need_stops_also_a_run_that_launches_none(cloud, run, definition, change, message):
    definition |= {"instance_type": "c5.large", "worker_count": 1}
    run("cluster", **definition)
    cloud.control.forget_calls()
    with pytest.raises(ModuleFailed, match=message):
        run("cluster", **definition | change)
    assert [call["action"] for call in cloud.control.calls() if not call["read_only"]] == []


def test_a_capacity_block(cloud, run, definition, types, name, tmp_path):
    definition |= {"efa": True, "market": "capacity-block"}
    definition["capacity_reservation_id"] = cloud.control.reserve_capacity_block(P4D, "us-east-1a", 5)
    with pytest.raises(ModuleFailed, match=r"placement: cluster cannot be used in a Capacity Block"):
        run("cluster", **definition, placement="cluster")
    result = run("cluster", **definition)
    assert re.search(r"Capacity Block cr-\w+ ends at .* UTC, and EC2 begins to terminate its nodes at .* UTC", str(result["warnings"]))
    assert types() == [(P4D, "us-east-1a", "capacity-block")] * 5
    assert "placement_group" not in result["resources"], "AWS refuses a placement group for a Capacity Block"
    block = cloud.client("ec2").describe_capacity_reservations(CapacityReservationIds=[definition["capacity_reservation_id"]])
    end = block["CapacityReservations"][0]["EndDate"].timestamp()
    listed, _errors = inventory(cloud, tmp_path, name)
    assert [host["deeplearning_capacity_end"] for host in listed["_meta"]["hostvars"].values()] == [end] * 5
    listed, errors = inventory(cloud, tmp_path, name, permissions.operator(cloud, "configure", name))
    assert (len(listed["_meta"]["hostvars"]), errors) == (5, ""), "the generated policies are sufficient"
    cloud.control.set_faults([{"service": "ec2", "action": "DescribeCapacityReservations", "code": "UnauthorizedOperation", "status": 403}])
    listed, errors = inventory(cloud, tmp_path, name)
    assert (len(listed["_meta"]["hostvars"]), "deeplearning_capacity_end" in str(listed)) == (5, False)
    assert "jobs cannot save a checkpoint before then" in " ".join(errors.split())


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ({"start": 7200}, r"cr-\w+ is scheduled and starts at 20\d\d-\d\d-\d\d \d\d:\d\d UTC\. Run again after that time"),
        (
            {"duration": 1500},
            r"cr-\w+ ends at .* UTC, and EC2 stops launching nodes in it shortly before that time\. Specify a Capacity Block",
        ),
    ],
)
def test_a_capacity_block_that_is_not_there_now(cloud, run, definition, times, message):
    definition |= {
        "market": "capacity-block",
        "capacity_reservation_id": cloud.control.reserve_capacity_block(P4D, "us-east-1a", 5, **times),
    }
    cloud.control.forget_calls()
    with pytest.raises(ModuleFailed, match=message):
        run("cluster", **definition)
    assert [call["action"] for call in cloud.control.calls() if not call["read_only"]] == []


def test_a_reservation_in_a_placement_group(cloud, run, definition, types, name):
    ec2 = cloud.client("ec2")
    group = ec2.create_placement_group(GroupName=f"{name}-own", Strategy="cluster")["PlacementGroup"]["GroupArn"]
    reservation = ec2.create_capacity_reservation(
        InstanceType=P4D,
        InstancePlatform="Linux/UNIX",
        AvailabilityZone="us-east-1a",
        InstanceCount=5,
        InstanceMatchCriteria="targeted",
        PlacementGroupArn=group,
    )["CapacityReservation"]["CapacityReservationId"]
    definition |= {"market": "capacity-reservation", "capacity_reservation_id": reservation, "capacity_timeout": PATIENCE}
    cloud.control.forget_calls()
    with pytest.raises(ModuleFailed, match=rf"{reservation} is only for nodes in the placement group {name}-own. Set placement_group"):
        run("cluster", **definition)
    assert [call["action"] for call in cloud.control.calls() if not call["read_only"]] == []
    run("cluster", **definition, placement_group=f"{name}-own")
    assert types() == [(P4D, "us-east-1a", "on-demand")] * 5


def test_a_reservation_for_dedicated_hardware(cloud, run, definition):
    reservation = cloud.client("ec2").create_capacity_reservation(
        InstanceType=P4D, InstancePlatform="Linux/UNIX", AvailabilityZone="us-east-1b", InstanceCount=5, Tenancy="dedicated"
    )["CapacityReservation"]["CapacityReservationId"]
    definition |= {"market": "capacity-reservation", "zones": ["us-east-1b"], "capacity_timeout": PATIENCE}
    cloud.control.forget_calls()
    with pytest.raises(ModuleFailed, match=f"{reservation} is for instances with the tenancy dedicated"):
        run("cluster", **definition, capacity_reservation_id=reservation)
    with pytest.raises(ModuleFailed, match=r"open reservations for p4d\.24xlarge in us-east-1b have 0 of 0 instances available"):
        run("cluster", **definition)
    assert [call["action"] for call in cloud.control.calls() if not call["read_only"]] == []


@pytest.mark.parametrize("alternative", [False, True])
def test_a_reservation_in_a_local_zone(cloud, run, definition, alternative):
    block = cloud.control.reserve_capacity_block(P4D, "us-east-1-dfw-2a", 5)
    reserved = {"market": "capacity-block", "capacity_reservation_id": block}
    definition |= {"alternatives": [reserved]} if alternative else reserved
    cloud.control.forget_calls()
    with pytest.raises(ModuleFailed, match=rf"{block} is in us-east-1-dfw-2a, which is not an Availability Zone .*Choose from us-east-1a"):
        run("cluster", **definition)
    assert [call["action"] for call in cloud.control.calls() if not call["read_only"]] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"worker_minimum": 5}, "worker_minimum: 5 is not valid. Specify a number from 1 to 4"),
        ({"worker_minimum": 0}, "worker_minimum: 0 is not valid"),
        ({"market": "capacity-block"}, "capacity_reservation_id: missing. Specify the ID of the Capacity Block"),
        ({"market": "capacity-reservation", "capacity_reservation_id": "cr-0123456789abcdef0"}, "cr-0123456789abcdef0 does not exist"),
        ({"market": "spot", "spot_max_price": "cheap"}, "spot_max_price: 'cheap' is not a price"),
        ({"market": "spot", "spot_max_price": "inf"}, "spot_max_price: 'inf' is not a price"),
        ({"market": "spot", "spot_max_price": "1_000"}, "spot_max_price: '1_000' is not a price"),
        ({"market": "capacity-reservation", "capacity_reservation_id": "my-block"}, "my-block does not exist"),
        ({"capacity_reservation_id": "cr-0123456789abcdef0"}, "market: on-demand does not use capacity_reservation_id"),
        ({"alternatives": [{"zone": "us-east-1z"}], "zones": ZONES}, "entry 1 specifies us-east-1z.*Choose from us-east-1a"),
        ({"alternatives": [{"zone": "us-east-1-dfw-2a"}]}, r"entry 1 specifies us-east-1-dfw-2a.*Local Zones are not supported\."),
        ({"alternatives": [{"zone": "us-east-1c"}], "zones": ZONES}, "specifies us-east-1c.*Add it to zones"),
        ({"alternatives": [{"instance_type": "p4d.huge"}]}, r"p4d.huge \(entry 1\) is not offered in us-east-1a\. Check the name"),
    ],
)
def test_alternatives_that_make_no_sense(cloud, run, definition, change, message):
    with pytest.raises(ModuleFailed, match=message):
        run("cluster", **{**definition, **change})
    assert [call["action"] for call in cloud.control.calls() if not call["read_only"]] == []


@pytest.mark.exhaustive
def test_the_reason_is_told_when_the_way_back_fails(cloud, run, definition):
    cloud.control.set_capacity({P4D: {"us-east-1a": 2}})
    fault = {
        "service": "autoscaling",
        "action": "DeleteAutoScalingGroup",
        "code": "AccessDenied",
        "status": 403,
        "message": "not authorized",
    }
    cloud.control.set_faults([fault])
    with pytest.raises(ModuleFailed, match=r"Could not delete auto_scaling_group.*authorized.*Earlier attempt: p4d.24xlarge .*sufficient"):
        run("cluster", **definition)
