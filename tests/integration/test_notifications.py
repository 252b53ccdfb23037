"""Notifications about the nodes of a cluster, and test notifications."""

from __future__ import annotations

import json
import sys

import ansible_commands
import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.notifications import of_provisioning
from receivers import serving, webhook

P4D = "p4d.24xlarge"


@pytest.fixture
def ansible(cloud, tmp_path):
    """Run a command of Ansible, and return it with what a webhook receives."""

    def run(*command, folder=tmp_path, **variables):
        with serving(webhook()) as (port, received):
            given = {"deeplearning_notify": [f"json://127.0.0.1:{port}"], **variables}
            done = ansible_commands.run(["ansible-playbook", *command, "-e", json.dumps(given)], cloud.environment, folder)
        return done, received

    return run


@pytest.fixture
def play(definition, name, tmp_path):
    """Write a play that creates a cluster with four workers of a scarce type, and return the arguments that run it."""
    scarce = {"instance_type": P4D, "worker_count": 4, "worker_minimum": 2, "capacity_timeout": 5, "suppress_validators": ["vcpu_quota"]}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": {"deeplearning_cluster": name}}
    play["tasks"] = [{"deeplearning.cluster.cluster": {**definition, **scarce}}]
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    return ["-i", "localhost,", "play.yml", "-e", f"ansible_python_interpreter={sys.executable}"]


def test_missing_nodes_are_told(cloud, ansible, play, name):
    cloud.control.set_capacity({P4D: {"us-east-1a": 2}})
    done, received = ansible(*play)
    assert done.returncode != 0
    assert "insufficient capacity" in received[0]["message"]
    cloud.control.set_capacity({P4D: {"us-east-1a": 4}})
    done, received = ansible(*play)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [each["title"] for each in received] == [name]
    assert received[0]["message"].startswith("The cluster has 3 of 4 workers. ")
    assert received[0]["message"].endswith(
        "To try to launch the missing nodes, run: ansible-playbook -i localhost, deeplearning.cluster.provision -e deeplearning_grow=true"
    )
    assert ansible(*play, "--check")[1] == []


def test_replaced_nodes_are_told(run, definition):
    run("cluster", **definition)
    replaced = run("cluster", **definition, root_volume_size=300, replace_nodes=True)
    assert [*of_provisioning(replaced)] == [
        ("nodes_replaced", "nodes workers: replacement of outdated nodes 2 and 3; nodes master: replacement of outdated node 1")
    ]
    assert [*of_provisioning(run("cluster", **definition, root_volume_size=300))] == []


def test_validate_sends_a_test(ansible, repository):
    inventory = ["-i", "inventory/local", "playbooks/validate.yml"]
    done, received = ansible(*inventory, folder=repository)
    assert (done.returncode, received) == (0, []), done.stdout + done.stderr
    done, received = ansible(*inventory, folder=repository, deeplearning_notify_test=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert received[0]["message"].startswith("This is a test of deeplearning_notify. To check the definition, run: ansible-playbook")
    done, received = ansible(*inventory, folder=repository, deeplearning_notify=["stapl://horse"])
    assert done.returncode != 0
    assert "deeplearning_notify: URL 1 (stapl) is not a valid Apprise URL." in " ".join(done.stdout.split())
    assert "horse" not in done.stdout + done.stderr
