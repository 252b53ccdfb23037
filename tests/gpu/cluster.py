"""Hosts that share this machine's GPU, and methods that run plays and jobs on them."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
import time
from pathlib import Path

import yaml

from .hosts import USER

ROOT = Path(__file__).resolve().parents[2]
# A Python with torch, JAX and mpi4py.
PYTHON = os.environ.get("GPU_PYTHON", "/opt/pytorch/bin/python")


class Cluster:
    """Hosts in a hand-written inventory, as roles/training_job/README.md describes them. `storage` is the folder that they share."""

    def __init__(self, folder, hosts):
        self.folder, self.hosts, self.storage = folder, hosts, folder / "hosts" / "efs"
        self.inventory = folder / "hosts.yml"
        entries = {
            host.name: {
                "ansible_host": host.address,
                "deeplearning_private_ip": host.address,
                "deeplearning_hostname": host.name,
                "deeplearning_number": number,
            }
            for number, host in enumerate(hosts, 1)
        }
        shared = {
            "ansible_user": USER,
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_ssh_private_key_file": str(hosts[0].key),
            "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
            "deeplearning_cluster": "gpu",
            "deeplearning_mount_point": "/efs",
            "training_job_python": PYTHON,
        }
        self.inventory.write_text(yaml.safe_dump({"trainers": {"hosts": entries, "vars": shared}}))

    def play(self, *arguments, timeout=240):
        began = time.monotonic()
        done = subprocess.run(
            ["ansible-playbook", "-i", str(self.inventory), *arguments],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        print(f"{' '.join(arguments)}: exit status {done.returncode} after {time.monotonic() - began:.1f} s\n{done.stdout}")
        return done

    def roles(self, name, *roles, **variables):
        """Run roles on all hosts."""
        play = {"hosts": "trainers", "gather_facts": False, "vars": variables, "roles": [f"deeplearning.cluster.{role}" for role in roles]}
        path = self.folder / f"{name}.yml"
        path.write_text(yaml.safe_dump([play]))
        return self.play(str(path))

    def train(self, name, script, **options):
        """Run a job with a script of the repository, which is given as a path, or with the text of a script."""
        if "\n" in script:
            path = self.folder / f"{name}.py"
            path.write_text(textwrap.dedent(script))
            script = str(path)
        else:
            options["source"], script = str(ROOT / Path(script).parent), Path(script).name
        variables = {f"training_job_{key}": value for key, value in {"name": name, "script": script, **options}.items()}
        return self.roles(name, "training_job", **variables)

    def read(self, path, host=0):
        return self.hosts[host].ssh(f"cat /efs/jobs/{path}")

    def info(self, name, host=0):
        command = ["ansible", self.hosts[host].name, "-i", str(self.inventory), "-m", "deeplearning.cluster.training_job_info"]
        output = subprocess.run(
            [*command, "-a", f"name={name} directory=/efs/jobs goodput=never"],
            env={**os.environ, "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        found = json.loads(output[output.index("{") :])["jobs"][0]
        print(json.dumps({key: found[key] for key in ("state", "attempt", "attempts")}, indent=1))
        return found
