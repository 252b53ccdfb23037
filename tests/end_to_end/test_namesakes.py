"""Clusters of one name with hosts, in two accounts and two regions, that two people use in turns."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from local_cloud.testing import LocalCloud, unused_range
from namesakes import ACCOUNTS, CLUSTER, PEOPLE, REGIONS, Cluster, Place, Step, World, steps

from .conftest import DEFINITION

PLACES = [Place(ACCOUNTS[0], REGIONS[0]), Place(ACCOUNTS[1], REGIONS[0]), Place(ACCOUNTS[0], REGIONS[1])]
PLAYBOOKS = [
    *(("provision", {"deeplearning_worker_count": count}) for count in (0, 1)),
    ("configure", {}),
    ("rotate_authority", {}),
    ("status", {}),
    ("ssh", {}),
    ("destroy", {}),
]


@pytest.fixture
def world(cloud: LocalCloud) -> Iterator[World]:
    """Places without clusters. Their networks have different address ranges, because their hosts run on one machine.

    The home directories have short paths, because the path of a socket has at most 103 characters.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="homes-")))
        definition = {
            place: {
                **DEFINITION,
                "deeplearning_network_cidr": stack.enter_context(unused_range()),
                "deeplearning_ignore_running_jobs": True,
                "deeplearning_delete_data": True,
            }
            for place in PLACES
        }
        key = Path(cloud.environment["LOCAL_CLOUD_HOME"], "id_ed25519")
        world = World(cloud, folder, definition, str(key))
        public_key = key.with_suffix(".pub").read_bytes()
        for place in PLACES:
            ec2, name = world.client(place, "ec2"), DEFINITION["deeplearning_key_name"]
            if not ec2.describe_key_pairs(Filters=[{"Name": "key-name", "Values": [name]}])["KeyPairs"]:
                ec2.import_key_pair(KeyName=name, PublicKeyMaterial=public_key)
        yield world
        for place in PLACES:
            if world.look(place).resources:
                world.play([Step(PEOPLE[0], place, "destroy", {})], expected)


def expected(step: Step, before: Cluster) -> int | None:
    """Return the exit status of a playbook, or None if it also depends on whether somebody has configured the new nodes."""
    if step.playbook in ("provision", "destroy"):
        return 0
    if not before.instances:
        return 2
    return 0 if step.playbook == "configure" else None


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(1, 6))
def test_after_a_random_sequence_each_person_reaches_each_node(world: World, seed: int) -> None:
    world.play(list(steps(seed, 8, PLACES, PLAYBOOKS)), expected)
    living = [place for place in PLACES if world.look(place).instances] or PLACES[:1]
    for place in living:
        count = len(world.look(place).instances) - 1
        world.play([Step(PEOPLE[0], place, "provision", {"deeplearning_worker_count": max(count, 0)})], expected)
        world.play([Step(PEOPLE[0], place, "configure", {})], expected)
    for person in PEOPLE:
        for place in living:
            world.play([Step(person, place, "ssh", {}), Step(person, place, "status", {})], lambda *_unused: 0)
            count = len(world.look(place).instances)
            for name in (f"{CLUSTER}-master", *(f"{CLUSTER}-worker{number}" for number in range(2, count + 1))):
                alias = f"{name}.{place.region}.{place.account}"
                settings = world.login(person, place, alias)
                assert settings["hostkeyalias"] in world.look(place).instances
                command = ["ssh", "-F", str(world.home(person) / ".ssh/config"), "-o", "BatchMode=yes", alias, "hostname"]
                assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == name
