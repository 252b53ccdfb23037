"""A second person, on a second controller, who has not configured the cluster and has only the policy `status`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import ansible_commands
import pytest
from local_cloud.testing import LocalCloud, unused_range

from .conftest import DEFINITION, REPOSITORY

CLUSTER = "shared"
# The policy `status` of a release that did not publish the public key.
WITHOUT_THE_PUBLIC_KEY = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": ["autoscaling:DescribeAutoScalingGroups", "ec2:DescribeInstances"], "Resource": "*"}],
}
Controller = Callable[..., str]


@pytest.fixture(scope="module")
def controller(
    cloud: LocalCloud, operator: Callable[..., dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Controller]:
    """Run a playbook of the collection on one of two controllers, and return the output in one line."""
    with unused_range() as cidr:

        def run(person: str, playbook: str, *arguments: str, policy: str = "", status: int = 0) -> str:
            home = tmp_path_factory.getbasetemp() / person
            home.mkdir(exist_ok=True)
            key = f"{cloud.environment['LOCAL_CLOUD_HOME']}/id_ed25519"
            nodes = {"plugin": "deeplearning.cluster.nodes", "cluster": CLUSTER, "region": "us-east-1", "private_key_file": key}
            (home / "nodes.yml").write_text(json.dumps(nodes))
            command = ["ansible-playbook", "-i", str(home / "nodes.yml"), str(REPOSITORY / f"playbooks/{playbook}.yml")]
            command += ["-e", json.dumps({**DEFINITION, "deeplearning_network_cidr": cidr}), *arguments]
            own = cloud.operator(person, WITHOUT_THE_PUBLIC_KEY) if person == "stranger" else operator(policy or playbook, CLUSTER)
            environment = {**own, "HOME": str(home)}
            told = ansible_commands.run(command, environment, REPOSITORY)
            output = " ".join((told.stdout + told.stderr).replace("''", "'").split())
            assert told.returncode == status, output
            return output

        run("owner", "provision")
        run("owner", "configure")
        yield run
        run("owner", "destroy", "-e", "deeplearning_delete_data=true", "-e", "deeplearning_confirm=false")


def ssh_files(tmp_path_factory: pytest.TempPathFactory, person: str) -> Path:
    return tmp_path_factory.getbasetemp() / person / ".ssh/deeplearning/123456789012/us-east-1" / CLUSTER


def test_a_person_with_the_policy_status_logs_in_without_configuring(
    controller: Controller, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for playbook in ("status", "health", "ssh"):
        told = controller("colleague", playbook, policy="status")
    assert f"Log in with ssh {CLUSTER}-master" in told
    files = ssh_files(tmp_path_factory, "colleague")
    assert "@cert-authority * ssh-ed25519 " in (files / "known_hosts").read_text()
    for alias in (f"{CLUSTER}-worker2", f"{CLUSTER}-worker2.us-east-1", f"{CLUSTER}-worker2.us-east-1.123456789012"):
        command = ["ssh", "-F", str(files / "config"), "-o", "BatchMode=yes", alias, "hostname"]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == f"{CLUSTER}-worker2"


def test_a_controller_that_knows_the_host_keys_does_not_ask_for_the_authority(controller: Controller, cloud: LocalCloud) -> None:
    cloud.control.forget_calls()
    controller("owner", "status")
    assert "GetParameter" not in {call["action"] for call in cloud.control.calls()}


@pytest.mark.exhaustive
def test_a_colleague_is_not_locked_out_by_a_rotation(controller: Controller, tmp_path_factory: pytest.TempPathFactory) -> None:
    controller("colleague", "status")
    controller("owner", "rotate_authority")
    assert "There are no jobs" in controller("colleague", "status")
    (ssh_files(tmp_path_factory, "colleague") / "known_hosts").unlink()
    assert "There are no jobs" in controller("colleague", "status")
    assert "There are no jobs" in controller("owner", "status")


def test_without_the_right_the_message_names_the_playbook_and_the_right(controller: Controller) -> None:
    told = controller("stranger", "status", status=2)
    parameter = f"arn:aws:ssm:us-east-1:123456789012:parameter/deeplearning/{CLUSTER}/ssh-authority-public-key"
    assert f"Cluster {CLUSTER}: this controller cannot verify {CLUSTER}-master, {CLUSTER}-worker2, because it cannot read" in told
    assert f"is not authorized to perform: ssm:GetParameter on resource: {parameter}" in told
    assert "or run the playbook configure with its policy: ansible-playbook -i" in told
    assert "deeplearning.cluster.configure" in told
    assert "UNREACHABLE" not in told
