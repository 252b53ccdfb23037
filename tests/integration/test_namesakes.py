"""Clusters of one name in several regions and accounts: which of them a run acts on, and what the controller keeps of each."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import ansible_commands
import pytest
from local_cloud.testing import LocalCloud
from namesakes import ACCOUNTS, CLUSTER, PEOPLE, REGIONS, Cluster, Place, Step, World, steps

from .conftest import FAST, IMAGE_PARAMETER, KEY_NAME

OTHER = "eu-west-1"
READS = {"DescribeAutoScalingGroups", "DescribeInstances", "GetCallerIdentity"}


@pytest.fixture
def play(cloud: LocalCloud, repository: Path, tmp_path: Path) -> Callable[..., str]:
    """Run a playbook of the collection in a project of its own, and return its output in one line."""
    (tmp_path / "ansible.cfg").write_text("[defaults]\ninject_facts_as_vars = false\n[inventory]\nany_unparsed_is_failed = true\n")
    (tmp_path / "nodes.yml").write_text("plugin: deeplearning.cluster.nodes\ncluster: demo\nregion: us-east-1\n")

    def run(name: str, *arguments: str, **environment: str) -> str:
        sources = [] if "-i" in arguments else ["-i", "nodes.yml"]
        command = ["ansible-playbook", *sources, str(repository / f"playbooks/{name}.yml"), *arguments]
        variables = {**cloud.environment, "HOME": str(tmp_path), **environment}
        told = ansible_commands.run(command, variables, tmp_path)
        assert told.returncode != 0
        return " ".join((told.stdout + told.stderr).replace("''", "'").split())

    return run


@pytest.mark.parametrize(
    ("file", "content", "arguments", "where"),
    [
        ("", "", ["-e", f"deeplearning_region={OTHER}"], "-e"),
        ("", "", ["-e", '{"deeplearning_cluster": "bert"}'], "-e"),
        ("given.yml", "deeplearning_node_service: emr\n", ["-e", "@given.yml"], "-e"),
        ("group_vars/all.yml", f"deeplearning_region: {OTHER}\n", [], "the variables of all"),
        ("group_vars/workers/region.yml", f"deeplearning_region: {OTHER}\n", [], "the variables of workers"),
        ("host_vars/localhost.yml", "deeplearning_cluster: bert\n", [], "the variables of localhost"),
        ("another.ini", f"[all:vars]\ndeeplearning_region={OTHER}\n", ["-i", "another.ini", "-i", "nodes.yml"], "another inventory source"),
        (
            "b.nodes.yml",
            "plugin: deeplearning.cluster.nodes\ncluster: bert\nregion: us-east-1\n",
            ["-i", "nodes.yml", "-i", "b.nodes.yml"],
            "another inventory",
        ),
    ],
)
def test_a_variable_that_contradicts_the_inventory_is_refused_before_aws_is_asked(
    cloud: LocalCloud, play: Callable[..., str], tmp_path: Path, file: str, content: str, arguments: list[str], where: str
) -> None:
    if file:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(content)
    cloud.control.forget_calls()
    told = play("provision", *arguments)
    assert f", set by {where}" in told, told
    values = ("'eu-west-1'", "'us-east-1'") if "region" in told.partition(", set by")[0] else ("'bert'", "'demo'")
    assert all(value in told for value in (("'emr'", "'auto_scaling'") if "node_service" in content else values)), told
    of_the_first = READS if file == "b.nodes.yml" else set()
    assert {call["action"] for call in cloud.control.calls()} <= of_the_first


@pytest.mark.parametrize(
    ("file", "arguments", "where"),
    [("", ["-e", "ansible_ssh_args=-C"], "-e"), ("group_vars/all.yml", [], "the variables of all")],
)
def test_a_variable_that_replaces_the_arguments_of_ssh_is_refused(
    play: Callable[..., str], tmp_path: Path, file: str, arguments: list[str], where: str
) -> None:
    if file:
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_text("ansible_ssh_args: -o StrictHostKeyChecking=no\n")
    told = play("status", *arguments)
    assert f"ansible_ssh_args: this variable, set by {where}, would replace" in told


def test_a_space_in_the_arguments_of_ssh_that_is_none_is_refused(play: Callable[..., str]) -> None:
    told = play("status", "-e", '{"ansible_ssh_common_args": "-C\u00a0-v"}')
    assert "ansible_ssh_common_args: character 3 is U+00A0 (NO-BREAK SPACE). Replace it" in told


@pytest.mark.parametrize("variable", ["deeplearning_region: '{{ home_region }}'", "deeplearning_account: 210987654321"])
def test_what_only_a_task_can_know_is_refused_before_anything_changes(
    cloud: LocalCloud, play: Callable[..., str], tmp_path: Path, variable: str
) -> None:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text(f"home_region: {OTHER}\n{variable}\n")
    cloud.control.forget_calls()
    assert "differs from '" in play("provision")
    assert {call["action"] for call in cloud.control.calls()} <= READS


def test_the_inventory_names_the_account_and_its_values_may_be_repeated(
    cloud: LocalCloud, play: Callable[..., str], tmp_path: Path
) -> None:
    told = play(
        "status", "-e", "deeplearning_region=us-east-1", "-e", "deeplearning_cluster=demo", "-e", "deeplearning_account=123456789012"
    )
    assert "cluster: 'demo' has no nodes in us-east-1" in told
    calls = [call["action"] for call in cloud.control.calls()]
    assert calls.count("GetCallerIdentity") == 1, "the account is read once"


def test_credentials_of_the_inventory_are_those_of_the_modules(cloud: LocalCloud, play: Callable[..., str], tmp_path: Path) -> None:
    other = cloud.other_account("210987654321")
    keys = {"access_key": "AWS_ACCESS_KEY_ID", "secret_key": "AWS_SECRET_ACCESS_KEY", "session_token": "AWS_SESSION_TOKEN"}
    file = {"plugin": "deeplearning.cluster.nodes", "cluster": "demo", "region": "us-east-1"}
    (tmp_path / "nodes.yml").write_text(json.dumps({**file, **{option: other[name] for option, name in keys.items()}}))
    told = play("status")
    assert "access_key: these credentials belong to account 210987654321, but" in told
    assert "which belong to account 123456789012. Remove access_key and secret_key and session_token" in told
    assert "cluster: 'demo' has no nodes" in play("status", **{name: other[name] for name in keys.values()})


PLACES = [Place(account, region) for account in ACCOUNTS for region in REGIONS]
DEFINITION = {
    "deeplearning_ssh_cidrs": ["203.0.113.0/24"],
    "deeplearning_instance_type": "c5.large",
    "deeplearning_image_parameter": IMAGE_PARAMETER,
    "deeplearning_key_name": KEY_NAME,
    "deeplearning_efs": False,
    "deeplearning_mount_point": "/data",
    "deeplearning_ignore_running_jobs": True,
    "deeplearning_delete_data": True,
}
PLAYBOOKS = [
    *(("provision", {"deeplearning_worker_count": count}) for count in (0, 1)),
    ("provision", {"deeplearning_worker_count": 1, "deeplearning_region": "eu-central-1"}),
    ("destroy", {}),
    ("info", {}),
    ("ssh", {}),
]


def expected(step: Step, before: Cluster) -> int:
    """Return whether a playbook fails."""
    exists = {"info": before.resources, "ssh": before.instances and before.public_keys}.get(step.playbook, True)
    return 2 if step.variables.get("deeplearning_region") or not exists else 0


def configure(world: World, place: Place) -> None:
    """Do what the playbook `configure` does in AWS. Without hosts, it cannot do more."""
    arguments = f"cluster={CLUSTER} region={place.region}"
    command = ["ansible", "localhost", "-m", "deeplearning.cluster.ssh_authority", "-a", arguments]
    subprocess.run(command, env=world.environments[place.account], cwd=world.folder, check=True, capture_output=True)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Two accounts without clusters."""
    with LocalCloud(tmp_path / "cloud", hosts=False) as cloud:
        cloud.control.set_delays(**FAST)
        world = World(cloud, tmp_path, dict.fromkeys(PLACES, DEFINITION))
        for place in PLACES:
            world.client(place, "ec2").create_key_pair(KeyName=KEY_NAME)
        yield world


# SEQUENCES in the environment is the number of long sequences. Each takes more than a minute.
LONG = [pytest.param(seed, 8, marks=pytest.mark.exhaustive) for seed in range(2, 2 + int(os.environ.get("SEQUENCES", "5")))]


@pytest.mark.parametrize(("seed", "count"), [(1, 3), *LONG])
def test_a_random_sequence_changes_the_cluster_that_is_meant_and_locks_nobody_out(world: World, seed: int, count: int) -> None:
    for number, step in enumerate(steps(seed, count, PLACES, PLAYBOOKS)):
        world.play([step], expected)
        if number % 2 and world.look(step.place).instances:
            configure(world, step.place)
    living = [place for place in PLACES if world.look(place).instances]
    for place in living:
        configure(world, place)
    for person in PEOPLE:
        for place in living:
            world.play([Step(person, place, "ssh", {})], expected)
            known_hosts = (world.ssh_files(person, place) / "known_hosts").read_text()
            assert known_hosts.startswith(f"@cert-authority * {' '.join(world.look(place).public_keys.split()[:2])}")
        for place in living:
            alias = world.login(person, place, f"{CLUSTER}-master.{place.region}.{place.account}")["hostkeyalias"]
            assert alias in world.look(place).instances
        short = world.login(person, living[0], f"{CLUSTER}-master").get("hostkeyalias") if living else None
        assert short in world.look(living[0]).instances if len(living) == 1 else short is None, "an ambiguous name leads nowhere"


def test_a_cluster_of_this_name_in_another_region_is_named_before_another_one_is_created(play: Callable[..., str], tmp_path: Path) -> None:
    assert "has configured a cluster with this name" not in play("provision")
    folder = tmp_path / ".ssh/deeplearning/123456789012" / OTHER / "demo"
    folder.mkdir(parents=True)
    (folder / "known_hosts").touch()
    told = play("provision")
    assert f"Cluster demo has no nodes in us-east-1, but this controller has configured a cluster with this name in {OTHER}." in told
