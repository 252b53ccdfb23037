"""Random sequences of playbooks on clusters of one name, in two regions and two accounts, run by two people on two controllers.

A step may change only the cluster that it names. Afterwards, each person reaches each cluster that still exists.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ansible_commands
import boto3
from local_cloud.testing import LocalCloud

CLUSTER = "demo"
ACCOUNTS = ("123456789012", "210987654321")
REGIONS = ("us-east-1", "eu-west-1")
PEOPLE = ("ada", "grace")
REPOSITORY = Path(__file__).resolve().parents[1]


class Place(NamedTuple):
    """An account and a region, which contain at most one cluster of the name."""

    account: str
    region: str


class Step(NamedTuple):
    """A playbook that a person runs on one of the clusters."""

    person: str
    place: Place
    playbook: str
    variables: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.person} {self.place.account}/{self.place.region} {self.playbook} {self.variables}"


class Cluster(NamedTuple):
    """What AWS contains of one cluster."""

    instances: frozenset[str]
    resources: frozenset[str]
    public_keys: str


def steps(seed: int, count: int, places: Sequence[Place], playbooks: Sequence[tuple[str, dict[str, Any]]]) -> Iterator[Step]:
    """Yield random steps. The same seed gives the same steps."""
    generator = random.Random(seed)
    for _step in range(count):
        playbook, variables = generator.choice(playbooks)
        yield Step(generator.choice(PEOPLE), generator.choice(places), playbook, variables)


class World:
    """The clusters, and the home directories of the people. Each controller has one home directory."""

    def __init__(self, cloud: LocalCloud, folder: Path, definition: dict[Place, dict[str, Any]], key: str = "") -> None:
        self.cloud, self.folder, self.definition, self.key = cloud, folder, definition, key
        self._clients: dict[tuple[Place, str], Any] = {}
        self.environments = {ACCOUNTS[0]: cloud.environment, ACCOUNTS[1]: cloud.other_account(ACCOUNTS[1])}

    def client(self, place: Place, service: str) -> Any:
        if (place, service) not in self._clients:
            environment = self.environments[place.account]
            names = {"aws_access_key_id": "AWS_ACCESS_KEY_ID", "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY"}
            keys = {name: environment[variable] for name, variable in names.items()}
            keys["aws_session_token"] = environment.get("AWS_SESSION_TOKEN")
            self._clients[place, service] = boto3.client(
                service, region_name=place.region, endpoint_url=environment["AWS_ENDPOINT_URL"], **keys
            )
        return self._clients[place, service]

    def look(self, place: Place) -> Cluster:
        """Return what AWS contains of the cluster."""
        ec2, ssm = self.client(place, "ec2"), self.client(place, "ssm")
        mine = [{"Name": "tag:deeplearning:cluster", "Values": [CLUSTER]}]
        states = {"Name": "instance-state-name", "Values": ["pending", "running"]}
        found = ec2.describe_instances(Filters=[*mine, states])["Reservations"]
        tagged = ec2.describe_tags(Filters=[{"Name": "key", "Values": ["deeplearning:key"]}])["Tags"]
        parameters = ssm.get_parameters(Names=[f"/deeplearning/{CLUSTER}/ssh-authority-public-key"])["Parameters"]
        return Cluster(
            frozenset(instance["InstanceId"] for reservation in found for instance in reservation["Instances"]),
            frozenset(tag["ResourceId"] for tag in tagged if tag["ResourceType"] in ("vpc", "subnet", "security-group")),
            parameters[0]["Value"] if parameters else "",
        )

    def home(self, person: str) -> Path:
        (self.folder / person).mkdir(exist_ok=True)
        return self.folder / person

    def ssh_files(self, person: str, place: Place) -> Path:
        return self.home(person) / ".ssh/deeplearning" / place.account / place.region / CLUSTER

    def run(self, step: Step) -> subprocess.CompletedProcess[str]:
        """Run the playbook of a step. Each person has one inventory file per region, and selects the account with AWS_PROFILE or keys."""
        home = self.home(step.person)
        nodes = {"plugin": "deeplearning.cluster.nodes", "cluster": CLUSTER, "region": step.place.region}
        nodes |= {"private_key_file": self.key} if self.key else {}
        inventory = home / f"{step.place.region}.nodes.yml"
        inventory.write_text(json.dumps(nodes))
        variables = {**self.definition[step.place], "deeplearning_confirm": False, **step.variables}
        command = [
            "ansible-playbook",
            "-i",
            str(inventory),
            str(REPOSITORY / f"playbooks/{step.playbook}.yml"),
            "-e",
            json.dumps(variables),
        ]
        environment = {**self.environments[step.place.account], "HOME": str(home)}
        return ansible_commands.run(command, environment, home)

    def play(self, sequence: Sequence[Step], expected: Callable[[Step, Cluster], int | None]) -> None:
        """Run the steps. After each step, check the exit status, and that only the cluster of the step has changed."""
        story: list[str] = []
        places = list(self.definition)
        for step in sequence:
            story.append(str(step))
            before = {place: self.look(place) for place in places}
            told = self.run(step)
            context = "\n".join([*story, told.stdout[-4000:], told.stderr[-2000:]])
            after = {place: self.look(place) for place in places}
            assert all(after[place] == before[place] for place in places if place != step.place), context
            status = expected(step, before[step.place])
            assert status is None or (told.returncode == 0) == (status == 0), context
            _check(step, before[step.place], after[step.place], context)
            if step.playbook == "destroy" and told.returncode == 0:
                assert not self.ssh_files(step.person, step.place).exists(), context

    def login(self, person: str, place: Place, alias: str) -> dict[str, str]:
        """Return the settings that ssh uses for a name, according to the person's ~/.ssh/config."""
        command = ["ssh", "-G", "-F", str(self.home(person) / ".ssh/config"), alias]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        return {name: value for name, _space, value in (line.partition(" ") for line in lines)}


def _check(step: Step, before: Cluster, after: Cluster, context: str) -> None:
    """Check that a successful step has changed the cluster as its playbook says."""
    refused = step.variables.get("deeplearning_region", step.place.region) != step.place.region
    if refused or step.playbook not in ("provision", "destroy"):
        assert (after.instances, after.resources) == (before.instances, before.resources), context
    elif step.playbook == "destroy":
        assert after == Cluster(frozenset(), frozenset(), ""), context
    else:
        assert len(after.instances) == 1 + step.variables["deeplearning_worker_count"], context
