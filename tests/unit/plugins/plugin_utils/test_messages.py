"""Tests of the messages of roles and playbooks, each with one and with several things."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import messages
from ansible_collections.deeplearning.cluster.plugins.plugin_utils._output import prices
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.node_end_messages import endless

ENDLESS = endless(None, None)
RUN = "ansible-playbook deeplearning.cluster."
IGNORE = " To terminate nodes even if jobs are running on them, add -e deeplearning_ignore_running_jobs=true"
LOST = (
    "The jobs in /data/jobs are on the master's own disk, and are lost when the master is terminated. To keep a job, export it to S3 "
    "with the playbook export. "
)
CHARGE = {"kind": "nat_gateway", "key": "main", "product": "nat_gateway", "variant": "", "quantity": 1, "hourly": 2.0}
WORKERS = {"kind": "auto_scaling_group", "key": "workers", "product": "instance", "quantity": 2, "hourly": 20.0}
PRICE = {"hourly": 2.0, "currency": "USD", "charges": [CHARGE], "data": [], "read_at": 0, "published": "", "problem": "", "endpoint": ""}


@pytest.mark.parametrize(("findings", "warnings"), [([], "no warnings"), ([{}], "1 warning"), ([{}, {}], "2 warnings")])
def test_a_validation_counts_its_warnings(findings, warnings):
    told = f"No errors and {warnings}: demo can be provisioned."
    assert messages.validated("demo", findings, None) == f"{told}\n{ENDLESS}"
    assert messages.validated("demo", findings, PRICE) == "\n".join([told, *prices.lines(PRICE), ENDLESS])


@pytest.mark.usefixtures("now")
def test_a_prediction_says_what_ends_the_nodes():
    told = messages.ends_after_run({**LEASE, "fixed": True, "longer": False}, PRICE, IDLE)
    assert told.startswith("AWS terminates the nodes at 2026-12-01 18:00 UTC, in ")
    assert "The rest of the cluster then costs 2.00 USD per hour (48.00 USD per day). AWS terminates them earlier when all " in told
    assert messages.ends_after_run(None, PRICE, None) == ENDLESS
    notified = "AWS sends a notification when all of them have been idle for 30 min 0 s."
    assert messages.ends_after_run(None, PRICE, NOTIFY) == f"{notified} {endless(None, NOTIFY)}"
    ends = ("2026-12-01T18:00:00Z", "2026-12-01T14:00:00Z")
    for predicted, does in ((True, "would then terminate"), (False, "now terminates")):
        told = f"AWS {does} the nodes at 2026-12-01 18:00 UTC instead of 2026-12-01 14:00 UTC."
        assert messages.prolonged_lease(*ends, predicted=predicted) == told
    assert messages.validated("demo", [], PRICE, LEASE, IDLE).endswith(f"\n{messages.ends_after_run(LEASE, PRICE, IDLE)}")


@pytest.mark.parametrize(
    ("count", "own_disk", "service", "expected"),
    [
        (
            1,
            "",
            "",
            "1 node of cluster demo keeps running (c5) and costs money. To let AWS terminate it by itself, set deeplearning_lease or "
            f"deeplearning_idle_after. To delete the cluster and keep the file systems, run {RUN}destroy",
        ),
        (
            3,
            "",
            "",
            "3 nodes of cluster demo keep running (c5) and cost money. To let AWS terminate them by itself, set deeplearning_lease or "
            f"deeplearning_idle_after. To delete the cluster and keep the file systems, run {RUN}destroy",
        ),
        (
            2,
            "/data/jobs",
            "",
            f"{LOST}2 nodes of cluster demo keep running (c5) and cost money. To let AWS terminate them by itself, set "
            f"deeplearning_lease or deeplearning_idle_after. To delete the cluster, run {RUN}destroy",
        ),
        (
            2,
            "",
            "emr",
            f"2 nodes of cluster demo keep running (c5) and cost money. To terminate them, run {RUN}emr -e deeplearning_state=absent",
        ),
    ],
)
def test_running_nodes_cost_money(count, own_disk, service, expected):
    groups = ["workers"] * count
    assert messages.running_nodes("demo", groups, ["c5"], own_disk, service, {}) == expected
    unknown = {**PRICE, "charges": [{**CHARGE, "hourly": None}]}
    assert messages.running_nodes("demo", groups, ["c5"], own_disk, service, unknown) == expected
    with_price = expected.replace("money. ", "money. The cluster costs 2.00 USD per hour (48.00 USD per day), without traffic and taxes. ")
    assert messages.running_nodes("demo", groups, ["c5"], own_disk, service, PRICE) == with_price


def test_nodes_that_are_gone_cost_nothing():
    price = {**PRICE, "hourly": 42.0, "charges": [CHARGE, *({**WORKERS, "key": key} for key in ("master", "workers"))]}
    told = messages.running_nodes("demo", [], ["c5"], "", "", price)
    costs = "The cluster costs 2.00 USD per hour (48.00 USD per day), without traffic and taxes"
    assert told == f"0 nodes of cluster demo are running. {costs}. To delete the cluster and keep the file systems, run {RUN}destroy"
    assert "The cluster costs 12.00 USD per hour" in messages.running_nodes("demo", ["master"], ["c5"], "", "", price)


IDLE = {"seconds": 1800, "then": "terminate", "since": None, "warned": None, "holds": {}, "verdict": None}
IDLE |= {"function": "bert-nodes-idle", "region": "us-east-1", "concurrency": None, "failure": None}
NOTIFY = {**IDLE, "then": "notify"}
HELD = {"holds": {"study": "2026-12-01T18:00:00Z"}}
WHEN = "AWS terminates the nodes when all of them have been idle for 30 min 0 s"


def found(state, node="", **more):
    """Return what AWS has found."""
    verdict = {"state": state, "node": node, "instance_id": "i-0c" if node else ""}
    verdict |= {"since": "2026-12-01T15:50:00Z", "written": "2026-12-01T15:55:00Z", "age": 300.0}
    return {"verdict": {**verdict, **more}}


def info(idle, count=2):
    """Return what the playbook info tells about idle nodes."""
    node = dict.fromkeys(("name", "instance_id", "instance_type", "zone", "private_ip", "public_ip"), "x") | {"launched_at": None}
    return messages.cluster_overview([node] * count, [], "ssh", None, idle={**IDLE, **idle}).split("\n")[-2]


@pytest.fixture
def now(monkeypatch):
    """Let the current time be two hours before the end of the lease, and return it."""
    moment = datetime(2026, 12, 1, 16, tzinfo=UTC).timestamp()
    monkeypatch.setattr(messages.time, "time", lambda: moment)
    return moment


SILENT = " bert-worker3 has not reported since 2026-12-01 15:50 UTC, so no node ends."
REPORT = " AWS sees a new report within 5 min 0 s. To let it report, run "
BEFORE = " Before this run, bert-worker3 had not reported since 2026-12-01 15:50 UTC, so no node ended. The playbook info says whether it "
HANGS = (
    "If bert-worker3 does not answer, terminate it: aws autoscaling terminate-instance-in-auto-scaling-group "
    "--no-should-decrement-desired-capacity --instance-id i-0c --region us-east-1"
)
NEVER = " But AWS does not look at them. To repair that, run the playbook "
OLD = " But AWS does not look at them (the last sign is of 2026-12-01 15:55 UTC). To repair that, run the playbook "
SHOWS = (
    "If it lasts, this shows the error: aws lambda invoke --function-name bert-nodes-idle --region us-east-1 --log-type Tail "
    "--query LogResult --output text /dev/null | base64 -d"
)


FAILED = (
    "AWS could not send the message of 2026-12-01 15:50 UTC (NotFound). Check that the topic in deeplearning_notify_topic exists, and that "
    "its policy and its key allow role bert-nodes-idle-us-east-1 to publish."
)
STOPPED = (
    " But AWS does not look at them, because the reserved concurrency of bert-nodes-idle is 0. To change that, run aws lambda "
    "delete-function-concurrency --function-name bert-nodes-idle --region us-east-1"
)


def ending(minutes):
    """Return idle nodes that AWS should terminate. It has warned people some minutes ago."""
    warned = datetime.fromtimestamp(datetime(2026, 12, 1, 16, tzinfo=UTC).timestamp() - minutes * 60, UTC)
    return {**found("idle"), "since": "2026-12-01T11:00:00Z", "warned": f"{warned:%Y-%m-%dT%H:%M:%SZ}"}


@pytest.mark.usefixtures("now")
@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, f"{WHEN}.{NEVER}provision. {SHOWS}"),
        ({**HELD, **found("no_nodes")}, f"{WHEN}, but not before 2026-12-01 18:00 UTC (study). It has not looked at them yet."),
        (
            {"holds": dict.fromkeys(["b", "a", "run this: rm /", "é"], "2026-12-01T18:00:00Z"), **found("no_nodes")},
            "UTC (a, b, 2 other holds). It has not looked at them yet.",
        ),
        (
            found("idle"),
            f"{WHEN}. All of them have been idle since 2026-12-01 15:50 UTC. AWS terminates them at 2026-12-01 16:20 UTC at the earliest.",
        ),
        (
            {**found("idle"), **HELD},
            "All of them have been idle since 2026-12-01 15:50 UTC. AWS terminates them at 2026-12-01 18:10 UTC at the earliest.",
        ),
        ({**found("idle"), "then": "notify"}, "All of them have been idle since 2026-12-01 15:50 UTC."),
        (found("no_nodes"), f"{WHEN}. It has not looked at them yet."),
        (
            found("in_use", "bert-worker3"),
            f"{WHEN}. bert-worker3 was in use at 2026-12-01 15:55 UTC: cat /run/deeplearning-idle.json on it says why.",
        ),
        # The nodes may have been configured since
        (
            found("unconfigured", "bert-worker3"),
            f"{WHEN}. bert-worker3 had not reported when AWS looked at 2026-12-01 15:55 UTC. AWS looks every 5 min 0 s.",
        ),
        (found("unreported", "bert-worker3", age=301.0), f"{WHEN}.{SILENT}{REPORT}{RUN}configure"),
        (
            found("unconfigured", "bert-worker3", age=301.0),
            f"{WHEN}.{SILENT} Its console shows no report, as before the first configuration.{REPORT}{RUN}configure",
        ),
        (found("silent", "bert-worker3", age=301.0), f"{WHEN}.{SILENT}{REPORT}the playbook configure. {HANGS}"),
        (found("in_use", "x", age=4501.0), f"{WHEN}.{OLD}provision. {SHOWS}"),
        (found("no_nodes", age=4501.0), f"{WHEN}.{OLD}provision. {SHOWS}"),  # the function has never worked
        (
            ending(21),
            f"{WHEN}. All of them have been idle since 2026-12-01 15:50 UTC. AWS should have terminated them: look for denied calls of "
            "DeleteAutoScalingGroup in CloudTrail.",
        ),
        (ending(19), "The warning was sent at 2026-12-01 15:41 UTC, and AWS terminates them at about 2026-12-01 16:20 UTC."),
        ({**ending(21), "then": "notify"}, "All of them have been idle since 2026-12-01 15:50 UTC."),
        ({"failure": {"time": "2026-12-01T15:50:00Z", "error": "NotFound"}, **found("no_nodes")}, f"looked at them yet. {FAILED}"),
        ({"concurrency": 1, **found("no_nodes")}, f"{WHEN}. It has not looked at them yet."),
        ({"concurrency": 0, **found("idle", age=4501.0)}, f"{WHEN}.{STOPPED}"),
        # A hold has just ended
        (
            found("idle", since="2026-12-01T11:00:00Z"),
            "All of them have been idle since 2026-12-01 11:00 UTC. AWS terminates them at 2026-12-01 16:10 UTC at the earliest.",
        ),
    ],
)
def test_info_says_what_aws_has_found_about_idle_nodes(more, told):
    assert info(more).endswith(told)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, f"{WHEN}. To"),
        (HELD, f"{WHEN}. To"),  # read before the job of this run, whose own hold has ended since
        (found("in_use", "bert-worker3"), f"{WHEN}. To"),
        (found("idle"), f"{WHEN}. To"),
        (found("silent", "bert-worker3"), f"{WHEN}.{BEFORE}reports now. To"),
        (found("unreported", "bert-worker3"), f"{WHEN}. To"),
        (found("idle", age=4501.0), f"{WHEN}.{OLD}provision. {SHOWS}\nTo"),
        ({"concurrency": 0}, f"{WHEN}.{STOPPED}\nTo"),
        ({"failure": {"time": "2026-12-01T15:50:00Z", "error": "NotFound"}, **found("idle")}, f"{WHEN}. {FAILED} To"),
    ],
)
def test_runs_that_use_the_nodes_tell_only_of_problems(more, told):
    assert told in messages.running_nodes("demo", ["workers"] * 2, ["c5"], "", "", PRICE, idle={**IDLE, **more})


def test_nodes_that_were_idle_are_told_with_the_command_that_starts_them_again():
    told = messages.cluster_overview([], [], "ssh", PRICE, idle={**IDLE, **found("no_nodes"), "since": "2026-12-01T18:00:00Z"})
    assert "AWS terminated the nodes, which had been idle since 2026-12-01 18:00 UTC." in told
    assert "provision -e deeplearning_start_again=true\nTo delete the rest of the cluster, which costs " in told


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_after_an_end_only_its_cause_is_told(seconds):
    lease = {"end": "2026-12-01T20:00:00Z", "seconds": seconds, "former_end": None, "fixed": True, "longer": False}
    idle = {**IDLE, **found("no_nodes"), "since": "2026-12-01T18:00:00Z"}
    told = messages.cluster_overview([], [], "ssh", None, lease, idle)
    assert "AWS terminated the nodes, which had been idle since 2026-12-01 18:00 UTC. To start nodes again, run " in told
    assert "20:00" not in told
    if seconds < 0:
        told = messages.cluster_overview([], [], "ssh", None, lease, {**idle, "since": None})
        assert "The lease ended at 2026-12-01 20:00 UTC, and AWS has terminated the nodes. To start nodes again, change deeplearnin" in told
        assert "idle" not in told


def test_a_cluster_without_nodes_tells_that_aws_has_ended_them():
    failure = {"time": "2026-12-01T15:50:00Z", "error": "NotFound"}
    idle = {**IDLE, **found("no_nodes"), "since": "2026-12-01T18:00:00Z", "failure": failure}
    info = {"resources": [], "lease": None, "idle": idle, "price": None, "emr": None, "unread_ends": []}
    arguments = ("demo", "us-east-1", [], "nodes.yml", "provision")
    assert f"had been idle since 2026-12-01 18:00 UTC. {FAILED} To start nodes again, run " in messages.missing_nodes(*arguments, info)
    assert messages.missing_nodes(*arguments, {**info, "idle": None}) == messages.missing_nodes(*arguments)
    told = messages.missing_nodes(*arguments, {**info, "idle": None, "lease": {**LEASE, "seconds": -5000.0}, "price": PRICE})
    assert "The lease ended at 2026-12-01 18:00 UTC, and AWS has terminated the nodes. To start nodes again, run " in told
    assert "To delete the rest of the cluster, which costs 2.00 USD per hour" in told
    unknown = messages.missing_nodes(*arguments, {"failed": True})
    assert unknown.endswith(f"provision\nWhether AWS has terminated its nodes, says {RUN}info")
    unread = messages.missing_nodes(*arguments, {**info, "idle": None, "unread_ends": ["idle_after", "lease"]})
    reason = "Whether AWS has ended the nodes is not known, because this run is not allowed to read the lease and the end of idle nodes."
    assert unread.endswith(f"{RUN}provision\n{reason}")


EMR = {"id": "j-1", "ended": True, "reason": "Terminated: idle.", "end": "2026-12-01T18:00:00Z", "idle_seconds": 0}


@pytest.mark.parametrize(
    ("emr", "words"),
    [
        (EMR, "EMR cluster j-1 terminated at 2026-12-01 18:00 UTC: Terminated: idle. To create a new one, run "),
        ({**EMR, "end": None, "reason": ""}, "EMR cluster j-1 is terminating. To create a new one, run "),
        (None, "the cluster: "),
    ],
)
def test_why_an_emr_cluster_is_missing(emr, words):
    told = messages.missing_cluster("demo", "us-east-1", "emr", emr)
    assert told.startswith(f"Cluster demo has no {'nodes' if emr else 'resources'} in us-east-1. ")
    assert told.endswith(f"{words}{RUN}emr")
    info = {"resources": [], "lease": None, "idle": None, "price": None, "emr": emr, "unread_ends": []}
    assert messages.missing_nodes("demo", "us-east-1", [], "nodes.yml", "emr", info).endswith(f"{words}{RUN}emr")


@pytest.mark.parametrize("seconds", [0, 1800])
def test_an_emr_cluster_that_starts_is_no_missing_one(seconds):
    emr = {**EMR, "ended": False, "end": None, "idle_seconds": seconds}
    starts = " has no nodes in us-east-1. EMR cluster j-1 is starting. Run the playbook again in some minutes."
    assert messages.missing_cluster("demo", "us-east-1", "emr", emr) == f"Cluster demo{starts}"
    info = {"resources": [], "lease": None, "idle": None, "price": None, "emr": emr, "unread_ends": []}
    assert messages.missing_nodes("demo", "us-east-1", [], "nodes.yml", "emr", info) == f"cluster: 'demo'{starts}"


@pytest.mark.parametrize(
    ("seconds", "words"), [(1800, "EMR terminates the cluster when it has been idle for 30 min 0 s."), (0, messages.ENDLESS_EMR)]
)
def test_an_overview_says_when_emr_terminates_an_idle_cluster(seconds, words):
    told = messages.cluster_overview([], [], "ssh", None, emr={**EMR, "ended": False, "end": None, "idle_seconds": seconds})
    assert told == f"{words}\nThe cluster has no running nodes."


def test_a_prediction_of_an_emr_cluster_tells_each_charge_and_its_end():
    assert messages.emr_costs(PRICE, "").splitlines() == [*prices.lines(PRICE), messages.ENDLESS_EMR]
    assert messages.emr_costs(None, "30m").startswith("EMR terminates the cluster when it has been idle for 30m. Run deeplearning")


LEASE = {"end": "2026-12-01T18:00:00Z", "seconds": 7200.0, "former_end": None, "fixed": False, "longer": False}


@pytest.mark.usefixtures("now")
def test_the_end_of_the_lease_is_told_with_what_costs_money_afterwards():
    told = messages.running_nodes("demo", ["workers"], ["c5"], "", "", PRICE, LEASE)
    end = "AWS terminates the nodes at 2026-12-01 18:00 UTC, in 2 h 0 min, unless a run prolongs the lease."
    nat = [each["hourly"] for each in PRICE["charges"] if each["kind"] != "auto_scaling_group"]
    assert f"{end} The rest of the cluster then costs {prices.sums({**PRICE, 'hourly': sum(nat)})}. To delete" in told
    assert f"{end} To delete" in messages.running_nodes("demo", ["workers"], ["c5"], "", "", None, LEASE)
    ended = messages.cluster_overview([], [], "x", None, {**LEASE, "seconds": -5000.0})
    assert "The lease ended at 2026-12-01 18:00 UTC, and AWS has terminated the nodes." in ended
    late = messages.running_nodes("demo", ["workers"], ["c5"], "", "", None, {**LEASE, "seconds": -5000.0})
    assert "The lease ended at 2026-12-01 18:00 UTC, but AWS has not terminated the nodes. Look for denied calls" in late
    assert "in 2 h 0 min. To" in messages.running_nodes("demo", ["workers"], ["c5"], "", "", None, {**LEASE, "fixed": True})


def test_the_time_to_the_end_of_the_lease_is_that_after_the_job(monkeypatch, now):
    """The run has read the seconds before the job."""
    told = [messages.running_nodes("demo", ["workers"], ["c5"], "", "", None, LEASE)]
    for later in (3600, 7230):
        monkeypatch.setattr(messages.time, "time", lambda moment=now + later: moment)
        told.append(messages.running_nodes("demo", ["workers"], ["c5"], "", "", None, LEASE))
    assert "at 2026-12-01 18:00 UTC, in 2 h 0 min" in told[0]
    assert "at 2026-12-01 18:00 UTC, in 1 h 0 min" in told[1]
    assert "The lease ended at 2026-12-01 18:00 UTC, unless another run has prolonged it. To delete" in told[2]


@pytest.mark.parametrize(
    ("lease", "time_limit", "told"),
    [
        (None, 0, ""),
        (LEASE, 6600, ""),
        (LEASE, 6601, "in 2 h 0 min, before the time limit of the job (1 h 50 min). 10 minutes earlier"),
        (LEASE, 0, "deeplearning_lease: AWS terminates the nodes at 2026-12-01 18:00 UTC, in 2 h 0 min"),
        (LEASE, 0, "To prolong the lease, run the playbook configure when less than half is left."),
        ({**LEASE, "fixed": True, "longer": False}, 9000, "To prolong the lease, change it, and run the playbook provision."),
        (LEASE, 0, "in 2 h 0 min, and the job has no time limit. 10 minutes earlier"),
        (LEASE, 9000, "in 2 h 0 min, before the time limit of the job (2 h 30 min). 10 minutes earlier"),
    ],
)
def test_a_lease_that_may_end_before_the_job_is_told(lease, time_limit, told):
    found = messages.short_lease(lease, time_limit)
    assert (told in found, bool(found)) == (True, bool(told))


@pytest.mark.parametrize(
    ("max_cost", "time_limit", "told"),
    [
        (30, 0, ""),
        ("30", 9000, ""),
        (60, 0, "in 2 h 0 min, before training_job_max_cost stops the job (3 h 0 min). 10 minutes earlier"),
        (60, 9000, "before the time limit of the job (2 h 30 min)"),
        (0.01, 0, "and the job has no time limit"),
    ],
)
def test_the_maximum_cost_also_ends_a_job_before_the_lease(max_cost, time_limit, told):
    price = {**PRICE, "charges": [WORKERS]}
    found = messages.short_lease(LEASE, time_limit, max_cost=max_cost, price=price, hosts=2)
    assert (told in found, bool(found)) == (True, bool(told))


def instances(*tags):
    return [{"tags": {"deeplearning:cluster": tag}} for tag in tags]


@pytest.mark.parametrize(
    ("found", "known"),
    [
        (None, ""),
        (instances(), "No cluster has nodes in this region. "),
        (instances("b", "a", "b", "-", "A b", "x" * 31), "Clusters with nodes in this region: a, b. "),
        (
            instances(*(f"c{each:02}" for each in range(21))),
            f"Clusters with nodes in this region: {', '.join(f'c{n:02}' for n in range(20))}, and 1 more. ",
        ),
    ],
)
def test_a_missing_cluster_is_compared_with_the_existing_ones(found, known):
    told = messages.missing_nodes("demo", "us-east-1", found, "nodes.yml", "provision")
    advice = f"Correct cluster or region in nodes.yml, or create the cluster: {RUN}provision"
    assert told == f"cluster: 'demo' has no nodes in us-east-1. {known}{advice}"


def test_nodes_that_only_the_inventory_lacks_are_no_missing_nodes():
    told = messages.missing_nodes("demo", "us-east-1", instances("b", "demo"), "nodes.yml", "provision")
    assert told.startswith("cluster: 'demo' has running instances in us-east-1 that the inventory does not contain.")


@pytest.mark.parametrize(
    ("authority", "why"),
    [
        (
            {"public_keys": [], "parameter": "/p"},
            f"the public key of the SSH certificate authority is not in Parameter Store (/p). Run {RUN}configure",
        ),
        ({"msg": "Denied."}, "it cannot read the public key of the SSH certificate authority: Denied. Allow ssm:GetParameter"),
        ({}, "it cannot read the public key of the SSH certificate authority: no reason given. Allow ssm:GetParameter"),
    ],
)
def test_a_controller_says_why_it_cannot_verify_nodes(authority, why):
    told = messages.unverified_nodes("demo", ["m", "w"], authority)
    assert told.startswith(f"Cluster demo: this controller cannot verify m, w, because {why}")
    assert told.endswith(f"{RUN}configure")


def node(number, instance_type, public_ip=None):
    name = f"demo-{number}"
    return {
        "name": name,
        "instance_id": f"i-{number}",
        "instance_type": instance_type,
        "zone": "1a",
        "private_ip": "a",
        "group": "workers",
        "launched_at": 0.0,
        "public_ip": public_ip,
    }


@pytest.mark.parametrize("price", [PRICE, None])
def test_an_overview_lists_what_costs_money(price):
    found = [
        {"kind": "nat_gateway", "key": "main", "id": "nat-1", "billed": "NAT gateway main"},
        {"kind": "nodes", "key": "n", "id": "n", "billed": ""},
        {"kind": "auto_scaling_group", "key": "workers", "id": "g", "billed": "", "properties": {"tags": {}}},
    ]
    told = messages.cluster_overview([node(1, "p5", "192.0.2.1"), node(2, "c5"), node(3, "c5")], found, "ssh demo-1", price).splitlines()
    assert [line.split() for line in told[:4]] == [
        ["demo-1", "i-1", "p5", "1a", "a", "192.0.2.1"],
        ["demo-2", "i-2", "c5", "1a", "a"],
        ["demo-3", "i-3", "c5", "1a", "a"],
        ["nat_gateway", "main", "nat-1"],
    ]
    assert told[5].startswith("AWS charges for these resources")
    assert told[6:] == [*(prices.lines(PRICE) if price else ["  NAT gateway main"]), ENDLESS, "To log in to the master, run ssh demo-1"]


@pytest.mark.parametrize(
    ("lease", "idle", "unread", "is_endless"),
    [
        (None, NOTIFY, [], True),
        (LEASE, NOTIFY, [], False),
        (None, NOTIFY, ["lease"], False),
        (LEASE, None, ["idle_after"], False),
        (None, IDLE, [], False),
        (None, None, ["idle_after"], False),
    ],
)
def test_notifications_about_idle_nodes_do_not_end_them(lease, idle, unread, is_endless):
    group = {"kind": "auto_scaling_group", "key": "workers", "id": "g", "billed": "", "properties": {}}
    told = messages.cluster_overview([node(1, "c5")], [group], "x", None, lease, idle, None, [], unread)
    assert (endless(None, NOTIFY) in told, "Nothing ends" in told) == (is_endless, is_endless)
    assert "Nothing ends" not in messages.cluster_overview([], [group], "x", None, None, idle)


@pytest.mark.usefixtures("now")
def test_an_overview_says_when_the_lease_ends_and_what_then_costs_money():
    told = messages.cluster_overview([node(1, "c5")], [], "x", PRICE, LEASE, None).splitlines()
    end = "AWS terminates the nodes at 2026-12-01 18:00 UTC, in 2 h 0 min, unless a run prolongs the lease."
    assert f"{end} The rest of the cluster then costs {prices.sums(PRICE)}." in told


def test_an_overview_says_what_is_incomplete():
    group = {"kind": "auto_scaling_group", "key": "workers", "id": "g", "billed": "", "properties": {}}
    told = messages.cluster_overview([node(1, "c5")], [group], "x", None, None, None, None, ["lease", "idle_after"]).splitlines()
    assert told[2:4] == [
        "Parts of the lease and the end of idle nodes are missing, so AWS does not end the nodes with them. To complete them, or to "
        f"remove the rest, run {RUN}provision",
        endless(None, None),
    ]


@pytest.mark.usefixtures("now")
@pytest.mark.parametrize(("lease", "idle"), [(LEASE, None), (None, IDLE)])
def test_an_overview_says_that_somebody_has_deleted_the_groups(lease, idle):
    told = messages.cluster_overview([], [], "x", None, lease, idle)
    deleted = "The cluster has no running nodes. Its Auto Scaling groups have been deleted. To launch the nodes again, run "
    assert told == f"{deleted}{RUN}provision"
    group = {"kind": "auto_scaling_group", "key": "workers", "id": "g", "billed": "", "properties": {}}
    assert "AWS terminates the nodes" in messages.cluster_overview([], [group], "x", None, lease, idle)


def test_an_overview_without_nodes_says_so():
    free = [{"kind": "vpc", "key": "main", "id": "vpc-1", "billed": ""}]
    assert [line.split() for line in messages.cluster_overview([], free, "x", {**PRICE, "charges": []}).splitlines()] == [
        ["vpc", "main", "vpc-1"],
        ["The", "cluster", "has", "no", "running", "nodes."],
    ]


@pytest.mark.parametrize(
    ("others", "is_removed", "expected"),
    [
        (["w2", "w3"], False, "Log in with ssh m, or use the name of another node: w2, w3."),
        ([], False, "Log in with ssh m."),
        (["w2"], True, "ssh no longer reads /c."),
    ],
)
def test_the_ssh_configuration_tells_how_to_log_in(others, is_removed, expected):
    assert messages.ssh_configuration("/c", "ssh m", others, is_removed) == expected


@pytest.mark.parametrize(
    ("is_listed", "problem", "why"),
    [(True, "bad", "ssh_trust_revoked contains it"), (False, "its keys differ", "its keys differ"), (False, "", "it has left the cluster")],
)
def test_a_revoked_host_has_a_reason(is_listed, problem, why):
    told = messages.revoked_host("w2", "i-1", is_listed, problem)
    assert told.startswith(f"w2: instance i-1 is revoked, because {why}. Other hosts refuse its connections. Terminate the instance")
    assert told.endswith("--instance-id i-1")


@pytest.mark.parametrize(
    ("excluded", "included", "reason", "expected"),
    [
        ([], [], "", ""),
        (["a"], ["b"], "slow", ""),
        (
            ["z", "a"],
            ["y", "z"],
            "",
            "node_health_exclude, node_health_include: not reachable or not in the inventory: z, y. Use the names of nodes: a, b.",
        ),
        (["a", "b"], [], " ", "node_health_reason: missing. Say why jobs must not use a, b."),
        (
            ["a"],
            ["a"],
            "x",
            "node_health_include: contains a node that is also in node_health_exclude. Remove the node from one of these variables.",
        ),
    ],
)
def test_nodes_to_exclude_must_exist_and_have_a_reason(excluded, included, reason, expected):
    assert messages.exclusion_problem(excluded, included, reason, ["a", "b"]) == expected


@pytest.mark.parametrize(
    ("nodes", "kept", "own_disk", "expected", "question"),
    [
        (["m", "w"], ["fs-1"], "", ["m, w", "fs-1, with all data (continues to cost money)"], "Delete cluster demo?"),
        ([], [], "", ["none", "nothing"], "Delete cluster demo, with all its data?"),
        (["m"], ["fs-1"], "/j", ["m", "fs-1, with all data (continues to cost money)"], "Delete cluster demo, with all its data?"),
    ],
)
def test_a_deletion_shows_what_goes_and_what_stays(nodes, kept, own_disk, expected, question):
    changes = [{"action": "delete", "kind": kind, "key": "main"} for kind in ("nat_gateway", "vpc")]
    lost = ["  to be lost     the jobs in /j on the master's own disk"] if own_disk else []
    assert messages.deletion("demo", "us-east-1", nodes, changes, kept, own_disk).splitlines() == [
        "Cluster demo in us-east-1:",
        f"  running nodes  {expected[0]}",
        "  to delete",
        "    - NAT gateway main",
        "    - VPC main",
        *lost,
        f"  to keep        {expected[1]}",
    ]
    assert messages.deletion_question("demo", kept, own_disk) == question


@pytest.mark.parametrize(
    ("kept", "own_disk", "expected"),
    [
        ([], "", "Deleting the cluster keeps no file system. S3 buckets are always kept."),
        (
            ["fs-1"],
            "",
            "Deleting the cluster keeps fs-1 and all data. Kept file systems continue to cost money. S3 buckets are always kept. To "
            "delete it as well, add -e deeplearning_delete_data=true",
        ),
        (
            ["fs-1", "fs-2"],
            "/j",
            "Deleting the cluster keeps fs-1, fs-2 and all data. Kept file systems continue to cost money. The jobs in /j on the "
            "master's own disk would be lost. S3 buckets are always kept. To delete them as well, add -e deeplearning_delete_data=true",
        ),
    ],
)
def test_check_mode_says_what_a_deletion_would_keep(kept, own_disk, expected):
    assert messages.planned_deletion("demo", "us-east-1", True, kept, own_disk) == expected


@pytest.mark.parametrize(
    ("kept", "leftovers", "price", "expected"),
    [
        ([], [], {**PRICE, "hourly": 0}, "No resources of cluster demo remain in us-east-1."),
        ([], ["subnet-1"], None, "Resources that remain in AWS: subnet-1."),
        (
            ["fs-1"],
            [],
            PRICE,
            "Kept, with all data: fs-1, which continues to cost 2.00 USD per hour (48.00 USD per day), without traffic and taxes. "
            f"To delete it as well, run {RUN}destroy -e deeplearning_delete_data=true",
        ),
        (
            ["fs-1"],
            [],
            {**PRICE, "hourly": 0},
            f"Kept, with all data: fs-1, which continues to cost money. To delete it as well, run {RUN}destroy -e "
            f"deeplearning_delete_data=true",
        ),
        (
            ["fs-1", "fs-2"],
            ["subnet-1"],
            PRICE,
            "Resources that remain in AWS: subnet-1. Kept, with all data: fs-1, fs-2, which continue to cost money. To delete them as "
            f"well, run {RUN}destroy -e deeplearning_delete_data=true",
        ),
    ],
)
def test_a_deletion_says_what_remains_and_what_it_costs(kept, leftovers, price, expected):
    """The price of leftovers is not that of what was kept, and what AWS has not measured yet has no price."""
    assert messages.remaining_resources("demo", "us-east-1", True, kept, leftovers, price) == expected


def test_a_deletion_that_finds_nothing_names_the_region():
    """If the region is wrong, the cluster still costs money elsewhere."""
    nothing = "Cluster demo has no resources in eu-west-1, so there is nothing to delete. Check the cluster and the region in the inventory"
    assert messages.planned_deletion("demo", "eu-west-1", False, [], "") == f"{nothing}."
    assert messages.remaining_resources("demo", "eu-west-1", False, [], [], None) == f"{nothing}."
    assert "Kept, with all data: fs-1" in messages.remaining_resources("demo", "eu-west-1", False, ["fs-1"], [], PRICE)


@pytest.mark.parametrize(("reason", "shown"), [("Task failed: no access. \n", ": no access"), ("no access", ": no access"), ("", "")])
def test_nodes_stay_if_their_jobs_cannot_be_listed(reason, shown):
    told = messages.unlisted_jobs(["a", "b"], "m", reason)
    assert told.startswith(f"This run would terminate a, b, but m cannot list the running jobs{shown}. If the cluster has not been")
    assert told.endswith(f"run {RUN}configure first.{IGNORE}")


@pytest.mark.parametrize(
    ("silent", "is_requested", "why"),
    [
        (["a"], True, "deeplearning_ignore_running_jobs is true."),
        ([], False, "no job is running on these nodes, according to systemd."),
        (["a"], False, "cluster demo has never been configured: it has no SSH certificate authority."),
    ],
)
def test_a_run_says_why_it_ignores_jobs(silent, is_requested, why):
    told = messages.ignored_jobs(["a", "b"], "m", "demo", silent, is_requested)
    assert told == f"This run terminates a, b without listing the running jobs through m, because {why}"


@pytest.mark.parametrize(
    ("silent", "unless"),
    [
        ([], ""),
        (["a"], ", unless a job with damaged files is running only on a, which does not answer"),
        (["a", "b"], ", unless a job with damaged files is running only on a, b, which do not answer"),
    ],
)
def test_damaged_files_matter_only_for_silent_nodes(silent, unless):
    told = messages.damaged_jobs(["x is bad.", "y is bad."], silent)
    assert told == f"Damaged files of jobs were skipped. They do not affect this run{unless}. x is bad. y is bad."


JOBS = [{"name": "a", "words": "a runs on w2"}, {"name": "b", "words": "b is starting"}]


@pytest.mark.parametrize(
    ("jobs", "destroying", "replacing", "kept", "expected"),
    [
        (JOBS[:1], True, False, "", ("Cluster demo cannot be destroyed while a runs on w2. Wait until the job ends, or run ", "it")),
        (JOBS[:1], False, True, "", ("Nodes cannot be replaced while a runs on w2. Wait until the job ends, or run ", "it")),
        (
            JOBS[:1],
            False,
            False,
            "",
            ("Nodes cannot be removed while a runs on w2. Wait until the job ends, keep the number of workers, or run ", "it"),
        ),
        (
            JOBS,
            False,
            False,
            "3",
            (
                "Nodes cannot be removed while a runs on w2 and b is starting. Wait until the jobs end, keep the number of workers with -e "
                "deeplearning_worker_count=3, or run ",
                "the first one, and stop the others in the same way",
            ),
        ),
    ],
)
def test_jobs_keep_their_nodes(jobs, destroying, replacing, kept, expected):
    told = messages.jobs_in_the_way(jobs, "demo", destroying, replacing, kept)
    assert told == f"{expected[0]}{RUN}stop -e training_job_name=a to stop {expected[1]}.{IGNORE}"


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (
            {"jobs": ["5"]},
            "Slurm job 5 is running on nodes that this run would terminate. These nodes are drained, so no new job starts there. Wait "
            f"until the job ends and run the playbook again, or keep the nodes and resume them with {RUN}slurm\n",
        ),
        (
            {"jobs": ["5", "6"]},
            "Slurm jobs 5, 6 are running on nodes that this run would terminate. These nodes are drained, so no new job starts there. "
            f"Wait until the jobs end and run the playbook again, or keep the nodes and resume them with {RUN}slurm\n",
        ),
        ({"msg": "No slurmctld."}, "This run would terminate a, b, but m cannot drain them in the queue of Slurm: No slurmctld. "),
        ({"jobs": []}, "This run would terminate a, b, but m cannot drain them in the queue of Slurm: no reason given. "),
    ],
)
def test_jobs_of_a_queue_keep_their_nodes(result, expected):
    assert messages.running_queue("Slurm", result, ["a", "b"], "m") == expected + IGNORE[1:]


@pytest.mark.parametrize(
    ("going", "workers", "kept", "predicted", "expected"),
    [
        (["a"], 0, "", False, "This run terminates a, and the data on its disk is lost."),
        (
            ["a", "b"],
            1,
            "3",
            True,
            "This run would terminate a, b, and the data on their disks is lost, because the definition has 1 worker. To keep all nodes, "
            "use -e deeplearning_worker_count=3.",
        ),
        (
            ["a"],
            2,
            "0",
            False,
            "This run terminates a, and the data on its disk is lost, because the definition has 2 workers. To keep all nodes, use -e "
            "deeplearning_worker_count=0.",
        ),
    ],
)
def test_a_run_names_the_nodes_that_it_terminates(going, workers, kept, predicted, expected):
    assert messages.terminated_nodes(going, workers, kept, predicted) == expected


def health_report(findings, unreachable=(), exclusions=(), jobs=None):
    return messages.health_report(findings, {}, "us-east-1", unreachable, dict(exclusions), jobs)


def test_healthy_nodes_have_a_report_without_advice():
    assert health_report({"c-1": []}) == "The node is healthy."


def test_a_report_of_unhealthy_and_unreachable_nodes_has_advice():
    finding = {"check": "disks", "severity": "restart", "message": "/: full."}
    assert health_report({"c-1": [finding], "c-2": []}, ["c-3"], jobs=[{"name": "a", "words": "a runs on c-3"}]) == (
        "restart  c-1: disks: /: full.\n"
        "c-3: not checked, because of the error above. Job a runs on c-3.\n1 of 3 nodes are healthy.\n"
        "Correct the cause on c-1, and then restart the jobs there.\nA job can run on an unreachable node. If you cannot reach "
        "c-3 again, replace it. Replace c-3, or run jobs without it (training_job_hosts)."
    )


def test_exclusions_are_shown_with_the_way_to_end_them():
    person = {"by": "person", "text": "since 2026-11-25 10:15 UTC by a person: bad cable."}
    check = {"by": "xid", "text": "since 2026-11-25 10:16 UTC by the check xid: Xid 79.\n\x1b[31m"}
    report = health_report({"c-1": [], "c-2": [], "c-3": []}, exclusions={"c-1": [person, check], "c-2": [], "c-3": [check]})
    assert report.splitlines() == [
        "All 3 nodes are healthy.",
        "excluded c-1: since 2026-11-25 10:15 UTC by a person: bad cable.",
        "excluded c-1: since 2026-11-25 10:16 UTC by the check xid: Xid 79.",
        "excluded c-3: since 2026-11-25 10:16 UTC by the check xid: Xid 79.",
        "To let jobs use c-1 again, run: ansible-playbook deeplearning.cluster.health -e node_health_include=c-1",
        "Jobs use c-1, c-3 again when the check that has excluded the node passes. After an Xid error, this requires a reboot.",
    ]


def test_another_service_has_its_own_playbook():
    told = messages.unmanaged_nodes("demo", "emr")
    assert told.startswith("node_service: this playbook does not manage the nodes of cluster demo, because the inventory specifies emr.")
    assert told.endswith(f"run {RUN}emr -e deeplearning_state=absent")
    assert messages.unvalidated_nodes("emr").endswith(
        f"the inventory specifies emr. To check the definition of these nodes and to see their price, run {RUN}emr --check"
    )


@pytest.mark.parametrize(("price", "costs"), [(PRICE, "The cluster costs 2.00 USD per hour (48.00 USD per day)"), (None, "To log in")])
def test_a_running_emr_cluster_costs_money(price, costs):
    told = messages.running_emr_cluster("demo", "us-east-1", "j-1", price)
    assert told.startswith(f"EMR cluster demo (j-1) keeps running and costs money, whether or not a step is running. {costs}")
    assert "run aws emr ssh --region us-east-1 --cluster-id j-1 --key-pair-file FILE. To terminate" in told
    assert told.endswith(f"run {RUN}emr -e deeplearning_state=absent")


def test_an_emr_cluster_that_does_not_run_is_not_terminated():
    told = messages.absent_emr_cluster("demo", "us-east-1")
    assert told.startswith("Cluster demo has no running EMR cluster in us-east-1, so there is nothing to terminate.")


def test_a_controller_that_has_not_configured_a_cluster_has_no_ssh_configuration():
    told = "/s/config does not exist: this controller has not configured cluster demo yet."
    assert messages.missing_ssh_configuration("/s/config", "demo") == f"{told} Run {RUN}configure first."


def test_clusters_of_the_same_name_in_other_regions_are_told():
    told = messages.clusters_elsewhere("demo", "us-east-1", ["eu-west-1", "us-west-2"])
    assert told.startswith(
        "Cluster demo has no nodes in us-east-1, but this controller has configured a cluster with this name in eu-west-1, us-west-2."
    )


@pytest.mark.parametrize(("count", "logs"), [(1, "1 log"), (3, "3 logs")])
def test_the_logs_of_a_node_are_counted(count, logs):
    assert messages.uploaded_logs(count, "s3://b/p") == f"{logs} uploaded to s3://b/p"


def test_without_a_region_the_missing_nodes_are_in_none():
    told = messages.missing_nodes("demo", "", None, "", "provision", {"msg": "denied"})
    assert told.startswith("cluster: 'demo' has no nodes in (no region). Correct cluster or region in the inventory, or create the cluster")
