"""AWS terminates nodes that report that they are idle, and no run launches nodes again until a person wants it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from functools import partial
from typing import Any

import boto3
import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.idle.function import VERDICT
from botocore.exceptions import ClientError
from local_cloud.testing import wait_until

from .clusters import all_end, delete_role, groups, instances, kinds, running, subscribed
from .conftest import ModuleFailed, schedule_groups

pytestmark = pytest.mark.usefixtures("only_own_schedules")

MINUTE, HOUR = 60, 3600


@pytest.fixture
def ending(definition: dict[str, Any]) -> dict[str, Any]:
    return {**definition, "idle_after": "15m"}


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def report(cloud, instance_id: str, idle_seconds: float | None, *, age: float = 0, text: str = "") -> None:
    """Let an instance report that it is in use, or for how long it has been idle."""
    now = cloud.control.advance(0)
    what = "in use" if idle_seconds is None else f"idle since {iso(now - idle_seconds)}"
    cloud.control.print_on_console(instance_id, text or f"\r\ndeeplearning: {what}, reported at {iso(now - age)}.\r\n")


def pass_time(cloud, name, minutes: int, idle: int | None = HOUR) -> None:
    """Let time pass. All instances report every 10 minutes for how many seconds they have been idle, or that they are in use."""
    for _each in range(minutes // 10):
        for instance_id in instances(cloud, name):
            report(cloud, instance_id, idle)
        cloud.control.advance(10 * MINUTE)


def verdicts(cloud, name) -> list[str]:
    return [each["value"]["verdict"] for each in cloud.control.invocations(f"{name}-nodes-idle")]


def verdict(run, name) -> tuple[str, str]:
    """Return the state of the nodes that AWS has found, and the node because of which it is so."""
    found = run("cluster_info", cluster=name, prices=False)["idle"]["verdict"]
    return found["state"], found["node"]


def wait_for_first_look(cloud, name) -> None:
    """Wait until the function has looked at the nodes. A new schedule calls it at once, and then every 5 minutes."""
    wait_until(lambda: not cloud.client("lambda").list_tags(Resource=function_arn(cloud, name))["Tags"][VERDICT].startswith("no_nodes"))


def function_arn(cloud, name) -> str:
    return cloud.client("lambda").get_function(FunctionName=f"{name}-nodes-idle")["Configuration"]["FunctionArn"]


def new_messages(cloud, queue, words) -> list[str]:
    """Return the messages with these words that have arrived since the last call."""
    sqs = cloud.client("sqs")
    found = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
    for each in found:
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=each["ReceiptHandle"])
    return [each["Body"] for each in found if words in each["Body"]]


def test_aws_terminates_idle_nodes_and_keeps_the_data(cloud, run, ending, name):
    made = run("cluster", **ending)
    assert kinds(made).index(("create", "idle_end")) < kinds(made).index(("create", "auto_scaling_group"))
    known = {"seconds": 900, "then": "terminate", "holds": {}, **dict.fromkeys(("since", "warned", "concurrency", "failure", "verdict"))}
    assert made["idle"] == {**known, "function": f"{name}-nodes-idle", "region": "us-east-1"}
    pass_time(cloud, name, 10)
    assert running(cloud, name) == 3  # launched less than 15 minutes ago
    assert run("cluster_info", cluster=name, prices=False)["idle"]["warned"]
    pass_time(cloud, name, 10)
    assert all_end(cloud, name), verdicts(cloud, name)
    assert any(each["Name"] == name for each in cloud.client("efs").describe_file_systems()["FileSystems"])


def test_one_node_in_use_keeps_all(cloud, run, ending, name):
    run("cluster", **ending)
    cloud.control.advance(15 * MINUTE)
    first, *others = instances(cloud, name)
    for say in (
        lambda: None,  # it reports nothing
        lambda: report(cloud, first, None),
        lambda: report(cloud, first, 5 * MINUTE),
        lambda: report(cloud, first, HOUR, age=HOUR),  # it reports no more
        lambda: report(cloud, first, HOUR, age=-HOUR),  # its clock is wrong
        lambda: report(cloud, first, 0, text="deeplearning: idle since yesterday at noon UTC, reported at 2026-12-01T18:00:00Z."),
        lambda: [report(cloud, first, HOUR), report(cloud, first, None)],
    ):
        for other in others:
            report(cloud, other, HOUR)
        say()
        cloud.control.advance(5 * MINUTE)
        assert running(cloud, name) == 3, verdicts(cloud, name)
    pass_time(cloud, name, 20)
    assert all_end(cloud, name)


def test_a_new_node_keeps_all(cloud, run, ending, name):
    run("cluster", **ending)
    cloud.control.advance(15 * MINUTE)
    run("cluster", **{**ending, "worker_count": 3})
    pass_time(cloud, name, 10)
    assert running(cloud, name) == 4
    pass_time(cloud, name, 10)
    assert all_end(cloud, name)


def test_no_run_launches_nodes_again_until_a_person_wants_it(cloud, run, ending, name):
    run("cluster", **ending)
    pass_time(cloud, name, 20)
    assert all_end(cloud, name)
    for options in ({"check": True}, {}, {"idle_after": None}):
        with pytest.raises(ModuleFailed, match=r"idle_after: AWS terminated .* idle since .* UTC\. .*start_again=true") as failure:
            run("cluster", **{**ending, **options})
        assert failure.value.result["nodes_ended"]
    assert run("cluster_info", cluster=name, prices=False)["idle"]["since"]
    assert verdict(run, name) == ("no_nodes", "")
    again = run("cluster", **ending, start_again=True)
    assert ("update", "idle_end") in kinds(again)
    assert (running(cloud, name), again["idle"]["since"]) == (3, None)
    assert run("cluster", **ending)["changes"] == []
    pass_time(cloud, name, 20)
    assert all_end(cloud, name)


def test_the_cause_of_the_end_stays_the_same_after_the_end_of_the_lease(cloud, run, ending, name):
    options = {**ending, "lease": "1h"}
    run("cluster", **options)
    pass_time(cloud, name, 20)
    assert all_end(cloud, name)
    for seconds in (0, HOUR):
        cloud.control.advance(seconds)
        with pytest.raises(ModuleFailed, match=r"idle_after: AWS terminated"):
            run("cluster", **options)


def test_nodes_that_others_have_deleted_are_launched_again(cloud, run, ending, name):
    run("cluster", **ending)
    for group in sorted(groups(cloud, name)):
        cloud.client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName=group, ForceDelete=True)
    cloud.control.advance(10 * MINUTE)
    run("cluster", **ending)
    assert running(cloud, name) == 3


def test_a_hold_keeps_idle_nodes(cloud, run, ending, name):
    hold = {"cluster": name, "name": "evaluation-1"}
    with pytest.raises(ModuleFailed, match=f"cluster: AWS does not end idle nodes of '{name}' in us-east-1, so this hold keeps nothing"):
        run("idle_hold", **hold, seconds=HOUR)
    assert run("idle_hold", **hold, seconds=HOUR, missing_ok=True)["holds"] is None
    assert run("idle_hold", **hold, seconds=0)["holds"] is None
    run("cluster", **ending)
    pass_time(cloud, name, 10)
    assert run("idle_hold", **hold, seconds=HOUR, check=True)["holds"].keys() == {"evaluation-1"}
    assert run("cluster", **ending)["idle"]["holds"] == {}
    held = run("idle_hold", **hold, seconds=10 * MINUTE)
    assert (held["changed"], held["name"], list(held["holds"])) == (False, "evaluation-1", ["evaluation-1"])
    own = run("idle_hold", cluster=name, seconds=HOUR)
    pass_time(cloud, name, 20)
    assert running(cloud, name) == 3
    unchanged = run("cluster", **ending)
    assert (unchanged["changes"], list(unchanged["idle"]["holds"])) == ([], [own["name"]])
    wrong = run("idle_hold", cluster=name, name="me", seconds=0)
    assert "name: there is no hold 'me'. To see the holds, run the playbook info." in str(wrong["warnings"])
    assert run("idle_hold", cluster=name, name=own["name"], duration="4h")["holds"][own["name"]] > own["holds"][own["name"]]
    with pytest.raises(ModuleFailed, match=r"duration: '4 hours' is not a duration such as 4h or 1d12h\. Correct it\."):
        run("idle_hold", cluster=name, name=own["name"], duration="4 hours")
    assert run("idle_hold", cluster=name, name=own["name"], seconds=0)["holds"] == {}
    pass_time(cloud, name, 20)
    assert all_end(cloud, name)


@pytest.fixture
def train(playbook, tmp_path):
    (tmp_path / "train.py").write_text("")
    job = {"training_job_source": str(tmp_path), "training_job_script": "train.py", "training_job_launcher": "command"}
    return partial(playbook, "train", idle_after="15m", **job)


def hold_names(run, name) -> list[str]:
    return list(run("cluster_info", cluster=name, prices=False)["idle"]["holds"])


def test_a_run_that_fails_before_its_job_keeps_no_nodes(cloud, run, ending, playbook, train, name):
    run("cluster", **ending)
    cloud.control.forget_calls()
    host = ["-e", "ansible_host=127.0.0.1 ansible_port=1"]
    step = json.dumps({"node_setup_steps": [{"name": "a", "script": "missing.sh"}]})
    assert "missing.sh" in playbook("configure", "-e", step, *host, idle_after="15m")[1]
    assert "UntagResource" in {call["action"] for call in cloud.control.calls()}
    assert hold_names(run, name) == []
    assert "matches no host" in train(*host, training_job_hosts="bert-worker9")[1]
    assert hold_names(run, name) == []
    pass_time(cloud, name, 20)
    assert all_end(cloud, name)
    assert "AWS terminated the nodes" in train()[1]
    assert hold_names(run, name) == []


def test_the_name_of_a_hold_says_which_run_keeps_the_nodes(run, ending, playbook, repository, tmp_path, name):
    run("cluster", **ending)
    tasks = [{"ansible.builtin.include_tasks": f"{repository}/playbooks/tasks/idle_hold.yml"}] * 2
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars_files": [f"{repository}/playbooks/vars/common.yml"]}
    (tmp_path / "plays.yml").write_text(json.dumps([{**play, "vars": {"kept_seconds": 60, "job_follows": True}, "tasks": tasks}]))
    assert playbook(tmp_path / "plays", idle_after="15m")[0]
    (found,) = hold_names(run, name)
    assert re.fullmatch(r"train-20\d{6}T\d{4}-[0-9a-f]{4}", found)


def test_a_hold_ends_by_itself(cloud, run, ending, name):
    run("cluster", **ending)
    run("idle_hold", cluster=name, name="job", seconds=35 * MINUTE)
    pass_time(cloud, name, 30)
    assert running(cloud, name) == 3
    pass_time(cloud, name, 10)
    assert running(cloud, name) == 3, "people are warned first"
    pass_time(cloud, name, 10)
    assert all_end(cloud, name)


@pytest.mark.parametrize("end", ["9999-12-31T00:00:00Z", "20990101"])
def test_a_tag_that_is_no_hold_keeps_no_nodes(cloud, run, ending, name, end):
    run("cluster", **ending)
    client = cloud.client("lambda")
    arn = client.get_function(FunctionName=f"{name}-nodes-idle")["Configuration"]["FunctionArn"]
    client.tag_resource(Resource=arn, Tags={"deeplearning:hold:study": end})
    assert run("cluster_info", cluster=name, prices=False)["idle"]["holds"] == {}
    pass_time(cloud, name, 20)
    assert all_end(cloud, name)


def test_after_a_trial_the_end_is_told_with_its_own_time(cloud, run, ending, name, topic):
    trial = {**ending, "idle_then": "notify", "notify_topic": topic}
    run("cluster", **trial)
    pass_time(cloud, name, 20)
    known = run("cluster_info", cluster=name, prices=False)["idle"]
    assert known["since"]
    assert run("cluster", **{**trial, "idle_then": "terminate"})["idle"]["since"] is None
    pass_time(cloud, name, 60, idle=None)
    cloud.control.forget_calls()
    pass_time(cloud, name, 20, idle=MINUTE)
    assert running(cloud, name) == 3
    pass_time(cloud, name, 10)
    assert all_end(cloud, name)
    assert run("cluster_info", cluster=name, prices=False)["idle"]["since"] > known["since"]


def test_a_hold_that_begins_while_the_function_looks_keeps_the_nodes(cloud, run, ending, name):
    """The tags are read again before the deletion."""
    run("cluster", **ending)
    pass_time(cloud, name, 10)
    for each in instances(cloud, name):
        report(cloud, each, HOUR)
    cloud.control.forget_calls()
    pass_time(cloud, name, 20)
    assert all_end(cloud, name)
    calls = [
        call["action"] for call in cloud.control.calls() if call["action"] in ("ListTags", "GetConsoleOutput", "DeleteAutoScalingGroup")
    ]
    assert calls[calls.index("DeleteAutoScalingGroup") - 1] == "ListTags"


@pytest.mark.parametrize("hold", ["a#b", "x" * 65, "é", "run this"])
def test_names_that_tags_cannot_have_are_refused(run, name, hold):
    with pytest.raises(ModuleFailed, match="is no name of a hold"):
        run("idle_hold", cluster=name, name=hold, seconds=1)


def test_a_hold_lasts_at_most_a_week(run, name):
    with pytest.raises(ModuleFailed, match="at most 7 days"):
        run("idle_hold", cluster=name, name="study", seconds=8 * 24 * HOUR)


def test_a_trial_only_tells(cloud, run, ending, name, topic):
    told = partial(new_messages, cloud, subscribed(cloud, name, topic), "idle since")

    trial = {**ending, "idle_then": "notify", "notify_topic": topic}
    run("cluster", **trial)
    pass_time(cloud, name, 30)
    (text,) = told()
    assert "AWS would terminate the nodes" in text
    assert running(cloud, name) == 3
    assert run("cluster", **trial)["changes"] == []
    pass_time(cloud, name, 10, idle=None)
    pass_time(cloud, name, 20)
    assert len(told()) == 1
    real = {**trial, "idle_then": "terminate"}
    assert kinds(run("cluster", **real)) == [("update", "idle_end")]
    pass_time(cloud, name, 20)
    assert all_end(cloud, name)


@pytest.mark.parametrize("name", ["test-with-the-longest-name-abc"])
def test_aws_tells_the_topic(cloud, run, ending, name, topic):
    sqs = cloud.client("sqs")
    queue = subscribed(cloud, name, topic)
    run("cluster", **ending, notify_topic=topic)
    pass_time(cloud, name, 20)
    assert all_end(cloud, name)
    found = [each["Body"] for each in sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]]
    texts = sorted(each for each in found if "has been idle" in each)
    assert len(texts) == 2
    assert all(f"Cluster {name} (3 nodes) has been idle since" in each and "home directories, are deleted" in each for each in texts)
    assert "idle_hold" in "".join(texts)
    assert "start_again=true" in "".join(texts)


def test_a_failed_message_does_not_keep_the_nodes_and_is_shown(cloud, run, ending, playbook, name, topic):
    run("cluster", **ending, notify_topic=topic)
    denial = {"Version": "2012-10-17", "Statement": {"Effect": "Deny", "Action": "sns:Publish", "Resource": "*"}}
    cloud.client("iam").put_role_policy(RoleName=f"{name}-nodes-idle-us-east-1", PolicyName="no", PolicyDocument=json.dumps(denial))
    pass_time(cloud, name, 20)
    assert all_end(cloud, name)
    assert run("cluster_info", cluster=name, prices=False)["idle"]["failure"]["error"] == "AuthorizationError"
    told = playbook("info", idle_after="15m", notify_topic=topic)[1]
    assert re.search(r"been idle since [^.]+ UTC\. AWS could not send the message of [^.]+ UTC \(AuthorizationError\)\. Check", told)


def test_changes_of_the_time_apply(cloud, run, ending, name):
    run("cluster", **ending)
    longer = run("cluster", **{**ending, "idle_after": "45m"})
    assert (kinds(longer), longer["idle"]["seconds"]) == ([("update", "idle_end")], 45 * MINUTE)
    pass_time(cloud, name, 30)
    assert running(cloud, name) == 3
    assert run("cluster", **{**ending, "idle_after": "0h45m"})["changes"] == []


def test_without_the_option_nothing_ends(cloud, run, ending, definition, name):
    run("cluster", **ending)
    removed = run("cluster", **definition)
    assert ("delete", "idle_end") in kinds(removed)
    assert removed["idle"] is None
    pass_time(cloud, name, 20)
    assert running(cloud, name) == 3
    assert run("cluster", **definition)["changes"] == []
    assert_gone(cloud, name)
    cloud.control.forget_calls()
    run("cluster", **definition)
    assert {call["service"] for call in cloud.control.calls()}.isdisjoint({"lambda", "scheduler"})


def assert_gone(cloud, name):
    with pytest.raises(ClientError, match="NoSuchEntity"):
        cloud.client("iam").get_role(RoleName=f"{name}-nodes-idle-us-east-1")
    with pytest.raises(ClientError, match="ResourceNotFound"):
        cloud.client("lambda").get_function(FunctionName=f"{name}-nodes-idle")
    assert f"{name}-nodes-idle" not in schedule_groups(cloud)


@pytest.mark.parametrize("ended", [False, True])
def test_the_deletion_of_the_cluster_deletes_everything(cloud, run, ending, name, ended):
    run("cluster", **ending)
    if ended:
        pass_time(cloud, name, 20)
        assert all_end(cloud, name)
    order = kinds(run("cluster", cluster=name, state="absent"))
    if not ended:
        assert order.index(("delete", "auto_scaling_group")) < order.index(("delete", "idle_end"))
    assert_gone(cloud, name)


def test_an_unchanged_run_changes_nothing(cloud, run, ending, name):
    run("cluster", **ending)
    wait_for_first_look(cloud, name)
    cloud.control.forget_calls()
    assert run("cluster", **ending)["changes"] == []
    calls = [call["action"] for call in cloud.control.calls() if call["service"] in ("lambda", "scheduler")]
    assert sorted(calls) == ["GetFunction", "GetSchedule"]


def configure(cloud, name, **changes):
    cloud.client("lambda").update_function_configuration(FunctionName=f"{name}-nodes-idle", **changes)


def change_schedule(cloud, name, target, **changes):
    client = cloud.client("scheduler")
    found = client.get_schedule(GroupName=f"{name}-nodes-idle", Name="check")
    kept = {key: found[key] for key in ("GroupName", "Name", "ScheduleExpression", "FlexibleTimeWindow")}
    client.update_schedule(**kept, Target={**found["Target"], **target(found["Target"])}, **changes)


DAMAGE = {
    "schedule": lambda cloud, name: cloud.client("scheduler").delete_schedule(GroupName=f"{name}-nodes-idle", Name="check"),
    "function": lambda cloud, name: cloud.client("lambda").delete_function(FunctionName=f"{name}-nodes-idle"),
    "policy": lambda cloud, name: cloud.client("iam").delete_role_policy(RoleName=f"{name}-nodes-idle-us-east-1", PolicyName="idle"),
    "time": lambda cloud, name: configure(cloud, name, Environment={"Variables": {"IDLE_SECONDS": "86400"}}),
    "timeout": lambda cloud, name: configure(cloud, name, Timeout=1),
    "start": lambda cloud, name: change_schedule(cloud, name, lambda _target: {}, StartDate=datetime(2100, 1, 1, tzinfo=UTC)),
    "account": lambda cloud, name: change_schedule(cloud, name, lambda target: {"Arn": target["Arn"].replace("123456789012", "9" * 12)}),
    "input": lambda cloud, name: change_schedule(cloud, name, lambda _target: {"Input": "{}"}),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_run_repairs_what_would_not_end_the_nodes(cloud, run, ending, name, damage):
    run("cluster", **ending)
    DAMAGE[damage](cloud, name)
    cloud.control.advance(MINUTE)
    assert kinds(run("cluster", **ending)) == [("update", "idle_end")]
    assert run("cluster", **ending)["changes"] == []
    pass_time(cloud, name, 20)
    assert all_end(cloud, name)


def test_runs_say_that_aws_may_not_call_the_function(cloud, run, ending, playbook, name):
    run("cluster", **ending)
    cloud.client("lambda").put_function_concurrency(FunctionName=f"{name}-nodes-idle", ReservedConcurrentExecutions=0)
    pass_time(cloud, name, 20)
    assert running(cloud, name) == 3
    assert run("cluster_info", cluster=name, prices=False)["idle"]["concurrency"] == 0
    for book in ("provision", "info"):
        assert f"run aws lambda delete-function-concurrency --function-name {name}-nodes-idle" in playbook(book, idle_after="15m")[1]


def test_a_failed_deletion_is_repeated(cloud, run, ending, name):
    run("cluster", **ending)
    client = cloud.client("autoscaling")
    client.update_auto_scaling_group(AutoScalingGroupName=f"{name}-workers", DeletionProtection="prevent-all-deletion")
    pass_time(cloud, name, 20)
    assert groups(cloud, name) == {f"{name}-workers"}
    client.update_auto_scaling_group(AutoScalingGroupName=f"{name}-workers", DeletionProtection="none")
    pass_time(cloud, name, 10)
    assert all_end(cloud, name)
    with pytest.raises(ModuleFailed, match="idle_after: AWS terminated"):
        run("cluster", **ending)


def test_a_tag_deletes_no_groups_of_stopped_nodes(cloud, run, ending, name):
    run("cluster", **ending)
    existing = groups(cloud, name)
    for group in existing:
        cloud.client("autoscaling").suspend_processes(AutoScalingGroupName=group)
    cloud.client("ec2").stop_instances(InstanceIds=list(instances(cloud, name)))
    wait_until(lambda: not instances(cloud, name))
    cloud.client("lambda").tag_resource(Resource=function_arn(cloud, name), Tags={"deeplearning:idle-since": "2026-12-01T16:00:00Z"})
    cloud.control.forget_calls()
    cloud.control.advance(10 * MINUTE)
    assert groups(cloud, name) == existing
    assert "DeleteAutoScalingGroup" not in [call["action"] for call in cloud.control.calls()]


def test_after_the_end_aws_deletes_nothing_any_more(cloud, run, ending, name):
    run("cluster", **ending)
    pass_time(cloud, name, 20)
    assert all_end(cloud, name)
    cloud.control.forget_calls()
    cloud.control.advance(HOUR)
    calls = [call["action"] for call in cloud.control.calls()]
    assert ("ListTags" in calls, "DeleteAutoScalingGroup" in calls) == (True, False)


def test_no_tag_of_a_node_keeps_all(cloud, run, ending, name):
    run("cluster", **ending)
    nodes = list(instances(cloud, name))
    cloud.client("ec2").delete_tags(Resources=nodes[:1], Tags=[{"Key": "deeplearning:cluster"}])
    for _each in range(2):
        for each in nodes:
            report(cloud, each, HOUR)
        cloud.control.advance(10 * MINUTE)
    assert all_end(cloud, name)


def test_people_hear_that_the_function_may_not_read_a_console(cloud, run, ending, name, topic):
    told = partial(new_messages, cloud, subscribed(cloud, name, topic), "has not reported since")
    run("cluster", **ending, notify_topic=topic)
    denial = {"code": "UnauthorizedOperation", "status": 403, "message": "no"}
    cloud.control.set_faults([{"service": "ec2", "action": "GetConsoleOutput", **denial}])
    pass_time(cloud, name, 80)
    assert (running(cloud, name), len(told())) == (3, 1)


FINDINGS = {
    "idle_after": ({"idle_after": "half an hour"}, "idle_after: 'half an hour' is not a duration such as 30m"),
    "short": ({"idle_after": "10m"}, "idle_after: '10m' is not from 15m to 1d"),
    "no topic": ({"idle_then": "notify"}, "idle_then: notify tells the topic in notify_topic, which is not set"),
    "no console": ({"instance_type": "c4.large"}, "idle_after: AWS shows no current console output of c4.large"),
    "no copy": ({"efs": False, "mount_point": "/data"}, "idle_after: the cluster has no shared storage"),
}


@pytest.mark.parametrize("finding", FINDINGS)
def test_definitions_that_cannot_work_are_refused(run, ending, finding):
    options, message = FINDINGS[finding]
    with pytest.raises(ModuleFailed) as failure:
        run("cluster", **{**ending, **options}, check=True)
    assert message in str(failure.value)


def test_info_says_what_aws_has_found(cloud, run, ending, name):
    run("cluster", **ending)
    pass_time(cloud, name, 10, idle=None)
    first, *others = instances(cloud, name)
    (since,) = {run("cluster_info", cluster=name, prices=False)["idle"]["verdict"]["since"]}
    state, node = verdict(run, name)
    assert (state, node.startswith(f"{name}-")) == ("in_use", True)
    cloud.control.forget_calls()
    pass_time(cloud, name, 50, idle=None)
    found = run("cluster_info", cluster=name, prices=False)["idle"]["verdict"]
    assert (found["state"], found["node"], found["since"]) == ("in_use", node, since)
    assert "TagResource" not in [call["action"] for call in cloud.control.calls()], "an equal verdict is not written"
    pass_time(cloud, name, 20, idle=None)
    assert run("cluster_info", cluster=name, prices=False)["idle"]["verdict"]["age"] < 30 * MINUTE, "but once an hour"
    for each in others:
        report(cloud, each, HOUR)
    cloud.control.advance(10 * MINUTE)
    for each in (first, *others):
        report(cloud, each, MINUTE)
    cloud.control.advance(5 * MINUTE)
    assert verdict(run, name) == ("idle", "")


def test_info_does_not_blame_a_node_that_has_gone(cloud, run, ending, name):
    run("cluster", **ending)
    pass_time(cloud, name, 10, idle=None)
    gone = run("cluster_info", cluster=name, prices=False)["idle"]["verdict"]["instance_id"]
    groups = cloud.client("autoscaling")
    groups.terminate_instance_in_auto_scaling_group(InstanceId=gone, ShouldDecrementDesiredCapacity=False)
    wait_until(lambda: not groups.describe_auto_scaling_instances(InstanceIds=[gone])["AutoScalingInstances"], 30)
    assert verdict(run, name)[0] == "no_nodes", "until the function looks at the other nodes"


def test_info_sees_that_aws_no_longer_looks(cloud, run, ending, name):
    run("cluster", **ending)
    pass_time(cloud, name, 10, idle=None)
    cloud.client("iam").delete_role_policy(RoleName=f"{name}-nodes-idle-us-east-1", PolicyName="idle")
    cloud.control.advance(80 * MINUTE)
    assert run("cluster_info", cluster=name, prices=False)["incomplete_ends"] == ["idle_after"]
    assert run("cluster", **ending)["idle"]["verdict"] is None, "after the repair, the old verdict says nothing"
    cloud.control.advance(10 * MINUTE)
    assert run("cluster_info", cluster=name, prices=False)["idle"]["verdict"]["age"] < 15 * MINUTE


def test_info_sees_that_aws_has_never_looked(cloud, run, ending, name):
    cloud.control.set_faults([{"service": "lambda", "action": "ListTags", "code": "AccessDeniedException", "status": 403, "message": "no"}])
    run("cluster", **ending)
    pass_time(cloud, name, 80)
    assert running(cloud, name) == 3
    assert run("cluster_info", cluster=name, prices=False)["idle"]["verdict"]["age"] > 1.25 * HOUR


def test_a_silent_node_is_told_once_a_day(cloud, run, ending, name, topic):
    told = partial(new_messages, cloud, subscribed(cloud, name, topic), "has not reported since")

    run("cluster", **ending, notify_topic=topic)
    cloud.control.advance(50 * MINUTE)
    assert (told(), verdict(run, name)[0]) == ([], "unconfigured")
    cloud.control.advance(30 * MINUTE)
    (text,) = told()
    assert "and 2 more do not report either" in text
    assert verdict(run, name)[0] == "unconfigured"
    cloud.control.advance(30 * MINUTE)
    assert told() == []
    pass_time(cloud, name, 10, idle=None)
    assert (told(), verdict(run, name)[0]) == ([], "in_use")
    cloud.control.advance(2 * HOUR)
    assert (told(), verdict(run, name)[0]) == ([], "silent")


@pytest.mark.parametrize("forged", ["in_use now and for ever", "idle 2026-12-01T16:00:00Z", ""])
def test_a_verdict_of_others_is_not_shown(cloud, run, ending, name, forged):
    run("cluster", **ending)
    wait_for_first_look(cloud, name)
    cloud.client("lambda").tag_resource(Resource=function_arn(cloud, name), Tags={VERDICT: forged})
    assert run("cluster_info", cluster=name, prices=False)["idle"]["verdict"] is None


def test_nodes_cannot_keep_or_end_others(cloud, run, ending, name):
    run("cluster", **ending)
    iam, actions = (
        cloud.client("iam"),
        ["lambda:TagResource", "lambda:InvokeFunction", "lambda:UpdateFunctionCode", "scheduler:UpdateSchedule"],
    )
    role = iam.get_role(RoleName=f"{name}-nodes-us-east-1")["Role"]["Arn"]
    found = iam.simulate_principal_policy(PolicySourceArn=role, ActionNames=actions)["EvaluationResults"]
    assert [each["EvalDecision"] for each in found] == ["implicitDeny"] * 4


def test_numbers_that_others_have_given_are_not_shown(cloud, run, ending, name):
    run("cluster", **ending)
    nodes = {each["name"]: each["instance_id"] for each in run("cluster_info", cluster=name, prices=False)["nodes"]}
    pass_time(cloud, name, 10)
    report(cloud, nodes[f"{name}-worker2"], None)
    cloud.control.advance(5 * MINUTE)
    assert verdict(run, name) == ("in_use", f"{name}-worker2")
    forged = [{"Key": "deeplearning:number", "Value": "2 {{ lookup('pipe', 'id') }}"}]
    cloud.client("ec2").create_tags(Resources=[nodes[f"{name}-worker2"]], Tags=forged)
    cloud.control.advance(5 * MINUTE)
    tags = cloud.client("lambda").get_function(FunctionName=f"{name}-nodes-idle")["Tags"]
    assert tags["deeplearning:idle-verdict"].split()[-1] == nodes[f"{name}-worker2"]


@pytest.mark.parametrize(
    "message", ["The role defined for the function cannot be assumed by Lambda.", "The KMS key is invalid for CreateGrant."]
)
def test_a_run_waits_until_lambda_can_use_a_new_role(cloud, run, ending, message):
    refusal = {"service": "lambda", "action": "CreateFunction", "code": "InvalidParameterValueException", "status": 400, "times": 1}
    cloud.control.set_faults([{**refusal, "message": message}])
    assert ("create", "idle_end") in kinds(run("cluster", **ending))


def user(cloud, name, *statements):
    """Return the access key, with its secret, of a new user who has only these permissions."""
    iam, policy = cloud.client("iam"), {"Version": "2012-10-17", "Statement": statements}
    iam.create_user(UserName=f"{name}-user")
    iam.put_user_policy(UserName=f"{name}-user", PolicyName="policy", PolicyDocument=json.dumps(policy))
    key = iam.create_access_key(UserName=f"{name}-user")["AccessKey"]
    return key["AccessKeyId"], key["SecretAccessKey"]


@pytest.mark.parametrize("refused", ["", "UpdateFunctionConfiguration", "DeleteFunction"])
def test_a_role_that_somebody_has_deleted_is_created_anew_with_its_function(cloud, run, ending, name, refused):
    """A function's environment is encrypted for the role that it was created with. A run may end before it has created the function."""
    run("cluster", **ending)
    held = run("idle_hold", cluster=name, name="study", seconds=25 * MINUTE)["holds"]
    pass_time(cloud, name, 20)
    delete_role(cloud, name, "idle")
    if refused:
        denial = {"code": "AccessDeniedException", "status": 403, "message": "not now"}
        cloud.control.set_faults([{"service": "lambda", "action": refused, **denial}])
        with pytest.raises(ModuleFailed, match="not now"):
            run("cluster", **ending)
        cloud.control.set_faults([])
        assert cloud.client("iam").get_role(RoleName=f"{name}-nodes-idle-us-east-1")
    planned, made = run("cluster", **ending, check=True), run("cluster", **ending)
    assert kinds(planned) == kinds(made) == [("update", "idle_end")]
    again = run("cluster", **ending)
    assert (again["changes"], again["idle"]["holds"]) == ([], held)
    pass_time(cloud, name, 30)  # the hold ends, and people are warned before the nodes end
    assert all_end(cloud, name)


def test_a_function_that_is_created_anew_knows_since_when_nodes_are_idle(cloud, run, ending, name):
    trial = {**ending, "idle_then": "notify", "notify_topic": cloud.client("sns").create_topic(Name=f"{name}-alerts")["TopicArn"]}
    run("cluster", **trial)
    pass_time(cloud, name, 20)
    since = run("cluster_info", cluster=name, prices=False)["idle"]["since"]
    delete_role(cloud, name, "idle")
    run("cluster", **trial)
    assert since
    assert run("cluster_info", cluster=name, prices=False)["idle"]["since"] == since


def test_the_role_sets_only_its_own_tags(cloud, run, ending, name):
    """Whoever can use the role cannot give the function to another cluster."""
    run("cluster", **ending)
    policy = cloud.client("iam").get_role_policy(RoleName=f"{name}-nodes-idle-us-east-1", PolicyName="idle")["PolicyDocument"]
    key, secret = user(cloud, name, *policy["Statement"])
    client = boto3.client("lambda", "us-east-1", endpoint_url=cloud.endpoint, aws_access_key_id=key, aws_secret_access_key=secret)
    arn = cloud.client("lambda").get_function(FunctionName=f"{name}-nodes-idle")["Configuration"]["FunctionArn"]
    own = {"deeplearning:idle-since": "", "deeplearning:hold:study": ""}
    client.tag_resource(Resource=arn, Tags=own)
    client.untag_resource(Resource=arn, TagKeys=[*own])
    for call in (
        lambda: client.tag_resource(Resource=arn, Tags={**own, "deeplearning:cluster": "other"}),
        lambda: client.untag_resource(Resource=arn, TagKeys=["deeplearning:cluster"]),
    ):
        with pytest.raises(ClientError, match="AccessDenied"):
            call()


@pytest.mark.parametrize(("left", "ended"), [("all", False), ("all", True), ("function", False), ("schedule", False)])
def test_without_its_role_everything_else_is_deleted(cloud, run, ending, name, left, ended):
    run("cluster", **ending)
    if ended:
        pass_time(cloud, name, 20)
        assert all_end(cloud, name)
    delete_role(cloud, name, "idle")
    if left == "function":
        DAMAGE["schedule"](cloud, name)
    if left == "schedule":
        DAMAGE["function"](cloud, name)
    assert ("delete", "idle_end") in kinds(run("cluster", cluster=name, state="absent"))
    assert_gone(cloud, name)


def test_without_the_option_and_its_role_everything_else_is_deleted(cloud, run, ending, definition, name):
    run("cluster", **ending)
    delete_role(cloud, name, "idle")
    assert ("delete", "idle_end") in kinds(run("cluster", **definition))
    cloud.control.advance(5 * MINUTE)  # the deletion of a schedule group takes a while
    assert_gone(cloud, name)


def test_without_its_role_no_run_launches_nodes_again_either(cloud, run, ending, name):
    run("cluster", **ending)
    pass_time(cloud, name, 20)
    assert all_end(cloud, name)
    delete_role(cloud, name, "idle")
    with pytest.raises(ModuleFailed, match="idle_after: AWS terminated"):
        run("cluster", **ending)


def test_a_function_of_others_is_not_deleted(cloud, run, ending, name):
    run("cluster", **ending)
    client = cloud.client("lambda")
    arn = client.get_function(FunctionName=f"{name}-nodes-idle")["Configuration"]["FunctionArn"]
    client.untag_resource(Resource=arn, TagKeys=["deeplearning:cluster"])
    delete_role(cloud, name, "idle")
    with pytest.raises(ModuleFailed, match=r"function .* exists but is not tagged"):
        run("cluster", cluster=name, state="absent")


def test_without_permission_for_the_tags_a_run_does_not_forget_holds(cloud, run, ending, name):
    run("cluster", **ending)
    run("idle_hold", cluster=name, name="study", seconds=HOUR)
    key, secret = user(cloud, name, {"Effect": "Allow", "NotAction": "lambda:ListTags", "Resource": "*"})
    with pytest.raises(ModuleFailed, match=r"tags of function .* cannot be read .* Allow lambda:ListTags"):
        run("idle_hold", cluster=name, name="study", seconds=0, access_key=key, secret_key=secret)
