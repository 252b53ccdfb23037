"""Checks that playbooks make before they send requests to AWS or to hosts."""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ansible_commands
import pytest
from local_cloud.testing import LocalCloud

Run = Callable[..., subprocess.CompletedProcess[str]]

NODES = {"trainers": {"hosts": {"demo-master": {}, "demo-worker2": {}}, "vars": {"deeplearning_cluster": "demo"}}}


@pytest.fixture
def play(cloud: LocalCloud, repository: Path) -> Run:
    """Run a playbook with extra variables."""

    def run(name: str, inventory: str = "inventory/local", *arguments: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        command = ["ansible-playbook", "-i", inventory, f"playbooks/{name}.yml", "-e", json.dumps(variables), *arguments]
        environment = {**cloud.environment, "ANSIBLE_INVENTORY_ENABLED": "deeplearning.cluster.nodes,yaml"}
        return ansible_commands.run(command, environment, repository)

    return run


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"training_job_launcher": "torchrum"}, "launcher: 'torchrum' is unknown. Use one of"),
        (
            {"training_job_launcher_options": {"restart": 3}},
            "launcher_options: torchrun has no option 'restart'. Remove it. The options of torchrun are max_restarts, min_hosts.",
        ),
        ({"training_job_name": "My_Job"}, "name: 'My_Job' is not a valid job name"),
        ({"training_job_script": "nope.py"}, "script: 'nope.py' is not a file in"),
        (
            {"node_setup_steps": [{"command": "true", "timout": 3}]},
            "node_setup_steps: step 1: unknown key 'timout'. Did you mean 'timeout'?",
        ),
        ({"training_job_source": "nowhere"}, "source: 'nowhere' is not a directory on the controller"),
        ({"training_job_arguments": "--epochs 3"}, 'training_job_arguments: \'--epochs 3\' is a string. Use a list: ["--epochs", "3"].'),
        (
            {"training_job_hosts": "workers:demo-worker4"},
            "training_job_hosts: 'demo-worker4' matches no host. According to the definition, the nodes are demo-master,",
        ),
        (
            {"python_environment_name": "bert", "deeplearning_image_framework": "base"},
            "python_environment_name: 'bert' is not set up, because images of deeplearning_image_framework: base contain no",
        ),
        (
            {"deeplearning_efs": False, "deeplearning_mount_point": "/data"},
            "deeplearning_efs: false leaves the cluster without shared storage, which a job on 3 hosts needs. Set deeplearning_efs: true",
        ),
    ],
)
def test_a_job_that_cannot_be_is_refused_before_anything_is_launched(
    cloud: LocalCloud, play: Run, variables: dict[str, Any], message: str
) -> None:
    cloud.control.forget_calls()
    refused = play("train", **variables)
    assert refused.returncode != 0
    assert message in " ".join(refused.stdout.replace("\\", "").split())
    assert refused.stdout.count("fatal:") == 1
    assert {call["action"] for call in cloud.control.calls()} <= {"DescribeAutoScalingGroups", "DescribeInstances", "GetCallerIdentity"}


def test_all_that_the_controller_can_know_is_one_failure(cloud: LocalCloud, play: Run) -> None:
    cloud.control.forget_calls()
    told = play(
        "train",
        training_job_script="nope.py",
        trainning_job_name="digits",
        training_job_launcher="torchrum",
        python_environment_name="digits",
        python_environment_requirements="nowhere.txt",
        training_job_report_directory="README.md",
        training_job_time_limit="hour",
    )
    assert told.returncode != 0
    output = " ".join(told.stdout.split())
    assert "Unknown variable 'trainning_job_name'. Did you mean 'training_job_name'?" in output.replace("''", "'")
    for message in ("script: 'nope.py'", "launcher: 'torchrum'", "requirements: 'nowhere.txt'", "report_directory: ", "time_limit: 'hour'"):
        assert message in output.replace("''", "'"), message
    assert told.stdout.count("fatal:") == 1
    assert {call["action"] for call in cloud.control.calls()} <= {"DescribeAutoScalingGroups", "DescribeInstances", "GetCallerIdentity"}


@pytest.mark.parametrize(
    ("playbook", "misspelled", "meant"),
    [("status", "training_job_nmae", "training_job_name"), ("policies", "policies_regoin", "policies_region")],
)
def test_playbooks_without_a_job_refuse_misspelled_variables(play: Run, playbook: str, misspelled: str, meant: str) -> None:
    told = play(playbook, policies_cluster="demo", **{misspelled: "us-east-1"})
    assert told.returncode != 0
    output = " ".join(told.stdout.replace("''", "'").split())
    assert f"Unknown variable '{misspelled}'. Did you mean '{meant}'?" in output


def test_messages_name_the_variables_that_users_set(play: Run) -> None:
    told = play("validate", deeplearning_worker_minimum=9, deeplearning_zones=["us-east-1z"])
    output = " ".join(told.stdout.split())
    assert told.returncode != 0
    assert re.search(r"deeplearning_worker_minimum: 9 is not valid. Specify a number from 1 to \d+ \(deeplearning_worker_count\)", output)
    assert "deeplearning_zones: there is no zone us-east-1z" in output
    assert not re.search(r"(?<!_)(worker_minimum|zones): ", output)


def test_variables_without_the_prefix_are_refused(cloud: LocalCloud, play: Run, tmp_path: Path) -> None:
    cloud.control.forget_calls()
    (tmp_path / "nodes.yml").write_text("plugin: deeplearning.cluster.nodes\ncluster: demo\nregion: us-east-1\n")
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text("worker_count: 3\ninstance_type: c5.large\n")
    told = play("provision", str(tmp_path / "nodes.yml"), replace_nodes=True)
    output = " ".join(told.stdout.replace("''", "'").split())
    assert told.returncode != 0
    for name in ("replace_nodes", "worker_count"):
        assert f"Unknown variable '{name}'. Did you mean 'deeplearning_{name}'?" in output
    assert "'instance_type'" not in output
    assert {call["action"] for call in cloud.control.calls()} <= {"DescribeAutoScalingGroups", "DescribeInstances", "GetCallerIdentity"}


def test_what_the_controller_cannot_know_of_a_job_is_for_the_hosts_to_say(play: Run) -> None:
    options = {"training_job_repository": "git@example.com:train.git", "training_job_source": "", "training_job_script": "x.py"}
    for variables in (options, {"training_job_source": "", "training_job_script": "{{ deeplearning_hostname }}.py"}):
        checked = play("validate", **variables)
        assert checked.returncode == 0, checked.stdout
    missing = play("train", training_job_script="")
    assert "training_job_script: no script is set" in missing.stdout


# The record of the only process of a job that has succeeded
RECORD = {
    "name": "rank0",
    "rank": 0,
    "ranks": [0],
    "part": "worker",
    "host": "demo-master",
    "processes": 1,
    "state": "succeeded",
    "started": 1.0,
    "heartbeat": 1.0,
    "finished": 2.0,
    "exit_code": 0,
}


@pytest.mark.parametrize(
    ("name", "known", "refused"),
    [
        ("done", "i-1", True),
        pytest.param("new", "i-1", False, marks=pytest.mark.exhaustive),
        ("done", "i-2", False),
        ("failed", "i-1", False),
        ("pipe", "i-1", True),
    ],
)
def test_the_name_of_a_job_that_has_succeeded_is_refused_before_aws_is_asked(
    cloud: LocalCloud, play: Run, tmp_path: Path, name: str, known: str, refused: bool
) -> None:
    """The playbook checks the name early only on nodes that this controller has configured. A job that has failed may be continued.

    The files belong to the job's user. A pipe in place of a file does not block the run.
    """
    for path in ("done/status/attempt2", "failed/status", "pipe/status/attempt2"):
        (tmp_path / path).mkdir(parents=True)
    ends = {"done/status": "failed", "done/status/attempt2": "succeeded", "failed/status": "failed", "pipe/status/attempt2": "succeeded"}
    for path, state in ends.items():
        (tmp_path / path / "over").write_text(json.dumps({"state": state, "failure": None}))
        (tmp_path / path.partition("/")[0] / "job.json").write_text(json.dumps({"launcher": "command", "created": 1.0}))
    for job in ("done", "pipe"):
        decision = {"action": "restart", "rule": "lost", "decided": 1.0, "cause": {}}
        (tmp_path / job / "status/next").write_text(json.dumps(decision))
        (tmp_path / job / "status/attempt2/rank0.json").write_text(json.dumps(RECORD))
    os.mkfifo(tmp_path / "pipe/status/over")
    (tmp_path / "known_hosts").write_text(f"{known} ssh-ed25519 AAAA\n")
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "deeplearning_instance_id": "i-1"}
    variables = {"deeplearning_cluster": "demo", "deeplearning_ssh_directory": str(tmp_path), "deeplearning_answer_timeout": 60}
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps({"trainers": {"hosts": {"demo-master": host}, "vars": variables}}))
    cloud.control.forget_calls()
    told = play("train", str(inventory), training_job_name=name, training_job_directory=str(tmp_path), training_job_command=["true"])
    message = f"job {name} has already run and its results are in {tmp_path}/{name}. Choose another name"
    assert (message in " ".join(told.stdout.split())) == refused, told.stdout
    assert not (refused and cloud.control.calls())


def test_a_cluster_without_storage_has_no_job_to_continue(cloud: LocalCloud, play: Run) -> None:
    cloud.control.forget_calls()
    told = " ".join(play("train", training_job_resume="newest").stdout.split())
    assert "training_job_resume: there is no job newest to continue, because cluster demo in us-east-1 has neither nodes nor a file" in told
    assert all(call["read_only"] for call in cloud.control.calls())


@pytest.mark.parametrize(
    ("resume", "message"),
    [
        ("nope", "there is no job nope in {directory}. Specify a job that has ended"),
        ("waits", "job waits has not ended. Specify a job that has ended"),
        pytest.param("done", "", marks=pytest.mark.exhaustive),
        ("newest", ""),
    ],
)
def test_a_job_that_cannot_be_continued_is_refused_before_aws_is_asked(
    cloud: LocalCloud, play: Run, tmp_path: Path, resume: str, message: str
) -> None:
    description = {"launcher": "command", "created": 1.0}
    for name, records in (("waits", {}), ("done", {"rank0": RECORD})):
        (tmp_path / name / "status").mkdir(parents=True)
        (tmp_path / name / "job.json").write_text(json.dumps(description))
        for process, record in records.items():
            (tmp_path / name / "status" / f"{process}.json").write_text(json.dumps(record))
    (tmp_path / "known_hosts").write_text("i-1 ssh-ed25519 AAAA\n")
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "deeplearning_instance_id": "i-1"}
    variables = {"deeplearning_cluster": "demo", "deeplearning_ssh_directory": str(tmp_path)}
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps({"trainers": {"hosts": {"demo-master": host}, "vars": variables}}))
    cloud.control.forget_calls()
    told = play("train", str(inventory), training_job_resume=resume, training_job_directory=str(tmp_path), training_job_command=["true"])
    refusal = "training_job_resume: " + message.format(directory=tmp_path)
    assert (refusal in " ".join(told.stdout.split())) == bool(message), told.stdout
    assert not message or not cloud.control.calls()
    assert message or "training_job_resume" not in told.stdout


def test_a_data_set_that_cannot_be_is_refused_before_aws_is_asked(cloud: LocalCloud, play: Run) -> None:
    cloud.control.forget_calls()
    told = play("dataset", dataset_source="/nowhere/at/all", dataset_name="a b", dataset_destination="s3://data/x")
    assert told.returncode != 0
    output = " ".join(told.stdout.split()).replace("''", "'")
    assert "dataset_source: '/nowhere/at/all' does not exist on the controller." in output
    assert "dataset_name: 'a b' is not a valid name" in output
    assert {call["action"] for call in cloud.control.calls()} <= {"DescribeAutoScalingGroups", "DescribeInstances", "GetCallerIdentity"}


@pytest.mark.parametrize(
    "name",
    [
        "status",
        "configure",
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("logs", "stop", "report", "tensorboard", "dataset")),
    ],
)
def test_a_cluster_without_nodes_is_told(cloud: LocalCloud, play: Run, name: str) -> None:
    cloud.control.forget_calls()
    told = play(name, training_job_name="digits", dataset_source="s3://bert-data/coco", dataset_destination="s3://bert-copy/coco")
    assert told.returncode != 0
    output = " ".join(told.stdout.split())
    assert "cluster: 'demo' has no nodes in us-east-1. No cluster has nodes in this region. Correct cluster or region in" in output
    assert "or create the cluster: ansible-playbook" in output
    assert all(call["read_only"] for call in cloud.control.calls())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A web server with an archive. Yields the address of the server."""
    (tmp_path / "served").mkdir()
    with zipfile.ZipFile(tmp_path / "served/val.zip", "w") as archive:
        archive.writestr("val/1.jpg", "image")
    serve = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path / "served")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()


@pytest.mark.exhaustive
def test_the_controller_stages_a_data_set_in_s3_without_nodes(cloud: LocalCloud, play: Run, tmp_path: Path, server: str) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights/model.npz").write_text("weights")
    directory = str(tmp_path / "moving")
    uploaded = play(
        "dataset", dataset_source=f"{tmp_path}/weights", dataset_destination="s3://bert-weights/v1", dataset_directory=directory
    )
    assert uploaded.returncode == 0, uploaded.stdout

    sources = [
        {"source": f"{server}/val.zip", "unpack": True},
        {"source": "s3://bert-weights/v1/model.npz", "folder": "pretrained-models"},
    ]
    options = {"dataset_name": "coco", "dataset_sources": sources, "dataset_directory": directory, "dataset_host": "controller"}
    refused = play("dataset", **options)
    assert "dataset_host: 'controller' requires a destination in S3." in " ".join(refused.stdout.split())
    for changed in (True, False):
        staged = play("dataset", **options, dataset_destination="s3://bert-coco/2017")
        assert staged.returncode == 0, staged.stdout
        assert ("changed=0" in staged.stdout) == (not changed), staged.stdout
    listed = cloud.client("s3").list_objects_v2(Bucket="bert-coco", Prefix="2017/")["Contents"]
    assert {item["Key"] for item in listed} >= {"2017/val/1.jpg", "2017/pretrained-models/model.npz"}
    assert not list((tmp_path / "moving").glob("*/*")), "the controller keeps no copy"


@pytest.mark.parametrize(("meant", "status"), [("demo-worker2", 0), ("trainers:!demo-master", 0), ("bert-worker2", 2)])
def test_a_pattern_that_matches_no_host_is_told(play: Run, tmp_path: Path, meant: str, status: int) -> None:
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps(NODES))
    told = play("check_nodes", str(inventory), nodes_meant=meant)
    assert told.returncode == status, told.stdout
    assert ("training_job_hosts: 'bert-worker2' matches no host." in told.stdout) == bool(status)


def test_a_region_that_is_none_is_told(play: Run, tmp_path: Path) -> None:
    inventory = tmp_path / "nodes.yml"
    inventory.write_text("plugin: deeplearning.cluster.nodes\ncluster: demo\nregion: us-east-9\n")
    told = play("status", str(inventory))
    assert "'us-east-9' is not an AWS region. Did you mean one of us-east-2, us-east-1" in " ".join(told.stderr.split())


def test_check_mode_needs_no_nodes(play: Run) -> None:
    assert play("check_nodes", "inventory/local", "--check").returncode == 0


@pytest.mark.parametrize(
    ("variables", "jobs"),
    [({}, "/efs/jobs"), ({"deeplearning_mount_point": "/data"}, "/data/jobs"), ({"training_job_directory": "/scratch"}, "/scratch")],
)
def test_a_playbook_of_the_user_imports_one_of_the_collection_with_its_defaults(
    cloud: LocalCloud, tmp_path: Path, variables: dict[str, Any], jobs: str
) -> None:
    (tmp_path / "vars").mkdir()
    (tmp_path / "vars/common.yml").write_text("__playbook_jobs_directory: /another\n")
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "hosts.json").write_text(json.dumps({"trainers": {"hosts": {"localhost": host}}}))
    (tmp_path / "site.yml").write_text("- import_playbook: deeplearning.cluster.status\n")
    command = ["ansible-playbook", "-i", "hosts.json", "site.yml", "-e", json.dumps(variables)]
    done = ansible_commands.run(command, cloud.environment, tmp_path)
    assert f"There are no jobs in {jobs}.\n" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("variables", "directory"),
    [
        ({}, ""),
        ({"deeplearning_efs": False}, "/data/jobs"),
        ({"deeplearning_efs": "no"}, "/data/jobs"),
        ({"deeplearning_efs": False, "deeplearning_lustre": True}, ""),
        ({"deeplearning_efs": False, "deeplearning_lustre_file_system_id": "fs-1"}, ""),
    ],
)
def test_each_run_says_that_the_jobs_are_on_the_masters_own_disk(
    cloud: LocalCloud, repository: Path, tmp_path: Path, variables: dict[str, Any], directory: str
) -> None:
    node = {"deeplearning_number": 1, "deeplearning_instance_type": "c5.large", "deeplearning_instance_id": "i-1"}
    own = {"deeplearning_cluster": "demo", "deeplearning_mount_point": "/data", "deeplearning_inventory_file": "nodes.yml", **variables}
    task = {"ansible.builtin.debug": {"msg": "{{ __playbook_running }}"}}
    files = [str(repository / "playbooks/vars/common.yml")]
    play = {"hosts": "localhost", "gather_facts": False, "vars_files": files, "tasks": [task]}
    (tmp_path / "site.yml").write_text(json.dumps([play]))
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": {"demo-master": node}, "vars": own}}))
    command = ["ansible-playbook", "-i", str(tmp_path / "hosts.json"), str(tmp_path / "site.yml")]
    environment = {**cloud.environment, "ANSIBLE_INVENTORY_ENABLED": "yaml"}
    shown = " ".join(ansible_commands.run(command, environment, repository).stdout.split())
    assert (f"The jobs in {directory} are on the master's own disk, and are lost" in shown) == bool(directory), shown
    assert ("and keep the file systems, run" in shown) == (not directory), shown
    assert "1 node of cluster demo keeps running (c5.large) and costs money. To let AWS terminate it by itself, set " in shown


@pytest.mark.parametrize("before", [pytest.param(None, marks=pytest.mark.exhaustive), "Host *\n    Compression yes\n"])
def test_ssh_knows_the_hosts_on_request(cloud: LocalCloud, repository: Path, tmp_path: Path, before: str | None) -> None:
    directory, home = tmp_path / "my clusters", tmp_path / "home"
    config = home / ".ssh/config"
    config.parent.mkdir(parents=True)
    if before is not None:
        config.write_text(before)
        config.chmod(0o640)
    variables = {"deeplearning_cluster": "demo", "deeplearning_region": "us-east-1", "deeplearning_ssh_directory": str(directory)}
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps({"all": {"vars": variables}, "workers": {"hosts": {"demo-worker2": {}}}}))
    environment = {**cloud.environment, "HOME": str(home), "ANSIBLE_INVENTORY_ENABLED": "yaml"}

    def play(*arguments: str) -> str:
        command = ["ansible-playbook", "-i", str(inventory), "playbooks/ssh.yml", *arguments]
        return " ".join(ansible_commands.run(command, environment, repository).stdout.split())

    assert "this controller has not configured cluster demo yet" in play()
    directory.mkdir()
    (directory / "config").write_text("Host demo-master\n    HostName 192.0.2.9\n")
    assert "Log in with ssh demo-master, or use the name of another node: demo-worker2." in play()
    assert "changed=0" in play()
    assert config.stat().st_mode & 0o777 == (0o600 if before is None else 0o640)
    seen = subprocess.run(["ssh", "-G", "-F", str(config), "demo-master"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert "hostname 192.0.2.9" in seen
    assert ("compression yes" in seen) == (before is not None)
    play("-e", "ssh_state=absent")
    assert config.read_text() == (before or "")


def test_info_shows_nodes_and_resources_and_how_to_log_in(
    run: Callable[..., dict[str, Any]], definition: dict[str, Any], name: str, play: Run, tmp_path: Path
) -> None:
    inventory = tmp_path / "nodes.yml"
    inventory.write_text(json.dumps({"plugin": "deeplearning.cluster.nodes", "cluster": name, "region": "us-east-1"}))
    missing = play("info", str(inventory))
    assert missing.returncode != 0
    assert f"Cluster {name} has no resources in us-east-1. Check the cluster and the region" in " ".join(missing.stdout.split())
    for options in ([], ["--check"]):
        nothing = " ".join(play("destroy", str(inventory), *options).stdout.split())
        assert f"Cluster {name} has no resources in us-east-1, so there is nothing to delete." in nothing
    assert f"AWS has recorded nothing about cluster {name} in us-east-1" in " ".join(play("events", str(inventory)).stdout.split())
    made = run("cluster", **definition)
    shown = play("info", str(inventory))
    assert shown.returncode == 0, shown.stdout + shown.stderr
    nodes = [line.split() for line in shown.stdout.splitlines() if f"{name}-worker" in line or f"{name}-master " in line]
    assert [line[0].strip("\"'") for line in nodes][:3] == [f"{name}-master", f"{name}-worker2", f"{name}-worker3"]
    assert all(line[1].startswith("i-") and line[2] == "c5.large" for line in nodes[:3])
    assert made["resources"]["file_system"]["main"] in shown.stdout
    assert made["resources"]["security_group"]["ssh"] in shown.stdout
    assert "To log in to the master, run ssh -F" in shown.stdout
    billed = shown.stdout.partition("AWS charges for these resources")[2].partition("To log in")[0].splitlines()[1:]
    charges = {line.strip().partition("  ")[0] for line in billed if line.endswith(" USD per hour")}
    addresses = {f"public address, elastic IP {key}" for key in made["resources"]["elastic_ip"]}
    volumes = {"100 GB in gp3 volumes, master", "200 GB in gp3 volumes, workers"}
    data = "0 GB of data in file system main"
    assert charges == {
        "1 x c5.large (master)",
        "2 x c5.large (workers)",
        "NAT gateway main",
        "public address, master",
        data,
        *volumes,
        *addresses,
    }
    assert "The cluster costs 0.388 USD per hour (9.31 USD per day)" in shown.stdout
    assert "Since they were launched, the running nodes have cost 0.00" in shown.stdout
    run("cluster", cluster=name, state="absent")
