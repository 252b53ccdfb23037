"""Nodes that return the results that a test specifies."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import ansible_commands
import yaml

# Modules that run on nodes, with valid arguments for each.
ON_NODES = {
    "dataset": {"source": "s3://bucket/data", "directory": "/efs/datasets", "state": "examined"},
    "idle_reports": {"state": "absent"},
    "munge_key": {"state": "absent"},
    "node_configuration_info": {"ssh_trust": {}, "shared_storage": {}, "worker_metadata": {}},
    "node_health": {"user": "ubuntu"},
    "node_logs_export": {"name": "bert-worker2", "destination": "s3://results"},
    "node_setup": {"steps": [{"command": "true"}]},
    "python_environment": {"name": "bert", "directory": "/efs/environments"},
    "python_environment_cleanup": {"directory": "/efs/environments", "pythons": []},
    "queued_jobs": {"queue": "slurm", "names": ["digits"], "state": "read"},
    "sge": {"component": "node", "state": "absent"},
    "sge_drain": {"nodes": ["bert-worker3"]},
    "sge_info": {},
    "shared_storage": {"file_system_id": "fs-0123456789abcdef0", "region": "us-east-1", "path": "/efs", "owner": "ubuntu"},
    "slurm": {"component": "node", "state": "absent"},
    "slurm_drain": {"nodes": ["bert-worker3"]},
    "slurm_info": {},
    "ssh_trust": {"cluster": "bert", "user": "ubuntu", "authority": "ssh-ed25519 AAAA", "principals": ["i-0bbb"]},
    "training_job": {"name": "digits-1", "state": "stopped"},
    "training_job_cleanup": {"directory": "/efs/jobs"},
    "training_job_export": {"name": "digits-1", "directory": "/efs/jobs"},
    "training_job_info": {"directory": "/efs/jobs"},
    "training_job_report": {"name": "digits-1", "directory": "/efs/jobs", "dest": "report.html"},
    "training_job_status": {"directory": "/efs/jobs"},
    "training_job_logs": {"name": "digits-1", "directory": "/efs/jobs"},
    "training_job_wait": {"name": "digits-1", "directory": "/efs/jobs"},
    "worker_metadata": {"cluster": "bert", "number": 2, "workers": [], "user": "ubuntu"},
}


class Nodes:
    """Plays against nodes whose Python always prints the result that the test specifies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "ansible.cfg").write_text("[defaults]\nlocalhost_warning = false\n")

    def run(self, tasks: list[dict], *answers: object, inject: bool = False, is_honest: bool = False) -> subprocess.CompletedProcess[str]:
        """Run the tasks on one node per answer: worker 2, worker 3 and so on. Honest nodes run the real modules."""
        hosts = {f"bert-worker{number}": self.node(number, answer) for number, answer in enumerate(answers, 2)}
        for host in hosts.values() if is_honest else ():
            del host["ansible_python_interpreter"]
        return self.play([{"hosts": "trainers", "gather_facts": False, "tasks": tasks}], hosts, inject=inject)

    def play(
        self, plays: list[dict], hosts: dict[str, dict[str, object]], inject: bool = False, search: Sequence[Path] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run the plays with these nodes. Programs in the directories of `search` come first."""
        inventory, book = self.folder / "inventory.yml", self.folder / "play.yml"
        inventory.write_text(yaml.safe_dump({"trainers": {"hosts": hosts}}))
        book.write_text(yaml.safe_dump(plays))
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "true",
            "ANSIBLE_INJECT_FACT_VARS": str(inject),
            "PATH": os.pathsep.join([*map(str, search), str(Path(sys.executable).parent), "/usr/bin", "/bin"]),
        }
        command = ["ansible-playbook", "-i", str(inventory), str(book)]
        return ansible_commands.run(command, environment, self.folder, errors="replace")

    def program(self, name: str, text: str) -> str:
        """Write a shell script, and return its path."""
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    def node(self, number: int, answer: object) -> dict[str, object]:
        """Return the variables of a node whose interpreter prints the answer, and adds its input to what `received` returns."""
        text = self.folder / f"answer{number}"
        text.write_text(answer if isinstance(answer, str) else json.dumps(answer))
        reads = f"cat {shlex.quote(str(text))}\ncat >>{shlex.quote(str(self.folder / f'received{number}'))}"
        return {
            "ansible_connection": "local",
            "ansible_python_interpreter": self.program(f"python{number}", reads),
            "deeplearning_cluster": "bert",
            "deeplearning_number": number,
            "deeplearning_hostname": f"deeplearning-worker{number}",
            "deeplearning_private_ip": f"10.0.0.{number}",
            "deeplearning_instance_id": f"i-0bb{number}",
        }

    def received(self, number: int) -> str:
        """Return the modules and the arguments that a node has received."""
        path = self.folder / f"received{number}"
        return path.read_text() if path.exists() else ""
