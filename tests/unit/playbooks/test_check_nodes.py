from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from unit.ansible_templates import evaluated, loaded

PLAYBOOKS = Path(__file__).resolve().parents[3] / "playbooks"
# Playbooks that create or destroy the nodes. Their plays on nodes look for running jobs, or tell the nodes when AWS ends them, so these
# plays have nothing to do without nodes. `events` tells what happened, also to nodes that no longer exist.
WITHOUT_NODES = {"check_jobs.yml", "destroy.yml", "emr.yml", "events.yml", "idle.yml", "lease.yml", "provision.yml"}


def plays(playbook: Path) -> list[tuple[str, str]]:
    """Return the playbook and the host pattern of each play, in order, including those of imported playbooks."""
    found = []
    for play in yaml.safe_load(playbook.read_text()):
        imported = play.get("ansible.builtin.import_playbook")
        found += plays(PLAYBOOKS / imported) if imported else [(playbook.name, play["hosts"])]
    return found


@pytest.mark.parametrize("playbook", sorted(PLAYBOOKS.glob("*.yml")), ids=lambda path: path.name)
def test_no_playbook_ends_without_a_message_if_there_are_no_nodes(playbook: Path) -> None:
    checked = False
    for name, hosts in plays(playbook):
        checked = checked or name == "check_nodes.yml"
        # Only the check of the job's name precedes the nodes of a new cluster.
        early = name == "train.yml" and "'trainers[0]' if" in hosts
        on_nodes = "trainers" in hosts or "localhost" not in hosts
        assert checked or not on_nodes or early or name in WITHOUT_NODES, f"{name}: {hosts}"


@pytest.mark.parametrize(
    ("follows", "nodes", "found", "facts", "is_checked"),
    [
        (True, ["a"], ["a"], {}, False),
        (True, [], [], {}, True),
        (True, ["a"], [], {}, True),
        # The inventory could not be refreshed, but a static file lists hosts
        (True, ["a"], ["a"], {"deeplearning_inventory_error": "no access"}, True),
        (False, ["a"], ["a"], {}, True),
    ],
)
def test_a_run_with_a_job_looks_for_its_nodes_only_if_some_are_missing(follows, nodes, found, facts, is_checked):
    play = next(each for each in loaded(PLAYBOOKS / "check_nodes.yml") if each["name"] == "Find the nodes")
    given = {"groups": {"trainers": nodes}, "hostvars": {"localhost": facts}, "job_follows": follows}
    hosts = evaluated(play["hosts"], {**play["vars"], "__meant_hosts": found}, given)
    assert hosts == ("localhost" if is_checked else "localhost:!localhost")
