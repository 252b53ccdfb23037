"""Training jobs that wait for hosts in YARN, on real hosts. On the first host, tests/yarn_cluster.py simulates Hadoop."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yarn_cluster
from local_cloud.testing import bare_hosts

from .project import COLLECTION, FILE_SYSTEM
from .queues import BEFORE, EFS, UNTIL_GO, QueueHosts, wait

pytestmark = pytest.mark.exhaustive

HOSTS = ["trust-master", "trust-worker2", "trust-worker3"]
STANDIN = "yarn-stand-in"


def node_name(address: str) -> str:
    return f"ip-{address.replace('.', '-')}.ec2.internal"


class Yarn(QueueHosts):
    """Hosts that are nodes of a YARN cluster. Containers run as the user `yarn`, who has no special permissions."""

    role: str = "yarn"
    parameters: dict[str, object] = {}

    def install(self) -> None:
        """Install the parts of Hadoop that the collection and the containers need, and start the stand-in."""
        address = self.master.private_ip
        site = f"<configuration><property><name>yarn.resourcemanager.hostname</name><value>{address}</value></property></configuration>"
        files = {
            "/etc/hadoop/conf/yarn-site.xml": (site, 644),
            "/opt/hadoop/bin/java": (yarn_cluster.MASTER, 755),
            "/opt/hadoop/bin/yarn": ("#!/bin/sh\necho '/etc/hadoop/conf:/usr/lib/hadoop-yarn/*'\n", 755),
            "/usr/local/bin/yarn": ("#!/bin/sh\n", 755),
            "/opt/hadoop/cluster.py": (Path(yarn_cluster.__file__).read_text(), 644),
            "/opt/hadoop/nodes.json": (self.settings(HOSTS), 644),
        }
        names = "".join(f"{host.private_ip} {node_name(host.private_ip)}\n" for host in self.hosts)
        for host in self.hosts:
            host.ssh("sudo useradd --system yarn; sudo mkdir -p /etc/hadoop/conf /opt/hadoop/bin")
            host.ssh(f"printf '{names}' | sudo tee --append /etc/hosts >/dev/null")
            for path, (content, mode) in files.items():
                host.ssh(f"sudo tee {path} >/dev/null <<'END_OF_FILE'\n{content}\nEND_OF_FILE\nsudo chmod {mode} {path}")
        self.start()

    def start(self) -> None:
        """Start the stand-in on the first host."""
        run = f"sudo systemd-run --quiet --unit={STANDIN} --property=User=ubuntu"
        self.master.ssh(f"{run} python3 /opt/hadoop/cluster.py /opt/hadoop/nodes.json")
        wait(lambda: self.ask("nodes") is not None)

    def restart(self, names: list[str]) -> None:
        """Start the stand-in again, with these hosts as nodes."""
        self.master.ssh(f"sudo systemctl stop {STANDIN}; echo '{self.settings(names)}' | sudo tee /opt/hadoop/nodes.json >/dev/null")
        self.start()

    def settings(self, names: list[str]) -> str:
        """Return the settings of the stand-in, in which nodes have the names that EC2 gives to instances."""
        nodes = {node_name(host.private_ip): name for name, host in zip(HOSTS, self.hosts) if name in names}
        return json.dumps({"address": self.master.private_ip, "user": "yarn", "nodes": nodes})

    def ask(self, path: str) -> dict[str, object] | None:
        """Return a document of the stand-in's API, or None if the API does not respond."""
        shown = self.master.ssh(f"curl --silent http://{self.master.private_ip}:8088/ws/v1/cluster/{path}", check=False).stdout
        return dict(json.loads(shown)) if shown else None

    def applications(self) -> dict[str, dict[str, object]]:
        """Return the applications by name."""
        found = self.ask("apps") or {}
        apps = found.get("apps")
        return {each["name"]: each for each in apps["app"]} if isinstance(apps, dict) else {}

    def entries(self) -> dict[str, str]:
        final = ("FINISHED", "FAILED", "KILLED")
        return {name: str(each["state"]) for name, each in self.applications().items() if each["state"] not in final}

    def units(self) -> list[str]:
        """Return the units and containers that jobs have left on all hosts."""
        command = "systemctl list-units --plain --no-legend 'deeplearning_hold-*' 'container_*'"
        return [line for host in self.hosts for line in host.ssh(command).stdout.splitlines()]


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    folder = tmp_path_factory.mktemp("yarn")
    with bare_hosts(folder, 3, environments=["pytorch"]) as (runtime, hosts):
        queue = Yarn(folder, runtime, hosts)
        runtime.export(FILE_SYSTEM, [EFS.source.split(":", maxsplit=1)[0]])
        queue.write(3)
        queue.play(*BEFORE)
        queue.install()
        yield queue


@pytest.fixture(autouse=True)
def no_go(queue: Yarn) -> None:
    queue.master.ssh("rm -f /efs/go")


def test_a_training_job_runs_on_the_hosts_that_yarn_has_reserved(queue: Yarn) -> None:
    options = {
        "name": "digits",
        "queue": "yarn",
        "script": "train.py",
        "source": str(COLLECTION / "examples/digits"),
        "arguments": ["--epochs", "2"],
        "launcher": "torchrun",
        "environment": {"OMP_NUM_THREADS": "1"},
        "report": False,
    }
    given = json.dumps({f"training_job_{key}": value for key, value in options.items()})
    done = queue.play("training_job", arguments=("-e", given))
    assert "digits succeeded" in re.sub(r"\s+", " ", done.stdout)
    ranks = [json.loads(queue.master.ssh(f"cat /efs/jobs/digits/status/{name}").stdout) for name in ("rank0.json", "rank2.json")]
    assert {each["state"] for each in ranks} == {"succeeded"}
    wait(lambda: queue.applications()["digits"]["state"] == "FINISHED")
    assert queue.applications()["digits"]["finalStatus"] == "SUCCEEDED"
    assert queue.applications()["digits"]["user"] == "deeplearning"
    wait(lambda: queue.units() == [])
    assert queue.left("digits") == []
    assert queue.status("digits").startswith("digits succeeded after ")


def test_a_job_waits_for_its_turn_and_can_be_stopped_while_it_waits(queue: Yarn) -> None:
    queue.train("first", UNTIL_GO)
    queue.wait_for_start("first", 3)
    queue.train("second", "exit 1")
    wait(lambda: queue.entries() == {"first": "RUNNING", "second": "RUNNING"})
    waits = r"^second queued since .* UTC, in YARN as job application_\d+_\d+: it has 0 of 3 hosts, command bash$"
    wait(lambda: re.search(waits, queue.status("second")))
    refused = queue.train("third", "true", check=False)
    text = re.sub(r"\s+", " ", refused.stdout)
    assert "queue: job second already waits in YARN." in text, refused.stdout
    queue.stop("second")
    assert queue.entries() == {"first": "RUNNING"}
    assert queue.status("second").startswith("second stopped before it started, ")
    wait(lambda: queue.left("second") == [])
    queue.master.ssh("touch /efs/go")
    queue.wait_for_end("first")
    assert queue.status("first").startswith("first succeeded after ")
    wait(lambda: queue.units() == [] and queue.left("first") == [])


def test_a_job_gets_some_hosts_and_others_run_nothing(queue: Yarn) -> None:
    queue.train("two", "hostname >host-$(hostname)", host_count=2)
    queue.wait_for_end("two")
    assert queue.status("two").startswith("two succeeded after ")
    assert len(queue.master.ssh("cat /efs/jobs/two/code/host-*").stdout.split()) == 2
    wait(lambda: queue.units() == [] and queue.left("two") == [])


@pytest.mark.parametrize("how", ["stop", "kill", "lost"])
def test_a_running_job_is_stopped(queue: Yarn, how: str) -> None:
    """The playbook, YARN, or the loss of the unit that holds a host stops the job."""
    name = f"stopped-by-{how}"
    queue.train(name, "sleep 600")
    queue.wait_for_start(name, 3)
    if how == "stop":
        queue.stop(name)
    elif how == "kill":
        identity = queue.applications()[name]["id"]
        url = f"http://{queue.master.private_ip}:8088/ws/v1/cluster/apps/{identity}/state?user.name=hadoop"
        queue.hosts[1].ssh(f"curl --silent --request PUT --data '{{\"state\": \"KILLED\"}}' '{url}'")
    else:
        queue.hosts[1].ssh(f"sudo systemctl kill --signal=KILL --kill-who=main deeplearning_hold-{name}.service")
    queue.wait_for_end(name)
    wait(lambda: queue.units() == [])
    wait(lambda: [path for path in queue.left(name) if path.startswith("/proc")] == [])
    assert queue.status(name).startswith(f"{name} stopped after ")


def test_a_container_of_another_user_starts_nothing(queue: Yarn) -> None:
    """Containers can neither read what jobs keep on the hosts nor start or stop the units."""
    queue.train("held", UNTIL_GO)
    queue.wait_for_start("held", 3)
    command = (
        "ls /var/lib/deeplearning-queue; systemctl stop deeplearning_hold-held.service; systemctl is-active deeplearning_hold-held.service"
    )
    shown = queue.hosts[1].ssh(f"sudo -u yarn sh -c '{command}'", check=False)
    assert shown.stdout == "active\n"
    assert "Permission denied" in shown.stderr
    queue.master.ssh("touch /efs/go")
    queue.wait_for_end("held")


def test_hosts_that_yarn_does_not_know_are_refused(queue: Yarn) -> None:
    queue.restart(HOSTS[1:])
    try:
        refused = queue.train("everywhere", "true", check=False)
        text = re.sub(r"\s+", " ", refused.stdout)
        assert "queue: trust-master cannot be used, because YARN does not know them. Run the job on nodes of an EMR cluster" in text
        queue.train("workers", "true", "--limit", f"{queue.name(2)},{queue.name(3)}")
        queue.wait_for_end("workers")
        assert queue.status("workers").startswith("workers succeeded after ")
        queue.master.ssh(f"sudo systemctl stop {STANDIN}")
        refused = queue.train("nowhere", "true", check=False)
        text = re.sub(r"\s+", " ", refused.stdout)
        assert re.search(r"queue: a request to YARN failed: .*Connection refused \(GET http://", text), refused.stdout
    finally:
        queue.restart(HOSTS)
