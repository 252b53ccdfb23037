"""The life cycle of a cluster: from an empty account to a trained model on three hosts, and back to an empty account.

The tests build on each other.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from .conftest import INVENTORY, REPOSITORY

HOSTS = {"demo-master", "demo-worker2", "demo-worker3"}
BUDGET = yaml.safe_load(Path(__file__).with_name("budget.yml").read_text())
AUTHORITY = "/deeplearning/demo/ssh-authority"
TRUST = "deeplearning.cluster.ssh_trust : Trust the cluster's certificate authority"
CONCISE = "deeplearning.cluster.concise"
ENDLESS = "import time\nprint('running', flush=True)\nwhile True:\n    time.sleep(1)\n"
FAILS_ON_RANK_1 = """
import os, sys, time
if os.environ["RANK"] == "1":
    print("rank one is out of luck", flush=True)
    sys.exit(7)
time.sleep(600)
"""


# Only rank 1 exits by itself, when it can no longer reach worker 3
LOSES_WORKER_3 = """
import os, socket, sys, time
connected = False
while True:
    if os.environ["DEEPLEARNING_RANK"] == "1":
        try:
            socket.create_connection(("demo-worker3", 22), timeout=2).close()
            if not connected:
                print("connected", flush=True)
            connected = True
        except OSError as error:
            if connected:
                sys.exit(f"lost the connection: {error}")
    time.sleep(0.5)
"""


def instance_of(cloud, number):
    """Return the IDs of the running instances that have this node number in the cluster `demo`."""
    filters = {"tag:deeplearning:cluster": ["demo"], "tag:deeplearning:number": [str(number)], "instance-state-name": ["running"]}
    found = cloud.client("ec2").describe_instances(Filters=[{"Name": name, "Values": values} for name, values in filters.items()])
    return [instance["InstanceId"] for reservation in found["Reservations"] for instance in reservation["Instances"]]


def planned(output):
    """Return the changes that --diff shows, each with action, kind and key."""
    return set(re.findall(r"^\+\+\+ after: ((?:create|update|delete) \S+ \S+)$", output, re.MULTILINE))


def changed_by_task(output):
    """Return the hosts that each task changed."""
    result, task = {}, ""
    for line in output.splitlines():
        if line.startswith("TASK ["):
            task = line.split("[", 1)[1].rsplit("]", 1)[0]
        elif line.startswith("changed: ["):
            result.setdefault(task, set()).add(re.split(r"[\] ]", line[len("changed: [") :])[0])
    return result


def job_directory(output):
    return re.search(r"^\s+results\s+(\S+) \(code, logs, checkpoints, tensorboard\)$", output, re.MULTILINE).group(1)


@pytest.fixture(scope="module")
def predicted(playbook):
    return planned(playbook("provision.yml", "--check", "--diff").output)


@pytest.fixture(scope="module")
def first_run(predicted, playbook):
    return playbook("train.yml", "--diff", "-e", "training_job_max_cost=50").output


def test_prediction_on_an_empty_account_is_what_a_run_applies(predicted, first_run):
    assert len(predicted) == 24
    assert planned(first_run) == predicted


def test_first_run_trains_on_three_hosts(first_run, on_master):
    limit = r"training_job_max_cost: 50\.00 USD for 3 nodes at 0\.348 USD per hour at prices of .{10}, so the job is stopped after 143 h "
    assert re.search(limit, " ".join(first_run.split()))
    assert "succeeded after" in first_run
    assert "hosts        3 (demo-master, demo-worker2, demo-worker3)" in first_run
    steps = re.findall(r"step (\d+)/600, epoch \d+, loss [\d.e-]+, accuracy ([\d.]+)", first_run)
    assert len(steps) > 1, "no progress was shown"
    assert float(steps[-1][1]) >= 0.95
    end = re.sub(r"\s+", " ", first_run[first_run.index("succeeded after") :])
    assert "3 nodes of cluster demo keep running (c5.large) and cost money. The cluster costs 0.388 USD per hour" in end
    directory = job_directory(first_run)
    log = on_master(f"cat {directory}/logs/*.log")
    shares = re.findall(r"rank (\d) of 3 on (\S+) \(cpu\): (\d+) of 1437 images", log)
    assert sorted(rank for rank, _host, _share in shares) == ["0", "1", "2"]
    assert len({host for _rank, host, _share in shares}) == 3
    assert on_master(f"ls {directory}/checkpoints {directory}/tensorboard").count("events.out.tfevents") == 1


def test_the_report_and_the_events_tell_what_the_job_has_cost(first_run, playbook, on_master, cloud, tmp_path):
    cost = r"<th scope=\"row\">cost</th><td>0\.\d{3,4} USD for \d+\.\d node-minutes of 3 nodes, at 0\.\d{3} USD per hour"
    written = on_master(f"cat {job_directory(first_run)}/report.html")
    assert re.search(f"{cost}\\. AWS tells", written)
    cloud.control.forget_calls()
    playbook("report.yml", "-e", f"training_job_report_directory={tmp_path}")
    calls = {call["action"] for call in cloud.control.calls() if call["service"] != "iam"}  # IAM creates the operator
    assert calls <= {"DescribeInstances", "DescribeAutoScalingGroups", "GetCallerIdentity"}
    (page,) = tmp_path.glob("*.html")
    assert re.search(f"{cost} without volumes\\. AWS tells", page.read_text())
    page.write_text(written)
    playbook("report.yml", "-e", f"training_job_report_directory={tmp_path}")
    assert re.search(f"{cost}\\. AWS tells", page.read_text()), "the price of train is not forgotten"
    told = playbook("events.yml", "-e", f"deeplearning_events_file={tmp_path}/events.csv").output
    # Other tests may have had nodes in a cluster with this name
    launched = re.findall(r"node demo-(?:master|worker\d+) \((i-\w+)\) launched, \+0\.100 USD per hour", told)
    assert {instance for number in (1, 2, 3) for instance in instance_of(cloud, number)} <= set(launched)
    assert re.search(r"CreateAutoScalingGroup demo-workers, by arn:aws:iam::123456789012:user/demo-train", told)
    assert re.search(r"reported by demo-master: job train-\S+: started on 3 hosts", told)
    (total,) = re.findall(r"Since .* UTC, \d+ nodes ran for [\d,.]+ node-\w+ and cost ([\d,.]+) USD", " ".join(told.split()))
    assert float(total.replace(",", "")) > 0
    assert "reported by demo-master" in (tmp_path / "events.csv").read_text()


def test_nothing_is_done_twice_and_few_lines_say_so(first_run, playbook, cloud, tmp_path):
    counting = {
        "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).with_name("callback")),
        "ANSIBLE_CALLBACKS_ENABLED": "started_tasks",
        "STARTED_TASKS": str(tmp_path / "tasks.json"),
    }
    cloud.control.forget_calls()
    output = playbook("train.yml", "-e", '{"training_job_arguments": ["--epochs", "2"]}', callback=CONCISE, settings=counting).output
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert set(tasks) == set(BUDGET["tasks"])
    assert {host: names for host, names in tasks.items() if len(names) > BUDGET["tasks"][host]} == {}
    # Prices of AWS's own endpoint would be kept for a week (tests/integration/test_prices.py)
    calls = [call["action"] for call in cloud.control.calls() if call["service"] != "pricing"]
    assert len(calls) <= BUDGET["requests"], sorted(calls)
    assert not [call["action"] for call in cloud.control.calls() if not call["read_only"]]
    assert "Provision the cluster\n  Nothing to change.\n" in output
    changed = set(re.findall(r"^  (.*): changed", output, re.MULTILINE))
    assert changed == {"Check the hosts and copy the code", "Start the job"}
    closing = output[output.index("  job train-") :]
    for part in ("    results      /efs/jobs/train-", "the report is at", "ssh -F", "cost money", "Done in"):
        assert part in closing
    assert len([line for line in closing.splitlines() if not re.search(r", \d+ s$", line)]) <= 10, "without tasks that took seconds"
    assert "  hosts        3 (demo-master, demo-worker2, demo-worker3)" in output
    assert "DEPRECATION" not in output
    assert "[WARNING]" not in output
    assert len(output.splitlines()) <= 40
    assert playbook("provision.yml", "--check", "--diff").recap["localhost"]["changed"] == 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("cause", ["a host lacks something", "the controller forgets it"])
def test_a_new_authority_comes_to_every_host(first_run, playbook, on_master, cloud, cause):
    """As long as all hosts trust the SSH certificate authority that the controller knows, the authority in AWS is not read."""
    ssm = cloud.client("ssm")
    known = ssm.get_parameter(Name=AUTHORITY, WithDecryption=True)["Parameter"]["Value"]
    ssm.delete_parameter(Name=AUTHORITY)
    assert not changed_by_task(playbook("configure.yml").output)
    if cause == "a host lacks something":
        on_master("sudo rm /etc/ssh/deeplearning/user_ed25519-cert.pub")
    else:
        known_hosts = Path(cloud.environment["LOCAL_CLOUD_HOME"]) / "ssh" / "demo" / "known_hosts"
        lines = known_hosts.read_text().splitlines(keepends=True)
        known_hosts.write_text("".join(line for line in lines if not line.startswith("@cert-authority")))
    assert changed_by_task(playbook("configure.yml").output)[TRUST] == HOSTS
    assert ssm.get_parameter(Name=AUTHORITY, WithDecryption=True)["Parameter"]["Value"] != known
    assert on_master("ssh -o BatchMode=yes -o StrictHostKeyChecking=yes deeplearning-worker2 echo trusted").strip() == "trusted"
    assert on_master("hostname; ssh -o BatchMode=yes demo-worker2 hostname").split() == ["demo-master", "demo-worker2"]
    assert not changed_by_task(playbook("configure.yml").output)


def test_contract_of_the_original_stacks(first_run, on_master):
    for strict in ("no", "yes"):
        script = (
            f'while read -u 10 host; do ssh -o "StrictHostKeyChecking {strict}" $host "hostname -I"; done 10<$DEEPLEARNING_WORKERS_PATH'
        )
        assert len(set(on_master(script).split())) == 3
    assert on_master("cat $DEEPLEARNING_WORKERS_PATH").split() == [f"deeplearning-worker{number}" for number in (1, 2, 3)]
    assert on_master("echo $DEEPLEARNING_WORKERS_COUNT").strip() == "3"
    assert on_master("DEEPLEARNING_WORKER_GPU_COUNT=4; echo $(seq -s , 0 1 $(($DEEPLEARNING_WORKER_GPU_COUNT - 1)))").strip() == "0,1,2,3"
    assert on_master("seq -s , 0 1 $(($DEEPLEARNING_WORKER_GPU_COUNT - 1))").strip() == ""
    assert on_master("touch $EFS_MOUNT/seen && ssh demo-worker2 \"bash -lc 'ls \\$EFS_MOUNT/seen'\"").strip() == "/efs/seen"


def test_aws_tools_see_the_same_cluster(first_run, cloud, network):
    def aws(*command):
        finished = subprocess.run(["aws", *command, "--output", "json"], env=cloud.environment, capture_output=True, text=True, check=True)
        return json.loads(finished.stdout)

    mine = ["--filters", "Name=tag:deeplearning:cluster,Values=demo"]
    assert [vpc["CidrBlock"] for vpc in aws("ec2", "describe-vpcs", *mine)["Vpcs"]] == [network]
    assert len(aws("ec2", "describe-subnets", *mine)["Subnets"]) == 2
    assert len(aws("ec2", "describe-security-groups", *mine)["SecurityGroups"]) == 3
    routes = {
        next(tag["Value"] for tag in table["Tags"] if tag["Key"] == "deeplearning:key"): table["Routes"]
        for table in aws("ec2", "describe-route-tables", *mine)["RouteTables"]
    }
    assert any(route.get("NatGatewayId") for route in routes["private"])
    assert any(str(route.get("GatewayId")).startswith("igw-") for route in routes["public"])
    running = [*mine, "Name=instance-state-name,Values=running"]
    assert sum(len(item["Instances"]) for item in aws("ec2", "describe-instances", *running)["Reservations"]) == 3
    groups = aws("autoscaling", "describe-auto-scaling-groups", *mine)["AutoScalingGroups"]
    assert {group["AutoScalingGroupName"]: len(group["Instances"]) for group in groups} == {"demo-master": 1, "demo-workers": 2}
    owner = {"Key": "deeplearning:cluster", "Value": "demo"}
    (file_system,) = [item for item in aws("efs", "describe-file-systems")["FileSystems"] if owner in item["Tags"]]
    assert (file_system["Encrypted"], file_system["NumberOfMountTargets"]) == (True, 1)


@pytest.mark.exhaustive
def test_a_node_lists_the_nodes_with_its_own_role(first_run, on_master):
    groups = on_master(
        "aws --region us-east-1 autoscaling describe-auto-scaling-groups --query 'AutoScalingGroups[].AutoScalingGroupName' --output text"
    )
    assert {"demo-master", "demo-workers"} <= set(groups.split())
    named = "'Reservations[].Instances[].PrivateIpAddress'"
    addresses = on_master(f"aws --region us-east-1 ec2 describe-instances --query {named} --output text").split()
    own = on_master("hostname -I").split()
    assert set(own) & set(addresses)


@pytest.mark.exhaustive
def test_a_failing_rank_ends_the_job_with_its_last_words(first_run, playbook, tmp_path):
    (tmp_path / "fails.py").write_text(FAILS_ON_RANK_1)
    failed = playbook(
        "train.yml",
        "-e",
        f'{{"training_job_source": "", "training_job_script": "{tmp_path}/fails.py", "training_job_arguments": []}}',
        status=2,
        callback=CONCISE,
    )
    before, failure = failed.output.split("  FAILED: Report the failure of the job\n")
    assert "rank one is out of luck" in failure
    assert re.search(r"ansible-playbook -i \S+ deeplearning\.cluster\.logs -e training_job_name=", failure)
    assert "The job has completed no checkpoint, so it cannot be continued." in failure
    assert "demo-worker2" in failure
    assert len(failure.splitlines()) < 25
    lines = [line for line in [*before.splitlines(), *failure.splitlines()] if line]
    assert len(set(lines)) == len(lines)


def test_a_script_that_does_not_exist_is_refused(first_run, playbook):
    failed = playbook("train.yml", "-e", "training_job_script=nowhere.py", status=2)
    assert "script: 'nowhere.py' is not a file" in failed.output


@pytest.mark.exhaustive
def test_stop_ends_the_job_on_every_host(first_run, playbook, on_master, tmp_path):
    (tmp_path / "endless.py").write_text(ENDLESS)
    job = {
        "training_job_source": "",
        "training_job_script": str(tmp_path / "endless.py"),
        "training_job_arguments": [],
        "training_job_name": "endless",
        "training_job_wait": False,
    }
    playbook("train.yml", "-e", json.dumps(job))
    # The brackets prevent pgrep -f from matching its own shell
    on_all = "while read -u 10 host; do ssh $host 'pgrep -f [e]ndless.py | wc -l'; done 10<$DEEPLEARNING_WORKERS_PATH"
    deadline = time.monotonic() + 300
    while "0" in on_master(on_all).split():
        assert time.monotonic() < deadline, "the job never ran everywhere"
    assert "endless running" in playbook("status.yml").output
    predicted = " ".join(playbook("train.yml", "--check", "-e", json.dumps(job)).output.split())
    assert "Job endless has already started, so this run would start nothing." in predicted
    assert "would start these processes" not in predicted
    refused = playbook("provision.yml", "-e", "deeplearning_replace_nodes=true", "-e", "deeplearning_root_volume_size=120", status=2)
    assert "Nodes cannot be replaced while endless runs" in refused.output
    for mode in (["--check"], []):
        refused = playbook("provision.yml", "-e", "deeplearning_worker_count=1", *mode, status=2)
        assert "Nodes cannot be removed while endless runs on demo-worker3." in refused.output
    assert "Cluster demo cannot be destroyed while endless runs on demo-master" in playbook("destroy.yml", status=2).output
    assert "0" not in on_master(on_all).split()
    watched = playbook("train.yml", "-e", json.dumps({**job, "deeplearning_root_volume_size": 120}))
    assert "These changes are deferred." in " ".join(watched.output.split()), "a job that has started keeps its nodes"
    playbook("stop.yml", "-e", "training_job_name=endless")
    assert set(on_master(on_all).split()) == {"0"}
    assert "endless running" not in playbook("status.yml").output
    assert playbook("provision.yml", "-e", "deeplearning_worker_count=1", "--check").recap["localhost"]["changed"] == 1


@pytest.mark.exhaustive
def test_workers_come_and_go(first_run, playbook, on_master):
    grown = playbook("provision.yml", "-e", "deeplearning_worker_count=3").recap
    assert grown["localhost"]["changed"] == 1
    checked = playbook("train.yml", "--check", "-e", "deeplearning_worker_count=3")
    assert checked.recap["demo-worker4"]["changed"] > 0
    assert "cannot be predicted, because a host is not ready" in " ".join(checked.output.split())
    configured = playbook("configure.yml")
    trusted = changed_by_task(configured.output)["deeplearning.cluster.ssh_trust : Trust the cluster's certificate authority"]
    assert trusted == {"demo-worker4"}
    told = next(hosts for task, hosts in changed_by_task(configured.output).items() if "worker metadata" in task)
    assert told == {*HOSTS, "demo-worker4"}
    predicted = playbook("train.yml", "--check", "-e", "deeplearning_worker_count=3")
    assert set(re.findall(r"rank\d on (demo-\w+): \S+/python -m torch.distributed.run", predicted.output)) == {*HOSTS, "demo-worker4"}
    assert all(counts["changed"] == 0 for counts in predicted.recap.values()), "showing the processes changes nothing"
    assert on_master("ssh demo-worker4 \"bash -lc 'echo \\$DEEPLEARNING_WORKERS_COUNT'\"").strip() == "4"

    before = on_master("grep demo-worker2 /etc/hosts")
    shrunk = playbook("provision.yml", "-e", "deeplearning_worker_count=1").output
    told = "This run terminates demo-worker3, demo-worker4, and the data on their disks is lost, because the definition has 1 worker."
    assert told in " ".join(shrunk.split())
    assert "Provision the cluster" not in shrunk.partition("This run terminates")[0]
    playbook("configure.yml")
    assert on_master("cat $DEEPLEARNING_WORKERS_PATH").split() == ["deeplearning-worker1", "deeplearning-worker2"]
    assert on_master("grep demo-worker2 /etc/hosts") == before
    playbook("provision.yml")
    assert set(playbook("configure.yml").recap) - {"localhost"} == HOSTS


@pytest.mark.exhaustive
def test_a_team_project_does_the_same_in_three_lines(first_run, operator, network, tmp_path):
    collections, project = tmp_path / "collections", tmp_path / "project"
    subprocess.run(
        ["ansible-galaxy", "collection", "build", "--output-path", str(tmp_path), str(REPOSITORY)], check=True, capture_output=True
    )
    (archive,) = tmp_path.glob("deeplearning-cluster-*.tar.gz")
    subprocess.run(
        ["ansible-galaxy", "collection", "install", str(archive), "--offline", "-p", str(collections)], check=True, capture_output=True
    )
    (project / "group_vars").mkdir(parents=True)
    (project / "nodes.yml").write_text((INVENTORY / "nodes.yml").read_text())
    definition = (INVENTORY / "group_vars" / "all.yml").read_text()
    definition = re.sub(r"deeplearning_network_cidr: .*", f"deeplearning_network_cidr: {network}", definition)
    (project / "group_vars" / "all.yml").write_text(
        re.sub(r"training_job_source: .*", f"training_job_source: {REPOSITORY}/examples/digits", definition)
    )
    (project / "train.yml").write_text("- name: Train\n  ansible.builtin.import_playbook: deeplearning.cluster.train\n")
    environment = {**operator("train", "demo"), "ANSIBLE_COLLECTIONS_PATH": str(collections), "ANSIBLE_HOME": str(tmp_path / "ansible")}
    command = ["ansible-playbook", "-i", "nodes.yml", "train.yml", "-e", '{"training_job_arguments": ["--epochs", "2"]}']
    finished = subprocess.run(
        command, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert finished.returncode == 0, finished.stdout
    assert "succeeded after" in finished.stdout
    assert re.search(r"^localhost +: ok=\d+ +changed=0 ", finished.stdout, re.MULTILINE)


@pytest.mark.exhaustive
def test_a_host_that_goes_is_named_before_its_victims(first_run, playbook, on_master, cloud, tmp_path):
    (tmp_path / "victim.py").write_text(LOSES_WORKER_3)
    (gone,) = instance_of(cloud, 3)
    job = {
        "training_job_source": "",
        "training_job_script": str(tmp_path / "victim.py"),
        "training_job_arguments": [],
        "training_job_launcher": "command",
        "training_job_name": "victim",
        "training_job_report_directory": str(tmp_path),
    }
    with ThreadPoolExecutor(1) as pool:
        trained = pool.submit(playbook, "train.yml", "-e", json.dumps(job), status=2)
        deadline = time.monotonic() + 300
        while "connected" not in on_master("cat /efs/jobs/victim/logs/rank1.log 2>/dev/null || true"):
            assert time.monotonic() < deadline, "the job never ran"
        cloud.client("ec2").terminate_instances(InstanceIds=[gone])
        told = " ".join(trained.result().output.split())
    assert f"job victim lost: demo-worker3 is gone: {gone} " in told
    assert "To continue the job, run the same command again with -e training_job_name=victim" in told
    assert " 2 nodes of cluster demo keep running " in told, "the lost node does not run"
    assert f"demo-worker3 is gone: {gone} " in (tmp_path / "victim.html").read_text()
    shown = " ".join(playbook("status.yml", "-e", "training_job_name=victim").output.split())
    assert f"demo-worker3 is gone: {gone} is no longer a node of the cluster" in shown


def test_a_maximum_cost_that_does_not_pay_for_the_nodes_is_refused_before_they_are_launched(first_run, playbook, cloud):
    more = ("-e", '{"deeplearning_worker_count": 9, "training_job_max_cost": 0.005}')
    refused = (
        r"training_job_max_cost: 0\.005 USD pay for only \d+ s of 10 nodes, at 1\.\d\d USD per hour at prices of .{10}\. "
        r"Set it to more than 0\.0\d\d USD\."
    )
    for name, options in (("validate.yml", ()), ("train.yml", ("--check",)), ("train.yml", ())):
        told = playbook(name, *options, *more, status=2, callback=CONCISE).output
        assert re.search(refused, " ".join(told.split())), told
    more = ("-e", '{"deeplearning_worker_count": 3, "training_job_max_cost": 1, "training_job_name": "four"}')
    limits = {
        re.search(r"max_cost: 1\.00 USD for (4 nodes at .*? so the job is stopped after \d+ h \d+ min)", " ".join(told.split()))[1]
        for told in (playbook("validate.yml", *more).output, playbook("train.yml", "--check", *more).output)
    }
    assert len(limits) == 1, "--check counts the nodes that exist now"
    assert instance_of(cloud, 4) == []


@pytest.mark.exhaustive
def test_a_job_that_has_used_up_its_maximum_cost_says_what_it_has_cost(first_run, playbook, tmp_path):
    (tmp_path / "endless.py").write_text(ENDLESS)
    job = {"training_job_source": "", "training_job_script": str(tmp_path / "endless.py"), "training_job_arguments": []}
    job |= {"training_job_name": "budget", "training_job_max_cost": 0.006, "training_job_report_directory": str(tmp_path)}
    then = {"training_job_then": "scale_in", "training_job_then_always": True, "deeplearning_worker_count": 2}
    told = playbook("train.yml", "-e", json.dumps({**job, **then}), status=2, callback=CONCISE).output
    cost = r"job budget failed: it reached training_job_max_cost \(0\.006 USD\): it had run for 1 min \d+ s and cost about 0\.00[67] USD\."
    assert re.search(cost, " ".join(told.split())), told
    assert "time limit of" not in told
    assert re.search(r"budget\.html, cost: 0\.0\d\d USD for \d+\.\d node-minutes of", " ".join(told.split())), told
    assert "All workers were removed." in " ".join(told.split())
    for found in (playbook("status.yml", "-e", "training_job_name=budget").output, (tmp_path / "budget.html").read_text()):
        assert re.search(cost, " ".join(found.split())), found
    again = " ".join(playbook("train.yml", "-e", json.dumps(job), status=2, callback=CONCISE).output.split())
    used_up = (
        r"training_job_max_cost: earlier .* have cost about 0\.00[67] USD of 0\.006 USD, at the present price, "
        r"so (it is used up|the rest of .* does not pay for a minute of \d nodes?)\. Set it to more"
    )
    assert re.search(used_up, again), again
    told = " ".join(
        playbook("train.yml", "-e", json.dumps(job | {"training_job_max_cost": 0.013}), status=2, callback=CONCISE).output.split()
    )
    assert "training_job_max_cost: earlier attempts have cost about 0.00" in told
    rest = r"max_cost \(0\.013 USD\): it had run for .* and cost about 0\.01[34] USD, 0\.00[67] USD of it before it was continued\."
    assert re.search(rest, told), told


@pytest.mark.exhaustive
def test_after_a_failed_job_the_workers_go_if_that_was_asked_for(first_run, playbook, cloud, tmp_path):
    (tmp_path / "fails.py").write_text("raise SystemExit('no luck')\n")
    job = {"training_job_source": "", "training_job_script": str(tmp_path / "fails.py"), "training_job_arguments": []}
    then = {"training_job_then": "scale_in", "deeplearning_worker_count": 1, "deeplearning_spares": 1}
    kept = playbook("train.yml", "-e", json.dumps({**job, **then}), "-e", "training_job_then_always=false", status=2)
    applied = "so training_job_then: scale_in is not applied. To apply it even if a job fails, set training_job_then_always: true."
    assert f"{applied} 3 nodes of cluster demo keep running" in " ".join(kept.output.split())
    assert " on 2 hosts and 1 spare, " in playbook("status.yml").output
    assert instance_of(cloud, 3)
    (tmp_path / "endless.py").write_text(ENDLESS)
    other = {"training_job_name": "other", "training_job_script": str(tmp_path / "endless.py"), "training_job_wait": False}
    other |= {"training_job_then": "keep", "training_job_hosts": "demo-worker2"}
    playbook("train.yml", "-e", json.dumps({**job, **then, **other}))
    refused = playbook("train.yml", "-e", json.dumps({**job, **then, "training_job_then_always": True}), status=2).output
    assert "training_job_then: scale_in is not applied. Nodes cannot be removed while other runs on demo-worker2" in " ".join(
        refused.split()
    )
    assert (len(instance_of(cloud, 2)), len(instance_of(cloud, 3))) == (1, 1)
    playbook("stop.yml", "-e", "training_job_name=other")
    failed = playbook("train.yml", "-e", json.dumps({**job, **then, "training_job_then_always": True}), status=2)
    assert "no luck" in failed.output
    assert "The job failed or was not exported, as shown above. All workers were removed." in " ".join(failed.output.split())
    assert "3 nodes of cluster demo keep running" not in failed.output
    assert "1 node of cluster demo keeps running" in failed.output
    assert (len(instance_of(cloud, 1)), instance_of(cloud, 2), instance_of(cloud, 3)) == (1, [], [])


@pytest.mark.exhaustive
def test_a_job_on_a_single_node(first_run, playbook, tmp_path):
    (tmp_path / "alone.py").write_text("import os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])\n")
    job = {"training_job_source": "", "training_job_script": str(tmp_path / "alone.py"), "training_job_arguments": []}
    playbook("train.yml", "-e", json.dumps({**job, "training_job_name": "alone", "deeplearning_worker_count": 0}))
    assert "rank 0 of 1" in playbook("logs.yml", "-e", "training_job_name=alone").output
    shown = playbook("info.yml", policies="validate").output
    assert "demo-master" in shown
    assert "To log in to the master, run ssh -F" in shown


def test_destroy_leaves_the_data_alone(first_run, playbook, cloud):
    check = playbook("destroy.yml", "--check", "--diff").output
    assert "Deleting the cluster keeps fs-" in check
    announced = planned(check)
    destroyed = playbook("destroy.yml", "--diff")
    assert planned(destroyed.output) == announced
    assert len(announced) == 22
    assert "Kept, with all data: fs-" in destroyed.output
    assert not (Path(cloud.environment["LOCAL_CLOUD_HOME"]) / "ssh" / "demo").exists()
    again = playbook("destroy.yml")
    assert again.recap["localhost"]["changed"] == 0
    tagging = cloud.client("resourcegroupstaggingapi")
    left = tagging.get_resources(TagFilters=[{"Key": "deeplearning:cluster", "Values": ["demo"]}])["ResourceTagMappingList"]
    gone = {
        item["InstanceId"]
        for page in cloud.client("ec2").describe_instances()["Reservations"]
        for item in page["Instances"]
        if item["State"]["Name"] == "terminated"
    }
    alive = [
        item["ResourceARN"]
        for item in left
        if item["ResourceARN"].rsplit("/", 1)[-1] not in gone and ":natgateway/" not in item["ResourceARN"]
    ]
    assert [arn for arn in alive if "file-system/" not in arn] == []
    assert cloud.client("ssm").describe_parameters(Filters=[{"Key": "Name", "Values": [AUTHORITY]}])["Parameters"] == []


@pytest.mark.exhaustive
def test_a_cluster_can_live_for_one_job(first_run, playbook, operator, cloud, tmp_path):
    script = tmp_path / "short.py"
    script.write_text("print('short')\n")
    job = {"training_job_source": "", "training_job_script": str(script), "training_job_arguments": [], "training_job_then": "destroy"}
    printed = playbook("train.yml", "-e", json.dumps({**job, "training_job_state": "printed", "training_job_then_always": True}))
    assert "# Starts the processes of job short-" in printed.output
    assert instance_of(cloud, 1), "a job that did not run does not end the cluster"
    ended = playbook("train.yml", "-e", json.dumps(job), policies="train+destroy")
    assert ended.recap["localhost"]["failed"] == 0
    assert [instance_of(cloud, number) for number in (1, 2, 3)] == [[], [], []]
    assert "Kept, with all data:" in ended.output
