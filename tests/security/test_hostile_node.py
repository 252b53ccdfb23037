"""An attacker is root on the master and worker 2 of a cluster. The tests run the playbooks against this cluster.

The controller's files do not change, no process remains on the controller, no certificate has another node's name, and the operator is
warned. The tests build on each other.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from local_cloud.testing import LocalCloud, unused_range

ROOT = Path(__file__).resolve().parents[2]
INVENTORY = ROOT / "inventory" / "local"
HONEST = "demo-worker3"
HOSTILE = ("demo-master", "demo-worker2")
JOB = {
    "training_job_source": "",
    "training_job_script": "",
    "training_job_arguments": [],
    "training_job_launcher": "command",
    "training_job_command": ["sleep", "2"],
}
REMOVE_CERTIFICATES = "sudo sh -c 'rm -f /etc/ssh/deeplearning/*-cert.pub'"
ESCAPE = "\x1b]52;c;ZXZpbA==\x07\x1b[2J"


class Controller:
    """A controller with its own home directory and project directory."""

    def __init__(self, cloud: LocalCloud, network: str, folder: Path) -> None:
        self.cloud, self.network, self.folder = cloud, network, folder
        self.home, self.marker = folder / "home", folder / "owned"
        self.ssh = Path(cloud.environment["LOCAL_CLOUD_HOME"]) / "ssh" / "demo"
        for name, text in {".ssh/config": "Host *\n", ".aws/credentials": "[other]\naws_secret_access_key = CONTROLLER-SECRET\n"}.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **self.cloud.environment,
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.folder / "cache"),  # for modules that Ansible has built
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.folder / "control"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "tmp"),
            "AWS_SHARED_CREDENTIALS_FILE": str(self.home / ".aws" / "none"),
        }

    def play(self, name: str, **variables: object) -> subprocess.CompletedProcess[str]:
        variables = {"deeplearning_network_cidr": self.network, **JOB, **variables}
        command = ["ansible-playbook", "-i", str(INVENTORY), str(ROOT / "playbooks" / name), "-e", json.dumps(variables)]
        done = subprocess.run(
            command,
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
            check=False,
        )
        assert "Traceback" not in done.stdout, done.stdout
        assert not set("\x1b\x07\x9b") & set(done.stdout), "control characters were printed"
        assert "CONTROLLER-SECRET" not in done.stdout
        return done

    def on(self, host: str, command: str, check: bool = True) -> str:
        argv = ["ssh", "-F", str(self.ssh / "config"), "-o", "BatchMode=yes", host, command]
        return subprocess.run(argv, capture_output=True, text=True, check=check, timeout=300).stdout

    def files(self) -> dict[str, str]:
        """Return the digests of the files in the home directory and directly in the project directory, except those in .ansible."""
        ours = (path for path in [*self.home.rglob("*"), *self.folder.glob("*")] if path.is_file() and ".ansible" not in path.parts)
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in ours}

    def check_untouched(self, before: dict[str, str]) -> None:
        assert not self.marker.exists(), "a command from the node ran on the controller"
        assert self.files() == before
        config = (self.ssh / "config").read_text()
        assert "owned" not in config
        # One block for each host
        assert len(re.findall(r"^Host ", config, re.MULTILINE)) == 3
        running = subprocess.run(["pgrep", "-f", str(self.marker)], capture_output=True, text=True, check=False).stdout.split()
        assert not running, "a process that the node started remains on the controller"


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory):
    with unused_range() as network, LocalCloud(tmp_path_factory.mktemp("cloud")) as cloud:
        folder = tmp_path_factory.mktemp("controller")
        controller = Controller(cloud, network, folder)
        done = controller.play("train.yml", training_job_name="honest")
        assert done.returncode == 0, done.stdout
        yield controller


@pytest.fixture(scope="module")
def hostile(controller):
    """Replace the Python of both hostile hosts with the attacker's, and return the controller."""
    program = (Path(__file__).parent / "liar.py").read_text()
    for host in HOSTILE:
        script = (
            "sudo mv $(readlink -f /usr/bin/python3) /usr/bin/python3.real && sudo rm -f /usr/bin/python3"
            " && sudo tee /usr/bin/python3 >/dev/null <<'END'\n#!/bin/sh\nexec /usr/bin/python3.real /etc/liar.py \"$@\"\nEND\n"
            f"sudo chmod +x /usr/bin/python3 && sudo tee /etc/liar.py >/dev/null <<'END'\n{program}END\n"
        )
        controller.on(host, script)
    return controller


def lie(controller: Controller, lies: dict) -> None:
    for host in HOSTILE:
        controller.on(host, f"sudo tee /etc/lies.json >/dev/null <<'END'\n{json.dumps(lies)}\nEND\n")


def facts(controller: Controller) -> dict:
    """Return results that reached the controller's variables before the security review, and other results that might reach them."""
    run = f"sh -c 'id > {controller.marker}'"
    return {
        "ansible_facts": {
            "deeplearning_proxy_command": run,
            "deeplearning_instance_id": "i-0aaa\nHost *\n  ProxyCommand " + run,
            "deeplearning_number": 1,
            "deeplearning_hostname": "deeplearning-master",
            "deeplearning_private_ip": "203.0.113.66",
            "deeplearning_nodes": {},
            "ssh_trust_principals": ["i-0aaa", "deeplearning-master", "deeplearning-worker3", "anything.example.com"],
            "ssh_trust_validity_days": 36500,
            "deeplearning_ssh_directory": str(controller.home / ".ssh"),
            "ssh_trust_jump_host": run,
            "training_job_source": str(controller.home / ".aws"),
            "training_job_script": "credentials",
            "training_job_report_directory": str(controller.home / ".ssh"),
            "training_job_name": "../../x",
            "dataset_source": str(controller.home / ".aws"),
            "ansible_ssh_common_args": f"-o ProxyCommand={run}",
            "ansible_python_interpreter": run,
            "groups": {"trainers": []},
            "deeplearning_state": "absent",
        },
        "add_host": {"host_name": "evil", "groups": ["trainers"], "host_vars": {"ansible_connection": "local"}},
        "warnings": [ESCAPE + "a warning"],
        "_ansible_no_log": True,
        "after": ESCAPE,
    }


def certificates(controller: Controller) -> dict[str, str]:
    """Return the certificates of every host as `ssh-keygen -L` shows them, with key IDs and principals."""
    show = "sudo find /etc/ssh/deeplearning -name '*-cert.pub' -exec ssh-keygen -L -f {} \\;"
    return {host: controller.on(host, show) for host in (*HOSTILE, HONEST)}


def check_certificates(controller: Controller) -> None:
    own = {"demo-master": ("worker1", "deeplearning-master"), "demo-worker2": ("worker2",), "demo-worker3": ("worker3",)}
    for host, text in certificates(controller).items():
        others = {name for each, names in own.items() if each != host for name in names}
        assert not [name for name in (*others, "anything.example.com", "36500", "i-0aaa") if name in text], (host, text)


PLAYBOOKS = {
    "configure.yml": {},
    "train.yml": {"training_job_name": "second"},
    "status.yml": {},
    "events.yml": {},
    "logs.yml": {"training_job_name": "honest"},
    "stop.yml": {"training_job_name": "honest"},
    "report.yml": {"training_job_name": "honest", "training_job_report_directory": "reports"},
    "health.yml": {},
    "all_reduce.yml": {},
    "provision.yml": {},
}
# The playbooks that make the most use of results from nodes. The tests of the other playbooks run only in `make test-all`.
ALWAYS = ("train.yml", "provision.yml")


@pytest.mark.parametrize("playbook", [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.exhaustive) for name in PLAYBOOKS])
def test_facts_in_answers_change_nothing(hostile, playbook):
    """The results of hostile nodes contain variables.

    Before playbooks that configure hosts, the test removes the certificates, so that the controller signs new certificates.
    """
    signs = playbook in ("configure.yml", "train.yml")
    lie(hostile, facts(hostile))
    for host in HOSTILE if signs else ():
        hostile.on(host, REMOVE_CERTIFICATES)
    before = hostile.files()
    done = hostile.play(playbook, **PLAYBOOKS[playbook])
    hostile.check_untouched(before)
    if playbook != "provision.yml":
        told = " ".join(done.stdout.split())
        assert "demo-master: " in told
        assert "ansible_facts" in told
        assert "Check the host" in told
    if playbook == "configure.yml":
        assert done.returncode == 0, done.stdout
    if signs:
        check_certificates(hostile)


@pytest.mark.parametrize(
    ("playbook", "lies"),
    [
        pytest.param("train.yml", {"host": {"name": "deeplearning-worker3", "number": 3}}, marks=pytest.mark.exhaustive),
        ("train.yml", {"job_state": "running", "host": "evil"}),
        pytest.param(
            "train.yml",
            {"unsigned": {"host": {"public_key": "ssh-ed25519 AAAA\nssh-ed25519 BBBB", "reason": ESCAPE}}, "changed": True},
            marks=pytest.mark.exhaustive,
        ),
        pytest.param("status.yml", {"jobs": {"name": "x; touch {marker}", "state": [ESCAPE, 1, None]}}, marks=pytest.mark.exhaustive),
        pytest.param("status.yml", {"jobs": [[], None, {"name": 1}]}, marks=pytest.mark.exhaustive),
        ("status.yml", {"failed": True, "msg": ESCAPE * 1000 + "\n[ERROR]: everything is lost"}),
        ("logs.yml", {"jobs": {"logs": [{"name": ESCAPE, "path": ESCAPE, "lines": [ESCAPE], "left_out": "1"}]}}),
        ("health.yml", {"findings": [{"check": ESCAPE, "severity": "replace", "message": "{{ lookup('pipe', 'touch {marker}') }}"}]}),
        ("report.yml", {"report": {"job": {"name": "<script>", "directory": "/etc", "processes": 7}, "progress": None}}),
    ],
)
def test_answers_that_are_none_end_in_a_sentence(hostile, playbook, lies):
    lies = json.loads(json.dumps(lies).replace("{marker}", str(hostile.marker)))
    lie(hostile, lies)
    for host in HOSTILE if "unsigned" in lies else ():
        hostile.on(host, REMOVE_CERTIFICATES)
    before = hostile.files()
    done = hostile.play(playbook, **{**PLAYBOOKS[playbook], **({"training_job_name": "third"} if playbook == "train.yml" else {})})
    hostile.check_untouched(before)
    assert done.returncode != 0 or playbook == "logs.yml", done.stdout
    assert "demo-" in done.stdout.partition("PLAY RECAP")[0]
    check_certificates(hostile)


def test_the_honest_node_goes_on_working(hostile):
    assert hostile.on(HONEST, "hostname").strip()
    assert os.path.isdir(hostile.home / ".aws")
