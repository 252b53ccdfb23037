# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Which nodes the playbook ends when nobody can be asked whether a job runs on them: instances here have no hosts."""

from __future__ import annotations

import json
import subprocess

import pytest

from .clusters import numbers
from .conftest import REGION


@pytest.fixture
def shrink(cloud, definition, name, repository, tmp_path):
    """Runs playbooks/provision.yml for one worker and returns its status and words."""

    def run(**variables):
        inventory = tmp_path / "nodes.yml"
        inventory.write_text(
            json.dumps({"plugin": "deeplearning.cluster.nodes", "cluster": name, "region": REGION, "ssh_directory": str(tmp_path / "ssh")})
        )
        options = {f"deeplearning_{key}": value for key, value in definition.items() if key != "cluster"}
        variables = {**options, "deeplearning_worker_count": 1, "ansible_ssh_retries": 0, **variables}
        command = ["ansible-playbook", "-i", str(inventory), "playbooks/provision.yml", "-e", json.dumps(variables)]
        done = subprocess.run(command, env=cloud.environment, cwd=repository, capture_output=True, text=True, check=False)
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    return run


REFUSED = "cannot be asked whether a job runs there"


def test_a_cluster_that_was_never_configured(cloud, run, definition, name, shrink):
    run("cluster", **definition)
    status, words = shrink()
    assert status == 0, words
    assert f"because cluster {name} has never been configured: it has no SSH authority" in words
    assert sorted(numbers(cloud, name).values()) == [1, 2]


def test_a_cluster_that_another_controller_has_configured(cloud, run, definition, name, shrink):
    run("cluster", **definition)
    run("ssh_authority", cluster=name)
    status, words = shrink()
    assert (status, REFUSED in words) == (2, True), words
    assert "deeplearning-worker3: this run terminates them" in words
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3]
    status, words = shrink(deeplearning_end_unasked_nodes=True)
    assert status == 0, words
    assert "because deeplearning_end_unasked_nodes is true" in words
    assert sorted(numbers(cloud, name).values()) == [1, 2]


def test_a_cluster_that_this_controller_knows(cloud, run, definition, name, shrink, tmp_path):
    run("cluster", **definition)
    (tmp_path / "ssh").mkdir()
    (tmp_path / "ssh" / "known_hosts").write_text(f"{min(numbers(cloud, name))} ssh-ed25519 AAAA\n")
    status, words = shrink()
    assert (status, REFUSED in words) == (2, True), words
    (tmp_path / "ssh" / "known_hosts").write_text("i-0123456789abcdef0 ssh-ed25519 AAAA\n@cert-authority * ssh-ed25519 AAAA\n")
    assert shrink()[0] == 0, "what was there before is no node"


def test_an_authority_of_the_users_own_is_in_no_parameter(cloud, run, definition, name, shrink):
    run("cluster", **definition)
    status, words = shrink(ssh_trust_authority_public_key="ssh-ed25519 AAAA")
    assert (status, REFUSED in words) == (2, True), words
    assert sorted(numbers(cloud, name).values()) == [1, 2, 3]
    assert run("ssh_authority_info", cluster=name)["exists"] is False
    run("ssh_authority", cluster=name)
    assert run("ssh_authority_info", cluster=name)["exists"] is True
