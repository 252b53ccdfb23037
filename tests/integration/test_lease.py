"""AWS terminates the nodes at the end of their lease, and no run launches nodes again until the lease is given anew."""

from __future__ import annotations

import json
import random
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.lease import definition as lease
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.lease import resources
from botocore.exceptions import ClientError
from local_cloud.testing import wait_until

from .clusters import all_end, delete_role, groups, kinds, running, subscribed
from .conftest import FAST, ModuleFailed, new_name, schedule_groups
from .killing import kill_at

pytestmark = pytest.mark.usefixtures("only_own_schedules")

HOUR = 3600
OVER = 8 * HOUR + 600  # after the end of a lease of 8 hours


@pytest.fixture
def leased(definition: dict[str, Any]) -> dict[str, Any]:
    return {**definition, "lease": "8h"}


def seconds_left(result: dict[str, Any]) -> float:
    return float(result["lease"]["seconds"])


def volumes(cloud, name) -> list[dict[str, Any]]:
    filters = [{"Name": "tag:deeplearning:cluster", "Values": [name]}]
    return list(cloud.client("ec2").describe_volumes(Filters=filters)["Volumes"])


def schedules(cloud, name) -> dict[str, dict[str, Any]]:
    client = cloud.client("scheduler")
    found = client.list_schedules(GroupName=f"{name}-nodes-lease")["Schedules"]
    return {each["Name"]: client.get_schedule(GroupName=each["GroupName"], Name=each["Name"]) for each in found}


def test_aws_terminates_the_nodes_and_keeps_the_data(cloud, run, leased, name):
    made = run("cluster", **leased)
    assert (seconds_left(made), made["lease"]["longer"]) == (pytest.approx(8 * HOUR, abs=60), False)
    assert kinds(made).count(("create", "node_lease")) == 1
    assert running(cloud, name) == 3
    assert len(volumes(cloud, name)) == 3
    cloud.control.advance(8 * HOUR - 120)
    assert running(cloud, name) == 3
    cloud.control.advance(240)
    assert all_end(cloud, name)
    wait_until(lambda: volumes(cloud, name) == [], 20)
    assert any(each["Name"] == name for each in cloud.client("efs").describe_file_systems()["FileSystems"])


def test_an_unchanged_run_changes_nothing_and_no_run_prolongs_a_lease_of_which_half_is_left(cloud, run, leased):
    made = run("cluster", **leased)
    cloud.control.advance(3 * HOUR)
    again = run("cluster", **leased)
    assert (again["changed"], again["changes"], again["lease"]["end"]) == (False, [], made["lease"]["end"])


def test_a_run_prolongs_a_lease_of_which_less_than_half_is_left(cloud, run, leased, name):
    run("cluster", **leased)
    cloud.control.advance(5 * HOUR)
    before = [each["StartDate"] for each in schedules(cloud, name).values()]
    predicted = run("cluster", **leased, check=True)
    assert (seconds_left(predicted), predicted["changes"]) == (pytest.approx(8 * HOUR, abs=60), [])
    assert seconds_left(run("cluster_validation", **leased)) == pytest.approx(8 * HOUR, abs=60)
    assert [each["StartDate"] for each in schedules(cloud, name).values()] == before
    again = run("cluster", **leased)
    assert (again["changed"], again["changes"]) == (False, [])
    assert seconds_left(again) == pytest.approx(8 * HOUR, abs=60)
    cloud.control.advance(7 * HOUR)
    assert running(cloud, name) == 3
    cloud.control.advance(2 * HOUR)
    assert all_end(cloud, name)


@pytest.mark.parametrize("name_of_playbook", ["provision", "lease"])
def test_a_run_says_when_a_prolonged_lease_ends(cloud, run, leased, playbook, repository, tmp_path, name_of_playbook):
    """The playbook configure imports the playbook lease after others, and train both of them."""
    plays = [{"hosts": "localhost", "gather_facts": False}, {"import_playbook": f"{repository}/playbooks/{name_of_playbook}.yml"}]
    (tmp_path / "plays.yml").write_text(json.dumps(plays))
    ends = [run("cluster", **leased)["lease"]["end"]]
    cloud.control.advance(5 * HOUR)
    arguments = [tmp_path / "plays", "-e", "ansible_host=127.0.0.1 ansible_port=1"]  # the playbook lease connects to the nodes
    assert playbook(*arguments, "--check", lease="8h")[1].count("AWS would then terminate the nodes at ") == 1
    _succeeds, told = playbook(*arguments, lease="8h")
    ends.append(run("cluster", **leased)["lease"]["end"])
    former, now = (f"{end[:16].replace('T', ' ')} UTC" for end in ends)
    assert told.count(f"AWS now terminates the nodes at {now} instead of {former}.") == 1, told
    assert "changed=1" not in told
    assert "AWS now terminates" not in playbook(*arguments, lease="8h")[1]


def test_predictions_say_what_ends_the_nodes(playbook, definition):
    """There are no nodes yet."""
    for name_of_playbook in ("provision", "validate"):
        arguments = [name_of_playbook, *(["--check"] if name_of_playbook == "provision" else [])]
        told = playbook(*arguments, lease="8h", idle_after="30m")[1]
        assert re.search(r"AWS terminates the nodes at \S+ \S+ UTC, in 7 h 59 min, unless a run prolongs the lease\.", told), told
        assert "AWS terminates them earlier when all of them have been idle for 30 min 0 s." in told
        assert "Nothing ends the nodes by itself." in playbook(*arguments)[1]


def test_a_lease_lasts_at_least_as_long_as_the_run_needs(cloud, run, leased):
    made = run("cluster", **leased, lease_minimum=10 * HOUR)
    assert (seconds_left(made), made["lease"]["longer"]) == (pytest.approx(10 * HOUR, abs=60), True)
    assert run("cluster", **leased)["lease"]["end"] == made["lease"]["end"]
    longer = run("cluster", **leased, lease_minimum=20 * HOUR)
    assert (seconds_left(longer) == pytest.approx(20 * HOUR, abs=60), longer["changed"]) == (True, False)


@pytest.mark.parametrize("seconds", [365 * 24 * HOUR + 1, 10**14])
def test_no_job_makes_a_lease_longer_than_the_longest_one(cloud, run, leased, seconds):
    wrong = f"lease: the job needs {seconds} s, but the longest lease is 365d. Reduce training_job_time_limit, or use no lease"
    with pytest.raises(ModuleFailed, match=wrong):
        run("cluster", **leased, lease_minimum=seconds)
    for _run in range(2):
        made = run("cluster", **leased, lease_minimum=seconds, suppress_validators=["lease"])
        assert seconds_left(made) == pytest.approx(365 * 24 * HOUR, abs=60)


def test_a_fixed_end_is_not_prolonged(cloud, run, definition):
    end = (datetime.now(UTC) + timedelta(hours=2)).replace(microsecond=0)
    options = {**definition, "lease": end.isoformat()}
    made = run("cluster", **options, lease_minimum=3 * HOUR)
    assert made["lease"]["end"] == lease.iso(end)
    cloud.control.advance(1.5 * HOUR)
    again = run("cluster", **options)
    assert (again["changed"], again["lease"]["end"]) == (False, lease.iso(end))


def test_no_run_launches_nodes_after_the_end_until_the_lease_is_given_anew(cloud, run, leased, name, monkeypatch):
    monkeypatch.setattr(resources, "LATE", timedelta())
    run("cluster", **leased)
    cloud.control.advance(8 * HOUR + 450)  # between two calls, whose retries end after a minute
    for options in ({"check": True}, {}, {"lease": None}, {"lease": "4h"}):
        with pytest.raises(ModuleFailed, match=r"lease: .* ended at .* UTC, and AWS terminated the nodes\. .*start_again") as failure:
            run("cluster", **{**leased, **options})
        assert failure.value.result["nodes_ended"]
    assert groups(cloud, name) == set()
    renewed = run("cluster", **leased, start_again=True)
    assert seconds_left(renewed) == pytest.approx(8 * HOUR, abs=60)
    cloud.control.advance(HOUR)
    assert running(cloud, name) == 3
    assert run("cluster", **leased)["changes"] == []


def test_playbooks_say_after_the_end_how_to_go_on(cloud, run, leased, playbook, name):
    end = run("cluster", **leased)["lease"]["end"]
    cloud.control.advance(OVER)
    assert all_end(cloud, name)
    ended = f"The lease ended at {end[:16].replace('T', ' ')} UTC, and AWS has terminated the nodes."
    for each in ("status", "info"):
        told = playbook(each, lease="8h")[1]
        assert ended in told
        assert "To start nodes again, run ansible-playbook -i nodes.yml deeplearning.cluster.provision -e deeplearning_start_again=" in told
        assert "To delete the rest of the cluster, which costs 0.0" in told
        assert "deeplearning.cluster.destroy" in told
    told = playbook("provision", lease="8h")[1]
    assert "add -e deeplearning_start_again=true\\nTo delete the rest of the cluster, which costs 0.0" in told


def test_groups_that_still_exist_after_the_end_do_not_grow(cloud, run, leased, name):
    cloud.control.set_delays(schedule_latency=600)
    run("cluster", **leased)
    cloud.control.advance(8 * HOUR + 60)
    assert len(groups(cloud, name)) == 2
    with pytest.raises(ModuleFailed, match=r"lease: .* ended at"):
        run("cluster", **{**leased, "worker_count": 3})


def test_changed_terms_are_a_new_lease(cloud, run, leased, name, monkeypatch):
    monkeypatch.setattr(resources, "LATE", timedelta())
    run("cluster", **leased)
    assert run("cluster", **{**leased, "lease": "480m"})["changes"] == []
    shorter = run("cluster", **{**leased, "lease": "1h"})
    assert (kinds(shorter), seconds_left(shorter)) == ([("update", "node_lease")], pytest.approx(HOUR, abs=60))
    cloud.control.advance(2 * HOUR)
    assert all_end(cloud, name)
    fixed = (datetime.now(UTC) + timedelta(hours=10)).replace(microsecond=0)
    assert run("cluster", **{**leased, "lease": fixed.isoformat()})["lease"]["end"] == lease.iso(fixed)


def test_a_run_waits_until_calls_of_the_former_lease_can_no_longer_arrive(cloud, run, leased, monkeypatch):
    pauses = []
    monkeypatch.setattr(resources.AwsClient, "pause", lambda _self, seconds: pauses.append(seconds))
    run("cluster", **leased)
    cloud.control.advance(8 * HOUR + 300)
    run("cluster", **leased, start_again=True)
    assert 120 in pauses
    pauses.clear()
    run("cluster", **leased, start_again=True)
    assert 120 not in pauses


@pytest.mark.parametrize("ended", [False, True])
def test_without_the_option_the_lease_is_removed_before_nodes_are_launched(cloud, run, leased, definition, name, ended, monkeypatch):
    pauses = []
    monkeypatch.setattr(resources.AwsClient, "pause", lambda _self, seconds: pauses.append(seconds))
    run("cluster", **leased)
    if ended:
        cloud.control.advance(8 * HOUR + 300)
    removed = run("cluster", **definition, start_again=ended)
    assert ("delete", "node_lease") in kinds(removed)
    order = kinds(removed)
    assert (120 in pauses) is ended
    if ended:
        assert order.index(("delete", "node_lease")) < order.index(("create", "auto_scaling_group"))
    cloud.control.advance(OVER)
    assert running(cloud, name) == 3
    assert run("cluster", **definition)["changes"] == []


def test_a_validation_considers_the_lease_that_the_job_needs(leased, playbook):
    """The maximum cost does not let the job run for its time limit, which is longer than a lease can be."""
    limited = {**leased, "training_job_max_cost": 0.5, "training_job_time_limit": 400 * 24 * HOUR}
    for options, hours in ((limited, "7 h 59 min"), ({**leased, "training_job_time_limit": 12 * HOUR - 1800}, "11 h 59 min")):
        succeeds, told = playbook("validate", **options)
        assert succeeds, told
        assert f"in {hours}, unless a run prolongs the lease" in told


def test_a_run_says_what_it_removes_of_what_ends_the_nodes(cloud, run, leased, definition, name, topic, playbook):
    made = run("cluster", **leased, idle_after="30m", notify_topic=topic)
    with pytest.raises(ModuleFailed, match=r"keep_ends: the definition lacks the option lease and the .* and the option notify_topic"):
        run("cluster", **definition, keep_ends=True)
    partly = run("cluster", **leased, check=True)["removed_ends"]
    assert (partly["lease"], partly["idle"]["seconds"], partly["topic"], partly["endless"]) == (None, 1800, topic, False)
    assert run("cluster", **leased, idle_after="1h", notify_topic=topic)["removed_ends"] == {}
    _succeeds, told = playbook("provision", "--check")
    end = f"{made['lease']['end'][:16].replace('T', ' ')} UTC"
    assert f"With this definition, provision removes the lease that ends at {end} and the end of nodes that have been idle for 1 h" in told
    assert "The nodes then run, and cost money, until somebody terminates them." in told
    assert not partly["done"]
    removed = run("cluster", **definition)
    assert removed["removed_ends"]["done"]
    assert removed["removed_ends"]["lease"]["end"] == made["lease"]["end"]
    assert removed["removed_ends"]["endless"]
    assert run("cluster", **definition)["removed_ends"] == {}
    assert run("cluster", cluster=name, state="absent")["removed_ends"] == {}


DENIED = {"code": "AccessDenied", "status": 403, "message": "is not authorized to perform: it"}


@pytest.mark.parametrize(
    ("service", "action", "is_lost"),
    [
        ("iam", "DeleteRolePolicy", False),
        ("iam", "DeleteRole", True),
        ("scheduler", "DeleteSchedule", True),
        ("scheduler", "DeleteScheduleGroup", True),
        ("lambda", "DeleteFunction", True),
    ],
)
def test_ends_that_are_half_removed_are_told_at_once_and_later(cloud, run, leased, definition, name, playbook, service, action, is_lost):
    run("cluster", **leased, idle_after="30m")
    cloud.control.set_faults([{**DENIED, "service": service, "action": action}])
    with pytest.raises(ModuleFailed, match=r"Could not delete .* is not authorized to perform: it") as failure:
        run("cluster", **definition)
    removed = failure.value.result["removed_ends"]
    cloud.control.set_faults([])
    info = run("cluster_info", cluster=name, prices=False)
    told = playbook("info")[1]
    if not is_lost:
        assert (removed, info["incomplete_ends"], failure.value.result["changed"]) == ({}, [], False)
        assert (info["lease"]["seconds"] > 0, info["idle"]["seconds"]) == (True, 1800)
        assert re.search(r"AWS still terminates the nodes at \S+ \S+ UTC or when they are idle\. To stop", str(failure.value))
        assert "AWS terminates the nodes at" in told
        return
    assert "It is partly deleted, and no longer works." in str(failure.value)
    lost = ["lease", "idle_after"]
    assert (removed["lease"]["seconds"] > 0, removed["idle"]["seconds"]) == (True, 1800)
    assert (removed["rests"], removed["done"], removed["endless"], failure.value.result["changed"]) == ([], True, True, True)
    assert (info["incomplete_ends"], info["idle"]) == (lost, None)
    assert "Parts of " in told
    assert "AWS terminates" not in told
    assert "Nothing ends the nodes by itself." in told
    later = run("cluster", **definition, check=True)["removed_ends"]
    assert (later["rests"], later["endless"], later["idle"]) == (lost, True, None)
    assert run("cluster", **definition)["removed_ends"]["done"]
    assert run("cluster", **definition)["removed_ends"] == {}
    assert run("cluster_info", cluster=name, prices=False)["incomplete_ends"] == []


def test_an_end_whose_role_is_gone_is_no_end(cloud, run, leased, name, playbook):
    run("cluster", **leased)
    delete_role(cloud, name, "lease")
    assert run("cluster_info", cluster=name, prices=False)["incomplete_ends"] == ["lease"]
    told = playbook("info")[1]
    assert "Parts of the lease are missing, so AWS does not end the nodes with it. To complete it, or to remove the rest, run" in told
    assert "AWS terminates the nodes" not in told


def test_without_a_lease_an_unchanged_run_asks_for_none(cloud, run, definition):
    run("cluster", **definition)
    cloud.control.forget_calls()
    run("cluster", **definition)
    assert "scheduler" not in {call["service"] for call in cloud.control.calls()}


def test_the_deletion_of_the_cluster_deletes_the_lease_last(cloud, run, leased, name):
    run("cluster", **leased)
    gone = run("cluster", cluster=name, state="absent")
    order = kinds(gone)
    assert order.index(("delete", "auto_scaling_group")) < order.index(("delete", "node_lease"))
    with pytest.raises(ClientError, match="NoSuchEntity"):
        cloud.client("iam").get_role(RoleName=f"{name}-nodes-lease-us-east-1")
    assert f"{name}-nodes-lease" not in schedule_groups(cloud)
    again = run("cluster", **leased)
    assert ("create", "node_lease") in kinds(again)


def test_a_role_that_somebody_has_deleted_is_created_anew(cloud, run, leased, name):
    made = run("cluster", **leased)
    delete_role(cloud, name, "lease")
    again = run("cluster", **leased)
    assert (kinds(again), again["lease"]["end"]) == ([("update", "node_lease")], made["lease"]["end"])
    assert run("cluster", **leased)["changes"] == []
    cloud.control.advance(OVER)
    assert all_end(cloud, name)
    delete_role(cloud, name, "lease")
    with pytest.raises(ModuleFailed, match=r"lease: .* ended at"):
        run("cluster", **leased)


def test_without_its_role_a_lease_is_not_prolonged(cloud, run, leased, name):
    run("cluster", **leased)
    delete_role(cloud, name, "lease")
    cloud.control.advance(5 * HOUR)
    assert run("lease", cluster=name, lease="8h")["lease"] is None
    assert kinds(run("cluster", **leased)) == [("update", "node_lease")]
    assert seconds_left(run("cluster", **leased)) == pytest.approx(8 * HOUR, abs=60)


@pytest.mark.parametrize("ended", [False, True])
def test_without_its_role_the_rest_of_the_lease_is_deleted(cloud, run, leased, name, topic, ended):
    run("cluster", **leased, notify_topic=topic)
    if ended:
        cloud.control.advance(OVER)
        assert all_end(cloud, name)
    delete_role(cloud, name, "lease")
    assert ("delete", "node_lease") in kinds(run("cluster", cluster=name, state="absent"))
    assert f"{name}-nodes-lease" not in schedule_groups(cloud)


def test_a_run_without_the_option_looks_for_a_lease_without_role_only_where_one_should_be(cloud, run, definition, name):
    run("cluster", **definition)
    for group in sorted(groups(cloud, name)):
        cloud.client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName=group, ForceDelete=True)
    cloud.control.forget_calls()
    run("cluster", **definition)
    assert {call["service"] for call in cloud.control.calls()}.isdisjoint({"lambda", "scheduler"})


DAMAGE = {
    "schedule": lambda cloud, name: cloud.client("scheduler").delete_schedule(GroupName=f"{name}-nodes-lease", Name="workers"),
    "schedule group": lambda cloud, name: cloud.client("scheduler").delete_schedule_group(Name=f"{name}-nodes-lease"),
    "policy": lambda cloud, name: cloud.client("iam").delete_role_policy(RoleName=f"{name}-nodes-lease-us-east-1", PolicyName="lease"),
    "disabled": lambda cloud, name: change_schedule(cloud, name, State="DISABLED"),
    "once": lambda cloud, name: change_schedule(cloud, name, EndDate=datetime.now(UTC) + timedelta(hours=8, minutes=1)),
    "later": lambda cloud, name: change_schedule(cloud, name, StartDate=datetime.now(UTC) + timedelta(hours=20)),
}


def change_schedule(cloud, name, schedule="workers", **changes):
    found = schedules(cloud, name)[schedule]
    given = {key: value for key, value in found.items() if key not in ("Arn", "CreationDate", "LastModificationDate", "ResponseMetadata")}
    cloud.client("scheduler").update_schedule(**{**given, "EndDate": datetime.now(UTC) + timedelta(hours=90), **changes})


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_run_repairs_a_lease_that_would_not_end(cloud, run, leased, name, damage):
    run("cluster", **leased)
    DAMAGE[damage](cloud, name)
    cloud.control.advance(300)  # the deletion of a schedule group takes a while
    assert kinds(run("cluster", **leased)) == [("update", "node_lease")]
    assert run("cluster", **leased)["changes"] == []
    cloud.control.advance(OVER)
    assert all_end(cloud, name)


def test_a_failed_deletion_is_repeated(cloud, run, leased, name):
    run("cluster", **leased)
    client = cloud.client("autoscaling")
    client.update_auto_scaling_group(AutoScalingGroupName=f"{name}-workers", DeletionProtection="prevent-all-deletion")
    cloud.control.advance(8 * HOUR + 300)
    assert groups(cloud, name) == {f"{name}-workers"}
    client.update_auto_scaling_group(AutoScalingGroupName=f"{name}-workers", DeletionProtection="none")
    cloud.control.advance(300)
    assert all_end(cloud, name)


def test_a_cluster_that_is_made_again_at_once_has_a_lease(cloud, run, leased, name):
    """AWS deletes a schedule group, and refuses another of the same name, while schedules still exist."""
    cloud.control.set_delays(schedule_group=5)
    run("cluster", **leased)
    run("cluster", cluster=name, state="absent")
    run("cluster", **leased)
    cloud.control.advance(OVER)
    assert all_end(cloud, name)


def test_a_lease_that_cannot_be_read_is_not_forgotten(cloud, run, leased, definition):
    denied = {"code": "AccessDeniedException", "status": 403, "message": "is not authorized"}
    run("cluster", **leased)
    cloud.control.set_faults([{**denied, "service": "scheduler"}])
    with pytest.raises(ModuleFailed, match="is not authorized"):
        run("cluster", **definition)


@pytest.mark.parametrize("service", ["scheduler", "lambda"])
def test_info_shows_what_it_may_read(cloud, run, leased, name, playbook, service):
    run("cluster", **leased, idle_after="30m")
    denied = {"code": "AccessDeniedException", "status": 403, "message": "is not authorized to perform: it"}
    cloud.control.set_faults([{**denied, "service": service}])
    succeeds, told = playbook("info")
    assert succeeds, told
    end = {"scheduler": "lease", "lambda": "idle_after"}[service]
    assert f"{end}: cannot be read: is not authorized to perform: it." in told
    assert f"{name}-worker2" in told
    assert "Nothing ends the nodes" not in told
    unread = "the lease and the end of idle nodes" if service == "scheduler" else "the end of idle nodes"
    assert f"Whether AWS ends the nodes is not known, because this run is not allowed to read {unread}." in told


def test_without_permission_for_it_a_cluster_without_a_lease_can_be_deleted(cloud, run, definition, name):
    denied = {"code": "AccessDeniedException", "status": 403, "message": "is not authorized"}
    run("cluster", **definition)
    for group in sorted(groups(cloud, name)):
        cloud.client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName=group, ForceDelete=True)
    cloud.control.set_faults([{**denied, "service": "scheduler"}, {**denied, "service": "lambda"}])
    assert run("cluster", cluster=name, state="absent")["leftovers"] == []


@pytest.mark.parametrize("had", [False, True])
def test_a_lease_begins_only_with_nodes(cloud, run, leased, name, had, monkeypatch):
    """A lease that has ended remains the evidence of the end, and is given anew."""
    monkeypatch.setattr(resources, "LATE", timedelta())
    options = {**leased, "instance_type": "p4d.24xlarge", "capacity_timeout": 1, "suppress_validators": ["vcpu_quota"], "efa": False}
    if had:
        run("cluster", **leased)
        cloud.control.advance(OVER)
    cloud.control.set_capacity({"p4d.24xlarge": dict.fromkeys(("us-east-1a", "us-east-1b", "us-east-1c"), 0)})
    with pytest.raises(ModuleFailed, match="AWS has insufficient capacity"):
        run("cluster", **options, start_again=True)
    roles = [each["RoleName"] for each in cloud.client("iam").list_roles(PathPrefix="/deeplearning/")["Roles"]]
    assert (f"{name}-nodes-lease-us-east-1" in roles) is had


def test_tags_may_be_empty(cloud, run, leased):
    assert run("cluster", **leased, tags={"team": ""})["lease"]


def test_the_module_prolongs_what_the_cluster_has(cloud, run, leased, name):
    assert run("lease", cluster=name, lease="8h")["lease"] is None
    made = run("cluster", **leased)
    cloud.control.advance(3 * HOUR)
    assert run("lease", cluster=name, lease="8h")["lease"]["end"] == made["lease"]["end"]
    longer = run("lease", cluster=name, lease="8h", minimum=6 * HOUR)
    assert (longer["changed"], longer["lease"]["former_end"]) == (False, made["lease"]["end"])
    assert seconds_left(longer) == pytest.approx(8 * HOUR, abs=60)
    cloud.control.advance(5 * HOUR)
    starts = [each["StartDate"] for each in schedules(cloud, name).values()]
    assert seconds_left(run("lease", cluster=name, lease="8h", check=True)) == pytest.approx(8 * HOUR, abs=60)
    assert [each["StartDate"] for each in schedules(cloud, name).values()] == starts
    assert seconds_left(run("lease", cluster=name, lease="8h")) == pytest.approx(8 * HOUR, abs=60)
    cloud.control.advance(OVER)
    ended = run("lease", cluster=name, lease="8h")["lease"]
    assert (ended["seconds"] < 0, ended["former_end"]) == (True, None)


def test_another_clusters_groups_stay(cloud, run, leased, definition, name):
    other = new_name()
    run("cluster", **leased)
    run("cluster", **{**definition, "cluster": other})
    cloud.control.advance(OVER)
    assert all_end(cloud, name)
    assert running(cloud, other) == 3


@pytest.fixture
def told(cloud, name, topic):
    """Return a function that returns the subjects and texts of the messages of a lease that have arrived, and those that are awaited."""
    sqs, queue = cloud.client("sqs"), subscribed(cloud, name, topic)
    texts = {}

    def read(count=0):
        def arrived():
            for each in sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", []):
                body = json.loads(each["Body"])
                if "lease" in body["Message"]:  # Auto Scaling uses the topic, too
                    texts[body["Subject"]] = body["Message"]
                sqs.delete_message(QueueUrl=queue, ReceiptHandle=each["ReceiptHandle"])
            return len(texts) >= count

        wait_until(arrived, 20)
        return dict(texts)

    return read


def test_a_topic_hears_of_the_end_before_it_and_at_it(cloud, run, leased, name, topic, told):
    made = run("cluster", **leased, notify_topic=topic)
    assert run("cluster", **leased, notify_topic=topic)["changes"] == []
    end = made["lease"]["end"][:16].replace("T", " ")
    cloud.control.advance(8 * HOUR - 660)
    assert told() == {}
    cloud.control.advance(120)
    assert list(told(1)) == [f"{name}: the lease of the nodes ends at {end} UTC"]
    (text,) = told(1).values()
    assert f"nodes of cluster {name} (us-east-1) ends at {end} UTC. If any node still runs, AWS then terminates it. Jobs get" in text
    assert "continues to cost money. To keep nodes that run, run: ansible-playbook -i nodes.yml deeplearning.cluster.configure" in text
    assert run("cluster", **leased, notify_topic=topic, check=True)["changes"] == []
    cloud.control.advance(660)
    assert all_end(cloud, name)
    ended = told(2)[f"{name}: the lease of the nodes has ended at {end} UTC"]
    assert f"has ended at {end} UTC. If any node still runs, AWS terminates it." in ended
    cloud.control.advance(HOUR)
    assert len(told(2)) == 2


def test_messages_follow_the_end_of_the_lease(cloud, run, leased, name, topic, told):
    run("cluster", **leased, notify_topic=topic)
    cloud.control.advance(5 * HOUR)
    assert run("lease", cluster=name, lease="8h")["lease"]["former_end"]
    assert run("cluster", **leased, notify_topic=topic)["changes"] == []
    cloud.control.advance(4 * HOUR)
    assert told() == {}
    end = (datetime.now(UTC) + timedelta(hours=20)).replace(microsecond=0)
    assert kinds(run("cluster", **{**leased, "lease": end.isoformat()}, notify_topic=topic)) == [("update", "node_lease")]
    cloud.control.advance(11 * HOUR - 300)  # the clock of the local cloud is 9 hours ahead
    assert "To keep nodes that run, change deeplearning_lease, and run: " in next(iter(told(1).values()))


def test_a_topic_can_be_added_changed_and_removed(cloud, run, leased, name, topic, told):
    other = cloud.client("sns").create_topic(Name=f"{name}-other")["TopicArn"]
    run("cluster", **leased)
    assert set(schedules(cloud, name)) == {"master", "workers"}
    for given in (other, topic, None):
        assert ("update", "node_lease") in kinds(run("cluster", **leased, notify_topic=given))
        cloud.control.forget_calls()
        assert run("cluster", **leased, notify_topic=given)["changes"] == []
        names = {"master", "workers", *(("warning", "ended") if given else ())}
        assert set(schedules(cloud, name)) == names
        assert len([call for call in cloud.control.calls() if call["action"] == "GetSchedule"]) == 2 * len(names)
        policy = cloud.client("iam").get_role_policy(RoleName=f"{name}-nodes-lease-us-east-1", PolicyName="lease")["PolicyDocument"]
        assert [each["Resource"] for each in policy["Statement"] if each["Action"] == "sns:Publish"] == ([given] if given else [])
    cloud.control.advance(OVER)
    assert all_end(cloud, name)
    assert told() == {}


MESSAGE_DAMAGE = {
    "schedule": lambda cloud, name: cloud.client("scheduler").delete_schedule(GroupName=f"{name}-nodes-lease", Name="ended"),
    "policy": DAMAGE["policy"],
    "rate": lambda cloud, name: change_schedule(cloud, name, "ended", ScheduleExpression="rate(1 minute)", State="DISABLED"),
    "topic": lambda cloud, name: change_schedule(cloud, name, "ended", Target=schedules(cloud, name)["workers"]["Target"]),
}


@pytest.mark.parametrize("damage", MESSAGE_DAMAGE)
def test_a_run_repairs_messages(cloud, run, leased, name, topic, told, damage):
    run("cluster", **leased, notify_topic=topic)
    MESSAGE_DAMAGE[damage](cloud, name)
    assert kinds(run("cluster", **leased, notify_topic=topic)) == [("update", "node_lease")]
    assert run("cluster", **leased, notify_topic=topic)["changes"] == []
    cloud.control.advance(OVER)
    assert len(told(2)) == 2


@pytest.mark.parametrize(("stage", "action"), [("after", "DeleteSchedule"), ("before", "PutRolePolicy"), ("after", "PutRolePolicy")])
def test_no_message_remains_if_a_run_is_killed_while_it_removes_the_topic(cloud, run, leased, name, topic, stage, action):
    run("cluster", **leased, notify_topic=topic)
    assert kill_at(cloud, {**leased, "region": "us-east-1", "prices": False}, stage, action=action)
    run("cluster", **leased)
    assert run("cluster", **leased)["changes"] == []
    assert set(schedules(cloud, name)) == {"master", "workers"}


def test_an_end_that_is_too_near_for_a_warning_has_none(cloud, run, leased, name, topic, told):
    run("cluster", **leased, notify_topic=topic)
    end = (datetime.now(UTC) + timedelta(minutes=5)).replace(microsecond=0)
    options = {**leased, "lease": end.isoformat(), "notify_topic": topic, "suppress_validators": ["lease"]}
    run("cluster", **options)
    assert set(schedules(cloud, name)) == {"master", "workers", "ended"}
    assert run("cluster", **options)["changes"] == []
    cloud.control.advance(600)
    assert len(told(1)) == 1


def test_nodes_cannot_keep_themselves(cloud, run, leased, name):
    """Programs on machines of other systems renewed the lease of their machine forever."""
    run("cluster", **leased)
    iam, actions = cloud.client("iam"), ["scheduler:UpdateSchedule", "scheduler:DeleteSchedule", "autoscaling:UpdateAutoScalingGroup"]
    role = iam.get_role(RoleName=f"{name}-nodes-us-east-1")["Role"]["Arn"]
    found = iam.simulate_principal_policy(PolicySourceArn=role, ActionNames=actions)["EvaluationResults"]
    assert [each["EvalDecision"] for each in found] == ["implicitDeny"] * 3


FINDINGS = {
    "8": "lease: '8' is neither a duration such as 8h or 1d12h nor a time",
    "10m": "lease: '10m' is not from 15m to 365d",
    "2026-12-01T18:00": "lease: '2026-12-01T18:00' is a time without a time zone. For UTC, append Z",
    "2020-01-01T00:00:00Z": "lease: 2020-01-01T00:00:00Z is in the past",
    "2099-01-01T00:00:00Z": "lease: 2099-01-01T00:00:00Z is not from 15m to 365d from now. Specify another time",
}


@pytest.mark.parametrize("value", FINDINGS)
def test_a_lease_that_cannot_begin_is_refused(cloud, run, definition, value):
    with pytest.raises(ModuleFailed) as failure:
        run("cluster", **definition, lease=value, check=True)
    assert FINDINGS[value] in str(failure.value)


def test_a_fixed_end_before_that_of_the_job_is_told_before_the_launch(run, definition):
    options = {**definition, "lease": lease.iso(datetime.now(UTC) + timedelta(hours=2))}
    found = run("cluster_validation", **options, lease_minimum=3 * HOUR)["findings"]
    (message,) = [each["message"] for each in found if (each["validator"], each["level"]) == ("short_lease", "warning")]
    assert "Z is too early for the time limit of the job, which needs 180 minutes with the configuration of the nodes." in message
    assert not any(each["validator"] == "short_lease" for each in run("cluster_validation", **options, lease_minimum=HOUR)["findings"])


def test_a_fixed_end_may_come_near_once_the_lease_has_begun(cloud, run, definition):
    options = {**definition, "lease": lease.iso(datetime.now(UTC) + timedelta(hours=1))}
    with pytest.raises(ModuleFailed, match="Z is not from 15m to 365d from now"):
        run("cluster", **{**options, "lease": lease.iso(datetime.now(UTC) + timedelta(minutes=14))})
    run("cluster", **options)
    cloud.control.advance(HOUR - 300)
    assert run("cluster", **options)["changes"] == []


@pytest.mark.parametrize(("value", "message"), [(0, "'0' is n.*leave it empty to have none"), (False, "YAML reads .*, or leave it empty")])
@pytest.mark.parametrize("option", ["lease", "idle_after"])
def test_0_and_false_are_refused(playbook, option, value, message):
    told = playbook("provision", "--check", **{option: value})[1]
    assert re.search(f"deeplearning_{option}: {message}", told)


def test_files_of_jobs_must_outlive_the_nodes(cloud, run, leased):
    with pytest.raises(ModuleFailed, match="lease: the cluster has no shared storage"):
        run("cluster", **leased, efs=False, mount_point="/data", check=True)
    cloud.client("s3").create_bucket(Bucket="exports-of-leased")
    run("cluster", **leased, efs=False, mount_point="/data", export_destinations=["s3://exports-of-leased"], check=True)


def test_deletion_protection_is_refused(cloud, run, leased, name):
    run("cluster", **leased)
    cloud.client("autoscaling").update_auto_scaling_group(
        AutoScalingGroupName=f"{name}-master", DeletionProtection="prevent-force-deletion"
    )
    with pytest.raises(ModuleFailed, match=f"lease: the deletion protection of {name}-master prevents"):
        run("cluster", **leased)


KILLED = {"lease": "1h", "region": "us-east-1", "wait_timeout": 60}
# AWS makes calls of schedules up to 2 minutes late here, and terminates nodes up to 5 minutes after these calls. In seconds.
LATE, TERMINATES, MOST = 2 * 60, 5 * 60, 8 * 60


def ends_in_time(cloud, name):
    """Let the lease end, and return whether no node runs 8 minutes later."""
    cloud.control.set_delays(group_deletion=TERMINATES)
    cloud.control.advance(HOUR + MOST)
    return all_end(cloud, name)


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.exhaustive] if seed > 4 else []) for seed in range(50)])
def test_nodes_end_with_their_lease_whenever_the_controller_is_killed(cloud, run, definition, name, seed):
    """The controller is killed at a random call, while it creates, changes or deletes the cluster."""
    cloud.control.set_delays(**FAST, schedule_latency=LATE)
    choose = random.Random(seed)
    options = {**definition, **KILLED}
    creating = choose.random() < 0.5
    if not creating:
        run("cluster", **options)
    changed = choose.choice([{"state": "absent"}, {"worker_count": 1}, {"lease": "2h"}, {"tags": {"a": "b"}}]) if not creating else {}
    call = {"nth": choose.randint(1, 60 if creating else 12)}
    reached = kill_at(cloud, {**options, **changed, "prices": False}, choose.choice(["before", "after"]), **call)
    if changed.get("lease"):
        cloud.control.advance(HOUR)
    assert ends_in_time(cloud, name), (seed, creating, changed, call, reached)
    run("cluster", cluster=name, state="absent", delete_data=True)
