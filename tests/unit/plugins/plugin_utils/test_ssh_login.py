"""Tests of the advice about a failed login: what is wrong, the value, and where to set the correct value."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.ssh_login import Login, image_user, login_advice, login_of

REFUSED = "Failed to connect to the host via ssh: ubuntu@192.0.2.1: Permission denied (publickey)."
CLOSED = "kex_exchange_identification: Connection closed by remote host\nConnection closed by UNKNOWN port 65535"
KNOWN = Login("ubuntu", "/home/me/team.pem", "ubuntu", "team", "", "nodes.yml")
PARAMETER = "/aws/service/deeplearning/ami/x86_64/base-{}/latest/ami-id"


def test_a_user_that_the_image_does_not_have():
    assert login_advice(REFUSED, KNOWN._replace(user="root")) == (
        "user: the login used user 'root', but the login user of the image is 'ubuntu'. Set user: ubuntu in nodes.yml."
    )


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        (
            "SessionManagerPlugin is not found. Please refer to SessionManager Documentation here: http://docs",
            "needs the AWS CLI's Session Manager plugin",
        ),
        ("/bin/sh: 1: exec: aws: not found", "needs the AWS CLI"),
        ("bash: aws: command not found", "needs the AWS CLI"),
        (
            "An error occurred (TargetNotConnected) when calling the StartSession operation: i-0 is not connected.",
            "not connected to Session",
        ),
        ("An error occurred (ExpiredTokenException) when calling the StartSession operation", "have expired"),
    ],
)
def test_what_session_manager_lacks_is_named(said, advice):
    """ssh itself only says that the connection was closed."""
    message = f"{said}\n{CLOSED}"
    assert advice in login_advice(message, KNOWN._replace(through="Session Manager"))
    assert "that connection was closed" in login_advice(message, KNOWN._replace(through="c-master"))


def test_a_key_that_the_nodes_do_not_accept():
    assert login_advice(REFUSED, KNOWN) == (
        "private_key_file: the login used user 'ubuntu', which is correct, but the node does not accept the key file '/home/me/team.pem'. "
        "Set private_key_file in nodes.yml to the file with the private key of EC2 key pair 'team' (deeplearning_key_name)."
    )


def test_a_hand_written_inventory_has_other_variables():
    assert "Set ansible_user: ubuntu in the inventory." in login_advice(REFUSED, KNOWN._replace(user=None, inventory=""))
    told = login_advice(REFUSED, Login("ubuntu", None, "ubuntu"))
    assert "does not accept ssh's default keys. Set ansible_ssh_private_key_file in the inventory to the file with the private key" in told


def test_without_the_user_of_the_image_both_are_possible():
    told = login_advice(REFUSED, Login(None, "k.pem", inventory="nodes.yml"))
    assert told.startswith(
        "The login used ssh's default user with the key file 'k.pem'. If user is not the login user of the image, correct "
    )
    assert "Otherwise: Set private_key_file in nodes.yml" in told


@pytest.mark.parametrize(("through", "named"), [("demo-master", "demo-master"), ("", "another host")])
def test_a_node_behind_a_host_that_refuses_the_login(through, named):
    told = login_advice(CLOSED, Login(through=through))
    assert (
        told
        == f"SSH reaches this node through {named}, and that connection was closed. Check that both are running and accept SSH connections."
    )


@pytest.mark.parametrize("message", ["Connection timed out", "cp: Permission denied", "Host key verification failed."])
def test_another_failure(message):
    assert login_advice(message, KNOWN) == ""


@pytest.mark.parametrize(
    ("variables", "user"),
    [
        ({}, "ubuntu"),
        ({"deeplearning_image_os": "amazon-linux-2023"}, "ec2-user"),
        ({"deeplearning_image_os": "ubuntu-22.04", "deeplearning_login_user": "admin"}, "ubuntu"),
        ({"deeplearning_image_parameter": PARAMETER.format("ubuntu-22.04")}, "ubuntu"),
        ({"deeplearning_image_parameter": PARAMETER.format("amazon-linux-2023")}, "ec2-user"),
        ({"deeplearning_image_id": "ami-1"}, ""),
        ({"deeplearning_image_id": "ami-1", "deeplearning_image_parameter": PARAMETER.format("ubuntu-22.04")}, ""),
        ({"deeplearning_image_id": "ami-1", "deeplearning_login_user": "rocky"}, "rocky"),
        ({"deeplearning_image_parameter": "/my/image"}, ""),
        ({"deeplearning_node_service": "emr", "deeplearning_login_user": "ubuntu"}, "hadoop"),
        ({"deeplearning_node_service": "other"}, ""),
    ],
)
def test_the_operating_system_of_the_image_determines_the_user(variables, user):
    assert image_user(variables.get) == user


def test_the_controller_knows_the_key_pair_and_the_way_to_a_node():
    nodes = {"m": {"group": "master", "jump": False}, "w": {"group": "workers", "jump": True}, "s": {"proxy_command": "aws ssm"}}
    known = {"deeplearning_key_name": "team", "deeplearning_inventory_file": "nodes.yml"}
    assert login_of("w", nodes, known.get) == Login(None, None, "ubuntu", "team", "m", "nodes.yml")
    assert [login_of(name, nodes, known.get).through for name in ("m", "s", "x")] == ["", "Session Manager", ""]
    assert login_of("x", {}, known.get).inventory == ""
